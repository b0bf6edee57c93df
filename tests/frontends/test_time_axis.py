"""What may run step by step, or end early, computes what the whole sequence does; all else is
rejected. By the references alone: every operator with a rule, in many settings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cannery.errors import ModelError, OptionError, UnsupportedError
from cannery.frontends.lengths import to_variable_length
from cannery.frontends.streaming import AUTO, to_streaming
from cannery.ir.evaluate import evaluate
from cannery.ir.graph import Graph
from cannery.ir.registry import Op
from cannery.ir.tensor import DType
from cannery.ops.average_pool.op import AveragePool
from cannery.ops.concat.op import Concat
from cannery.ops.conv.op import Conv
from cannery.ops.elementwise import Add, Mul, Relu, Tanh
from cannery.ops.indexing.gather import Gather
from cannery.ops.matmul.op import MatMul
from cannery.ops.max_pool.op import MaxPool
from cannery.ops.movement.op import Cast, Expand, Pad, Reshape, Slice, Transpose
from cannery.ops.normalization.op import (
    BatchNormalization,
    GroupNormalization,
    LayerNormalization,
)
from cannery.ops.ordering.cumulative import CumProd, CumSum
from cannery.ops.ordering.extremes import ArgMax, Hardmax, TopK
from cannery.ops.recurrent.op import Rnn
from cannery.ops.reduce.op import ReduceMean
from cannery.ops.resize.op import Resize
from cannery.ops.softmax.op import LogSoftmax, Softmax
from ops.cases import Net

Array = NDArray[Any]

#: Steps; no other axis is as long.
T, SHORT = 7, 4
FEATURES = 6
CELLS = 3
TOLERANCE = 1e-6

#: Makes a value of x, whose shape is [2,T,FEATURES], and of z, [1,T,5,2]; T is given.
Make = Callable[[Net, str, str, int], str]


def _weights(b: Net, *shape: int) -> str:
    """Those of fewer steps are the first ones."""
    return b.weight(*shape, positive=True)


def _of_x(op: Op, *weights: tuple[int, ...]) -> Make:
    return lambda b, x, z, t: b.node(op, [x, *(_weights(b, *w) for w in weights)])


def _of_z(op: Op, *weights: tuple[int, ...]) -> Make:
    return lambda b, x, z, t: b.node(op, [z, *(_weights(b, *w) for w in weights)])


def _windows() -> Iterator[tuple[str, Make]]:
    """Of lines with time as their axis, and of images with rows of time."""
    for kernel, stride, pads, dilation in product((1, 2), (1, 2), ((0, 0), (1, 0)), (1, 2)):
        name = f"{kernel}_{stride}_{pads}_{dilation}"
        line = Conv((stride,), (pads,), (dilation,))
        yield f"conv1d_{name}", _of_x(line, (kernel, FEATURES, 4))
        rows = Conv((stride, 2), (pads, (1, 1)), (dilation, 1))
        yield f"conv2d_rows_{name}", _of_z(rows, (kernel, 3, 2, 4))
        columns = Conv((2, stride), ((0, 0), pads), (1, dilation))
        yield f"conv2d_columns_{name}", _of_z(columns, (1, kernel, 2, 4))
        place = (kernel,), (stride,), (pads if kernel > 1 else (0, 0),), (dilation,)
        yield f"max_pool_{name}", _of_x(MaxPool(*place))
        yield f"average_pool_{name}", _of_x(AveragePool(*place))
    for channels_of_time in (False, True):
        weight = _images(Conv((1, 1), ((1, 1), (1, 1)), (1, 1)), channels_of_time)
        yield f"images_{channels_of_time}", weight


def _images(conv: Conv, last: bool) -> Make:
    """Each step as a separate image, or as a channel."""

    def make(b: Net, x: str, z: str, t: int) -> str:
        if last:
            turned = b.node(Transpose((0, 2, 3, 1)), [z])
            return b.node(conv, [turned, _weights(b, 3, 3, t, 4)])
        return b.node(conv, [b.node(Reshape((t, 5, 2, 1)), [z]), _weights(b, 3, 3, 1, 4)])

    return make


def _along_axes() -> Iterator[tuple[str, Make]]:
    for axis in (1, 2):
        yield f"softmax_{axis}", _of_x(Softmax(axis))
        yield f"log_softmax_{axis}", _of_x(LogSoftmax(axis))
        yield f"concat_{axis}", lambda b, x, z, t, a=axis: b.node(Concat(a), [x, x])
        yield f"layer_norm_{axis}", _of_x(LayerNormalization((axis,), 1e-3))
    for axes in ((0,), (1,), (2,), (0, 2), (1, 2)):
        for keep in (False, True):
            yield f"mean_{axes}_{keep}", _of_x(ReduceMean(axes, keepdims=keep))
    size = (FEATURES,)
    yield "batch_norm_features", _of_x(BatchNormalization(2, 1e-3), size, size, size, size)
    yield (
        "batch_norm_time",
        lambda b, x, z, t: b.node(
            BatchNormalization(1, 1e-3), [x, *(_weights(b, t) for _ in range(4))]
        ),
    )


def _of_channels() -> Iterator[tuple[str, Make]]:
    """Places, sums and choices along one axis."""
    for axis in (1, 2):
        for op in (CumSum(axis), CumProd(axis), Hardmax(axis)):
            yield f"{op.kind.lower()}_{axis}", _of_x(op)
        for keep in (False, True):
            yield f"arg_max_{axis}_{keep}", _floats(ArgMax(axis, keep))
        yield f"top_{axis}", lambda b, x, z, t, a=axis: b.nodes(TopK(a, 2), [x], name="top")[0]
        yield (
            f"gather_{axis}",
            lambda b, x, z, t, a=axis: b.node(
                Gather(a), [x, b.constant("at", np.array([[2, 0, 1]]))]
            ),
        )
    yield (
        "gather_samples",
        lambda b, x, z, t: b.node(Gather(0), [x, b.constant("at", np.array([1, 1, 0]))]),
    )
    yield "gather_rows", lambda b, x, z, t: b.node(
        Gather(0), [_weights(b, FEATURES, 4), b.node(ArgMax(2, False), [x])]
    )  # fmt: skip
    for axis, groups in ((2, 3), (2, 1)):
        yield f"group_norm_{axis}_{groups}", _of_x(GroupNormalization(groups, axis, 1e-3))
    yield (
        "group_norm_of_rows",
        lambda b, x, z, t: b.node(
            Reshape((2, t, FEATURES)),
            [b.node(GroupNormalization(3, 1, 1e-3), [b.node(Reshape((2 * t, FEATURES)), [x])])],
        ),
    )


def _floats(op: Op) -> Make:
    return lambda b, x, z, t: b.node(Cast(DType.FLOAT32), [b.node(op, [x])])


def _moves() -> Iterator[tuple[str, Make]]:
    for perm in ((1, 0, 2), (0, 2, 1), (2, 1, 0), (1, 2, 0)):
        yield f"transpose_{perm}", _of_x(Transpose(perm))
    for start, end, step in ((0, T, 1), (1, T, 1), (0, T - 1, 1), (0, T, 2), (T - 1, -1, -1)):
        cut = Slice((0, start, 0), (2, end, FEATURES), (1, step, 1))
        yield f"slice_{start}_{end}_{step}", _of_x(cut)
    for at in (0, 2, T - 1):
        yield f"step_{at}", _of_x(Slice((0, at, 0), (2, at + 1, FEATURES), (1, 1, 1)))
    yield "slice_features", lambda b, x, z, t: b.node(Slice((0, 0, 1), (2, t, 4), (1, 1, 1)), [x])
    for pads in (((0, 0), (0, 0), (1, 2)), ((0, 0), (1, 0), (0, 0)), ((0, 0), (0, 2), (0, 0))):
        yield f"pad_{pads}", _of_x(Pad(pads))
    yield "reshape_split", lambda b, x, z, t: b.node(Reshape((2, t, 3, 2)), [x])
    yield "reshape_rows", lambda b, x, z, t: b.node(Reshape((2 * t, FEATURES)), [x])
    yield "reshape_mixed", lambda b, x, z, t: b.node(Reshape((2, FEATURES, t)), [x])
    yield "reshape_more", lambda b, x, z, t: b.node(Reshape((2, 1, t, FEATURES)), [x])
    yield "expand", lambda b, x, z, t: b.node(Expand((3, 2, t, FEATURES)), [x])
    yield (
        "resize_columns",
        lambda b, x, z, t: b.node(Resize("nearest", (t, 10), "asymmetric", "floor"), [z]),
    )
    yield (
        "resize_rows",
        lambda b, x, z, t: b.node(Resize("nearest", (2 * t, 5), "asymmetric", "floor"), [z]),
    )


def _products() -> Iterator[tuple[str, Make]]:
    yield "matmul", _of_x(MatMul(), (FEATURES, 4))
    yield "matmul_turned", _of_x(MatMul(transpose_b=True), (4, FEATURES))
    yield "matmul_batches", _of_x(MatMul(), (2, FEATURES, 4))
    yield (
        "matmul_of_rows",
        lambda b, x, z, t: b.node(MatMul(transpose_a=True), [x, _weights(b, t, 4)]),
    )
    yield (
        "matmul_of_columns",
        lambda b, x, z, t: b.node(
            MatMul(transpose_a=True), [b.node(Transpose((0, 2, 1)), [x]), _weights(b, FEATURES, 4)]
        ),
    )
    yield "matmul_attention", lambda b, x, z, t: b.node(MatMul(transpose_b=True), [x, x])
    yield "elementwise", lambda b, x, z, t: b.node(Add(), [b.node(Tanh(), [x]), x])
    yield "factor_per_feature", _of_x(Mul(), (FEATURES,))
    yield "factor_per_sample", _of_x(Mul(), (2, 1, 1))
    yield "factor_per_step", lambda b, x, z, t: b.node(Mul(), [x, _weights(b, t, 1)])
    yield (
        "sum_of_steps",
        lambda b, x, z, t: b.node(Add(), [x, b.node(ReduceMean((1,), keepdims=True), [x])]),
    )


WAYS: dict[str, Make] = {
    **dict(_windows()), **dict(_along_axes()), **dict(_of_channels()), **dict(_moves()),
    **dict(_products()),
}  # fmt: skip


def network(make: Make, steps: int) -> Graph:
    """What is tried next to a recurrent layer, which shows what the steps are."""
    b = Net()
    x = b.input("x", (2, steps, FEATURES))
    z = b.input("z", (1, steps, 5, 2))
    p = b.node(MatMul(), [x, _weights(b, FEATURES, CELLS)])
    layer = Rnn(CELLS, ((Tanh(),),), (False,), returns=("sequence",))
    (y,) = b.nodes(layer, [p, _weights(b, 1, CELLS, CELLS), ""], name="layer")
    b.output(y)
    b.output(b.node(Relu(), [z]))
    b.output(b.node(Relu(), [make(b, x, z, steps)]))
    return b.build()


def inputs(steps: int, seed: int = 0) -> dict[str, Array]:
    rng = np.random.default_rng(seed)
    x, z = rng.standard_normal((2, T, FEATURES)), rng.standard_normal((1, T, 5, 2))
    return {"x": x[:, :steps], "z": z[:, :steps]}


def _is_step(graph: Graph, value: str) -> bool:
    """Whether an input is that of one step; else there is one for all of them."""
    return graph.types[value].shape[1] == 1


def step_by_step(graph: Graph, given: dict[str, Array]) -> list[list[Array]]:
    """The outputs of all steps; states begin with zeros."""
    state = {s.input: np.zeros(graph.types[s.input].shape) for s in graph.states}
    found: list[list[Array]] = [[] for _ in graph.outputs]
    for t in range(T):
        now = {k: v[:, t : t + 1] if _is_step(graph, k) else v for k, v in given.items()}
        values = evaluate(graph, {**state, **now})
        state = {s.input: values[s.output] for s in graph.states}
        for results, name in zip(found, graph.outputs, strict=True):
            results.append(np.asarray(values[name]))
    return found


def axis_of_time(whole: tuple[int, ...], step: tuple[int, ...]) -> int | None:
    """Where one step is cut out of all; None where a step has the shape of all."""
    found = [k for k, (a, b) in enumerate(zip(whole, step, strict=True)) if a != b]
    assert len(found) <= 1, (whole, step)
    return found[0] if found else None


def streams(make: Make) -> bool:
    """Whether a network runs step by step; if so, it is that of whole sequences."""
    graph = network(make, T)
    try:
        one = to_streaming(graph, latency=AUTO)
    except (UnsupportedError, OptionError):
        return False
    assert one.calls
    if one.calls.every > 1:  # steps without outputs are tried in test_streaming_windows.py
        return False
    given = inputs(T)
    whole = evaluate(graph, given)
    for name, steps in zip(graph.outputs, step_by_step(one, given), strict=False):
        right = np.asarray(whole[name])
        axis = axis_of_time(right.shape, steps[0].shape)
        made = steps[-1] if axis is None else np.concatenate(steps, axis)
        if axis is not None:
            made = np.take(made, range(one.calls.latency, T), axis)
            right = np.take(right, range(min(right.shape[axis], made.shape[axis])), axis)
            made = np.take(made, range(right.shape[axis]), axis)
        assert made.size == right.size > 0
        np.testing.assert_allclose(made, right, atol=TOLERANCE, rtol=TOLERANCE)
    return True


def ends_early(make: Make) -> bool:
    """Whether sequences may be shorter; if so, they are computed as by a network of that length."""
    graph = network(make, T)
    try:
        times = to_variable_length(graph).length
    except UnsupportedError:
        return False
    assert times is not None
    ends, junk = inputs(T), inputs(T, seed=1)
    for name in ends:
        steps = SHORT if name in times.times else T
        junk[name][:, :steps] = ends[name][:, :steps]
    found = [evaluate(graph, each) for each in (ends, junk)]
    right = _of_length(make, SHORT) if times.times.keys() >= ends.keys() else None
    for k, name in enumerate(graph.outputs):
        axis = times.times.get(name)
        first, second = (np.asarray(f[name]) for f in found)
        if axis is not None:
            first, second = (np.take(each, range(SHORT), axis) for each in (first, second))
        np.testing.assert_allclose(first, second, atol=TOLERANCE, rtol=TOLERANCE)
        if right is not None:
            np.testing.assert_allclose(first, right[k], atol=TOLERANCE, rtol=TOLERANCE)
    return True


def _of_length(make: Make, steps: int) -> list[Array] | None:
    """The outputs of the same network for as many steps, if there is one."""
    try:
        graph = network(make, steps)
    except ModelError:  # such as a slice of more steps
        return None
    values = evaluate(graph, inputs(steps))
    return [np.asarray(values[name]) for name in graph.outputs]


#: What runs step by step, and what may end early: no less than that.
STREAMS, ENDS_EARLY = 82, 75


@pytest.mark.parametrize(("works", "least"), [(streams, STREAMS), (ends_early, ENDS_EARLY)])
def test_what_is_not_refused_is_right(works: Callable[[Make], bool], least: int) -> None:
    done = {name for name, make in WAYS.items() if works(make)}
    assert len(done) >= least
    assert {"matmul", "elementwise", "softmax_2", "conv1d_1_1_(0, 0)_1"} <= done
    assert not {"layer_norm_1", "factor_per_step"} & done
    assert not {"reshape_mixed", "softmax_1", "group_norm_of_rows"} & done
    if works is ends_early:
        assert "mean_(1,)_True" not in done
