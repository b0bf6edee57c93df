"""Operators that read several elements along time: what each becomes for a call.

A rule looks at one node and appends what computes the elements of a call; None where the node does
not work along time in its way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from cannery.errors import UnsupportedError
from cannery.frontends.streaming.lead import Make, after, first, padding, results
from cannery.frontends.streaming.past import Builder
from cannery.frontends.streaming.resizing import interpolate, resize
from cannery.frontends.streaming.stream import Stream, Window
from cannery.frontends.time_axis import FINAL
from cannery.ir.graph import Array, Node
from cannery.ops.average_pool.op import AveragePool
from cannery.ops.conv.op import Conv
from cannery.ops.conv_transpose.op import ConvTranspose
from cannery.ops.elementwise import Add, Div
from cannery.ops.max_pool.op import MaxPool
from cannery.ops.movement.op import Identity, Pad, Reshape, Slice
from cannery.ops.ordering.cumulative import CumSum
from cannery.ops.quantize.products import ConvInteger
from cannery.ops.quantized.arithmetic import QuantizedOp
from cannery.ops.quantized.max_pool import QuantizedMaxPool
from cannery.ops.reduce.op import Reduction
from cannery.ops.resize.interpolate import Interpolate
from cannery.ops.resize.op import Resize
from cannery.ops.softmax.op import LogSoftmax, Softmax
from cannery.ops.window import WindowOp

_COPIES = "padding with copies of the first step is for convolutions and pools that slide over it"

#: Appends the nodes of a call for one whose first input is that stream.
Rule = Callable[[Builder, Node, Stream], Stream | None]


def along_time(b: Builder, node: Node, streams: list[Stream | None]) -> Stream | None:
    """Append what `node` is for a call, if it works along time; its output's stream, else None.

    `streams` are those of its inputs. Raises UnsupportedError for what needs the whole sequence.
    """
    source = streams[0] if streams else None
    if source is None or source.final or any(s is not None for s in streams[1:]):
        return None
    for kind, rule in _RULES.items():
        if isinstance(node.op, kind):
            if source.copies and not isinstance(node.op, Conv | ConvInteger | WindowOp):
                raise UnsupportedError(_COPIES)
            return rule(b, node, source)
    return None


def _spatial(node: Node, source: Stream) -> int | None:
    """Which spatial axis of an image time is; None: samples or channels."""
    assert source.time is not None
    k = source.time - 1
    return k if 0 <= k < len(node.op.strides) else None  # type: ignore[attr-defined]


def _without_pads(op: Any, k: int) -> Any:
    return replace(op, pads=(*op.pads[:k], (0, 0), *op.pads[k + 1 :]))


def _ends(b: Builder, node: Node, source: Stream) -> bool:
    """Whether there is one result for all elements: that of a sequence which ends now."""
    assert source.time is not None
    length = b.graph.types[node.inputs[0]].shape[source.time]
    k = source.time - 1
    op: Any = node.op
    alone = b.graph.types[node.output].shape[source.time] == 1
    return bool(length > 1 and alone and op.pads[k] == (0, 0))


def _of_last(b: Builder, node: Node, source: Stream) -> Stream:
    """`node` itself, for as many of the last elements as the sequence has."""
    assert source.time is not None
    length = b.graph.types[node.inputs[0]].shape[source.time]
    late = b.lateness(node.inputs[0], source)
    found = b.last(node.inputs[0], source, length, late)
    b.add(replace(node, inputs=(found, *node.inputs[1:])))
    return replace(source, time=FINAL, delay=late, lead=None)


def _sliding(rule: Callable[[Builder, Node, Stream, int], Stream]) -> Rule:
    """A rule for operators whose windows slide over images, one of whose axes, `k`, is time."""

    def slide(b: Builder, node: Node, source: Stream) -> Stream | None:
        k = _spatial(node, source)
        if k is None:
            return None
        if not _ends(b, node, source):
            return rule(b, node, source, k)
        if source.copies:
            raise UnsupportedError(_COPIES)
        return _of_last(b, node, source)

    return slide


def _conv(b: Builder, node: Node, source: Stream, k: int) -> Stream:
    op: Any = node.op
    taps = b.types[node.inputs[1]].shape[k]
    window = Window(taps, op.strides[k], op.dilations[k], op.pads[k][0])
    inner = replace(node, op=_without_pads(op, k))
    made = _maker(b, inner)
    found, result = b.windowed(node.inputs[0], source, window, _zero(b, node), made)
    b.add(replace(inner, inputs=(found, *node.inputs[1:])))
    return result


def _maker(b: Builder, node: Node) -> Make | None:
    """What a node makes of elements that are known; None where its other inputs are not."""
    others = [b.graph.constants.get(v) if v else None for v in node.inputs[1:]]
    if any(v and other is None for v, other in zip(node.inputs[1:], others, strict=True)):
        return None
    return lambda read: results(node.op, read, *others)[0]


def _zero(b: Builder, node: Node) -> float:
    """What a convolution pads with."""
    if not isinstance(node.op, ConvInteger):
        return 0.0
    zero = b.graph.constants.get(node.inputs[2])
    if zero is None:
        raise UnsupportedError("the zero point of its input is computed")
    return float(zero.item())


def _pool(b: Builder, node: Node, source: Stream, k: int) -> Stream:
    op: Any = node.op
    window = Window(op.kernel[k], op.strides[k], op.dilations[k], op.pads[k][0])
    if isinstance(op, QuantizedOp):
        return _pool_of_integers(b, node, source, k, window)
    fill = -np.inf if isinstance(op, MaxPool) else 0.0
    inner = _without_pads(op, k)
    alike = isinstance(op, MaxPool) or op.count_include_pad or op.pads[k][0] == 0
    made = _maker(b, replace(node, op=inner)) if alike else None
    found, result = b.windowed(node.inputs[0], source, window, fill, made)
    if alike:
        b.add(replace(node, op=inner, inputs=(found,)))
        return result
    if source.copies:
        raise UnsupportedError("it is a mean of copies of the first step that leaves padding out")
    # The mean of those that exist: divided by their share, the mean of ones after zeros.
    shape = [1] * b.types[node.inputs[0]].rank
    shape[result.time or 0] = source.count
    ones = b.constant(f"{node.name}/ones", np.ones(shape, np.float32))
    known = source
    if source.lead is not None:
        known = replace(source, lead=padding(b.types[ones], result.time or 0, -source.delay, 1.0))
    there, _ = b.windowed(ones, known, window, 0.0)
    alone = [1] * len(op.kernel)
    shares = AveragePool(
        _put(alone, k, op.kernel[k]), _put(alone, k, op.strides[k]),
        tuple((0, 0) for _ in alone), _put(alone, k, op.dilations[k]), count_include_pad=True,
    )  # fmt: skip
    share = b.op(shares, f"{node.name}/share", there)
    mean = b.op(replace(inner, count_include_pad=False), f"{node.name}/mean", found)
    b.add(Node(Div(), node.name, (mean, share), node.outputs))
    return result


def _pool_of_integers(b: Builder, node: Node, source: Stream, k: int, window: Window) -> Stream:
    """Maxima, which padding never wins, or means of what is there."""
    maxima = isinstance(node.op, QuantizedMaxPool)
    if window.before > 0 and not maxima:
        raise UnsupportedError("it is a mean of integers that leaves padding out")
    fill = float(np.iinfo(b.types[node.inputs[0]].dtype.value).min) if maxima else 0.0
    inner = replace(node, op=_without_pads(node.op, k))
    found, result = b.windowed(node.inputs[0], source, window, fill, _maker(b, inner))
    b.add(replace(inner, inputs=(found,)))
    return result


def _put(values: list[int], k: int, value: int) -> tuple[int, ...]:
    return (*values[:k], value, *values[k + 1 :])


def _conv_transpose(b: Builder, node: Node, source: Stream) -> Stream | None:
    """Input i adds to elements from i * s - before on; those before the next one's are done."""
    op: Any = node.op
    k = _spatial(node, source)
    if k is None:
        return None
    s, before = op.strides[k], op.pads[k][0]
    span = (b.types[node.inputs[1]].shape[k] - 1) * op.dilations[k] + 1
    extra = _put(list(op.output_padding), k, max(0, s - span))
    inner = replace(_without_pads(op, k), output_padding=extra)
    value, made = node.inputs[0], _maker(b, replace(node, op=inner)) if b.folds else None
    if made is None:
        value, source = b.begun(value, source)
    axis = source.time
    assert axis is not None
    reach = (span - 1) // s
    if reach > 0:
        value = b.masked(value, source, 0.0)
    found = b.past(value, source, reach, 0.0)
    count = source.count * s
    whole = b.op(inner, f"{node.name}/whole", found, *node.inputs[1:])
    b.cut_for(node, whole, axis, reach * s, reach * s + count)
    delay, lead = source.delay * s + before, None
    if delay < 0 and made and source.lead is not None:
        lead = first(after(made(source.lead), axis, before), axis, -delay)
    return replace(source, count=count, delay=delay, lead=lead)


