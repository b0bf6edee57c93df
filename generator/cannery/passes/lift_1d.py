"""Operators with one spatial dimension become two-dimensional ones of height 1."""

from __future__ import annotations

from dataclasses import replace

from cannery.ir.graph import Graph, Node
from cannery.ir.rewrite import Rewriter
from cannery.ir.tensor import TensorType
from cannery.ops.average_pool.op import AveragePool
from cannery.ops.conv.op import Conv
from cannery.ops.conv_transpose.op import ConvTranspose
from cannery.ops.max_pool.op import MaxPool
from cannery.ops.movement.op import Reshape
from cannery.ops.registry import Op
from cannery.ops.resize.op import Resize


def _lifted(op: Op) -> Op | None:
    """The operator with a spatial dimension of extent 1 put first; None if it has not one."""
    if isinstance(op, Conv) and len(op.strides) == 1:
        return replace(
            op, strides=(1, *op.strides), pads=((0, 0), *op.pads), dilations=(1, *op.dilations)
        )
    if isinstance(op, ConvTranspose) and len(op.strides) == 1:
        return replace(
            op, strides=(1, *op.strides), pads=((0, 0), *op.pads), dilations=(1, *op.dilations),
            output_padding=(0, *op.output_padding),
        )  # fmt: skip
    if isinstance(op, (MaxPool, AveragePool)) and len(op.strides) == 1:
        return replace(
            op, kernel=(1, *op.kernel), strides=(1, *op.strides), pads=((0, 0), *op.pads),
            dilations=(1, *op.dilations),
        )  # fmt: skip
    if isinstance(op, Resize) and len(op.sizes) == 1:
        return replace(op, sizes=(1, *op.sizes), scales=(1.0, *op.scales) if op.scales else ())
    return None


def _insert_one(type_: TensorType, at: int) -> tuple[int, ...]:
    return (*type_.shape[:at], 1, *type_.shape[at:])


def lift_1d(graph: Graph) -> Graph:
    """[N,L,C] -> [N,1,L,C] around such operators; kernels [K,I,O] become [1,K,I,O]."""
    rewriter = Rewriter(graph)
    for node in list(rewriter.nodes):
        op = _lifted(node.op)
        if op is None:
            continue
        inputs = list(node.inputs)
        before: list[Node] = []
        if len(inputs) > 1 and inputs[1]:
            weight = inputs[1]
            shape = _insert_one(rewriter.types[weight], 0)
            if weight in rewriter.constants:
                inputs[1] = rewriter.constant(weight, rewriter.constants[weight].reshape(shape))
            else:
                inputs[1] = rewriter.value(f"{weight}/2d", TensorType(shape))
                before.append(
                    Node(Reshape(shape), f"{node.name}/weight_2d", (weight,), (inputs[1],))
                )
        source = rewriter.types[inputs[0]]
        wide = rewriter.value(f"{node.name}/2d", TensorType(_insert_one(source, 1), source.dtype))
        before.append(
            Node(Reshape(rewriter.types[wide].shape), f"{node.name}/2d", (inputs[0],), (wide,))
        )
        inputs[0] = wide
        result = rewriter.types[node.output]
        flat = rewriter.value(f"{node.name}/result", TensorType(_insert_one(result, 1)))
        anchor = Node(op, node.name, tuple(inputs), (flat,))
        after = Node(Reshape(result.shape), f"{node.name}/1d", (flat,), node.outputs)
        rewriter.replace_node(node, [*before, anchor, after])
    return rewriter.finish()
