"""Fully unrolled convolution: every tap in line, its weights part of the code, zeros omitted.

One function computes a tile of neighbouring pixels of all output channels without a loop. Layers
with many weights, most of them zero, are computed in parts: some output channels of all tiles,
whose code stays in the instruction cache, then the next channels. With pixels in the lanes
(planar), each weight is a literal that is broadcast (before AVX a vector in memory), and a zero
costs nothing, whatever the pattern. With output channels in the lanes (channels last), a vector of
weights is omitted if all of it is zero. With one lane, that means every zero, and weights are
literals. Weights between groups are zeros too, so depthwise and grouped convolutions need nothing
else. This is the level "all" of Urbann et al., "A C Code Generator for Fast Inference and Simple
Deployment of CNNs", 2020.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cannery.ctext.environment import offset, render
from cannery.ctext.literals import c_float
from cannery.ir.graph import Graph
from cannery.layouts import Layout, Want, nhwc, planar
from cannery.ops.conv.geometry import ConvShape, conv_shape, padded_bias, sizes
from cannery.ops.shared import epilogue as epilogues
from cannery.ops.shared.axes import balanced
from cannery.ops.shared.function import describe, signature
from cannery.ops.shared.lanes import Vec, split_lanes
from cannery.ops.shared.taps import load_count, tap_loads
from cannery.ops.shared.tiles import widths
from cannery.schedule.cost import (
    broadcast_work,
    busy_cycles,
    load_way,
    mac_bytes,
    mac_instructions,
    slowest,
    waiting_cycles,
)
from cannery.schedule.params import as_params, typed
from cannery.schedule.program import Step
from cannery.schedule.schedule import ConstArray, Estimate, Job, Kernel, Params, Schedule, schedule
from cannery.target.isa import Isa

#: Most multiply-accumulates of a part, about 24 KB of code: more never stays in the instruction
#: cache.
MAX_UNROLLED = 3000

#: Most parts, for layers with at least half of their weights zero; with more weights, loops are
#: better.
MAX_PARTS = 8

#: Bytes of code that a multiply-accumulate adds for the address of its weight and its share of
#: loads.
TERM_BYTES = 7.0


@dataclass(frozen=True)
class Term:
    """One multiply-accumulate of a tile: vector `vec` of pixel group or pixel `pixel`.

    `weight` is a C literal, the place of a vector in the weight array, or (`[7]`) that of a number.
    """

    vec: int
    weight: str | int


@dataclass(frozen=True)
class Row:
    """The taps in use of one channel and window row: `columns`, ascending, and terms."""

    kh: int
    ic: int
    columns: tuple[int, ...]
    terms: tuple[tuple[Term, ...], ...]


@dataclass(frozen=True)
class ChannelBlock:
    """Output channels whose accumulators are alive at the same time.

    Across: `vecs` are vectors of channels; else each is one channel (`start`) of pixel lanes.
    """

    vecs: tuple[Vec, ...]
    rows: tuple[Row, ...]

    @property
    def terms(self) -> int:
        """Multiply-accumulates of one pixel or vector of pixels."""
        return sum(len(terms) for row in self.rows for terms in row.terms)


@dataclass(frozen=True)
class Tunables:
    """A tile of `mr` vectors of pixels in planar `order`, of `mr` pixels otherwise."""

    order: str
    lanes: int
    mr: int


@schedule
@dataclass(frozen=True)
class ConvUnrolled(Schedule):
    """See the module docstring."""

    id = "conv.unrolled"
    movable = True

    def why_not(self, graph: Graph, step: Step, isa: Isa) -> str:
        shape = conv_shape(graph, step)
        if shape is None:
            return "not a 2D convolution with constant weights"
        if reason := epilogues.why_not(step):
            return reason
        return "" if self.candidates(graph, step, isa) else "too much code"

    def candidates(self, graph: Graph, step: Step, isa: Isa) -> Sequence[Params]:
        return graph.once(self.id, (step, isa), lambda: self._candidates(graph, step, isa))

    def _candidates(self, graph: Graph, step: Step, isa: Isa) -> list[Params]:
        shape = sizes(graph, step)
        shared = min(isa.widest, shape.oc // shape.group)  # outputs that one vector can serve
        weights = _counted(graph, shape)
        used = np.count_nonzero(weights)
        most = MAX_PARTS if 2 * used <= weights.size else 1
        if used > most * MAX_UNROLLED * shared:
            return []
        found: list[Tunables] = []
        for lanes in widths(shape.oc, isa):
            tiles = {min(mr, shape.ow) for mr in (1, 2, 4, 8, 12)}
            found += [Tunables(nhwc.ORDER, lanes, mr) for mr in sorted(tiles)]
        for lanes in [w for w in widths(shape.ow, isa) if 1 < w <= shape.ow]:
            tiles = {min(mr, shape.ow // lanes) for mr in (1, 2, 3)}
            found += [Tunables(planar.ORDER, lanes, mr) for mr in sorted(tiles)]
        full = _pattern(graph, shape)
        masks = {_kind(p): _mask(full, _vectors(shape, p, isa), p) for p in found}
        return [as_params(p) for p in found if _in_parts(masks[_kind(p)], p.mr, most)]

    def reads(self, graph: Graph, step: Step, params: Params, isa: Isa) -> tuple[Want, ...]:
        order, halo = typed(Tunables, params).order, sizes(graph, step).halo
        return (Want(order, halo), *(Want(order) for _ in step.inputs[1:]))

    def writes(self, graph: Graph, step: Step, params: Params, isa: Isa) -> tuple[Want, ...]:
        return (Want(typed(Tunables, params).order),)

    def cost(self, graph: Graph, step: Step, params: Params, isa: Isa) -> Estimate:
        p, shape = typed(Tunables, params), sizes(graph, step)
        full = _pattern(graph, shape)
        blocks = [_mask(full, vecs, p) for vecs in _groups(shape, p, isa)]
        cycles = 6.0 + sum(_block_cycles(shape, p, used, isa) for used in blocks)
        mr = p.mr
        counts = [int(used.sum()) * mr for used in blocks]
        parts = _parts(counts)
        macs = max(sum(counts[first:end]) for first, end in parts)
        tiles = -(-shape.ow // _width(p))
        code = macs * (mac_bytes(isa) + TERM_BYTES)
        if p.order == nhwc.ORDER:  # vectors of weights stream by like code
            code += 16.0 * macs / mr
        cycles += 6.0 * (len(parts) - 1)
        return Estimate(shape.oh * (tiles * cycles + 5.0 * len(parts)), code)

    def kernel(self, job: Job) -> Kernel:
        p, shape = typed(Tunables, job.params), sizes(job.graph, job.step)
        x, y = job.inputs[0], job.output
        ep = epilogues.build(job, job.step.anchor.output)
        across = p.order == nhwc.ORDER
        blocks = _blocks(job.graph, shape, p, job.isa)
        mr, width = p.mr, _width(p)
        place = _Place(x, y, across=across, lanes=p.lanes, sw=shape.sw)
        code = render(
            "ops/conv/unrolled.c.j2",
            describe=describe(job),
            signature=signature(job, band=True),
            symbol=job.symbol,
            s=shape,
            x=x,
            y=y,
            parts=[blocks[first:end] for first, end in _parts([b.terms * mr for b in blocks])],
            across=across,
            mr=mr,
            width=width,
            place=place,
            weight=lambda v, w: _weight(job.symbol, v, w),
            bias=lambda v: _bias(job, shape, v, across=across),
            ep=ep,
            residual={k: job.inputs[k] for k in ep.tensors},
            tensor=lambda m, v: lambda k: f"r{k}{offset(place.out(job.inputs[k], m, v))}",
        )
        constants = (*_constants(job, shape, p, blocks), *ep.constants)
        return Kernel(code, constants, band=1, needs_math=ep.needs_math)


@dataclass(frozen=True)
class _Place:
    """Where the elements of a tile lie, from pointers to its first window cell and output."""

    x: Layout
    y: Layout
    across: bool
    lanes: int
    sw: int

    def row(self, row: Row, dh: int) -> int:
        """The first column of a window's row."""
        return row.kh * dh * self.x.row + row.ic * self.x.channel

    def pixel(self, m: int) -> int:
        """From the first window to that of pixel (group) `m`."""
        return m * self.sw * (self.x.col if self.across else self.lanes)

    def loads(self, row: Row, dh: int, dw: int, m: int) -> list[str]:
        """Statements that define t0, t1, ... for the columns of a row, pixels in the lanes."""
        pointer = "x" + offset(self.row(row, dh) + self.pixel(m))
        columns = [c * dw for c in row.columns]
        return tap_loads(f"f32x{self.lanes}", self.lanes, pointer, columns, self.sw)

    def out(self, layout: Layout, m: int, v: Vec) -> int:
        """Where a vector of results lies in a layout."""
        if self.across:
            return m * layout.col + v.start
        return m * self.lanes + v.start * layout.channel


