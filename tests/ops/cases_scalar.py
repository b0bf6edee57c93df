"""Operators with plain C: integers and bool, indices, orders, and whatever is rare."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from cannery.ir.graph import Graph
from cannery.ir.registry import Op
from cannery.ir.tensor import MODEL_DTYPES, DType
from cannery.ops.elementwise import Abs, Add, Div, Max, Min, Mul, Neg, Relu, Sign, Square, Sub
from cannery.ops.indexing.gather import Gather, GatherElements, GatherND
from cannery.ops.indexing.masks import OneHot, ReverseSequence, Trilu
from cannery.ops.indexing.scatter import REDUCTIONS, ScatterElements, ScatterND
from cannery.ops.logic import bits, compare, trigonometry
from cannery.ops.movement.op import Cast
from cannery.ops.ordering.cumulative import CumProd, CumSum
from cannery.ops.ordering.extremes import ArgMax, ArgMin, Hardmax, TopK
from cannery.ops.quantize.grid import ROUNDINGS, Grid
from cannery.ops.quantize.thresholds import CountThresholds
from cannery.ops.reduce.op import (
    ReduceL1,
    ReduceMax,
    ReduceMin,
    ReduceProd,
    ReduceSum,
    ReduceSumSquare,
)
from ops.cases import Net, add_case, case

F32, BOOL, INT64, INT32, INT8 = DType.FLOAT32, DType.BOOL, DType.INT64, DType.INT32, DType.INT8
UINT8, INT16 = DType.UINT8, DType.INT16

#: An input of a shape and type, or a constant.
Given = tuple[tuple[int, ...], DType] | NDArray[np.generic]


def plain_graph(op: Op, given: Sequence[Given], then: Op | None = None) -> Graph:
    """One node on inputs and constants, and perhaps another one after it."""
    net = Net()
    names = [
        net.constant("c", g) if isinstance(g, np.ndarray) else net.input(f"x{k}", *g)
        for k, g in enumerate(given)
    ]
    y = net.node(op, names)
    return net.graph(net.node(then, [y]) if then else y)


def plain(name: str, op: Op, *given: Given, then: Op | None = None) -> None:
    add_case(f"plain_{name}", lambda: plain_graph(op, given, then), tolerance=1e-6)


def small(*shape: int, high: int = 3, dtype: str = "int64") -> NDArray[np.generic]:
    """Known indices from -high to high - 1."""
    count = int(np.prod(shape))
    return (np.arange(count) * 7 % (2 * high) - high).astype(dtype).reshape(shape)


A, ROW = (3, 4, 5), (4, 1)
for _dtype in (dtype for dtype in MODEL_DTYPES if dtype not in (F32, BOOL)):
    for _op in (Add(), Sub(), Mul(), Div(), Max(), Min()):
        plain(f"{_op.kind}_{_dtype.value}", _op, (A, _dtype), (ROW, _dtype), then=Relu())
    for _one in (Abs(), Neg(), Sign(), Square()):
        plain(f"{_one.kind}_{_dtype.value}", _one, (A, _dtype))
    for _mod in (bits.Mod(), bits.Mod(fmod=True), bits.FloorDiv()):
        plain(f"{_mod}_{_dtype.value}".replace("=", "_"), _mod, (A, _dtype), (ROW, _dtype))
for _dtype in (INT32, UINT8, INT64):
    for _reduce in (ReduceSum, ReduceProd, ReduceL1, ReduceSumSquare, ReduceMax, ReduceMin):
        op = _reduce((0, 2), keepdims=_dtype is INT32)
        plain(f"{op.kind}_{_dtype.value}", op, (A, _dtype))
plain("reduce_max_bool", ReduceMax((1,)), (A, BOOL))
plain("reduce_scalar", ReduceSum((0, 1, 2)), (A, INT32))

for _compare in (compare.Equal(), compare.Less(), compare.LessOrEqual(), compare.Greater()):
    plain(f"{_compare.kind}_float", _compare, (A, F32), (ROW, F32))
    plain(f"{_compare.kind}_int8", _compare, (A, INT8), (ROW, INT8))
plain("greater_or_equal", compare.GreaterOrEqual(), (A, INT64), small(4, 1))
for _logic in (compare.And(), compare.Or(), compare.Xor()):
    plain(_logic.kind, _logic, (A, BOOL), (ROW, BOOL))
plain("not", compare.Not(), (A, BOOL))
plain("where", compare.Where(), (ROW, BOOL), (A, F32), (A[1:], F32))
plain("where_bool", compare.Where(), np.array([True, False]), ((*A[:2], 2), BOOL), ((2,), BOOL))
plain("is_nan", compare.IsNaN(), np.array([1.0, np.nan, np.inf, -np.inf], np.float32))
for _signs in ((True, True), (True, False), (False, True), (False, False)):
    _values = np.array([1.0, np.nan, np.inf, -np.inf, 3.4e38], np.float32)
    plain(f"is_inf_{_signs[0]:d}{_signs[1]:d}", compare.IsInf(*_signs), _values)

for _dtype in (UINT8, INT32, INT64):
    for _bits in (bits.BitwiseAnd(), bits.BitwiseOr(), bits.BitwiseXor()):
        plain(f"{_bits.kind}_{_dtype.value}", _bits, (A, _dtype), (ROW, _dtype))
    plain(f"bitwise_not_{_dtype.value}", bits.BitwiseNot(), (A, _dtype))
for _name in ("uint8", "uint16", "uint32", "uint64"):
    for _right in (False, True):
        _amounts = np.array([0, 1, 5, 31, 64], _name)
        plain(f"shift_{_name}_{_right:d}", bits.BitShift(_right), (A, DType(_name)), _amounts)
for _name in ("int8", "int32", "int64"):
    for _right in (False, True):
        _amounts = np.array([0, 1, 7, 31, -1], _name)
        plain(f"shift_{_name}_{_right:d}", bits.BitShift(_right), (A, DType(_name)), _amounts)
_signs = np.array([[-7.5], [0.0], [7.5], [-0.0], [np.inf]], np.float32)
plain("mod_signs", bits.Mod(), _signs, np.array([3, -3, np.inf, 0.7], np.float32))
plain("mod", bits.Mod(), (A, F32), (ROW, F32))
plain("fmod", bits.Mod(fmod=True), (A, F32), (ROW, F32))
_base = np.array([-3, -1, 0, 1, 2, 5], np.int32)
plain("integer_pow", bits.IntegerPow(), _base, np.arange(-3, 9).reshape(-1, 1))

for _name in ("Sin", "Cos", "Tan", "Atan", "Sinh", "Cosh", "Asinh"):
    plain(_name, getattr(trigonometry, _name)(), (A, F32))
_angles = np.array([-np.inf, -2.5, -1, -1e-30, -0.0, 0.0, 1e-30, 1, 3, np.inf], np.float32)
plain("atan2", trigonometry.Atan2(), _angles[:, None], _angles)
_edges = np.array([-1.5, -1, -0.7, -1e-6, 0, 1e-6, 0.3, 0.99999, 1], np.float32)
for _name in ("Asin", "Acos", "Atanh", "Acosh"):
    _known = _edges[1:-1] if _name == "Atanh" else _edges[1:]
    plain(_name, getattr(trigonometry, _name)(), _known + 2 if _name == "Acosh" else _known)
plain("sin_of_huge", trigonometry.Sin(), np.array([1e8, -3e20, 3.4e38, 8388609], np.float32))

X = (3, 4, 6)
for _axis in range(3):
    plain(f"gather_{_axis}", Gather(_axis), (X, F32), small(2, 3))
    plain(f"gather_elements_{_axis}", GatherElements(_axis), (X, F32), small(3, 3, 2))
    for _last in (False, True):
        plain(f"argmax_{_axis}_{_last:d}", ArgMax(_axis, not _last, _last), (X, INT8))
        plain(f"argmin_{_axis}_{_last:d}", ArgMin(_axis, not _last, _last), (X, F32))
        plain(f"topk_{_axis}_{_last:d}", TopK(_axis, 3, _last), (X, F32))
        plain(f"topk_at_{_axis}_{_last:d}", TopK(_axis, 2, _last, True), (X, UINT8))
        plain(f"cumsum_{_axis}_{_last:d}", CumSum(_axis, _last, _axis == 1), (X, F32))
        plain(f"cumprod_{_axis}_{_last:d}", CumProd(_axis, _last, _axis == 1), (X, INT32))
    plain(f"hardmax_{_axis}", Hardmax(_axis), (X, F32))
plain("topk_ties", TopK(0, 4, True, True), np.array([1, 3, 3, 1, 3], np.float32))
plain("gather_any", Gather(1), (X, INT64), ((3,), INT64))
plain("gather_scalar", Gather(1), (X, F32), ((), INT32))
plain("gather_nd", GatherND(), (X, F32), small(2, 5, 2))
plain("gather_nd_batch", GatherND(1), (X, BOOL), small(3, 2, 1))
for _reduction in REDUCTIONS:
    _float = _reduction in ("none", "max", "mul")
    _of = F32 if _float else INT32
    plain(
        f"scatter_elements_{_reduction}",
        ScatterElements(1, _reduction), (X, _of), small(3, 5, 2, high=4), ((3, 5, 2), _of),
    )  # fmt: skip
    plain(f"scatter_nd_{_reduction}", ScatterND(_reduction), (X, _of), small(4, 2), ((4, 6), _of))
plain("scatter_any", ScatterElements(0), (X, F32), (X, INT64), (X, F32))
for _upper in (False, True):
    for _k in (-2, 0, 1):
        plain(f"trilu_{_upper:d}_{_k + 2}", Trilu(_upper, _k), (X, INT64 if _k else F32))
plain("one_hot", OneHot(5, 1), small(2, 3), np.array([-1.5, 2], np.float32))
plain("one_hot_from_zero", OneHot(5, 1, wraps=False), small(2, 3), np.array([-1.5, 2], np.float32))
plain("one_hot_float", OneHot(4, 0), ((2, 3), F32), ((2,), INT32))
_lengths = np.array([4, 0, 3], np.int64)
plain("reverse_sequence", ReverseSequence(0, 1), (X, F32), _lengths)
plain("reverse_any", ReverseSequence(2, 0), (X, F32), ((6,), INT64))


@case
def plain_between_floats() -> Graph:
    """A comparison of floats, and arithmetic with what it says."""
    net = Net()
    x, y = net.input("x", (2, 5, 7, 3)), net.input("y", (2, 5, 7, 3))
    mask = net.node(compare.Less(), [x, y])
    number = net.node(Cast(F32), [mask])
    return net.graph(net.node(Mul(), [net.node(Relu(), [number]), x]))


#: Both equal and unequal numbers, of either sign.
TIES = (np.arange(30).reshape(5, 6) % 5 - 2).astype(np.float32)


def with_ties(op: Op, ties: NDArray[np.generic]) -> Graph:
    """A comparison of numbers that are rounded, so that some are equal to the known ones."""
    net = Net()
    x = net.node(Cast(INT32), [net.input("x", (5, 6))])
    x = net.node(Cast(DType(ties.dtype.name)), [x])
    return net.graph(net.node(op, [x, net.constant("ties", ties)]))


for _compared in (compare.Equal(), compare.Less(), compare.LessOrEqual(), compare.Greater(),
                  compare.GreaterOrEqual()):  # fmt: skip
    for _ties in (TIES, TIES.astype(np.int64)):
        add_case(f"plain_{_compared.kind.lower()}_ties_{_ties.dtype.name}",
                 partial(with_ties, _compared, _ties))  # fmt: skip

for _rounding in ROUNDINGS:
    plain(f"grid_{_rounding.lower()}", Grid(-5, 7, _rounding), (A, F32),
          np.array([0.25, 0.1, 1, 3, 0.037], np.float32), np.float32(1.5)[None])  # fmt: skip
_levels = np.array([[-1, -0.5, 0, 0.5], [-2, -2, 1, 3], [0, 0, 0, 9], [-9, 0, 0.5, 1]], np.float32)
plain("count_thresholds", CountThresholds(1), (A, F32), _levels)
plain("count_thresholds_all", CountThresholds(2), (A, F32), _levels[:1])
plain("count_thresholds_ties", CountThresholds(0), _levels[:2], np.array([[0]], np.float32))
