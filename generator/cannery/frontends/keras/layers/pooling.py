"""Pooling layers."""

from __future__ import annotations

from collections.abc import Sequence

from cannery.frontends.keras.config import LayerConfig
from cannery.frontends.keras.layers.base import LayerPlan, Scope, layer, layer_by_rank
from cannery.frontends.keras.layers.window import check_rank, window_pads
from cannery.frontends.volumes import pool_3d
from cannery.ir.tensor import DType
from cannery.ops.average_pool.op import AveragePool
from cannery.ops.concat.op import Concat
from cannery.ops.elementwise.binary import Div, Mul
from cannery.ops.max_pool.op import MaxPool
from cannery.ops.movement.op import Cast, Reshape, Slice
from cannery.ops.reduce.op import ReduceMax, ReduceMean, ReduceSum


def _plan_pool(config: LayerConfig, rank: int, op: type[MaxPool] | type[AveragePool]) -> LayerPlan:
    kernel = config.integers("pool_size", rank, (2,) * rank)
    strides = config.integers("strides", rank, kernel)
    padding = config.choice("padding", "valid", ("valid", "same"))
    first = config.channels_first()
    ones = (1,) * rank

    def build(scope: Scope, inputs: Sequence[str]) -> str:
        x = scope.channels_last(scope.to_float(scope.single(inputs)), first)
        pads = window_pads(padding, scope.shape(x)[1:-1], kernel, strides, ones)
        if rank == 3:
            y = pool_3d(scope, x, (kernel, strides, pads, ones), lambda window: op(*window))
            return scope.channels_back(y, first)
        return scope.channels_back(scope.node(op(kernel, strides, pads, ones), [x]), first)

    return LayerPlan(build)


@layer_by_rank("MaxPooling{}D", "MaxPool{}D")
def max_pooling(config: LayerConfig, rank: int) -> LayerPlan:
    """x[N,*S,C] -> y[N,*O,C]."""
    return _plan_pool(config, rank, MaxPool)


@layer_by_rank("AveragePooling{}D", "AvgPool{}D")
def average_pooling(config: LayerConfig, rank: int) -> LayerPlan:
    """x[N,*S,C] -> y[N,*O,C]; padding does not count."""
    return _plan_pool(config, rank, AveragePool)


def _plan_global(
    config: LayerConfig, rank: int, op: type[ReduceMax] | type[ReduceMean]
) -> LayerPlan:
    keepdims = config.flag("keepdims", False)
    begin = 2 if config.channels_first() else 1
    reduction = op(tuple(range(begin, begin + rank)), keepdims)

    def build(scope: Scope, inputs: Sequence[str]) -> str:
        x = scope.to_float(scope.single(inputs))
        check_rank(scope.shape(x)[1:-1], rank)
        return scope.node(reduction, [x])

    return LayerPlan(build)


@layer_by_rank("GlobalMaxPooling{}D", "GlobalMaxPool{}D")
def global_max_pooling(config: LayerConfig, rank: int) -> LayerPlan:
    """x[N,*S,C] -> y[N,C], or y[N,1,C] or y[N,1,1,C] with keepdims."""
    return _plan_global(config, rank, ReduceMax)


@layer_by_rank("GlobalAveragePooling{}D", "GlobalAvgPool{}D", ranks=(2, 3))
def global_average_pooling(config: LayerConfig, rank: int) -> LayerPlan:
    """x[N,*S,C] -> y[N,C], or y[N,1,..,C] with keepdims."""
    return _plan_global(config, rank, ReduceMean)


@layer("GlobalAveragePooling1D", "GlobalAvgPool1D")
def global_average_pooling_1d(config: LayerConfig) -> LayerPlan:
    """x[N,T,C] -> y[N,C]; steps that a mask leaves out do not count."""
    plain = _plan_global(config, 1, ReduceMean)
    first, keepdims = config.channels_first(), config.flag("keepdims", False)

    def build(scope: Scope, inputs: Sequence[str]) -> str | list[str]:
        mask = scope.mask()
        if mask is None:
            return plain.build(scope, inputs)
        x = scope.to_float(scope.single(inputs))
        check_rank(scope.shape(x)[1:-1], 1)
        axis = 2 if first else 1
        wide = (
            (*scope.shape(mask), 1) if axis == 1 else (scope.shape(mask)[0], 1, scope.shape(x)[2])
        )
        share = scope.node(Cast(DType.FLOAT32), [mask], "mask")
        share = scope.node(Reshape(wide), [share], "weights")
        total = scope.node(Mul(), [x, share], "counted")
        total = scope.node(ReduceSum((axis,), keepdims), [total], "total")
        return scope.node(
            Div(), [total, scope.node(ReduceSum((axis,), keepdims), [share], "count")]
        )

    return LayerPlan(build, reads_masks=True)


@layer_by_rank("AdaptiveAveragePooling{}D")
def adaptive_average_pooling(config: LayerConfig, rank: int) -> LayerPlan:
    """Means of parts of about equal size."""
    return _plan_adaptive(config, rank, AveragePool, ReduceMean)


@layer_by_rank("AdaptiveMaxPooling{}D")
def adaptive_max_pooling(config: LayerConfig, rank: int) -> LayerPlan:
    """Maxima of parts of about equal size."""
    return _plan_adaptive(config, rank, MaxPool, ReduceMax)


def _plan_adaptive(
    config: LayerConfig,
    rank: int,
    op: type[MaxPool] | type[AveragePool],
    reduction: type[ReduceMax] | type[ReduceMean],
) -> LayerPlan:
    """One axis after the other: part i of n is from floor(i*d/n) to ceil((i+1)*d/n)."""
    sizes = config.integers("output_size", rank)
    first = config.channels_first()

    def build(scope: Scope, inputs: Sequence[str]) -> str:
        x = scope.channels_last(scope.to_float(scope.single(inputs)), first)
        spatial = scope.shape(x)[1:-1]
        check_rank(spatial, rank)
        window = tuple(d // n for d, n in zip(spatial, sizes, strict=True))
        if rank < 3 and all(d == n * k for d, n, k in zip(spatial, sizes, window, strict=True)):
            ones, none = (1,) * rank, ((0, 0),) * rank
            return scope.channels_back(scope.node(op(window, window, none, ones), [x]), first)
        for axis, size in enumerate(sizes, start=1):
            x = _in_parts(scope, x, axis, size, reduction)
        return scope.channels_back(x, first)

    return LayerPlan(build)


def _in_parts(
    scope: Scope, x: str, axis: int, count: int, reduction: type[ReduceMax] | type[ReduceMean]
) -> str:
    """An axis as `count` elements, each of them one of overlapping parts."""
    shape = scope.shape(x)
    size, parts = shape[axis], []
    if size == count:
        return x
    for k in range(count):
        starts, ends = [0] * len(shape), list(shape)
        starts[axis], ends[axis] = k * size // count, -(-(k + 1) * size // count)
        cut = Slice(tuple(starts), tuple(ends), (1,) * len(shape))
        part = scope.node(cut, [x], f"axis{axis}/part{k}")
        parts.append(scope.node(reduction((axis,), keepdims=True), [part], f"axis{axis}/{k}"))
    return scope.node(Concat(axis), parts, f"axis{axis}") if count > 1 else parts[0]
