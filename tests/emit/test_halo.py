"""Clearing a buffer's halo: all its zero cells become zero, no pixel changes."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from cannery.emit.halo import clear_lines
from cannery.ir.tensor import DType, TensorType
from cannery.layouts import Halo, Layout, nhwc, phase_split, planar
from cannery.schedule.program import Buffer
from emit.c_programs import build, run
from lowering.run_functions import Pointer, as_python

SHAPES = [(5, 7, 3), (8, 12, 2), (1, 1, 1), (6, 9, 1), (4, 3, 2)]
HALO = Halo(1, 2, 2, 1)
IMAGES = 2

PROGRAM = """
#include <stdio.h>
#include <string.h>
int main(void)
{
    static float v[%d];
    for (int k = 0; k < %d; ++k) {
        v[k] = 7.0f;
    }
    %s
    for (int k = 0; k < %d; ++k) {
        printf("%%d\\n", (int)v[k]);
    }
    return 0;
}
"""


def layouts(shape: tuple[int, int, int]) -> list[Layout]:
    return [nhwc.make(shape, HALO), planar.make(shape, HALO, slack=3), phase_split.make(shape)]


def zero_cells(layout: Layout) -> set[int]:
    h, w, c = layout.shape
    halo = layout.halo
    return {
        layout.at(y, x, k)
        for y in range(-halo.top, h + halo.bottom)
        for x in range(-halo.left, w + halo.right)
        for k in range(c)
        if not (0 <= y < h and 0 <= x < w)
    }


@pytest.mark.parametrize("shape", SHAPES)
def test_clear_lines(shape: tuple[int, int, int], tmp_path: Path) -> None:
    for number, layout in enumerate(layouts(shape)):
        buffer = Buffer("b", "v", TensorType((IMAGES, *shape)), layout, "b", "arena")
        total = IMAGES * layout.elements
        text = PROGRAM % (total, total, "\n".join(clear_lines("v", buffer)), total)
        (tmp_path / str(number)).mkdir()
        program = build(tmp_path / str(number), {"clear.c": text})
        found = np.array(run(program).split(), int)
        for image in found.reshape(IMAGES, layout.elements):
            zero = zero_cells(layout)
            assert all(image[k] == 0 for k in zero), layout
            pixels = {layout.at(y, x, k) for y, x, k in np.ndindex(*shape)}
            assert all(image[k] == 7 for k in pixels), layout


#: One side alone, unequal sides, none below: where the next image begins right after the last row.
HALOS = [Halo(*sides) for sides in itertools.product((0, 1), (0, 1), (0, 2), (0, 1, 2))]


#: Few rows, few columns: where a loop over rows, or a gap between them, begins to be.
SMALL = list(itertools.product((1, 2, 3, 4), (1, 2, 3, 4), (1, 2)))


def cleared(lines: Sequence[str], layout: Layout) -> set[int]:
    """The elements that statements clear, by running them on addresses; each of them has to."""
    found: set[int] = set()
    size = layout.dtype.bytes
    worked: set[str] = set()

    def clear(line: str, start: Pointer, count: int) -> None:
        assert count > 0, line
        assert start.address % size == count % size == 0, line
        worked.add(line)
        found.update(range(start.address // size, (start.address + count) // size))

    names: dict[str, object] = {
        "v": Pointer(0, size), "cast": lambda p, type_: p.cast(type_),
        "clear": clear, "store": lambda line, p, k: clear(line, p + k, size),
    }  # fmt: skip
    text = as_python(lines)
    statements = [k for k in text.splitlines() if k.lstrip().startswith(("clear(", "store("))]
    for line in statements:
        text = text.replace(line, line.replace("(", f"({line.strip()!r}, ", 1))
    exec(text, names)
    assert worked == {line.strip() for line in statements}, "a statement that clears nothing"
    return found


def check(layout: Layout) -> None:
    """All gaps of all images are cleared, and nothing else."""
    buffer = Buffer("b", "v", TensorType((IMAGES, *layout.shape)), layout, "b", "arena")
    found = cleared(clear_lines("v", buffer), layout)
    firsts = [n * layout.elements for n in range(IMAGES)]
    pixels = {n + layout.at(*place) for n in firsts for place in np.ndindex(*layout.shape)}
    assert not found & pixels, layout
    assert {n + k for n in firsts for k in zero_cells(layout)} <= found, layout
    assert found <= set(range(IMAGES * layout.elements)), layout


@pytest.mark.parametrize("shape", SHAPES)
def test_all_gaps_are_cleared_and_nothing_else(shape: tuple[int, int, int]) -> None:
    for halo in HALOS:
        check(nhwc.make(shape, halo))
        check(planar.make(shape, halo))
    check(planar.make(shape, HALO, slack=3))
    check(nhwc.make(shape, HALO, slack=2))


@pytest.mark.parametrize("dtype", [DType.FLOAT32, DType.INT8])
def test_images_of_few_rows_and_columns(dtype: DType) -> None:
    for shape, halo in itertools.product(SMALL, HALOS):
        check(nhwc.make(shape, halo, dtype=dtype))
        check(planar.make(shape, halo, dtype=dtype))
    for h, w in itertools.product(range(1, 10), repeat=2):
        check(phase_split.make((h, w, 2), dtype=dtype))
