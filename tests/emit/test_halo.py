"""Clearing a buffer's halo: all its zero cells become zero, no pixel changes."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from cannery.emit.halo import clear_lines
from cannery.ir.tensor import TensorType
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


#: One side alone, unequal sides, none below: where the next image begins right behind the last row.
HALOS = [Halo(*sides) for sides in itertools.product((0, 1), (0, 1), (0, 2), (0, 1, 2))]


def cleared(lines: Sequence[str], cells: int) -> set[int]:
    """The cells that statements clear, by running them on addresses."""
    found: set[int] = set()
    names: dict[str, object] = {
        "v": Pointer(0, 1), "cast": lambda p, type_: p,
        "clear": lambda p, count: found.update(range(p.address, p.address + count // 4)),
        "store": lambda p, k: found.add(p.address + k),
    }  # fmt: skip
    exec(as_python(lines), names)
    assert not found or (min(found) >= 0 and max(found) < cells)
    return found


@pytest.mark.parametrize("shape", SHAPES)
def test_all_gaps_are_cleared_and_nothing_else(shape: tuple[int, int, int]) -> None:
    layouts = [make(shape, halo) for halo in HALOS for make in (nhwc.make, planar.make)]
    layouts += [planar.make(shape, HALO, slack=3), nhwc.make(shape, HALO, slack=2)]
    layouts += [phase_split.make((h, w, 2)) for h in range(1, 9) for w in range(1, 9)]
    for layout in layouts:
        value = TensorType((IMAGES, *layout.shape))
        total = IMAGES * layout.elements
        pixels = {
            n * layout.elements + layout.at(*place)
            for n in range(IMAGES)
            for place in np.ndindex(*layout.shape)
        }
        found = cleared(clear_lines("v", Buffer("b", "v", value, layout, "b", "arena")), total)
        assert not found & pixels, layout
        gaps = {n * layout.elements + k for n in range(IMAGES) for k in zero_cells(layout)}
        assert gaps <= found, layout
