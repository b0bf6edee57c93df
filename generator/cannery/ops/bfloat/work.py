"""Which rows a product of bfloat16 multiplies, and where they are: pixels, or rows of a matrix."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cannery.ctext.environment import offset
from cannery.ops.conv.geometry import ConvShape, sizes
from cannery.ops.matmul import product as products
from cannery.ops.shared.axes import nested_pointer
from cannery.ops.shared.epilogue import Epilogue
from cannery.ops.shared.function import parameter_names, residual_pointer
from cannery.ops.shared.lanes import Vec
from cannery.schedule.schedule import Job


@dataclass(frozen=True)
class Work:
    """Rows from C expression `first` to `end`, inside the loops `heads`: `total` rows each time, or
    fewer if that `varies`. They are pixels of an `image`, or rows of a matrix.

    A row's inputs are `runs` runs of `run` neighbouring numbers, at these offsets from the pointer
    that `source` gives for the C expression of a row's number. `before` are the statements before
    the loops; `starts` declare, from row `row` on, the pointers `yr` and `r<k>r` of residuals,
    `y_row` and `residuals` are the distances of rows there. `residual_at` is for `Epilogue.apply`.
    """

    total: int
    varies: bool
    image: bool
    heads: tuple[str, ...]
    before: tuple[str, ...]
    first: str
    end: str
    starts: tuple[str, ...]
    source: Callable[[str], str]
    runs: tuple[int, ...]
    run: int
    y_row: int
    residuals: Mapping[int, int]
    residual_at: Callable[[int, Vec], Callable[[int], str]]


def runs_of(shape: ConvShape, *, contiguous: bool) -> tuple[int, int]:
    """How many runs a window has, and the length of each: its rows if pixels have no gaps between
    them, else its pixels.
    """
    if contiguous and shape.dw == 1:
        return shape.kh, shape.kw * shape.ic
    return shape.taps, shape.ic


def conv_work(job: Job, ep: Epilogue) -> Work:
    """The pixels of an image, row by row if they cannot be one row."""
    shape, x, y = sizes(job.graph, job.step), job.inputs[0], job.output
    count, run = runs_of(shape, contiguous=x.col == shape.ic)
    ow, down, right = shape.ow, shape.sh * x.row, shape.sw * x.col
    layouts = {k: job.inputs[k] for k in ep.tensors}
    flat = all(each.row == ow * each.col for each in (y, *layouts.values()))

    def pointer(name: str, base: str, origin: int, row: int, col: int) -> str:
        at = f"row * {col}" if flat else f"oh * {row} + (row - oh * {ow}) * {col}"
        return f"{name} = {base}{offset(origin)} + {at};"

    def source(number: str) -> str:
        if down == ow * right:
            return f"xg + {number} * {right}"
        return f"xg + ({number} / {ow} * {down} + {number} % {ow} * {right})"

    steps = [0] if count == shape.kh and run != shape.ic else [
        kx * shape.dw * x.col for kx in range(count // shape.kh)
    ]  # fmt: skip
    names = parameter_names(job)
    return Work(
        total=shape.oh * ow if flat else ow,
        varies=flat,
        image=True,
        heads=() if flat else ("for (int oh = y0; oh < y1; ++oh)",),
        before=(f"const float *xg = x{offset(x.at(-shape.top, -shape.left, 0))};",),
        first=f"y0 * {ow}" if flat else f"oh * {ow}",
        end=f"y1 * {ow}" if flat else f"(oh + 1) * {ow}",
        starts=(
            pointer("float *yr", "y", y.origin, y.row, y.col),
            *(
                pointer(f"const float *r{k}r", names[k], r.origin, r.row, r.col)
                for k, r in layouts.items()
            ),
        ),
        source=source,
        runs=tuple(ky * shape.dh * x.row + at for ky in range(shape.kh) for at in steps),
        run=run,
        y_row=y.col,
        residuals={k: r.col for k, r in layouts.items()},
        residual_at=residual_pointer(job),
    )


def matmul_work(job: Job, ep: Epilogue) -> Work:
    """The rows of a matrix product."""
    p = products.sizes(job.graph, job.step)
    a = products.operand(job, p.a, transposed=False, is_b=False)
    b = products.operand(job, p.b, transposed=p.transpose_b, is_b=True)
    nest, names = products.nest(job, a, b, ep.tensors), parameter_names(job)

    def pointer(name: str, base: str, origin: int, operand: int) -> str:
        at = nested_pointer(base, origin, nest.outer, operand)
        return f"{name} = {at} + row * {nest.rows.strides[operand]};"

    return Work(
        total=nest.rows.extent,
        varies=False,
        image=False,
        heads=tuple(
            f"for (int i{k} = 0; i{k} < {loop.extent}; ++i{k})" for k, loop in enumerate(nest.outer)
        ),
        before=(),
        first="0",
        end=str(nest.rows.extent),
        starts=(
            f"const float *ar = {nested_pointer(a.pointer, a.origin, nest.outer, 0)};",
            pointer("float *yr", "y", job.output.origin, 2),
            *(
                pointer(f"const float *r{k}r", names[k], job.inputs[k].origin, 3 + at)
                for at, k in enumerate(ep.tensors)
            ),
        ),
        source=lambda number: f"ar + {number} * {nest.rows.strides[0]}",
        runs=(0,),
        run=p.k,
        y_row=nest.rows.strides[2],
        residuals={k: nest.rows.strides[3 + at] for at, k in enumerate(ep.tensors)},
        residual_at=products.residual_rows(nest.rows, ep),
    )


def padded_runs(matrix: NDArray[np.float32], runs: int, multiple: int) -> NDArray[np.float32]:
    """B[K,N] with zeros after each run of K, up to fours, and at the end, up to a `multiple`."""
    k, n = matrix.shape
    run = k // runs
    slot = -(-run // 4) * 4
    depth = -(-runs * slot // multiple) * multiple
    padded = np.zeros((depth, n), np.float32)
    padded[: runs * slot].reshape(runs, slot, n)[:, :run] = matrix.reshape(runs, run, n)
    return padded
