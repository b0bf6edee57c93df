"""Queries and keys that are turned by the number of their step: rotary embeddings."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from cannery.errors import UnsupportedError
from cannery.frontends.streaming import to_streaming
from cannery.frontends.streaming.positions import longer
from cannery.ir.graph import Graph
from cannery.ops.concat.op import Concat
from cannery.ops.conv.op import Conv
from cannery.ops.elementwise import Add, Mul, Neg, Sub
from cannery.ops.matmul.op import MatMul
from cannery.ops.movement.op import Reshape, Slice, Transpose
from cannery.ops.softmax.op import Softmax
from frontends.causal_nets import STEPS, Tame, compare

#: Heads and their channels.
HEADS, SIZE = 2, 6

#: Radians by step and channel.
ANGLES = np.arange(STEPS)[:, None] * 0.9 ** np.arange(0, 3 * SIZE, 6)

DISTANCE = np.arange(STEPS)[:, None] - np.arange(STEPS)[None]

#: Turns float[1, HEADS, STEPS, SIZE] by tables of cosines and sines.
Turn = Callable[[Tame, str], str]


def part(b: Tame, value: str, start: int, end: int, step: int = 1) -> str:
    shape = b.types[value].shape
    starts, ends = (*[0] * (len(shape) - 1), start), (*shape[:-1], end)
    return b.node(Slice(starts, ends, (*[1] * (len(shape) - 1), step)), [value])


def tables(b: Tame, *, twice: bool = True, times: float = 1.0) -> tuple[str, str]:
    angles = times * np.concatenate([ANGLES] * (1 + twice), 1)[None, None]
    cos, sin = (b.constant(f"{f.__name__}", f(angles)) for f in (np.cos, np.sin))
    return cos, sin


def by_halves(b: Tame, value: str, times: float = 1.0) -> str:
    """As transformers does: the second half of the channels is the imaginary part."""
    cos, sin = tables(b, times=times)
    late = b.node(Neg(), [part(b, value, SIZE // 2, SIZE)])
    crossed = b.node(Concat(3), [late, part(b, value, 0, SIZE // 2)])
    parts = [b.node(Mul(), [value, cos]), b.node(Mul(), [crossed, sin])]
    return b.node(Add(), parts)


def by_pairs(b: Tame, value: str) -> str:
    """As complex numbers do: channels 2k and 2k + 1 are one."""
    cos, sin = tables(b, twice=False)
    re, im = part(b, value, 0, SIZE, 2), part(b, value, 1, SIZE, 2)

    def product(*factors: str) -> str:
        return b.node(Mul(), list(factors))

    parts = [
        b.node(Sub(), [product(re, cos), product(im, sin)]),
        b.node(Add(), [product(re, sin), product(im, cos)]),
    ]
    pairs = [b.node(Reshape((1, HEADS, STEPS, SIZE // 2, 1)), [each]) for each in parts]
    joined = b.node(Concat(4), pairs)
    return b.node(Reshape((1, HEADS, STEPS, SIZE)), [joined])


def partly(b: Tame, value: str) -> str:
    """The first channels alone."""
    kept, cos, sin = part(b, value, 2, SIZE), ANGLES[:, :1], ANGLES[:, :1]
    re, im = part(b, value, 0, 1), part(b, value, 1, 2)
    c, s = b.constant("c", np.cos(cos)), b.constant("s", np.sin(sin))
    real = b.node(Sub(), [b.node(Mul(), [re, c]), b.node(Mul(), [im, s])])
    imaginary = b.node(Add(), [b.node(Mul(), [im, c]), b.node(Mul(), [re, s])])
    return b.node(Concat(3), [real, imaginary, kept])


def learned(b: Tame, value: str) -> str:
    return b.node(Add(), [value, b.constant("place", b.rng.standard_normal((STEPS, SIZE)))])


def heads(b: Tame, x: str) -> str:
    value = b.node(MatMul(), [x, b.weight(4, HEADS * SIZE)])
    value = b.node(Reshape((1, STEPS, HEADS, SIZE)), [value])
    return b.node(Transpose((0, 2, 1, 3)), [value])


def attending(turn: Turn, behind: int, ahead: int = 0) -> Graph:
    """A convolution and attention of two heads, whose queries and keys are turned."""
    b = Tame(3)
    x = b.input("x", (1, STEPS, 3))
    x = b.node(Conv((1,), ((2, 0),), (1,)), [x, b.weight(3, 3, 4)])
    q, k = (turn(b, heads(b, x)) for _ in range(2))
    scores = b.node(MatMul(transpose_b=True), [q, k], name="scores")
    mask = np.where(DISTANCE.clip(-ahead, behind) == DISTANCE, 0.0, -1e9)
    shares = b.node(Softmax(3), [b.node(Add(), [scores, b.constant("mask", mask)])])
    y = b.node(Transpose((0, 2, 1, 3)), [b.node(MatMul(), [shares, heads(b, x)])])
    return b.graph(b.node(Reshape((1, STEPS, HEADS * SIZE)), [y]))


@pytest.mark.parametrize("block", [1, 12])
@pytest.mark.parametrize(("behind", "ahead"), [(5, 0), (STEPS, 0), (4, 2)])
@pytest.mark.parametrize("turn", [by_halves, by_pairs, partly])
def test_rotary_embeddings(turn: Turn, behind: int, ahead: int, block: int) -> None:
    """A call of 12 steps that sees all steps of the model has 11 steps more than that."""
    assert compare(attending(turn, behind, ahead), block, ahead) > 0


def test_learned_positions_are_an_error_of_the_attention() -> None:
    with pytest.raises(UnsupportedError, match=r"layer 'matmul.*' .*the distance between two"):
        to_streaming(attending(learned, 5))


def plain(b: Tame, value: str) -> str:
    return value


def slightly_more(b: Tame, value: str) -> str:
    return by_halves(b, value, 1.01)


@pytest.mark.parametrize("keys", [plain, slightly_more])
def test_keys_that_are_not_turned_like_queries(keys: Turn) -> None:
    turns = iter((by_halves, keys))
    with pytest.raises(UnsupportedError, match="the distance between two"):
        to_streaming(attending(lambda b, value: next(turns)(b, value), 5))


def test_positions_that_values_have_as_well() -> None:
    """What is turned meets others: then the constant of each step is the reason."""
    b = Tame(3)
    x = b.input("x", (1, HEADS, STEPS, SIZE))
    x = by_halves(b, x)
    scores = b.node(MatMul(transpose_b=True), [x, x])
    mask = b.constant("mask", np.where(DISTANCE >= 0, 0.0, -1e9))
    shares = b.node(Softmax(3), [b.node(Add(), [scores, mask])])
    with pytest.raises(UnsupportedError, match="a constant for each step"):
        to_streaming(b.graph(b.node(MatMul(), [shares, x])), time_axis={"x": 2})


def test_tables_of_more_steps_than_the_model_has() -> None:
    steps = np.arange(100.0)[:, None]
    waves = np.cos(steps * [0.0, 1e-4, 0.02, 1.0, 3.1] + [0.0, -1.5, 0.3, 0.0, 1.0])

    def off(table: NDArray[np.float32]) -> float:
        return float(np.abs(longer(table, 0, 100) - waves).max())

    assert off(waves[:60].astype(np.float32)) < 1e-5


def test_turned_features_that_meet_each_other() -> None:
    """Scores between channels of each step are no attention among steps."""
    b = Tame(3)
    x = b.node(Reshape((1, STEPS, 2, 3)), [b.input("x", (1, STEPS, 6))])
    x = b.node(Mul(), [x, b.constant("turn", np.cos(ANGLES[:, :1, None]))])
    shares = b.node(Softmax(3), [b.node(MatMul(transpose_b=True), [x, x])])
    y = b.node(MatMul(), [shares, b.constant("v", b.rng.standard_normal((2, 3)))])
    with pytest.raises(UnsupportedError, match="depend on the number of the step"):
        to_streaming(b.graph(y), time_axis={"x": 1})
