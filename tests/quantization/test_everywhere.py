"""`--same-everywhere` refuses what processors may disagree about, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cannery.cli import invoke
from cannery.errors import OptionError
from cannery.options import make_options
from cannery.pipeline import import_graph
from frontends.keras_files import write_h5
from frontends.onnx_models import floats, model, node, write
from quantization.bits import assert_every_bit
from quantization.networks import camera, layers, normalised, resets, residual, written
from quantization.test_floats import mixed
from quantization.test_qdq import camera as stored_camera

ON = {"same_everywhere": True}


def refusal(file: Path, **options: Any) -> str:
    """What is said of a network; empty if it is accepted."""
    try:
        import_graph(make_options(file, {**ON, **options}))
    except OptionError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("io_type", ["model", "raw"])
def test_integers_are_the_same_everywhere(tmp_path: Path, io_type: str) -> None:
    for make in (camera, layers, normalised, residual, resets):
        file, options = written(tmp_path, make())
        assert refusal(file, **options, io_type=io_type) == ""


def test_the_layers_are_named(tmp_path: Path) -> None:
    file, options = written(tmp_path, mixed())
    said = refusal(file, **options)
    assert said == (
        "--same-everywhere: last bits may differ between processors: 'two' (its activation (Relu) "
        "has no table) (end the network before them with --outputs, or leave it out)"
    )
    assert refusal(file, **options, outputs=("one",)) == ""


def test_a_network_of_floats(tmp_path: Path) -> None:
    said = refusal(write_h5(tmp_path / "net.h5", mixed()))
    assert "'one', 'two', 'scores'" in said or "(the model has it in floats)" in said
    assert "quantise the network: --quantize int16 or int8" in said


def test_a_network_that_is_stored_as_integers(tmp_path: Path) -> None:
    file = write(tmp_path / "net.onnx", stored_camera())
    said = refusal(file)
    assert "'y' (the model has it in floats)" in said and "--outputs" in said
    assert refusal(file, outputs=("g",)) == ""
    for outputs, same in (((), False), (("g",), True)):
        words = [f"--outputs={name}" for name in outputs]
        folder = tmp_path / f"out{len(outputs)}"
        assert invoke(["compile", str(file), "-o", str(folder), "--isa", "generic", *words]) == 0
        assert json.loads((folder / "net.json").read_text())["same_everywhere"] is same


@pytest.mark.parametrize(
    ("nodes", "differing"),
    [
        ([("Add", "x", "w"), ("Mul", "a", "w"), ("Div", "b", "w"), ("Sqrt", "c")], ""),
        # The input may hold -0: of two zeros x86 and Arm pick different ones.
        ([("Relu", "x")], "'y'"),
        ([("Neg", "x"), ("Max", "a", "w")], "'y'"),
        # No sum with a number that is not -0 is -0.
        ([("Add", "x", "w"), ("Relu", "a")], ""),
        ([("Relu", "x"), ("Add", "a", "w")], "'a'"),
        ([("Exp", "x"), ("Relu", "a")], "'a'"),
    ],
)
def test_operators(tmp_path: Path, nodes: list[tuple[str, ...]], differing: str) -> None:
    names = [*"abcd"[: len(nodes) - 1], "y"]
    made = [node(op, list(given), [name]) for (op, *given), name in zip(nodes, names, strict=True)]
    weights = {"w": np.abs(floats(5)) + 1}
    file = write(tmp_path / "net.onnx", model(made, {"x": [1, 5]}, ["y"], weights=weights))
    said = refusal(file)
    assert (said == "") == (differing == "")
    assert differing in said


def test_integers_have_no_signs_of_zeros(tmp_path: Path) -> None:
    nodes = [node("Relu", ["x"], ["a"]), node("QuantizeLinear", ["a", "s", "z"], ["y"])]
    weights = {"s": np.float32(0.1), "z": np.uint8(3)}
    file = write(tmp_path / "net.onnx", model(nodes, {"x": [1, 5]}, ["y"], weights=weights))
    assert refusal(file) == ""


def test_no_command_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No file is written, and nothing is measured."""
    file = write_h5(tmp_path / "net.h5", layers())
    for command in (["compile", "-o", str(tmp_path / "out")], ["autotune"], ["verify"]):
        assert invoke([*command, str(file), "--same-everywhere"]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert "last bits may differ between processors" in line
    assert [path.name for path in tmp_path.iterdir()] == ["net.h5"]


@pytest.mark.parametrize("isa", ["avx2", "neon64"])
def test_normalisation_in_floats_has_the_same_bits(tmp_path: Path, isa: str) -> None:
    file, options = written(tmp_path, normalised())
    assert refusal(file, **options) == ""
    assert_every_bit(file, Path(options["calibration"]), "int16", isa)
