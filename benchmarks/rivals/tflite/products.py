"""Matrix products, and what standardises rows."""

from __future__ import annotations

import numpy as np
from ai_edge_litert import schema_py_generated as schema

from cannery.ir.graph import Node
from cannery.ops.matmul.op import MatMul
from cannery.ops.normalization.op import LayerNormalization
from cannery.ops.recurrent.op import Lstm
from rivals.exchange import as_float, is_projection, unsupported
from rivals.tflite.writer import CODE, TfliteFile, form


@form(MatMul)
def _matmul(file: TfliteFile, op: MatMul, node: Node) -> None:
    """A dense layer where one side is known, else a product of two values."""
    readers = file.graph.consumers(node.output)
    if is_projection(file.graph, node) and isinstance(readers[0].op, Lstm):
        return
    x, w, *bias = node.inputs
    known = file.graph.constants.get(w)
    if known is None or known.ndim != 2:
        _batches(file, op, node)
        return
    if op.transpose_a:
        raise unsupported(op)
    kernel = as_float(known)
    weights = [file.weight(f"{node.output}/kernel", kernel if op.transpose_b else kernel.T)]
    if any(bias):
        weights.append(file.value(bias[0]))
    options = schema.FullyConnectedOptionsT()
    options.keepNumDims = len(file.shape(x)) > 2
    options.fusedActivationFunction, output = file.activation(node)
    file.add(CODE.FULLY_CONNECTED, [file.value(x), *weights], output, options)


def _batches(file: TfliteFile, op: MatMul, node: Node) -> None:
    a, b, *bias = node.inputs
    options = schema.BatchMatMulOptionsT()
    options.adjX, options.adjY = op.transpose_a, op.transpose_b
    inputs = [file.value(a), file.value(b)]
    if not any(bias):
        file.add(CODE.BATCH_MATMUL, inputs, node.output, options)
        return
    product = file.made(CODE.BATCH_MATMUL, inputs, file.shape(node.output), options)
    file.add(CODE.ADD, [product, file.value(bias[0])], node.output, schema.AddOptionsT())


@form(LayerNormalization)
def _layer_norm(file: TfliteFile, op: LayerNormalization, node: Node) -> None:
    """Nine operators, as converters spell it: TensorFlow Lite has none for it."""
    x, *affine = node.inputs
    shape, name = file.shape(node.output), node.output
    if op.axes != tuple(range(len(shape) - len(op.axes), len(shape))):
        raise unsupported(op)
    narrow = [1 if k in op.axes else n for k, n in enumerate(shape)]
    axes = file.integers(f"{name}/axes", op.axes)
    mean = schema.ReducerOptionsT()
    mean.keepDims = True

    of = file.value(x)
    middle = file.made(CODE.MEAN, [of, axes], narrow, mean)
    squares = file.made(CODE.SQUARED_DIFFERENCE, [of, middle], shape)
    variance = file.made(CODE.MEAN, [squares, axes], narrow, mean)
    epsilon = file.weight(f"{name}/epsilon", np.float32(op.epsilon).reshape(1))
    factor = file.made(CODE.RSQRT, [file.binary("ADD", variance, epsilon, narrow)], narrow)
    result = file.binary("MUL", file.binary("SUB", of, middle, shape), factor, shape)
    for kind, value in zip(("MUL", "ADD"), affine, strict=False):
        if value:
            result = file.binary(kind, result, file.value(value), shape)
    file.operators[-1].outputs = [file.value(name)]
