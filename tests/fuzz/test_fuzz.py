"""A short run of the fuzzer, and that its properties can fail. The long run: `run.py`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cannery.errors import ModelError
from cannery.execution.program import NetworkProgram
from cannery.ir.evaluate import evaluate
from cannery.ir.graph import GraphBuilder
from cannery.ir.tensor import DType
from cannery.ops.conv.op import Conv
from cannery.ops.quantize.linear import DequantizeLinear
from cannery.ops.quantized.scale import Quantize
from cannery.ops.resize.op import Resize
from cannery.target.runner import Runner
from frontends.keras_files import LayerSpec, chain, image, write_h5
from fuzz import check, run
from fuzz.cases import Case, read_case
from fuzz.making import KINDS, make_case
from needs import need_program, need_toolchain

#: Cases of each kind.
SHORT = {"onnx": 130, "node": 30, "keras": 70, "record": 30, "audio": 60, "tflite": 60, "trees": 60}

#: Every this many cases, one also goes to the command, or runs.
COMMANDS, RUNS = 10, 12


@pytest.mark.parametrize("kind", KINDS)
def test_every_case_is_refused_in_a_line_or_compiled(
    kind: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Most have to come past the import, or little is tried."""
    stages: Counter[str] = Counter()

    @settings(max_examples=SHORT[kind], derandomize=True, database=None)
    @given(st.integers(0, 2**32))
    def each(seed: int) -> None:
        random = Random(seed)
        folder = tmp_path_factory.mktemp("case")
        case = make_case(random, kind)
        stages[check.try_case(case, folder / "case").stage] += 1
        if seed % COMMANDS == 0:
            check.try_command(case, folder / "command")

    each()
    refused = stages["options"] + stages["import"]
    assert stages["accepted"] and refused < 0.6 * sum(stages.values()), stages


@pytest.mark.parametrize("kind", ["onnx", "keras", "audio", "tflite", "trees"])
def test_networks_compute_what_the_model_says(kind: str, tmp_path: Path) -> None:
    need_program("ninja", "ninja-build")
    need_toolchain("native")
    ran = 0
    for seed in range(RUNS):
        case = make_case(Random(seed), kind)
        ran += check.try_case(case, tmp_path / str(seed), run=True).stage == "run"
    assert ran >= RUNS / 4


def _case(seed: int = 1) -> Case:
    """A case that is accepted, with nothing but an instruction set."""
    for number in range(seed, seed + 50):
        case = make_case(Random(number), "onnx")
        if case.origin == "onnx: " and len(case.options) == 1:
            return Case(case.model, case.files, {"isa": ("generic",)}, case.origin)
    raise AssertionError


def test_a_wrong_result_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    need_program("ninja", "ninja-build")
    need_toolchain("generic")
    right = NetworkProgram.run

    def wrong(self: NetworkProgram, runner: Runner) -> list[dict[str, Any]]:
        return [{name: _off(y) for name, y in outputs.items()} for outputs in right(self, runner)]

    floats = _case(100)  # whose outputs nothing rounds
    assert check.try_case(floats, tmp_path / "right", run=True).stage == "run"
    monkeypatch.setattr(NetworkProgram, "run", wrong)
    with pytest.raises(check.Finding, match="output"):
        check.try_case(floats, tmp_path / "wrong", run=True)


def _off(y: Any) -> Any:
    """One element is a hundredth of the largest off, or another integer."""
    found = np.array(y)
    largest = np.abs(found).max(initial=1) if found.dtype.kind == "f" else 0
    found.reshape(-1)[0] += found.dtype.type(0.01 * largest if largest else 1)
    return found


def test_sums_that_may_overflow_on_the_way_prove_nothing(tmp_path: Path) -> None:
    """A softmax of 1e38 or so is finite in float64, and NaN where a partial sum was infinite."""
    need_program("ninja", "ninja-build")
    need_toolchain("generic")
    weights = {"kernel": np.full((3, 7), 3e38, np.float32), "bias": np.zeros(7, np.float32)}
    layer = LayerSpec("Dense", "d", (), {"units": 7, "activation": "softmax"}, weights)
    model = write_h5(tmp_path / "net.h5", chain(image("x", 8, 3), layer))
    case = Case("net.h5", {"net.h5": model.read_bytes()}, {"isa": ("generic",)}, "")
    assert check.try_case(case, tmp_path / "case", run=True).stage == "run"


