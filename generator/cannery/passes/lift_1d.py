"""Operators with one spatial dimension become two-dimensional ones of height 1."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from cannery.ir.graph import Graph, Node
from cannery.ir.registry import Elementwise, Op
from cannery.ir.rewrite import Rewriter
from cannery.ir.tensor import TensorType
from cannery.ops.average_pool.op import AveragePool
from cannery.ops.concat.op import Concat
from cannery.ops.conv.op import Conv
from cannery.ops.conv_transpose.op import ConvTranspose
from cannery.ops.max_pool.op import MaxPool
from cannery.ops.movement.op import Reshape, Slice
from cannery.ops.quantize.linear import DequantizeLinear, QuantizeLinear, Requantize
from cannery.ops.quantize.products import ConvInteger
from cannery.ops.resize.op import Resize

#: Operators on single elements, with numbers for all or for each channel.
_ELEMENTWISE = (Elementwise, QuantizeLinear, DequantizeLinear, Requantize)


def _lifted(op: Op) -> Op | None:
    """The operator with a spatial dimension of extent 1 put first; None unless it has just one."""
    if isinstance(op, Conv | ConvInteger) and len(op.strides) == 1:
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


def lift_quantised(graph: Graph) -> Graph:
    """The same, early, where values are stored as integers: integer layers are two-dimensional."""
    stored = any(
        isinstance(node.op, ConvInteger)
        or (isinstance(node.op, DequantizeLinear) and node.inputs[0] not in graph.constants)
        for node in graph.nodes
    )
    return lift_1d(graph) if stored else graph


def lift_1d(graph: Graph) -> Graph:
    """[N,L,C] -> [N,1,L,C] around such operators; kernels [K,I,O] become [1,K,I,O].

    Elementwise operators after them are lifted too, so that they remain neighbours; so are
    concatenations and slices, so that parts of images stay in place.
    """
    lift = _Lift(Rewriter(graph))
    for node in lift.rewriter.nodes:
        op = _lifted(node.op)
        if op is not None:
            lift.window(node, op)
        elif lift.follows(node):
            lift.elementwise(node)
        elif lift.moves(node):
            lift.movement(node)
    return lift.rewriter.finish()


@dataclass(frozen=True)
class _Lift:
    """The pass; `wide` maps values to their lifted forms, `made` are those computed as such."""

    rewriter: Rewriter
    wide: dict[str, str] = field(default_factory=dict)
    made: set[str] = field(default_factory=set)

    def window(self, node: Node, op: Op) -> None:
        """Lift a node with windows."""
        rewriter, inputs = self.rewriter, list(node.inputs)
        before: list[Node] = []
        if len(inputs) > 1 and inputs[1]:
            weight = inputs[1]
            type_ = rewriter.types[weight]
            shape = _insert_one(type_, 0)
            if weight in rewriter.constants:
                inputs[1] = rewriter.constant(weight, rewriter.constants[weight].reshape(shape))
            else:
                inputs[1] = rewriter.value(f"{weight}/2d", TensorType(shape, type_.dtype))
                before.append(
                    Node(Reshape(shape), f"{node.name}/weight_2d", (weight,), (inputs[1],))
                )
        if inputs[0] not in self.wide:
            before.append(self.reshape(node, inputs[0]))
        inputs[0] = self.wide[inputs[0]]
        self.put(node, op, inputs, before)

    def reshape(self, node: Node, value: str) -> Node:
        """The node that gives `node` the lifted form of a value, which is known from then on."""
        source = self.rewriter.types[value]
        type_ = TensorType(_insert_one(source, 1), source.dtype)
        self.wide[value] = self.rewriter.value(f"{node.name}/2d", type_)
        return Node(Reshape(type_.shape), f"{node.name}/2d", (value,), (self.wide[value],))

    def follows(self, node: Node) -> bool:
        """Whether a node is elementwise, on lifted values and per-channel factors."""
        types, known = self.rewriter.types, set(node.inputs) & set(self.wide)
        if not isinstance(node.op, _ELEMENTWISE) or len(node.outputs) != 1 or not known:
            return False
        constants = [self.rewriter.constants.get(v) for v in node.inputs if v not in known]
        shape = types[node.output].shape
        return all(types[v].shape == shape for v in known) and all(
            c is not None and c.size == (c.shape[-1] if c.ndim else 1) for c in constants
        )

    def elementwise(self, node: Node) -> None:
        """Lift an elementwise node."""
        self.put(node, node.op, [self.wide.get(v, v) for v in node.inputs], [])

    def moves(self, node: Node) -> bool:
        """Whether a node joins images of which some are lifted, or takes a part of a lifted one."""
        if isinstance(node.op, Concat):
            constant = any(v in self.rewriter.constants for v in node.inputs)
            return node.op.axis > 0 and not constant and not self.made.isdisjoint(node.inputs)
        return isinstance(node.op, Slice) and node.inputs[0] in self.made

    def movement(self, node: Node) -> None:
        """Lift a concatenation or a slice."""
        flat = [v for v in dict.fromkeys(node.inputs) if v not in self.wide]
        before = [self.reshape(node, v) for v in flat]
        op = node.op
        if isinstance(op, Slice):
            cuts = [(*part[:1], one, *part[1:]) for part, one in
                    ((op.starts, 0), (op.ends, 1), (op.steps, 1))]  # fmt: skip
            op = Slice(*cuts)
        else:
            assert isinstance(op, Concat)
            op = Concat(op.axis + 1)
        self.put(node, op, [self.wide[v] for v in node.inputs], before)

    def put(self, node: Node, op: Op, inputs: Sequence[str], before: Sequence[Node]) -> None:
        """Replace a node by its lifted form and a view of the result."""
        result = self.rewriter.types[node.output]
        type_ = TensorType(_insert_one(result, 1), result.dtype)
        flat = self.wide[node.output] = self.rewriter.value(f"{node.name}/result", type_)
        lifted = Node(op, node.name, tuple(inputs), (flat,))
        after = Node(Reshape(result.shape), f"{node.name}/1d", (flat,), node.outputs)
        self.made.add(node.output)
        self.rewriter.replace_node(node, [*before, lifted, after])
