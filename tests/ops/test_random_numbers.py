"""Random numbers: the words, their distribution, and states that go on."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
import pytest
from numpy.typing import NDArray

from cannery.errors import CanneryError
from cannery.ir.tensor import DType, TensorType
from cannery.ops.random.normal import normal
from cannery.ops.random.op import STATE, Draw, DrawNormal, DrawUniform, NextDraw
from cannery.ops.random.philox import philox

ONES = 2**32 - 1

#: Numbers of blocks, keys and words as the authors of the generator publish them.
KNOWN = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((ONES,) * 4, (ONES,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


@pytest.mark.parametrize(("counter", "key", "words"), KNOWN)
def test_words_are_those_of_philox(
    counter: tuple[int, ...], key: tuple[int, int], words: tuple[int, ...]
) -> None:
    assert tuple(philox(np.array(counter, np.uint32), key)) == words


def test_normal_numbers_are_quantiles_of_their_words() -> None:
    quantile = NormalDist().inv_cdf
    small = np.arange(2000, dtype=np.uint32)
    words = np.concatenate([small, ONES - small, 2 ** np.arange(32, dtype=np.uint32)])
    words = np.concatenate([words, philox(np.zeros((5000, 4), np.uint32), (1, 2))[0], words ^ 1])
    expected = [(1 if w & 1 else -1) * quantile((int(w) | 1) / 2**33) for w in words]
    assert np.abs(normal(words) - expected).max() <= 1e-6
    assert np.all(np.abs(normal(words)) <= 6.4)


def drawn(op: Draw, seed: int = 0, run: int = 0) -> NDArray[np.float64]:
    state = np.array([seed, 0, run, 0], np.uint32)
    return np.asarray(op.reference(state)[0], np.float64)


def test_distributions() -> None:
    x = drawn(DrawNormal((200_000,)))
    moments = [np.mean(x**k) for k in range(1, 5)]
    assert np.allclose(moments, [0, 1, 0, 3], atol=[0.01, 0.02, 0.03, 0.1])
    places = np.histogram(
        x, [-np.inf, *(NormalDist().inv_cdf(k / 20) for k in range(1, 20)), np.inf]
    )
    assert np.abs(places[0] / 10_000 - 1).max() < 0.04
    u = drawn(DrawUniform((200_000,)))
    assert u.min() >= 0 and u.max() < 1
    assert np.abs(np.histogram(u, 20, (0, 1))[0] / 10_000 - 1).max() < 0.04


def test_streams_seeds_and_runs_are_independent() -> None:
    shape = (50_000,)
    first = drawn(DrawNormal(shape))
    others = [
        drawn(DrawNormal(shape, stream=1)), drawn(DrawNormal(shape), seed=1),
        drawn(DrawNormal(shape), run=1), np.roll(first, 1),
    ]  # fmt: skip
    for other in others:
        assert abs(np.corrcoef(first, other)[0, 1]) < 0.02
    assert np.array_equal(first, drawn(DrawNormal(shape)))
    assert np.array_equal(first[:7], drawn(DrawNormal((7,))))


def test_runs_are_counted_with_a_carry() -> None:
    op = NextDraw()
    for state, expected in (
        ([5, 6, 0, 0], [5, 6, 1, 0]),
        ([5, 6, ONES, 3], [5, 6, 0, 4]),
        ([5, 6, ONES, ONES], [5, 6, 0, 0]),
    ):
        (found,) = op.reference(np.array(state, np.uint32))
        assert found.dtype == np.uint32 and found.tolist() == expected


@pytest.mark.parametrize("op", [DrawNormal((3,)), DrawUniform((3,)), NextDraw()])
def test_only_a_state_is_taken(op: Draw) -> None:
    assert op.infer(STATE)[0].rank == 1
    for wrong in (TensorType((3,), DType.UINT32), TensorType((4,), DType.INT32), TensorType((4,))):
        with pytest.raises(CanneryError, match=f"^{op.kind}: "):
            op.infer(wrong)
