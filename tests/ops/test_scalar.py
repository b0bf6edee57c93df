"""Operators with plain C: their types and errors. What they compute: cases_scalar.py."""

from __future__ import annotations

import re

import numpy as np
import pytest

from cannery.errors import CanneryError
from cannery.ir.registry import Op, all_ops
from cannery.ir.tensor import DType, TensorType
from cannery.ops.elementwise import Div, Relu
from cannery.ops.indexing.gather import Gather, GatherElements, GatherND
from cannery.ops.indexing.masks import OneHot, ReverseSequence, Trilu
from cannery.ops.indexing.scatter import ScatterElements, ScatterND, TensorScatter
from cannery.ops.logic import bits, compare, trigonometry
from cannery.ops.movement.op import Slice
from cannery.ops.ordering.cumulative import CumSum
from cannery.ops.ordering.extremes import ArgMax, Hardmax, TopK
from cannery.ops.reduce.op import ReduceMax
from cannery.ops.scalar.base import ScalarOp
from cannery.ops.softmax.op import LogSoftmax, Softmax
from cannery.target.isa import isa
from nets.net_bench import make_net_source
from ops.cases import Net, all_cases

INT64, BOOL, UINT8 = DType.INT64, DType.BOOL, DType.UINT8


def t(*shape: int, dtype: DType = DType.FLOAT32) -> TensorType:
    return TensorType(shape, dtype)


X, I = t(3, 4), t(2, dtype=INT64)  # noqa: E741

ERRORS: list[tuple[Op, list[TensorType], str]] = [
    (compare.Equal(), [X, t(4, dtype=INT64)], "different dtypes"),
    (compare.Less(), [X, t(3)], "do not broadcast"),
    (compare.And(), [X, X], "works on bool"),
    (compare.Where(), [X, X, X], "chooses by bool"),
    (compare.IsNaN(), [I], "works on float32"),
    (bits.BitwiseAnd(), [X, X], "works on integers"),
    (bits.BitShift(), [X, X], "works on integers"),
    (bits.IntegerPow(), [X, X], "works on integers"),
    (trigonometry.Sin(), [I], "works on float32"),
    (Gather(2), [X, I], r"axis 2 is outside 0\.\.1"),
    (Gather(0), [X, X], "indices of float32"),
    (Gather(0), [t(0, 2), I], "its axis is empty"),
    (GatherElements(0), [X, I], r"indices \(2,\) for \(3, 4\)"),
    (GatherElements(0), [X, t(9, 5, dtype=INT64)], "are larger than"),
    (GatherND(2), [X, t(3, 4, dtype=INT64)], "batch_dims 2 is too large"),
    (GatherND(1), [X, t(2, 1, dtype=INT64)], "the batches of its inputs differ"),
    (GatherND(), [X, t(2, 3, dtype=INT64)], "3 indices for shape"),
    (ScatterElements(0), [X, t(1, 4, dtype=INT64), t(1, 3)], "differ in shape"),
    (ScatterElements(0), [X, t(1, 4, dtype=INT64), t(1, 4, dtype=UINT8)], "another dtype"),
    (ScatterElements(0, "mean"), [X, t(1, 4, dtype=INT64), t(1, 4)], "reduction 'mean'"),
    (ScatterND(), [X, t(2, 1, dtype=INT64), t(2, 3)], r"updates \(2, 3\), expected \(2, 4\)"),
    (Trilu(), [t(3)], "is not a matrix"),
    (OneHot(3, 2), [I, t(2)], r"axis 2 is outside 0\.\.1"),
    (OneHot(3, 0), [I, t(3)], "expected"),
    (ReverseSequence(0, 0), [X, t(3, dtype=INT64)], "the same axis"),
    (ReverseSequence(0, 1), [X, t(4, dtype=INT64)], "lengths of shape"),
    (ArgMax(1), [t(3, 0)], "its axis is empty"),
    (TopK(1, 5), [X], "k 5 of 4"),
    (Hardmax(0), [I], "works on float32"),
    (CumSum(0), [t(3, dtype=BOOL)], "does not work on bool"),
]


@pytest.mark.parametrize(
    ("op", "inputs", "message"), ERRORS, ids=[f"{o.kind}-{i}" for i, (o, _, _) in enumerate(ERRORS)]
)
def test_errors(op: Op, inputs: list[TensorType], message: str) -> None:
    with pytest.raises(CanneryError, match=message) as caught:
        op.infer(*inputs)
    assert str(caught.value).startswith(op.kind)


def test_every_operator_has_a_case() -> None:
    tried = {node.op.kind for case in all_cases() for node in case.make().nodes}
    scalar = {name for name, cls in all_ops().items() if issubclass(cls, ScalarOp)}
    assert scalar <= tried


def test_integers_are_divided_towards_zero_and_by_zero() -> None:
    a, b = np.array([7, -7, 7, -128], np.int8), np.array([-2, 2, 0, -1], np.int8)
    (y,) = Div().reference(a, b)
    assert y.dtype == np.int8
    assert y.tolist() == [-3, -3, 0, -128]


def test_rectified_integers_keep_their_type() -> None:
    (y,) = Relu().reference(np.array([-3, 3], np.int32))
    assert y.dtype == np.int32
    assert y.tolist() == [0, 3]


@pytest.mark.parametrize(("circular", "expected"), [(False, [2, 3, 0, 0]), (True, [2, 3, 0, 1])])
def test_scattering_from_before_the_beginning(circular: bool, expected: list[int]) -> None:
    arrays = (np.zeros((1, 4)), np.array([[1.0, 2.0, 3.0]]), np.array([-1]))
    (y,) = TensorScatter(1, circular).reference(*arrays)
    assert y.tolist() == [expected]


@pytest.mark.parametrize(
    "op", [ArgMax(1), Hardmax(1), TopK(1, 1), Softmax(1), LogSoftmax(1), ReduceMax((1,), True)]
)
def test_axes_of_one_element_are_not_empty(op: Op) -> None:
    assert op.infer(t(3, 1))[0].shape == (3, 1)
    with pytest.raises(CanneryError):
        op.infer(t(3, 0))


def test_rows_of_bytes_are_copied_at_once() -> None:
    """Of computed places, and parts of values; single elements by themselves."""
    b = Net()
    x, at = b.input("x", (1, 6, 10), DType.INT8), b.input("at", (4,), DType.INT32)
    b.output(b.node(Gather(1), [x, at]))
    b.output(b.node(Slice((0, 1, 0), (1, 6, 10), (1, 1, 1)), [x]))
    b.output(b.node(Gather(2), [x, at]))
    calls = make_net_source(b.build(), isa("avx2"), "net").calls
    found = [re.findall(r"memcpy\(.*\);", call.kernel.code) for call in calls]
    assert found == [
        ["memcpy(&y[j0 * 10], &x[from * 10], 10u * sizeof y[0]);"],
        ["memcpy(q, x + (o0), 50u * sizeof *q);"],
        [],
    ]
