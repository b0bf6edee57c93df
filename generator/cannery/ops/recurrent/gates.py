"""Recurrent layers cell by cell: one pass over the last output yields all gates of a block.

The weights are packed [block][k][gate][lanes], so a block of cells reads one contiguous stream. Its
gates stay in registers, and so do the activations and the new state. With few accumulators, the
sums are split over `split` sets to hide latency. `broadcast` is how the last output reaches the
lanes, see `cannery.ops.shared.gemm`. With `zigzag`, weights that exceed the first-level cache are
read in alternating order: each step begins with the weights with which the last one ended, and
needs the newest outputs last; if a call is one step, the state says which order is next. With
`together`, both directions run side by side, so that one computes while the other waits.

A reset gate before the product (Gru without `linear_before_reset`) takes two passes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cannery.ir.graph import Graph, Node
from cannery.ops.recurrent.base import KEPT_BYTES, Recurrent, exceeds_cache
from cannery.ops.recurrent.render import (
    begins_at_zero,
    needs_weights,
    render_gates,
    tables_of,
    turns_by_call,
)
from cannery.ops.recurrent.weights import (
    Pass,
    Tunables,
    block_weights,
    gate_blocks,
    passes_of,
    sums_of,
)
from cannery.ops.shared import gemm
from cannery.ops.shared.epilogue import padded_channels
from cannery.ops.shared.gemm import Gemm, VectorBlock
from cannery.ops.shared.lookup import table_array
from cannery.schedule.cost import reread_cycles
from cannery.schedule.params import as_params, typed
from cannery.schedule.program import Step
from cannery.schedule.schedule import ConstArray, Estimate, Job, Kernel, Params, Schedule, schedule
from cannery.target.isa import Isa

#: (NR vectors of cells, sets of accumulators).
TILES = (
    (1, 1), (1, 2), (1, 4), (2, 1), (2, 2), (3, 1), (3, 2), (4, 1), (6, 1), (1, 8), (2, 4),
    (4, 2), (8, 1),
)  # fmt: skip

#: Registers left for the input and, without fused operations, for the weights.
SPARE = {8: 2, 16: 3, 32: 4}

#: Instructions of one activation, for sigmoid and tanh with shared divisions.
ACTIVATION_WORK = 20.0

#: After the sums of a block, processors look past this many instructions, to the next block's
#: weights.
WINDOW = 256.0

#: Latency in cycles from the sums of a block to its results, per activation on the way. Processors
#: overlap little of it with the next block, whose instructions wait for a slot.
LATENCY = 30.0

#: The share that remains of the shorter of two things that processors do side by side.
APART = 0.1


@schedule
@dataclass(frozen=True)
class RecurrentGates(Schedule):
    """See the module docstring."""

    id = "recurrent.gates"
    version = 4
    halves = True

    def why_not(self, graph: Graph, step: Step, isa: Isa) -> str:
        if len(step.anchors) != 1 or not isinstance(step.anchor.op, Recurrent):
            return "not a recurrent layer"
        if step.epilogue:
            return "takes no epilogue"
        p, r, *rest = step.anchor.inputs
        op = step.anchor.op
        if p in graph.constants:
            return "reads constants only"
        constant = [v for v in (r, *rest[op.states : op.states + op.others]) if v]
        return "" if all(v in graph.constants for v in constant) else "weights are not constant"

    def candidates(self, graph: Graph, step: Step, isa: Isa) -> Sequence[Params]:
        op = _op(step)
        h = op.cells
        gates = max(len(p.gates) for p in passes_of(op))
        large = exceeds_cache(op)
        found: list[Params] = []
        for lanes in gemm.widths(h, isa):
            vectors = -(-h // lanes)
            for nr, split in _tiles(isa, gates, vectors, h):
                whole = gemm.whole_tile(graph, 1, nr)
                for broadcast in gemm.broadcasts(isa, lanes, h, 1, vectors=nr, tile=whole):
                    tile = Tunables(lanes, nr, split, broadcast, max(4, split))
                    found += in_ways(tile, zigzag=large and vectors > nr, both=op.directions > 1)
        return found

    def cost(self, graph: Graph, step: Step, params: Params, isa: Isa) -> Estimate:
        t = typed(Tunables, params)
        op = _op(step)
        n, steps, _ = graph.types[step.anchor.inputs[0]].shape
        vectors = -(-op.cells // t.lanes)
        work = (op.gates + 1) * ACTIVATION_WORK + 12.0
        each, code = 0.0, 0.0
        # A step waits for the last gates and the last output.
        waits = 60.0 if isa.widest > 1 else 30.0
        tails = vectors * work / isa.rates(t.lanes).arithmetic
        for part in passes_of(op):
            blocks = [sums.block for sums in sums_of(op, part, t, isa)]
            g = make_gemm(op, t, isa)
            one = [(1, 1, 0)]
            each += gemm.product_cycles(isa, g, one, blocks) + waits
            tails += tail_waits(op.functions, blocks) * waits / 60.0
            code += gemm.code_size(g, one, blocks) + len(blocks) * t.nr * 6.0 * work
        if t.together:
            each -= 0.5 * waits
        size = 4.0 * op.cells * op.cells * op.gates * (2 if t.together else 1)
        turns = t.zigzag and (steps > 1 or bool(graph.states))
        read = max(size - KEPT_BYTES, 0.0) if turns else size
        if steps == 1 and size > isa.core.caches.l1_bytes:
            each = max(each, read / isa.core.caches.l2_rate)
        far = reread_cycles(isa, size, 1) * read / size
        each += side_by_side(far, tails, t.nr * work)
        return Estimate(n * steps * op.directions * each, code)

    def kernel(self, job: Job) -> Kernel:
        t = typed(Tunables, job.params)
        op, anchor = _op(job.step), job.step.anchor
        parts = [(part, gate_blocks(op, part, t, job.isa)) for part in passes_of(op)]
        g = make_gemm(op, t, job.isa)
        constants = []
        for d in range(op.directions) if needs_weights(job, op) else ():
            r = job.constant(anchor.inputs[1])[d]
            for part, blocks in parts:
                values = block_weights(op, part, blocks, r, rotate=_rotate(op, t))
                text = f"recurrent weights [block][k][gate][lanes], direction {d}"
                name = weights_name(job, part, d)
                constants.append(ConstArray(name, values, text, is_weights=True))
        constants += _others(job, op, anchor)
        constants += [table_array(t.symbol, t.table) for t in tables_of(job, op).values()]
        code, scratch, units = render_gates(job, op, g, parts)
        return Kernel(
            code, tuple(constants), 4 * scratch, needs_math=_needs_math(op), whole=True,
            units=units, stops=job.stops, turns=turns_by_call(job, op),
        )  # fmt: skip


def weights_name(job: Job, part: Pass, direction: int) -> str:
    """The packed weights of a pass and direction."""
    return f"{job.symbol}_{part.label}{direction}"


def in_ways(tile: Any, *, zigzag: bool, both: bool) -> list[Params]:
    """A tile as it is, with weights read back and forth, and with both directions together."""
    plain = {**as_params(tile), "zigzag": False, "together": False}
    ways = [("zigzag", zigzag), ("together", both)]
    return [plain, *({**plain, way: True} for way, fits in ways if fits)]


def side_by_side(far: float, tails: float, instructions: float) -> float:
    """Cycles of reading weights from far away, and of what follows the sums, `instructions` per
    block.
    """
    both = min(far, tails)
    return far + tails - both * (1.0 - APART if instructions <= WINDOW else 0.0)


def tail_waits(functions: int, blocks: Sequence[VectorBlock]) -> float:
    """Cycles of waiting after the sums of all blocks except the last, for `functions` activations
    in a row.
    """
    return LATENCY * min(functions, 2) * (sum(block.count for block in blocks) - 1)


def make_gemm(op: Recurrent, t: Tunables, isa: Isa) -> Gemm:
    """How a block of cells walks the last output and the weights."""
    h = op.cells
    split = min(t.split, h)
    return Gemm(
        h, h, 1, 0, t.unroll, split, t.broadcast, registers=isa.registers, beside=isa.has("mve")
    )


def _op(step: Step) -> Recurrent:
    assert isinstance(step.anchor.op, Recurrent)
    return step.anchor.op


def _tiles(isa: Isa, gates: int, vectors: int, k: int) -> list[tuple[int, int]]:
    """Tiles that fit into the registers; at least one."""
    room = isa.registers - SPARE[isa.registers]
    fits = [(min(nr, vectors), min(split, k)) for nr, split in TILES if gates * nr * split <= room]
    return list(dict.fromkeys(fits)) or [(1, 1)]


def _rotate(op: Recurrent, t: Tunables) -> int:
    return op.cells if t.broadcast == "rotate" else 0


def _others(job: Job, op: Recurrent, anchor: Node) -> list[ConstArray]:
    """Constant initial states, and peepholes or biases, per direction and padded."""
    found = []
    rest = (*anchor.inputs[2:], *[""] * (op.states + op.others))
    for index, value in enumerate(rest[: op.states]):
        if value in job.graph.constants:
            name = f"{job.symbol}_{'hc'[index]}0"
            found.append(ConstArray(name, job.constant(value), "initial state"))
        elif index == 0 and not value and not begins_at_zero(job, op):
            n = job.type(anchor.inputs[0]).shape[0]
            zeros = np.zeros((n, op.directions * op.cells), np.float32)
            found.append(ConstArray(f"{job.symbol}_h0", zeros, "initial state"))
    for value in rest[op.states : op.states + op.others]:
        if value:
            padded = padded_channels(job.constant(value).reshape(-1, op.cells))
            found.append(ConstArray(f"{job.symbol}_q", padded, "[direction][gate], padded"))
    return found


def _needs_math(op: Recurrent) -> bool:
    return any(f.needs_math for activation in op.activations for f in activation)
