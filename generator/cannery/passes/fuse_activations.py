"""Activations that a file spells out in several nodes become one node, which can join an epilogue.

The nodes between two values may be a function of the first value alone. If that is SiLU, GELU or
another activation with its own operator, it becomes that operator, however it is written: the pass
compares both in float64 over the whole range. If it is none of them, but reads a value more than
once, which no epilogue does, it becomes a Composite. Small integer powers become products.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np

from cannery.ir.graph import Graph, Node
from cannery.ir.numeric import F64
from cannery.ir.registry import Elementwise
from cannery.ir.rewrite import Rewriter
from cannery.ir.tensor import DType
from cannery.ops.elementwise import (
    Abs,
    Add,
    Affine,
    Clip,
    Composite,
    Div,
    Erf,
    Exp,
    Gelu,
    HardSigmoid,
    HardSwish,
    Log,
    Max,
    Member,
    Min,
    Mish,
    Mul,
    Neg,
    Pow,
    Reciprocal,
    Relu,
    Sigmoid,
    Silu,
    Softplus,
    Softsign,
    Sqrt,
    Square,
    Sub,
    Tanh,
)
from cannery.ops.elementwise.base import Binary, Unary
from cannery.ops.logic.compare import Greater, Where

#: The activations that are recognised: smooth ones, and those with one or two kinks.
SMOOTH: tuple[Unary, ...] = (
    Silu(), Gelu(), Gelu(approximate=True), Mish(), Sigmoid(), Tanh(), Softplus(),
)  # fmt: skip
BENT: tuple[Unary, ...] = (HardSwish(), Softsign())

#: How many kinks the operators in a spelling have; more than two could hide between the arguments
#: tried.
BENDS: Mapping[type[Elementwise], int] = {
    **dict.fromkeys((Add, Sub, Mul, Div, Pow, Neg, Reciprocal, Square, Sqrt, Affine), 0),
    **dict.fromkeys((Exp, Log, Erf, *map(type, SMOOTH)), 0),
    **dict.fromkeys((Abs, Max, Min, Relu), 1),
    **dict.fromkeys((Clip, HardSigmoid), 2),
}
MOST_BENDS = 2

#: Nodes of the longest spelling: GELU by tanh with a cube of two products has nine.
LONGEST = 12

#: How much float32 constants change a function: this fraction of its value and of its argument. And
#: the remainder of differences that cancel in float64, relative to 1 or to a larger argument.
ROUNDING, CANCELLED = 5e-7, 1e-15

#: Beyond this, exp overflows in float64: 1 / (1 + exp(-x)) does, sigmoid does not.
OVERFLOW = 700.0

#: Beyond this, softplus of x is x up to ROUNDING.
STRAIGHT = 15.0

#: The powers that become a few products.
POWERS: Mapping[float, Unary] = {
    2.0: Square(),
    3.0: Composite((Member(Square(), (0,)), Member(Mul(), (1, 0)))),
    4.0: Composite((Member(Square(), (0,)), Member(Square(), (1,)))),
}

#: Characters of the longest expression that becomes a Composite: results that are read again are
#: written out again.
MAX_TEXT = 400


def fuse_activations(graph: Graph) -> Graph:
    """Known activations first: their parts may read a value twice too.

    A graph that has integer layers stays as it is: its bits are those of the operators in it.
    """
    if graph.integer_layers:
        return graph
    rewriter = Rewriter(graph)
    for rule in (_unguard, _multiply, _name, _compose):
        rewriter.sweep(rule)
    return rewriter.finish()


def fuse_erf(graph: Graph) -> Graph:
    """The same of activations that erf is part of alone.

    erf has no integer form, so quantising loses none with them; it would with tanh or a sigmoid.
    """
    if graph.integer_layers:
        return graph
    rewriter = Rewriter(graph)
    rewriter.sweep(_name_erf)
    return rewriter.finish()


def _unguard(rewriter: Rewriter, node: Node) -> bool:
    """PyTorch's softplus, which is x itself beyond a threshold, becomes softplus."""
    test = rewriter.producer(node.inputs[0]) if isinstance(node.op, Where) else None
    soft = rewriter.producer(node.inputs[2]) if test is not None else None
    if test is None or soft is None or not isinstance(test.op, Greater):
        return False
    x, limit = node.inputs[1], rewriter.constants.get(test.inputs[1])
    if not isinstance(soft.op, Softplus) or {soft.inputs[0], test.inputs[0]} != {x}:
        return False
    if limit is None or limit.size != 1 or not float(limit.reshape(-1)[0]) >= STRAIGHT:
        return False
    rewriter.update(node, Softplus(), (x,))
    for old in (test, soft):
        if old.output not in rewriter.outputs and not rewriter.readers(old.output):
            rewriter.replace_node(old, [])
    return True


def _multiply(rewriter: Rewriter, node: Node) -> bool:
    """A small whole power becomes products."""
    if not isinstance(node.op, Pow) or not _fits(rewriter, node):
        return False
    exponent = rewriter.constants.get(node.inputs[1])
    power = None if exponent is None else POWERS.get(float(exponent.reshape(-1)[0]))
    if power:
        rewriter.update(node, power, node.inputs[:1])
    return power is not None


def _name(rewriter: Rewriter, node: Node) -> bool:
    """Nodes that form a known activation become it."""
    for region in _regions(rewriter, node):
        known = len(region.nodes) > 1 and _known(region.function)
        if known:
            region.become(rewriter, known)
            return True
    return False


def _name_erf(rewriter: Rewriter, node: Node) -> bool:
    """The same where one of them is erf."""
    for region in _regions(rewriter, node):
        if any(isinstance(each.op, Erf) for each in region.nodes):
            return _name(rewriter, node)
    return False


