"""The numbers of a matrix product step that every schedule needs, in one place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from cannery.ctext.environment import offset
from cannery.ir.graph import Graph
from cannery.ops.matmul.op import MatMul
from cannery.ops.shared.axes import (
    Loop,
    axis_strides,
    broadcast_strides,
    dense_strides,
    merge_loops,
)
from cannery.ops.shared.epilogue import Epilogue, padded_channels
from cannery.ops.shared.function import parameter_names
from cannery.ops.shared.lanes import Vec
from cannery.schedule.program import Step
from cannery.schedule.schedule import ConstArray, Job


@dataclass(frozen=True)
class Product:
    """y[...,M,N] = a[...,M,K] b[...,K,N] + bias[N]; `bias` is empty if there is none.

    `item` are the bytes of an element of b.
    """

    a: str
    b: str
    bias: str
    k: int
    n: int
    transpose_a: bool
    transpose_b: bool
    item: int = 4


@dataclass(frozen=True)
class Operand:
    """Where an operand of the product is: a C pointer, its origin, and a stride per axis of y.

    `outer` are the strides over all axes of y except the last; `k` and `n` are those over k and n
    (0: no such axis).
    """

    pointer: str
    origin: int
    outer: tuple[int, ...]
    k: int
    n: int


@dataclass(frozen=True)
class Nest:
    """The loops of a product: `outer`, then `rows`, over which B does not move.

    Strides are those of a, b, y, then of each residual input.
    """

    outer: tuple[Loop, ...]
    rows: Loop


def product(graph: Graph, step: Step) -> Product | None:
    """The numbers, if the step's only anchor is a MatMul."""
    op = step.anchor.op
    if len(step.anchors) != 1 or not isinstance(op, MatMul):
        return None
    a, b, *rest = step.anchor.inputs
    k = graph.types[a].shape[-2 if op.transpose_a else -1]
    n = graph.types[step.anchor.output].shape[-1]
    item = 2 if b in graph.halves else 4
    return Product(a, b, rest[0] if rest else "", k, n, op.transpose_a, op.transpose_b, item)


def sizes(graph: Graph, step: Step) -> Product:
    """The sizes of a step that a schedule accepted as such a product."""
    found = product(graph, step)
    assert found is not None
    return found


def dense_weights(graph: Graph, step: Step) -> str:
    """Why a step is not a product of an activation with one constant matrix; empty if it is."""
    p = product(graph, step)
    if p is None:
        return "not a matrix product"
    if p.b not in graph.constants or p.a in graph.constants:
        return "only the second operand must be constant"
    if p.bias and p.bias not in graph.constants:
        return "the bias is not constant"
    return "a matrix for each image" if any(d != 1 for d in graph.types[p.b].shape[:-2]) else ""


def row_count(graph: Graph, step: Step) -> int:
    """Rows of y, all leading axes taken together."""
    type_ = graph.types[step.anchor.output]
    return type_.elements // max(type_.shape[-1], 1)


def operand(job: Job, value: str, *, transposed: bool, is_b: bool) -> Operand:
    """Where `a` or `b` lies; a constant is a separate array."""
    type_ = job.type(value)
    if value in job.graph.constants:
        pointer, origin = f"{job.symbol}_{'b' if is_b else 'a'}", 0
        strides = dense_strides(type_.shape)
    else:
        index = job.step.inputs.index(value)
        layout = job.inputs[index]
        pointer, origin = parameter_names(job)[index], layout.origin
        strides = axis_strides(type_, layout)
    *lead, first, second = strides
    if transposed:
        first, second = second, first
    rank = len(job.type(job.step.anchor.output).shape)
    outer = broadcast_strides(type_.shape[:-2], lead, rank - 2)
    if is_b:
        return Operand(pointer, origin, (*outer, 0), first, second)
    return Operand(pointer, origin, (*outer, first), second, 0)


def nest(job: Job, a: Operand, b: Operand, tensors: Sequence[int]) -> Nest:
    """The loops over the rows of y, joined where they are one pass over memory.

    The longest loop over which b does not move becomes `rows`.
    """
    type_ = job.type(job.step.anchor.output)
    layouts = (job.output, *(job.inputs[k] for k in tensors))
    strides = [a.outer, b.outer, *(axis_strides(type_, layout)[:-1] for layout in layouts)]
    loops = merge_loops(
        [Loop(d, tuple(s[k] for s in strides)) for k, d in enumerate(type_.shape[:-1])]
    )
    free = [loop for loop in loops if not loop.strides[1]]
    rows = max(free, key=lambda loop: loop.extent, default=Loop(1, (0,) * len(strides)))
    return Nest(tuple(loop for loop in loops if loop is not rows), rows)


#: With at least this many groups of columns, several cores divide up the columns, and so the
#: weights.
ENOUGH_GROUPS = 8


@dataclass(frozen=True)
class Cut:
    """What a product is cut along if its job asks for units: groups of columns or tiles of rows.

    Units are numbered in the order of `groups` or `tiles`; `first` is where each begins.
    """

    columns: bool = False
    rows: bool = False
    units: int = 0

    @staticmethod
    def of(job: Job, groups: Sequence[int], tiles: Sequence[int]) -> Cut:
        """`groups` and `tiles` are the numbers of each kind."""
        if not job.cut or max(sum(groups), sum(tiles)) < 2:
            return Cut()
        # Rows of sequences that end early would leave most work to one thread.
        few = 2 if job.rows_stop else min(ENOUGH_GROUPS, sum(tiles))
        if sum(groups) >= few:
            return Cut(columns=True, units=sum(groups))
        return Cut(rows=True, units=sum(tiles))

    @staticmethod
    def first(counts: Sequence[int], kind: int) -> int:
        """The number of the first unit of a kind."""
        return sum(counts[:kind])


def weight_matrix(job: Job, p: Product) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    """The constant second operand as B[K,N]."""
    array = job.constant(p.b)
    matrix = array.reshape(array.shape[-2:])
    return np.ascontiguousarray(matrix.T if p.transpose_b else matrix)


def padded_bias(job: Job, p: Product) -> tuple[ConstArray, ...]:
    """The constant bias, if there is one, padded so that a vector may be loaded at any column."""
    if p.bias not in job.graph.constants:
        return ()
    padded = padded_channels(job.constant(p.bias).reshape(-1))
    return (ConstArray(f"{job.symbol}_bias", padded, "bias [n], padded"),)


def residual_rows(rows: Loop, ep: Epilogue) -> Callable[[int, Vec], Callable[[int], str]]:
    """(row, vector) -> input index -> C pointer, relative to the template's `r<k>`."""

    def at(row: int, vec: Vec) -> Callable[[int], str]:
        def pointer(index: int) -> str:
            stride = rows.strides[3 + ep.tensors.index(index)]
            return f"r{index}{offset(row * stride + vec.start)}"

        return pointer

    return at
