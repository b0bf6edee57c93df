"""Integers at the interface: floats that become integers there.

`IO_TYPE raw` omits the conversions from floats to integers after inputs, and back to floats before
outputs. The caller then reads and writes the integers of the network; each means scale * (q - zero
point), see `Graph.scales`.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cannery.errors import OptionError
from cannery.ir.eliminate_dead import eliminate_dead
from cannery.ir.graph import Array, Graph, Node, Scale
from cannery.ir.tensor import DType, TensorType
from cannery.ops.elementwise import Max, Min
from cannery.ops.quantize.linear import DequantizeLinear, QuantizeLinear
from cannery.ops.quantized.scale import Quantize
from cannery.quantization.scales import single_scale


def raw_interface(graph: Graph) -> Graph:
    """Inputs that are quantised, and outputs that are dequantised, as integers.

    States of recurrent networks stay floats, and so do inputs and outputs of layers that compute
    with floats. Raises OptionError if nothing changes.
    """
    states = {name for state in graph.states for name in (state.input, state.output)}
    made = graph
    for name in graph.inputs:
        if name not in states:
            made = _raw_input(made, name)
    for name in graph.outputs:
        if name not in states:
            made = _raw_output(made, name)
    if made is graph and not graph.scales:
        raise OptionError(
            "no input or output of the network is computed with integers", where="--io-type raw",
            cure="quantise the network (--quantize), or leave it out",
        )  # fmt: skip
    return eliminate_dead(made)


def _raw_input(graph: Graph, name: str) -> Graph:
    """The graph with an input in the form to which its readers quantise it."""
    if graph.types[name].dtype is not DType.FLOAT32:
        return graph
    readers = [n for n in graph.consumers(name) if isinstance(n.op, Quantize | QuantizeLinear)]
    facts = {s for n in readers if (s := _of_input(graph, n)) is not None}
    if len(facts) != 1 or any(_of_input(graph, n) is None for n in readers):
        return graph
    first, scale = readers[0], facts.pop()
    type_ = TensorType(graph.types[name].shape, graph.types[first.output].dtype)
    types, constants = dict(graph.types), dict(graph.constants)
    types[name] = type_
    nodes, held = list[Node](), name
    if isinstance(first.op, Quantize) and type_.dtype is DType.INT16:
        # Sums are proven only for numbers within the bound.
        for op, label, bound in ((Max(), "low", -first.op.bound), (Min(), "high", first.op.bound)):
            _constant(types, constants, f"{name}/{label}", np.asarray(bound, np.int16))
            types[f"{name}/held_{label}"] = type_
            held_inputs = (held, f"{name}/{label}")
            held = f"{name}/held_{label}"
            nodes.append(Node(op, held, held_inputs, (held,)))
    _constant(types, constants, f"{name}/scale", np.asarray(scale.scale, np.float32))
    _constant(types, constants, f"{name}/zero", np.asarray(scale.zero_point, type_.dtype.numpy))
    floats = f"{name}/floats"
    types[floats] = TensorType(type_.shape)
    parameters = (f"{name}/scale", f"{name}/zero")
    nodes.append(Node(DequantizeLinear(), floats, (name, *parameters), (floats,)))
    taken = {n.output for n in readers}
    for node in graph.nodes:
        if node.outputs[0] not in taken:
            inputs = (held if i in taken else floats if i == name else i for i in node.inputs)
            nodes.append(replace(node, inputs=tuple(inputs)))
    outputs = tuple(held if o in taken else o for o in graph.outputs)
    if outputs != graph.outputs:  # an input that is only quantised
        return graph
    scales = {**graph.scales, name: scale}
    return replace(graph, nodes=tuple(nodes), types=types, constants=constants, scales=scales)


def _constant(
    types: dict[str, TensorType], constants: dict[str, Array], name: str, array: Array
) -> None:
    constants[name] = array
    types[name] = TensorType(array.shape, DType(array.dtype.name))


def _of_input(graph: Graph, node: Node) -> Scale | None:
    """The meaning of the integers that a node makes from an input."""
    if isinstance(node.op, QuantizeLinear):
        return single_scale(graph, *node.inputs[1:3])
    factor = float(graph.constants[node.inputs[1]].item())
    return Scale(float(np.float32(1.0 / factor)), 0)


def _raw_output(graph: Graph, name: str) -> Graph:
    """The graph with an output as integers, if it is made from integers."""
    node = graph.producer(name)
    if node is None or not isinstance(node.op, DequantizeLinear):
        return graph
    source, scale = node.inputs[0], single_scale(graph, *node.inputs[1:3])
    if scale is None or graph.producer(source) is None or source in graph.outputs:
        return graph
    types = dict(graph.types)
    floats = f"{name}/floats"
    types[floats], types[name] = types[name], types.pop(source)

    def renamed(value: str) -> str:
        return {source: name, name: floats}.get(value, value)

    nodes = tuple(node.renamed(renamed) for node in graph.nodes)
    return replace(graph, nodes=nodes, types=types, scales={**graph.scales, name: scale})
