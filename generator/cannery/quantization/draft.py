"""A network on its way to integers: the values that are already integers, and their scales."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from cannery.errors import OptionError
from cannery.ir.graph import Graph, Node
from cannery.ir.numeric import F64, Numeric
from cannery.ir.registry import Op
from cannery.ir.rewrite import Rewriter
from cannery.ir.tensor import DType
from cannery.ops.quantize.linear import DequantizeLinear
from cannery.ops.quantized.arithmetic import LARGEST_SUM
from cannery.ops.quantized.scale import Quantize
from cannery.quantization.calibration import NOTHING, Observed, Spread
from cannery.quantization.codes import Coding
from cannery.quantization.flow import Flow, on_integers
from cannery.quantization.functions import Function
from cannery.quantization.ranges import Ranges
from cannery.quantization.steps import choose_bound


@dataclass(frozen=True)
class Integers:
    """A value as integers: its name, the largest magnitude, and the value of one unit."""

    name: str
    bound: int
    unit: float


@dataclass
class Draft:
    """The state of a rewriting; `integers` are the values that exist as integers.

    By the first output of a node: `factors` are the weights of a layer, `limits` the bounds of
    other nodes' inputs, `fused` the activation that a node takes in, and `gates` the factors that
    turn arguments of recurrent layers into steps of their tables. `ranges` has what was chosen so
    far, `bounds` by origin: calls of other sizes may move a value less often, or more. `coding`
    says which weights are to have few levels; `coded` are the layers that do, by name the bytes
    that this saves. `functions` become tables, by their results; `kept` says of nodes of functions,
    by name, why they do not.
    """

    graph: Graph
    seen: Observed
    dtype: DType
    flow: Flow
    factors: Mapping[str, Numeric]
    limits: Mapping[str, int]
    fused: Mapping[str, tuple[Node, ...]]
    ranges: Ranges
    coding: Coding | None = None
    rewriter: Rewriter = field(init=False)
    integers: dict[str, Integers] = field(default_factory=dict)
    layers: list[str] = field(default_factory=list)
    gates: dict[str, F64] = field(default_factory=dict)
    bounds: dict[str, tuple[int, float]] = field(default_factory=dict)
    coded: dict[str, int] = field(default_factory=dict)
    functions: Mapping[str, Function] = field(default_factory=dict)
    kept: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.rewriter = Rewriter(self.graph)

    # ---- scales ----

    def products(self, value: str) -> list[Numeric]:
        """The weights by which a value is multiplied."""
        return [self.factors[name] for name in self._readers(value) if name in self.factors]

    def _readers(self, value: str) -> dict[str, None]:
        """The first outputs of the nodes that read a value, or one that shares its scale."""
        return {
            node.outputs[0]: None
            for source in self.flow.group(value)
            for node, read in self.flow.readers(source)
            if node.inputs[0] == read
        }

    def spread(self, value: str) -> Spread:
        """The range of a value and of those that share its scale; up to 1 if all were always 0.

        What is kept for later calls has no share in the mean square: only some elements are kept.
        """
        group = self.flow.group(value)
        largest = max(self.seen.spreads[v].largest for v in group)
        made = [v for v in group if v not in self.flow.pasts] or group
        rms = max(self.seen.spreads[v].rms for v in made)
        return Spread(largest, rms) if largest > NOTHING else Spread(1.0, 1.0)

    def bound_of(self, value: str) -> tuple[int, float]:
        """The bound of a value, by the layers that read it, and its unit; where it is moved or kept
        for later calls, those of its origin. So all its readers round it alike, whether it comes
        step by step or as a whole.
        """
        origin = self.flow.origin(value)
        if origin not in self.bounds:
            self.bounds[origin] = self.ranges.next(lambda: self._bound_of(origin))
        return self.bounds[origin]

    def _bound_of(self, value: str) -> tuple[int, float]:
        if value in self.integers:
            return self.integers[value].bound, self.integers[value].unit
        spread, readers = self.spread(value), self._readers(value)
        limit = min((self.limits[r] for r in readers if r in self.limits), default=LARGEST_SUM)
        bound = choose_bound(self.products(value), spread, self.dtype, limit)
        return bound, spread.largest / bound

    # ---- values ----

    def exists(self, value: str) -> bool:
        """Whether a value is already integers, or moved or joined from such values."""
        while value not in self.integers and (source := self.flow.moved_from(value)):
            value = source
        if value in self.integers or (self.flow.raw and value in self.graph.inputs):
            return True
        if value in self.flow.pasts and value in self.graph.inputs:
            return self.flow.only_integers(value) and self._becomes_integers(value)
        node = self.graph.producer(value)
        return node is not None and self.flow.is_joint(value) and any(map(self.exists, node.inputs))

    def _becomes_integers(self, value: str) -> bool:
        """Whether a value, or one that shares its scale, is read by a layer that rounds floats."""
        return any(
            node.outputs[0] in self.factors or node.outputs[0] in self.flow.sums
            for source in self.flow.group(value)
            for node, _ in self.flow.readers(source)
        ) or self.exists(self.flow.origin(value))

    def as_integers(self, value: str, new: list[Node]) -> Integers:
        """A value as integers; appends the necessary nodes to `new`."""
        moves: list[Node] = []
        if self.exists(value):
            while value not in self.integers and self.flow.moved_from(value):
                moves += filter(None, [self.graph.producer(value)])
                value = self.flow.moved_from(value)
        found = self._made(value, new)
        for node in reversed(moves):
            found = self._moved(node, [found], new)
        return found

    def _made(self, value: str, new: list[Node]) -> Integers:
        """A value that is not moved, as integers: existing, joined or rounded."""
        if value in self.integers:
            return self.integers[value]
        node = self.graph.producer(value)
        if node is not None and self.exists(value):
            return self._moved(node, [self.as_integers(i, new) for i in node.inputs], new)
        name = f"{value}/{self.dtype.value}"
        self.integers[value] = self.rounded(value, name, self.bound_of(value), new)
        return self.integers[value]

    def _moved(self, node: Node, parts: list[Integers], new: list[Node]) -> Integers:
        """What a node that moves or joins makes of integers on one scale."""
        name, op = f"{node.output}/{self.dtype.value}", on_integers(node.op) or node.op
        made = self.add(op, name, [part.name for part in parts], new)
        self.integers[node.output] = replace(parts[0], name=made)
        return self.integers[node.output]

    def rounded(
        self, floats: str, name: str, scale: tuple[int, float], new: list[Node]
    ) -> Integers:
        """Append a node that turns floats into integers `name`, by a bound and a unit."""
        bound, unit = scale
        factor = self.scalar(f"{floats}/factor", 1.0 / unit)
        return Integers(
            self.add(Quantize(bound, self.dtype), name, [floats, factor], new), bound, unit
        )

    def floats(self, integers: Integers, value: str, new: list[Node]) -> None:
        """Append a node that turns integers back into floats, under their old name."""
        inputs = (
            integers.name,
            self.scalar(f"{value}/unit", integers.unit),
            self.constant(f"{value}/zero", np.zeros((), self.dtype.numpy)),
        )
        new.append(Node(DequantizeLinear(), f"{value}/floats", inputs, (value,)))
        self.integers[value] = integers

    # ---- nodes ----

    def add(self, op: Op, name: str, inputs: list[str], new: list[Node]) -> str:
        """Append a node with one output; returns the output."""
        types = [self.rewriter.types[i] if i else None for i in inputs]
        (type_,) = op.infer(*types)
        value = self.rewriter.value(name, type_)
        new.append(Node(op, name, tuple(inputs), (value,)))
        return value

    def finish(
        self, node: Node, op: Op, inputs: list[str], scale: tuple[int, float], new: list[Node]
    ) -> None:
        """Append an operator, of integers with a bound and a unit or, if that is 0, floats.

        It and `new` replace the node and the activation after it.
        """
        nodes, (bound, unit) = (node, *self.fused.get(node.outputs[0], ())), scale
        value = nodes[-1].output
        if bound:
            name = self.add(op, f"{node.name}/integers", inputs, new)
            self.floats(Integers(name, bound, unit), value, new)
        else:
            new.append(Node(op, node.name, tuple(inputs), (value,)))
        for each in nodes[:-1]:
            self.rewriter.replace_node(each, [])
        self.rewriter.replace_node(nodes[-1], new)

    def scale_of(self, value: str) -> tuple[int, float]:
        """Bound and unit of a result; 0 and 1 if it must be floats."""
        return self.bound_of(value) if self.flow.only_integers(value) else (0, 1.0)

    def constant(self, name: str, array: Numeric) -> str:
        """A constant of the new graph."""
        return self.rewriter.constant(name, array)

    def scalar(self, name: str, value: float) -> str:
        """A float constant of rank 0, a scale or the inverse of one."""
        return self.scales(name, np.asarray(value))

    def scales(self, name: str, array: Numeric) -> str:
        """Scales; OptionError if float32 cannot hold them."""
        with np.errstate(all="ignore"):
            rounded = np.abs(array).astype(np.float32)
        if not (np.isfinite(rounded) & (rounded >= np.finfo(np.float32).tiny)).all():
            raise OptionError(
                f"{name!r} would be {float(np.abs(array).min()):g}, beyond float32",
                where="--quantize", cure="the samples or weights are too small or too large",
            )  # fmt: skip
        return self.constant(name, array.astype(np.float32))
