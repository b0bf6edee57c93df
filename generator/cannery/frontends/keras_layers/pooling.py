"""Pooling layers."""

from __future__ import annotations

from collections.abc import Sequence

from cannery.frontends.keras_config import LayerConfig
from cannery.frontends.keras_layers.base import LayerPlan, Scope, layer_by_rank
from cannery.frontends.keras_layers.window import check_rank, window_pads
from cannery.ops.average_pool.op import AveragePool
from cannery.ops.max_pool.op import MaxPool
from cannery.ops.reduce.op import ReduceMax, ReduceMean


def _plan_pool(config: LayerConfig, rank: int, op: type[MaxPool] | type[AveragePool]) -> LayerPlan:
    kernel = config.integers("pool_size", rank, (2,) * rank)
    strides = config.integers("strides", rank, kernel)
    padding = config.choice("padding", "valid", ("valid", "same"))
    first = config.channels_first()
    ones = (1,) * rank

    def build(scope: Scope, inputs: Sequence[str]) -> str:
        x = scope.channels_last(scope.to_float(scope.single(inputs)), first)
        pads = window_pads(padding, scope.shape(x)[1:-1], kernel, strides, ones)
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


@layer_by_rank("GlobalAveragePooling{}D", "GlobalAvgPool{}D")
def global_average_pooling(config: LayerConfig, rank: int) -> LayerPlan:
    """x[N,*S,C] -> y[N,C], or y[N,1,C] or y[N,1,1,C] with keepdims."""
    return _plan_global(config, rank, ReduceMean)
