"""The calls of a step's kernel that compute one piece of it, by the axis of the cut.

A piece has the parts first <= part < last; the variables in the generated code have these names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cannery.emit.steps import Call, call_text
from cannery.lowering.cores import IMAGES, TILES, UNITS


@dataclass(frozen=True)
class CutStep:
    """A step (by its index) cut into up to `pieces` along an axis of `cannery.lowering.cores`.

    The pieces share `parts` parts in all.
    """

    index: int
    axis: str
    parts: int
    pieces: int


def piece_calls(call: Call, cut: CutStep, scratch: str) -> Sequence[str]:
    """Statements that compute a piece of a step; `scratch` is its memory."""
    if cut.axis == IMAGES:
        return ["for (int n = first; n < last; ++n) {", _text(call, scratch), "}"]
    if cut.axis == UNITS:
        return call_text(call, _text(call, scratch, units=("first", "last")))
    if cut.axis == TILES:
        return _tiles(call, cut.parts // call.kernel.units, scratch)
    if call.images > 1:
        return _bands_of_images(call, cut.parts // call.images, scratch)
    begin, end = _rows(call, cut.parts, "first", "last")
    return [_text(call, scratch, rows=(begin, end))]


def _text(
    call: Call, scratch: str, *, rows: tuple[str, str] | None = None,
    units: tuple[str, str] | None = None,
) -> str:  # fmt: skip
    everything = ("0", str(call.rows)), ("0", str(call.kernel.units))
    arguments = call.bounded(scratch, rows or everything[0], units or everything[1])
    return f"{call.symbol}({', '.join(arguments)});"


def _rows(call: Call, bands: int, first: str, last: str) -> tuple[str, str]:
    """Rows of the bands from `first` to `last`, of an image with this many bands."""
    band = call.kernel.band
    if band == 1:
        return first, last
    return f"{first} * {band}", f"({last} < {bands} ? {last} * {band} : {call.rows})"


def _bands_of_images(call: Call, bands: int, scratch: str) -> list[str]:
    """The images of which a piece has some bands, one after the other."""
    return [
        "for (int part = first; part < last;) {",
        f"const int n = part / {bands}, begin = part % {bands};",
        f"const int end = last - part < {bands} - begin ? begin + last - part : {bands};",
        _text(call, scratch, rows=_rows(call, bands, "begin", "end")),
        "part += end - begin;",
        "}",
    ]


def _tiles(call: Call, bands: int, scratch: str) -> list[str]:
    """The units of which a piece has some bands; those with all bands are one call."""
    rows = _rows(call, bands, "begin", "end")
    return [
        "for (int part = first; part < last;) {",
        f"const int unit = part / {bands}, begin = part % {bands};",
        f"const int end = last - part < {bands} - begin ? begin + last - part : {bands};",
        f"const int units = begin || end < {bands} ? 1 : (last - part) / {bands};",
        _text(call, scratch, rows=rows, units=("unit", "unit + units")),
        f"part += (units - 1) * {bands} + end - begin;",
        "}",
    ]
