"""Preparation of features in ai.onnx.ml: scaling, replacing, choosing and joining them."""

from __future__ import annotations

from math import prod

import numpy as np

from cannery.errors import ModelError, UnsupportedError
from cannery.frontends.onnx.operators.base import Scope, operator
from cannery.frontends.onnx.operators.classifiers import ML
from cannery.frontends.onnx.operators.elementwise import aligned, apply, combined
from cannery.frontends.onnx.operators.movement import as_type
from cannery.frontends.onnx.operators.reduction import reduced
from cannery.frontends.onnx.operators.values import Constant, Value
from cannery.ir.tensor import DType
from cannery.ops.concat.op import Concat
from cannery.ops.elementwise import binary
from cannery.ops.indexing.gather import Gather
from cannery.ops.logic import compare
from cannery.ops.reduce.op import ReduceL1, ReduceL2, ReduceMax, Reduction


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


def _integers(scope: Scope, name: str, x: Value) -> Constant:
    """A list of integers, one for all features of x or one for each."""
    values = scope.integers(name, (0,))
    count = x.shape[-1] if x.shape else 1
    if len(values) not in (1, count):
        raise ModelError(f"{name} has {len(values)} entries for {count} features")
    return Constant(np.asarray(values, np.int64), f"{scope.name}/{name}")


@operator("Scaler", domain=ML)
def scaler(scope: Scope) -> Value:
    """(x - offset) * scale, per feature."""
    x = _floats(scope, scope.input(0))
    offset, scale = _features(scope, "offset", x, 0.0), _features(scope, "scale", x, 1.0)
    return combined(scope, binary.Mul(), combined(scope, binary.Sub(), x, offset, "moved"), scale)


@operator("Binarizer", domain=ML)
def binarizer(scope: Scope) -> Value:
    """1 above the threshold, else 0."""
    x = _floats(scope, scope.input(0))
    threshold = Constant(np.float32(scope.number("threshold", 0.0)).reshape(()))
    above = combined(scope, compare.Greater(), x, threshold, "above")
    return as_type(scope, above, DType.FLOAT32, "")


@operator("Imputer", domain=ML)
def imputer(scope: Scope) -> Value:
    """Replaces features that equal one value, or NaN if that value is NaN."""
    x = scope.input(0)
    if scope.dtype(x) == "int64":
        scope.ignore("imputed_value_floats", "replaced_value_float")
        marker = Constant(np.int64(scope.integer("replaced_value_int64", 0)).reshape(()))
        value = _integers(scope, "imputed_value_int64s", x)
    elif scope.dtype(x) == "float32":
        scope.ignore("imputed_value_int64s", "replaced_value_int64")
        missing = scope.number("replaced_value_float", 0.0, nan=True)
        marker = Constant(np.float32(missing).reshape(()))
        value = _features(scope, "imputed_value_floats", x, 0.0)
    else:
        raise UnsupportedError(f"missing values of {scope.dtype(x)} are not supported")
    if marker.array != marker.array:
        found = apply(scope, compare.IsNaN(), x, "missing")
    else:
        found = combined(scope, compare.Equal(), x, marker, "missing")
    names, perm = aligned(scope, [found, value, x])
    return scope.result(scope.node(compare.Where(), names), perm)


_NORMS: dict[str, type[Reduction]] = {"MAX": ReduceMax, "L1": ReduceL1, "L2": ReduceL2}


@operator("Normalizer", domain=ML)
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


@operator("FeatureVectorizer", domain=ML)
def feature_vectorizer(scope: Scope) -> Value:
    """Features of several inputs side by side."""
    values = [_floats(scope, v) for v in scope.all_inputs()]
    sizes = scope.integers("inputdimensions", tuple(v.shape[-1] for v in values), len(values))
    if any(len(v.shape) != 2 or v.shape[1] != d for v, d in zip(values, sizes, strict=True)):
        raise UnsupportedError("inputs that are not matrices of `inputdimensions` features")
    return scope.result(scope.node(Concat(1), [scope.plain(v) for v in values]))


@operator("ArrayFeatureExtractor", domain=ML)
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
