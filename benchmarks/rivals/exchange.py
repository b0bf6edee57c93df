"""The form of a network from which the files of rivals are written.

Batch normalisation and padding are folded into the convolutions, as every rival's own converter
would do; nothing else is changed.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from cannery.errors import UnsupportedError
from cannery.ir.graph import Array, Graph
from cannery.ir.verify import verify
from cannery.ops.window import Pads, extent
from cannery.options import make_options
from cannery.passes.eliminate_common import eliminate_common
from cannery.passes.eliminate_dead import eliminate_dead
from cannery.passes.fold_constants import fold_constants
from cannery.passes.fold_scale_shift import fold_scale_shift
from cannery.passes.lower_batch_norm import lower_batch_norm
from cannery.passes.pad_into_window import pad_into_window
from cannery.passes.simplify_movement import simplify_movement
from cannery.pipeline import load_model

_PASSES = (
    eliminate_dead, fold_constants, lower_batch_norm, simplify_movement, pad_into_window,
    fold_scale_shift, eliminate_common, fold_constants, eliminate_dead,
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
    return UnsupportedError(f"no form for {what}", cure="leave this rival out")


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
