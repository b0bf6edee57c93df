"""Peepholes for LSTM layers from files without a place for them, such as Keras'.

Gers & Schmidhuber 2000: the gates also see the cell, each through one weight. Input and forget
gates see the cell of the last step, output gates the new one.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from cannery.errors import OptionError, one_of
from cannery.ir.graph import Array, Graph, Node, free_name
from cannery.ir.registry import RefArray
from cannery.ir.tensor import DType, TensorType
from cannery.npz import read_arrays
from cannery.ops.recurrent.op import Lstm

_OPTION = "--peepholes"

#: The places of the operator's gates i, o, f in the file, which has Keras' order: i, f, o.
_GATES = [0, 2, 1]


def add_peepholes(graph: Graph, file: Path) -> Graph:
    """The network with an array for each layer that the .npz file names.

    An array has the shape [3, cells], or [2, 3, cells] for both directions: for the input gate, the
    forget gate, the output gate. Raises OptionError for names and shapes that fit no layer.
    """
    layers = {node.name: node for node in graph.nodes if isinstance(node.op, Lstm)}
    arrays = read_arrays(file)
    where = f"{_OPTION} {file}"
    for name in arrays:
        if name not in layers:
            raise OptionError(
                f"no LSTM layer is called {name!r}", where=where,
                cure=one_of(name, layers, "layers"),
            )  # fmt: skip
    constants, types = dict(graph.constants), dict(graph.types)
    nodes = []
    for node in graph.nodes:
        if node.name in arrays and isinstance(node.op, Lstm):
            weights = _weights(node, node.op, arrays[node.name], f"{where}, {node.name!r}")
            value = free_name(f"{node.name}/peepholes", types)
            constants[value], types[value] = weights, TensorType(weights.shape, DType.FLOAT32)
            inputs = (*node.inputs, *[""] * (4 - len(node.inputs)))
            node = replace(node, inputs=(*inputs[:4], value))
        nodes.append(node)
    files = (*graph.files, file)
    return replace(graph, nodes=tuple(nodes), constants=constants, types=types, files=files)


def _weights(node: Node, op: Lstm, array: RefArray, where: str) -> Array:
    """The array in the operator's form: [directions, 3 * cells], gates i, o, f."""
    if len(node.inputs) > 4 and node.inputs[4]:
        raise OptionError("the layer has peepholes already", where=where, cure="leave it out")
    shape = (3, op.cells) if op.directions == 1 else (op.directions, 3, op.cells)
    if array.shape != shape or array.dtype.kind != "f":
        raise OptionError(
            f"{array.dtype}{list(array.shape)} is given, but floats {list(shape)} are needed",
            where=where, cure="of the input, forget and output gate, forward before backward",
        )  # fmt: skip
    gates = array.reshape(op.directions, 3, op.cells)[:, _GATES].astype(np.float32)
    if not np.isfinite(gates).all():
        raise OptionError("not all weights are finite numbers", where=where)
    return gates.reshape(op.directions, 3 * op.cells)
