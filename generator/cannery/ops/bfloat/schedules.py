"""Convolutions and matrix products by the instructions for bfloat16, sums in float32.

Inputs are float32. A panel of rows (pixels with their windows, rows of a matrix) is rounded into
scratch memory, and meets all blocks of weights there; weights are rounded and packed beforehand.
`way`: dot multiplies pairs of neighbouring inputs by lane (BFDOT: eight products), matrix a pair of
rows and a pair of columns, four inputs of each (BFMMLA: sixteen products). Both add in the same
order. Two bfloat16 of weights are together the bits of one float, see vec_bfloat.h.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from cannery.ctext.environment import offset, render
from cannery.ir.bfloat import paired
from cannery.ir.graph import Graph
from cannery.layouts import Halo
from cannery.ops.bfloat.work import Work, conv_work, matmul_work, padded_runs, runs_of
from cannery.ops.conv.geometry import padded_bias, sizes, why_not_dense
from cannery.ops.matmul import product as products
from cannery.ops.shared import epilogue as epilogues
from cannery.ops.shared import gemm
from cannery.ops.shared.axes import balanced, even_size
from cannery.ops.shared.epilogue import Epilogue, padded_channels
from cannery.ops.shared.function import describe, signature
from cannery.ops.shared.gemm import Gemm, VectorBlock
from cannery.ops.shared.tiles import tile_registers
from cannery.schedule.cost import reread_cycles, tile_cycles
from cannery.schedule.params import as_params, typed
from cannery.schedule.program import Step
from cannery.schedule.schedule import ConstArray, Estimate, Job, Kernel, Params, Schedule, schedule
from cannery.target.isa import Isa

#: Tiles of `dot`: rows and vectors of columns.
TILES = ((4, 4), (6, 4), (8, 3), (8, 2), (12, 2), (4, 6), (2, 8), (16, 1), (24, 1))

#: Tiles of `matrix`: pairs of rows and vectors of columns, of two registers each.
MATRIX_TILES = ((4, 3), (3, 4), (6, 2), (4, 2), (2, 4), (2, 6), (1, 8), (1, 4), (8, 1), (12, 1))

#: Bytes of a panel.
PANELS = (8 * 1024, 32 * 1024)

#: Cycles of rounding one input.
ROUNDING = 0.3


@dataclass(frozen=True)
class Tunables:
    """A tile of `mr` rows x `nr` vectors with `split` sets of sums; `panel` is in bytes."""

    way: str
    mr: int
    nr: int
    split: int
    panel: int

    @property
    def matrix(self) -> bool:
        return self.way == "matrix"

    @property
    def multiple(self) -> int:
        """Inputs that are multiplied at a time."""
        return 4 if self.matrix else 8


@dataclass(frozen=True)
class Sizes:
    """`rows` rows of `runs` runs of `run` inputs each times columns."""

    rows: int
    runs: int
    run: int
    columns: int

    def depth(self, t: Tunables) -> int:
        """Inputs of a row in scratch memory."""
        return -(-self.runs * (-(-self.run // 4) * 4) // t.multiple) * t.multiple


@dataclass(frozen=True)
class BfloatProduct(Schedule):
    """What convolutions and matrix products share."""

    computes_bfloat = True

    @abstractmethod
    def sizes(self, graph: Graph, step: Step) -> Sizes:
        """The sizes of a step that is such a product."""

    @abstractmethod
    def work(self, job: Job, ep: Epilogue) -> Work:
        """The rows of a job."""

    @abstractmethod
    def matrix(self, job: Job) -> NDArray[np.float32]:
        """The weights as B[K,N]."""

    @abstractmethod
    def bias(self, job: Job) -> ConstArray:
        """`<symbol>_b`: the bias, padded."""

    def candidates(self, graph: Graph, step: Step, isa: Isa) -> Sequence[Params]:
        return [as_params(t) for t in dict.fromkeys(_space(self.sizes(graph, step)))]

    def cost(self, graph: Graph, step: Step, params: Params, isa: Isa) -> Estimate:
        t, s = typed(Tunables, params), self.sizes(graph, step)
        blocks, depth = _blocks(s.columns, t, isa, s.depth(t)), s.depth(t)
        tiles = balanced(s.rows, t.mr)
        g = _gemm(t, depth)
        products_ = _matrix_cycles(isa, tiles, blocks, depth) if t.matrix else (
            gemm.product_cycles(isa, g, tiles, blocks)
        )  # fmt: skip
        columns = sum(block.width * block.count for block in blocks)
        panels = -(-s.rows // _panel(s.rows, depth, t.mr, t.panel))
        weights = reread_cycles(isa, 2.0 * depth * columns, panels)
        again = ROUNDING * depth * s.rows
        return Estimate(products_ + weights + again, gemm.code_size(g, tiles, blocks))

    def constant_bytes(self, graph: Graph, step: Step, params: Params, isa: Isa) -> float:
        return super().constant_bytes(graph, step, params, isa) / 2

    def kernel(self, job: Job) -> Kernel:
        t = typed(Tunables, job.params)
        columns = self.sizes(job.graph, job.step).columns
        busy = tile_registers(t.mr, [block.vecs for block in _blocks(columns, t, job.isa, 0)])
        ep = epilogues.build(job, job.step.anchor.output, busy=busy)
        work = self.work(job, ep)
        depth = Sizes(work.total, len(work.runs), work.run, columns).depth(t)
        blocks = _blocks(columns, t, job.isa, depth)
        mr = even_size(work.total, t.mr)
        mr = min(-(-mr // 2) * 2, t.mr) if t.matrix else mr
        panel = _panel(work.total, depth, mr, t.panel)
        band = work.image
        code = render(
            "ops/bfloat/product.c.j2",
            describe=describe(job), signature=signature(job, scratch=True, band=band),
            symbol=job.symbol, work=work, ep=ep, blocks=blocks, g=_gemm(t, depth),
            matrix=t.matrix, depth=depth, per_row=depth // 2, slot=-(-work.run // 4) * 4,
            run=work.run, mr=mr, rest=work.total % mr, panel=panel,
            biases=lambda block: [f"f32x4_load(bk{offset(v.start)})" for v in block.vecs],
        )  # fmt: skip
        constants = [self._weights(job, t, blocks, len(work.runs)), self.bias(job), *ep.constants]
        if len(work.runs) > 1:
            taps = np.array(work.runs, np.int32)
            constants.append(ConstArray(f"{job.symbol}_taps", taps, "input offsets"))
        scratch = 4 * (-(-panel // 2) * 2 * (depth // 2) + 4)
        return Kernel(
            code, tuple(constants), scratch, int(band), ep.needs_math, whole=not band,
            needs_bfloat=True,
        )  # fmt: skip

    def _weights(
        self, job: Job, t: Tunables, blocks: Sequence[VectorBlock], runs: int
    ) -> ConstArray:
        pairs = paired(padded_runs(self.matrix(job), runs, t.multiple))
        packed = gemm.pack_blocks(pairs, blocks)
        order = "[block][k/2][lanes]"
        if t.matrix:
            packed, order = _in_fours(packed, len(pairs), blocks), "[block][k/4][lanes][2]"
        comment = f"weights {order}, each the bits of two bfloat16"
        return ConstArray(f"{job.symbol}_w", packed, comment)


@schedule
@dataclass(frozen=True)
class BfloatConv(BfloatProduct):
    """Convolutions, channels last in and out."""

    id = "bfloat.conv"

    def why_not(self, graph: Graph, step: Step, isa: Isa) -> str:
        if not isa.has("bfloat"):
            return "no products of bfloat16"
        return why_not_dense(graph, step) or epilogues.why_not(step)

    def halo(self, graph: Graph, step: Step) -> Halo:
        return sizes(graph, step).halo

    def sizes(self, graph: Graph, step: Step) -> Sizes:
        shape = sizes(graph, step)
        return Sizes(shape.oh * shape.ow, *runs_of(shape, contiguous=True), shape.oc)

    def work(self, job: Job, ep: Epilogue) -> Work:
        return conv_work(job, ep)

    def matrix(self, job: Job) -> NDArray[np.float32]:
        shape = sizes(job.graph, job.step)
        return job.constant(shape.weight).reshape(-1, shape.oc)

    def bias(self, job: Job) -> ConstArray:
        return padded_bias(job, sizes(job.graph, job.step))


@schedule
@dataclass(frozen=True)
class BfloatMatMul(BfloatProduct):
    """Products with a constant matrix."""

    id = "bfloat.matmul"

    def why_not(self, graph: Graph, step: Step, isa: Isa) -> str:
        if not isa.has("bfloat"):
            return "no products of bfloat16"
        reason = epilogues.why_not(step) or products.dense_weights(graph, step)
        if reason:
            return reason
        return "transposed" if products.sizes(graph, step).transpose_a else ""

    def sizes(self, graph: Graph, step: Step) -> Sizes:
        p = products.sizes(graph, step)
        return Sizes(products.row_count(graph, step), 1, p.k, p.n)

    def work(self, job: Job, ep: Epilogue) -> Work:
        return matmul_work(job, ep)

    def matrix(self, job: Job) -> NDArray[np.float32]:
        return products.weight_matrix(job, products.sizes(job.graph, job.step))

    def bias(self, job: Job) -> ConstArray:
        p = products.sizes(job.graph, job.step)
        bias = job.constant(p.bias).reshape(-1) if p.bias else np.zeros(p.n, np.float32)
        return ConstArray(f"{job.symbol}_b", padded_channels(bias), "bias [n], padded")


def _space(s: Sizes) -> Iterator[Tunables]:
    """All combinations."""
    vectors = -(-s.columns // 4)
    if s.rows == 1:
        for nr, split in gemm.SINGLE_ROW:
            yield Tunables("dot", 1, min(nr, vectors), split, PANELS[0])
        return
    for panel in PANELS:
        for mr, nr in TILES:
            yield Tunables("dot", min(mr, s.rows), min(nr, vectors), 1, panel)
        for pairs, nr in MATRIX_TILES:
            mr = min(2 * pairs, -(-s.rows // 2) * 2)
            yield Tunables("matrix", mr, min(nr, vectors), 1, panel)


def _blocks(columns: int, t: Tunables, isa: Isa, depth: int) -> tuple[VectorBlock, ...]:
    return gemm.make_blocks(columns, isa, 4, t.nr, depth // 2)


def _gemm(t: Tunables, depth: int) -> Gemm:
    return Gemm(depth // 2, depth // 2, 1, 0, 4, t.split, "lane", word="dot")


def _panel(rows: int, depth: int, mr: int, most: int) -> int:
    """Rows of a panel: whole tiles of `mr`, in even panels of about `most` bytes."""
    return even_size(-(-rows // mr), max(1, most // (2 * depth) // mr)) * mr


def _matrix_cycles(
    isa: Isa, tiles: Sequence[tuple[int, int, int]], blocks: Sequence[VectorBlock], depth: int
) -> float:
    """Cycles of all tiles by products of matrices, and of their ends."""
    one = partial(tile_cycles, isa, k=depth / 4, lanes=4)
    return sum(
        count * block.count * (
            one(-(-mr // 2), 2 * len(block.vecs), -(-mr // 2) + 2 * len(block.vecs))
            + depth / 2 + 2.5 * mr * len(block.vecs) + 8.0
        )
        for mr, count, _ in tiles
        for block in blocks
    )  # fmt: skip


def _in_fours(
    packed: NDArray[np.float32], depth: int, blocks: Sequence[VectorBlock]
) -> NDArray[np.float32]:
    """[block][k/2][lanes] as [block][k/4][lanes][2]: four inputs of a column side by side."""
    parts, start = [], 0
    for block in blocks:
        size = depth * block.width
        for _ in range(block.count):
            panel = packed[start : start + size].reshape(depth // 2, 2, block.width)
            parts.append(panel.transpose(0, 2, 1).reshape(-1))
            start += size
    return np.concatenate(parts)