def _width(p: Tunables) -> int:
    """Pixels of a tile."""
    mr = p.mr
    return mr if p.order == nhwc.ORDER else mr * p.lanes


def _counted(graph: Graph, shape: ConvShape) -> NDArray[np.float32]:
    """The weights as far as the code depends on them: where others may come, none is zero."""
    w = np.asarray(graph.constants[shape.weight], dtype=np.float32)
    return np.ones_like(w) if graph.weights_vary else w


def _pattern(graph: Graph, shape: ConvShape) -> NDArray[np.float32]:
    """The same over all input channels."""
    return _expanded(_counted(graph, shape), shape)


def _expanded(w: NDArray[np.float32], shape: ConvShape) -> NDArray[np.float32]:
    """Weights [kh][kw][ic][oc] over all input channels: zero outside the group."""
    if shape.group == 1:
        return w
    full = np.zeros((shape.kh, shape.kw, shape.ic, shape.oc), np.float32)
    ic, oc = shape.ic // shape.group, shape.oc // shape.group
    for g in range(shape.group):
        outputs = slice(g * oc, (g + 1) * oc)
        full[:, :, g * ic : (g + 1) * ic, outputs] = w[..., outputs]
    return full


def _vectors(shape: ConvShape, p: Tunables, isa: Isa) -> tuple[Vec, ...]:
    """What one accumulator per pixel (group) holds: a vector of channels or one channel."""
    lanes = p.lanes
    if p.order == nhwc.ORDER:
        return split_lanes(shape.oc, isa, lanes)
    return tuple(Vec(c, lanes, lanes, c) for c in range(shape.oc))