def _pad(b: Builder, node: Node, source: Stream) -> Stream | None:
    """Elements before the first ones are the first ones of the result."""
    op: Any = node.op
    assert source.time is not None
    begin, end = op.pads[source.time]
    if begin + end == 0:
        return None
    if op.mode not in ("constant", "edge") and begin:
        raise UnsupportedError(f"it pads with values of later steps ({op.mode})")
    axis, value = source.time, node.inputs[0]
    inner = replace(op, pads=(*op.pads[:axis], (0, 0), *op.pads[axis + 1 :]))
    if any(map(any, inner.pads)) and not b.folds:
        value, source = b.begun(value, source)
    copies = begin if op.mode == "edge" else 0
    if copies:
        value, source = b.begun(value, source)
    elif begin:
        value = b.masked(value, source, op.value)
    b.add(replace(node, op=inner if any(map(any, inner.pads)) else Identity(), inputs=(value,)))
    delay, lead = source.delay - begin, None
    if delay < 0 and not copies:
        lead = padding(b.types[node.output], axis, min(begin, -delay), op.value)
        if source.lead is not None:
            lead = np.concatenate([lead, *results(inner, source.lead)], axis)
    return replace(source, delay=delay, lead=lead, copies=copies)


def _slice(b: Builder, node: Node, source: Stream) -> Stream | None:
    """Steps left out at the ends, every other step, or the last ones alone."""
    op: Any = node.op
    a = source.time
    assert a is not None
    length = b.graph.types[node.inputs[0]].shape[a]
    start, end, step = op.starts[a], op.ends[a], op.steps[a]
    kept = len(range(start, end, step))
    if (start, end, step) == (0, length, 1):
        return None
    if kept == 1 and start == length - 1:
        return _last_steps(b, node, source, kept) if source.delay < 0 else None
    if step < 0:
        raise UnsupportedError("it turns time around")
    if end == length and step == 1 and 2 * kept <= length:
        return _last_steps(b, node, source, kept)
    if 2 * kept * step < length:
        loop = "" if kept > 1 else f": step {start} alone, as a loop does that is written out"
        first = (
            "export the model for more steps, so that it takes more than half of them; a beginning "
            "of other values must be joined with the rest at once (Concat along time)"
        )
        raise UnsupportedError(f"it takes some of the steps{loop}", cure="" if start else first)
    value = node.inputs[0]

    def taken(lead: Array) -> Array:
        return results(from_first(op, a, lead.shape[a]), lead)[0]

    if step == 1:
        lead, late = source.lead, source.delay + start
        known = taken(after(lead, a, start)) if late < 0 and lead is not None else None
        result = replace(source, delay=late, lead=known)
    else:
        value, source = (value, source) if b.folds else b.begun(value, source)
        value, result = b.windowed(value, source, Window(1, step, 1, -start), 0.0, taken)
    b.add(replace(node, op=from_first(op, a, b.types[value].shape[a]), inputs=(value,)))
    return result


