"""Sums over sliding windows of integers, channels in the lanes: whole numbers in float32, or int32
on cores without floats.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from cannery.ctext.environment import offset
from cannery.ops.quantized.arithmetic import by_integers
from cannery.ops.quantized.windows import pooled_axes, tap_offsets, window_kernel
from cannery.ops.shared.lanes import Vec, vector_runs
from cannery.ops.shared.window_axis import TapSpan
from cannery.schedule.schedule import Job, Kernel

#: Windows with more taps are loops, over this many vectors of channels at once.
_UNROLLED, _VECTORS = 16, 4

#: Statements that store the results of a vector of sums: from it, the number of taps, the C
#: expression of the sums, and the pointer.
Finish = Callable[[Vec, int, str, str], list[str]]


def summed_windows(job: Job, finish: Finish) -> Kernel:
    """The kernel of a pool whose results `finish` makes of sums."""
    channels = job.inputs[0].shape[2]

    def pixel(row: TapSpan, col: TapSpan) -> Iterator[str]:
        for v, times in vector_runs(channels, job.isa):
            together = _VECTORS if row.taps * col.taps > _UNROLLED else 1
            for count, size in ((times // together, together), (1, times % together)):
                if count and size:
                    yield from _vectors(job, finish, row, col, v, count, size)
                    v = replace(v, start=v.start + count * size * v.lanes)

    return window_kernel(job, pixel)


def _vectors(
    job: Job, finish: Finish, row: TapSpan, col: TapSpan, v: Vec, count: int, size: int
) -> Iterator[str]:
    """Statements for one pixel: `count` times `size` vectors from `v` on."""
    step, each = size * v.lanes, range(size)
    yield f"for (int c = {v.start}; c < {v.start + count * step}; c += {step}) {{"
    at = [offset(m * v.lanes) for m in each]
    x = job.inputs[0]

    def added(m: int, place: str) -> str:
        """The statement that adds a number."""
        if by_integers(job.isa):
            return f"a{m} += t[c{place}];"
        return f"a{m} = {v.t}_add(a{m}, {v.load(f't + c{place}', x.dtype)});"

    zero = "int32_t a{} = 0;" if by_integers(job.isa) else f"{v.t} a{{}} = {v.t}_zero();"
    yield from (zero.format(m) for m in each)
    rows, cols = pooled_axes(job)
    if row.taps * col.taps <= _UNROLLED:
        for place in tap_offsets(job, row, col):
            yield from (added(m, place + at[m]) for m in each)
    else:
        yield f"for (int kh = 0; kh < {row.taps}; ++kh) {{"
        yield f"for (int kw = 0; kw < {col.taps}; ++kw) {{"
        tap = f" + kh * {rows.dilation * x.row} + kw * {cols.dilation * x.col}"
        yield from (added(m, tap + at[m]) for m in each)
        yield "}"
        yield "}"
    for m in each:
        yield "{"
        yield from finish(v, row.taps * col.taps, f"a{m}", f"o + c{at[m]}")
        yield "}"
    yield "}"
