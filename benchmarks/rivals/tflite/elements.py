"""Operators on single elements, and softmax."""

from __future__ import annotations

import numpy as np
from ai_edge_litert import schema_py_generated as schema

from cannery.ir.graph import Node
from cannery.ir.registry import Op
from cannery.ops.elementwise import (
    Abs,
    Add,
    Clip,
    Div,
    Elu,
    Exp,
    Gelu,
    HardSigmoid,
    HardSwish,
    LeakyRelu,
    Log,
    Max,
    Min,
    Mul,
    Neg,
    Pow,
    Relu,
    Sigmoid,
    Silu,
    Sqrt,
    Square,
    Sub,
    Tanh,
)
from cannery.ops.softmax.op import Softmax
from rivals.exchange import unsupported
from rivals.tflite.writer import CODE, FUSED, TfliteFile, activation_code, form

_UNARY: dict[type[Op], int] = {
    Sigmoid: CODE.LOGISTIC, Tanh: CODE.TANH, HardSwish: CODE.HARD_SWISH, Exp: CODE.EXP,
    Log: CODE.LOG, Abs: CODE.ABS, Neg: CODE.NEG, Sqrt: CODE.SQRT, Square: CODE.SQUARE,
}  # fmt: skip

_ACTIVATIONS = {
    int(FUSED.RELU): CODE.RELU, int(FUSED.RELU6): CODE.RELU6,
    int(FUSED.RELU_N1_TO_1): CODE.RELU_N1_TO_1,
}  # fmt: skip


@form(*_UNARY)
def _unary(file: TfliteFile, op: Op, node: Node) -> None:
    file.add(_UNARY[type(op)], [file.value(node.inputs[0])], node.output)


@form(Relu, Clip)
def _bounds(file: TfliteFile, op: Relu | Clip, node: Node) -> None:
    """An activation that no operator before it has taken in."""
    x, code = file.value(node.inputs[0]), _ACTIVATIONS.get(activation_code(op))
    if code is not None:
        file.add(code, [x], node.output)
        return
    assert isinstance(op, Clip)
    for code, bound in ((CODE.MAXIMUM, op.minimum), (CODE.MINIMUM, op.maximum)):
        if np.isfinite(bound):
            limit = file.weight(f"{node.output}/{code}", np.float32(bound).reshape(1))
            x = file.made(code, [x, limit], file.shape(node.output))
    file.reshape(x, file.shape(node.output), node.output)


@form(Elu)
def _elu(file: TfliteFile, op: Elu, node: Node) -> None:
    if op.alpha != 1:
        raise unsupported(op)
    file.add(CODE.ELU, [file.value(node.inputs[0])], node.output)


@form(LeakyRelu)
def _leaky_relu(file: TfliteFile, op: LeakyRelu, node: Node) -> None:
    options = schema.LeakyReluOptionsT()
    options.alpha = op.alpha
    file.add(CODE.LEAKY_RELU, [file.value(node.inputs[0])], node.output, options)


@form(Gelu)
def _gelu(file: TfliteFile, op: Gelu, node: Node) -> None:
    options = schema.GeluOptionsT()
    options.approximate = op.approximate
    file.add(CODE.GELU, [file.value(node.inputs[0])], node.output, options)


@form(Silu)
def _silu(file: TfliteFile, op: Silu, node: Node) -> None:
    """A sigmoid and a product: TensorFlow Lite has no operator for it."""
    x, shape = file.value(node.inputs[0]), file.shape(node.output)
    options = schema.MulOptionsT()
    file.add(CODE.MUL, [x, file.made(CODE.LOGISTIC, [x], shape)], node.output, options)


@form(HardSigmoid)
def _hard_sigmoid(file: TfliteFile, op: HardSigmoid, node: Node) -> None:
    """By ReLU6, as TensorFlow spells it where the slope is a sixth; else by bounds of 0 and 1."""
    x, shape, name = file.value(node.inputs[0]), file.shape(node.output), node.output
    add, mul = schema.AddOptionsT(), schema.MulOptionsT()
    add.fusedActivationFunction = FUSED.RELU6
    # relu6(6 alpha x + 6 beta) / 6
    if abs(op.alpha - 1 / 6) > 1e-7:
        slope = file.weight(f"{name}/slope", np.float32(6 * op.alpha).reshape(1))
        x = file.made(CODE.MUL, [x, slope], shape, schema.MulOptionsT())
    shift = file.weight(f"{name}/shift", np.float32(6 * op.beta).reshape(1))
    sixth = file.weight(f"{name}/sixth", np.float32(1 / 6).reshape(1))
    file.add(CODE.MUL, [file.made(CODE.ADD, [x, shift], shape, add), sixth], name, mul)


@form(Add, Sub, Mul, Div)
def _arithmetic(file: TfliteFile, op: Op, node: Node) -> None:
    kind = type(op).__name__
    options = getattr(schema, f"{kind}OptionsT")()
    inputs = [file.value(value) for value in node.inputs]
    options.fusedActivationFunction, output = file.activation(node)
    file.add(getattr(CODE, kind.upper()), inputs, output, options)


@form(Max, Min, Pow)
def _binary(file: TfliteFile, op: Op, node: Node) -> None:
    codes = {Max: CODE.MAXIMUM, Min: CODE.MINIMUM, Pow: CODE.POW}
    file.add(codes[type(op)], [file.value(value) for value in node.inputs], node.output)


@form(Softmax)
def _softmax(file: TfliteFile, op: Softmax, node: Node) -> None:
    """Over the last axis; another one is brought there and back."""
    (x,), shape = node.inputs, file.shape(node.output)
    options = schema.SoftmaxOptionsT()
    options.beta = 1.0
    if op.axis == len(shape) - 1:
        file.add(CODE.SOFTMAX, [file.value(x)], node.output, options)
        return
    perm = list(range(len(shape)))
    perm[op.axis], perm[-1] = perm[-1], perm[op.axis]
    table = file.integers(f"{node.output}/perm", perm)
    moved = [shape[k] for k in perm]
    last = file.made(CODE.TRANSPOSE, [file.value(x), table], moved, schema.TransposeOptionsT())
    shares = file.made(CODE.SOFTMAX, [last], moved, options)
    file.add(CODE.TRANSPOSE, [shares, table], node.output, schema.TransposeOptionsT())
