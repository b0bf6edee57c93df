"""How the terms of a sum of convolutions may be computed, each by an ordinary schedule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from cannery.ir.graph import Graph
from cannery.ops.chains.parts import LETTERS
from cannery.ops.chains.terms import (
    Piece,
    pieces,
    sources,
)
from cannery.ops.conv.direct_oc import ConvDirectOc
from cannery.ops.conv.gemm import ConvGemm
from cannery.ops.conv.geometry import sizes
from cannery.ops.conv.winograd_oc import WinogradOc
from cannery.schedule.caches import L2_BYTES
from cannery.schedule.program import Step
from cannery.schedule.schedule import (
    Params,
    Schedule,
    all_schedules,
)  # fmt: skip
from cannery.target.isa import Isa

#: Parameters in which candidates of a term must differ to be worth trying.
DISTINCT = ("lanes", "mr", "nr", "joined", "unroll", "opaque")


class Option(NamedTuple):
    """How a source may be computed, and the cycles of all its phases."""

    id: str
    params: Params
    cycles: float


def by_source(graph: Graph, step: Step) -> list[list[Piece]]:
    """The pieces of each source, in order."""
    all_pieces = pieces(graph, step)
    return [[p for p in all_pieces if p.source == source] for source in sources(graph, step)]


def may_compute(id_: str, own: Sequence[Piece], isa: Isa) -> bool:
    """Whether a schedule can compute all pieces of a source.

    Where phases differ in shape, only tiles that can be cut to fit them are usable.
    """
    way = all_schedules()[id_]
    fits = len(own) == 1 or isinstance(way, ConvDirectOc)
    return fits and not any(way.why_not(piece.graph, piece.step, isa) for piece in own)


def ways(id_: str, own: Sequence[Piece], isa: Isa) -> list[Option]:
    """The candidates of a schedule for all pieces of a source, cheapest first.

    Of candidates with the same tiles and loops, only the best is kept.
    """
    if not may_compute(id_, own, isa):
        return []
    way = all_schedules()[id_]
    far = far_weights(isa, [(piece, way) for piece in own])
    best: dict[tuple[object, ...], Option] = {}
    for params in way.candidates(own[0].graph, own[0].step, isa):
        if own[0].so_far and _overwrites(own[0], way, params):
            continue
        cycles = sum(
            replace(found, cycles=len(piece.phases) * found.cycles).total(isa)
            for piece in own
            for found in [way.cost(piece.graph, piece.step, _fitted(params, piece), isa)]
        )
        tile = tuple(params.get(key) for key in DISTINCT)
        if tile not in best or cycles < best[tile].cycles:
            best[tile] = Option(id_, params, cycles + far)
    return sorted(best.values(), key=lambda option: option.cycles)


def far_weights(isa: Isa, ways: Sequence[tuple[Piece, Schedule]]) -> float:
    """Cycles of reading the weights of all phases, beyond those for the whole window.

    Each phase has its own weights, which may be too many to stay in the second-level cache from run
    to run.
    """
    more = 0.0
    for piece, way in ways:
        shape = sizes(piece.graph, piece.step)
        pairs = 4.0 * shape.ic * shape.oc
        each = way.weight_bytes(shape) if isinstance(way, WinogradOc) else shape.taps * pairs
        more += len(piece.phases) * each - piece.phases[0].window * pairs
    return max(more - L2_BYTES, 0.0) / isa.core.caches.far_rate


def _overwrites(piece: Piece, way: Schedule, params: Params) -> bool:
    """Whether incomplete sums are stored over those of the earlier terms."""
    if isinstance(way, ConvGemm):
        shape = sizes(piece.graph, piece.step)
        return int(params["kc"]) != shape.taps * shape.ic
    return bool(params.get("joined"))


def _fitted(params: Params, piece: Piece) -> Params:
    """The parameters, with tiles made no wider than a phase."""
    if "unroll" not in params or "batch" in params:
        return params
    return {**params, "mr": min(int(params["mr"]), piece.phases[0].cols.size)}


def chosen_ways(graph: Graph, step: Step, params: Params) -> list[tuple[Piece, Schedule, Params]]:
    """All pieces with the schedule and the parameters that a candidate has for them."""
    letters = dict(zip(sources(graph, step), LETTERS, strict=False))
    found = []
    for piece in pieces(graph, step):
        letter = letters[piece.source]
        own = {k[2:]: v for k, v in params.items() if k.startswith(f"{letter}_")}
        found.append((piece, all_schedules()[str(params[letter])], _fitted(own, piece)))
    return found
