"""Operators of detectors: regions, deformable convolutions, assembled blocks."""

from __future__ import annotations

from math import prod

from cannery.errors import ModelError, UnsupportedError
from cannery.frontends.onnx.operators.base import Scope, operator
from cannery.frontends.onnx.operators.convolution import conv_window, first, spatial_first
from cannery.frontends.onnx.operators.values import Value
from cannery.ops.conv.deform import DeformConv
from cannery.ops.conv_transpose.col2im import Col2Im
from cannery.ops.resize.roi_align import RoiAlign


@operator("RoiAlign")
def roi_align(scope: Scope) -> Value:
    """Regions of one size from feature maps."""
    default = "half_pixel" if scope.opset >= 16 else "output_half_pixel"
    coordinate = scope.text(
        "coordinate_transformation_mode", default, ("half_pixel", "output_half_pixel")
    )
    mode = scope.text("mode", "avg", ("avg", "max"))
    size = (scope.integer("output_height", 1), scope.integer("output_width", 1))
    op = RoiAlign(
        size, scope.number("spatial_scale", 1.0), scope.integer("sampling_ratio", 0),
        coordinate == "half_pixel", mode == "max",
    )  # fmt: skip
    names = [scope.last(scope.input(0)), scope.plain(scope.input(1)), scope.plain(scope.input(2))]
    return first(scope, scope.node(op, names))


@operator("DeformConv")
def deform_conv(scope: Scope) -> Value:
    """With two spatial axes."""
    x, w = scope.input(0), scope.input(1)
    window = conv_window(scope, x, w)
    if len(window.spatial) != 2:
        raise UnsupportedError(f"{len(window.spatial)} spatial axes; 2 are supported")
    groups = (scope.integer("group", 1), scope.integer("offset_group", 1))
    names = [scope.last(x), spatial_first(scope, w), scope.plain(scope.input(2))]
    for k in (3, 4):
        value = scope.optional(k)
        names.append("" if value is None else scope.plain(value))
    while not names[-1]:
        names.pop()
    op = DeformConv(window.strides, window.pads(scope), window.dilations, *groups)
    return first(scope, scope.node(op, names))


@operator("Col2Im")
def col2im(scope: Scope) -> Value:
    """x[N,C*K,L] to images; their size and that of the blocks are known."""
    x = scope.input(0)
    image = scope.known_integers(1, "shapes")
    kernel = scope.known_integers(2, "shapes")
    if len(x.shape) != 3 or not image or not kernel or min(kernel) < 1:
        raise ModelError(f"shape {x.shape} cannot become an image")
    rank = len(image)
    ones = (1,) * rank
    pads = scope.integers("pads", (0,) * 2 * rank, 2 * rank)
    taps = prod(kernel)
    if len(kernel) != rank or x.shape[1] % taps:
        raise ModelError(f"blocks {kernel} do not fit shape {x.shape} and image {image}")
    op = Col2Im(
        image, kernel, scope.integers("strides", ones, rank),
        tuple(zip(pads[:rank], pads[rank:], strict=True)), scope.integers("dilations", ones, rank),
    )  # fmt: skip
    blocks = scope.reshaped(x, (x.shape[0], x.shape[1] // taps, taps, x.shape[2]), "blocks")
    return scope.result(scope.node(op, [scope.plain(blocks)]))
