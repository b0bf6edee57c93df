"""Layers that differ only in their constants: one function on small cores, the same bits."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cannery import pipeline
from cannery.cli import invoke
from cannery.ctext.arrays import WeightBlob
from cannery.emit.sharing import shared_kernels
from cannery.emit.steps import Call
from cannery.execution.guarantees import guarantees
from cannery.execution.program import network_program
from cannery.execution.samples import seeded_samples
from cannery.execution.sizes import library_sections, network_size
from cannery.options import make_options
from cannery.pipeline import Compiled, compile_model
from cannery.target.isa import isa
from cannery.target.toolchain import Toolchain
from emit.c_programs import compile_file, write_all
from frontends.keras_files import LayerSpec, Model, image, layer
from needs import need_runner, need_toolchain
from quantization.networks import conv, dense, integers, retrained, write

NOTHING = WeightBlob("net_weights", b"", ())


def repeating() -> Model:
    """Convolutions of one shape, each kind and dense layers too, all with weights of their own."""
    rng = np.random.default_rng(3)
    layers: list[LayerSpec] = [image("x", 9, 8, 3), conv("conv_0", "x", 3, 6)]
    for k in range(1, 4):
        values = {"depthwise_kernel": rng.standard_normal((3, 3, 6, 1)).astype(np.float32) / 3,
                  "bias": rng.standard_normal(6).astype(np.float32) / 5}  # fmt: skip
        depth = {"kernel_size": [3, 3], "padding": "same", "activation": "relu"}
        layers.append(
            LayerSpec("DepthwiseConv2D", f"depth_{k}", [[f"conv_{k - 1}"]], depth, values)
        )
        layers.append(conv(f"conv_{k}", f"depth_{k}", 6, 6))
    layers.append(layer("GlobalAveragePooling2D", "mean", "conv_3"))
    for k, before in enumerate(("mean", "dense_0", "dense_1")):
        layers.append(replace(dense(f"dense_{k}", 6, 6, "relu"), calls=[[before]]))
    return retrained(Model("net", layers, ["x"], ["dense_2"]))


def built(
    folder: Path, target: str, how: str, monkeypatch: pytest.MonkeyPatch, *, share: bool
) -> tuple[Compiled, Toolchain]:
    model, samples = write(folder, repeating())
    raw: dict[str, Any] = integers(samples, how) if how != "float32" else {}
    options = make_options(model, {"target": target, "name": "net", **raw})
    with monkeypatch.context() as patch:
        if not share:
            patch.setattr(pipeline, "shared_kernels", lambda calls, *_: calls)
        return compile_model(options), need_toolchain(target)


def outputs(found: Compiled, toolchain: Toolchain) -> bytes:
    runner = need_runner(toolchain, strict=True)
    samples = seeded_samples(found.source.graph, 2)
    with network_program(found.source, found.files, toolchain, samples) as program:
        return b"".join(y.tobytes() for each in program.run(runner) for y in each.values())


@pytest.mark.parametrize(
    ("target", "how", "functions"),
    [
        ("cortex-m4", "int8", 3),
        ("cortex-m55", "int8", 3),
        pytest.param("cortex-m4", "float32", 3, marks=pytest.mark.slow),
        pytest.param("riscv32imc", "int16", 3, marks=pytest.mark.slow),
    ],
)
def test_the_same_bits_of_less_code(
    target: str, how: str, functions: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A function for each kind of layer."""
    toolchain = need_toolchain(target)
    shared, _ = built(tmp_path, target, how, monkeypatch, share=True)
    apart, _ = built(tmp_path, target, how, monkeypatch, share=False)
    text = shared.files["net.c"][:].decode()
    assert text.count("_shared(") == text.count("others share") + functions
    assert text.count("others share") >= 2 * functions
    assert "_shared" not in apart.files["net.c"][:].decode()
    assert outputs(shared, toolchain) == outputs(apart, toolchain)
    sizes = []
    for number, found in enumerate((shared, apart)):
        place = tmp_path / str(number)
        place.mkdir()
        sizes.append(library_sections(place, found.source, found.files, toolchain)[0])
    assert sizes[0].code < 0.8 * sizes[1].code
    assert sizes[0].constants <= sizes[1].constants


