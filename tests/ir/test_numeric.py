"""The arithmetic below the references: its order, its accuracy, and its bytes."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable

import numpy as np
import pytest

from cannery.ir import numeric
from cannery.ir.numeric import (
    F64,
    accumulate_product,
    add_product,
    f32,
    keep_axes,
    quick_products,
    tree_mean,
    tree_sum,
)
from cannery.ops import functions
from cannery.ops.average_pool.op import AveragePool
from cannery.ops.conv.op import Conv
from cannery.ops.elementwise import Gelu, Mish, Pow, Sigmoid
from cannery.ops.matmul.op import MatMul
from cannery.ops.normalization.op import LayerNormalization
from cannery.ops.softmax.op import Softmax


def lattice(*shape: int) -> F64:
    """Numbers in [-1, 1) that no generator of random numbers can change; float32 holds them."""
    count = math.prod(shape)
    return (
        ((np.arange(count) * 7919 % 104729) / 52364.5 - 1.0)
        .astype(np.float32)
        .astype(np.float64)
        .reshape(shape)
    )


@pytest.mark.parametrize(
    ("m", "k", "n"),
    [(3, 5, 7), (7, 5, 3), (1, 40, 1), (5, 33, 4), (2, 2100, 3), (2, 0, 2), (0, 2, 2)],
)
def test_product_is_a_loop(m: int, k: int, n: int) -> None:
    a, b, acc = lattice(m, k), lattice(k, n) * 3.7, lattice(m, n)
    expected = acc.copy()
    for i in range(m):
        for j in range(n):
            for p in range(k):
                expected[i, j] = expected[i, j] + a[i, p] * b[p, j]
    accumulate_product(acc, a, b)
    assert (acc == expected).all()


@pytest.mark.parametrize(("m", "n"), [(70, 500), (500, 70), (3, 40000), (40000, 3), (20000, 1)])
def test_blocks_do_not_change_the_order(m: int, n: int) -> None:
    a, b = lattice(m, 6), lattice(6, n) / 3.0
    whole, rows = np.zeros((m, n)), np.zeros((m, n))
    accumulate_product(whole, a, b)
    for i in range(0, m, max(1, m // 3)):
        accumulate_product(rows[i : i + 1], a[i : i + 1], b)
        assert (rows[i] == whole[i]).all()


def test_pieces_of_a_product_do_not_change_the_order(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b, acc = lattice(5, 70), lattice(70, 30).astype(np.float32), lattice(5, 30)
    expected = acc.copy()
    accumulate_product(expected, a, b.astype(np.float64))
    monkeypatch.setattr(numeric, "_WIDENED", 100)
    add_product(acc, a, b)
    assert (acc == expected).all()


def test_quick_products_are_close_and_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numeric, "_WIDENED", 100)
    a, b = lattice(5, 70), lattice(70, 30).astype(np.float32)
    exact, quick, again = (np.zeros((5, 30)) for _ in range(3))
    add_product(exact, a, b)
    with quick_products():
        monkeypatch.setattr(numeric, "accumulate_product", None)  # nobody calls it
        add_product(quick, a, b)
        monkeypatch.undo()
    add_product(again, a, b)
    assert np.allclose(quick, exact, rtol=1e-12, atol=1e-12)
    assert (again == exact).all()


def test_product_into_a_view() -> None:
    whole = np.zeros((4, 6))
    accumulate_product(whole[:, 2:4], lattice(4, 3), lattice(3, 2))
    assert np.allclose(whole[:, 2:4], lattice(4, 3) @ lattice(3, 2), rtol=1e-14)
    assert not whole[:, :2].any()
    assert not whole[:, 4:].any()


@pytest.mark.parametrize("axes", [(0,), (1, 2), (0, 2), (0, 1, 2), ()])
def test_sums(axes: tuple[int, ...]) -> None:
    x = lattice(5, 7, 11)
    kept = keep_axes(x, tree_sum(x, axes), axes)
    assert kept.shape == x.sum(axis=axes, keepdims=True).shape
    assert np.allclose(kept, x.sum(axis=axes, keepdims=True), rtol=0, atol=1e-13)
    assert np.allclose(tree_mean(x, axes), x.mean(axis=axes), rtol=0, atol=1e-14)


def test_sum_adds_halves() -> None:
    a, b, c, d, e = (float(v) for v in lattice(5) / 3.0)
    assert tree_sum(np.array([a, b, c, d, e]), (0,)) == ((a + c) + (b + d)) + e
    assert tree_sum(np.zeros((0, 2)), (0,)).tolist() == [0.0, 0.0]


def test_attributes_are_float32() -> None:
    assert f32(0.1) == 0.10000000149011612
    assert f32(1e39) == np.inf


X = np.concatenate([lattice(3001) * s for s in (1e-3, 1.0, 5.0, 40.0)])


@pytest.mark.parametrize(
    ("function", "judge", "x"),
    [
        (functions.exp, math.exp, X * 17),
        (functions.expm1, math.expm1, X),
        (functions.log, math.log, np.exp(X * 17)),
        (functions.log1p, math.log1p, np.abs(X)),
        (functions.tanh, math.tanh, X),
        (functions.erf, math.erf, X),
    ],
    ids=["exp", "expm1", "log", "log1p", "tanh", "erf"],
)
def test_functions(function: Callable[[F64], F64], judge: Callable[[float], float], x: F64) -> None:
    expected = np.array([judge(v) for v in x.tolist()])
    assert (np.abs(function(x) - expected) <= 8 * np.spacing(np.abs(expected))).all()


@pytest.mark.parametrize("name", ["exp", "expm1", "log", "tanh"])
def test_special_values(name: str) -> None:
    x = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 710.0, -746.0, 5e-324])
    with np.errstate(all="ignore"):
        expected = getattr(np, name)(x)
    with np.errstate(divide="raise", over="raise", invalid="raise"):
        result = getattr(functions, name)(x)
    assert np.allclose(result, expected, rtol=1e-15, atol=0, equal_nan=True)
    zeros = expected == 0
    assert (np.signbit(result[zeros]) == np.signbit(expected[zeros])).all()


def test_erf_at_the_ends() -> None:
    x = np.array([np.inf, -np.inf, 0.0, np.nan, 30.0])
    assert np.array_equal(functions.erf(x), [1.0, -1.0, 0.0, np.nan, 1.0], equal_nan=True)


def test_erfc_keeps_its_digits_where_it_is_small() -> None:
    x = np.linspace(-6.0, 26.0, 3201)
    expected = [math.erfc(v) for v in x.tolist()]
    assert np.allclose(functions.erfc(x), expected, rtol=1e-12, atol=0)
    ends = np.array([np.inf, -np.inf, np.nan])
    assert np.array_equal(functions.erfc(ends), [0.0, 2.0, np.nan], equal_nan=True)


def test_power() -> None:
    edges = [0.0, 1.0, 2.0, 0.5, 3.0, np.inf, 100.0, 101.0, 1e300]
    one = np.array([*edges, *(-e for e in edges), np.nan, 1.7, -2.3])
    a, b = np.meshgrid(one, one)
    with np.errstate(all="ignore"):
        expected = np.power(a, b)
    expected[(a == -np.inf) & (np.floor(b) != b)] = np.nan
    result = functions.power(a, b)
    assert np.allclose(result, expected, rtol=1e-13, atol=0, equal_nan=True)
    sound = ~np.isnan(expected)
    assert (np.signbit(result[sound]) == np.signbit(expected[sound])).all()


def digest() -> str:
    """Of what many references compute."""
    x, w = lattice(1, 9, 9, 12), lattice(3, 3, 12, 10) / 7.0
    conv = Conv((1, 1), ((1, 1), (1, 1)), (1, 1))
    (y,) = conv.reference(x, w, lattice(10))
    (d,) = Conv((2, 2), ((0, 1), (0, 1)), (1, 1), 12).reference(
        x, w[:, :, :1].repeat(2, -1)[..., :12]
    )
    (m,) = MatMul().reference(y.reshape(81, 10), lattice(10, 33), None)
    results = [y, d, m, *Softmax(3).reference(y), *LayerNormalization((3,), 1e-5).reference(y)]
    results += AveragePool((2, 2), (2, 2), ((0, 1),) * 2, (1, 1)).reference(y)
    for op in (Sigmoid(), Gelu(), Gelu(True), Mish()):
        results += op.reference(y * 4)
    results += Pow().reference(np.abs(y) + 0.1, y)
    return hashlib.sha256(b"".join(np.ascontiguousarray(r).tobytes() for r in results)).hexdigest()


def test_bytes_are_the_same_on_every_machine() -> None:
    assert digest() == "3abda1666538d516dacb5eb7a1a426027cca9b3687a6db77896c4c8e4d944617"
