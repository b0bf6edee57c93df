"""Tensors without elements: nothing is read or written for them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cannery.errors import UnsupportedError
from cannery.options import make_options
from cannery.pipeline import compile_model
from frontends.onnx_models import floats, load, model, node, write
from frontends.onnx_programs import Program, run_programs
from needs import need_program, need_runner, need_toolchain


def test_generated_code_writes_nothing(tmp_path: Path) -> None:
    need_program("ninja", "ninja-build")
    toolchain = need_toolchain("generic")
    flat = model([node("Flatten", ["x"], ["y"], axis=-2)], {"x": [0, 3, 4, 5]})
    parts = model(
        [node("Split", ["x", "n"], ["a", "y"], axis=0), node("Relu", ["y"], ["z"])],
        {"x": [2, 3]}, ["a", "z"], {"n": np.array([2, 0], np.int64)},
    )  # fmt: skip
    cases = [
        Program("flat", load(tmp_path, flat), {"x": floats(0, 3, 4, 5)}),
        Program("parts", load(tmp_path, parts), {"x": floats(2, 3)}),
    ]
    first, second = run_programs(cases, toolchain, need_runner(toolchain))
    assert not first.fault
    assert [y.shape for y in first.outputs] == [(0, 20)]
    assert not second.fault
    assert np.array_equal(second.outputs[0], cases[1].inputs["x"])
    assert second.outputs[1].shape == (0, 3)


@pytest.mark.parametrize("kind", ["ReduceMean", "ReduceL2", "ReduceMax", "ReduceLogSumExp"])
def test_a_single_number_is_reduced(tmp_path: Path, kind: str) -> None:
    file = write(tmp_path / "net.onnx", model([node(kind, ["x"], ["y"])], {"x": []}))
    source = compile_model(make_options(file, {"isa": ("avx2",)})).source
    assert [tensor.dims for tensor in source.outputs] == [()]


def test_other_operators_are_refused(tmp_path: Path) -> None:
    nodes = [node("MatMul", ["x", "w"], ["y"])]
    proto = model(nodes, {"x": [2, 0]}, weights={"w": floats(0, 3)})
    with pytest.raises(UnsupportedError, match="without elements"):
        load(tmp_path, proto)