def test_counts_say_which_steps_share_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    need_runner(need_toolchain("cortex-m4"), strict=True)
    model, samples = write(tmp_path, repeating())
    given = ["--quantize", "int8", "--calibration", str(samples)]
    assert invoke(["count", str(model), "--target", "cortex-m4", *given, "--json"]) == 0
    steps = json.loads(capsys.readouterr().out)["steps"]
    others = {k: step["counted_in"] for k, step in enumerate(steps) if "counted_in" in step}
    assert len({*others.values()}) == 3
    for k, owner in others.items():
        assert steps[k]["mix"]["instructions"] < 20 < steps[owner]["mix"]["instructions"]
    assert invoke(["count", str(model), "--target", "cortex-m4", *given]) == 0
    told = capsys.readouterr().out
    assert all(f"Step {owner} includes" in told for owner in others.values())


@pytest.mark.parametrize("language", ["c99 gcc", "c++11 g++"])
def test_it_is_silent_under_strict_warnings(
    language: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, _ = built(tmp_path, "cortex-m3", "int8", monkeypatch, share=True)
    assert "_shared(" in found.files["net.c"][:].decode()
    write_all(tmp_path, {name: data[:] for name, data in found.files.items()})
    compile_file(tmp_path, "net.c", language)


def calls(monkeypatch: pytest.MonkeyPatch, folder: Path) -> tuple[Call, ...]:
    """The steps of the network, before anything is shared."""
    found, _ = built(folder, "cortex-m3", "int8", monkeypatch, share=False)
    return found.source.calls


def common(found: tuple[Call, ...], name: str = "thumbdsp", blob: WeightBlob = NOTHING) -> int:
    """How many functions some of the steps share."""
    text = "".join(call.kernel.code for call in shared_kernels(found, blob, isa(name)))
    return text.count("_shared(") - text.count("others share")


def test_what_would_mean_something_else_is_not_shared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Macros, sizes of arrays, constants of unknown type, functions with a turn."""
    found = calls(monkeypatch, tmp_path)
    count = common(found)
    assert count == 3
    few = replace(isa("generic"), integer_registers=8)  # dense layers need them for sums
    assert shared_kernels(found[-3:], NOTHING, few) == found[-3:]
    assert shared_kernels(found[1:7], NOTHING, few) != found[1:7]

    def changed(old: str, new: str) -> tuple[Call, ...]:
        return tuple(
            replace(c, kernel=replace(c.kernel, code=c.kernel.code.replace(old, new)))
            for c in found
        )

    assert common(changed("static void", "#define A 1\nstatic void")) == 0
    assert common(changed("{\n", "{\n    (void)sizeof(int);\n")) == 0
    assert common(changed("{\n", "{\n    int own_w = 0;\n")) == 0
    assert common(changed("{\n", "{\n    static const int a = 0;\n")) == 0
    without = tuple(replace(c, kernel=replace(c.kernel, constants=())) for c in found)
    assert common(without) == 0
    types = [(k.name, "int8_t", 0) for c in found for k in c.kernel.constants]
    assert common(without, blob=WeightBlob("w", b"", tuple(types))) == count
    turning = tuple(replace(c, kernel=replace(c.kernel, turns=True)) for c in found)
    assert common(turning) == 0
    aliased = tuple(replace(c, aliases=(("a", "b"),)) for c in found)
    assert common(aliased) == 0


def test_an_image_without_a_border_shares_what_others_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its rows begin at 0, which the code does not say."""
    found = calls(monkeypatch, tmp_path)
    first, second = (c for c in found if c.planned.step.name[:6] in ("conv_1", "conv_2"))
    code = re.sub(r"yr = y \+ \(oh \* (\d+) \+ \d+\)", r"yr = y + (oh * \1)", second.kernel.code)
    assert code != second.kernel.code
    second = replace(second, kernel=replace(second.kernel, code=code))
    assert common((first, second)) == 1
    few = replace(isa("generic"), integer_registers=8)
    assert shared_kernels((first, second), NOTHING, few) == (first, second)


def test_the_stack_of_shared_code_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What `cannery size` says is at least what the machine code may take."""
    found, toolchain = built(tmp_path, "cortex-m4", "int8", monkeypatch, share=True)
    runner = need_runner(toolchain, strict=True)
    size = network_size(found.source, found.files, toolchain)
    sheet = guarantees(found.source, found.files, toolchain, runner, 1)
    certain = next(bound.bytes for bound in sheet.stack if bound.function == "net_run_in")
    assert certain <= size.stack < 2 * certain
