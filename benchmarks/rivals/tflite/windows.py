"""What slides windows over images: convolutions, transposed ones, pools, resampling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from ai_edge_litert import schema_py_generated as schema

from cannery.ir.graph import Graph, Node
from cannery.ops.average_pool.op import AveragePool
from cannery.ops.conv.op import Conv
from cannery.ops.conv_transpose.op import ConvTranspose
from cannery.ops.elementwise import Clip, Relu, Sigmoid
from cannery.ops.max_pool.op import MaxPool
from cannery.ops.resize.op import Resize
from cannery.ops.window import Pads
from rivals.exchange import as_float, constant, is_same, unsupported
from rivals.tflite.writer import CODE, TfliteFile, form

_SAME, _VALID = schema.Padding.SAME, schema.Padding.VALID


@form(Conv)
def _conv(file: TfliteFile, op: Conv, node: Node) -> None:
    x, w, *bias = node.inputs
    kernel = as_float(constant(file.graph, w))
    if kernel.ndim != 4:
        raise unsupported(op)
    taken, made = file.shape(x)[-1], kernel.shape[-1]
    depthwise = op.group == taken and op.group > 1
    if op.group > 1 and not depthwise:
        raise unsupported(f"{op} in groups")
    image, padding = _padded(file, x, kernel.shape[:2], op)
    shift = as_float(constant(file.graph, bias[0])) if any(bias) else np.zeros(made, np.float32)
    options: Any
    if depthwise:
        code, packed = CODE.DEPTHWISE_CONV_2D, kernel.transpose(2, 0, 1, 3)
        options = schema.DepthwiseConv2DOptionsT()
        options.depthMultiplier = made // taken
    else:
        code, packed = CODE.CONV_2D, kernel.transpose(3, 0, 1, 2)
        options = schema.Conv2DOptionsT()
    options.padding = padding
    options.strideH, options.strideW = op.strides
    options.dilationHFactor, options.dilationWFactor = op.dilations
    options.fusedActivationFunction, output = file.activation(node)
    name = node.output
    weights = file.weight(f"{name}/kernel", packed), file.weight(f"{name}/bias", shift)
    file.add(code, [image, *weights], output, options)


def _padded(
    file: TfliteFile, x: str, kernel: Sequence[int], op: Conv | MaxPool | AveragePool
) -> tuple[int, int]:
    """The image, after a PAD where it needs one, and the kind of padding."""
    size = file.shape(x)[1:-1]
    if is_same(size, tuple(kernel), op.strides, op.pads, op.dilations):
        return file.value(x), _SAME
    if not any(map(any, op.pads)):
        return file.value(x), _VALID
    lowest = isinstance(op, MaxPool) and not _never_negative(file.graph, x)
    return pad(file, file.value(x), ((0, 0), *op.pads, (0, 0)), file.shape(x), lowest), _VALID


def pad(
    file: TfliteFile, x: int, pads: Pads, shape: Sequence[int], lowest: bool = False,
    output: str | None = None,
) -> int:  # fmt: skip
    """Zeros around all axes, or the lowest number; returns the number of the tensor."""
    after = [n + sum(pair) for n, pair in zip(shape, pads, strict=True)]
    made = file.value(output) if output else file.tensor(f"padded{len(file.tensors)}", after)
    inputs = [x, file.integers(f"pads{made}", pads)]
    if not lowest:
        return file.add(CODE.PAD, inputs, made, schema.PadOptionsT())
    least = np.array([np.finfo(np.float32).min], np.float32)
    inputs.append(file.weight(f"least{made}", least))
    return file.add(CODE.PADV2, inputs, made, schema.PadV2OptionsT())


def _never_negative(graph: Graph, value: str) -> bool:
    """Whether a maximum with zeros changes nothing."""
    node = graph.producer(value)
    if node is None:
        return False
    if isinstance(node.op, MaxPool):
        return _never_negative(graph, node.inputs[0])
    return isinstance(node.op, Relu | Sigmoid) or (
        isinstance(node.op, Clip) and node.op.minimum >= 0
    )


@form(MaxPool, AveragePool)
def _pool(file: TfliteFile, op: MaxPool | AveragePool, node: Node) -> None:
    counts = isinstance(op, MaxPool) or op.count_include_pad
    padded = any(map(any, op.pads))
    size = file.shape(node.inputs[0])[1:-1]
    same = is_same(size, op.kernel, op.strides, op.pads, op.dilations)
    if len(op.kernel) != 2 or max(op.dilations) > 1 or (padded and not counts and not same):
        raise unsupported(op)
    options = schema.Pool2DOptionsT()
    if isinstance(op, AveragePool) and padded and counts:  # SAME counts no padding
        pads = ((0, 0), *op.pads, (0, 0))
        image = pad(file, file.value(node.inputs[0]), pads, file.shape(node.inputs[0]))
        options.padding = _VALID
    else:
        image, options.padding = _padded(file, node.inputs[0], op.kernel, op)
    options.filterHeight, options.filterWidth = op.kernel
    options.strideH, options.strideW = op.strides
    code = CODE.MAX_POOL_2D if isinstance(op, MaxPool) else CODE.AVERAGE_POOL_2D
    file.add(code, [image], node.output, options)


@form(ConvTranspose)
def _conv_transpose(file: TfliteFile, op: ConvTranspose, node: Node) -> None:
    """Without padding; TensorFlow Lite knows no other that is not SAME."""
    x, w, *bias = node.inputs
    kernel = as_float(constant(file.graph, w))
    plain = not any(map(any, op.pads)) and not any(op.output_padding)
    if kernel.ndim != 4 or op.group > 1 or max(op.dilations) > 1 or not plain:
        raise unsupported(op)
    options = schema.TransposeConvOptionsT()
    options.padding = _VALID
    options.strideH, options.strideW = op.strides
    name = node.output
    inputs = [
        file.integers(f"{name}/shape", file.shape(name)),
        file.weight(f"{name}/kernel", np.ascontiguousarray(kernel.transpose(2, 0, 1, 3))),
        file.value(x),
    ]
    if any(bias):
        inputs.append(file.value(bias[0]))
    file.add(CODE.TRANSPOSE_CONV, inputs, name, options)


@form(Resize)
def _resize(file: TfliteFile, op: Resize, node: Node) -> None:
    """Where each element is repeated, all ways to map coordinates agree but aligned corners."""
    size = file.shape(node.inputs[0])[1:-1]
    whole = all(b % a == 0 for a, b in zip(size, op.sizes, strict=True))
    repeats = (op.coordinate, op.rounding) in (
        ("asymmetric", "floor"), ("half_pixel", "round_prefer_floor"),
        ("half_pixel", "round_prefer_ceil"),
    )  # fmt: skip
    if len(op.sizes) != 2:
        raise unsupported(op)
    inputs = [file.value(node.inputs[0]), file.integers(f"{node.output}/sizes", op.sizes)]
    if op.mode == "nearest" and whole and repeats:
        options = schema.ResizeNearestNeighborOptionsT()
        file.add(CODE.RESIZE_NEAREST_NEIGHBOR, inputs, node.output, options)
    elif op.mode == "linear" and op.coordinate in ("half_pixel", "align_corners"):
        linear = schema.ResizeBilinearOptionsT()
        linear.halfPixelCenters = op.coordinate == "half_pixel"
        linear.alignCorners = not linear.halfPixelCenters
        file.add(CODE.RESIZE_BILINEAR, inputs, node.output, linear)
    else:
        raise unsupported(op)
