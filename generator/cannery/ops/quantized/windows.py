"""Sliding windows over integers, as loops: pixels with the same taps inside the image share one."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from cannery.ctext.environment import offset
from cannery.ops.shared.function import describe, signature
from cannery.ops.shared.window_axis import TapSpan, WindowAxis, window_axes
from cannery.ops.window import WindowOp
from cannery.schedule.schedule import Job, Kernel


def pooled_axes(job: Job) -> tuple[WindowAxis, WindowAxis]:
    """Rows and columns."""
    op = job.step.anchor.op
    assert isinstance(op, WindowOp)
    return window_axes(op, job.type(job.step.anchor.inputs[0]), job.type(job.step.output))


def tap_offsets(job: Job, row: TapSpan, col: TapSpan) -> list[str]:
    """The taps inside, as ` + 8`, from the first one on."""
    (rows, cols), x = pooled_axes(job), job.inputs[0]
    return [
        offset(i * rows.dilation * x.row + j * cols.dilation * x.col)
        for i in range(row.taps)
        for j in range(col.taps)
    ]


def window_kernel(job: Job, pixel: Callable[[TapSpan, TapSpan], Iterable[str]]) -> Kernel:
    """A kernel in bands of rows, made of the statements for a pixel with these taps inside.

    In them `t` points to the first channel of the first tap inside, `o` to that of the result.
    """
    (rows, cols), x, y = pooled_axes(job), job.inputs[0], job.output
    lines = []
    for row in rows.spans():
        first, end = row.start, row.start + row.count
        lines.append(
            f"for (int oh = y0 > {first} ? y0 : {first}; oh < (y1 < {end} ? y1 : {end}); ++oh) {{"
        )
        for col in cols.spans():
            top = x.at(rows.source(0, row.first), cols.source(col.start, col.first), 0)
            lines += [
                f"for (int n = 0; n < {col.count}; ++n) {{",
                f"const {x.dtype.c_name} *const t = x + (oh * {rows.stride * x.row} "
                f"+ n * {cols.stride * x.col}{offset(top)});",
                f"{y.dtype.c_name} *const o = y + (oh * {y.row} + n * {y.col}"
                f"{offset(y.at(0, col.start, 0))});",
                *pixel(row, col),
                "}",
            ]
        lines.append("}")
    body = "\n".join(f"    {line}" for line in lines)
    return Kernel(f"{describe(job)}\n{signature(job, band=True)}\n{{\n{body}\n}}\n", band=1)
