"""Reshapes and Transposes of ONNX models that move nothing once channels are last."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cannery.frontends.onnx.operators.regroup import regroup, regroup_for
from cannery.passes import run_passes
from frontends.onnx_models import assert_as_onnx, floats, load, model, node


def _i64(*values: int) -> np.ndarray[Any, Any]:
    return np.array(values, np.int64)


def _behind_conv(*nodes: Any, **weights: Any) -> Any:
    """A model that goes on from "a", 8 channels of 6x6, to "y"."""
    first = node("Conv", ["x", "w"], ["a"])
    shapes = {k: _i64(*v) if isinstance(v, tuple) else v for k, v in weights.items()}
    return model([first, *nodes], {"x": [1, 3, 8, 8]}, weights={"w": floats(8, 3, 3, 3), **shapes})


def _conv(source: str) -> Any:
    return node("Conv", [source, "v"], ["y"])


V = floats(2, 8, 3, 3)
CASES = {
    "pixels to a sequence": (0, _behind_conv(
        node("Reshape", ["a", "s"], ["b"]), node("Transpose", ["b"], ["c"], perm=[0, 2, 1]),
        node("MatMul", ["c", "v"], ["y"]), s=(1, 8, 36), v=floats(8, 5),
    )),
    "a sequence to pixels": (0, model(
        [
            node("MatMul", ["x", "w"], ["a"]), node("Transpose", ["a"], ["b"], perm=[0, 2, 1]),
            node("Reshape", ["b", "s"], ["c"]), _conv("c"),
        ],
        {"x": [1, 36, 4]}, weights={"w": floats(4, 8), "s": _i64(1, 8, 6, 6), "v": V},
    )),
    "lines and back": (0, _behind_conv(
        node("Reshape", ["a", "s"], ["b"]), node("BatchNormalization", ["b", *"gggg"], ["c"]),
        node("Reshape", ["c", "t"], ["d"]), _conv("d"),
        s=(1, 8, 36), t=(1, 8, 6, 6), g=abs(floats(8)), v=V,
    )),
    "groups by instances": (0, _behind_conv(
        node("Reshape", ["a", "s"], ["b"]), node("InstanceNormalization", ["b", "g", "h"], ["c"]),
        node("Shape", ["a"], ["t"]), node("Reshape", ["c", "t"], ["d"]),
        node("Mul", ["d", "m"], ["e"]), _conv("e"),
        s=(0, 2, -1), g=floats(2), h=floats(2, seed=1), m=floats(8, 1, 1), v=V,
    )),
    "a shuffle of channels": (0, _behind_conv(
        node("Reshape", ["a", "s"], ["b"]),
        node("Transpose", ["b"], ["c"], perm=[0, 2, 1, 3, 4]),
        node("Reshape", ["c", "t"], ["d"]), _conv("d"), s=(1, 2, 4, 6, 6), t=(1, 8, 6, 6), v=V,
    )),
    "a shuffle of channels, then halves": (1, _behind_conv(
        node("Reshape", ["a", "s"], ["b"]),
        node("Transpose", ["b"], ["c"], perm=[0, 2, 1, 3, 4]),
        node("Reshape", ["c", "t"], ["d"]), node("Split", ["d", "h"], ["left", "right"], axis=1),
        node("Conv", ["right", "v"], ["e"]), node("Concat", ["left", "e"], ["y"], axis=1),
        s=(1, 2, 4, 6, 6), t=(1, 8, 6, 6), h=(4, 4), v=floats(4, 4, 1, 1),
    )),
    "a shuffle of pixels": (1, _behind_conv(
        node("Reshape", ["a", "s"], ["b"]),
        node("Transpose", ["b"], ["c"], perm=[0, 1, 4, 2, 5, 3]),
        node("Reshape", ["c", "t"], ["d"]), _conv("d"),
        s=(1, 2, 2, 2, 6, 6), t=(1, 2, 12, 12), v=floats(2, 2, 3, 3),
    )),
    "instances along another axis": (1, model(
        [
            node("Transpose", ["x"], ["a"], perm=[3, 2, 0, 1]),
            node("InstanceNormalization", ["a", "g", "h"], ["y"]),
        ],
        {"x": [2, 4, 5, 3]}, weights={"g": floats(5), "h": floats(5, seed=1)},
    )),
    "classes of pixels": (0, _behind_conv(node("ArgMax", ["a"], ["y"], axis=1, keepdims=0))),
    "some channels": (0, _behind_conv(
        node("Gather", ["a", "s"], ["b"], axis=1), _conv("b"), s=(3, 0, 2), v=floats(2, 3, 3, 3)
    )),
    "sums over channels": (0, _behind_conv(
        node("CumSum", ["a", "s"], ["b"]), _conv("b"), s=np.int64(1), v=V
    )),
    "greatest channels": (0, _behind_conv(
        node("TopK", ["a", "s"], ["b", ""], axis=1), _conv("b"), s=(3,), v=floats(2, 3, 3, 3)
    )),
    "hard classes": (0, _behind_conv(node("Hardmax", ["a"], ["b"], axis=1), _conv("b"), v=V)),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_transposes_that_are_left(tmp_path: Path, name: str) -> None:
    count, proto = CASES[name]
    graph = run_passes(load(tmp_path, proto))
    assert [n.op.kind for n in graph.nodes].count("Transpose") == count
    assert_as_onnx(proto, graph)


SHAPES = ((2, 3, 4), (6, 4), (1, 2, 1, 12), (24,), (1, 1, 24), (2, 12, 1), (3, 1, 8), (2, 3, 2, 2))


@pytest.mark.parametrize("shape", SHAPES)
def test_what_lies_in_groups_is_reshaped_as_it_lies(shape: tuple[int, ...]) -> None:
    x = np.arange(24).reshape(shape)
    found = 0
    for target in SHAPES:
        for perm in permutations(range(len(shape))):
            ways = (regroup(shape, target, perm), regroup_for(target, shape, perm))
            for way, source, result in zip(ways, (shape, target), (target, shape), strict=True):
                if way is None:
                    continue
                lying = x.reshape(source).transpose(way.source).reshape(way.shape)
                assert np.array_equal(lying, x.reshape(result).transpose(way.perm))
                found += 1
        assert regroup(shape, target, tuple(range(len(shape)))) is not None
    assert found > len(SHAPES)