def from_first(op: Slice, axis: int, size: int) -> Slice:
    """The slice with the bounds of all of an axis of this size."""
    starts, ends = list(op.starts), list(op.ends)
    starts[axis], ends[axis] = 0, size
    return Slice(tuple(starts), tuple(ends), op.steps)


def _last_steps(b: Builder, node: Node, source: Stream, kept: int) -> Stream:
    """The last steps of a sequence that ends with this call."""
    op: Any = node.op
    a, late = source.time, b.lateness(node.inputs[0], source)
    assert a is not None
    found = b.last(node.inputs[0], source, kept, late)
    b.add(replace(node, op=from_first(op, a, kept), inputs=(found,)))
    return replace(source, time=FINAL, delay=late, lead=None)


def _softmax(b: Builder, node: Node, source: Stream) -> Stream | None:
    """Shares of steps: of the last ones, whose sum is 1."""
    op: Any = node.op
    return _of_last(b, node, source) if source.time == op.axis else None


def _reduction(b: Builder, node: Node, source: Stream) -> Stream | None:
    op: Any = node.op
    return _of_last(b, node, source) if source.time in op.axes else None


def _reshape(b: Builder, node: Node, source: Stream) -> Stream | None:
    """Steps and features become one axis: those of the last steps; or some steps become one."""
    assert source.time is not None
    before, shape = b.graph.types[node.inputs[0]].shape, b.graph.types[node.output].shape
    a = source.time
    if keeps_axis(before, shape, a) is not None:
        return None
    if len(shape) != len(before) or shape[:a] != before[:a] or a + 1 == len(shape) or shape[a] < 2:
        return _of_last(b, node, source)

    def reshaped(lead: Array) -> Array:
        return lead.reshape(*shape[:a], -1, *shape[a + 1 :])

    if before[a] % shape[a] == 0:
        by = before[a] // shape[a]
        value, result = b.windowed(node.inputs[0], source, Window(by, by), 0.0, reshaped)
    elif shape[a] % before[a] == 0:
        times = shape[a] // before[a]
        value, own = (node.inputs[0], source) if b.folds else b.begun(node.inputs[0], source)
        known = None if own.lead is None else reshaped(own.lead)
        result = replace(own, count=own.count * times, delay=own.delay * times, lead=known)
    else:
        return _of_last(b, node, source)
    b.add(replace(node, op=Reshape((*shape[:a], result.count, *shape[a + 1 :])), inputs=(value,)))
    return result


