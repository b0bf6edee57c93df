"""Recurrent layers of integers, cell by cell: one pass over the last output for all gates.

The weights are packed [block][k / group][gate][vector], see `groups.py`: a block of cells reads one
contiguous stream, and its gates stay in registers until the new output is stored. With `zigzag`,
weights that exceed the first-level cache are read in alternating order, so that each step begins
with the weights with which the last one ended. With `together`, both directions take turns, so that
one computes while the other waits.

A reset gate before the product (`QuantizedGru` without `linear_before_reset`) takes two passes,
because all blocks need it first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from cannery.ctext.environment import offset, render
from cannery.ctext.literals import c_float
from cannery.ctext.words import Words
from cannery.ir.graph import Graph
from cannery.ops.quantize.stream import put
from cannery.ops.quantized.arithmetic import Activation
from cannery.ops.quantized.groups import Groups, pack_groups
from cannery.ops.quantized.gru import QuantizedGru
from cannery.ops.quantized.lstm import QuantizedLstm
from cannery.ops.quantized.recurrent import TINY, QuantizedRecurrent
from cannery.ops.quantized.rnn import QuantizedRnn
from cannery.ops.quantized.scale import bounded
from cannery.ops.quantized.table import make_table
from cannery.ops.recurrent.base import KEPT_BYTES, SEQUENCE
from cannery.ops.recurrent.gates import in_ways, side_by_side, tail_waits
from cannery.ops.recurrent.render import first_of, returned
from cannery.ops.recurrent.weights import (
    gate_columns,
    pieces_of,
    wide_vectors,
    with_gates,
)
from cannery.ops.shared import gemm
from cannery.ops.shared.epilogue import CHANNEL_PADDING, padded_channels
from cannery.ops.shared.function import describe, parameter_names, signature
from cannery.ops.shared.gemm import VectorBlock
from cannery.ops.shared.lookup import table_array
from cannery.schedule.cost import reread_cycles
from cannery.schedule.params import typed
from cannery.schedule.program import Step
from cannery.schedule.schedule import ConstArray, Estimate, Job, Kernel, Params, Schedule, schedule
from cannery.target.isa import Isa

#: Vectors of cells in a block, by the number of registers.
VECTORS = {8: (1,), 16: (1, 2, 3), 32: (1, 2, 3, 4, 6)}

#: Instructions for one table lookup, without and with gather loads.
BY_TABLE, GATHERED = 20.0, 14.0

#: Loop overhead in cycles per iteration over the last outputs.
PER_PASS = 0.5

#: The weights of the passes.
LABELS = ("w", "v")

#: What follows the sums, by the macros of the template.
TAILS: dict[type[QuantizedRecurrent], str] = {
    QuantizedLstm: "lstm", QuantizedGru: "gru", QuantizedRnn: "rnn",
}  # fmt: skip


@dataclass(frozen=True)
class GatePass:
    """One pass: its label, its gates, the blocks of their vectors.

    `sums` are the C expressions of the sums of each block, by gate.
    """

    label: str
    gates: tuple[int, ...]
    blocks: tuple[VectorBlock, ...]
    sums: tuple[dict[int, list[str]], ...]


@dataclass(frozen=True)
class Direction:
    """One direction: its place, and the numbers of the tables for gates, input and cell."""

    index: int
    reverse: bool
    step: str
    tables: tuple[int, ...]


@dataclass(frozen=True)
class Tunables:
    """As in `recurrent.gates`, as far as they apply to integers."""

    lanes: int
    nr: int
    unroll: int
    zigzag: bool = False
    together: bool = False


@schedule
@dataclass(frozen=True)
class QuantizedGates(Schedule):
    """See the module docstring."""

    id = "quantized.gates"

    def why_not(self, graph: Graph, step: Step, isa: Isa) -> str:
        op = step.anchor.op
        if not step.alone or not isinstance(op, QuantizedRecurrent):
            return "not a quantised recurrent layer"
        p, r, scale, _, _, others, _ = _inputs(step)
        constant = all(v in graph.constants for v in (r, scale, others) if v)
        return "" if constant and p not in graph.constants else "only weights must be constant"

    def candidates(self, graph: Graph, step: Step, isa: Isa) -> Sequence[Params]:
        op = _op(step)
        large = op.gates * op.dtype.bytes * op.cells * op.cells > KEPT_BYTES
        zigzag = large and len(op.passes) == 1
        found: list[Params] = []
        for lanes in gemm.widths(op.cells, isa):
            vectors = -(-op.cells // lanes)
            for nr in dict.fromkeys(min(nr, vectors) for nr in VECTORS[isa.registers]):
                for unroll in (4, 2):
                    tile = Tunables(lanes, nr, unroll)
                    found += in_ways(tile, zigzag=zigzag and vectors > nr, both=op.directions > 1)
        return found

    def cost(self, graph: Graph, step: Step, params: Params, isa: Isa) -> Estimate:
        t = typed(Tunables, params)
        op = _op(step)
        n, steps, _ = graph.types[step.anchor.inputs[0]].shape
        table = GATHERED if isa.has("gather") else BY_TABLE * t.lanes / 4.0
        work = (op.gates + (0 if op.carries_output else 1)) * (table + 5.0)
        groups = Groups(op.dtype)
        each, code = 60.0 * len(op.passes), 0.0
        blocks = cell_blocks(op, t, isa)
        tails = tail_waits(op.functions, blocks)
        for block in blocks:
            vectors = len(block.vecs)
            passes = op.cells / groups.size / t.unroll
            for gates in op.passes:
                product = groups.tile_cycles(isa, 1, len(gates) * vectors, op.cells)
                each += block.count * (product + passes * PER_PASS)
            tails += block.count * vectors * work / isa.core.issue * 1.2
            code += 8.0 * vectors * (op.gates * t.unroll + work)
        if t.together:
            each -= 30.0
        size = float(op.gates) * op.dtype.bytes * op.cells * op.cells * (2 if t.together else 1)
        read = max(size - KEPT_BYTES, 0.0) if t.zigzag else size
        far = reread_cycles(isa, size, 1) * read / size
        each += side_by_side(far, tails, t.nr * work)
        return Estimate(n * steps * op.directions * each, code)

    def kernel(self, job: Job) -> Kernel:
        t = typed(Tunables, job.params)
        op = _op(job.step)
        _, r, scale, h0, c0, others, _ = _inputs(job.step)
        cells = cell_blocks(op, t, job.isa)
        parts = _parts(op, cells, job.isa)
        constants = []
        for d in range(op.directions):
            for part in parts:
                columns = gate_columns(op.cells, part.gates, with_gates(cells, len(part.gates)))
                weights = job.graph.constants[r][d][:, columns]
                text = f"recurrent weights [block][k / group][gate][vector], direction {d}"
                packed = pack_groups(weights, part.blocks, job.isa)
                constants.append(ConstArray(f"{job.symbol}_{part.label}{d}", packed, text))
        for name, value in (("scale", scale), ("q", others)):
            if value:
                text = "[direction][gate], padded"
                padded = padded_channels(job.constant(value).reshape(-1, op.cells))
                constants.append(ConstArray(f"{job.symbol}_{name}", padded, text))
        for name, value in (("h0", h0), ("c0", c0)):
            if value in job.graph.constants:
                constants.append(ConstArray(f"{job.symbol}_{name}", job.constant(value)))
        tables = list(dict.fromkeys(op.activations))
        for k, activation in enumerate(tables):
            table = make_table(activation)
            assert table is not None
            constants.append(table_array(f"{job.symbol}_t{k}", table))
        code, scratch, units = _render(job, op, cells, parts, tables)
        return Kernel(
            code, tuple(constants), 4 * scratch, whole=True, units=units, stops=job.stops,
        )  # fmt: skip


def cell_blocks(op: QuantizedRecurrent, t: Tunables, isa: Isa) -> tuple[VectorBlock, ...]:
    """The cells cut into blocks of vectors."""
    return gemm.make_blocks(op.cells, isa, t.lanes, t.nr, 1)


def _joined(cell: VectorBlock, block: VectorBlock, isa: Isa) -> VectorBlock:
    """The vectors of all gates; neighbours are joined where each gate has only one narrow
    vector.
    """
    alone = len(cell.vecs) == 1 and cell.vecs[0].full and cell.count == 1
    return replace(block, vecs=wide_vectors(block, isa)) if alone else block


def _parts(op: QuantizedRecurrent, cells: Sequence[VectorBlock], isa: Isa) -> list[GatePass]:
    """The passes of a step."""
    found = []
    for label, gates in zip(LABELS, op.passes, strict=False):
        each = with_gates(cells, len(gates))
        blocks = tuple(_joined(cell, block, isa) for cell, block in zip(cells, each, strict=True))
        sums = tuple(_sums(cell, b, gates) for cell, b in zip(cells, blocks, strict=True))
        found.append(GatePass(label, gates, blocks, sums))
    return found


def _sums(cell: VectorBlock, block: VectorBlock, gates: Sequence[int]) -> dict[int, list[str]]:
    """C expressions of the sums of the vectors of a cell, by gate."""
    lanes, per = cell.vecs[0].lanes, len(cell.vecs)
    pieces = [f"a0_{k}" for k in range(len(block.vecs))]
    if len(block.vecs) % per or block.vecs[0].lanes != lanes:
        joined = ((f"a0_{k}", v.lanes) for k, v in enumerate(block.vecs))
        pieces = [piece for name, wide in joined for piece in pieces_of(name, wide, lanes, "i32")]
    return {gate: pieces[k * per : k * per + per] for k, gate in enumerate(gates)}


def _op(step: Step) -> QuantizedRecurrent:
    assert isinstance(step.anchor.op, QuantizedRecurrent)
    return step.anchor.op


def _inputs(step: Step) -> tuple[str, ...]:
    """p, r, scale, h0, c0, others, first; empty if absent."""
    return (*step.anchor.inputs, "", "", "", "")[:7]


def _padded(op: QuantizedRecurrent) -> int:
    return op.cells + CHANNEL_PADDING


def _render(
    job: Job, op: QuantizedRecurrent, cells: Sequence[VectorBlock], parts: Sequence[GatePass],
    tables: Sequence[Activation],
) -> tuple[str, int, int]:  # fmt: skip
    """The text, the floats of its scratch memory, and its units: samples or directions."""
    t = typed(Tunables, job.params)
    p, _, _, h0, c0, others, first = _inputs(job.step)
    samples, steps, _ = job.type(p).shape
    units = (samples if samples > 1 else op.directions) if job.cut else 0
    units = units if units > 1 else 0
    count = op.functions
    per = [op.activations[count * d : count * d + count] for d in range(op.directions)]
    names = {own: f"{job.symbol}_step{k or ''}" for k, own in enumerate(dict.fromkeys(per))}
    directions = [
        Direction(d, op.reverse[d], names[own], tuple(map(tables.index, own)))
        for d, own in enumerate(per)
    ]
    # Cells are float32; outputs, up to two vectors of them, take half of that.
    padded = _padded(op)
    # Between two passes, the gates z and the reset states are stored.
    outputs = 1 if SEQUENCE in op.returns else 3
    places, scratch = dict[str, int](), 0
    between = {"z": 1, "s": 1} if len(parts) > 1 else {}
    for what, vectors in {"c": 1, "o": outputs, **between}.items():
        places[what] = scratch
        scratch += op.directions * padded * vectors
    distinct = {d.step: d for d in reversed(directions)}
    code = render(
        "ops/quantized/gates.c.j2",
        describe=describe(job),
        signature=signature(job, scratch=True, units=units > 0, stops=job.stops),
        stops=job.stops, axis=("samples" if samples > 1 else "directions") if units else "",
        symbol=job.symbol, op=op, H=op.cells, g=Groups(op.dtype), cells=cells, parts=parts,
        kinds=list(distinct.values()), directions=directions, tables=list(map(make_table, tables)),
        zigzag=t.zigzag and any(cell.count > 1 for cell in cells),
        together=t.together and units == 0,
        unroll=t.unroll, steps=steps, samples=samples, padded=padded,
        places=places, outputs=outputs, between=bool(between), others=bool(others),
        tail=TAILS[type(op)], carries=op.carries_output,
        p=job.inputs[job.step.inputs.index(p)], results=returned(job, op.returns),
        h0=_initial(job, h0, "h0"), c0=_initial(job, c0, "c0"),
        first=first_of(job, first),
        held=lambda t, name: bounded(t, name, op.bound), words=Words,
        store=Groups(op.dtype).store, put=put, bound=c_float(float(op.bound)),
        inverse=c_float(float(np.float32(1.0 / op.bound))), tiny=c_float(TINY),
        units=[c_float(float(u)) for u in op.units], c_float=c_float,
    )  # fmt: skip
    return code, scratch, units


def _initial(job: Job, value: str, name: str) -> str:
    """Where an initial state of sample n begins; empty if there is none."""
    if value in job.graph.constants:
        return f"{job.symbol}_{name} + n * {job.type(value).shape[1]}"
    if not value:
        return ""
    place = job.step.inputs.index(value)
    layout = job.inputs[place]
    return f"{parameter_names(job)[place]}{offset(layout.origin)} + n * {layout.elements}"
