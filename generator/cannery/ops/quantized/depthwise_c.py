"""Depthwise convolution of bytes: channels in the lanes, sums as whole numbers in float32.

No sum exceeds 2^24 (whoever makes the op proves it), so each of these products and sums is exact,
in any order. So integers become floats as they are loaded, and neighbouring pixels share their
loads. Small processors add in int32.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cannery.ctext.environment import offset
from cannery.ir.graph import Graph
from cannery.ops.conv.depthwise import window_columns
from cannery.ops.conv.geometry import ConvShape
from cannery.ops.quantized.arithmetic import BYTES, by_integers, f32
from cannery.ops.quantized.codes import Decoded, codes_of
from cannery.ops.quantized.conv import QuantizedConv
from cannery.ops.quantized.depthwise import MAX_TAPS, Places, QuantizedDepthwise, pixel_choices
from cannery.ops.quantized.finish import AnyFinish, make_finish
from cannery.ops.quantized.geometry import sizes
from cannery.ops.quantized.matmul_n import FINISH
from cannery.ops.shared.axes import balanced
from cannery.ops.shared.epilogue import channel_padding, padded_channels
from cannery.ops.shared.function import describe, signature
from cannery.ops.shared.gemm import VectorBlock
from cannery.ops.shared.lanes import Vec, vector_runs
from cannery.ops.shared.tiles import vector_count, widths
from cannery.schedule.params import as_params, typed
from cannery.schedule.program import Step
from cannery.schedule.schedule import ConstArray, Estimate, Job, Kernel, Params, schedule
from cannery.target.isa import Isa

#: Tiles for Helium's eight registers: weights need only one, as each is loaded for all pixels.
WIDENED_PIXELS = (1, 2, 3, 4, 5)


@dataclass(frozen=True)
class Tunables:
    """Tiles of `px` pixels; vectors no wider than `lanes`."""

    lanes: int
    px: int


@schedule
@dataclass(frozen=True)
class QuantizedDepthwiseC(QuantizedDepthwise):
    """See the module docstring."""

    id = "quantized.depthwise_c"
    accepts = BYTES

    def candidates(self, graph: Graph, step: Step, isa: Isa) -> Sequence[Params]:
        s = sizes(graph, step)
        found = (
            Tunables(lanes, min(px, s.ow)) for lanes in _widths(s, isa) for px in _pixels(s, isa)
        )
        return list(map(as_params, dict.fromkeys(found)))

    def cost(self, graph: Graph, step: Step, params: Params, isa: Isa) -> Estimate:
        s, p = sizes(graph, step), typed(Tunables, params)
        runs = vector_runs(s.oc, isa, p.lanes)
        vectors = vector_count([v for v, count in runs for _ in range(count)], isa)
        cycles = code = 0.0
        for px, count, _ in balanced(s.ow, p.px):
            loads = 2.0 * s.kh * len(window_columns(s, px))
            work = s.taps * px * (1.0 if isa.has("fma") else 2.0) + FINISH * px
            cycles += count * max((loads + work) / isa.rates(p.lanes).arithmetic, s.taps * 4.0 / px)
            code += 6.0 * (loads + work)
        return Estimate(cycles * vectors * s.oh, code)

    def kernel(self, job: Job) -> Kernel:
        op, s = job.step.anchor.op, sizes(job.graph, job.step)
        p = typed(Tunables, job.params)
        assert isinstance(op, QuantizedConv)
        w = job.graph.constants[s.weight].reshape(s.taps, s.oc)
        finish = make_finish(job, op, w, np.zeros(s.oc, np.int64))
        codes = codes_of(job.graph, job.step.anchor, job.isa, job.symbol)
        taps = Decoded.of(codes, _weights(job, w))
        places = Places(s, job.inputs[0], job.output, finish.y)
        lines = [taps.before] if taps.before else []
        lines += places.rows()
        for px, count, first in balanced(s.ow, p.px):
            lines.append(f"for (int t = 0; t < {count}; ++t) {{")
            for v, times in vector_runs(s.oc, job.isa, p.lanes):
                channel = f"{v.start} + i * {v.lanes}" if times > 1 else str(v.start)
                lines += [
                    f"for (int i = 0; i < {times}; ++i) {{" if times > 1 else "{",
                    f"const int oc = {channel};",
                    *places.pixels(px, first),
                    *_tile(job, s, finish, v.at_zero, px, taps.name),
                    "}",
                ]
            lines.append("}")
        body = "\n".join(f"    {line}" for line in (*lines, "}"))
        head = f"{describe(job)}\n{signature(job, scratch=taps.scratch_bytes > 0, band=True)}"
        code = f"{finish.functions}{head}\n{{\n{body}\n}}\n"
        return Kernel(
            code, (*taps.constants, *finish.constants), scratch_bytes=taps.scratch_bytes, band=1
        )


def _widths(s: ConvShape, isa: Isa) -> Sequence[int]:
    """The widths of vectors. Helium's widening loads only make whole ones, of which masks leave out
    the channels that do not exist.
    """
    return isa.lanes[-1:] if isa.has("mve") else widths(s.oc, isa)


def _pixels(s: ConvShape, isa: Isa) -> Sequence[int]:
    """The pixels of tiles that fit the registers."""
    if isa.has("mve"):
        return WIDENED_PIXELS if s.taps <= MAX_TAPS else WIDENED_PIXELS[:1]
    return [px for px in pixel_choices(s) if px < isa.registers // 2]


def _weights(job: Job, w: NDArray[Any]) -> ConstArray:
    """w[tap, channel] as they are loaded. Helium widens bytes, and its loads reach only the 127
    bytes after an address, so the taps of each four channels
    follow each other there.
    """
    name = f"{job.symbol}_w"
    if job.isa.has("mve"):
        taps, channels = w.shape
        fours = np.pad(w, ((0, 0), (0, -channels % 4))).reshape(taps, -1, 4)
        packed = np.ascontiguousarray(fours.transpose(1, 0, 2))
        return ConstArray(name, packed.ravel(), "weights [channel / 4][tap][4]")
    padded = padded_channels(w if by_integers(job.isa) else f32(w), job.isa)
    return ConstArray(name, padded.ravel(), "weights [tap][channel], padded")


def _tile(job: Job, s: ConvShape, finish: AnyFinish, v: Vec, px: int, taps: str) -> list[str]:
    """Statements of `px` pixels of one vector of channels, with the weights at `taps`."""
    if job.isa.has("mve"):
        return _widened_tile(job, s, finish, v, px, taps)
    t, x, y, pitch = v.t, job.inputs[0], job.output, s.oc + channel_padding(job.isa)
    integers = by_integers(job.isa)
    begin = f"{t}_zero()"
    if integers:
        t, begin = "int32_t", f"{finish.start}[oc]" if finish.start else "0"
    elif finish.start:
        begin = f"{t}_from_i32(i32x{v.lanes}_load({finish.start} + oc))"
    lines = [f"const {t} begin = {begin};", *(f"{t} a{m} = begin;" for m in range(px))]
    for r in range(s.kh):
        for column in window_columns(s, px):
            at = f"xp{offset(r * s.dh * x.row + column.at * x.col)}"
            lines += ["{", f"const {t} u = {f'*({at})' if integers else v.load(at, x.dtype)};"]
            for m, tap in column.users:
                w = f"{taps} + oc{offset((r * s.kw + tap) * pitch)}"
                added = f"a{m} + u * *({w})" if integers else f"{t}_fma(u, {t}_load({w}), a{m})"
                lines.append(f"a{m} = {added};")
            lines.append("}")
    if job.isa.is_small:
        pointers = [f"yp{offset(m * y.col)}" for m in range(px)]
        return [*lines, *finish.column([f"a{m}" for m in range(px)], "oc", pointers)]
    for m in range(px):
        stored = finish.lines(v, f"a{m}", "oc", f"yp{offset(m * y.col)}", floats=not integers)
        lines += ["{", *stored, "}"]
    return lines


def _widened_tile(
    job: Job, s: ConvShape, finish: AnyFinish, v: Vec, px: int, taps: str
) -> list[str]:
    """The same for Helium: `wp` walks along the weights, and `p` along a row of inputs."""
    t, x, y = v.t, job.inputs[0], job.output
    begin = f"{t}_zero()"
    if finish.start:
        begin = f"{t}_from_i32(i32x{v.lanes}_load({finish.start} + oc))"
    lines = [f"const int8_t *wp = {taps} + oc * {s.taps};"]
    lines += [f"{t} a{m}_0 = {begin if m == 0 else 'a0_0'};" for m in range(px)]
    for r in range(s.kh):
        lines += ["{", f"const {x.dtype.c_name} *p = xp{offset(r * s.dh * x.row)};"]
        lines += [f"const {t} w{k} = cannery_mve_next_four_i8(&wp);" for k in range(s.kw)]
        at = 0
        for column in window_columns(s, px):
            if column.at > at:
                lines.append(f"p += {(column.at - at) * x.col};")
            at = column.at
            lines.append(f"const {t} u{at} = {v.load('p', x.dtype)};")
            for m, tap in column.users:
                lines.append(f"a{m}_0 = {t}_fma(u{at}, w{tap}, a{m}_0);")
        lines.append("}")
    block = VectorBlock((v,), 0, v.lanes, 0, 1)
    return [*lines, *finish.tile(block, px, "oc", "yp", y.col, kept=True, floats=True)]
