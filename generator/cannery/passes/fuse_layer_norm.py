"""Layer normalisation that a file spells out becomes one operator.

ONNX has had one since opset 17. Before, exporters wrote (x - mean) / sqrt(variance + epsilon), with
the variance as the mean of (x - mean) squared, then scale and bias: nine nodes.
"""

from __future__ import annotations

from math import isfinite, prod
from typing import NamedTuple

from cannery.ir.graph import Graph, Node
from cannery.ir.rewrite import Rewriter
from cannery.ir.tensor import DType
from cannery.ops.elementwise import Add, Div, Mul, Pow, Reciprocal, Sqrt, Square, Sub
from cannery.ops.normalization.op import LayerNormalization
from cannery.ops.reduce.op import ReduceMean


def fuse_layer_norm(graph: Graph) -> Graph:
    """ReduceMean, Sub, square, ReduceMean, Add, Sqrt, Div, and then Mul and Add of constants.

    A graph that has integer layers stays as it is: its bits are those of the operators in it.
    """
    if graph.integer_layers:
        return graph
    rewriter = Rewriter(graph)
    rewriter.sweep(_fuse)
    return rewriter.finish()


class Values(NamedTuple):
    """A value, and the axes along which its mean is taken."""

    value: str
    axes: tuple[int, ...]


class Spelling:
    """The nodes found so far, by their outputs."""

    def __init__(self, rewriter: Rewriter) -> None:
        self.rewriter = rewriter
        self.nodes: dict[str, Node] = {}

    def made(self, value: str, *kinds: type) -> Node | None:
        """The node that makes a value, if it is one of these operators."""
        node = self.rewriter.producer(value)
        if node is None or not isinstance(node.op, kinds):
            return None
        self.nodes[value] = node
        return node

    def number(self, value: str) -> float | None:
        """A constant of one element."""
        array = self.rewriter.constants.get(value)
        return float(array.reshape(-1)[0]) if array is not None and array.size == 1 else None

    def mean(self, value: str) -> Values | None:
        """The value of which this is the mean, with the reduced axes kept."""
        node = self.made(value, ReduceMean)
        if node is None or not isinstance(node.op, ReduceMean) or not node.op.keepdims:
            return None
        return Values(node.inputs[0], node.op.axes)

    def centred(self, value: str) -> Values | None:
        """The value of which this is the difference from its mean."""
        node = self.made(value, Sub)
        mean = node and self.mean(node.inputs[1])
        return mean if node and mean and mean.value == node.inputs[0] else None

    def variance(self, value: str) -> Values | None:
        """The value of which this is the variance."""
        node = self.rewriter.producer(value)
        if node and isinstance(node.op, Sub):
            return self._difference_of_squares(node)
        mean = self.mean(value)
        x = self.centred(self._root(mean.value)) if mean else None
        return x if x and mean and x.axes == mean.axes else None

    def _difference_of_squares(self, node: Node) -> Values | None:
        """The value of which this is the mean of the squares minus the square of the mean."""
        self.nodes[node.output] = node
        squares = self.mean(node.inputs[0])
        x = Values(self._root(squares.value), squares.axes) if squares else None
        return x if x and x.value and self.mean(self._root(node.inputs[1])) == x else None

    def _root(self, value: str) -> str:
        """The value of which this is the square; "" if it is none."""
        square = self.made(value, Pow, Mul, Square)
        if not square:
            return ""
        first, last = square.inputs[0], square.inputs[-1]
        squared = self.number(last) == 2.0 if isinstance(square.op, Pow) else first == last
        return first if squared else ""

    def deviation(self, value: str) -> tuple[Values, float] | None:
        """The value of which this is the standard deviation, and epsilon."""
        root = self.made(value, Sqrt, Pow)
        if not root or (isinstance(root.op, Pow) and self.number(root.inputs[1]) != 0.5):
            return None
        added = self.made(root.inputs[0], Add)
        if not added:
            return None
        for variance, epsilon in (added.inputs, added.inputs[::-1]):
            number = self.number(epsilon)
            x = None if number is None else self.variance(variance)
            if x and number is not None and isfinite(number) and number >= 0.0:
                return x, number
        return None


def _fuse(rewriter: Rewriter, node: Node) -> bool:
    """Starts from a quotient, or a product with the reciprocal."""
    if not isinstance(node.op, Div | Mul) or rewriter.types[node.output].dtype is not DType.FLOAT32:
        return False
    spelling = Spelling(rewriter)
    pairs = [node.inputs] if isinstance(node.op, Div) else [node.inputs, node.inputs[::-1]]
    for centred, divisor in pairs:
        spelling.nodes.clear()
        inverse = spelling.made(divisor, Reciprocal) if isinstance(node.op, Mul) else None
        if isinstance(node.op, Mul) and inverse is None:
            continue
        x = spelling.centred(centred)
        found = x and spelling.deviation(inverse.inputs[0] if inverse else divisor)
        same = x and rewriter.types[x.value] == rewriter.types[node.output]
        if same and x and found and found[0] == x and alone(rewriter, spelling, node):
            _become(rewriter, spelling, node, LayerNormalization(x.axes, found[1]), x.value)
            return True
    return False


def alone(rewriter: Rewriter, spelling: Spelling, last: Node) -> bool:
    """Whether nothing else reads the values between this one and the last node."""
    inner = {id(node) for node in (*spelling.nodes.values(), last)}
    return not any(
        value in rewriter.outputs or any(id(r) not in inner for r in rewriter.readers(value))
        for value in spelling.nodes
    )


def _become(
    rewriter: Rewriter, spelling: Spelling, last: Node, op: LayerNormalization, x: str
) -> None:
    """Replace the nodes by one, which takes in scale and bias."""
    inputs = [x]
    inner = list(spelling.nodes.values())
    for kind in (Mul, Add):
        reader = rewriter.single_reader(last.output)
        constant = _parameter(rewriter, reader, last.output, op) if reader else ""
        if reader is None or not isinstance(reader.op, kind) or not constant:
            break
        inputs.append(constant)
        inner.append(last)
        last = reader
    for node in inner:
        rewriter.replace_node(node, [])
    rewriter.update(last, op, inputs)


def _parameter(rewriter: Rewriter, reader: Node, value: str, op: LayerNormalization) -> str:
    """The other operand beside `value`, if it is a constant with an element for each place of the
    axes.
    """
    others = [v for v in reader.inputs if v != value]
    array = rewriter.constants.get(others[0]) if len(others) == 1 else None
    shape = rewriter.types[value].shape
    dims = tuple(shape[axis] for axis in op.axes)
    last = op.axes == tuple(range(len(shape) - len(dims), len(shape)))
    if array is None or not last or rewriter.types[reader.output].shape != shape:
        return ""
    if array.shape[-len(dims) :] != dims or array.size != prod(dims):
        return ""
    return rewriter.constant(others[0], array.reshape(dims))
