"""What packed weights cost where no third-level cache keeps what the second has no room for.

Winograd's algorithm has four numbers where the model has one, and SSE stores some of them once per
lane. On small processors a network may fit the second-level cache as it is, but not as it is
packed: then each run reads it from memory. Weights that do not even fit as they are cost all
schedules the same; those that see more of it count that themselves.
"""

from __future__ import annotations

from cannery.ir.graph import Graph, Node
from cannery.schedule.program import Step
from cannery.schedule.schedule import Estimate, Params, Schedule, own_bytes
from cannery.target.isa import Isa


def total_cycles(
    graph: Graph, step: Step, isa: Isa, schedule: Schedule, params: Params, estimate: Estimate
) -> float:
    """What a candidate with this estimate costs as a step of the network."""
    return estimate.total_in(graph, isa) + packed_cycles(graph, step, isa, schedule, params)


def packed_cycles(graph: Graph, step: Step, isa: Isa, schedule: Schedule, params: Params) -> float:
    """Cycles of reading a step's constants from memory; 0 if they stay in the cache.

    They stay if the network has room, with its values, when all of it is packed so tightly.
    """
    caches = isa.core.caches
    if caches.far_bytes > caches.l2_bytes or graph.constant_bytes > caches.l2_bytes:
        return 0.0
    own = own_bytes(graph, step)
    if not own:
        return 0.0
    packed = schedule.constant_bytes(graph, step, params, isa)
    network = graph.constant_bytes * packed / own + _value_bytes(graph)
    return packed / caches.far_rate if network > caches.l2_bytes else 0.0


def _value_bytes(graph: Graph) -> int:
    """Bytes of what the node with the largest values reads and writes."""

    def of_node(node: Node) -> int:
        values = {*node.inputs, *node.outputs} - set(graph.constants)
        return sum(graph.types[value].bytes for value in values if value in graph.types)

    return graph.once("value bytes", (), lambda: max(map(of_node, graph.nodes), default=0))
