"""Straight-line transforms: they compute the matrix, in few instructions, in a sound order."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction

import pytest

from cannery.ctext.transforms import Assign, linear, order
from cannery.ops.conv.winograd import F2, F4, Matrix, stacked_input, stacked_output

MATRICES = {
    "F2 B": F2.bt, "F2 A": F2.at, "F4 B": F4.bt, "F4 A": F4.at,
    "F2 B twice": stacked_input(F2), "F2 A twice": stacked_output(F2),
    "signs": ((Fraction(-1), Fraction(-1)), (Fraction(-2), Fraction(0))),
    "copy": ((Fraction(1), Fraction(0)), (Fraction(3), Fraction(1, 2))),
}  # fmt: skip

WORDS = {
    "V_add": lambda a, b: a + b,
    "V_sub": lambda a, b: a - b,
    "V_mul": lambda a, b: a * b,
    "V_fma": lambda a, b, c: a * b + c,
    "V_fnma": lambda a, b, c: c - a * b,
    "V_set1": lambda a: a,
}


def make(matrix: Matrix, *, fused: bool) -> list[Assign]:
    sources = [f"d{k}" for k in range(len(matrix[0]))]
    targets = [f"v{k}" for k in range(len(matrix))]
    return linear(matrix, sources, targets, "V", fused=fused)


def value(expression: str, known: dict[str, float]) -> float:
    """What a C expression over the vocabulary comes to."""
    plain = re.sub(r"(\d)f\b", r"\1", expression)
    return float(eval(plain, {"__builtins__": {}}, {**WORDS, **known}))


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("name", MATRICES)
def test_linear_computes_the_matrix(name: str, fused: bool) -> None:
    matrix = MATRICES[name]
    inputs = [0.5 + 1.25 * k for k in range(len(matrix[0]))]
    known = {f"d{k}": x for k, x in enumerate(inputs)}
    for step in make(matrix, fused=fused):
        assert set(step.uses) <= set(known), step
        assert step.name not in known
        known[step.name] = value(step.expression, known)
    for k, row in enumerate(matrix):
        assert known[f"v{k}"] == sum(float(c) * x for c, x in zip(row, inputs, strict=True))


@pytest.mark.parametrize(
    ("matrix", "fused", "plain"),
    [(F4.bt, 12, 17), (F4.at, 10, 13), (F2.bt, 4, 4), (F2.at, 4, 4)],
)
def test_linear_shares_sums(matrix: Matrix, fused: int, plain: int) -> None:
    assert len(make(matrix, fused=True)) == fused
    assert len(make(matrix, fused=False)) == plain


def defined(lines: Sequence[str]) -> list[str]:
    return [line.split()[2] for line in lines if line.startswith("const V ")]


def test_order_defines_before_use_and_stores_at_once() -> None:
    loads = [Assign(f"d{k}", f"load({k})", ()) for k in range(6)]
    steps = [*loads, *make(F4.bt, fused=True)]
    lines = order(steps, {f"v{k}": [f"store(v{k});"] for k in range(6)}, "V")
    uses = {step.name: step.uses for step in steps}
    seen: list[str] = []
    for line in lines:
        if line.startswith("store"):
            assert line == f"store({seen[-1]});"
            continue
        (name,) = defined([line])
        assert set(uses[name]) <= set(seen)
        seen.append(name)
    assert sorted(seen) == sorted(uses)


def test_order_leaves_out_what_nothing_needs() -> None:
    loads = [Assign(f"d{k}", f"load({k})", ()) for k in range(6)]
    lines = order([*loads, *make(F4.bt, fused=True)], {"v0": ["store(v0);"]}, "V")
    assert {"d0", "d2", "d4", "v0"} <= set(defined(lines))
    assert not {"d1", "d3", "d5", "v1"} & set(defined(lines))


def test_order_keeps_few_values_alive() -> None:
    """Sixteen independent products of two loads never need more than three at once."""
    steps, stores = [], {}
    for k in range(16):
        steps += [Assign(f"a{k}", "load", ()), Assign(f"b{k}", "load", ())]
    for k in range(16):
        steps.append(Assign(f"p{k}", "mul", (f"a{k}", f"b{k}")))
        stores[f"p{k}"] = ["store"]
    lines = order(steps, stores, "V")
    assert [line.split()[0] for line in lines] == ["const", "const", "const", "store"] * 16
