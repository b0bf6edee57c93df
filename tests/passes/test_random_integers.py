"""Networks of integers stay what they are, to the last unit, whatever shapes their scales have.

Every length is four, so that a scale of each row, of each column or of each term of a sum has the
shape of the others. Scales are powers of two: nothing is rounded but results.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pytest

from cannery.ir.evaluate import evaluate
from cannery.ir.graph import Graph, GraphBuilder
from cannery.ir.registry import Op, RefArray
from cannery.ir.tensor import DType
from cannery.ir.verify import verify
from cannery.ops.elementwise import Add, Clip, Max, Mul, Relu, Sub
from cannery.ops.matmul.op import MatMul
from cannery.ops.movement.op import Cast, Reshape, Transpose
from cannery.ops.quantize.linear import DequantizeLinear, QuantizeLinear, Requantize
from cannery.ops.quantize.products import MatMulInteger
from cannery.passes.quantised_layers import quantised_layers
from cannery.passes.quantised_values import quantised_values

N = 4
SHAPES = ((), (), (), (1,), (N,), (N, 1), (1, N))
BYTES = (DType.INT8, DType.UINT8)

#: Networks of each kind.
COUNT = 60


@dataclass
class _Maker:
    rng: np.random.Generator
    b: GraphBuilder
    outputs: list[str] = field(default_factory=list)

    def chance(self, percent: int) -> bool:
        return bool(self.rng.integers(100) < percent)

    def shape(self, *shapes: tuple[int, ...]) -> tuple[int, ...]:
        """One of these, or of all."""
        choices = shapes or SHAPES
        return choices[int(self.rng.integers(len(choices)))]

    def node(self, op: Op, *inputs: str) -> str:
        """A node whose result is an output of the network now and then."""
        value = self.b.node(op, inputs, name=f"n{self.b.size}_{op.kind.lower()}")
        if self.chance(8):
            self.outputs.append(value)
        return value

    def bytes(self) -> DType:
        return BYTES[int(self.rng.integers(2))]

    def scale(self, *shapes: tuple[int, ...]) -> str:
        exponents = self.rng.integers(-5, 1, self.shape(*shapes))
        return self.b.constant("scale", np.float32(2.0) ** exponents.astype(np.float32))

    def zero(self, dtype: DType, *shapes: tuple[int, ...]) -> str:
        """A zero point, mostly zero or one number."""
        shape = () if self.chance(70) else self.shape(*shapes)
        low = 0 if self.chance(40) or dtype is DType.UINT8 else -9
        values = self.rng.integers(low, 10 if self.chance(60) else 1, shape)
        return self.b.constant("zero", np.asarray(values, dtype.numpy))

    def input(self, dtype: DType) -> str:
        return self.b.input(f"x{self.b.size}", (N, N), dtype)

    def weights(self, dtype: DType) -> str:
        low = 0 if dtype is DType.UINT8 else -20
        return self.b.constant("w", self.rng.integers(low, 21, (N, N)).astype(dtype.numpy))

    def floats(self, value: str, dtype: DType) -> str:
        return self.node(DequantizeLinear(), value, self.scale(), self.zero(dtype))

    def activated(self, value: str) -> str:
        ops = (Relu(), Clip(-3.0, 6.0), Clip(0.0, 5.0))
        return self.node(ops[int(self.rng.integers(3))], value) if self.chance(50) else value

    def quantised(self, value: str) -> str:
        dtype = self.bytes()
        return self.node(QuantizeLinear(), value, self.scale(), self.zero(dtype))


def _dense(m: _Maker) -> str:
    """A dense layer between bytes, with a bias or not."""
    x, w = m.bytes(), m.bytes()
    y = m.node(MatMul(), m.floats(m.input(x), x), m.floats(m.weights(w), w))
    if m.chance(50):
        bias = m.b.constant("bias", m.rng.integers(-8, 9, m.shape((N,), (N, 1))).astype(np.float32))
        y = m.node(Add(), *((y, bias) if m.chance(50) else (bias, y)))
    y = m.activated(y)
    return m.quantised(y) if m.chance(80) else y


def _product(m: _Maker) -> str:
    """An integer product, made bytes or floats."""
    x, w = m.bytes(), m.bytes()
    zeros = (m.zero(x, (), (N, 1), (1, N)), m.zero(w, (), (N,), (N, 1)))
    sums = m.node(MatMulInteger(), m.input(x), m.weights(w), *zeros)
    if m.chance(50):
        y = m.bytes()
        return m.node(Requantize(), sums, m.scale(), m.scale(), m.scale(), m.zero(y))
    floats = m.node(Cast(DType.FLOAT32), sums)
    scaled = m.node(Mul(), *((floats, m.scale()) if m.chance(50) else (m.scale(), floats)))
    return m.activated(scaled)


def _pair(m: _Maker) -> str:
    """Two values of bytes, combined and moved."""
    a, b = m.bytes(), m.bytes()
    ops: tuple[Op, ...] = (Add(), Sub(), Mul(), Max())
    left, right = m.floats(m.input(a), a), m.floats(m.input(b), b)
    y = m.activated(m.node(ops[int(m.rng.integers(len(ops)))], left, right))
    moves: tuple[Op, ...] = (Transpose((1, 0)), Reshape((N, N)), Reshape((1, N * N)))
    y = m.node(moves[int(m.rng.integers(3))], y) if m.chance(40) else y
    scalar = DType.INT8
    zero = m.zero(scalar, ())
    return m.node(QuantizeLinear(), y, m.scale(()), zero)


BLOCKS: tuple[Callable[[_Maker], str], ...] = (_dense, _product, _pair)


def network(block: Callable[[_Maker], str], seed: int) -> Graph:
    maker = _Maker(np.random.default_rng(seed), GraphBuilder("net"))
    result = block(maker)
    for value in dict.fromkeys([*maker.outputs, result]):
        maker.b.output(value)
    return maker.b.build()


def inputs(graph: Graph) -> dict[str, RefArray]:
    rng = np.random.default_rng(1)
    found = {}
    for name in graph.inputs:
        low, high = (-128, 127) if graph.types[name].dtype is DType.INT8 else (0, 255)
        values = rng.integers(low, high + 1, (N, N))
        found[name] = values.astype(graph.types[name].dtype.numpy)
    return found


@pytest.mark.parametrize("block", BLOCKS)
def test_integers_stay_what_they_are(block: Callable[[_Maker], str]) -> None:
    changed = 0
    for seed in range(COUNT):
        graph = network(block, seed)
        given = inputs(graph)
        expected = evaluate(graph, given)
        made = quantised_values(quantised_layers(graph))
        verify(made, after="integers")
        changed += [n.op.kind for n in made.nodes] != [n.op.kind for n in graph.nodes]
        for name, result in evaluate(made, given).items():
            wanted = expected[name]
            assert np.array_equal(result, wanted), f"seed {seed}: {name}"
    assert changed > COUNT // 10, "otherwise nothing was tried"
