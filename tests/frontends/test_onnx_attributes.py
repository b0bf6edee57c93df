"""Attributes and known inputs of ONNX nodes are of the kind that is asked for, or an error."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from cannery.errors import CanneryError, ModelError, UnsupportedError
from cannery.frontends.onnx.model import OnnxNode
from cannery.frontends.onnx.operators.base import Scope
from cannery.frontends.onnx.operators.values import Computed, Constant
from cannery.ir.tensor import DType

#: A value of each kind that attributes have.
VALUES: dict[str, object] = {
    "integer": 3, "number": 0.5, "nan": float("nan"), "text": "SAME", "integers": (1, 2),
    "numbers": (1, 0.5), "nans": (1.0, float("nan")), "texts": ("a", "b"), "mixed": (1, "a"),
    "nothing": (), "array": np.zeros(2, np.float32), "path": Path("p"),
}  # fmt: skip

#: How attributes are read, and which of them can be.
READERS: list[tuple[Callable[[Scope], object], str]] = [
    (lambda s: s.integer("a"), "integer"),
    (lambda s: s.number("a"), "integer number"),
    (lambda s: s.number("a", nan=True), "integer number nan"),
    (lambda s: s.text("a", ""), "text"),
    (lambda s: s.integers("a"), "integers nothing"),
    (lambda s: s.integers("a", count=2), "integers"),
    (lambda s: s.texts("a", ()), "texts nothing"),
    (lambda s: s.numbers("a"), "integers numbers nothing"),
]


def scope(attributes: Mapping[str, object], *inputs: Constant | Computed) -> Scope:
    """A node without a graph around it."""
    state = SimpleNamespace(builder=None, floats=lambda value: value, opsets=lambda domain: 17)
    node = OnnxNode("Foo", "", "foo", (), ("y",), attributes)
    return Scope(cast(Any, state), node, inputs)


@pytest.mark.parametrize(("read", "kinds"), READERS)
def test_attributes_are_of_the_kind_that_is_read(
    read: Callable[[Scope], object], kinds: str
) -> None:
    for kind, value in VALUES.items():
        node = scope({"a": value})
        if kind in kinds.split():
            np.testing.assert_equal(read(node), value)
            node.check_all_read()
        else:
            with pytest.raises(ModelError, match="'a'"):
                read(node)


def test_attributes_that_are_absent_or_too_many() -> None:
    assert scope({}).integer("a", 7) == 7
    assert scope({}).integers("a", (1, 2, 3)) == (1, 2, 3)
    assert scope({}).text("a", "b", ("b", "c")) == "b"
    assert not scope({}).has("a")
    assert scope({"a": 0}).has("a")
    absent: list[Callable[[str], object]] = [
        scope({}).integer, scope({}).number, scope({}).integers
    ]  # fmt: skip
    for read in absent:
        with pytest.raises(ModelError, match="'a' is missing"):
            read("a")
    with pytest.raises(UnsupportedError, match="one of those supported: b, c"):
        scope({"a": "d"}).text("a", "b", ("b", "c"))
    with pytest.raises(UnsupportedError, match="'a' is not supported"):
        scope({"a": 1}).check_all_read()
    unread = scope({"a": 1})
    unread.ignore("a")
    unread.check_all_read()


def test_axes() -> None:
    node = scope({})
    assert [node.axis(axis, 3) for axis in (-3, -1, 0, 2)] == [0, 2, 0, 2]
    assert node.axes((-1, 0), 3) == (0, 2)
    for wrong in (lambda: node.axis(3, 3), lambda: node.axis(-4, 3), lambda: node.axes((0, -3), 3)):
        with pytest.raises(ModelError):
            wrong()


ARRAYS: dict[str, Any] = {
    "none": np.zeros(0, np.int64), "one": np.array([5]), "scalar": np.array(5, np.int32),
    "two": np.array([1, 2]), "matrix": np.array([[1, 2]]), "float": np.array(2.0),
    "floats": np.array([0.5, 1.0]), "infinite": np.array(np.inf), "bool": np.array(True),
}  # fmt: skip

KNOWN: list[tuple[Callable[[Scope], object], str]] = [
    (lambda s: s.known_integers(0, "sizes"), "none one scalar two"),
    (lambda s: s.known_integer(0, "a size"), "one scalar float"),
    (lambda s: s.known_floats(0, "scales", (2,)), "floats"),
    (lambda s: s.known_floats(0, "a scale", ()), "float infinite"),
]


@pytest.mark.parametrize(("read", "kinds"), KNOWN)
def test_known_inputs_are_of_the_kind_that_is_read(
    read: Callable[[Scope], Any], kinds: str
) -> None:
    assert read(scope({})) is None
    for kind, array in ARRAYS.items():
        node = scope({}, Constant(array))
        if kind in kinds.split():
            assert np.array_equal(np.ravel(read(node)), np.ravel(array))
        else:
            with pytest.raises(CanneryError):
                read(node)


def test_inputs_that_are_computed_are_not_known() -> None:
    with pytest.raises(UnsupportedError, match="sizes are computed at run time"):
        scope({}, Computed("x", (0,), (2,), DType.INT64)).known_integers(0, "sizes")
