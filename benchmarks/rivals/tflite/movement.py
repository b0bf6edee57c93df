"""What moves elements, chooses them, or joins whole axes to one number."""

from __future__ import annotations

from ai_edge_litert import schema_py_generated as schema

from cannery.ir.graph import Node
from cannery.ops.concat.op import Concat
from cannery.ops.indexing.gather import Gather
from cannery.ops.movement.op import Expand, Identity, Pad, Reshape, Slice, Transpose
from cannery.ops.reduce.op import ReduceMax, ReduceMean, ReduceMin, ReduceSum, Reduction
from rivals.exchange import unsupported
from rivals.tflite.windows import pad
from rivals.tflite.writer import CODE, TfliteFile, form


@form(Reshape, Identity)
def _reshape(file: TfliteFile, op: Reshape | Identity, node: Node) -> None:
    file.reshape(file.value(node.inputs[0]), file.shape(node.output), node.output)


@form(Transpose)
def _transpose(file: TfliteFile, op: Transpose, node: Node) -> None:
    inputs = [file.value(node.inputs[0]), file.integers(f"{node.output}/perm", op.perm)]
    file.add(CODE.TRANSPOSE, inputs, node.output, schema.TransposeOptionsT())


@form(Slice)
def _slice(file: TfliteFile, op: Slice, node: Node) -> None:
    x, name = file.value(node.inputs[0]), node.output
    if set(op.steps) <= {1}:
        file.slice(x, op.starts, file.shape(name), name)
        return
    if min(op.steps) < 1:
        raise unsupported(op)
    tables = (("starts", op.starts), ("ends", op.ends), ("steps", op.steps))
    inputs = [x, *(file.integers(f"{name}/{what}", values) for what, values in tables)]
    file.add(CODE.STRIDED_SLICE, inputs, name, schema.StridedSliceOptionsT())


@form(Pad)
def _pad(file: TfliteFile, op: Pad, node: Node) -> None:
    if op.mode != "constant" or op.value:
        raise unsupported(op)
    (x,) = node.inputs
    pad(file, file.value(x), op.pads, file.shape(x), output=node.output)


@form(Concat)
def _concat(file: TfliteFile, op: Concat, node: Node) -> None:
    options = schema.ConcatenationOptionsT()
    options.axis = op.axis
    inputs = [file.value(value) for value in node.inputs]
    file.add(CODE.CONCATENATION, inputs, node.output, options)


@form(Expand)
def _expand(file: TfliteFile, op: Expand, node: Node) -> None:
    inputs = [file.value(node.inputs[0]), file.integers(f"{node.output}/shape", op.shape)]
    file.add(CODE.BROADCAST_TO, inputs, node.output, schema.BroadcastToOptionsT())


@form(Gather)
def _gather(file: TfliteFile, op: Gather, node: Node) -> None:
    options = schema.GatherOptionsT()
    options.axis = op.axis
    file.add(CODE.GATHER, [file.value(value) for value in node.inputs], node.output, options)


@form(ReduceMean, ReduceMax, ReduceMin, ReduceSum)
def _reduce(file: TfliteFile, op: Reduction, node: Node) -> None:
    codes = {
        ReduceMean: CODE.MEAN, ReduceMax: CODE.REDUCE_MAX, ReduceMin: CODE.REDUCE_MIN,
        ReduceSum: CODE.SUM,
    }  # fmt: skip
    options = schema.ReducerOptionsT()
    options.keepDims = op.keepdims
    inputs = [file.value(node.inputs[0]), file.integers(f"{node.output}/axes", op.axes)]
    file.add(codes[type(op)], inputs, node.output, options)
