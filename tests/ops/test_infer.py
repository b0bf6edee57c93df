"""Types and errors of every operator: results, and what is rejected with which message."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cannery.errors import CanneryError, ModelError, UnsupportedError
from cannery.ir.registry import Elementwise, Op, all_ops
from cannery.ir.tensor import DType, TensorType
from cannery.ops.attention.op import Attention, HeadChannels
from cannery.ops.average_pool.op import AveragePool
from cannery.ops.bfloat.op import BfloatConv, BfloatMatMul
from cannery.ops.concat.op import Concat
from cannery.ops.conv.deform import DeformConv
from cannery.ops.conv.op import Conv
from cannery.ops.conv_transpose.op import ConvTranspose
from cannery.ops.elementwise import (
    Abs,
    Add,
    Celu,
    Clip,
    Elu,
    HardSigmoid,
    LeakyRelu,
    Pow,
    PRelu,
    Relu,
    ReluGeneral,
    Selu,
    Sigmoid,
    ThresholdedRelu,
)
from cannery.ops.indexing.gather import Gather, GatherElements, GatherND
from cannery.ops.matmul.op import MatMul
from cannery.ops.max_pool.op import MaxPool
from cannery.ops.movement.op import Cast, Expand, Identity, Pad, Reshape, Slice, Transpose
from cannery.ops.normalization.op import BatchNormalization, GroupNormalization, LayerNormalization
from cannery.ops.quantize.linear import DequantizeLinear, QuantizeLinear, Requantize
from cannery.ops.quantized.arithmetic import QuantizedOp
from cannery.ops.quantized.lstm import QuantizedLstm
from cannery.ops.quantized.matmul import QuantizedMatMul
from cannery.ops.quantized.scale import Quantize
from cannery.ops.recurrent.op import Gru, Lstm, Rnn
from cannery.ops.reduce.op import (
    ReduceL1,
    ReduceL2,
    ReduceLogSumExp,
    ReduceMax,
    ReduceMean,
    ReduceMin,
    ReduceProd,
    ReduceSum,
    ReduceSumSquare,
)
from cannery.ops.resize.op import Resize
from cannery.ops.scalar.base import ScalarOp
from cannery.ops.softmax.op import LogSoftmax, Softmax
from cannery.ops.trees.op import TreeEnsemble
from cannery.ops.window import MAX_STEP, MAX_TAPS

INT64, UINT8, BOOL = DType.INT64, DType.UINT8, DType.BOOL
INT8, INT32 = DType.INT8, DType.INT32


def t(*shape: int, dtype: DType = DType.FLOAT32) -> TensorType:
    return TensorType(shape, dtype)


def conv(stride: int = 1, pad: int = 0, dilation: int = 1, group: int = 1, rank: int = 2) -> Conv:
    return Conv((stride,) * rank, ((pad, pad),) * rank, (dilation,) * rank, group)


def deform(**attributes: int) -> DeformConv:
    return DeformConv((1, 1), ((0, 0), (0, 0)), (1, 1), **attributes)


def deconv(stride: int = 1, pad: int = 0, extra: int = 0, group: int = 1) -> ConvTranspose:
    return ConvTranspose((stride,) * 2, ((pad, pad),) * 2, (1, 1), (extra,) * 2, group)


def pool(
    kind: type[MaxPool] | type[AveragePool], k: int = 2, s: int = 2, pad: int = 0, d: int = 1
) -> Op:
    return kind((k, k), (s, s), ((pad, pad),) * 2, (d, d))


X = t(1, 8, 10, 6)
G: tuple[Elementwise, ...] = (Sigmoid(),)
BOTH = (False, True)
P, R = t(2, 5, 12), t(1, 3, 12)
ATTENTION = Attention(2, 0.5, HeadChannels(1, 4, 4), HeadChannels(0, 4, 4), HeadChannels(0, 5, 5))
QUERIES, KEYS, VALUES = t(2, 5, 9), t(2, 7, 8), t(2, 7, 10)

FOREST = [
    t(3, 4, dtype=DType.INT32), t(2), t(6), t(6, 3, dtype=DType.INT32), t(2, dtype=DType.INT32),
    t(8, 2), t(2),
]  # fmt: skip

SHAPES: list[tuple[Op, list[TensorType | None], TensorType]] = [
    (conv(), [X, t(3, 3, 6, 5), t(5)], t(1, 6, 8, 5)),
    (conv(), [X, t(3, 3, 6, 5), None], t(1, 6, 8, 5)),
    (conv(), [X, t(3, 3, 6, 5)], t(1, 6, 8, 5)),
    (conv(stride=2, pad=1), [X, t(3, 3, 6, 5)], t(1, 4, 5, 5)),
    (conv(dilation=3), [X, t(3, 3, 6, 5)], t(1, 2, 4, 5)),
    (conv(group=6), [X, t(3, 3, 1, 12)], t(1, 6, 8, 12)),
    (conv(group=2), [X, t(1, 1, 3, 4)], t(1, 8, 10, 4)),
    (conv(rank=1), [t(2, 9, 4), t(9, 4, 7)], t(2, 1, 7)),
    (Gather(1), [t(2, 0, 3), t(0, dtype=DType.INT64)], t(2, 0, 3)),
    (GatherND(), [t(0, 3), t(0, 1, dtype=DType.INT64)], t(0, 3)),
    (GatherElements(0), [t(0, 3), t(0, 3, dtype=DType.INT64)], t(0, 3)),
    (conv(rank=3), [t(1, 4, 5, 6, 2), t(2, 2, 2, 2, 3)], t(1, 3, 4, 5, 3)),
    (
        Conv((2, 1), ((0, 1), (2, 0)), (1, 1)),
        [t(1, 6, 5, 1), t(3, 4, 1, 1)],
        t(1, 3, 4, 1),
    ),
    (deconv(stride=2), [X, t(3, 3, 5, 6), t(5)], t(1, 17, 21, 5)),
    (deconv(stride=2, pad=1, extra=1), [X, t(3, 3, 5, 6)], t(1, 16, 20, 5)),
    (deconv(group=2), [X, t(1, 1, 5, 6), t(10)], t(1, 8, 10, 10)),
    (MatMul(), [t(3, 4), t(4, 5)], t(3, 5)),
    (BfloatConv((1, 1), ((0, 0),) * 2, (1, 1)), [X, t(3, 3, 6, 5), t(5)], t(1, 6, 8, 5)),
    (BfloatMatMul(), [t(2, 3, 4), t(4, 5), t(5)], t(2, 3, 5)),
    (MatMul(), [t(2, 3, 4), t(4, 5), t(5)], t(2, 3, 5)),
    (MatMul(), [t(7, 1, 3, 4), t(2, 4, 5)], t(7, 2, 3, 5)),
    (MatMul(transpose_a=True), [t(4, 3), t(4, 5)], t(3, 5)),
    (MatMul(transpose_b=True), [t(2, 3, 4), t(5, 4), t(5)], t(2, 3, 5)),
    (pool(MaxPool), [X], t(1, 4, 5, 6)),
    (pool(AveragePool, k=3, s=2, pad=1), [X], t(1, 4, 5, 6)),
    (pool(MaxPool, k=3, s=1, d=2), [X], t(1, 4, 6, 6)),
    (Lstm(3, (G,) * 3), [P, R], t(2, 5, 3)),
    (Lstm(3, (G,) * 3, returns=("cell",)), [P, R, t(2, 3), t(2, 3), t(1, 9)], t(2, 3)),
    (Gru(2, (G,) * 4, BOTH, returns=("hidden",)), [P, t(2, 2, 6), t(2, 4)], t(2, 4)),
    (Rnn(6, (G,) * 2, BOTH, lengths=(0, 5)), [P, t(2, 6, 6)], P),
    (Softmax(3), [X], X),
    (LogSoftmax(0), [X], X),
    (ReduceMean((1, 2)), [X], t(1, 6)),
    (ReduceMax((1, 2), keepdims=True), [X], t(1, 1, 1, 6)),
    (ReduceMax((0,)), [t(3, 2, dtype=INT64)], t(2, dtype=INT64)),
    (ReduceMin((1, 2)), [X], t(1, 6)),
    (ReduceProd((1, 2)), [X], t(1, 6)),
    (ReduceL1((3,), keepdims=True), [X], t(1, 8, 10, 1)),
    (ReduceL2((3,), keepdims=True), [X], t(1, 8, 10, 1)),
    (ReduceSumSquare((0,)), [X], t(8, 10, 6)),
    (ReduceSum(()), [X], X),
    (ReduceSum((0, 1)), [t(0, 4)], t()),
    (BatchNormalization(3, 1e-3), [X, t(6), t(6), t(6), t(6)], X),
    (BatchNormalization(1, 0.0), [X, t(8), t(8), t(8), t(8)], X),
    (LayerNormalization((2, 3), 1e-5), [X, t(10, 6), None], X),
    (LayerNormalization((3,), 1e-5), [X], X),
    (ATTENTION, [t(2, 5, 9), t(2, 7, 8), t(2, 7, 10)], t(2, 5, 10)),
    (ATTENTION, [t(2, 5, 9), t(2, 7, 8), t(2, 7, 10), t(2, 1, 5, 7)], t(2, 5, 10)),
    (ATTENTION, [t(2, 5, 9), t(2, 7, 8), t(2, 7, 10), t(7)], t(2, 5, 10)),
    (GroupNormalization(3, 3, 1e-5), [X, t(6), t(6)], X),
    (Resize("nearest", (16, 5)), [X], t(1, 16, 5, 6)),
    (Resize("linear", (4,), scales=(2.0,)), [t(1, 2, 3)], t(1, 4, 3)),
    (Concat(2), [X, t(1, 8, 1, 6), X], t(1, 8, 21, 6)),
    (Concat(0), [t(2, dtype=INT64), t(1, dtype=INT64)], t(3, dtype=INT64)),
    (Reshape((4, 120)), [X], t(4, 120)),
    (Reshape(()), [t(1, 1)], t()),
    (Transpose((0, 3, 1, 2)), [X], t(1, 6, 8, 10)),
    (Pad(((0, 0), (1, 2), (0, 3), (0, 0))), [X], t(1, 11, 13, 6)),
    (Pad(((3, 3),), mode="reflect"), [t(4)], t(10)),
    (Pad(((9, 0),), mode="edge"), [t(4)], t(13)),
    (Pad(((1, 1),), 255.0), [t(4, dtype=UINT8)], t(6, dtype=UINT8)),
    (Slice((0, 1), (2, 8), (1, 3)), [t(2, 9)], t(2, 3)),
    (Slice((8,), (-1,), (-2,)), [t(9)], t(5)),
    (Slice((3,), (3,), (1,)), [t(9)], t(0)),
    (Expand((3, 2, 4)), [t(2, 1)], t(3, 2, 4)),
    (Cast(DType.FLOAT32), [t(2, dtype=UINT8)], t(2)),
    (Cast(BOOL), [t(2)], t(2, dtype=BOOL)),
    (Identity(), [t(2, dtype=UINT8)], t(2, dtype=UINT8)),
    (Relu(), [X], X),
    (Add(), [t(4, 1, 3), t(5, 1)], t(4, 5, 3)),
    (Add(), [t(2, dtype=INT64), t(1, dtype=INT64)], t(2, dtype=INT64)),
    (Abs(), [t(2, dtype=INT64)], t(2, dtype=INT64)),
    (PRelu(), [X, t(1, 1, 6)], X),
    (TreeEnsemble(), [t(5, 4), *FOREST], t(5, 2)),
]


@pytest.mark.parametrize(
    ("op", "inputs", "expected"),
    SHAPES,
    ids=[f"{o.kind}-{i}" for i, (o, _, _) in enumerate(SHAPES)],
)
def test_shapes(op: Op, inputs: list[TensorType | None], expected: TensorType) -> None:
    assert op.infer(*inputs) == (expected,)


Q, QR = t(2, 6, dtype=DType.INT16), t(1, 2, 8, dtype=DType.INT16)
TABLES = ((Sigmoid(),), (HardSigmoid(),), (Sigmoid(),))

ERRORS: list[tuple[Op, list[TensorType | None], str]] = [
    (conv(), [X], "takes 2 to 3 inputs, not 1"),
    (Quantize(300, DType.INT8), [X, t()], "bound 300"),
    (Quantize(3, DType.INT32), [X, t()], "to int32"),
    (QuantizedMatMul(), [X, t(6, 5), t(5)], "float32.* times"),
    (QuantizedMatMul(bound=40000), [Q, t(6, 5, dtype=DType.INT16), t(5)], "bound 40000 of int16"),
    (QuantizedMatMul(), [Q, t(7, 5, dtype=DType.INT16), t(5)], "times"),
    (QuantizedMatMul(by_table=True), [Q, t(6, 5, dtype=DType.INT16), t(5)], "needs a gain"),
    (QuantizedLstm(2, ((Relu(),),) * 3, 9), [t(1, 3, 8), QR, t(1, 8)], "no table"),
    (QuantizedLstm(2, TABLES, 9), [t(1, 3, 9), QR, t(1, 8)], "projected inputs"),
    (QuantizedLstm(2, TABLES, 2**15), [t(1, 3, 8), QR, t(1, 8)], "bound 32768"),
    (conv(), [None, t(3, 3, 6, 5), t(5)], "takes 2 to 3 inputs, not 2"),
    (conv(), [X, t(3, 3, 6, 5), t(5), t(5)], "takes 2 to 3 inputs, not 4"),
    (conv(), [t(1, 8, 6), t(3, 3, 6, 5)], "input has rank 3, expected 4"),
    (conv(), [X, t(3, 6, 5)], "kernel has rank 3, expected 4"),
    (conv(), [X, t(3, 3, 5, 5)], "kernel reads 5 channels per group, but the input has 6"),
    (conv(group=4), [X, t(3, 3, 1, 4)], "group 4 does not divide 6 inputs"),
    (conv(group=3), [X, t(3, 3, 2, 4)], "group 3 does not divide 4 outputs"),
    (conv(group=0), [X, t(3, 3, 2, 4)], "group 0 must be positive"),
    (conv(stride=0), [X, t(3, 3, 6, 5)], r"strides \(0, 0\) must be positive"),
    (conv(dilation=-1), [X, t(3, 3, 6, 5)], r"dilations \(-1, -1\) must be positive"),
    (conv(pad=-1), [X, t(3, 3, 6, 5)], r"pads .* none negative"),
    (conv(), [X, t(3, 0, 6, 5)], r"kernel \(3, 0\) must be positive"),
    (conv(), [X, t(9, 3, 6, 5)], "kernel 9 .* spans 9, more than the padded input 8 on .* axis 0"),
    (conv(dilation=5), [X, t(3, 3, 6, 5)], r"kernel 3 \(dilation 5\) spans 11"),
    (conv(), [X, t(3, 3, 6, 5), t(4)], r"bias has shape \(4,\), expected \(5,\)"),
    (conv(), [t(1, 8, 10, 0), t(3, 3, 0, 5)], "needs channels"),
    (conv(), [t(1, 8, 10, 6, dtype=UINT8), t(3, 3, 6, 5)], "works on float32, not on uint8"),
    (Conv((1, 1), ((0, 0),), (1, 1)), [X, t(3, 3, 6, 5)], "pads .* one entry per axis"),
    (Conv((), (), ()), [t(1, 6), t(6, 5)], "at least one spatial axis"),
    (deconv(), [X, t(3, 3, 5, 4)], "kernel reads 4 channels, but the input has 6"),
    (deconv(extra=1), [X, t(3, 3, 5, 6)], r"output_padding 1 is outside 0\.\.0"),
    (deconv(group=4), [X, t(3, 3, 5, 6)], "group 4 does not divide 6 inputs"),
    (deconv(group=0), [X, t(3, 3, 5, 6)], "group 0"),
    (deform(group=0), [X, t(3, 3, 6, 5), t(1, 18, 6, 8)], "0 groups"),
    (deform(deformed=0), [X, t(3, 3, 6, 5), t(1, 18, 6, 8)], "groups"),
    (deconv(pad=5), [t(1, 2, 2, 6), t(3, 3, 5, 6)], "leave no output"),
    (deconv(), [X, t(3, 3, 5, 6), t(6)], r"bias has shape \(6,\), expected \(5,\)"),
    (
        ConvTranspose((1, 1), ((0, 0),) * 2, (1, 1), (0,)),
        [X, t(3, 3, 5, 6)],
        r"output_padding \(0,\) must have one entry per axis",
    ),
    (MatMul(), [t(4), t(4, 5)], "needs rank 2 or more, has 1 and 2"),
    (BfloatConv((1, 1), ((0, 0),) * 2, (1, 1)), [X], "takes 2 to 3 inputs, not 1"),
    (BfloatMatMul(), [t(4), t(4, 5)], "needs rank 2 or more, has 1 and 2"),
    (MatMul(), [t(3, 4), t(5, 4)], "inner dimensions 4 and 5 differ"),
    (MatMul(), [t(2, 3, 4), t(3, 4, 5)], r"shapes \(2,\) and \(3,\) do not broadcast"),
    (MatMul(), [t(3, 4), t(4, 5), t(3)], r"bias has shape \(3,\), expected \(5,\)"),
    (pool(MaxPool, k=11), [X], "spans 11, more than the padded input 8"),
    (
        pool(MaxPool, k=2, s=2, pad=2),
        [X],
        "window 0 on spatial axis 0 lies entirely in the padding",
    ),
    (pool(AveragePool, k=2, s=2, pad=2), [X], "lies entirely in the padding"),
    (pool(MaxPool), [t(3, 4)], "input has rank 2, expected batch, space and channels"),
    (MaxPool((2,), (1,), ((0, 0),), (1,)), [X], "2 spatial axes, not 1"),
    (pool(MaxPool, s=0), [X], "strides .* must be positive"),
    (Rnn(12, (G,)), [X, t(1, 12, 12)], "input has rank 4, expected samples, steps, features"),
    (Rnn(12, (G,)), [t(2, 0, 12), t(1, 12, 12)], "at least one step"),
    (Rnn(11, (G,)), [P, t(1, 11, 11)], "input has 12 features, expected 11"),
    (Rnn(12, (G,)), [P, t(12, 12)], r"recurrent weights has shape \(12, 12\)"),
    (Rnn(12, (G,)), [P, t(1, 12, 12), t(1, 12)], r"initial state has shape \(1, 12\)"),
    (Rnn(12, (G,), lengths=(5,)), [P, t(1, 12, 12)], "has 1 lengths for 2 samples"),
    (Rnn(12, (G,), lengths=(5, 6)), [P, t(1, 12, 12)], r"length 6 is outside 0\.\.5"),
    (Rnn(12, (G,) * 2), [P, t(1, 12, 12)], "has 2 activations, expected 1"),
    (Rnn(12, (G,), clip=-1.0), [P, t(1, 12, 12)], "clip -1.0 is not positive"),
    (Rnn(12, (G,), ()), [P, t(1, 12, 12)], "has 0 directions"),
    (Rnn(12, (G,), returns=("cell",)), [P, t(1, 12, 12)], "cannot return cell"),
    (Rnn(0, (G,)), [t(2, 5, 0), t(1, 0, 0)], "cells 0 must be positive"),
    (Lstm(3, (G,) * 3), [P, R, None, None, t(1, 6)], r"peepholes has shape \(1, 6\)"),
    (Gru(4, (G,) * 2), [P, t(1, 4, 12), None, t(1, 4)], "separate bias .* linear_before_reset"),
    (Softmax(4), [X], r"axis 4 is outside 0\.\.3"),
    (Softmax(-1), [X], r"axis -1 is outside 0\.\.3"),
    (Softmax(0), [t(0, 3)], "axis 0 is empty"),
    (ReduceMean((1, 1)), [X], "must ascend without repetition"),
    (ReduceMean((2, 1)), [X], "must ascend without repetition"),
    (ReduceMean((0,)), [t(0, 2)], "hold no element"),
    (ReduceMean((0,)), [t(3, dtype=INT64)], "works on float32, not on int64"),
    (ReduceSum((0,)), [t(3, dtype=BOOL)], "works on float32, not on bool"),
    (ReduceLogSumExp((0,)), [t(0)], "hold no element"),
    (BatchNormalization(3, 1e-3), [X, t(6), t(6), t(6)], "takes 5 inputs, not 4"),
    (BatchNormalization(3, 1e-3), [X, t(6), t(6), t(5), t(6)], r"mean has shape \(5,\)"),
    (BatchNormalization(3, -1.0), [X, t(6), t(6), t(6), t(6)], "epsilon -1.0 must be"),
    (LayerNormalization((), 1e-5), [X], "at least one axis"),
    (replace(ATTENTION, heads=0), [QUERIES, KEYS, VALUES], "heads 0 must be positive"),
    (ATTENTION, [t(5, 9), KEYS, VALUES], r"needs rank 3, has shapes \[\(5, 9\)"),
    (ATTENTION, [t(1, 5, 9), KEYS, VALUES], "batches differ"),
    (ATTENTION, [QUERIES, KEYS, t(2, 6, 10)], "keys and values differ"),
    (ATTENTION, [t(2, 5, 8), KEYS, VALUES], "is outside the channels"),
    (
        replace(ATTENTION, k=HeadChannels(0, 3, 3)),
        [QUERIES, KEYS, VALUES],
        "sizes of queries and keys differ",
    ),
    (
        ATTENTION,
        [QUERIES, KEYS, VALUES, t(2, 1, 5, 1)],
        r"the mask has shape \(2, 1, 5, 1\), expected",
    ),
    (ATTENTION, [QUERIES, KEYS, VALUES, t(3, 1, 5, 7)], "do not broadcast"),
    (LayerNormalization((3,), 1e-5), [X, t(10, 6)], r"scale has shape \(10, 6\), expected \(6,\)"),
    (LayerNormalization((3,), float("nan")), [X], "epsilon nan must be"),
    (GroupNormalization(4, 3, 1e-5), [X], "groups 4 does not divide 6 channels"),
    (GroupNormalization(0, 3, 1e-5), [X], "groups 0 must be positive"),
    (GroupNormalization(1, 0, 1e-5), [X], "axis 0 is the batch"),
    (GroupNormalization(1, 3, 1e-5), [X, t(3)], r"scale has shape \(3,\), expected \(6,\)"),
    (Resize("linear", (1,)), [X], r"sizes \(1,\) must have 2 entries"),
    (Resize("linear", (0, 1)), [X], "must be positive"),
    (Resize("linear", (2, 2), scales=(1.0,)), [X], "must be 2 positive numbers or none"),
    (Resize("linear", (2, 2), scales=(1.0, 0.0)), [X], "must be 2 positive numbers or none"),
    (Concat(0), [], "at least one input"),
    (Concat(4), [X], r"axis 4 is outside 0\.\.3"),
    (Concat(1), [X, t(1, 8, 9, 6)], "differ off axis 1"),
    (Concat(0), [t(2), t(2, 2)], "differ off axis 0"),
    (Concat(0), [t(2), t(2, dtype=UINT8)], "joins float32 and uint8"),
    (Reshape((4, 121)), [X], "has 480 elements"),
    (Reshape((4, -1)), [X], "is not resolved"),
    (Transpose((0, 1, 2)), [X], "is not a permutation of 4 axes"),
    (Transpose((0, 1, 1, 2)), [X], "is not a permutation of 4 axes"),
    (Pad(((0, 0),)), [X], "must have 4 pairs"),
    (Pad(((-1, 0),)), [t(4)], "none negative"),
    (Pad(((4, 0),), mode="reflect"), [t(4)], "more than an axis of 4 can reflect"),
    (Pad(((1, 0),), mode="edge"), [t(0)], "more than an axis of 0 can edge"),
    (Pad(((1, 1),), 256.0), [t(4, dtype=UINT8)], "value 256.0 is not a valid uint8"),
    (Pad(((1, 1),), 0.5), [t(4, dtype=UINT8)], "value 0.5 is not a valid uint8"),
    (Pad(((1, 1),), float("inf")), [t(4, dtype=UINT8)], "value inf is not a valid uint8"),
    (QuantizeLinear(), [X, t(dtype=INT32), t(dtype=UINT8)], "float32 by a scale of int32"),
    (QuantizeLinear(), [t(4, dtype=UINT8), t(), t(dtype=UINT8)], "uint8 by a scale of float32"),
    (QuantizeLinear(), [X, t(), t(dtype=INT32)], "to int32"),
    (
        DequantizeLinear(),
        [t(4, dtype=UINT8), t(), t(dtype=INT8)],
        "uint8 with a zero point of int8",
    ),
    (DequantizeLinear(), [X, t(), t()], "float32 with a zero point of float32"),
    (DequantizeLinear(), [t(4, dtype=INT8), t(dtype=INT32), t(dtype=INT8)], "a scale of int32"),
    (Requantize(), [X, t(), t(), t(), t(dtype=INT8)], "sums int32"),
    (Requantize(), [t(4, dtype=INT32), t(), t(dtype=INT32), t(), t(dtype=INT8)], "sums int32"),
    (Requantize(), [t(4, dtype=INT32), t(), t(), t(), t(dtype=INT32)], "to int32"),
    (Slice((0,), (10,), (1,)), [t(9)], "0:10:1 is outside an axis of 9"),
    (Slice((-1,), (9,), (1,)), [t(9)], "is outside an axis of 9"),
    (Slice((9,), (0,), (-1,)), [t(9)], "is outside an axis of 9"),
    (Slice((0,), (9,), (0,)), [t(9)], "must not hold 0"),
    (Slice((0,), (9,), (1, 1)), [t(9)], "must have 1 entries"),
    (Expand((2, 3)), [t(2, 2)], "do not broadcast"),
    (Expand((1, 2)), [t(2, 2)], "does not broadcast to"),
    (Add(), [t(2), t(3)], "do not broadcast"),
    (Add(), [t(2), t(2, dtype=INT64)], "different dtypes"),
    (Add(), [t(2, dtype=BOOL), t(2, dtype=BOOL)], "does not work on bool"),
    (Add(), [t(2)], "takes 2 inputs, not 1"),
    (Pow(), [t(2, dtype=INT64), t(2, dtype=INT64)], "works on float32"),
    (Relu(), [t(2, dtype=BOOL)], "does not work on bool"),
    (Elu(), [t(2, dtype=UINT8)], "works on float32, not on uint8"),
    (PRelu(), [t(2, 1), t(2, 3)], r"slope of shape \(2, 3\) does not broadcast to \(2, 1\)"),
    (LeakyRelu(float("nan")), [X], "alpha nan must be finite"),
    (Elu(float("inf")), [X], "alpha inf must be finite"),
    (Elu(1e39), [X], r"alpha 1e\+39 must be finite"),
    (Celu(0.0), [X], "alpha 0.0 must not be 0"),
    (Selu(1.0, float("nan")), [X], "gamma nan must be finite"),
    (HardSigmoid(1.0, float("nan")), [X], "beta nan must be finite"),
    (ThresholdedRelu(float("nan")), [X], "alpha nan must be finite"),
    (Clip(float("nan"), 1.0), [X], "minimum must be a number"),
    (ReluGeneral(0.0, -1.0), [X], "threshold -1.0 must not be negative"),
    (ReluGeneral(0.0, 0.0, -1.0), [X], "max_value -1.0 must not be negative"),
    (ReluGeneral(float("inf")), [X], "negative_slope inf must be finite"),
    (TreeEnsemble("MEDIAN"), [t(5, 4), *FOREST], "aggregate 'MEDIAN'"),
    (TreeEnsemble(), [t(5, 4, 3), *FOREST], r"samples of shape \(5, 4, 3\)"),
    (TreeEnsemble(), [t(5, 4), *FOREST[:-1], t(3)], r"base has shape \(3,\)"),
    (
        TreeEnsemble(),
        [t(5, 4), *FOREST[:-3], t(0, dtype=DType.INT32), *FOREST[-2:]],
        "has no trees",
    ),
]


@pytest.mark.parametrize(
    ("op", "inputs", "message"), ERRORS, ids=[f"{o.kind}-{i}" for i, (o, _, _) in enumerate(ERRORS)]
)
def test_errors(op: Op, inputs: list[TensorType | None], message: str) -> None:
    with pytest.raises(ModelError, match=message) as caught:
        op.infer(*inputs)
    assert str(caught.value).startswith(op.kind)


@pytest.mark.parametrize(
    "op",
    [
        Resize("cubic", (2, 2)),
        Resize("linear", (2, 2), "tf_crop_and_resize"),
        Resize("nearest", (2, 2), "asymmetric", "up"),
        Pad(((0, 0),) * 4, mode="wrap"),
    ],
)
def test_unknown_modes_are_unsupported(op: Op) -> None:
    with pytest.raises(UnsupportedError, match="is not one of"):
        op.infer(X)


@pytest.mark.parametrize(
    ("op", "inputs"),
    [
        (Expand((1 << 16, 1 << 15)), [t(1)]),
        (Pad(((1 << 31, 0),)), [t(1)]),
        (Concat(0), [t((1 << 31) - 1), t(1)]),
        (Resize("nearest", (1 << 16, 1 << 16)), [t(1, 1, 1, 1)]),
        (MatMul(), [t(1 << 16, 1), t(1, 1 << 16)]),
        (Add(), [t(1 << 16, 1), t(1, 1 << 16)]),
        (deconv(stride=1 << 16), [t(1, 2, 2, 1), t(1, 1, 1, 1)]),
        (conv(pad=1 << 16), [t(1, 1, 1, 1), t(1, 1, 1, 1)]),
    ],
)
def test_overflow(op: Op, inputs: list[TensorType | None]) -> None:
    with pytest.raises(ModelError, match=r"more than 2|too large"):
        op.infer(*inputs)


def test_average_pool_may_count_padding_alone() -> None:
    op = AveragePool((1,), (1,), ((1, 1),), (1,), count_include_pad=True)
    assert op.infer(t(1, 2, 1)) == (t(1, 4, 1),)


@pytest.mark.parametrize(
    ("op", "inputs", "macs"),
    [
        (conv(), [X, t(3, 3, 6, 5)], 6 * 8 * 5 * 9 * 6),
        (conv(group=6), [X, t(3, 3, 1, 12)], 6 * 8 * 12 * 9),
        (deconv(stride=2), [X, t(3, 3, 5, 6)], 8 * 10 * 6 * 9 * 5),
        (deconv(group=2), [X, t(1, 1, 5, 6)], 8 * 10 * 6 * 5),
        (MatMul(), [t(2, 3, 4), t(4, 5)], 2 * 3 * 4 * 5),
        (MatMul(transpose_a=True), [t(4, 3), t(4, 5)], 3 * 4 * 5),
        (Lstm(3, (G,) * 3), [P, R], 2 * 5 * 3 * 12),
        (Relu(), [X], 0),
    ],
)
def test_macs(op: Op, inputs: list[TensorType | None], macs: int) -> None:
    assert op.macs(tuple(inputs), op.infer(*inputs)) == macs


def test_registry_names_every_class_once() -> None:
    ops = all_ops()
    assert list(ops) == sorted(ops)
    assert all(name == cls.__name__ for name, cls in ops.items())
    tested = {type(op).__name__ for op, *_ in [*SHAPES, *ERRORS]}
    elsewhere = (Elementwise, ScalarOp, QuantizedOp)
    untested = {n for n, c in ops.items() if n not in tested and not issubclass(c, elsewhere)}
    assert not untested


@pytest.mark.parametrize("dtype", [DType.INT32, DType.INT8, DType.BOOL])
def test_windows_and_products_are_of_floats(dtype: DType) -> None:
    x, w = TensorType((1, 4, 4, 3), dtype), t(1, 1, 3, 3)
    whole: list[tuple[Op, list[TensorType | None]]] = [
        (pool(MaxPool), [x]), (pool(AveragePool), [x]), (conv(), [x, w]),
        (deconv(), [x, w]), (MatMul(), [x, t(3, 3)]), (Softmax(3), [x]),
    ]  # fmt: skip
    for op, inputs in whole:
        floats = [replace(i, dtype=DType.FLOAT32) if i else None for i in inputs]
        assert op.infer(*floats)
        with pytest.raises(CanneryError, match="float32"):
            op.infer(*inputs)


@pytest.mark.parametrize(
    ("field", "size"),
    [
        ("kernel", MAX_TAPS + 1), ("strides", MAX_STEP + 1), ("dilations", MAX_STEP + 1),
        ("pads", MAX_STEP + 1),
    ],
)  # fmt: skip
def test_windows_beyond_all_measure(field: str, size: int) -> None:
    """Along one axis, or at one side of it."""
    usual = MaxPool((1, 1), (1, 1), ((0, 0), (0, 0)), (1, 1))
    values: list[Any] = [(1, size), (size, 1)]
    if field == "pads":
        values = [((0, size), (0, 0)), ((0, 0), (size, 0))]
    for value in values:
        op = replace(usual, **{field: value})
        with pytest.raises(ModelError, match="are too large"):
            op.infer(X)
