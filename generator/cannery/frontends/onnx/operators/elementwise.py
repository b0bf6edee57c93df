"""Operators that compute each element on its own: arithmetic and activations."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from cannery.errors import ModelError
from cannery.frontends.onnx.operators.base import Scope, operator
from cannery.frontends.onnx.operators.values import Computed, Constant, Perm, Value, identity
from cannery.ir.registry import Op
from cannery.ops.elementwise import activations as act
from cannery.ops.elementwise import binary, unary


def apply(scope: Scope, op: Op, value: Value, label: str = "") -> Computed:
    """An operator with one input, in any order of axes."""
    name, perm = scope.as_is(value)
    return scope.result(scope.node(op, [name], label), perm)


def aligned(scope: Scope, values: Sequence[Value]) -> tuple[list[str], Perm]:
    """Values of the graph that broadcast like the tensors, and the axis order of the result."""
    rank = max(len(v.shape) for v in values)
    perms = [v.perm for v in values if isinstance(v, Computed) and len(v.shape) == rank]
    perm = next((p for p in perms if p != identity(rank)), identity(rank))
    return [_broadcastable(scope, v, perm) for v in values], perm


def _broadcastable(scope: Scope, value: Value, perm: Perm) -> str:
    rank, missing = len(perm), len(perm) - len(value.shape)
    if perm == identity(rank):
        return scope.plain(value)
    wide = scope.reshaped(value, (*(1,) * missing, *value.shape), "broadcast")
    if isinstance(wide, Computed) or not missing:
        return scope.place(wide, perm)
    assert isinstance(value, Constant)
    array = np.ascontiguousarray(wide.array.transpose(perm))
    while array.ndim > 1 and array.shape[0] == 1:
        array = array[0]
    return scope.plain(Constant(array, value.hint))


def combined(scope: Scope, op: Op, a: Value, b: Value, label: str = "") -> Computed:
    """An operator of two inputs that broadcast as in numpy."""
    names, perm = aligned(scope, [a, b])
    return scope.result(scope.node(op, names, label), perm)


_BINARY: dict[str, Op] = {
    "Add": binary.Add(), "Sub": binary.Sub(), "Mul": binary.Mul(), "Div": binary.Div(),

}  # fmt: skip


@operator(*_BINARY)
def arithmetic(scope: Scope) -> Value:
    """Two inputs that broadcast as in numpy."""
    return combined(scope, _BINARY[scope.kind], scope.input(0), scope.input(1))


@operator("PRelu")
def prelu(scope: Scope) -> Value:
    """The slope broadcasts to x."""
    return combined(scope, act.PRelu(), scope.input(0), scope.input(1))


_VARIADIC: dict[str, Op] = {
    "Sum": binary.Add(), "Mean": binary.Add(), "Min": binary.Min(), "Max": binary.Max(),
}  # fmt: skip


@operator(*_VARIADIC)
def variadic(scope: Scope) -> Value:
    """Any number of inputs, from the first to the last."""
    values = scope.all_inputs()
    last = len(values) - 1
    result = values[0]
    for k, value in enumerate(values[1:], start=1):
        label = "" if k == last and scope.kind != "Mean" else f"part{k}"
        result = combined(scope, _VARIADIC[scope.kind], result, value, label)
    if scope.kind == "Mean" and last:
        return combined(scope, binary.Div(), result, Constant(np.float32(last + 1).reshape(())), "")
    return result


_UNARY: dict[str, Op] = {
    "Relu": act.Relu(), "Sigmoid": act.Sigmoid(), "Tanh": act.Tanh(), "HardSwish": act.HardSwish(),
    "Mish": act.Mish(), "Softplus": act.Softplus(), "Softsign": act.Softsign(),
    "Exp": unary.Exp(), "Log": unary.Log(), "Sqrt": unary.Sqrt(), "Abs": unary.Abs(),
    "Reciprocal": unary.Reciprocal(), "Neg": unary.Neg(), "Erf": unary.Erf(),
    "Floor": unary.Floor(), "Ceil": unary.Ceil(), "Round": unary.Round(), "Sign": unary.Sign(),
}  # fmt: skip


@operator(*_UNARY)
def function(scope: Scope) -> Value:
    """One input, no attribute."""
    return apply(scope, _UNARY[scope.kind], scope.input(0))


_WITH_ATTRIBUTES: dict[str, Callable[[Scope], Op]] = {
    "LeakyRelu": lambda s: act.LeakyRelu(s.number("alpha", 0.01)),
    "ThresholdedRelu": lambda s: act.ThresholdedRelu(s.number("alpha", 1.0)),
    "Elu": lambda s: act.Elu(s.number("alpha", 1.0)),
    "Celu": lambda s: act.Celu(s.number("alpha", 1.0)),
    "Selu": lambda s: act.Selu(
        s.number("alpha", 1.67326319217681884765625), s.number("gamma", 1.05070102214813232421875)
    ),
    "HardSigmoid": lambda s: act.HardSigmoid(s.number("alpha", 0.2), s.number("beta", 0.5)),
    "Gelu": lambda s: act.Gelu(s.text("approximate", "none", ("none", "tanh")) == "tanh"),
}


@operator(*_WITH_ATTRIBUTES)
def activation(scope: Scope) -> Value:
    """Activations with attributes."""
    return apply(scope, _WITH_ATTRIBUTES[scope.kind](scope), scope.input(0))


@operator("Swish")
def swish(scope: Scope) -> Value:
    """`x * sigmoid(alpha * x)`."""
    alpha = scope.number("alpha", 1.0)
    x = scope.input(0)
    if alpha == 1.0:
        return apply(scope, act.Silu(), x)
    factor = Constant(np.float32(alpha).reshape(()))
    gate = apply(scope, act.Sigmoid(), combined(scope, binary.Mul(), x, factor, "scaled"), "gate")
    return combined(scope, binary.Mul(), x, gate)


@operator("Clip")
def clip(scope: Scope) -> Value:
    """Between bounds: attributes until version 10, then inputs that may be computed."""
    x = scope.input(0)
    if scope.opset < 11:
        low, high = scope.number("min", -np.inf), scope.number("max", np.inf)
        return apply(scope, act.Clip(low, high), x)
    bounds = [scope.optional(1), scope.optional(2)]
    if any(isinstance(b, Computed) for b in bounds):
        return _clip_by_computed(scope, x, bounds)
    numbers = [b.array.reshape(-1) for b in bounds if isinstance(b, Constant)]
    if any(n.size != 1 for n in numbers):
        raise ModelError("its bounds are not scalars")
    low, high = (
        float(b.array.reshape(-1)[0]) if isinstance(b, Constant) else default
        for b, default in zip(bounds, (-np.inf, np.inf), strict=True)
    )
    return apply(scope, act.Clip(low, high), x)


def _clip_by_computed(scope: Scope, x: Value, bounds: Sequence[Value | None]) -> Value:
    low, high = bounds
    if low is not None:
        x = combined(scope, binary.Max(), x, low, "raised" if high is not None else "")
    return x if high is None else combined(scope, binary.Min(), x, high)


@operator("Identity", "OptionalGetElement")
def unchanged(scope: Scope) -> Value:
    """The input itself."""
    return scope.input(0)


@operator("OptionalHasElement")
def is_there(scope: Scope) -> Value:
    """Whether an input is present and known."""
    return Constant(np.asarray(scope.optional(0) is not None), scope.name)
