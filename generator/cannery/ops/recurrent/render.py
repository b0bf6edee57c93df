"""Renders the kernels of recurrent layers: the loop over time, and one function per step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from cannery.ctext.environment import offset, render
from cannery.ctext.words import Words
from cannery.ir.graph import Node
from cannery.ir.registry import Elementwise
from cannery.ops.elementwise import Sigmoid, Tanh
from cannery.ops.recurrent.base import CELL, SEQUENCE, Activation, Recurrent
from cannery.ops.recurrent.op import Gru, Lstm, Rnn
from cannery.ops.recurrent.weights import Pass, Tunables, sums_of
from cannery.ops.shared.epilogue import CHANNEL_PADDING
from cannery.ops.shared.function import describe, parameter_names, signature
from cannery.ops.shared.gemm import Gemm, VectorBlock
from cannery.ops.shared.lanes import Vec
from cannery.ops.shared.lookup import Lookup, lookups
from cannery.schedule.params import typed
from cannery.schedule.schedule import MATH, Job

#: Up to this many cells, a step is so short that the call matters.
INLINE_CELLS = 32

#: The activation functions of most layers, by operator.
_USUAL = {Lstm: (Sigmoid, Tanh, Tanh), Gru: (Sigmoid, Tanh), Rnn: ()}


@dataclass(frozen=True)
class Cell:
    """What the code of one step is made of."""

    op: Recurrent
    form: str
    functions: tuple[Activation, ...]
    peepholes: bool
    bias: bool
    by_table: Mapping[Elementwise, Lookup]

    def function(self, index: int, t: str, name: str, *, gate: bool = True) -> list[str]:
        """Statements that apply an activation to a variable; arguments of gates are clipped."""
        lines = self.clipped(t, name) if gate else []
        for f in self.functions[index]:
            if f in self.by_table:
                lines.append(f"{name} = {self.by_table[f].expression(t, name)};")
                continue
            form = self.form if self.form in f.approximations else ""
            lines.append(f"{name} = {f.c(t, name, form=form)};")
        return lines

    def clipped(self, t: str, name: str) -> list[str]:
        """A statement that clips the argument of a gate, if the layer does so."""
        w = Words(t)
        clipped = f"{name} = {w.min(self.op.clip, w.max(-self.op.clip, name))};"
        return [clipped] if self.op.clip else []

    @property
    def joined(self) -> bool:
        """Whether the gates and the cell have their usual functions, which share divisions."""
        usual = all(map(_is_usual, self.functions, _USUAL[type(self.op)]))
        return usual and not self.form and not (isinstance(self.op, Lstm) and self.op.coupled)


@dataclass(frozen=True)
class Direction:
    """One direction: where its first step is, and what belongs to it alone."""

    index: int
    reverse: bool
    step: str


def _is_usual(activation: Activation, kind: type[Elementwise]) -> bool:
    return len(activation) == 1 and type(activation[0]) is kind


def render_gates(
    job: Job, op: Recurrent, g: Gemm, parts: Sequence[tuple[Pass, Sequence[VectorBlock]]]
) -> tuple[str, int, int]:
    """The text, the floats of its scratch memory, and its units: samples or directions."""
    anchor, t = job.step.anchor, typed(Tunables, job.params)
    cells = _cells(job, op, anchor)
    names = {functions: f"{job.symbol}_step{k or ''}" for k, functions in enumerate(cells)}
    per = op.functions
    directions = [
        Direction(d, op.reverse[d], names[op.activations[d * per : d * per + per]])
        for d in range(op.directions)
    ]
    padded = op.cells + CHANNEL_PADDING
    zero = begins_at_zero(job, op)
    samples = job.type(anchor.inputs[0]).shape[0]
    units = (samples if samples > 1 else op.directions) if job.cut else 0
    units = units if units > 1 else 0
    turned = turns_by_call(job, op)
    scratch, places = 0, {}
    direct = cells_direct(job, op)
    for what in _needed(op, direct=direct):
        places[what] = scratch
        scratch += op.directions * padded * (2 if what == "h" else 1)
    code = render(
        "ops/recurrent/gates.c.j2",
        describe=describe(job),
        signature=signature(
            job, scratch=bool(scratch), units=units > 0, stops=job.stops, turned=turned
        ),
        plain=signature(job, scratch=bool(scratch)) if turned else "",
        names=[*parameter_names(job), *(["scratch"] if scratch else [])],
        stops=job.stops,
        axis=("samples" if samples > 1 else "directions") if units else "",
        symbol=job.symbol,
        op=op,
        lstm=isinstance(op, Lstm),
        gru=isinstance(op, Gru),
        cells=list(cells.values()),
        steps_of=[names[functions] for functions in cells],
        parts=[(p, blocks, sums_of(op, p, t, job.isa)) for p, blocks in parts],
        g_all=g,
        g_first=replace(g, split=1),
        inline=op.cells <= INLINE_CELLS,
        directions=directions,
        together=t.together,
        zigzag=t.zigzag,
        steps=job.type(anchor.inputs[0]).shape[1],
        samples=samples,
        padded=padded,
        places=places,
        starts=_starts(op),
        zeros=lambda block: [f"{v.t}_zero()" for v in block.vecs],
        zero=zero,
        direct=direct,
        runs=needs_weights(job, op),
        other=any(cell.peepholes or cell.bias for cell in cells.values()),
        others=3 if isinstance(op, Lstm) else 1,
        p=job.inputs[job.step.inputs.index(anchor.inputs[0])],
        outputs=returned(job, op.returns),
        h0=_initial(job, op, anchor, 0),
        c0=_initial(job, op, anchor, 1) if isinstance(op, Lstm) else "",
        first=first_of(job, op.first_input(anchor.inputs)),
    )
    return code, scratch, units


def first_of(job: Job, value: str) -> str:
    """The C expression of the input that is the first step; empty if there is none."""
    if not value:
        return ""
    place = job.step.inputs.index(value)
    return f"{parameter_names(job)[place]}[{job.inputs[place].origin}]"


def _cells(job: Job, op: Recurrent, anchor: Node) -> dict[tuple[Activation, ...], Cell]:
    """One function per step for directions with the same computation."""
    other = op.others and len(anchor.inputs) > 2 + op.states and bool(anchor.inputs[2 + op.states])
    per = op.functions
    found = {}
    for d in range(op.directions):
        functions = op.activations[d * per : d * per + per]
        found[functions] = Cell(
            op, str(job.params.get(MATH, "")), functions,
            bool(other and isinstance(op, Lstm)), bool(other and isinstance(op, Gru)),
            tables_of(job, op),
        )  # fmt: skip
    return found


def tables_of(job: Job, op: Recurrent) -> dict[Elementwise, Lookup]:
    """The activations computed by tables."""
    ops = (f for activation in op.activations for f in activation)
    return lookups(job.symbol, ops, str(job.params.get(MATH, "")))


def _needed(op: Recurrent, *, direct: bool) -> list[str]:
    """Vectors of cells in scratch memory: c the cells, h outputs in turn, z and r gates."""
    found = ["c"] if isinstance(op, Lstm) and not direct else []
    found += [] if SEQUENCE in op.returns else ["h"]
    two = isinstance(op, Gru) and not op.linear_before_reset
    return [*found, "z", "r"] if two else found


def returned(job: Job, returns: Sequence[str]) -> dict[str, tuple[str, int, int]]:
    """For each result: pointer to the first element, elements of a sample, pitch of steps."""
    names = parameter_names(job)[len(job.inputs) :]
    return {
        what: (f"{name}{offset(layout.origin)}", layout.elements, layout.col)
        for what, name, layout in zip(returns, names, job.outputs, strict=True)
    }


def begins_at_zero(job: Job, op: Recurrent) -> bool:
    """Whether no initial state is given, so that the first step needs no recurrent product.

    Without any step the initial state is also the last one, so it must exist.
    """
    inputs = job.step.anchor.inputs
    given = any(inputs[2 : 2 + op.states]) or bool(op.first_input(inputs))
    return not (given or job.stops or 0 in op.lengths)


def cells_direct(job: Job, op: Recurrent) -> bool:
    """Whether cells are read where the last step left them, and written where they are returned.

    Copies would delay a single step: processors cannot load a vector from several stores that are
    still on their way to the cache.
    """
    steps, inputs = job.type(job.step.anchor.inputs[0]).shape[1], job.step.anchor.inputs
    given = len(inputs) > 3 and bool(inputs[3])
    alone = steps == 1 and not (job.stops or op.lengths or op.first_input(inputs))
    return alone and CELL in op.returns and (given or begins_at_zero(job, op))


def turns_by_call(job: Job, op: Recurrent) -> bool:
    """Whether the order of weights alternates from call to call, not from step to step."""
    n, steps, _ = job.type(job.step.anchor.inputs[0]).shape
    alone = n == 1 and steps == 1 and op.directions == 1 and not job.stops
    return alone and bool(job.graph.states) and bool(job.params["zigzag"])


def needs_weights(job: Job, op: Recurrent) -> bool:
    """Whether any step reads the last output."""
    anchor = job.step.anchor
    steps = max(op.lengths, default=job.type(anchor.inputs[0]).shape[1])
    return steps > 1 or not begins_at_zero(job, op)


def _starts(op: Recurrent) -> Callable[[Cell, Pass, VectorBlock], list[str]]:
    """The initial values of a block's sums: the projected input, or the bias of the product."""

    def start(cell: Cell, part: Pass, gate: int, v: Vec) -> str:
        if gate in part.added:
            return v.load(f"pp{offset(gate * op.cells + v.start)}")
        return f"{v.t}_load(qp{offset(v.start)})" if cell.bias else f"{v.t}_zero()"

    return lambda cell, part, block: [
        start(cell, part, gate, v) for gate in part.gates for v in block.vecs
    ]


def _initial(job: Job, op: Recurrent, anchor: Node, index: int) -> str:
    """Where an initial state of sample n begins; empty if there is none, for cells zero then."""
    value = anchor.inputs[2 + index] if len(anchor.inputs) > 2 + index else ""
    if value not in job.step.inputs:
        constant = value or (index == 0 and not begins_at_zero(job, op))
        return f"{job.symbol}_{'hc'[index]}0 + n * {op.directions * op.cells}" if constant else ""
    place = job.step.inputs.index(value)
    layout = job.inputs[place]
    return f"{parameter_names(job)[place]}{offset(layout.origin)} + n * {layout.elements}"
