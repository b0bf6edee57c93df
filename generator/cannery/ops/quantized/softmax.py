"""Softmax along the last axis, specified to the last bit, for the end of quantised networks.

The exponentials are float32 without fused operations, then integers: their sum does not depend on
the order of addition, so not on a processor's lanes either.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, log2

import numpy as np

from cannery.ctext.literals import c_float
from cannery.ir.graph import Graph
from cannery.ir.registry import RefArray, register
from cannery.ir.tensor import TensorType
from cannery.layouts import Want
from cannery.ops.checks import operands, require, require_float
from cannery.ops.quantized.arithmetic import F32, QuantizedOp, f32
from cannery.ops.shared.function import describe, signature
from cannery.ops.shared.lanes import Vec, vector_runs
from cannery.schedule.params import as_params, typed
from cannery.schedule.program import Step
from cannery.schedule.schedule import Estimate, Job, Kernel, Params, Schedule, schedule
from cannery.target.isa import Isa

#: The least argument of an exponential: below it, they are 0 as integers.
LEAST = -20.0

#: 2^r - 1 = r P(r) for |r| <= 1/2, highest power first; relative to 2^r it errs by 9.2e-8.
POLYNOMIAL = (1.3264591e-3, 9.671619e-3, 5.550735e-2, 2.4022241e-1, 6.93147e-1)
LOG2_E = 1.44269504
#: 1.5 * 2^23: adding it rounds to whole numbers.
ROUNDER = 12582912.0


@register
@dataclass(frozen=True)
class QuantizedSoftmax(QuantizedOp):
    """x float32 -> n / sum(n), n = round(2^bits exp(x - max)), float32, along the last axis."""

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        """The type of x."""
        (x,), _ = operands(self, inputs, 1)
        require_float(self, x)
        sound = x.rank >= 1 and 1 <= x.shape[-1] <= 2**16
        require(sound, self, f"takes rows of 1 to 2^16 numbers, not {x}")
        return (x,)

    def reference(self, *inputs: RefArray | None) -> tuple[RefArray, ...]:
        """In float32, one rounding per operation; NaN if the greatest is infinite."""
        (given,), _ = operands(self, inputs, 1)
        with np.errstate(all="ignore"):
            return (_softmax(f32(given)),)


def _softmax(x: F32) -> F32:
    below = f32(x - x.max(axis=-1, keepdims=True))
    power = f32(np.fmax(below, np.float32(LEAST)) * np.float32(LOG2_E))
    whole = f32(f32(power + np.float32(ROUNDER)) - np.float32(ROUNDER))
    r: F32 = f32(power - whole)
    p = np.full_like(r, POLYNOMIAL[0])
    for c in POLYNOMIAL[1:]:
        p = f32(f32(p * r) + np.float32(c))
    scale = f32(np.exp2(whole))
    e = f32(f32(scale * f32(p * r)) + scale)
    n = np.rint(f32(e * np.float32(2.0 ** bits(x.shape[-1])))).astype(np.int64)
    inverse = f32(np.float32(1.0) / f32(n.sum(axis=-1, keepdims=True)))
    return f32(f32(n) * inverse)


def bits(length: int) -> int:
    """Bits of the largest exponential: sums stay within int32, and each number is exact in
    float32.
    """
    return min(24, 30 - ceil(log2(length)))


#: How many rows take turns, because each waits for its maximum and its sum.
ROWS = 8


@dataclass(frozen=True)
class Tunables:
    """Vectors no wider than `lanes`."""

    lanes: int


@schedule
@dataclass(frozen=True)
class QuantizedSoftmaxRow(Schedule):
    """Some rows at a time in three passes: maximum, exponentials and their sum, scaling."""

    id = "quantized.softmax"
    want = Want(dense=True)

    def why_not(self, graph: Graph, step: Step, isa: Isa) -> str:
        op = step.anchor.op
        if not step.alone or not isinstance(op, QuantizedSoftmax):
            return "not such a softmax"
        return "reads constants only" if step.anchor.inputs[0] in graph.constants else ""

    def candidates(self, graph: Graph, step: Step, isa: Isa) -> Sequence[Params]:
        widths = (lanes for lanes in isa.lanes[::-1] if lanes > 1 or isa.widest == 1)
        return [as_params(Tunables(lanes)) for lanes in widths]

    def cost(self, graph: Graph, step: Step, params: Params, isa: Isa) -> Estimate:
        type_ = graph.types[step.output]
        vectors = -(-type_.shape[-1] // typed(Tunables, params).lanes)
        rows = type_.elements / type_.shape[-1]
        return Estimate(rows * (28.0 * vectors / isa.rates().arithmetic + 30.0), 600.0)

    def kernel(self, job: Job) -> Kernel:
        type_ = job.type(job.step.anchor.output)
        length = type_.shape[-1]
        rows = type_.elements // length
        runs = vector_runs(length, job.isa, typed(Tunables, job.params).lanes, partial=False)
        widths = sorted({v.lanes for v, _ in runs}, reverse=True)
        some = min(ROWS, rows)
        count = str(some) if rows % some == 0 else f"n + {some} > {rows} ? {rows % some} : {some}"
        text = [
            f"for (int n = 0; n < {rows}; n += {some}) {{", f"const int rows = {count};",
            f"float top[{some}], inverse[{some}];",
            *_rows(length, ["const float *xr"], _top(runs, widths)),
            *_rows(length, ["const float *xr", "float *yr"], _sums(runs, widths, bits(length))),
            *_rows(length, ["float *yr"], _passes(runs, _scaled)), "}",
        ]  # fmt: skip
        body = "\n".join(f"    {line}" for line in text)
        return Kernel(f"{describe(job)}\n{signature(job)}\n{{\n{body}\n}}\n", whole=True)


def _rows(length: int, pointers: Sequence[str], statements: Sequence[str]) -> list[str]:
    """A loop over some rows; `pointers` are declarations of xr and yr."""
    given = [f"{p} = {p[-2]} + (n + row) * {length};" for p in pointers]
    return ["for (int row = 0; row < rows; ++row) {", *given, *statements, "}"]


def _top(runs: Sequence[tuple[Vec, int]], widths: Sequence[int]) -> list[str]:
    """The maximum of a row."""
    wide = [w for w in widths if w > 1]
    return [
        "float top1 = xr[0];",
        *(f"f32x{w} top{w} = f32x{w}_load(xr);" for w in wide),
        *_passes(runs, _maximum),
        *(f"top1 = f32x1_max(top1, f32x{w}_hmax(top{w}));" for w in wide),
        "top[row] = top1;",
    ]


def _sums(runs: Sequence[tuple[Vec, int]], widths: Sequence[int], exponent: int) -> list[str]:
    """The exponentials of a row, and the factor that makes their sum 1."""
    text = ["int32_t sum = 0;", *(f"i32x{w} sum{w} = i32x{w}_zero();" for w in widths)]
    text += _passes(runs, lambda v, at: _exponentials(v, at, exponent))
    for w in widths:
        text += [f"{{ int32_t s[{w}];", f"i32x{w}_store(s, sum{w});",
                 f"for (int i = 0; i < {w}; ++i) {{", "sum += s[i];", "} }"]  # fmt: skip
    return [*text, "inverse[row] = 1.0f / (float)sum;"]


def _passes(
    runs: Sequence[tuple[Vec, int]], statements: Callable[[Vec, str], list[str]]
) -> list[str]:
    """Loops over a row; `statements` returns those for a vector at a place."""
    found = []
    for v, count in runs:
        head = f"for (int i = 0; i < {count}; ++i) {{"
        found += [head, *statements(v, f"{v.start} + i * {v.lanes}"), "}"]
    return found


def _maximum(v: Vec, at: str) -> list[str]:
    top = f"top{v.lanes}"
    return [f"{top} = {v.t}_max({top}, {v.t}_load(xr + {at}));"]


def _exponentials(v: Vec, at: str, exponent: int) -> list[str]:
    t, w = v.t, v.lanes

    def one(value: float) -> str:
        return f"{t}_set1({c_float(value)})"

    lines = [
        f"const {t} below = {t}_sub({t}_load(xr + {at}), {t}_set1(top[row]));",
        f"const {t} power = {t}_mul({t}_max(below, {one(LEAST)}), {one(LOG2_E)});",
        f"const {t} shifted = {t}_add(power, {one(ROUNDER)});",
        f"const {t} r = {t}_sub(power, {t}_sub(shifted, {one(ROUNDER)}));",
        f"const {t} scale = {t}_pow2i({t}_as_i32(shifted));",
        f"{t} p = {one(POLYNOMIAL[0])};",
    ]
    lines += [f"p = {t}_add({t}_mul(p, r), {one(c)});" for c in POLYNOMIAL[1:]]
    return [
        *lines,
        f"p = {t}_add({t}_mul(scale, {t}_mul(p, r)), scale);",
        f"const i32x{w} k = {t}_to_i32_round({t}_mul(p, {one(2.0**exponent)}));",
        f"sum{w} = i32x{w}_add(sum{w}, k);",
        f"{t}_store(yr + {at}, {t}_from_i32(k));",
    ]


def _scaled(v: Vec, at: str) -> list[str]:
    place = f"yr + {at}"
    return [f"{v.t}_store({place}, {v.t}_mul({v.t}_load({place}), {v.t}_set1(inverse[row])));"]
