"""Float layers replaced by integer ones, and the values between them kept as integers.

Dense layers, convolutions, recurrent layers with constant weights become integer layers, with the
activation behind them where it is exact in float32 or has a table. A value that only such layers
read, be it reshaped on the way, never exists as floats. All other layers stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import numpy as np

from cannery.ir.graph import Graph, Node
from cannery.ir.rewrite import Rewriter
from cannery.ir.tensor import DType, TensorType
from cannery.ops.conv.op import Conv
from cannery.ops.elementwise import Clip, LeakyRelu, Mul, Relu
from cannery.ops.matmul.op import MatMul
from cannery.ops.max_pool.op import MaxPool
from cannery.ops.movement.op import Identity, Reshape, Transpose
from cannery.ops.numeric import F64, Numeric, f64
from cannery.ops.quantize.linear import DequantizeLinear
from cannery.ops.quantized.arithmetic import Activation
from cannery.ops.quantized.conv import QuantizedConv
from cannery.ops.quantized.gru import QuantizedGru
from cannery.ops.quantized.lstm import QuantizedLstm
from cannery.ops.quantized.matmul import QuantizedMatMul, QuantizedProduct
from cannery.ops.quantized.max_pool import QuantizedMaxPool
from cannery.ops.quantized.recurrent import QuantizedRecurrent
from cannery.ops.quantized.rnn import QuantizedRnn
from cannery.ops.quantized.scale import Quantize
from cannery.ops.quantized.softmax import QuantizedSoftmax
from cannery.ops.quantized.table import make_table
from cannery.ops.recurrent.base import HIDDEN, SEQUENCE
from cannery.ops.recurrent.op import Gru, Lstm, Rnn
from cannery.ops.registry import Elementwise, Op
from cannery.ops.softmax.op import Softmax
from cannery.quantization.calibration import Observed, Spread
from cannery.quantization.gates import gate_steps, in_steps
from cannery.quantization.products import EXACT as EXACT_SUM
from cannery.quantization.steps import choose_bound, choose_state_bound, round_weights

#: Terms of the longest sum: longer ones would leave too few bits to each.
MOST_TERMS = 2**15

#: What moves integers as well as floats, from one input to one output.
MOVES = (Reshape, Transpose, Identity)

#: Recurrent layers and their integer forms.
INTEGER: dict[type[Op], type[QuantizedRecurrent]] = {
    Lstm: QuantizedLstm, Gru: QuantizedGru, Rnn: QuantizedRnn,
}  # fmt: skip

#: Activations that round at most once: every processor computes the same bits.
EXACT = (Relu, LeakyRelu, Clip)

#: Those for which a factor may be multiplied before, instead of behind.
HOMOGENEOUS = (Relu, LeakyRelu)


@dataclass(frozen=True)
class Integers:
    """A value as integers: its name, the largest magnitude, and what one unit is."""

    name: str
    bound: int
    unit: float


@dataclass
class Quantizer:
    """The state of a rewriting; `integers` are the values that exist as such.

    `raw`: inputs are quantised before they are moved, and outputs are floats made of integers.
    """

    graph: Graph
    seen: Observed
    dtype: DType
    raw: bool = False
    rewriter: Rewriter = field(init=False)
    integers: dict[str, Integers] = field(default_factory=dict)
    layers: list[str] = field(default_factory=list)
    _gates: dict[str, F64] = field(default_factory=dict)
    _fused: dict[str, tuple[Node, ...]] = field(default_factory=dict)

    def run(self) -> Graph:
        """The rewritten graph; dead nodes are left in it."""
        self.rewriter = Rewriter(self.graph)
        for node in self.graph.nodes:
            if self.is_dense(node):
                self._fused[node.output] = self.activation(node)
        for node in self.graph.nodes:
            if self.is_recurrent(node):
                self.recurrent(node)
            elif node.outputs[0] in self._fused:
                self.dense(node)
            elif self.is_softmax(node):
                self.rewriter.update(node, op=QuantizedSoftmax())
        if self.raw:
            self.round_outputs()
        return self.rewriter.finish()

    # ---- what can be done ----

    def is_dense(self, node: Node) -> bool:
        """Whether a node multiplies with constant weights, and its input was seen to be finite."""
        op = node.op
        if isinstance(op, MatMul):
            if op.transpose_a:
                return False
        elif not isinstance(op, Conv) or len(op.strides) != 2 or not self.has_kernel(node):
            return False
        x, w, *bias = node.inputs
        constants, types = self.graph.constants, self.graph.types
        known = w in constants and x not in constants and all(b in constants for b in bias if b)
        shape = types[w].shape
        terms = prod(shape[:-1]) if isinstance(op, Conv) else max(shape[-2:])
        spread = self.seen.spreads.get(x)
        return (
            known and (isinstance(op, Conv) or all(d == 1 for d in shape[:-2]))
            and types[node.output].elements > 0
            and types[node.output].rank == types[x].rank
            and spread is not None and bool(np.isfinite(spread.largest))
            and min(shape) > 0 and terms <= MOST_TERMS
        )  # fmt: skip

    def has_kernel(self, node: Node) -> bool:
        """Whether a convolution is in one group, or has one channel in each and bytes."""
        assert isinstance(node.op, Conv)
        w = self.graph.types[node.inputs[1]].shape
        alone = node.op.group == self.graph.types[node.inputs[0]].shape[-1] == w[-1]
        exact = prod(w[:2]) * 128 * 128 < EXACT_SUM
        return node.op.group == 1 or (alone and exact and self.dtype is DType.INT8)

    def is_recurrent(self, node: Node) -> bool:
        """Whether a layer has constant weights, tables for its functions, and nothing unusual."""
        op = node.op
        if not isinstance(op, Lstm | Gru | Rnn) or op.clip or op.lengths:
            return False
        coupled = isinstance(op, Lstm) and op.coupled
        if coupled or (isinstance(op, Gru) and not op.linear_before_reset):
            return False
        p, r, *rest = node.inputs
        constant = all(v in self.graph.constants for v in (r, *rest[op.states :]) if v)
        tables = all(make_table(a) is not None for a in op.activations)
        return constant and tables and p not in self.graph.constants

    def is_softmax(self, node: Node) -> bool:
        """Whether a node is a softmax along the last axis."""
        shape = self.graph.types[node.outputs[0]].shape
        along = isinstance(node.op, Softmax) and node.op.axis == len(shape) - 1
        return along and shape[-1] <= 2**16 and node.inputs[0] not in self.graph.constants

    def activation(self, node: Node) -> tuple[Node, ...]:
        """The activation behind a dense layer that becomes part of it, at most one."""
        readers = self.graph.consumers(node.output)
        if len(readers) != 1 or node.output in self.graph.outputs:
            return ()
        (reader,) = readers
        op = reader.op
        if not isinstance(op, Elementwise) or len(reader.inputs) != 1:
            return ()
        return (reader,) if isinstance(op, EXACT) or make_table((op,)) is not None else ()

    # ---- values as integers ----

    def moves(self, node: Node) -> bool:
        """Whether a node does the same to integers as to what they stand for."""
        op = node.op
        flat = isinstance(op, MaxPool) and len(op.kernel) == 2
        return isinstance(op, MOVES) or (flat and self.dtype is DType.INT8)

    def readers(self, value: str) -> Iterator[tuple[Node, str]]:
        """The nodes that read a value or what it is moved to, and what they read; outputs: none."""
        for node in self.graph.consumers(value):
            if self.moves(node):
                yield from self.readers(node.output)
            else:
                yield node, value

    def only_integers(self, value: str) -> bool:
        """Whether nothing needs the floats of a value."""
        moved = [value]
        for name in moved:
            moved += [n.output for n in self.graph.consumers(name) if self.moves(n)]
        readers = list(self.readers(value))
        dense = all(n.outputs[0] in self._fused and n.inputs[0] == v for n, v in readers)
        if any(name in self.graph.outputs for name in moved):
            return self.raw and value in self.graph.outputs and dense
        return bool(readers) and dense

    def products(self, value: str) -> list[Numeric]:
        """The weights that a value is multiplied with."""
        return [
            self.matrix(node)
            for node, read in self.readers(value)
            if node.outputs[0] in self._fused and node.inputs[0] == read
        ]

    def spread(self, value: str) -> Spread:
        """What a value came to; a value that was always 0 counts as up to 1."""
        found = self.seen.spreads[value]
        return found if found.largest > 0.0 else Spread(1.0, 1.0)

    def bound_of(self, value: str) -> tuple[int, float]:
        """The bound of a value that dense layers read, and its unit."""
        spread, products = self.spread(value), self.products(value)
        largest = int(np.iinfo(self.dtype.value).max)
        bound = choose_bound(products, spread, self.dtype) if products else largest
        return bound, spread.largest / bound

    def as_integers(self, value: str, new: list[Node]) -> Integers:
        """A value as integers; the nodes that make it so are appended to `new`."""
        if value in self.integers:
            return self.integers[value]
        producer = self.graph.producer(value)
        if producer is not None and self.moves(producer):
            source = producer.inputs[0]
            origin = self.origin(source)
            if origin in self.integers or (self.raw and origin in self.graph.inputs):
                inner = self.as_integers(source, new)
                op = on_integers(producer.op)
                name = self.add(op, f"{value}/{self.dtype.value}", [inner.name], new)
                self.integers[value] = replace(inner, name=name)
                return self.integers[value]
        bound, unit = self.bound_of(value)
        factor = self.scalar(f"{value}/factor", 1.0 / unit)
        op = Quantize(bound, self.dtype)
        name = self.add(op, f"{value}/{self.dtype.value}", [value, factor], new)
        self.integers[value] = Integers(name, bound, unit)
        return self.integers[value]

    def round_outputs(self) -> None:
        """Outputs that layers compute as floats become integers, and floats again."""
        for value in self.graph.outputs:
            node = self.rewriter.producer(value)
            known = value in self.integers or value not in self.seen.spreads
            if node is None or known or len(node.outputs) > 1:
                continue
            floats = self.rewriter.value(f"{value}/exact", self.rewriter.types[value])
            new = [replace(node, outputs=(floats,))]
            bound, unit = self.bound_of(value)
            factor = self.scalar(f"{value}/factor", 1.0 / unit)
            name = self.add(Quantize(bound, self.dtype), f"{value}/raw", [floats, factor], new)
            self.floats(Integers(name, bound, unit), value, new)
            self.rewriter.replace_node(node, new)

    def origin(self, value: str) -> str:
        """Where a value comes from, before it was moved."""
        producer = self.graph.producer(value)
        while producer is not None and self.moves(producer) and value not in self.integers:
            value = producer.inputs[0]
            producer = self.graph.producer(value)
        return value

    # ---- nodes ----

    def add(self, op: Op, name: str, inputs: list[str], new: list[Node]) -> str:
        """Append a node with one output; returns the output."""
        types = [self.rewriter.types[i] if i else None for i in inputs]
        (type_,) = op.infer(*types)
        value = self.rewriter.value(name, type_)
        new.append(Node(op, name, tuple(inputs), (value,)))
        return value

    def constant(self, name: str, array: Numeric) -> str:
        """A constant of the new graph."""
        return self.rewriter.constant(name, array)

    def scalar(self, name: str, value: float) -> str:
        """A float constant of rank 0."""
        return self.constant(name, np.float32(value).reshape(()))

    def floats(self, integers: Integers, value: str, new: list[Node]) -> None:
        """Append what makes floats of integers again, under the name that they had."""
        inputs = (
            integers.name,
            self.scalar(f"{value}/unit", integers.unit),
            self.constant(f"{value}/zero", np.zeros((), self.dtype.numpy)),
        )
        new.append(Node(DequantizeLinear(), f"{value}/floats", inputs, (value,)))
        self.integers[value] = integers

    def matrix(self, node: Node) -> Numeric:
        """The weights w[K,N] of a dense layer, or of a convolution with K = KH KW IC."""
        w = self.graph.constants[node.inputs[1]]
        if isinstance(node.op, Conv):
            return w.reshape(-1, w.shape[-1])
        assert isinstance(node.op, MatMul)
        w = w.reshape(w.shape[-2:])
        return np.ascontiguousarray(w.T if node.op.transpose_b else w)

    def dense(self, node: Node) -> None:
        """A dense layer or convolution, with the activation behind it."""
        fused = self._fused[node.output]
        last = fused[-1] if fused else node
        value, ops = last.output, tuple(n.op for n in fused if isinstance(n.op, Elementwise))
        new: list[Node] = []
        x = self.as_integers(node.inputs[0], new)
        weights = round_weights(self.matrix(node), x.bound, self.dtype)
        scale = weights.steps * x.unit
        bias = (
            f64(self.graph.constants[node.inputs[2]])
            if len(node.inputs) > 2 and node.inputs[2]
            else None
        )
        if value in self._gates_of(value):
            scale, bias = self._in_steps(value, scale, bias)
        bound, unit = self.bound_of(value) if self.only_integers(value) else (0, 1.0)
        op, factors, gain = self._product(node.op, ops, bound, unit)
        shape = self.graph.types[node.inputs[1]].shape
        integers = (
            weights.integers.reshape(shape) if isinstance(node.op, Conv) else weights.integers
        )
        inputs = [
            x.name,
            self.constant(f"{node.name}/{self.dtype.value}", integers),
            self.constant(f"{node.name}/scale", scale * factors),
            "" if bias is None else self.constant(f"{node.name}/bias", bias * factors),
            ""
            if gain is None
            else self.constant(f"{node.name}/gain", np.float32(gain).reshape(())),
        ]
        while not inputs[-1]:
            inputs.pop()
        self.layers.append(node.name)
        if bound:
            name = self.add(op, f"{node.name}/integers", inputs, new)
            self.floats(Integers(name, bound, unit), value, new)
        else:
            new.append(Node(op, node.name, tuple(inputs), (value,)))
        for each in (node, *fused)[:-1]:
            self.rewriter.replace_node(each, [])
        self.rewriter.replace_node(last, new)

    def _product(
        self, op: Op, ops: Activation, bound: int, unit: float
    ) -> tuple[QuantizedProduct, float, float | None]:
        """The operator, what its scale and bias are multiplied with, and its gain."""
        exact = all(isinstance(o, EXACT) for o in ops)
        table = None if exact else make_table(ops)
        made: QuantizedProduct
        common = (ops, table is not None, bound, self.dtype)
        if isinstance(op, Conv):
            window: dict[str, Any] = {
                "strides": op.strides, "pads": op.pads, "dilations": op.dilations,
                "depthwise": op.group != 1,
            }  # fmt: skip
            made = QuantizedConv(*common, **window)
        else:
            made = QuantizedMatMul(*common)
        outer = 1.0 / unit
        if table is not None:
            return made, table.scale, table.unit * outer
        if all(isinstance(o, HOMOGENEOUS) for o in ops):
            return made, outer, None
        return made, 1.0, outer if bound else None

    # ---- recurrent layers ----

    def _gates_of(self, value: str) -> set[str]:
        """The value itself if it is nothing but what goes into the gates of one layer."""
        readers = self.graph.consumers(value)
        if len(readers) != 1 or value in self.graph.outputs:
            return set()
        (reader,) = readers
        alone = reader.inputs[0] == value and reader.inputs.count(value) == 1
        return {value} if alone and self.is_recurrent(reader) else set()

    def _in_steps(self, value: str, scale: F64, bias: F64 | None) -> tuple[F64, F64 | None]:
        """Scale and bias of a product for gates, in steps of their tables."""
        (reader,) = self.graph.consumers(value)
        assert isinstance(reader.op, Lstm | Gru | Rnn)
        steps = gate_steps(reader.op).reshape(-1)
        self._gates[value] = steps
        return scale * steps, None if bias is None else bias * steps

    def recurrent(self, node: Node) -> None:
        """A recurrent layer; projected inputs are in steps of its tables already, or get so."""
        op = node.op
        assert isinstance(op, Lstm | Gru | Rnn)
        p, r, *rest = (*node.inputs, "", "", "")[:5]
        h0, c0, others = rest if isinstance(op, Lstm) else (rest[0], "", rest[1])
        steps, new = gate_steps(op), list[Node]()
        if p not in self._gates:
            factor = self.constant(f"{node.name}/steps", steps.reshape(-1))
            p = self.add(Mul(), f"{node.name}/in_steps", [p, factor], new)
        recurrent = [f64(w) for w in self.graph.constants[r]]
        sequence = node.outputs[op.returns.index(SEQUENCE)] if SEQUENCE in op.returns else ""
        rms = self.spread(node.outputs[0]).rms if op.returns[0] in (SEQUENCE, HIDDEN) else 0.5
        after = self.products(sequence) if sequence else []
        bound = choose_state_bound([*recurrent, *after], rms, self.dtype)
        rounded = [round_weights(w, bound, self.dtype) for w in recurrent]
        scale = np.stack([w.steps for w in rounded]) / bound * steps
        integers = np.stack([w.integers for w in rounded])
        inputs = [
            p,
            self.constant(f"{node.name}/{self.dtype.value}", integers),
            self.constant(f"{node.name}/scale", scale),
            h0,
            c0,
        ]
        if others:
            inputs.append(
                self.constant(f"{node.name}/others", in_steps(op, self.graph.constants[others]))
            )
        while not inputs[-1]:
            inputs.pop()
        made = INTEGER[type(op)](
            op.cells, op.activations, bound, self.dtype, op.reverse, op.returns
        )
        outputs = list(node.outputs)
        self.layers.append(node.name)
        if sequence:
            shape = self.graph.types[sequence].shape
            name = self.rewriter.value(f"{sequence}/integers", TensorType(shape, self.dtype))
            outputs[op.returns.index(SEQUENCE)] = name
        new.append(Node(made, node.name, tuple(inputs), tuple(outputs)))
        if sequence:
            self.floats(Integers(name, bound, 1.0 / bound), sequence, new)
        self.rewriter.replace_node(node, new)


def on_integers(op: Op) -> Op:
    """What does to integers as an operator of `Quantizer.moves` does to floats."""
    if isinstance(op, MaxPool):
        return QuantizedMaxPool(op.kernel, op.strides, op.pads, op.dilations)
    return op
