"""What the integers of inputs and outputs mean, according to the model.

The node that says so may come after others that only move elements, such as Reshape, or pick some
of them, such as maxima: their inputs and outputs mean the same numbers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator
from dataclasses import replace

import numpy as np

from cannery.ir.graph import Graph, Node, Scale
from cannery.ir.registry import Op
from cannery.ir.tensor import DType
from cannery.ops.concat.op import Concat
from cannery.ops.elementwise import Add, Clip, Max, Min
from cannery.ops.indexing.gather import Gather, GatherElements, GatherND
from cannery.ops.indexing.masks import ReverseSequence, Trilu
from cannery.ops.indexing.scatter import ScatterElements, ScatterND, TensorScatter
from cannery.ops.logic.compare import Where
from cannery.ops.max_pool.op import MaxPool
from cannery.ops.movement.op import Cast, Expand, Identity, Pad, Reshape, Slice, Transpose
from cannery.ops.ordering.extremes import TopK
from cannery.ops.quantize.linear import DequantizeLinear, QuantizeLinear, Requantize
from cannery.ops.quantize.products import ConvInteger, MatMulInteger
from cannery.ops.reduce.op import ReduceMax, ReduceMin
from cannery.ops.resize.op import Resize

#: Which inputs of an operator are the scale and the zero point of its result.
_RESULTS: dict[type[Op], tuple[int, int]] = {QuantizeLinear: (1, 2), Requantize: (3, 4)}

#: Operators whose first output consists of elements of these inputs.
_MOVES: dict[type[Op], tuple[int, ...]] = {
    **dict.fromkeys((Identity, Reshape, Transpose, Slice, Expand, Pad, Cast), (0,)),
    **dict.fromkeys((Gather, GatherElements, GatherND, Trilu, ReverseSequence, TopK), (0,)),
    **dict.fromkeys((MaxPool, ReduceMax, ReduceMin, Clip), (0,)),
    **dict.fromkeys((Max, Min, TensorScatter), (0, 1)),
    **dict.fromkeys((ScatterElements, ScatterND), (0, 2)),
    Where: (1, 2),
}

#: What a node says about integers: a scale, or why there is none.
_Said = Scale | str


def with_scales(graph: Graph) -> Graph:
    """The graph with the scales of inputs and outputs that are integers in the model.

    `Graph.notes` says why there is none if nodes name several, or one that is not a number.
    """
    scales, notes = dict(graph.scales), list(graph.notes)
    for kind, names in (("input", graph.inputs), ("output", graph.outputs)):
        for name in names:
            if graph.types[name].dtype in (DType.FLOAT32, DType.BOOL):
                continue
            said = list(dict.fromkeys(_said_of(graph, name)))
            if len(said) == 1 and isinstance(said[0], Scale):
                scales[name] = said[0]
            elif said:
                notes.append(f"{kind} {name!r} has no scale: {_why(said)}")
    if (scales, notes) == (dict(graph.scales), list(graph.notes)):
        return graph
    return replace(graph, scales=scales, notes=tuple(notes))


def _why(said: Collection[_Said]) -> str:
    """Why these are not one scale."""
    texts = [s if isinstance(s, str) else f"{s.scale:.6g} * (q - {s.zero_point})" for s in said]
    return texts[0] if len(texts) == 1 else f"nodes of the model differ: {', '.join(texts)}"


def _said_of(graph: Graph, value: str) -> Iterator[_Said]:
    """What nodes say about a value: those that made it, else those that read it or its sources."""
    made, sources = _made(graph, value)
    yield from made
    if not made:
        for source in (value, *sources):
            yield from _read(graph, source)


def _made(graph: Graph, value: str) -> tuple[list[_Said], list[str]]:
    """What the nodes that made the elements of a value say, and the inputs from which they come."""
    said, sources = list[_Said](), list[str]()
    waiting, seen = deque([value]), {value}
    while waiting:
        name = waiting.popleft()
        node = graph.producer(name)
        if node is None:
            sources += [name] if name in graph.inputs else []
            continue
        if type(node.op) in _RESULTS:
            if _holds(graph, name, value):
                said.append(_scale(graph, node, *_RESULTS[type(node.op)]))
            continue
        fresh = [i for i in _moved(node, name) if i not in seen]
        seen.update(fresh)
        waiting += fresh
    return said, [s for s in sources if s != value and _holds(graph, s, value)]


def _moved(node: Node, output: str) -> list[str]:
    """The inputs of which a node's output consists, if the node only moves elements."""
    if output != node.outputs[0]:
        return []
    if isinstance(node.op, Concat):
        return list(node.inputs)
    if isinstance(node.op, Resize):
        return [node.inputs[0]] if node.op.mode == "nearest" else []
    if isinstance(node.op, TopK) and node.op.indices:
        return []
    if isinstance(node.op, ScatterElements | ScatterND) and node.op.reduction in ("add", "mul"):
        return []
    return [node.inputs[k] for k in _MOVES.get(type(node.op), ())]


def _holds(graph: Graph, source: str, target: str) -> bool:
    """Whether the elements of `target` can be all those of `source`, whatever casts are between."""
    return np.can_cast(graph.types[source].dtype.numpy, graph.types[target].dtype.numpy, "safe")


def _read(graph: Graph, value: str) -> Iterator[_Said]:
    """What the readers of a value, or of values to which its elements are moved, say."""
    waiting, seen = deque([value]), {value}
    while waiting:
        name = waiting.popleft()
        for node in graph.consumers(name):
            if (said := _meaning(graph, node, name)) is not None:
                yield said
            fits = name in _moved(node, node.outputs[0]) and node.outputs[0] not in seen
            if fits and _holds(graph, value, node.outputs[0]):
                seen.add(node.outputs[0])
                waiting.append(node.outputs[0])


def _meaning(graph: Graph, node: Node, value: str) -> _Said | None:
    """What integers mean to a node that reads them."""
    if isinstance(node.op, DequantizeLinear):
        return _scale(graph, node, 1, 2) if node.inputs[0] == value else None
    if not isinstance(node.op, ConvInteger | MatMulInteger) or value not in node.inputs[:2]:
        return None
    behind = graph.consumers(node.output)
    if len(behind) == 1 and isinstance(behind[0].op, Add):
        behind = graph.consumers(behind[0].output)
    if len(behind) != 1 or not isinstance(behind[0].op, Requantize):
        return None
    operand = node.inputs.index(value)
    return _said(graph, behind[0].inputs[1 + operand], node.inputs[2 + operand])


def _scale(graph: Graph, node: Node, scale: int, zero: int) -> _Said:
    return _said(graph, node.inputs[scale], node.inputs[zero])


def _said(graph: Graph, scale: str, zero: str) -> _Said:
    """A scale and a zero point, or why they are not two numbers."""
    single = single_scale(graph, scale, zero)
    if single is not None:
        return single
    if any(name not in graph.constants for name in (scale, zero)):
        return "it is computed at run time"
    count = max(graph.types[name].elements for name in (scale, zero))
    return f"there are {count}, for parts of the tensor"


def single_scale(graph: Graph, scale: str, zero: str) -> Scale | None:
    """The scale and the zero point of all elements, where both are constant."""
    arrays = [graph.constants.get(name) for name in (scale, zero)]
    if any(a is None or a.size != 1 for a in arrays):
        return None
    factor, point = (a.item() for a in arrays if a is not None)
    return Scale(float(factor), int(point))