@pytest.mark.parametrize("value", [1.0, np.nan, 1e35])
def test_sums_that_may_be_nan_prove_nothing(value: float) -> None:
    """Zeros of other groups may be multiplied by NaN, and products overflow before they cancel."""
    b = GraphBuilder("net")
    weight = b.constant("w", np.ones((1, 1, 1, 2), np.float32))
    conv = Conv((1, 1), ((0, 0), (0, 0)), (1, 1), group=2)
    b.output(b.node(conv, [b.input("x", (1, 3, 3, 2)), weight], name="y"))
    graph, sample = b.build(), {"x": np.ones((1, 3, 3, 2))}
    sample["x"][..., 0] = value
    found = {graph.outputs[0]: np.full((1, 3, 3, 2), np.nan, np.float32)}
    if value == 1.0:
        with pytest.raises(check.Finding, match="off by nan"):
            check._compare(graph, sample, found, 1e-4)
    else:
        check._compare(graph, sample, found, 1e-4)


def test_means_half_way_between_two_integers_are_either() -> None:
    """The last bit of an interpolation decides, as of any sum."""
    b = GraphBuilder("net")
    op = Resize("linear", (1, 16), "asymmetric", "floor", scales=(1.0, 2.0))
    parts = [b.constant("scale", np.float32(1)), b.constant("zero", np.int16(0))]
    x = b.input("x", (1, 1, 8, 1), DType.INT16)
    wide = b.node(op, [b.node(DequantizeLinear(), [x, *parts], name="floats")], name="wide")
    b.output(b.node(Quantize(32767), [wide, parts[0]], name="y"))
    graph = b.build()
    sample = {"x": np.arange(1, 9, dtype=np.int16).reshape(1, 1, 8, 1) * 1001}
    (name,) = graph.outputs
    right = evaluate(graph, sample)[name]
    for place, steps, passes in ((1, 1, True), (2, 9, False)):
        found = right.copy()
        found[0, 0, place, 0] += steps
        with nullcontext() if passes else pytest.raises(check.Finding, match="1 of 16"):
            check._compare(graph, sample, {name: found}, 1e-4)


@pytest.mark.parametrize("error", [ModelError("what"), ModelError("a" * 5000, where="w")])
def test_an_unclear_error_is_found(
    error: ModelError, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(options: object) -> None:
        raise error

    monkeypatch.setattr(check, "compile_model", refuse)
    with pytest.raises(check.Finding, match="what and where"):
        check.try_case(_case(), tmp_path)


def test_a_half_written_folder_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def invoke(words: Mapping[int, str]) -> int:
        (Path(words[3]) / "cannery").mkdir(parents=True)
        return 2

    monkeypatch.setattr(check, "invoke", invoke)
    with pytest.raises(check.Finding):
        check.try_command(_case(), tmp_path)


def test_a_case_that_was_saved_is_the_same(tmp_path: Path) -> None:
    for kind in KINDS:
        case = make_case(Random(5), kind)
        assert case == make_case(Random(5), kind)
        case.write(tmp_path / kind)
        assert read_case(tmp_path / kind) == case


def test_a_finding_is_kept_when_the_next_case_has_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise check.Finding("what")

    monkeypatch.setattr(check, "try_case", fail)
    for limit in ("_limit_memory", "_limit_time"):
        monkeypatch.setattr(run, limit, lambda: None)
    run.work(tmp_path / "work", 5, 2, "keras", 0.0)
    campaign = run.Campaign(tmp_path / "findings", "keras", 0.0)
    campaign.keep(5, "what", tmp_path / "work")
    assert read_case(tmp_path / "findings" / "001-5") == make_case(Random(5), "keras")
