"""What the classifiers and regressors of ai.onnx.ml share: samples, labels, and what is done to
scores.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cannery.errors import ModelError, UnsupportedError
from cannery.frontends.onnx.operators.base import Scope
from cannery.frontends.onnx.operators.values import Value
from cannery.ir.graph import Array
from cannery.ir.tensor import DType
from cannery.ops.elementwise import activations as act
from cannery.ops.elementwise import binary, unary
from cannery.ops.indexing.gather import Gather
from cannery.ops.logic.compare import Greater, Where
from cannery.ops.movement.op import Cast, Reshape
from cannery.ops.ordering.extremes import ArgMax
from cannery.ops.reduce.op import ReduceMax, ReduceSum
from cannery.ops.softmax.op import Softmax

#: Names of the domain.
ML = "ai.onnx.ml"

POST_TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")

#: Scores nearer to zero than this are zero for SOFTMAX_ZERO.
_NEAR_ZERO = 1e-7


def samples(scope: Scope, index: int = 0) -> str:
    """An input [N, F] of floats; integers are converted, one sample may come without its axis."""
    x = scope.input(index)
    if len(x.shape) == 1:
        x = scope.reshaped(x, (1, x.shape[0]), "sample")
    if len(x.shape) != 2:
        what = f"its input has shape {x.shape}, expected rows of features"
        raise UnsupportedError(what, cure="flatten it before")
    name = scope.plain(x)
    dtype = scope.type(name).dtype
    if dtype is DType.FLOAT32:
        return name
    if dtype is DType.BOOL:
        raise UnsupportedError("its input is bool", cure="insert a Cast before it")
    return scope.node(Cast(DType.FLOAT32), [name], "floats")


@dataclass(frozen=True)
class Labels:
    """The labels of classes: integers, or names, for which their indices stand."""

    integers: tuple[int, ...]
    names: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.integers)


def read_labels(scope: Scope, integers: str) -> Labels:
    """The labels in the attribute `integers`, or in `classlabels_strings`."""
    names = scope.texts("classlabels_strings", ())
    numbers = scope.integers(integers, ())
    if bool(names) == bool(numbers):
        raise ModelError(f"needs one of classlabels_strings and {integers}")
    return Labels(tuple(range(len(names))), names) if names else Labels(numbers)


def label_output(scope: Scope, index: str, labels: Labels) -> Value:
    """The labels of class indices: int64, of any shape that has one for each sample."""
    rows = scope.type(index).elements
    flat = index
    if scope.type(index).rank != 1:
        flat = scope.node(Reshape((rows,)), [index], "index")
    if labels.names:
        scope.name_classes(labels.names)
    if labels.integers == tuple(range(len(labels))):
        return scope.result(flat)
    known = scope.constant("labels", np.array(labels.integers, np.int64))
    return scope.result(scope.node(Gather(0), [known, flat], "label"))


def greatest(scope: Scope, scores: str) -> str:
    """The index of the greatest score of each sample, the first among equal ones."""
    return scope.node(ArgMax(1, keepdims=False), [scores], "greatest")


def above(scope: Scope, score: str, threshold: float) -> str:
    """1 where a score is above a threshold, else 0, as int64."""
    limit = scope.scalar("threshold", threshold)
    found = scope.node(Greater(), [score, limit], "above")
    return scope.node(Cast(DType.INT64), [found], "class")


def mirrored(scope: Scope, score: str, shift: Sequence[float] = ()) -> str:
    """From [N, 1] to [N, 2]: a score's negative and itself, each with a shift."""
    signs = scope.constant("signs", np.array([[-1.0, 1.0]], np.float32))
    found = scope.node(binary.Mul(), [score, signs], "both")
    if not shift:
        return found
    added = scope.constant("shift", np.array([shift], np.float32))
    return scope.node(binary.Add(), [found, added], "shifted")


def post_transform(scope: Scope, scores: str, kind: str) -> str:
    """Scores [N, C] after one of POST_TRANSFORMS."""
    if kind == "LOGISTIC":
        return scope.node(act.Sigmoid(), [scores], "logistic")
    if kind == "SOFTMAX":
        return scope.node(Softmax(1), [scores], "softmax")
    if kind == "SOFTMAX_ZERO":
        return _softmax_zero(scope, scores)
    return _probit(scope, scores) if kind == "PROBIT" else scores


def _softmax_zero(scope: Scope, x: str) -> str:
    """Softmax of the scores that are not zero; the others stay (almost) zero."""

    def node(op: object, *inputs: str, label: str) -> str:
        return scope.node(op, list(inputs), f"softmax/{label}")  # type: ignore[arg-type]

    most = node(ReduceMax((1,), keepdims=True), x, label="greatest")
    apart = node(binary.Sub(), x, most, label="apart")
    some = node(unary.Exp(), apart, label="exp")
    scaled = node(unary.Exp(), node(unary.Neg(), most, label="least"), label="factor")
    none = node(binary.Mul(), x, scaled, label="none")
    size = node(unary.Abs(), x, label="size")
    counts = node(Greater(), size, scope.scalar("softmax/near", _NEAR_ZERO), label="counts")
    zero = scope.constant("softmax/zero", np.zeros((1, 1), np.float32))
    terms = node(Where(), counts, some, zero, label="terms")
    total = node(ReduceSum((1,), keepdims=True), terms, label="total")
    kept = node(Where(), counts, some, none, label="kept")
    return node(binary.Div(), kept, total, label="shares")


def _probit(scope: Scope, x: str) -> str:
    """The inverse of the normal distribution, by Winitzki's approximation of the inverse erf."""

    def node(op: object, *inputs: str, label: str) -> str:
        return scope.node(op, list(inputs), f"probit/{label}")  # type: ignore[arg-type]

    def number(label: str, value: float) -> str:
        return scope.scalar(f"probit/{label}", value)

    a = float(np.float32(0.147))
    centred = node(unary.Affine(2.0, -1.0), x, label="centred")
    left = node(unary.Affine(-1.0, 1.0), centred, label="left")
    right = node(unary.Affine(1.0, 1.0), centred, label="right")
    log = node(unary.Log(), node(binary.Mul(), left, right, label="product"), label="log")
    half = node(unary.Affine(0.5, 2.0 / (3.14159 * a)), log, label="half")
    part = node(binary.Mul(), log, number("factor", 1.0 / a), label="part")
    square = node(unary.Square(), half, label="square")
    root = node(unary.Sqrt(), node(binary.Sub(), square, part, label="inner"), label="root")
    size = node(binary.Sub(), root, half, label="difference")
    sized = node(unary.Sqrt(), size, label="size")
    below = node(Greater(), number("zero", 0.0), centred, label="below")
    sign = node(
        Where(), below, number("minus", -(2.0**0.5)), number("plus", 2.0**0.5), label="sign"
    )
    return node(binary.Mul(), sized, sign, label="probit")


def as_array(scope: Scope, name: str) -> Array | None:
    """A tensor in an attribute, None if it is absent."""
    found = scope.raw(name)
    if found is None:
        return None
    if not callable(found):
        raise ModelError(f"attribute {name!r} is not a tensor")
    array: Array = found()
    if array.dtype.kind not in "fiu" or array.ndim > 1:
        raise ModelError(f"attribute {name!r} is not a list of numbers")
    return array
