"""A convolution and the pooling after it, row by row: only the pooled rows are stored."""

from __future__ import annotations

from dataclasses import dataclass

from cannery.ir.graph import Graph
from cannery.ops.chains.rows import RowChain
from cannery.ops.conv.geometry import conv_shape
from cannery.ops.shared.pool import pool_shape
from cannery.schedule.program import Step
from cannery.schedule.schedule import schedule


@schedule
@dataclass(frozen=True)
class ChainsPooled(RowChain):
    """See the module docstring."""

    id = "chains.pooled"
    rows = (1, 2)
    kept = (3, 1)

    def unfit(self, graph: Graph, step: Step) -> str:
        first, second = step.parts
        if conv_shape(graph, first) is None:
            return "does not begin with a convolution"
        return "" if pool_shape(graph, second) else "does not end with a pooling"
