"""The order in which the nodes of an ONNX graph are computed: the file's order if it works.

ONNX requires nodes to come after their inputs. Some exporters ignore that, and other runtimes sort.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heappush

from cannery.errors import ModelError
from cannery.frontends.onnx.model import OnnxNode, Subgraph

#: Most nodes of a cycle that a message names.
_NAMED = 4

_CURE = "export the model again; feedback is a Loop in ONNX"


def ordered(nodes: Sequence[OnnxNode]) -> Sequence[OnnxNode]:
    """The nodes, each after those whose results it reads, otherwise in their order.

    Raises ModelError, with the nodes, if some need each other's results.
    """
    makers: dict[str, int] = {}
    for index, node in enumerate(nodes):
        for output in node.outputs:
            if output:
                makers.setdefault(output, index)
    needs = [{makers[i] for i in outer_reads(n) if i in makers} for n in nodes]
    if all(max(before, default=-1) < index for index, before in enumerate(needs)):
        return nodes
    readers: list[list[int]] = [[] for _ in nodes]
    for index, before in enumerate(needs):
        for maker in before:
            readers[maker].append(index)
    left = [len(before) for before in needs]
    ready = [index for index, count in enumerate(left) if not count]
    heapify(ready)
    found: list[OnnxNode] = []
    while ready:
        index = heappop(ready)
        found.append(nodes[index])
        for reader in readers[index]:
            left[reader] -= 1
            if not left[reader]:
                heappush(ready, reader)
    if len(found) < len(nodes):
        raise _cycle(nodes, needs, left)
    return found


def _cycle(nodes: Sequence[OnnxNode], needs: Sequence[set[int]], left: Sequence[int]) -> ModelError:
    """The error of nodes that need each other: `left` counts what each of them waits for."""
    at = next(index for index, count in enumerate(left) if count)
    path: list[int] = []
    while at not in path:
        path.append(at)
        at = min(before for before in needs[at] if left[before])
    cycle = path[path.index(at) :][::-1]
    first = cycle.index(min(cycle))
    cycle = cycle[first:] + cycle[:first]
    names = [f"{nodes[k].label!r} ({nodes[k].sort})" for k in cycle[:_NAMED]]
    more = f" and {len(cycle) - _NAMED} more" if len(cycle) > _NAMED else ""
    if len(cycle) == 1:
        return ModelError("needs its own result", where=f"node {names[0]}", cure=_CURE)
    return ModelError(f"nodes {', '.join(names)}{more} need each other's results", cure=_CURE)


def outer_reads(node: OnnxNode) -> set[str]:
    """All values that a node reads, also within its branches and bodies, except their own."""
    found = {i for i in node.inputs if i}
    for value in node.attributes.values():
        if isinstance(value, Subgraph):
            own = {*value.inputs, *value.weights, *(o for n in value.nodes for o in n.outputs)}
            inner = {i for n in value.nodes for i in outer_reads(n)} | set(value.outputs)
            found |= inner - own
    return found