def _compose(rewriter: Rewriter, node: Node) -> bool:
    """The smallest region that reads a value twice becomes a Composite."""
    if len(_variables(rewriter, node)) < 2 and not _twice(node):
        return False
    for region in _regions(rewriter, node):
        op = region.function
        if len(op.c("f32x8", "x")) <= MAX_TEXT and len(region.nodes) > 1:
            region.become(rewriter, op)
            return True
        break
    return False


@dataclass(frozen=True)
class _Region:
    """Nodes in order, as a function of `source`; only the last one is read elsewhere."""

    source: str
    nodes: tuple[Node, ...]
    rewriter: Rewriter

    @property
    def function(self) -> Composite:
        """What the nodes compute; a Composite among them contributes its members."""
        numbers: list[float] = []
        members: list[Member] = []
        places = {self.source: 0}
        for node in self.nodes:
            for value in node.inputs:
                if value in self.rewriter.constants:
                    numbers.append(float(self.rewriter.constants[value].reshape(-1)[0]))
                    places[value] = -len(numbers)
            reads = tuple(places[value] for value in node.inputs)
            if isinstance(node.op, Composite):
                members += _moved(node.op, reads[0], len(members), len(numbers))
                numbers += node.op.numbers
            elif isinstance(node.op, Elementwise):
                members.append(Member(node.op, reads))
            places[node.output] = len(members)
        return Composite(tuple(members), tuple(numbers))

    def become(self, rewriter: Rewriter, op: Unary) -> None:
        """Replace the nodes by one."""
        *inner, last = self.nodes
        for node in reversed(inner):
            rewriter.replace_node(node, [])
        rewriter.update(last, op, (self.source,))


def _moved(inner: Composite, x: int, members: int, numbers: int) -> Iterator[Member]:
    """The members of a Composite of `x`, after this many members and numbers."""
    for member in inner.members:
        yield Member(
            member.op,
            tuple(r + members if r > 0 else r - numbers if r < 0 else x for r in member.reads),
        )


def _regions(rewriter: Rewriter, last: Node) -> Iterator[_Region]:
    """The functions of one value that end in a node, from small to large."""
    if not _fits(rewriter, last):
        return
    nodes, open_values = [last], set(_variables(rewriter, last))
    while True:
        if len(open_values) == 1:
            (source,) = open_values
            yield _Region(source, tuple(_in_order(nodes)), rewriter)
        if len(nodes) == LONGEST:
            return
        found = {id(node) for node in nodes}
        before = None
        for value in sorted(open_values):
            producer = rewriter.producer(value)
            if producer is None or not _fits(rewriter, producer) or value in rewriter.outputs:
                continue
            if all(id(reader) in found for reader in rewriter.readers(value)):
                before = producer
                break
        if before is None:
            return
        nodes.append(before)
        open_values.remove(before.output)
        open_values.update(_variables(rewriter, before))


def _in_order(nodes: list[Node]) -> list[Node]:
    """Producers before their readers."""
    left, ordered = list(nodes), list[Node]()
    while left:
        made = {node.output for node in left}
        ready = [node for node in left if not made & set(node.inputs)]
        ordered += sorted(ready, key=lambda node: node.output)
        left = [node for node in left if node not in ready]
    return ordered


def _fits(rewriter: Rewriter, node: Node) -> bool:
    """Whether a node may be part of a function of one value: floats of one shape, and numbers."""
    if not isinstance(node.op, Unary | Binary):
        return False
    type_ = rewriter.types[node.output]
    variables = _variables(rewriter, node)
    numbers = [rewriter.constants[v] for v in node.inputs if v in rewriter.constants]
    return (
        type_.dtype is DType.FLOAT32
        and bool(variables)
        and all(rewriter.types[v] == type_ for v in variables)
        and all(number.size == 1 and bool(np.isfinite(number).all()) for number in numbers)
    )


def _variables(rewriter: Rewriter, node: Node) -> list[str]:
    """The values that a node reads and that are not constant, without repeats."""
    return list(dict.fromkeys(v for v in node.inputs if v not in rewriter.constants))


def _twice(node: Node) -> bool:
    """Whether a node reads one value twice: x * x."""
    return len(set(node.inputs)) < len(node.inputs)


@cache
def _known(function: Composite) -> Unary | None:
    """The activation that equals a function, if any."""
    bends = [BENDS.get(type(member.op), MOST_BENDS + 1) for member in function.members]
    if sum(bends) > MOST_BENDS:
        return None
    points = _points()
    with np.errstate(all="ignore"):
        found = function.value(points)
        fine = np.isfinite(found)
        if not fine[np.abs(points) < OVERFLOW].all():
            return None
        for op in BENT if sum(bends) else SMOOTH:
            expected, allowed = _allowed(op)
            if bool(np.all((np.abs(found - expected) <= allowed)[fine])):
                return op
    return None


@cache
def _allowed(op: Unary) -> tuple[F64, F64]:
    """The values of an activation, and how far off a spelling of it may be."""
    points = _points()
    expected = op.value(points)
    moved = op.value(points * (1.0 + ROUNDING)) - expected
    cancelled = CANCELLED * np.maximum(np.abs(points), 1.0)
    return expected, ROUNDING * np.abs(expected) + np.abs(moved) + cancelled


@cache
def _points() -> F64:
    """The arguments to try: dense where activations bend, and elsewhere over float32's whole
    range.
    """
    near = np.arange(-1500, 1501) * 0.0137 + 0.00123
    far = 10.0 ** (np.arange(-600, 3851) / 100.0)
    return np.concatenate([near, far, -far])
