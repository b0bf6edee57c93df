"""Matrix product of integers with constant weights: outputs in the lanes, see `groups.py`.

`outside` is the outer loop: `blocks` keeps a block of weights in the cache, `rows` the input.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from cannery.ctext.environment import render
from cannery.ir.graph import Graph
from cannery.ops.matmul import product as products
from cannery.ops.quantized.codes import codes_of, packed_weights, why_not_codes
from cannery.ops.quantized.finish import make_finish
from cannery.ops.quantized.geometry import why_not_product
from cannery.ops.quantized.groups import (
    Groups,
    in_groups,
    is_rolled,
    is_single,
    matrix_pays,
    pack_groups,
    tiles_for,
    unrolled,
)
from cannery.ops.quantized.matmul import QuantizedMatMul
from cannery.ops.quantized.ordered import orders, put_in_order
from cannery.ops.quantized.ways import choose_way
from cannery.ops.shared import gemm
from cannery.ops.shared.axes import balanced, nested_pointer
from cannery.ops.shared.function import describe, parameter_names, signature
from cannery.ops.shared.gemm import VectorBlock
from cannery.schedule.cost import reread_cycles
from cannery.schedule.params import as_params, typed
from cannery.schedule.program import Step
from cannery.schedule.schedule import ConstArray, Estimate, Job, Kernel, Params, Schedule, schedule
from cannery.target.isa import Isa

#: Instructions that follow the sums of a vector.
FINISH = 8.0


@dataclass(frozen=True)
class Tunables:
    """A tile of `mr` rows x `nr` vectors; `unroll` and `outside` as in `matmul.dense_n`, `order` as
    in `ordered.py`.
    """

    lanes: int
    mr: int
    nr: int
    unroll: int
    outside: str
    order: str = ""


@schedule
@dataclass(frozen=True)
class QuantizedMatMulN(Schedule):
    """See the module docstring."""

    id = "quantized.matmul_n"
    version = 2

    def why_not(self, graph: Graph, step: Step, isa: Isa) -> str:
        if reason := why_not_product(graph, step):
            return reason
        return "" if is_single(isa) else why_not_codes(graph, step.anchor, isa)

    def candidates(self, graph: Graph, step: Step, isa: Isa) -> Sequence[Params]:
        _, n, rows = _sizes(graph, step)
        found, dtype = list[Tunables](), graph.types[step.anchor.inputs[0]].dtype
        unroll = unrolled(isa)[-1]
        for lanes in gemm.widths(n, isa):
            vectors = -(-n // lanes)
            for mr, nr in tiles_for(isa, dtype):
                both = rows > mr and vectors > nr
                tile = (lanes, min(mr, rows), min(nr, vectors), unroll)
                for outside in ("blocks", "rows") if both else ("blocks",):
                    found += [Tunables(*tile, outside, o) for o in ("", *orders(isa, dtype, lanes))]
        return [as_params(t) for t in dict.fromkeys(found)]

    def cost(self, graph: Graph, step: Step, params: Params, isa: Isa) -> Estimate:
        t = typed(Tunables, params)
        k, n, rows = _sizes(graph, step)
        groups = _groups(graph, step, isa, t)
        blocks = make_blocks(n, t.lanes, t.nr, isa)
        cycles = code = 0.0
        for mr, tiles, _ in balanced(rows, t.mr):
            for block in blocks:
                one = groups.tile_cycles(isa, mr, len(block.vecs), k)
                cycles += tiles * block.count * (one + FINISH * mr * len(block.vecs) / 2.0)
                code += 8.0 * mr * len(block.vecs) * (t.unroll + FINISH)
        tiles = -(-rows // t.mr)
        width = groups.dtype.bytes
        size = float(width * k * sum(b.width * b.count for b in blocks))
        if t.outside == "rows" or tiles == 1:
            cycles += reread_cycles(isa, size, tiles)
        else:
            cycles += reread_cycles(isa, float(width * k * rows), sum(b.count for b in blocks))
        return Estimate(cycles, code)

    def kernel(self, job: Job) -> Kernel:
        t = typed(Tunables, job.params)
        op, anchor = job.step.anchor.op, job.step.anchor
        assert isinstance(op, QuantizedMatMul)
        k, n, _ = _sizes(job.graph, job.step)
        codes = codes_of(job.graph, anchor, job.isa, job.symbol)
        g = replace(_groups(job.graph, job.step, job.isa, t), codes=codes)
        a = products.operand(job, anchor.inputs[0], transposed=False, is_b=False)
        b = products.operand(job, anchor.inputs[1], transposed=False, is_b=True)
        nest = products.nest(job, a, b, ())
        blocks = make_blocks(n, t.lanes, t.nr, job.isa)
        tiles = balanced(nest.rows.extent, t.mr)
        groups, rows = [block.count for block in blocks], [count for _, count, _ in tiles]
        cut = products.Cut.of(job, groups, rows)
        w = job.graph.constants[anchor.inputs[1]]
        assert g.way
        finish = make_finish(job, op, w, g.way.starts(w, g.dtype))
        code = render(
            "ops/quantized/matmul_n.c.j2",
            describe=describe(job),
            signature=signature(job, units=cut.units > 0, stops=job.rows_stop),
            stops=job.rows_stop, cut=cut, groups=groups, rows=rows, nest=nest, k=k,
            g=g, whole=g.padded(k),
            nested_pointer=nested_pointer, tiles=tiles, blocks=blocks, a=a, b=b, y=job.output,
            rows_outside=t.outside == "rows", unroll=t.unroll,
            finish=finish, names=parameter_names(job), rolled=is_rolled(job.isa, k, t.nr),
        )  # fmt: skip
        code = put_in_order(code, job.isa, t.order)
        packed = pack_groups(w, blocks, job.isa, size=g.size)
        weights = ConstArray(b.pointer, packed, f"weights [block][k / {g.size}][vector][groups]")
        return Kernel(
            finish.functions + code, (*packed_weights(codes, weights), *finish.constants),
            whole=True, units=cut.units, stops=job.rows_stop,
        )  # fmt: skip


def make_blocks(n: int, lanes: int, nr: int, isa: Isa) -> tuple[VectorBlock, ...]:
    """Columns cut into blocks of vectors."""
    return gemm.make_blocks(n, isa, lanes, nr, 1)


def _groups(graph: Graph, step: Step, isa: Isa, t: Tunables) -> Groups:
    x, w = step.anchor.inputs[:2]
    k, dtype = graph.constants[w].shape[0], graph.types[x].dtype
    rows = t.mr if t.lanes == 4 and matrix_pays(k, 1, t.nr) else 1
    way = choose_way(graph, x, in_groups(graph.constants[w]), isa, rows)
    return Groups(dtype, way, t.order)


def _sizes(graph: Graph, step: Step) -> tuple[int, int, int]:
    """K, N and the rows of all leading axes."""
    k, n = graph.types[step.anchor.inputs[1]].shape
    return k, n, products.row_count(graph, step)
