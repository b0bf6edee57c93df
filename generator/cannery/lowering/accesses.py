"""How often a run accesses each value, as a model: what a fast memory is given by.

A layer writes each element of its output once. It reads an element of its input as often as its
window covers it, once for all channels that it computes from it. What it keeps in scratch memory
it reads as often as what that is made of.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from cannery.ir.graph import Graph, Node
from cannery.ops.window import WindowOp
from cannery.schedule.program import Program, Step


def scratch_name(index: int) -> str:
    """What the scratch memory of a step is called among the blocks of a memory plan."""
    return f"scratch {index}"


def accesses(program: Program, scratch_bytes: Sequence[int]) -> dict[str, int]:
    """Bytes that a run reads and writes, by root buffer and `scratch_name`."""
    found: dict[str, int] = {}
    for index, planned in enumerate(program.steps):
        step = planned.step
        reads = [_read_bytes(program.graph, step.nodes, value) for value in step.inputs]
        for name, count in zip(planned.reads, reads, strict=True):
            root = program.buffers[name].root
            found[root] = found.get(root, 0) + count
        for name in planned.writes:
            root = program.buffers[name].root
            found[root] = found.get(root, 0) + program.buffers[name].type.bytes
        if scratch_bytes[index]:
            passed = _between_parts(program.graph, step) if step.parts else sum(reads)
            found[scratch_name(index)] = max(passed, 2 * scratch_bytes[index])
    return found


def _between_parts(graph: Graph, step: Step) -> int:
    """Bytes written and read of the values that pass from part to part of a chain."""
    inner = [value for part in step.parts for value in part.outputs if value not in step.outputs]
    return sum(graph.types[v].bytes + _read_bytes(graph, step.nodes, v) for v in inner)


def _read_bytes(graph: Graph, nodes: Sequence[Node], value: str) -> int:
    """Bytes of a value that these nodes read, all readers together."""
    return sum(_reads(graph, node, value) for node in nodes if value in node.inputs)


def _reads(graph: Graph, node: Node, value: str) -> int:
    """Bytes that a node reads of a value: at least all of it, of windows once for each place."""
    type_, result = graph.types[value], graph.types[node.outputs[0]]
    if isinstance(node.op, WindowOp):
        return max(result.elements * prod(node.op.kernel) * type_.dtype.bytes, type_.bytes)
    weights = node.inputs[1] if len(node.inputs) > 1 else None
    if node.inputs[0] != value or weights is None or not result.rank:
        return type_.bytes
    taken = graph.types[weights].shape[-2:-1]  # [*K, channels of a group, outputs]
    if not type_.rank or not taken or not taken[0]:
        return type_.bytes
    types = tuple(graph.types[i] if i else None for i in node.inputs)
    products = node.op.macs(types, tuple(graph.types[o] for o in node.outputs))
    groups, outputs = max(type_.shape[-1] // taken[0], 1), max(result.shape[-1], 1)
    return max(products * groups // outputs * type_.dtype.bytes, type_.bytes)
