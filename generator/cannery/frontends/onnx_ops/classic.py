"""Operators of the domain ai.onnx.ml, into which skl2onnx turns scalers and linear models."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from cannery.errors import ModelError, UnsupportedError
from cannery.frontends.onnx_ops.base import Scope, operator
from cannery.frontends.onnx_ops.elementwise import aligned, apply, combined
from cannery.frontends.onnx_ops.movement import as_type
from cannery.frontends.onnx_ops.reduction import reduced
from cannery.frontends.onnx_ops.values import Computed, Constant, Value
from cannery.ir.graph import Array
from cannery.ir.tensor import DType
from cannery.ops.concat.op import Concat
from cannery.ops.elementwise import activations as act
from cannery.ops.elementwise import binary
from cannery.ops.elementwise.unary import Neg
from cannery.ops.indexing.gather import Gather
from cannery.ops.logic import compare
from cannery.ops.matmul.op import MatMul
from cannery.ops.ordering.extremes import ArgMax
from cannery.ops.reduce.op import ReduceL1, ReduceL2, ReduceMax, Reduction
from cannery.ops.softmax.op import Softmax

DOMAIN = "ai.onnx.ml"


def _floats(scope: Scope, x: Value) -> Value:
    """An input of any type as floats."""
    return as_type(scope, x, DType.FLOAT32, "floats")


def _features(scope: Scope, name: str, x: Value, default: float) -> Constant:
    """A list of floats, one for all features of x or one for each."""
    values = scope.numbers(name) or (default,)
    count = x.shape[-1] if x.shape else 1
    if len(values) not in (1, count):
        raise ModelError(f"{name} has {len(values)} entries for {count} features")
    return Constant(np.asarray(values, np.float32), f"{scope.name}/{name}")


@operator("Scaler", domain=DOMAIN)
def scaler(scope: Scope) -> Value:
    """(x - offset) * scale, per feature."""
    x = _floats(scope, scope.input(0))
    offset, scale = _features(scope, "offset", x, 0.0), _features(scope, "scale", x, 1.0)
    return combined(scope, binary.Mul(), combined(scope, binary.Sub(), x, offset, "moved"), scale)


@operator("Binarizer", domain=DOMAIN)
def binarizer(scope: Scope) -> Value:
    """1 above the threshold, else 0."""
    x = _floats(scope, scope.input(0))
    threshold = Constant(np.float32(scope.number("threshold", 0.0)).reshape(()))
    above = combined(scope, compare.Greater(), x, threshold, "above")
    return as_type(scope, above, DType.FLOAT32, "")


@operator("Imputer", domain=DOMAIN)
def imputer(scope: Scope) -> Value:
    """Replaces features that equal one value, or NaN if that value is NaN."""
    x = scope.input(0)
    if scope.dtype(x) != "float32":
        raise UnsupportedError(f"missing values of {scope.dtype(x)} are not supported")
    missing = scope.number("replaced_value_float", 0.0, nan=True)
    value = _features(scope, "imputed_value_floats", x, 0.0)
    if np.isnan(missing):
        found = apply(scope, compare.IsNaN(), x, "missing")
    else:
        marker = Constant(np.float32(missing).reshape(()))
        found = combined(scope, compare.Equal(), x, marker, "missing")
    names, perm = aligned(scope, [found, value, x])
    return scope.result(scope.node(compare.Where(), names), perm)


_NORMS: dict[str, type[Reduction]] = {"MAX": ReduceMax, "L1": ReduceL1, "L2": ReduceL2}


@operator("Normalizer", domain=DOMAIN)
def normalizer(scope: Scope) -> Value:
    """Divides by the greatest feature, or by the 1-norm or 2-norm, unless that is 0."""
    x = _floats(scope, scope.input(0))
    kind = _NORMS[scope.text("norm", "MAX", tuple(_NORMS))]
    norm = reduced(scope, kind, x, [len(x.shape) - 1], True, "norm")
    zero, one = (Constant(np.float32(v).reshape(())) for v in (0.0, 1.0))
    nothing = combined(scope, compare.Equal(), norm, zero, "nothing")
    names, perm = aligned(scope, [nothing, one, norm])
    divisor = scope.result(scope.node(compare.Where(), names, "divisor"), perm)
    return combined(scope, binary.Div(), x, divisor)


@operator("FeatureVectorizer", domain=DOMAIN)
def feature_vectorizer(scope: Scope) -> Value:
    """Features of several inputs side by side."""
    values = [_floats(scope, v) for v in scope.all_inputs()]
    sizes = scope.integers("inputdimensions", tuple(v.shape[-1] for v in values), len(values))
    if any(len(v.shape) != 2 or v.shape[1] != d for v, d in zip(values, sizes, strict=True)):
        raise UnsupportedError("inputs that are not matrices of `inputdimensions` features")
    return scope.result(scope.node(Concat(1), [scope.plain(v) for v in values]))


@operator("ArrayFeatureExtractor", domain=DOMAIN)
def array_feature_extractor(scope: Scope) -> Value:
    """Features by their numbers; a list of features is one row."""
    x, indices = scope.input(0), scope.input(1)
    if not x.shape:
        raise ModelError("its input is a scalar")
    if len(x.shape) == 1:
        x = scope.reshaped(x, (1, *x.shape), "row")
    flat = scope.reshaped(indices, (prod(indices.shape),), "flat")
    names = [scope.plain(x), scope.plain(flat)]
    return scope.result(scope.node(Gather(len(x.shape) - 1), names))


def _scores(scope: Scope, count: int, label: str = "") -> Computed:
    """Rows of features [N,C] times coefficients, plus intercepts: [N,count]."""
    x = _floats(scope, scope.input(0))
    if len(x.shape) == 1:
        x = scope.reshaped(x, (1, *x.shape), "row")
    if len(x.shape) != 2:
        raise ModelError(f"its input has shape {x.shape}, expected rows of features")
    weights = np.asarray(scope.numbers("coefficients"), np.float32)
    if weights.size != count * x.shape[1]:
        raise ModelError(f"{weights.size} coefficients for {count} x {x.shape[1]}")
    w = scope.constant("coefficients", np.ascontiguousarray(weights.reshape(count, -1).T))
    intercepts = np.asarray(scope.numbers("intercepts"), np.float32)
    if intercepts.size not in (0, count):
        raise ModelError(f"{intercepts.size} intercepts for {count} sums")
    bias = [scope.constant("intercepts", intercepts)] if intercepts.size else []
    return scope.result(scope.node(MatMul(), [scope.plain(x), w, *bias], label))


@operator("LinearRegressor", domain=DOMAIN)
def linear_regressor(scope: Scope) -> Value:
    """Linear functions of the features."""
    scope.text("post_transform", "NONE", ("NONE",))
    return _scores(scope, scope.integer("targets", 1))


@operator("LinearClassifier", domain=DOMAIN)
def linear_classifier(scope: Scope) -> Sequence[Value]:
    """The class with the greatest score, and all scores.

    A single score is that of the second of two classes, which is chosen above 0. The first class
    gets the rest to 1, as in ONNX Runtime.
    """
    scope.ignore("multi_class")
    transform = scope.text("post_transform", "NONE", ("NONE", "SOFTMAX", "LOGISTIC"))
    count = len(scope.numbers("intercepts"))
    labels = _labels(scope)
    if count < 1 or len(labels) not in (count, 2):
        raise ModelError(f"has {len(labels)} classes for {count} intercepts")
    scores = _scores(scope, count, "sums")
    if count == 1 and transform == "SOFTMAX":
        raise UnsupportedError("a softmax of a single score is not supported")
    second = scores
    if count == 1:
        scores = _beside(scope, apply(scope, Neg(), second, "negated"), second, "signed")
    best = scope.result(scope.node(ArgMax(1, False, False), [scope.plain(scores)], "best"))
    known = Constant(labels, f"{scope.name}/labels")
    label = scope.result(scope.node(Gather(0), [scope.plain(known), scope.plain(best)]))
    if transform == "NONE" and count == 1:
        one = Constant(np.float32(1.0).reshape(()))
        scores = _beside(
            scope, combined(scope, binary.Sub(), one, second, "rest"), second, "scores"
        )
    if transform == "NONE":
        return [label, scores]
    op = act.Sigmoid() if transform == "LOGISTIC" else Softmax(1)
    return [label, apply(scope, op, scores, "probabilities")]


def _beside(scope: Scope, a: Value, b: Value, label: str) -> Computed:
    """Two columns."""
    return scope.result(scope.node(Concat(1), [scope.plain(a), scope.plain(b)], label))


def _labels(scope: Scope) -> Array:
    """The numbers of the classes; UnsupportedError if they are names."""
    if scope.has("classlabels_strings"):
        raise UnsupportedError("classes are named by strings", cure="train with integer labels")
    return np.asarray(scope.integers("classlabels_ints", ()), np.int64)


@operator("ZipMap", domain=DOMAIN)
def zip_map(scope: Scope) -> Value:
    """Maps from classes to scores, which are not tensors."""
    raise UnsupportedError(
        "its output is not a tensor", cure="export with options={'zipmap': False} in skl2onnx"
    )
