"""Depthwise convolution of bytes on Arm: eight channels in the lanes, products in int16.

A product of bytes fits int16, and so do sums of a few: those of a chain of neighbouring taps, as
long as the weights prove it (sum of |w| times the largest input, for every channel). Each chain is
then added to int32, so sums are exact. Channels beyond the last eight overlap their neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cannery.ctext.environment import offset
from cannery.ir.graph import Graph
from cannery.ir.tensor import DType
from cannery.ops.conv.depthwise import window_columns
from cannery.ops.conv.geometry import ConvShape
from cannery.ops.quantized.arithmetic import BYTES
from cannery.ops.quantized.conv import QuantizedConv
from cannery.ops.quantized.depthwise import Places, QuantizedDepthwise, pixel_choices
from cannery.ops.quantized.finish import AnyFinish, make_finish
from cannery.ops.quantized.geometry import sizes
from cannery.ops.quantized.groups import FLIP, Way
from cannery.ops.quantized.matmul_n import FINISH
from cannery.ops.quantized.ways import value_range
from cannery.ops.shared.axes import balanced
from cannery.ops.shared.function import describe, signature
from cannery.ops.shared.gemm import VectorBlock
from cannery.ops.shared.lanes import Vec
from cannery.schedule.params import as_params, typed
from cannery.schedule.program import Step
from cannery.schedule.schedule import ConstArray, Estimate, Job, Kernel, Params, schedule
from cannery.target.isa import Isa

#: Channels in the lanes.
CHANNELS = 8

#: Tiles have fewer pixels than this fraction of the registers: each has two sums and a chain.
REGISTERS_PER_PIXEL = 4


@dataclass(frozen=True)
class Tunables:
    """Tiles of `px` pixels."""

    px: int


@schedule
@dataclass(frozen=True)
class QuantizedDepthwiseBytes(QuantizedDepthwise):
    """See the module docstring."""

    id = "quantized.depthwise_bytes"
    accepts = BYTES

    def why_not(self, graph: Graph, step: Step, isa: Isa) -> str:
        if not isa.has("lane_fma"):
            return "not Arm with NEON"
        if reason := super().why_not(graph, step, isa):
            return reason
        return "" if sizes(graph, step).oc >= CHANNELS else f"fewer than {CHANNELS} channels"

    def candidates(self, graph: Graph, step: Step, isa: Isa) -> Sequence[Params]:
        s = sizes(graph, step)
        most = isa.registers // REGISTERS_PER_PIXEL
        found = (Tunables(min(px, s.ow)) for px in pixel_choices(s) if px <= most)
        return list(map(as_params, dict.fromkeys(found)))

    def cost(self, graph: Graph, step: Step, params: Params, isa: Isa) -> Estimate:
        s, p = sizes(graph, step), typed(Tunables, params)
        chains = chains_of(_weights(graph, s), _largest(graph, step))
        cycles = code = 0.0
        for px, count, _ in balanced(s.ow, p.px):
            loads = s.kh * len(window_columns(s, px)) + s.taps
            work = px * (s.taps + 2.0 * (len(chains) + FINISH))
            cycles += count * (loads + work) / isa.rates().arithmetic
            code += 4.0 * (loads + work)
        return Estimate(cycles * len(_starts(s)) * s.oh, code)

    def kernel(self, job: Job) -> Kernel:
        op, s = job.step.anchor.op, sizes(job.graph, job.step)
        p = typed(Tunables, job.params)
        assert isinstance(op, QuantizedConv)
        x, w = job.inputs[0], _weights(job.graph, s)
        way = Way("dot4", flip=x.dtype is DType.UINT8)
        finish = make_finish(job, op, w, way.starts(w, x.dtype))
        tile = _Tile(job, s, finish, chains_of(w, _largest(job.graph, job.step)), way.flip)
        packed = np.concatenate([w[:, start : start + CHANNELS].ravel() for start in _starts(s)])
        weights = ConstArray(f"{job.symbol}_w", packed, "weights [eight channels][tap][channel]")
        places = Places(s, x, job.output, finish.y)
        lines = places.rows()
        for px, count, first in balanced(s.ow, p.px):
            lines.append(f"for (int t = 0; t < {count}; ++t) {{")
            lines.append(f"for (int i = 0; i < {len(_starts(s))}; ++i) {{")
            last = s.oc - CHANNELS
            beyond = f"i * {CHANNELS} < {last} ? i * {CHANNELS} : {last}"
            lines += [
                f"const int oc = {beyond if s.oc % CHANNELS else f'i * {CHANNELS}'};",
                f"const int8_t *wp = {job.symbol}_w + i * {CHANNELS * s.taps};",
                *places.pixels(px, first),
                *tile.lines(px),
                "}",
                "}",
            ]
        body = "\n".join(f"    {line}" for line in (*lines, "}"))
        head = f"{describe(job)}\n{signature(job, band=True)}"
        return Kernel(f"{head}\n{{\n{body}\n}}\n", (weights, *finish.constants), band=1)


def _weights(graph: Graph, s: ConvShape) -> NDArray[Any]:
    """w[tap, channel]."""
    return graph.constants[s.weight].reshape(s.taps, s.oc)


def _starts(s: ConvShape) -> list[int]:
    """The first channel of each eight; the last ones may overlap their neighbours."""
    return [min(start, s.oc - CHANNELS) for start in range(0, s.oc, CHANNELS)]


def _largest(graph: Graph, step: Step) -> int:
    """The largest magnitude of an input, as a signed byte."""
    value = step.anchor.inputs[0]
    if graph.types[value].dtype is DType.UINT8 or graph.weights_vary:
        return FLIP
    return max(map(abs, value_range(graph, value)))


def chains_of(w: NDArray[Any], largest: int) -> list[range]:
    """The taps cut into runs whose products with inputs up to +-`largest` add up in int16, for the
    weights w[tap, channel].
    """
    sizes_ = np.abs(w.astype(np.int64)) * largest
    chains, first = list[range](), 0
    for tap in range(1, len(w) + 1):
        if tap == len(w) or sizes_[first : tap + 1].sum(axis=0).max() > np.iinfo(np.int16).max:
            chains.append(range(first, tap))
            first = tap
    return chains


@dataclass(frozen=True)
class _Tile:
    """Renders tiles of eight channels at `xp`, `wp` and `yp`."""

    job: Job
    s: ConvShape
    finish: AnyFinish
    chains: Sequence[range]
    flip: bool

    def lines(self, px: int) -> list[str]:
        """Statements of `px` pixels."""
        s, x = self.s, self.job.inputs[0]
        cast = "(const int8_t *)" if self.flip else ""
        lines = [f"i32x4 a{m}_{n} = {self._start(n)};" for m in range(px) for n in range(2)]
        lines += [f"p16x4 c{m};" for m in range(px)]
        for r in range(s.kh):
            lines.append("{")
            for tap in range(s.kw):
                at = f"wp{offset((r * s.kw + tap) * CHANNELS)}"
                lines.append(f"const b8x8 w{tap} = b8x8_load({at});")
            for column in window_columns(s, px):
                at = f"xp{offset(r * s.dh * x.row + column.at * x.col)}"
                load = f"b8x8_load({cast}({at}))"
                lines += ["{", f"const b8x8 u = {f'b8x8_flip({load})' if self.flip else load};"]
                # The first taps of a pixel come first: columns ascend.
                for m, tap in column.users:
                    lines += self._product(m, r * s.kw + tap, f"w{tap}")
                lines.append("}")
            lines.append("}")
        vecs = (Vec(0, 4, 4, 0), Vec(4, 4, 4, 4))
        block = VectorBlock(vecs, 0, CHANNELS, 0, 1)
        return [*lines, *self.finish.tile(block, px, "oc", "yp", self.job.output.col, kept=True)]

    def _start(self, n: int) -> str:
        start = self.finish.start
        return f"i32x4_load({start} + oc{offset(4 * n)})" if start else "i32x4_zero()"

    def _product(self, m: int, tap: int, w: str) -> list[str]:
        """Statements that add a product to the chain of pixel m, and that to the sums at its
        end.
        """
        chain = next(c for c in self.chains if tap in c)
        begin, more = f"p16x4_mul_bytes(u, {w})", f"p16x4_mla_bytes(u, {w}, c{m})"
        lines = [f"c{m} = {begin if tap == chain.start else more};"]
        if tap == chain.stop - 1:
            lines += [
                f"a{m}_0 = i32x4_add_first(c{m}, a{m}_0);",
                f"a{m}_1 = i32x4_add_second(c{m}, a{m}_1);",
            ]
        return lines
