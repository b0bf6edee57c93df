"""Which elements of a value another one has, through layers that only move them: a cache or a state
of the model may be transposed on its way to the layer that reads it.
"""

from __future__ import annotations

from math import prod

import numpy as np
import numpy.typing as npt

from cannery.ir.graph import Node
from cannery.ir.registry import Op
from cannery.ir.rewrite import Rewriter
from cannery.ops.movement.op import Identity, Reshape, Slice, Transpose

#: Numbers of elements, row by row.
Places = npt.NDArray[np.int64]

#: Layers that only move elements, or leave some out.
MOVES = (Identity, Reshape, Slice, Transpose)


def origin(rewriter: Rewriter, value: str) -> tuple[str, Places]:
    """The value of whose elements `value` is made, and which of them each of its elements is."""
    moves = list[Op]()
    node = rewriter.producer(value)
    while node is not None and isinstance(node.op, MOVES):
        moves.append(node.op)
        value = node.inputs[0]
        node = rewriter.producer(value)
    shape = rewriter.types[value].shape
    places: Places = np.arange(prod(shape), dtype=np.int64).reshape(shape)
    for op in reversed(moves):
        places = np.asarray(op.reference(places)[0], np.int64)
    return value, places


def only_reader(rewriter: Rewriter, value: str) -> Node | None:
    """The layer that reads the elements of a value; None if there are several, or if they are an
    output.
    """
    node = rewriter.single_reader(value)
    while node is not None and isinstance(node.op, MOVES):
        node = rewriter.single_reader(node.output)
    return node
