"""Which axis of each value is time, and what each node becomes for a single step.

`one_step` checks that a node computes each step from the same step alone, recurrent layers apart,
and returns it for the steps of one call. What reads several steps is in `streaming/windows.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from cannery.errors import UnsupportedError
from cannery.ir.registry import Elementwise, Op
from cannery.ir.tensor import TensorType
from cannery.ops.average_pool.op import AveragePool
from cannery.ops.concat.op import Concat
from cannery.ops.conv.op import Conv
from cannery.ops.conv_transpose.op import ConvTranspose
from cannery.ops.fixed_point.average_pool import FixedAveragePool
from cannery.ops.fixed_point.l2_norm import FixedL2Norm
from cannery.ops.fixed_point.log_softmax import FixedLogSoftmax
from cannery.ops.fixed_point.short_softmax import ShortSoftmax
from cannery.ops.fixed_point.softmax import FixedSoftmax
from cannery.ops.fixed_point.tables import ShortSigmoid, ShortTable
from cannery.ops.indexing.gather import Gather
from cannery.ops.indexing.masks import ReverseSequence
from cannery.ops.matmul.op import MatMul
from cannery.ops.max_pool.op import MaxPool
from cannery.ops.movement.op import Cast, Expand, Identity, Pad, Reshape, Slice, Transpose
from cannery.ops.normalization.op import (
    BatchNormalization,
    GroupNormalization,
    LayerNormalization,
)
from cannery.ops.ordering.cumulative import CumProd, CumSum
from cannery.ops.ordering.extremes import ArgMax, ArgMin, Hardmax, TopK
from cannery.ops.quantize.products import ConvInteger, MatMulInteger
from cannery.ops.quantized.elementwise import ByteTable
from cannery.ops.quantized.max_pool import QuantizedMaxPool
from cannery.ops.recurrent.base import Recurrent
from cannery.ops.reduce.op import Reduction
from cannery.ops.resize.op import Resize
from cannery.ops.scalar.base import Pointwise
from cannery.ops.softmax.op import LogSoftmax, Softmax

#: The time of a value that is known when the sequence ends; for one step, after that step.
FINAL = -1

#: The time axis of a value, FINAL, or None for values without time.
Time = int | None


@dataclass(frozen=True)
class Use:
    """A node with the time axes of its inputs, at least one of which has `steps` elements.

    `whole`: no call with `count` steps is wanted, but sequences whose length is not known yet.
    """

    op: Any
    times: Sequence[Time]
    inputs: Sequence[TensorType | None]
    output: TensorType
    steps: int
    whole: bool = False
    count: int = 1

    @property
    def axis(self) -> int:
        """Time of the first input that has one."""
        return next(t for t in self.times if t is not None)

    def aligned(self) -> int:
        """Time of the output if shapes are aligned at their ends, as in broadcasting."""
        rank, found = self.output.rank, set()
        for time, type_ in zip(self.times, self.inputs, strict=True):
            if type_ is not None and time is not None:
                found.add(time + rank - type_.rank)
        if len(found) != 1:
            raise UnsupportedError("its inputs have time in different places")
        (axis,) = found
        for time, type_ in zip(self.times, self.inputs, strict=True):
            own = axis - rank + type_.rank if type_ is not None else -1
            if type_ is not None and time is None and own >= 0 and type_.shape[own] != 1:
                raise UnsupportedError("it has a constant for each step")
        return axis


def _refuse() -> UnsupportedError:
    return UnsupportedError("it works along time")


def _off(use: Use, *axes: int) -> tuple[int, Op]:
    """For operators that work along `axes` and keep the shape."""
    if use.axis in axes:
        raise _refuse()
    return use.axis, use.op


def _reshape(use: Use) -> tuple[int, Op]:
    """Time stays a separate axis with as many elements before it."""
    assert use.inputs[0] is not None
    before = prod(use.inputs[0].shape[: use.axis])
    shape = use.op.shape
    for axis, size in enumerate(shape):
        if size == use.steps and prod(shape[:axis]) == before:
            return axis, Reshape((*shape[:axis], use.count, *shape[axis + 1 :]))
    raise UnsupportedError("it mixes steps with other dimensions")


def _slice(use: Use) -> tuple[int, Op]:
    """Time of all steps, or of the last one."""
    op, a = use.op, use.axis
    bounds = (op.starts[a], op.ends[a], op.steps[a])
    last = not use.whole and len(range(*bounds)) == 1 and bounds[0] == use.steps - 1
    if bounds != (0, use.steps, 1) and not last:
        raise UnsupportedError("it takes some of the steps")
    cut = [list(v) for v in (op.starts, op.ends, op.steps)]
    cut[0][a], cut[1][a], cut[2][a] = use.count - 1 if last else 0, use.count, 1
    return FINAL if last else a, Slice(*(tuple(v) for v in cut))


def _matmul(use: Use) -> tuple[int, Op]:
    """Steps are rows of the first operand, or batches; its inner dimension has no time."""
    first = use.inputs[0]
    assert first is not None
    if any(t is not None for t in use.times[1:]):
        raise UnsupportedError("it multiplies steps with each other")
    rank, op = first.rank, use.op
    if use.axis == (rank - 2 if op.transpose_a else rank - 1):
        raise _refuse()
    row = use.output.rank - 2
    time = row if use.axis >= rank - 2 else use.axis + use.output.rank - rank
    second = use.inputs[1]
    assert second is not None
    own = time - use.output.rank + second.rank
    if time < row and own >= 0 and second.shape[own] != 1:
        raise UnsupportedError("it multiplies each step with other weights")
    return time, op


def _matmul_of_integers(use: Use) -> tuple[int, Op]:
    """The same for products whose second factor is a matrix."""
    second = use.inputs[1]
    assert second is not None
    if second.rank > 2 or any(t is not None for t in use.times[1:]):
        raise UnsupportedError("it multiplies each step with other weights")
    return _off(use, use.output.rank - 1)


def _reduction(use: Use) -> tuple[int, Op]:
    axis, op = _off(use, *use.op.axes)
    gone = 0 if use.op.keepdims else sum(a < axis for a in use.op.axes)
    return axis - gone, op


def _image(use: Use) -> tuple[int, Op]:
    """For operators on images: each step is one."""
    if use.axis != 0 or any(t is not None for t in use.times[1:]):
        raise _refuse()
    return 0, use.op


def _conv(use: Use) -> tuple[int, Op]:
    """If the kernel has one tap along time, or each step is an image."""
    if use.axis == 0:
        return _image(use)
    weight, k = use.inputs[1], use.axis - 1
    taps = weight.shape[k] if weight is not None and 0 <= k < len(use.op.strides) else 0
    if taps != 1 or use.op.strides[k] != 1 or use.op.pads[k] != (0, 0):
        raise _refuse()
    return use.axis, use.op


def _normalisation(use: Use) -> tuple[int, Op]:
    """Over some axes, or over all but that of samples."""
    normalised = use.op.axes if isinstance(use.op, LayerNormalization) else range(1, 9)
    if use.axis in normalised:
        raise UnsupportedError("its mean and variance are those of all steps, later ones, too")
    return use.axis, use.op


def _place(use: Use) -> tuple[int, Op]:
    """Places along one axis, which may be gone afterwards."""
    axis, op = _off(use, use.op.axis)
    return axis - (not use.op.keepdims and use.op.axis < axis), op


def _gather(use: Use) -> tuple[int, Op]:
    """Rows of a table for each step, or the same channels of each."""
    data, index = use.times[:2]
    assert use.inputs[1] is not None
    if data is None and index is not None:
        return use.op.axis + index, use.op
    if index is not None or data == use.op.axis:
        raise UnsupportedError("it takes some of the steps")
    return use.axis + (use.inputs[1].rank - 1 if use.op.axis < use.axis else 0), use.op


def _reversed(use: Use) -> tuple[int, Op]:
    raise UnsupportedError("it turns time around")


def _expand(use: Use) -> tuple[int, Op]:
    axis = use.aligned()
    shape = use.op.shape
    return axis, Expand((*shape[:axis], use.count, *shape[axis + 1 :]))


def _pad(use: Use) -> tuple[int, Op]:
    if use.op.pads[use.axis] != (0, 0):
        raise _refuse()
    return use.axis, use.op


def _concat(use: Use) -> tuple[int, Op]:
    if len(set(use.times)) != 1:
        raise UnsupportedError("it joins steps with what has none")
    return _off(use, use.op.axis)


def _recurrent(use: Use) -> tuple[int, Op]:
    if use.axis != 1 or any(t is not None and t != FINAL for t in use.times[1:]):
        raise UnsupportedError("its steps are not those of the input")
    return 1, use.op


#: Rules by class; some classes are abstract.
_RULES: Mapping[Any, Callable[[Use], tuple[int, Op]]] = {
    Elementwise: lambda u: (u.aligned(), u.op),
    Pointwise: lambda u: (u.aligned(), u.op),
    Identity: _off,
    Cast: _off,
    Transpose: lambda u: (u.op.perm.index(u.axis), u.op),
    Reshape: _reshape,
    Slice: _slice,
    Expand: _expand,
    Pad: _pad,
    Concat: _concat,
    MatMul: _matmul,
    MatMulInteger: _matmul_of_integers,
    Conv: _conv,
    ConvInteger: _conv,
    ConvTranspose: _image,
    MaxPool: _image,
    AveragePool: _image,
    QuantizedMaxPool: _image,
    FixedAveragePool: _image,
    Resize: _image,
    ByteTable: _off,
    ShortTable: _off,
    ShortSigmoid: _off,
    FixedSoftmax: lambda u: _off(u, u.output.rank - 1),
    FixedL2Norm: lambda u: _off(u, u.output.rank - 1),
    FixedLogSoftmax: lambda u: _off(u, u.output.rank - 1),
    ShortSoftmax: lambda u: _off(u, u.output.rank - 1),
    Softmax: lambda u: _off(u, u.op.axis),
    LogSoftmax: lambda u: _off(u, u.op.axis),
    BatchNormalization: lambda u: _off(u, u.op.axis),
    LayerNormalization: _normalisation,
    GroupNormalization: _normalisation,
    CumSum: lambda u: _off(u, u.op.axis),
    CumProd: lambda u: _off(u, u.op.axis),
    Hardmax: lambda u: _off(u, u.op.axis),
    TopK: lambda u: _off(u, u.op.axis),
    ArgMax: _place,
    ArgMin: _place,
    Gather: _gather,
    ReverseSequence: _reversed,
    Reduction: _reduction,
    Recurrent: _recurrent,
}


def one_step(use: Use) -> tuple[Time, Op]:
    """Time of the (first) output, and the operator for one step.

    Raises UnsupportedError for operators that work along time, or may do so.
    """
    backward = isinstance(use.op, Recurrent) and any(use.op.reverse) and not use.whole
    if backward or (isinstance(use.op, Recurrent) and use.op.lengths):
        raise UnsupportedError(
            "it runs from the end of the sequence to its beginning"
            if backward
            else "it ends some samples before others"
        )
    known = {t for t in use.times if t is not None}
    if not known:
        if use.whole and isinstance(use.op, Recurrent):
            raise UnsupportedError("its steps are not those of the input")
        return None, use.op
    if known == {FINAL}:
        return FINAL, use.op
    if FINAL in known and not isinstance(use.op, Recurrent):
        raise UnsupportedError("it joins steps with what is known when the sequence ends")
    for kind, rule in _RULES.items():
        if isinstance(use.op, kind):
            return rule(use)
    raise UnsupportedError("it is not known to work step by step")


def shrunk(type_: TensorType, time: Time, count: int = 1) -> TensorType:
    """The type of a value for `count` steps."""
    if time is None or time == FINAL:
        return type_
    return replace(type_, shape=(*type_.shape[:time], count, *type_.shape[time + 1 :]))
