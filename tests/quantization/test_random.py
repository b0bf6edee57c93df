"""Random networks quantised to int16 lose next to nothing, whatever becomes integers in them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from cannery.errors import OptionError
from cannery.ir.graph import Graph, GraphBuilder
from cannery.ir.registry import Op
from cannery.ir.tensor import DType
from cannery.ops.average_pool.op import AveragePool
from cannery.ops.concat.op import Concat
from cannery.ops.conv.op import Conv
from cannery.ops.elementwise import Add, Clip, LeakyRelu, Max, Mul, Relu, Sigmoid, Sub, Tanh
from cannery.ops.matmul.op import MatMul
from cannery.ops.max_pool.op import MaxPool
from cannery.ops.movement.op import Pad, Reshape
from cannery.ops.reduce.op import ReduceMean
from cannery.ops.resize.op import Resize
from cannery.ops.softmax.op import Softmax
from cannery.passes import run_passes
from cannery.quantization.quantize import quantize

#: The largest loss, relative to the largest output; wrong results are off by far more.
LOSS = 0.01
SAMPLES = 4


@dataclass
class _Maker:
    rng: np.random.Generator
    builder: GraphBuilder
    values: list[str]

    def integer(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high + 1))

    def shape(self, value: str) -> tuple[int, ...]:
        return self.builder.types[value].shape

    def pick(self) -> str:
        return self.values[-1 - min(int(self.rng.geometric(0.6)) - 1, len(self.values) - 1)]

    def weight(self, *shape: int) -> str:
        fan_in = max(int(np.prod(shape[:-1])), 1) if len(shape) > 1 else 1
        array = self.rng.standard_normal(shape) / fan_in**0.5
        return self.builder.constant("w", array.astype(np.float32))

    def node(self, op: Op, *inputs: str) -> str:
        name = f"n{self.builder.size}_{op.kind.lower()}"
        return self.builder.node(op, inputs, name=name)


def _conv(m: _Maker) -> str:
    x = m.pick()
    c = m.shape(x)[-1]
    depthwise = m.integer(0, 3) == 0
    outputs, pads = (c if depthwise else m.integer(2, 6)), ((1, 1), (1, 1))
    weight = m.weight(3, 3, 1 if depthwise else c, outputs)
    bias = [m.weight(outputs)] if m.integer(0, 1) else []
    return m.node(Conv((1, 1), pads, (1, 1), c if depthwise else 1), x, weight, *bias)


def _dense(m: _Maker) -> str:
    x, turned, outputs = m.pick(), bool(m.integer(0, 1)), m.integer(2, 6)
    c = m.shape(x)[-1]
    weight = m.weight(outputs, c) if turned else m.weight(c, outputs)
    return m.node(MatMul(transpose_b=turned), x, weight, m.weight(outputs))


def _act(m: _Maker) -> str:
    ops = (Relu(), LeakyRelu(0.2), Clip(0.0, 0.7), Clip(-0.4, 0.6), Sigmoid(), Tanh())
    return m.node(ops[m.integer(0, 5)], m.pick())


def _pair(m: _Maker) -> str:
    """Two results of layers, combined, with what may be part of that."""
    x = m.pick()
    c = m.shape(x)[-1]
    a, b = (m.node(MatMul(), x, m.weight(c, 4), m.weight(4)) for _ in range(2))
    y = m.node((Add(), Sub(), Mul(), Max())[m.integer(0, 3)], a, b)
    y = m.node((Relu(), Clip(-0.3, 0.5), Clip(0.0, 0.6))[m.integer(0, 2)], y)
    return m.node(MatMul(), y, m.weight(4, 3)) if m.integer(0, 1) else y


def _joined(m: _Maker) -> str:
    x = m.pick()
    c = m.shape(x)[-1]
    large = m.builder.constant("large", 20.0 * m.rng.standard_normal((c, 3)).astype(np.float32))
    parts = [m.node(MatMul(), x, m.weight(c, 3)), m.node(MatMul(), x, large)]
    return m.node(MatMul(), m.node(Concat(3), *parts), m.weight(6, 4))


def _moved(m: _Maker) -> str:
    x = m.pick()
    n, h, w, c = m.shape(x)
    ops: tuple[Op, ...] = (
        Pad(((0, 0), (1, 0), (0, 1), (0, 0)), (0.0, 1.0, -2.0)[m.integer(0, 2)]),
        Resize("nearest", (2 * h, 2 * w), "asymmetric", "floor"),
        Reshape((n, w, h, c)),
        MaxPool((2, 2), (1, 1), ((0, 0), (0, 0)), (1, 1)),
        AveragePool((2, 2), (1, 1), ((0, 1), (1, 0)), (1, 1), bool(m.integer(0, 1))),
    )
    y = m.node(ops[m.integer(0, len(ops) - 1)], x)
    return m.node(MatMul(), y, m.weight(c, 4)) if m.integer(0, 1) else y


def _mean(m: _Maker) -> str:
    return m.node(ReduceMean((1, 2), True), m.pick())


def _steps(m: _Maker) -> str:
    """The mean of all steps of a sequence."""
    x = m.pick()
    n, h, w, c = m.shape(x)
    steps = m.node(Reshape((n, h * w, c)), x)
    y = m.node(ReduceMean((1,), bool(m.integer(0, 1))), m.node(MatMul(), steps, m.weight(c, 4)))
    y = m.node(MatMul(), m.node(Reshape((n, 4)), y), m.weight(4, 3)) if m.integer(0, 1) else y
    return m.node(Reshape((n, 1, 1, m.builder.types[y].elements)), y)


def _softmax(m: _Maker) -> str:
    return m.node(Softmax(m.integer(1, 3)), m.pick())


_BLOCKS: tuple[Callable[[_Maker], str], ...] = (
    _conv, _conv, _dense, _dense, _act, _act, _pair, _pair, _joined, _moved, _moved, _mean,
    _softmax, _steps,
)  # fmt: skip


def network(seed: int) -> Graph:
    """Three to six layers, the first one a convolution; inner values may be outputs, too."""
    rng = np.random.default_rng(seed)
    builder = GraphBuilder(f"random_{seed}")
    m = _Maker(rng, builder, [builder.input("x", (1, 4, 5, 3))])
    m.values.append(_conv(m))
    for _ in range(m.integer(2, 5)):
        made = _BLOCKS[m.integer(0, len(_BLOCKS) - 1)](m)
        if min(m.shape(made)[1:3]) > 1 and builder.types[made].elements < 1000:
            m.values.append(made)
        else:
            builder.output(made)
    builder.output(m.values[-1])
    if m.integer(0, 2) == 0 and len(m.values) > 2:
        builder.output(m.values[-2])
    return builder.build()


@pytest.mark.parametrize("raw", [False, True])
@pytest.mark.parametrize("part", range(4))
def test_next_to_nothing_is_lost(part: int, raw: bool, tmp_path: Path) -> None:
    rng = np.random.default_rng(part)
    np.savez(tmp_path / "x.npz", x=rng.standard_normal((SAMPLES, 4, 5, 3)).astype(np.float32))
    quantised = 0
    for seed in range(part, 160, 4):
        graph = run_passes(network(seed), integers=True)
        try:
            made = quantize(graph, DType.INT16, tmp_path / "x.npz", LOSS, raw=raw)
        except OptionError as error:
            assert "no layer" in str(error), f"network {seed}: {error}"
            continue
        quantised += len(made.integer_layers) or 1
    assert quantised > 20
