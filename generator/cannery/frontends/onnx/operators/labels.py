"""Labels in ai.onnx.ml: numbers for numbers or for places, and maps from labels to scores."""

from __future__ import annotations

import numpy as np

from cannery.errors import ModelError, UnsupportedError
from cannery.frontends.onnx.operators.base import Scope, operator
from cannery.frontends.onnx.operators.classifiers import ML, as_array
from cannery.frontends.onnx.operators.values import Value
from cannery.ir.graph import Array
from cannery.ir.tensor import DType
from cannery.ops.indexing.gather import Gather
from cannery.ops.indexing.masks import OneHot
from cannery.ops.indexing.position import Position
from cannery.ops.movement.op import Cast


@operator("ZipMap", domain=ML)
def zip_map(scope: Scope) -> Value:
    """A list of maps from labels to scores: here it is the scores, in the order of the labels."""
    names = scope.texts("classlabels_strings", ())
    scope.ignore("classlabels_int64s")
    if names:
        scope.name_classes(names)
    return scope.input(0)


def _known_list(scope: Scope, side: str) -> Array:
    """The keys or values of a LabelEncoder, which are integers or floats."""
    found = [
        np.array(scope.integers(f"{side}_int64s"), np.int64)
        if scope.has(f"{side}_int64s") else None,
        np.array(scope.numbers(f"{side}_floats", nan=True), np.float32)
        if scope.has(f"{side}_floats") else None,
        as_array(scope, f"{side}_tensor"),
    ]  # fmt: skip
    known = [array for array in found if array is not None]
    if scope.has(f"{side}_strings"):
        raise UnsupportedError(f"{side} that are texts are not supported")
    if len(known) != 1:
        raise ModelError(f"needs one list of {side}")
    return known[0].reshape(-1)


def _default(scope: Scope, dtype: np.dtype[np.generic]) -> Array:
    """What elements without a key become."""
    tensor = as_array(scope, "default_tensor")
    whole = scope.integer("default_int64", -1)
    number = scope.number("default_float", 0.0, nan=True)
    scope.ignore("default_string")
    if tensor is not None:
        return tensor.reshape(-1)[:1].astype(dtype)
    return np.array([number if dtype.kind == "f" else whole], dtype)


@operator("LabelEncoder", domain=ML)
def label_encoder(scope: Scope) -> Value:
    """For each element the value of the key that it equals."""
    if scope.opset < 2:
        raise UnsupportedError("version 1 of the operator maps texts, which are not supported")
    keys, values = _known_list(scope, "keys"), _known_list(scope, "values")
    default = _default(scope, values.dtype)
    x = scope.input(0)
    if keys.size != values.size:
        raise ModelError(f"has {keys.size} keys and {values.size} values")
    if keys.dtype.name != scope.dtype(x):
        raise ModelError(f"keys of {keys.dtype} for elements of {scope.dtype(x)}")
    if keys.dtype.kind == "f" and np.isnan(keys).any():
        raise UnsupportedError("a key that is NaN is not supported")
    return scope.result(_value_of(scope, scope.plain(x), keys, np.concatenate([values, default])))


def _value_of(scope: Scope, x: str, keys: Array, values: Array, label: str = "") -> str:
    """For each element the value of the first key that it equals, else the last value."""
    keys, first = np.unique(keys, return_index=True)
    places = scope.node(Position(), [x, scope.constant("keys", keys)], "places")
    known = scope.constant("values", np.concatenate([values[first], values[-1:]]))
    return scope.node(Gather(0), [known, places], label)


@operator("OneHotEncoder", domain=ML)
def one_hot_encoder(scope: Scope) -> Value:
    """A 1 at the place of the category that an element is, in a new last axis.

    Floats are truncated. What is in no category sets nothing, also where `zeros` says that this is
    an error: generated code has no errors.
    """
    scope.ignore("zeros")
    if scope.has("cats_strings"):
        raise UnsupportedError(
            "categories that are texts are not supported",
            cure="encode texts as numbers before the network: train it on numbers",
        )
    categories = np.array(scope.integers("cats_int64s"), np.int64)
    x = scope.plain(scope.input(0))
    if scope.type(x).dtype is not DType.INT64:
        x = scope.node(Cast(DType.INT64), [x], "whole")
    places = np.append(np.arange(categories.size), -1)  # -1 sets nothing
    place = _value_of(scope, x, categories, places, "place")
    values = scope.constant("off_on", np.array([0, 1], np.float32))
    op = OneHot(categories.size, scope.type(x).rank, wraps=False)
    return scope.result(scope.node(op, [place, values]))
