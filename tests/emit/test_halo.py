"""Clearing a buffer's halo: all its zero cells become zero, no pixel changes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cannery.emit.halo import clear_lines
from cannery.ir.tensor import TensorType
from cannery.layouts import Halo, Layout, nhwc, phase_split, planar
from cannery.schedule.program import Buffer
from emit.c_programs import build, run

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
