"""Evaluates nodes of an ONNX model whose inputs are all known: mostly computations of shapes.

It evaluates only what is exact: integers, and float operations that round once and so are the same
on every machine. Anything else becomes a node of the graph, and a pass folds it by its reference.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cannery.errors import ModelError, UnsupportedError
from cannery.frontends.onnx.operators.arithmetic import bounds_of_slices, element_type, target_shape
from cannery.frontends.onnx.operators.base import Scope
from cannery.frontends.onnx.operators.values import Constant

#: Most elements of a folded tensor, so that a small file cannot fill the memory.
_MAX_ELEMENTS = 2**26
#: Most bytes of all folded tensors: of a small model, of a large one per byte of it, and of any.
#: Weights stored as bytes that become floats count too.
MAX_BYTES_SMALL, MAX_BYTES_EACH, MAX_BYTES = 2**26, 8, 2**29

_Array = NDArray[Any]
_Fold = Callable[[Scope, Sequence[_Array]], _Array]

_FOLDS: dict[str, _Fold] = {}


def _fold(*kinds: str) -> Callable[[_Fold], _Fold]:
    def register(function: _Fold) -> _Fold:
        _FOLDS.update(dict.fromkeys(kinds, function))
        return function

    return register


def folded(scope: Scope) -> Constant | None:
    """The output of a node with known inputs; None if this module does not handle it."""
    fold = _FOLDS.get(scope.kind)
    inputs = [scope.optional(k) for k in range(scope.count)]
    if fold is None or scope.outputs != 1:
        return None
    arrays = [i.array for i in inputs if isinstance(i, Constant)]
    if not arrays or any(i is not None and not isinstance(i, Constant) for i in inputs):
        return None
    try:
        with np.errstate(all="ignore"):
            array = fold(scope, arrays)
    except (ValueError, IndexError, TypeError, OverflowError, ZeroDivisionError) as error:
        raise ModelError(f"its inputs do not fit: {error!s:.100}") from None
    return Constant(np.asarray(array), scope.name)


def _check(shape: Sequence[int]) -> tuple[int, ...]:
    if any(d < 0 for d in shape) or prod(shape) > _MAX_ELEMENTS:
        raise ModelError(f"computes a tensor of shape {tuple(shape)}, which is too large")
    return tuple(shape)


def _elementwise(arity: int, **functions: Callable[..., _Array]) -> None:
    """Register operators that are functions of `arity` arrays that broadcast."""

    def fold_by(function: Callable[..., _Array]) -> _Fold:
        def fold(scope: Scope, inputs: Sequence[_Array]) -> _Array:
            if len(inputs) != arity:
                raise ModelError(f"has {len(inputs)} inputs, expected {arity}")
            _check(np.broadcast_shapes(*(i.shape for i in inputs)))
            return np.asarray(function(*inputs))

        return fold

    _FOLDS.update({kind: fold_by(function) for kind, function in functions.items()})


def _divide(a: _Array, b: _Array) -> _Array:
    if a.dtype.kind == "f":
        return np.asarray(a / b)
    if not b.all():
        raise ModelError("an integer is divided by 0")
    quotient, rest = np.divmod(a, b)
    return np.asarray(quotient + ((rest != 0) & ((a < 0) != (b < 0))).astype(a.dtype))


_elementwise(
    2,
    Add=np.add,
    Sub=np.subtract,
    Mul=np.multiply,
    Div=_divide,
    Equal=np.equal,
    Less=np.less,
    Greater=np.greater,
    LessOrEqual=np.less_equal,
    GreaterOrEqual=np.greater_equal,
    And=np.logical_and,
    Or=np.logical_or,
)
_elementwise(
    1,
    Neg=np.negative,
    Abs=np.abs,
    Floor=np.floor,
    Ceil=np.ceil,
    Sqrt=np.sqrt,
    Not=np.logical_not,
    Identity=np.asarray,
)


@_fold("Mod")
def _mod(scope: Scope, inputs: Sequence[_Array]) -> _Array:
    a, b = inputs
    if a.dtype.kind != "f" and not b.all():
        raise ModelError("an integer is divided by 0")
    return np.asarray(np.fmod(a, b) if scope.integer("fmod", 0) else np.mod(a, b))


@_fold("Min", "Max")
def _extreme(scope: Scope, inputs: Sequence[_Array]) -> _Array:
    function = np.minimum if scope.kind == "Min" else np.maximum
    result = inputs[0]
    for array in inputs[1:]:
        result = function(result, array)
    return np.asarray(result)


@_fold("Where")
def _where(scope: Scope, inputs: Sequence[_Array]) -> _Array:
    _check(np.broadcast_shapes(*(i.shape for i in inputs)))
    return np.where(*inputs)


@_fold("Cast")
def _cast(scope: Scope, inputs: Sequence[_Array]) -> _Array:
    scope.ignore("saturate", "round_mode")
    return inputs[0].astype(element_type(scope.integer("to")))


@_fold("Concat")
def _concat(scope: Scope, inputs: Sequence[_Array]) -> _Array:
    return np.concatenate(inputs, scope.integer("axis"))


@_fold("Gather")
def _gather(scope: Scope, inputs: Sequence[_Array]) -> _Array:
    x, indices = inputs
    axis = scope.axis(scope.integer("axis", 0), x.ndim)
    _check((*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]))
    return np.take(x, indices, axis)


@_fold("Unsqueeze")
def _unsqueeze(scope: Scope, inputs: Sequence[_Array]) -> _Array:
    axes = _axes(scope, inputs)
    return np.expand_dims(inputs[0], axes or ())


@_fold("Squeeze")
def _squeeze(scope: Scope, inputs: Sequence[_Array]) -> _Array:
    return np.asarray(np.squeeze(inputs[0], _axes(scope, inputs)))


def _axes(scope: Scope, inputs: Sequence[_Array]) -> tuple[int, ...] | None:
    if len(inputs) > 1:
        return tuple(int(v) for v in inputs[1].reshape(-1))
    return scope.integers("axes") if scope.has("axes") else None


@_fold("ConstantOfShape")
def _constant_of_shape(scope: Scope, inputs: Sequence[_Array]) -> _Array:
    if inputs[0].dtype.kind not in "iu":
        raise ModelError("its shape is not a list of integers")
    shape = _check([int(d) for d in inputs[0].reshape(-1)])
    make = scope.raw("value")
    value = make() if callable(make) else np.zeros(1, np.float32)
    return np.full(shape, value.reshape(-1)[0], value.dtype)


@_fold("Range")
def _range(scope: Scope, inputs: Sequence[_Array]) -> _Array:
    scope.ignore("stash_type")  # float32 holds the sums of floats of 16 bits
    start, limit, delta = (i.reshape(-1)[0] for i in inputs)
    if not delta:
        raise ModelError("a range with a step of 0")
    count = max(int(np.ceil((float(limit) - float(start)) / float(delta))), 0)
    _check((count,))
    return np.asarray(start + np.arange(count) * delta).astype(inputs[0].dtype)


@_fold("Slice")
def _slice(scope: Scope, inputs: Sequence[_Array]) -> _Array:
    bounds = bounds_of_slices(scope, inputs[0].shape)
    return inputs[0][tuple(slice(s, None if e < 0 else e, step) for s, e, step in bounds)]


@_fold("Reshape")
def _reshape(scope: Scope, inputs: Sequence[_Array]) -> _Array:
    return inputs[0].reshape(target_shape(scope, inputs[0].shape))


@_fold("Transpose")
def _transpose(scope: Scope, inputs: Sequence[_Array]) -> _Array:
    rank = inputs[0].ndim
    return np.transpose(inputs[0], scope.integers("perm", tuple(reversed(range(rank)))))


@_fold("Expand")
def _expand(scope: Scope, inputs: Sequence[_Array]) -> _Array:
    x, shape = inputs
    wide = np.broadcast_shapes(x.shape, tuple(int(d) for d in shape))
    return np.array(np.broadcast_to(x, _check(wide)))


@_fold("Tile")
def _tile(scope: Scope, inputs: Sequence[_Array]) -> _Array:
    x, repeats = inputs
    _check([d * int(r) for d, r in zip(x.shape, repeats, strict=True)])
    return np.tile(x, tuple(int(r) for r in repeats))


@_fold("ReduceProd")
def _reduce_prod(scope: Scope, inputs: Sequence[_Array]) -> _Array:
    x = inputs[0]
    if x.dtype.kind == "f":
        raise UnsupportedError("a product of constant floats is not supported")
    scope.ignore("noop_with_empty_axes")
    axes = _axes(scope, inputs)
    keep = bool(scope.integer("keepdims", 1))
    return np.asarray(np.prod(x, axis=axes, keepdims=keep, dtype=x.dtype))


def foldable() -> Mapping[str, object]:
    """The operators that this module evaluates, by name."""
    return _FOLDS
