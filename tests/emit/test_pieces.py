"""Pieces of a step: bands of rows meet where the next one begins, and end with the image."""

from __future__ import annotations

import re

import pytest

from cannery.emit.pieces import CutStep, piece_calls
from cannery.emit.steps import Call
from cannery.lowering.cores import ROWS
from cannery.schedule.schedule import Kernel

#: `(last < 3 ? last * 4 : 10)`.
CONDITION = re.compile(r"\((\w+) < (\d+) \? (.+?) : (\w+)\)")


@pytest.mark.parametrize("band", [1, 2, 3, 4, 7])
@pytest.mark.parametrize("rows", [1, 2, 7, 8, 12, 13])
def test_pieces_are_all_rows(rows: int, band: int) -> None:
    kernel = Kernel("", band=band)
    call = Call(0, None, "kernel", kernel, (), "", rows, 1, ())  # type: ignore[arg-type]
    bands = -(-rows // band)
    (line,) = piece_calls(call, CutStep(0, ROWS, bands, bands), "")
    begin, end = line.removeprefix("kernel(").removesuffix(");").split(", ")
    for first in range(bands):
        for last in range(first + 1, bands + 1):
            names = {"first": first, "last": last}
            found = [
                eval(CONDITION.sub(r"((\3) if \1 < \2 else \4)", text), names)
                for text in (begin, end)
            ]
            assert found == [first * band, min(last * band, rows)]