def keeps_axis(before: tuple[int, ...], after: tuple[int, ...], axis: int) -> int | None:
    """Which axis of a reshaped value is `axis` of what it was, if that is still one of its own."""
    size, outer = before[axis], int(np.prod(before[:axis]))
    for k, found in enumerate(after):
        if found == size and int(np.prod(after[:k])) == outer:
            return k
    return None


def _cumulative(b: Builder, node: Node, source: Stream) -> Stream | None:
    """The sum of all elements up to each one, which goes on from call to call."""
    op: Any = node.op
    assert source.time is not None
    if op.axis % b.types[node.inputs[0]].rank != source.time:
        return None
    if op.reverse or op.exclusive:
        raise UnsupportedError("it sums from the end, or without the step itself")
    value, axis = node.inputs[0], source.time
    if not b.folds:
        value, source = b.begun(value, source)
    value = b.masked(value, source, 0.0)
    lead, so_far = source.lead, None
    if lead is not None:
        (lead,) = results(op, lead)
        so_far = after(lead, axis, lead.shape[axis] - 1)
    shape = b.types[value].shape
    one = (*shape[:axis], 1, *shape[axis + 1 :])
    sums, following = b.state(f"{node.name}/sum", one, so_far, b.types[value].dtype, source.every)
    own = b.op(replace(op), f"{node.name}/own", value)
    b.add(Node(Add(), node.name, (own, sums), node.outputs))
    last = b.cut(node.output, axis, source.count - 1, source.count)
    b.add(Node(Identity(), following, (last,), (following,)))
    return replace(source, lead=lead)


#: By class, some of them abstract.
_RULES: Mapping[type, Rule] = {
    Conv: _sliding(_conv),
    ConvInteger: _sliding(_conv),
    ConvTranspose: _conv_transpose,
    WindowOp: _sliding(_pool),
    Resize: resize,
    Interpolate: interpolate,
    Pad: _pad,
    Slice: _slice,
    Reduction: _reduction,
    Softmax: _softmax,
    LogSoftmax: _softmax,
    Reshape: _reshape,
    CumSum: _cumulative,
}
