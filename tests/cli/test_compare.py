"""`cannery compare`: every layer against its expected value, from a program or a library's dump."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import click.testing
import numpy as np
import pytest

from cannery.cli import cli, invoke
from cannery.emit.values import dump_header, seen_values
from cannery.execution.dump import Shown
from cannery.execution.program import network_program
from cannery.execution.samples import seeded_samples
from cannery.frontends import load_graph
from cannery.ir.evaluate import evaluate_all
from cannery.layouts import pack
from cannery.options import make_options
from cannery.pipeline import compile_model, import_graph
from cannery.reporting import frameworks
from cannery.reporting.layerwise import compare_values, make_judge
from cannery.resources import ball_example_dir
from needs import need_program, need_runner, need_toolchain

BALL = ball_example_dir() / "ball.h5"


def compare(*arguments: str | Path) -> tuple[int, Any]:
    """The exit code and the JSON of `cannery compare`."""
    words = ["compare", *(str(argument) for argument in arguments), "--json"]
    done = click.testing.CliRunner().invoke(
        cli, words, catch_exceptions=False, standalone_mode=False
    )
    return int(done.return_value or 0), json.loads(done.stdout)


@pytest.mark.parametrize(
    "given",
    [
        ("--isa", "generic"), ("--target", "aarch64-a72"), ("--target", "cortex-m7"),
        ("--batch", "2", "--input-dtype", "image=uint8", "--scale", "0.01", "--io-layout", "nhwc"),
        ("--quantize", "int8", "--calibration", "samples.npz"),
        ("--many", "4", "--parallel", "--split", "2", "--input-view", "image"),
    ],
    ids=lambda given: given[-1],
)  # fmt: skip
def test_all_layers_are_right(
    given: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    need_program("ninja")
    if "--target" in given:
        need_runner(need_toolchain(given[1]))
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    np.savez("samples.npz", image=rng.standard_normal((8, 16, 16, 1)).astype(np.float32))
    code, found = compare(BALL, *given, "-o", "values.npz")
    assert code == 0 and found["passed"] and found["first"] is None
    names = [row["value"] for row in found["values"]]
    assert names[-1] == "scores" and len(names) > 5
    assert all(row["error"] < 1e-5 for row in found["values"])
    assert {"conv_1", "conv_2"} <= {*found["unseen"]}
    assert np.load("values.npz")["scores"].shape[0] % 4 == 0


def write_dump(path: Path, change: dict[str, float]) -> None:
    """A dump of two runs of the example, right except for the first element of some values."""
    source = compile_model(make_options(BALL, {"isa": "generic", "dump_values": True})).source
    seen = seen_values(source)
    lines = "".join(f"{line}\n" for line in dump_header(source, seen))
    data = b"CANNERY-DUMP 1\n" + lines.encode() + b"\n"
    for run, sample in enumerate(seeded_samples(source.graph, 2)):
        values = evaluate_all(source.graph, sample)
        data += (-1).to_bytes(4, "little", signed=True) + bytes(8)
        for number, value in enumerate(seen):
            array = values[value.value].astype(value.type.dtype.numpy)
            if run == 1 and value.value in change:
                array.flat[1] = change[value.value]
            shape = value.layout.shape
            memory = pack(array.reshape(shape), value.layout).tobytes().ljust(value.bytes, b"\0")
            data += number.to_bytes(4, "little") + len(memory).to_bytes(8, "little") + memory
    path.write_bytes(data)


@pytest.mark.parametrize("wrong", [1e4, float("nan")])
def test_the_first_deviation_is_named(tmp_path: Path, wrong: float) -> None:
    path = tmp_path / "run.dump"
    write_dump(path, {})
    code, found = compare(BALL, "--dump", path)
    assert code == 0 and found["passed"]
    write_dump(path, {"conv_3": 7.0, "pool_1": wrong})
    code, found = compare(BALL, "--dump", path)
    first = found["first"]
    assert code == 1 and not found["passed"]
    assert (first["value"], first["kind"]) == ("pool_1", "MaxPool")
    assert first["step"].startswith("ball_L0")
    assert (first["worst"]["sample"], first["worst"]["element"]) == (1, [0, 0, 0, 1])
    assert first["worst"]["found"] == pytest.approx(wrong, nan_ok=True)
    assert first["worst"]["expected"] < 100
    deviating = [row["value"] for row in found["values"] if row["deviates"]]
    assert deviating == ["pool_1", "conv_3"]


def test_a_wrong_weight_is_found_in_the_layer_that_has_it() -> None:
    need_program("ninja")
    toolchain = need_toolchain("generic")
    options = make_options(BALL, {"isa": "generic", "dump_values": True})
    compiled = compile_model(options)
    source, text = compiled.source, compiled.files["ball.c"].decode()
    array = re.search(r"static const float ball_L02\w*\[[^{]*\{\s*(-?[0-9.e+-]+f)", text)
    assert array
    wrong = f"{text[: array.start(1)]}9.0f{text[array.end(1) :]}"
    samples = seeded_samples(source.graph, 2)
    files = {**compiled.files, "ball.c": wrong.encode()}
    with network_program(source, files, toolchain, samples) as program:
        runs = program.dump(toolchain.runners()[0])
    shown = [Shown.of(value) for value in seen_values(source)]
    judge = make_judge(load_graph(BALL), load_graph(BALL), source.graph, samples)
    first = compare_values(judge, shown, runs, 1e-4).first
    assert first is not None and (first.value, first.kind) == ("conv_2/relu", "Relu")
    assert first.step == source.calls[2].symbol


def test_it_is_told_in_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_dump(tmp_path / "run.dump", {"conv_3": 7.0})
    assert invoke(["compare", str(BALL), "--dump", str(tmp_path / "run.dump")]) == 1
    told = capsys.readouterr().out
    assert "first deviation: conv_3, a MatMul (ball_L" in told
    assert "sample 1, element [0, 0, 0, 1]: 7, model: " in told
    assert "computed within" in told


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("--outputs", "pool_1"), "of another network"),
        (("--inputs", "one.npz"), "1 samples, the dump has 2 runs"),
        (("--with", "keras", "--input-dtype", "image=uint8"), "keras does not know --input-dtype"),
        (("--dump", "none.dump"), "none.dump"),
        (("-o", "."), "--output"),
    ],
)
def test_errors(
    given: tuple[str, ...], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    write_dump(tmp_path / "run.dump", {})
    np.savez("one.npz", image=np.zeros((1, 16, 16, 1), np.float32))
    assert invoke(["compare", str(BALL), "--dump", "run.dump", *given]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("change", [(b'"pool_1"', b'"pool_9"'), (b'"conv_3"', b'"conv_2"')])
def test_dumps_of_other_values(
    change: tuple[bytes, bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "run.dump"
    write_dump(path, {})
    path.write_bytes(path.read_bytes().replace(*change))
    assert invoke(["compare", str(BALL), "--dump", str(path)]) == 2
    assert f"{change[1].decode().strip(chr(34))!r} is not such a value" in capsys.readouterr().err


def test_what_passes_rearranged_is_compared_with_what_is_compiled() -> None:
    graph = import_graph(make_options(BALL, {}))
    samples = seeded_samples(graph, 1)
    judge = make_judge(load_graph(BALL), load_graph(BALL), graph, samples)
    assert judge.expected("pool_1")[0] == "model"
    twice = [{**judge.compiled[0], "pool_1": 2 * judge.compiled[0]["pool_1"]}]
    assert replace(judge, compiled=twice).expected("pool_1")[0] == "compiled graph"
    other = [{**judge.compiled[0], "scores": 2 * judge.compiled[0]["scores"]}]
    assert replace(judge, compiled=other).expected("scores")[0] == "model"


def test_values_of_a_framework_count_where_it_has_them() -> None:
    source = compile_model(make_options(BALL, {"isa": "generic", "dump_values": True})).source
    samples = seeded_samples(source.graph, 1)
    judge = make_judge(load_graph(BALL), load_graph(BALL), source.graph, samples)
    shown = [Shown.of(value) for value in seen_values(source)]
    run = {k: judge.compiled[0][value.value] for k, value in enumerate(shown)}
    others = [{"pool_1": judge.own[0]["pool_1"] + 1.0}]
    found = compare_values(replace(judge, others=others, title="keras"), shown, [run], 1e-4)
    assert found.first is not None and found.first.value == "pool_1"
    assert [row.value for row in found.rows if row.beside == "keras"] == ["pool_1"]
    assert all(row.error is None for row in found.rows if not row.beside)


def test_layers_of_keras_end_in_their_last_part() -> None:
    last = frameworks._last_values(load_graph(BALL), ["conv_1", "pool_1", "conv_3"])
    assert last == {"conv_1": "conv_1/relu", "pool_1": "pool_1", "conv_3": "conv_3/softmax"}


def test_axes_are_those_in_which_values_fit() -> None:
    reference = np.arange(60.0).reshape(1, 3, 4, 5)
    first = np.moveaxis(reference, -1, 1)
    assert np.array_equal(frameworks._fit(first, reference), reference)  # type: ignore[arg-type]
    cube = np.random.default_rng(0).random((1, 3, 3, 3))
    assert np.array_equal(frameworks._fit(np.moveaxis(cube, -1, 1), cube), cube)  # type: ignore[arg-type]
    assert frameworks._fit(first[:, 1:], reference) is None
    assert frameworks._fit(first.astype(np.int32), reference) is None


@pytest.mark.parametrize("name", ["onnxruntime", "keras"])
def test_frameworks_that_are_not_there(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    assert invoke(["compare", str(BALL), "--isa", "generic", "--with", name]) == 2


def test_onnxruntime(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    onnx = pytest.importorskip("onnx")
    rng = np.random.default_rng(0)
    weights = rng.standard_normal((4, 2, 3, 3)).astype(np.float32)
    nodes = [
        onnx.helper.make_node("Conv", ["x", "w"], ["conv"]),
        onnx.helper.make_node("Relu", ["conv"], ["relu"]),
        onnx.helper.make_node("GlobalAveragePool", ["relu"], ["mean"]),
    ]
    info = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        nodes, "net", [info("x", 1, [1, 2, 8, 8])], [info("mean", 1, [1, 4, 1, 1])],
        [onnx.numpy_helper.from_array(weights, "w")],
    )  # fmt: skip
    opset = onnx.helper.make_opsetid("", 17)
    model = onnx.helper.make_model(graph, opset_imports=[opset], ir_version=8)
    onnx.save(model, tmp_path / "net.onnx")
    code, found = compare(tmp_path / "net.onnx", "--isa", "generic", "--with", "onnxruntime")
    assert code == 0
    assert {"mean"} <= {r["value"] for r in found["values"] if r["beside"] == "onnxruntime"}
    assert invoke(["compare", str(BALL), "--isa", "generic", "--with", "onnxruntime"]) == 2


def test_keras() -> None:
    if importlib.util.find_spec("keras") is None:
        pytest.skip("keras is not installed")
    command = [sys.executable, "-m", "cannery", "compare", BALL, "--isa", "generic", "--json"]
    done = subprocess.run([*command, "--with", "keras"], capture_output=True, check=True, text=True)
    beside = {row["value"]: row["beside"] for row in json.loads(done.stdout)["values"]}
    assert beside["pool_1"] == beside["conv_2/relu"] == beside["scores"] == "keras"
