"""Recurrent layers of integers by Helium: all sums of a step first, then cell by cell.

A step multiplies one row, the last output, by the weights of all gates. VMLADAVA adds 16 products
of bytes, or eight of int16, to one sum, see `mve.py`. The sums of all gates are stored, a whole
number of vectors of cells for each gate, and what follows them is that of `gates.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from cannery.ir.graph import Graph
from cannery.ops.quantized.gates import (
    LABELS,
    GatePass,
    QuantizedGates,
    Tunables,
    quantised_layer,
)
from cannery.ops.quantized.mve import Tiles, why_not_mve
from cannery.ops.quantized.recurrent import QuantizedRecurrent
from cannery.ops.recurrent.weights import with_gates
from cannery.ops.shared.gemm import VectorBlock, make_blocks
from cannery.schedule.params import as_params, typed
from cannery.schedule.program import Step
from cannery.schedule.schedule import Estimate, Params, schedule
from cannery.target.isa import Isa

#: Lanes of a vector of cells.
LANES = 4

#: Sums of a tile.
OUTPUTS = (6, 4)

#: Instructions of a step and pass besides, of a vector of cells for each gate and for each state.
PASS, GATE, STATE = 60.0, 26.0, 24.0


@schedule
@dataclass(frozen=True)
class QuantizedGatesMve(QuantizedGates):
    """See the module docstring; `nr` is the sums of a tile."""

    id = "quantized.gates_mve"
    order: ClassVar[str] = "[tile][vector][output][16 bytes]"

    def why_not(self, graph: Graph, step: Step, isa: Isa) -> str:
        if reason := super().why_not(graph, step, isa):
            return reason
        return why_not_mve(isa, quantised_layer(step).dtype)

    def candidates(self, graph: Graph, step: Step, isa: Isa) -> Sequence[Params]:
        return [as_params(Tunables(LANES, nr, 1)) for nr in OUTPUTS]

    def cost(self, graph: Graph, step: Step, params: Params, isa: Isa) -> Estimate:
        op, t = quantised_layer(step), typed(Tunables, params)
        n, steps, _ = graph.types[step.anchor.inputs[0]].shape
        each = sum(PASS + _tiles(op, t, len(gates)).instructions(1) for gates in op.passes)
        each += -(-op.cells // LANES) * (op.gates * GATE + STATE)
        return Estimate(n * steps * op.directions * each / isa.core.issue, 1500.0)

    def cells(self, op: QuantizedRecurrent, t: Tunables, isa: Isa) -> tuple[VectorBlock, ...]:
        """One vector at a time: its gates are loaded."""
        return make_blocks(op.cells, isa, t.lanes, 1, 1)

    def parts(
        self, op: QuantizedRecurrent, t: Tunables, cells: Sequence[VectorBlock], isa: Isa
    ) -> list[GatePass]:
        """The passes of a step, whose vectors of sums are numbered gate by gate."""
        found = []
        for label, gates in zip(LABELS, op.passes, strict=False):
            sums = tuple(_names(cell, gates) for cell in cells)
            tiles, blocks = _tiles(op, t, len(gates)), with_gates(cells, len(gates))
            found.append(GatePass(label, gates, blocks, sums, tiles, _pitch(op)))
        return found

    def packed(
        self, r: NDArray[Any], part: GatePass, cells: Sequence[VectorBlock], isa: Isa
    ) -> NDArray[Any]:
        """The columns of the gates, each filled up with zeros to whole vectors of cells."""
        assert part.tiles
        count = r.shape[0]
        whole = np.zeros((count, len(part.gates), part.pitch), r.dtype)
        for k, gate in enumerate(part.gates):
            whole[:, k, :count] = r[:, gate * count : (gate + 1) * count]
        return part.tiles.packed(whole.reshape(count, -1))


def _pitch(op: QuantizedRecurrent) -> int:
    """Sums of a gate."""
    return -(-op.cells // LANES) * LANES


def _tiles(op: QuantizedRecurrent, t: Tunables, gates: int) -> Tiles:
    return Tiles(1, t.nr, gates * _pitch(op), 1, op.cells, op.dtype)


def _names(cell: VectorBlock, gates: Sequence[int]) -> dict[int, list[str]]:
    """The vectors of sums of a block of cells, by gate."""
    per = len(cell.vecs)
    return {gate: [f"a0_{k * per + j}" for j in range(per)] for k, gate in enumerate(gates)}
