"""The form of a network from which the files of rivals are written.

Batch normalisation and padding are folded into the convolutions, activations that a file spells
out are one operator, and convolutions of one axis are those of images of height 1, as every rival's
own converter would do; nothing else is changed.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cannery.errors import UnsupportedError
from cannery.ir.eliminate_dead import eliminate_dead
from cannery.ir.graph import Array, Graph, Node
from cannery.ir.verify import verify
from cannery.ops.elementwise import Sigmoid, Tanh
from cannery.ops.matmul.op import MatMul
from cannery.ops.recurrent.base import Recurrent
from cannery.ops.recurrent.op import Lstm
from cannery.ops.window import Pads, extent
from cannery.options import make_options
from cannery.passes.eliminate_common import eliminate_common
from cannery.passes.fold_constants import fold_constants
from cannery.passes.fold_scale_shift import fold_scale_shift
from cannery.passes.fuse_activations import fuse_activations
from cannery.passes.lift_1d import lift_1d
from cannery.passes.lower_batch_norm import lower_batch_norm
from cannery.passes.pad_into_window import pad_into_window
from cannery.passes.simplify_movement import simplify_movement
from cannery.passes.transpose_into_matmul import transpose_into_matmul
from cannery.pipeline import load_model
from rivals.results import NO_FORM

_PASSES = (
    eliminate_dead, fold_constants, lower_batch_norm, simplify_movement, fuse_activations,
    transpose_into_matmul, pad_into_window, fold_scale_shift, lift_1d, simplify_movement,
    eliminate_common, fold_constants, eliminate_dead,
)  # fmt: skip


def exchange_graph(model: Path) -> Graph:
    """The network of a model file, channels last. Raises CanneryError."""
    graph = load_model(make_options(model, {}))
    for run in _PASSES:
        graph = run(graph)
        verify(graph, after=run.__name__)
    return graph


def constant(graph: Graph, value: str) -> Array:
    """The array of a value; raises UnsupportedError where it is computed."""
    try:
        return graph.constants[value]
    except KeyError:
        raise UnsupportedError("weights are computed by the network", where=value) from None


def unsupported(what: object) -> UnsupportedError:
    """The error of a writer that does not know an operator or attribute."""
    return UnsupportedError(f"{NO_FORM}{what}", cure="leave this rival out")


def is_same(
    size: tuple[int, ...], kernel: tuple[int, ...], strides: tuple[int, ...], pads: Pads,
    dilations: tuple[int, ...],
) -> bool:  # fmt: skip
    """Whether pads are TensorFlow's `SAME`: ceil(size/stride) outputs, the odd one at the end."""
    for n, k, s, pad, d in zip(size, kernel, strides, pads, dilations, strict=True):
        total = max((-(-n // s) - 1) * s + extent(k, d) - n, 0)
        if pad != (total // 2, total - total // 2):
            return False
    return True


def as_float(array: Array) -> Array:
    """Row-major float32."""
    return np.ascontiguousarray(array, np.float32)


@dataclass(frozen=True)
class LstmLayer:
    """A whole LSTM layer, the product with its inputs included; gates i, o, f, c.

    `w` [directions, features, 4 * cells], `r` [directions, cells, 4 * cells], `bias`
    [directions, 4 * cells], `peepholes` [directions, 3 * cells] of i, o, f.
    """

    x: str
    w: Array
    r: Array
    bias: Array
    peepholes: Array | None

    def gates(self, matrix: Array, order: str) -> list[Array]:
        """The gates of `w[d]`, `r[d]` or `bias[d]` in another order, such as "ifco"."""
        parts = np.split(matrix, 4, axis=-1)
        return [as_float(parts["iofc".index(gate)].T) for gate in order]


def lstm_layer(graph: Graph, node: Node) -> LstmLayer:
    """The layer of an Lstm node; raises UnsupportedError for what not every runtime has."""
    op = node.op
    if not isinstance(op, Lstm):
        raise unsupported(op)
    usual = ((Sigmoid(),), (Tanh(),), (Tanh(),)) * op.directions
    p, r, *rest = (*node.inputs, "", "", "")[:5]
    product = graph.producer(p)
    plain = op.activations == usual and not (op.clip or op.coupled or op.lengths)
    if not plain or any(rest[:2]) or op.returns != ("sequence",):
        raise unsupported(op)
    if product is None or not is_projection(graph, product):
        raise unsupported(f"{op} without a product of its own")
    x, w, *shift = product.inputs
    kernel, d = constant(graph, w), op.directions
    width = 4 * op.cells
    bias = constant(graph, shift[0]) if any(shift) else np.zeros(d * width, np.float32)
    return LstmLayer(
        x, np.stack(np.split(kernel, d, axis=1)), constant(graph, r), bias.reshape(d, width),
        constant(graph, rest[2]) if rest[2] else None,
    )  # fmt: skip


def is_projection(graph: Graph, node: Node) -> bool:
    """Whether a product is part of a recurrent layer, as all other runtimes have it."""
    if not isinstance(node.op, MatMul):
        return False
    readers = graph.consumers(node.output)
    return (
        len(readers) == 1 and isinstance(readers[0].op, Recurrent)
        and readers[0].inputs[0] == node.output
        and not (node.op.transpose_a or node.op.transpose_b)
    )  # fmt: skip
