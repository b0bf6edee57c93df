"""Plain C for convolutions that other schedules do not compute.

These have weights computed at run time, or are transposed with three spatial axes or with strides
whose phases have no code.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from cannery.ir.graph import Graph, Node
from cannery.ops.conv.op import Conv
from cannery.ops.conv_transpose.op import MAX_PHASES, ConvTranspose
from cannery.ops.scalar.body import Body, Tensor
from cannery.ops.window import Pads

#: Spatial axes that vector kernels of convolutions have.
_VECTOR_AXES = 2


def convolution_form(graph: Graph, node: Node) -> Callable[[Body], None] | None:
    """The function that writes a convolution without another kernel; None for other nodes."""
    op = node.op
    if not isinstance(op, Conv | ConvTranspose):
        return None
    known = all(not i or i in graph.constants for i in node.inputs[1:])
    small = isinstance(op, Conv) or op.phases(graph.types[node.output].shape[1:-1]) <= MAX_PHASES
    if known and small and len(op.strides) <= _VECTOR_AXES:
        return None
    if isinstance(op, Conv):
        return lambda c: _write_conv(c, op)
    return lambda c: _write_transposed(c, op)


class Window(Protocol):
    """The attributes of a convolution."""

    @property
    def strides(self) -> tuple[int, ...]: ...
    @property
    def pads(self) -> Pads: ...
    @property
    def dilations(self) -> tuple[int, ...]: ...
    @property
    def group(self) -> int: ...


def _bias(c: Body) -> Callable[[str], str]:
    """From a channel to the initial value of its sum."""
    bias = c.optional(2)
    return lambda channel: bias.at(channel) if bias else "0.0f"


def _start(c: Body, pixel: Sequence[str], begin: Callable[[str], str]) -> None:
    with c.loop("o", c.output.shape[-1]) as o:
        c(f"{c.output.at(*pixel, o)} = {begin(o)};")


def _write_conv(c: Body, op: Conv) -> None:
    walk_conv(c, op, _bias(c), lambda y, x, w, _: [f"{y} += {x} * {w};"])


def walk_conv(
    c: Body,
    op: Window,
    begin: Callable[[str], str],
    add: Callable[[str, str, str, str], list[str]],
) -> None:
    """Pixel by pixel: each tap within the input adds its input channels, one after the other.

    `begin` makes an expression of an output channel; `add` statements of the output, the element of
    x, that of the weight, and the output channel.
    """
    x, w = c.input(0), c.input(1)
    taken, made = w.shape[-2], w.shape[-1] // op.group
    with c.nest("i", c.output.shape[:-1]) as pixel:
        _start(c, pixel, begin)
        with c.nest("k", w.shape[:-2]) as tap:
            places = [
                _affine(i, s, k, d, -pads[0])
                for i, s, k, d, pads in zip(
                    pixel[1:], op.strides, tap, op.dilations, op.pads, strict=True
                )
            ]
            found, inside = _declare(c, places, x, op.pads)
            with _guard(c, inside), c.loop("g", op.group) as g, c.loop("q", taken) as q:
                source = x.at(pixel[0], *found, _affine(g, taken, q, 1, 0))
                c(f"const {x.c} v = {source};")
                with c.loop("o", made) as o:
                    channel = _affine(g, made, o, 1, 0)
                    weight = w.at(*tap, q, channel)
                    for line in add(c.output.at(*pixel, channel), "v", weight, channel):
                        c(line)


def _write_transposed(c: Body, op: ConvTranspose) -> None:
    walk_transposed(c, op, _bias(c), "float v = 0.0f;", lambda y, x: f"{y} += {x};")


def walk_transposed(
    c: Body,
    op: Window,
    begin: Callable[[str], str],
    none: str,
    add: Callable[[str, str], str],
    factors: Callable[[str, str], str] = lambda x, w: f"{x} * {w}",
) -> None:
    """Pixel by pixel of the output: what each tap reads, if it hits an input.

    `begin` is as in `walk_conv`; `none` declares the sum v of a tap, `add` makes the statement that
    adds to a sum, `factors` the product of an element of x and a weight.
    """
    x, w = c.input(0), c.input(1)
    made, taken = w.shape[-2], w.shape[-1] // op.group
    with c.nest("i", c.output.shape[:-1]) as pixel:
        _start(c, pixel, begin)
        with c.nest("k", w.shape[:-2]) as tap:
            inside = []
            places = []
            for axis, (i, s, k, d, pads) in enumerate(
                zip(pixel[1:], op.strides, tap, op.dilations, op.pads, strict=True)
            ):
                size = x.shape[axis + 1]
                c(f"const int t{axis} = {_affine(i, 1, k, -d, pads[0])};")
                inside.append(f"t{axis} >= 0 && t{axis} < {size * s}")
                if s > 1:
                    inside.append(f"t{axis} % {s} == 0")
                places.append(f"t{axis} / {s}" if s > 1 else f"t{axis}")
            with _guard(c, inside), c.loop("g", op.group) as g, c.loop("o", made) as o:
                target = c.output.at(*pixel, _affine(g, made, o, 1, 0))
                c(none)
                with c.loop("q", taken) as q:
                    channel = _affine(g, taken, q, 1, 0)
                    source = x.at(pixel[0], *places, channel)
                    c(add("v", factors(source, w.at(*tap, o, channel))))
                c(add(target, "v"))


def _affine(a: str, by: int, b: str, times: int, plus: int) -> str:
    """`a * by + b * times + plus`, without the terms that are zero."""
    terms = [
        name if factor == 1 else f"{name} * {factor}"
        for name, factor in ((a, by), (b, times))
        if name != "0"
    ]
    if plus or not terms:
        terms.append(str(plus))
    return " + ".join(terms).replace("+ -", "- ")


def _declare(c: Body, places: Sequence[str], x: Tensor, pads: Pads) -> tuple[list[str], list[str]]:
    """Declares the place in the input per axis; returns the conditions under which it is inside."""
    names, inside = [], []
    for axis, (place, pair) in enumerate(zip(places, pads, strict=True)):
        name, size = f"t{axis}", x.shape[axis + 1]
        if place == "0" or (size == 1 and not any(pair)):
            names.append("0")
            continue
        c(f"const int {name} = {place};")
        names.append(name)
        if pair[0]:
            inside.append(f"{name} >= 0")
        if pair[1]:
            inside.append(f"{name} < {size}")
    return names, inside


def _guard(c: Body, conditions: Sequence[str]) -> AbstractContextManager[None]:
    """Statements that run if all conditions hold."""
    return c.block(f"if ({' && '.join(conditions)})" if conditions else "")
