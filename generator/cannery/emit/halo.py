"""Statements that zero the cells around an image whose memory is shared."""

from __future__ import annotations

from cannery.layouts import Layout, image_dims, phase_split, planar
from cannery.schedule.program import Buffer


def clear_lines(variable: str, buffer: Buffer) -> list[str]:
    """C statements that zero everything of a float buffer except its pixels."""
    layout = buffer.layout
    images = image_dims(buffer.type)[0]
    size = layout.dtype.bytes
    if layout.order == phase_split.ORDER:
        return _clear_phase_split(variable, layout, images)
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


def _clear_phase_split(variable: str, layout: Layout, images: int) -> list[str]:
    """The row after the last one of every plane, and its last column if that is not a pixel."""
    h, w, c = layout.shape
    size, row, rows = layout.dtype.bytes, layout.row, -(-h // 4)
    count = f"p % 16 < {h % 4 * 4} ? {rows} : {rows - 1}" if h % 4 else str(rows)
    lines = [
        f"for (int p = 0; p < {images * c * 16}; ++p) {{",
        f"{layout.dtype.c_name} *const z = {variable} + p * {layout.phase};",
        f"const int rows = {count};",
        f"memset(z + rows * {row}, 0, (size_t)({layout.phase} - rows * {row}) * {size}u);",
    ]
    if w % 4:
        lines += [
            f"for (int i = 0; p % 4 >= {w % 4} && i < rows; ++i) {{",
            f"z[i * {row} + {row - 1}] = 0;",
            "}",
        ]
    return [*lines, "}"]
