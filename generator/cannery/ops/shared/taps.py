"""Loads the taps of a window, with neighbouring output pixels in the lanes."""

from __future__ import annotations

from collections.abc import Sequence

from cannery.ctext.environment import offset
from cannery.ops.shared.lanes import Vec


def tap_loads(
    vec: str, lanes: int, pointer: str, offsets: Sequence[int], stride: int, once: bool = False
) -> list[str]:
    """Statements that define t0, t1, ...: lane i of t<k> is pointer[offsets[k] + i * stride].

    Offsets ascend; the first is 0 or greater, and pointer[0] exists. Nothing before pointer[0] or
    after the last element of the last tap is read. With stride 2, neighbouring taps share a
    de-interleaving load. `once` keeps compilers from loading neighbouring ones again for each use.
    """
    if once and stride == 1 and lanes > 1:
        loads = [f"{vec} t{k} = {vec}_load({pointer}{offset(at)});" for k, at in enumerate(offsets)]
        return loads + [f"CANNERY_OPAQUE_VEC(t{k});" for k in range(len(offsets))]
    if stride == 1 or lanes == 1:
        return [
            f"const {vec} t{k} = {vec}_load({pointer}{offset(at)});" for k, at in enumerate(offsets)
        ]
    if stride != 2:
        return [
            f"const {vec} t{k} = {vec}_load_stride({pointer}{offset(at)}, {stride});"
            for k, at in enumerate(offsets)
        ]
    return _pairs(vec, pointer, offsets)


def _pairs(vec: str, pointer: str, offsets: Sequence[int]) -> list[str]:
    lines: list[str] = []
    k = 0
    while k < len(offsets):
        at = offsets[k]
        if k + 1 < len(offsets) and offsets[k + 1] == at + 1:
            lines.append(f"{vec} t{k}, t{k + 1};")
            lines.append(f"{vec}_load2({pointer}{offset(at)}, &t{k}, &t{k + 1});")
            k += 2
            continue
        if at >= 1:  # as the odd half, so that nothing after the last tap is read
            lines.append(f"{vec} u{k}, t{k};")
            lines.append(f"{vec}_load2({pointer}{offset(at - 1)}, &u{k}, &t{k});")
            lines.append(f"(void)u{k};")
        elif k + 1 < len(offsets):  # a later tap reaches further
            lines.append(f"{vec} t{k}, u{k};")
            lines.append(f"{vec}_load2({pointer}{offset(at)}, &t{k}, &u{k});")
            lines.append(f"(void)u{k};")
        else:
            lines.append(f"const {vec} t{k} = {vec}_load_stride({pointer}{offset(at)}, 2);")
        k += 1
    return lines


def store(vec: Vec, pointer: str, value: str, stride: int) -> str:
    """The statement that stores neighbouring outputs, `stride` elements apart."""
    if stride == 1 or vec.lanes == 1:
        return vec.store(pointer, value)
    return f"{vec.t}_store_stride({pointer}, {stride}, {value});"


def load_count(lanes: int, offsets: Sequence[int], stride: int) -> tuple[float, float]:
    """(loads, shuffles) of `tap_loads`, for cost models."""
    taps = float(len(offsets))
    if stride == 1 or lanes == 1:
        return taps, 0.0
    if stride != 2:
        return taps * lanes, taps * lanes
    pairs = sum(b == a + 1 for a, b in zip(offsets[::2], offsets[1::2], strict=False))
    return 2.0 * (taps - pairs), taps
