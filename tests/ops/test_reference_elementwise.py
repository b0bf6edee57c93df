"""References of the elementwise operators against ONNX's own, and against Keras's formulas."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cannery.ir.registry import Op
from cannery.ops.elementwise import (
    Abs,
    Add,
    Affine,
    Ceil,
    Celu,
    Clip,
    Div,
    Elu,
    Erf,
    Exp,
    Floor,
    Gelu,
    HardSigmoid,
    HardSwish,
    LeakyRelu,
    Log,
    Max,
    Min,
    Mish,
    Mul,
    Neg,
    Pow,
    PRelu,
    Reciprocal,
    Relu,
    ReluGeneral,
    Round,
    Selu,
    Sigmoid,
    Sign,
    Silu,
    Softplus,
    Softsign,
    Sqrt,
    Square,
    Sub,
    Tanh,
    ThresholdedRelu,
)
from cannery.ops.logic.bits import BitShift
from judges import checked, numbers, onnx_run, same

ACTIVATIONS: list[tuple[Op, dict[str, Any]]] = [
    (LeakyRelu(0.3), {"alpha": 0.3}),
    (ThresholdedRelu(1.1), {"alpha": 1.1}),
    (Elu(0.7), {"alpha": 0.7}),
    (Celu(2.0), {"alpha": 2.0}),
    (Selu(), {}),
    (Selu(1.5, 0.5), {"alpha": 1.5, "gamma": 0.5}),
    (Gelu(), {}),
    (Gelu(True), {"approximate": "tanh"}),
    (HardSigmoid(), {}),
    (HardSigmoid(0.3, 0.4), {"alpha": 0.3, "beta": 0.4}),
    *((kind(), {}) for kind in (Relu, Sigmoid, HardSwish, Mish, Softplus, Softsign, Tanh)),
    *((kind(), {}) for kind in (Round, Sign, Floor, Ceil, Abs, Neg, Erf, Exp, Reciprocal)),
]


@pytest.mark.parametrize(("op", "attributes"), ACTIVATIONS)
def test_functions_of_one_number(op: Op, attributes: dict[str, Any]) -> None:
    edges = [1.1, np.nextafter(np.float32(1.1), 2)]
    edges += [0.0, -0.0] if op.kind != "Reciprocal" else []
    edges += [np.nan] if op.kind != "ThresholdedRelu" else []  # ONNX's own yields 0 for NaN
    x = np.concatenate([numbers(200) * 4, np.arange(1, 10) / 2.0, np.arange(-9, 0) / 2.0])
    x = np.concatenate([x, edges]).astype(np.float32).astype(np.float64)
    same(checked(op, x), onnx_run(op.kind, [x], **attributes))


@pytest.mark.parametrize("op", [Log(), Sqrt()])
def test_functions_of_a_positive_number(op: Op) -> None:
    x = np.array([0.0, 1e-40, 0.3, 1.0, 7.0, 3e38, np.inf, -1.0, np.nan])
    x = x.astype(np.float32).astype(np.float64)
    with np.errstate(all="ignore"):
        expected = onnx_run(op.kind, [x])
    assert np.allclose(checked(op, x), expected, rtol=1e-6, atol=0, equal_nan=True)


@pytest.mark.parametrize("kind", [Add, Sub, Mul, Div, Max, Min, Pow])
def test_functions_of_two_numbers(kind: type[Op]) -> None:
    a, b = np.abs(numbers(3, 1, 5)) + 0.1, numbers(4, 1, seed=1)
    same(checked(kind(), a, b), onnx_run(kind.__name__, [a, b]))
    x = np.array([np.nan, 1.0, -3.0])
    assert np.isnan(checked(kind(), x, x[::-1].copy())[0])


def test_silu_square_and_affine() -> None:
    x = numbers(50)
    same(checked(Silu(), x), x / (1.0 + np.exp(-x)), 1e-14)
    assert np.array_equal(checked(Square(), x), x * x)
    same(checked(Affine(0.5, -3.0), x), 0.5 * x - 3.0, 1e-14)


def test_limits_at_infinity() -> None:
    x = np.array([-np.inf, np.inf])
    for op in (Silu(), Mish(), Gelu(), Gelu(True)):
        assert checked(op, x).tolist() == [0.0, np.inf]
    assert checked(Softsign(), x).tolist() == [-1.0, 1.0]


def test_clip_is_onnx() -> None:
    x = np.array([-2.0, -1.0, 0.0, 5.0, 6.0, 7.0, np.nan])
    for low, high in ((-1.0, 6.0), (3.0, 1.0), (-np.inf, 1.0)):
        bounds = [np.array(low, np.float32), np.array(high, np.float32)]
        same(checked(Clip(low, high), x), onnx_run("Clip", [x, *bounds]))


def test_prelu_is_onnx() -> None:
    x, slope = numbers(2, 3, 4), numbers(3, 1, seed=1)
    same(checked(PRelu(), x, slope), onnx_run("PRelu", [x, slope]))


def keras_relu(x: float, slope: float, threshold: float, top: float | None) -> float:
    """What the layer of Keras computes, operation by operation."""
    y = x * float(x > threshold) if threshold else max(x, 0.0)
    if top is not None:
        y = min(max(y, 0.0), top)
    return y - slope * max(threshold - x, 0.0)


@pytest.mark.parametrize("slope", [0.0, 0.25])
@pytest.mark.parametrize("threshold", [0.0, 1.5])
@pytest.mark.parametrize("top", [None, 6.0, 1.0, 0.0])
def test_relu_is_keras(slope: float, threshold: float, top: float | None) -> None:
    x = np.array([-3.0, -0.5, 0.0, 0.5, 1.0, 1.5, 1.75, 5.9, 6.0, 8.0])
    y = checked(ReluGeneral(slope, threshold, top), x)
    expected = [keras_relu(v, slope, threshold, top) for v in x.tolist()]
    assert y.tolist() == expected
    assert np.isnan(checked(ReluGeneral(slope, threshold, top), np.array([np.nan]))).all()


def test_integers() -> None:
    a, b = np.array([7, -7, 7, -7, 6]), np.array([2, 2, -2, -2, 3])
    assert checked(Div(), a, b).tolist() == [3, -3, -3, 3, 2]
    assert checked(Sub(), a, b).tolist() == [5, -9, 9, -5, 3]
    assert checked(Sign(), a).tolist() == [1, -1, 1, -1, 1]
    assert checked(Div(), a, a - 7).tolist() == [0, 0, 0, 0, -6]


def test_shifts_of_all_64_bits() -> None:
    """Beyond what a float64 holds."""
    x = np.array([2**64 - 5, 2**63 + 1, 3], np.uint64)
    (right,) = BitShift(right=True).reference(x, np.array([1, 0, 64], np.uint64))
    assert right.tolist() == [2**63 - 3, 2**63 + 1, 0]
    (signed,) = BitShift(right=True).reference(np.array([-(2**62) - 1]), np.array([1]))
    assert signed.tolist() == [-(2**61) - 1]