def _groups(shape: ConvShape, p: Tunables, isa: Isa) -> list[tuple[Vec, ...]]:
    """Vectors in even groups whose accumulators fit into the registers."""
    vectors = _vectors(shape, p, isa)
    mr = p.mr
    spare = 2 + (mr if p.order == planar.ORDER else 1)
    size = max(1, (isa.registers - spare) // mr)
    return [
        vectors[at : at + n]
        for n, count, first in balanced(len(vectors), size)
        for at in range(first, first + n * count, n)
    ]


def _used(full: NDArray[np.float32], v: Vec, *, across: bool) -> NDArray[np.bool_]:
    """[kh][kw][ic]: whether a vector's weights are not all zero."""
    last = v.start + (v.valid if across else 1)
    return np.asarray((full[..., v.start : last] != 0.0).any(axis=-1))


def _kind(p: Tunables) -> tuple[object, object]:
    """The parameters that determine the vectors."""
    return p.order, p.lanes


def _mask(full: NDArray[np.float32], vecs: Sequence[Vec], p: Tunables) -> NDArray[np.bool_]:
    """[kh][kw][ic][vector]: whether the weights of neighbouring vectors are not all zero."""
    across = p.order == nhwc.ORDER
    end = vecs[-1].start + (vecs[-1].valid if across else 1)
    used = full[..., vecs[0].start : end] != 0.0
    if not across:
        return np.asarray(used)
    return np.logical_or.reduceat(used, [v.start - vecs[0].start for v in vecs], axis=-1)


def _in_parts(mask: NDArray[np.bool_], mr: int, most: int) -> bool:
    """Whether tiles of `mr` pixels (or vectors of them) make one part, or a few that are mostly
    zeros.
    """
    used = int(mask.sum())
    return used * mr <= MAX_UNROLLED or (used * mr <= most * MAX_UNROLLED and 2 * used <= mask.size)


def _parts(counts: Sequence[int]) -> list[tuple[int, int]]:
    """Neighbouring blocks with these multiply-accumulates, as (first, end), in even parts."""
    total = sum(counts)
    each = total / max(-(-total // MAX_UNROLLED), 1)
    found: list[tuple[int, int]] = []
    first = done = 0
    for end, count in enumerate(counts, 1):
        done += count
        if end == len(counts) or done + counts[end] / 2 > each * (len(found) + 1):
            found.append((first, end))
            first = end
    return found


def _blocks(graph: Graph, shape: ConvShape, p: Tunables, isa: Isa) -> list[ChannelBlock]:
    """The multiply-accumulates of a tile, in the order in which they are made."""
    full = _pattern(graph, shape)
    across = p.order == nhwc.ORDER
    vary = graph.weights_vary
    blocks: list[ChannelBlock] = []
    packed = 0
    for vecs in _groups(shape, p, isa):
        used = [_used(full, v, across=across) for v in vecs]
        rows: list[Row] = []
        for kh, ic in _walk(shape, across=across):
            columns = tuple(kw for kw in range(shape.kw) if any(u[kh, kw, ic] for u in used))
            terms: list[tuple[Term, ...]] = []
            for kw in columns:
                found: list[Term] = []
                for n, v in enumerate(vecs):
                    if not used[n][kh, kw, ic]:
                        continue
                    if v.lanes > 1 and (across or _splats(isa)):
                        found.append(Term(n, packed))
                        packed += v.lanes
                    elif vary:
                        found.append(Term(n, f"[{packed}]"))
                        packed += 1
                    else:
                        found.append(Term(n, c_float(float(full[kh, kw, ic, v.start]))))
                terms.append(tuple(found))
            if columns:
                rows.append(Row(kh, ic, columns, tuple(terms)))
        blocks.append(ChannelBlock(vecs, tuple(rows)))
    return blocks


def _splats(isa: Isa) -> bool:
    """Whether, with pixels in the lanes, weights are vectors in memory, operands of the product.

    Before AVX, a broadcast is a load and a shuffle, which gcc sometimes prefers.
    """
    return isa.family == "x86" and isa.widest == 4


def _walk(shape: ConvShape, *, across: bool) -> list[tuple[int, int]]:
    """(kh, ic) in the order of memory."""
    if across:
        return [(kh, ic) for kh in range(shape.kh) for ic in range(shape.ic)]
    return [(kh, ic) for ic in range(shape.ic) for kh in range(shape.kh)]


#: How much longer blocks take than counted, without FMA: compilers reorder straight-line code, and
#: copy what multiplications overwrite.
FITTED = 1.2

#: With so few registers, tiles of several vectors of pixels spill them: gcc needs 4.9 to 5.2
#: instructions per multiplication, against 3.4 for tiles of one vector.
FEW_REGISTERS, SPILLED = 8, 1.5


def _block_cycles(shape: ConvShape, p: Tunables, used: NDArray[np.bool_], isa: Isa) -> float:
    """Cycles of a block of which `used` is the `_mask`."""
    mr, terms, vectors = p.mr, int(used.sum()), int(used.shape[-1])
    core = isa.rates(p.lanes)
    work: float = terms * mr * mac_instructions(isa)
    columns = np.asarray(used.any(axis=-1))
    if p.order == planar.ORDER:
        reads, shuffles = _row_loads(shape, p, columns)
        loads = float(mr * reads)
        work += mr * shuffles + (terms if isa.family == "arm" else 0)  # addresses of constants
    else:
        loads = float(mr * np.count_nonzero(columns))
        work += loads * broadcast_work(isa, "set1")[1]
    loads += terms
    if not isa.core.window:
        # Constants are loaded one by one, between products.
        return busy_cycles(isa, work, loads + terms * load_way(isa).waits * core.loads)
    slower = 1.0 if isa.has("fma") else FITTED
    if isa.registers <= FEW_REGISTERS and p.order == planar.ORDER and mr > 1:
        slower *= SPILLED
    return 4.0 * mr * vectors / isa.core.issue + slower * slowest(
        isa,
        terms * mr / core.macs,
        work / core.arithmetic,
        loads / core.loads,
        (work + loads) / isa.core.issue,
        waiting_cycles(isa, terms * mr, isa.registers - mr * vectors - 1),
        core.latency * terms / max(vectors, 1),
    )


def _row_loads(shape: ConvShape, p: Tunables, columns: NDArray[np.bool_]) -> tuple[float, float]:
    """Loads and shuffles of the pixels of all rows; `columns` [kh][kw][ic] says which are used."""
    rows = np.moveaxis(columns, 1, -1).tobytes()
    patterns = (rows[k : k + shape.kw] for k in range(0, len(rows), shape.kw))
    reads = shuffles = 0.0
    for pattern, count in Counter(patterns).items():
        if any(pattern):
            taps = [kw * shape.dw for kw in range(shape.kw) if pattern[kw]]
            found = load_count(p.lanes, taps, shape.sw)
            reads += count * found[0]
            shuffles += count * found[1]
    return reads, shuffles


def _weight(symbol: str, v: Vec, weight: str | int) -> str:
    """A vector of weights."""
    if isinstance(weight, str):
        array = f"{symbol}_w" if weight.startswith("[") else ""
        return f"{v.t}_set1({array}{weight})"
    word = "load_aligned" if v.lanes == 4 else "load"
    return f"{v.t}_{word}({symbol}_w{offset(weight)})"


def _bias(job: Job, shape: ConvShape, v: Vec, *, across: bool) -> str:
    """The initial value of an accumulator."""
    if not shape.bias:
        return f"{v.t}_zero()"
    if across and v.lanes > 1:
        return f"{v.t}_load({job.symbol}_b{offset(v.start)})"
    if job.graph.weights_vary:
        return f"{v.t}_set1({job.symbol}_b[{v.start}])"
    return f"{v.t}_set1({c_float(float(job.constant(shape.bias)[v.start]))})"


def _constants(
    job: Job, shape: ConvShape, p: Tunables, blocks: Sequence[ChannelBlock]
) -> tuple[ConstArray, ...]:
    """Vectors of weights in the order of use, and biases, unless they are literals."""
    across = p.order == nhwc.ORDER
    vary = job.graph.weights_vary
    if not vary and (not (across or _splats(job.isa)) or p.lanes == 1):
        return ()
    full = _expanded(np.asarray(job.graph.constants[shape.weight], np.float32), shape)
    parts: list[NDArray[np.float32]] = []
    for block in blocks:
        for row in block.rows:
            for kw, terms in zip(row.columns, row.terms, strict=True):
                taken = full[row.kh, kw, row.ic]
                parts += [_stored(taken, block.vecs[t.vec], t, across=across) for t in terms]
    arrays = []
    if parts:  # else all weights are zero
        comment = "weights, in the order of use" if vary else "vectors of weights that are not zero"
        arrays.append(ConstArray(f"{job.symbol}_w", np.concatenate(parts), comment))
    if shape.bias and (across or vary):
        arrays.append(padded_bias(job, shape))
    return tuple(arrays)


def _stored(taken: NDArray[np.float32], v: Vec, term: Term, *, across: bool) -> NDArray[np.float32]:
    """A term's weight as it lies in memory."""
    if isinstance(term.weight, str):
        return taken[v.start : v.start + 1]
    return _padded(taken, v) if across else np.full(v.lanes, taken[v.start], np.float32)


def _padded(weights: NDArray[np.float32], v: Vec) -> NDArray[np.float32]:
    vector = np.zeros(v.lanes, np.float32)
    vector[: v.valid] = weights[v.start : v.start + v.valid]
    return vector
