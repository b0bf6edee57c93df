"""Statements that zero the cells around an image, where its memory is shared with others."""

from __future__ import annotations

from cannery.layouts import image_dims, phase_split, planar
from cannery.schedule.program import Buffer


def clear_lines(variable: str, buffer: Buffer) -> list[str]:
    """C statements that zero everything of a float buffer except its pixels."""
    layout = buffer.layout
    images = image_dims(buffer.type)[0]
    size = layout.dtype.bytes
    if layout.order == phase_split.ORDER:
        return [f"memset({variable}, 0, {images * layout.bytes}u);"]
    h, w, c = layout.shape
    planes, plane = (c, layout.channel) if layout.order == planar.ORDER else (1, layout.elements)
    width = w * layout.col if layout.order != planar.ORDER else w
    first, gap = layout.at(0, 0, 0), layout.row - width
    end = first + (h - 1) * layout.row + width
    lines = [f"for (int p = 0; p < {images * planes}; ++p) {{"]
    lines.append(f"{layout.dtype.c_name} *const z = {variable} + p * {plane};")
    if first:
        lines.append(f"memset(z, 0, {first * size}u);")
    if gap and h > 1:
        lines.append(f"for (int i = 0; i < {h - 1}; ++i) {{")
        lines.append(f"memset(z + ({first + width} + i * {layout.row}), 0, {gap * size}u);")
        lines.append("}")
    if plane > end:
        lines.append(f"memset(z + {end}, 0, {(plane - end) * size}u);")
    return [*lines, "}"]
