"""Graphs as TorchScript; made for recurrent networks, which have the operators below."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import singledispatch
from pathlib import Path
from typing import Any

import torch

from cannery.ir.graph import Graph, Node
from cannery.ir.registry import Op
from cannery.ops.elementwise import Relu, Sigmoid, Tanh
from cannery.ops.matmul.op import MatMul
from cannery.ops.movement.op import Reshape, Slice, Transpose
from cannery.ops.recurrent.op import Lstm
from cannery.ops.softmax.op import Softmax
from rivals.exchange import as_float, constant, is_projection, lstm_layer, unsupported

#: Computes a value from its inputs that are not constant.
_Function = Callable[..., Any]


def write_torch(graph: Graph, file: Path) -> None:
    """Write the network; raises UnsupportedError for operators that have no form here."""
    model = _Network(graph).eval()
    inputs = tuple(torch.zeros(graph.types[v].shape) for v in graph.inputs)
    with torch.inference_mode():
        traced = torch.jit.trace(model, inputs, check_trace=False)
        torch.jit.save(traced, str(file))


class _Network(torch.nn.Module):
    """The nodes in their order."""

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self.graph = graph
        self.functions: dict[str, tuple[_Function, tuple[str, ...]]] = {}
        for node in graph.nodes:
            if is_projection(graph, node):
                continue
            function = _function(node.op, graph, node)
            if isinstance(function, torch.nn.Module):
                self.add_module(f"node{len(self.functions)}", function)
            given = node.inputs[:1]
            if isinstance(node.op, Lstm):
                given = (lstm_layer(graph, node).x,)
            self.functions[node.output] = (function, given)

    def forward(self, *inputs: Any) -> tuple[Any, ...]:
        """The outputs in the graph's order."""
        values: dict[str, Any] = dict(zip(self.graph.inputs, inputs, strict=True))
        for output, (function, given) in self.functions.items():
            values[output] = function(*(values[v] for v in given))
        return tuple(values[v] for v in self.graph.outputs)


@singledispatch
def _function(op: Op, graph: Graph, node: Node) -> _Function:
    raise unsupported(op)


@_function.register
def _(op: Lstm, graph: Graph, node: Node) -> _Function:
    given = lstm_layer(graph, node)
    if given.peepholes is not None or op.reverse not in ((False,), (False, True)):
        raise unsupported(op)
    both = op.directions == 2
    layer = torch.nn.LSTM(given.w.shape[1], op.cells, batch_first=True, bidirectional=both)
    arrays: dict[str, Any] = {}
    for d, suffix in zip(range(op.directions), ("", "_reverse"), strict=False):
        arrays[f"weight_ih_l0{suffix}"] = given.gates(given.w[d], "ifco")
        arrays[f"weight_hh_l0{suffix}"] = given.gates(given.r[d], "ifco")
        arrays[f"bias_ih_l0{suffix}"] = given.gates(given.bias[d], "ifco")
    _assign(layer, {k: torch.cat([torch.from_numpy(g) for g in v]) for k, v in arrays.items()})
    return _First(layer)


class _First(torch.nn.Module):
    """The first of what a layer returns."""

    def __init__(self, layer: torch.nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Any) -> Any:
        """The sequence."""
        return self.layer(x)[0]


@_function.register
def _(op: MatMul, graph: Graph, node: Node) -> _Function:
    if op.transpose_a:
        raise unsupported(op)
    _, w, *bias = node.inputs
    kernel = as_float(constant(graph, w))
    kernel = kernel if op.transpose_b else as_float(kernel.T)
    layer = torch.nn.Linear(kernel.shape[1], kernel.shape[0], bias=any(bias))
    arrays = {"weight": torch.from_numpy(kernel)}
    if any(bias):
        arrays["bias"] = torch.from_numpy(as_float(constant(graph, bias[0])))
    _assign(layer, arrays)
    return layer


def _assign(layer: torch.nn.Module, arrays: Mapping[str, Any]) -> None:
    """Parameters that are not given become zero."""
    with torch.no_grad():
        for name, parameter in layer.named_parameters():
            parameter.copy_(arrays.get(name, torch.zeros_like(parameter)))


@_function.register
def _(op: Softmax, graph: Graph, node: Node) -> _Function:
    return torch.nn.Softmax(op.axis)


@_function.register
def _(op: Reshape, graph: Graph, node: Node) -> _Function:
    return lambda x: x.reshape(op.shape)


@_function.register
def _(op: Transpose, graph: Graph, node: Node) -> _Function:
    return lambda x: x.permute(op.perm)


@_function.register
def _(op: Slice, graph: Graph, node: Node) -> _Function:
    if min(op.steps) < 1:
        raise unsupported(op)
    parts = tuple(map(slice, op.starts, op.ends, op.steps))
    return lambda x: x[parts]


@_function.register(Relu)
@_function.register(Sigmoid)
@_function.register(Tanh)
def _(op: Op, graph: Graph, node: Node) -> _Function:
    return {"Relu": torch.relu, "Sigmoid": torch.sigmoid, "Tanh": torch.tanh}[type(op).__name__]
