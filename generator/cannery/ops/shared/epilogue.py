"""The epilogue: what happens to an output between the accumulator and memory.

Scale and shift per channel, activations, residuals: every elementwise node that the step took in,
rendered over vectors. It is written only here; every schedule calls `apply` on its accumulators.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from cannery.ctext.environment import input_name, offset
from cannery.ctext.literals import c_float
from cannery.ir.graph import Graph, Node
from cannery.ir.registry import Elementwise
from cannery.ops.recurrent.base import Recurrent
from cannery.ops.shared.lanes import Vec
from cannery.ops.shared.lookup import Lookup, forms, lookups, table_array
from cannery.schedule.program import Step
from cannery.schedule.schedule import MATH, ConstArray, Job
from cannery.target.isa import Isa

#: Per-channel arrays are padded so that a vector may be loaded at any channel.
CHANNEL_PADDING = 16

Number = TypeVar("Number", bound=np.generic)

#: A constant in all lanes, as `Elementwise.c` writes it.
_CONSTANT = re.compile(r"\b(f32x\d+)_(?:set1\((-?[\d.]+(?:e[-+]?\d+)?f)\)|zero\(\))")


@dataclass(frozen=True)
class Operand:
    """One argument of a stage: self (the running value), scalar, channel, computed or tensor.

    `text` is the literal of a scalar, or the symbol of a channel array (computed: an array that is
    an input and not padded); `index` is the step's input.
    """

    kind: str
    text: str = ""
    index: int = -1


@dataclass(frozen=True)
class Stage:
    """One elementwise node; `lookup` if it is computed by a table."""

    op: Elementwise
    operands: tuple[Operand, ...]
    lookup: Lookup | None = None


@dataclass(frozen=True)
class Epilogue:
    """The stages in order, their constants, and the inputs that they read as tensors.

    `stored`: the constants that are read from the array `store` instead of being set, see `build`.
    """

    stages: tuple[Stage, ...]
    constants: tuple[ConstArray, ...]
    tensors: tuple[int, ...]
    form: str = ""
    stored: tuple[str, ...] = ()
    store: str = ""

    @property
    def needs_math(self) -> bool:
        return any(stage.op.needs_math for stage in self.stages)

    @property
    def long(self) -> bool:
        """Whether it takes so many steps that a tile of sums is better finished in memory."""
        functions = any(s.op.needs_math and not s.lookup for s in self.stages)
        return functions and not self.tensors

    def apply(
        self,
        vec: Vec,
        value: str,
        channel: str,
        tensor: Callable[[int], str] | None = None,
        *,
        across: bool = True,
    ) -> list[str]:
        """Statements that turn the vector variable `value` into its final value.

        `channel` is the C expression of its first channel, `tensor` the pointer into an input at
        the same place. `across`: lanes are channels; otherwise they are pixels of one channel.
        """
        lines = []
        for stage in self.stages:
            arguments: list[str] = []
            before: list[str] = []
            for k, operand in enumerate(stage.operands):
                text = _operand(operand, vec, value, channel, tensor, across=across)
                if operand.kind == "self":
                    arguments.append(text)
                else:
                    before.append(f"const {vec.t} e{k} = {text};")
                    arguments.append(f"e{k}")
            form = self.form if self.form in stage.op.approximations else ""
            if stage.lookup:
                expression = stage.lookup.expression(vec.t, arguments[0])
            else:
                expression = stage.op.c(vec.t, *arguments, form=form)
            statement = f"{value} = {expression};"
            line = f"{{ {' '.join(before)} {statement} }}" if before else statement
            lines.append(_CONSTANT.sub(self._from_memory, line) if self.stored else line)
        return lines

    @property
    def begin(self) -> list[str]:
        """Statements before the first `apply` of a tile."""
        if not self.stored:
            return []
        return [
            f"const float *ep = {self.store};",
            "CANNERY_OPAQUE_PTR(ep); /* constants are loaded here, not before the loops */",
        ]

    def literals(self) -> tuple[str, ...]:
        """The constants that are the same in all lanes and channels, in the order of their use."""
        lines = self.apply(Vec(0, 4, 4, 0), "v", "0", lambda _: "r")
        found = [match[2] or "0.0f" for line in lines for match in _CONSTANT.finditer(line)]
        return tuple(dict.fromkeys(found))

    def _from_memory(self, match: re.Match[str]) -> str:
        place = self.stored.index(match[2] or "0.0f") * CHANNEL_PADDING
        word = "load_aligned" if match[1] == "f32x4" else "load"
        return f"{match[1]}_{word}(ep{offset(place)})"


def _operand(
    operand: Operand,
    vec: Vec,
    value: str,
    channel: str,
    tensor: Callable[[int], str] | None,
    *,
    across: bool,
) -> str:
    if operand.kind == "self":
        return value
    if operand.kind == "scalar":
        return f"{vec.t}_set1({operand.text})"
    if operand.kind == "channel":
        word = "load" if across else "load1"
        return f"{vec.t}_{word}({operand.text} + {channel})"
    if operand.kind == "computed":
        place = f"{operand.text} + {channel}"
        return vec.load(place) if across else f"{vec.t}_load1({place})"
    if tensor is None:
        raise ValueError("this schedule cannot read tensors in its epilogue")
    return vec.load(tensor(operand.index))


def channel_padding(isa: Isa | None) -> int:
    """As many zeros follow values per channel: small cores load no vectors of them."""
    return 0 if isa is not None and isa.is_small else CHANNEL_PADDING


def padded_channels(values: NDArray[Number], isa: Isa | None = None) -> NDArray[Number]:
    """Values per channel, along the last axis, padded with zeros as `channel_padding` says."""
    return np.pad(values, [*[(0, 0)] * (values.ndim - 1), (0, channel_padding(isa))])


def constant_kind(graph: Graph, value: str, shape: tuple[int, ...]) -> str:
    """How a constant broadcasts over a value of `shape`: scalar, channel, or empty if otherwise."""
    array = graph.constants.get(value)
    if array is None or array.ndim > len(shape):
        return ""
    if array.size == 1:
        return "scalar"
    leading = array.shape[:-1]
    if array.shape[-1] == shape[-1] and all(d == 1 for d in leading):
        return "channel"
    return ""


def computed_by_channel(graph: Graph, value: str, shape: tuple[int, ...]) -> bool:
    """Whether a value, computed at run time, is one number per channel of an image of one
    sample.
    """
    type_ = graph.types[value]
    image = len(shape) == 4 and shape[0] == 1 and type_.dtype.is_float
    return image and type_.shape == (1, 1, 1, shape[-1]) != shape and value not in graph.constants


def fusible(
    graph: Graph, node: Node, running: str, available: Container[str], *, by_channel: bool = False
) -> bool:
    """Whether an elementwise node can follow `running` in an epilogue.

    Its other operands must be per-channel or scalar constants, or values of the same shape that are
    `available` before the step; with `by_channel`, values with one number per channel will also do.
    """
    if not isinstance(node.op, Elementwise) or len(node.outputs) != 1:
        return False
    shape = graph.types[running].shape
    if not graph.types[running].dtype.is_float:
        return False
    if graph.types[node.output] != graph.types[running]:
        return False
    for value in node.inputs:
        if value == running or constant_kind(graph, value, shape):
            continue
        if by_channel and value in available and computed_by_channel(graph, value, shape):
            continue
        if value not in available or graph.types[value] != graph.types[running]:
            return False
    return True


def residuals(graph: Graph, nodes: Sequence[Node], running: str) -> tuple[str, ...]:
    """The activations that a chain of epilogue nodes reads in addition to the running value."""
    found: dict[str, None] = {}
    for node in nodes:
        for value in node.inputs:
            if value != running and value not in graph.constants:
                found[value] = None
        running = node.output
    return tuple(found)


def build(job: Job, running: str, nodes: Sequence[Node] | None = None, busy: int = 0) -> Epilogue:
    """The epilogue of a job after the value `running`; `nodes` if not those of the step.

    `busy` is the number of vector registers that the loop before it needs. If these and the
    epilogue's constants exceed the registers, the constants are read from memory: compilers would
    keep them in registers all the time and spill accumulators instead.
    """
    stages, constants = [], []
    tensors: list[int] = []
    form = str(job.params.get(MATH, ""))
    nodes = job.step.epilogue if nodes is None else nodes
    ops = (node.op for node in nodes if isinstance(node.op, Elementwise))
    by_table = lookups(job.symbol, ops, form)
    constants += [table_array(each.symbol, each.table) for each in by_table.values()]
    for number, node in enumerate(nodes):
        assert isinstance(node.op, Elementwise)
        operands = []
        for k, value in enumerate(node.inputs):
            if value == running:
                operands.append(Operand("self"))
                continue
            kind = constant_kind(job.graph, value, job.type(running).shape)
            if kind == "scalar":
                number_ = float(job.constant(value).reshape(-1)[0])
                operands.append(Operand("scalar", c_float(number_)))
            elif kind == "channel":
                symbol = f"{job.symbol}_e{number}_{k}"
                padded = padded_channels(job.constant(value).reshape(-1))
                constants.append(ConstArray(symbol, padded, f"{node.name}: per channel"))
                operands.append(Operand("channel", symbol))
            elif computed_by_channel(job.graph, value, job.type(running).shape):
                index = job.step.inputs.index(value)
                operands.append(Operand("computed", input_name(index), index))
            else:
                index = job.step.inputs.index(value)
                if index not in tensors:
                    tensors.append(index)
                operands.append(Operand("tensor", "", index))
        stages.append(Stage(node.op, tuple(operands), by_table.get(node.op)))
        running = node.output
    ep = Epilogue(tuple(stages), tuple(constants), tuple(tensors), form)
    literals = ep.literals()
    if not literals or not crowded(job.isa, busy + len(literals)):
        return ep
    values = np.repeat(np.array([float(t[:-1]) for t in literals], np.float32), CHANNEL_PADDING)
    store = ConstArray(f"{job.symbol}_e", values, "the epilogue's constants, each in 16 lanes")
    return replace(ep, constants=(*ep.constants, store), stored=literals, store=store.name)


def crowded(isa: Isa, registers: int) -> bool:
    """Whether there are more vectors than the registers hold."""
    return isa.widest > 1 and registers > isa.registers


def approximations(step: Step) -> tuple[str, ...]:
    """The approximate forms that any activation of a step has, sorted."""
    ops = [node.op for node in step.stages if isinstance(node.op, Elementwise)]
    if isinstance(step.anchor.op, Recurrent):
        ops += [op for activation in step.anchor.op.activations for op in activation]
    return tuple(sorted({form for op in ops for form in forms(op)}))


def why_not(step: Step) -> str:
    """Why what follows a step's anchor is not what `apply` renders; empty if it is."""
    fits = all(isinstance(node.op, Elementwise) for node in step.epilogue)
    return "" if fits else "epilogue not elementwise"
