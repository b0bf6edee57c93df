"""Causal networks as PyTorch exports them, and streaming models with their caches as tensors: calls
of the C code give what ONNX's own interpreter computes for the whole sequence.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import cannery
from cannery.options import make_options
from cannery.pipeline import compile_model
from frontends.onnx_models import expected, floats, model, node, write
from needs import need_program, need_toolchain

STEPS = 48
TOLERANCE = 2e-6

Array = NDArray[Any]


@dataclass
class Maker:
    """Nodes and weights of a network with channels first, one after the other."""

    nodes: list[Any] = field(default_factory=list)
    weights: dict[str, Array] = field(default_factory=dict)

    def weight(self, *shape: int) -> str:
        """The same for the same number of weights before it, with caches or without."""
        seed = sum(name.startswith("w") for name in self.weights)
        scale = np.float32(np.prod(shape[1:])) ** 0.5
        self.weights[f"w{seed}"] = floats(*shape, seed=seed) / scale
        return f"w{seed}"

    def constant(self, *numbers: int) -> str:
        name = f"c{len(self.weights)}"
        self.weights[name] = np.array(numbers, np.int64)
        return name

    def add(self, kind: str, *inputs: str, **attributes: Any) -> str:
        return self.several(1, kind, *inputs, **attributes)[0]

    def several(self, outputs: int, kind: str, *inputs: str, **attributes: Any) -> list[str]:
        names = [f"v{len(self.nodes)}_{k}" for k in range(outputs)]
        self.nodes.append(node(kind, inputs, names, **attributes))
        return names

    def conv(self, x: str, shape: tuple[int, int, int], **attributes: Any) -> str:
        return self.add("Conv", x, self.weight(*shape), self.weight(shape[0]), **attributes)

    def left(self, x: str, steps: int) -> str:
        """torch.nn.functional.pad(x, (steps, 0))."""
        return self.add("Pad", x, self.constant(0, 0, steps, 0, 0, 0))

    def cut(self, x: str, start: int, end: int) -> str:
        """x[:, :, start:end]."""
        bounds = [self.constant(v) for v in (start, end, 2)]
        return self.add("Slice", x, *bounds)


def left_padded(m: Maker, x: str) -> str:
    """Padded before each convolution, with residuals: WaveNet."""
    for dilation in (1, 2, 4):
        channels = 2 if dilation == 1 else 6
        y = m.add("Tanh", m.conv(m.left(x, 2 * dilation), (6, channels, 3), dilations=[dilation]))
        x = y if dilation == 1 else m.add("Add", x, y)
    return m.conv(x, (1, 6, 1))


def chomped(m: Maker, x: str) -> str:
    """Padded on both sides, the end cut off again: Bai, Kolter & Koltun 2018."""
    for dilation in (1, 2):
        channels, pad = 2 if dilation == 1 else 6, 2 * dilation
        y = m.conv(x, (6, channels, 3), dilations=[dilation], pads=[pad, pad])
        y = m.add("Relu", m.cut(y, 0, -pad))
        x = m.add("Relu", m.add("Add", y, m.conv(x, (6, channels, 1)) if dilation == 1 else x))
    return x


def gated(m: Maker, x: str) -> str:
    """A stride, a depthwise convolution, a gate by halves, and a GRU after them."""
    x = m.add("Relu", m.conv(m.left(x, 4), (8, 2, 5), strides=[2]))
    x = m.conv(m.left(x, 6), (8, 1, 7), group=8)
    first, second = m.several(2, "Split", m.conv(x, (10, 8, 1)), axis=1, num_outputs=2)
    x = m.add("Mul", first, m.add("Sigmoid", second))
    x = m.add("Transpose", x, perm=[2, 0, 1])
    weights = [m.weight(1, 9, 5), m.weight(1, 9, 3), m.weight(1, 18)]
    y, _ = m.several(2, "GRU", x, *weights, hidden_size=3, linear_before_reset=1)
    y = m.add("Squeeze", y, m.constant(1))
    return m.add("Transpose", y, perm=[1, 2, 0])


#: The depthwise windows of the blocks of a wake word: several lengths side by side.
MIXED = ((3,), (3, 5), (7,))

WIDTH, STRIDE = 8, 3


def mixed(m: Maker, x: str, kernels: tuple[int, ...], take: Callable[[str, int], str]) -> str:
    """Depthwise windows of several lengths on parts of the channels, then a product; `take` gives
    a part what a window reads of the past.
    """
    part = WIDTH // len(kernels)
    parts = m.several(len(kernels), "Split", x, axis=1, num_outputs=len(kernels))
    ys = [m.conv(take(p, k), (part, 1, k), group=part) for p, k in zip(parts, kernels, strict=True)]
    y = m.add("Concat", *ys, axis=1) if len(ys) > 1 else ys[0]
    return m.add("Relu", m.conv(y, (WIDTH, WIDTH, 1)))


def wake_word(m: Maker, x: str) -> str:
    """Of microWakeWord's kind: three frames at once, mixed windows, residuals, the last steps."""
    x = m.add("Relu", m.conv(m.left(x, 2), (WIDTH, 2, 5), strides=[STRIDE]))
    for k, kernels in enumerate(MIXED):
        y = mixed(m, x, kernels, lambda p, size: m.left(p, size - 1))
        x = m.add("Add", x, y) if k else y
    return m.add("Sigmoid", m.conv(m.left(x, 3), (1, WIDTH, 4)))


#: Steps of the past that each window of `wake_word` reads, and its channels.
CACHES = ((2, 2), *((max(kernels) - 1, WIDTH) for kernels in MIXED), (3, WIDTH))


def wake_word_with_caches(m: Maker, x: str) -> list[str]:
    """The same for STRIDE frames; the output and the new caches."""
    news: list[str] = []

    def window(x: str) -> str:
        """The cache, and what is new; the end of both is the next cache."""
        number = len(news)
        both = m.add("Concat", f"cache{number}", x, axis=2)
        news.append(m.cut(both, -CACHES[number][0], 2**31 - 1))
        return both

    x = m.add("Relu", m.conv(window(x), (WIDTH, 2, 5), strides=[STRIDE]))
    for k, kernels in enumerate(MIXED):
        longest = max(kernels)
        y = mixed(m, window(x), kernels, lambda p, size, n=longest: m.cut(p, n - size, 2**31 - 1))
        x = m.add("Add", x, y) if k else y
    return [m.add("Sigmoid", m.conv(window(x), (1, WIDTH, 4))), *news]


Build = Callable[[Maker, str], str]

#: Networks, and steps of a call that their strides allow.
WHOLE: list[tuple[Build, int]] = [
    (left_padded, 1), (left_padded, 4), (chomped, 3), (gated, 4), (wake_word, STRIDE),
    (wake_word, 2 * STRIDE),
]  # fmt: skip


def proto_of(build: Build) -> Any:
    """The network for a whole sequence."""
    m = Maker()
    return model(m.nodes, {"x": [1, 2, STEPS]}, [build(m, "x")], m.weights, opset=18)


def check_steps(net: Any, whole: Any, block: int) -> None:
    """Compare the calls of a network with the whole sequence."""
    x = floats(1, 2, STEPS, seed=99)
    (right,) = expected(whole, {"x": x})
    state = net.new_state()
    parts = [np.ascontiguousarray(x[:, :, t : t + block]) for t in range(0, STEPS, block)]
    made = np.concatenate([np.array(net.step(state, part)) for part in parts], axis=2)
    np.testing.assert_allclose(made, right, atol=TOLERANCE)


@pytest.mark.parametrize("isa", ["generic", "sse2"])
@pytest.mark.parametrize(("build", "block"), WHOLE)
def test_a_causal_network(build: Build, block: int, isa: str, tmp_path: Path) -> None:
    need_program("gcc")
    need_toolchain(isa)
    proto = proto_of(build)
    file = write(tmp_path / "net.onnx", proto)
    check_steps(cannery.load(file, streaming=True, block=block, isa=isa), proto, block)


def cached(tmp_path: Path) -> tuple[Path, tuple[str, ...]]:
    """The file of the wake word with caches, and their pairs."""
    m = Maker()
    inputs = {"x": [1, 2, STRIDE]} | {
        f"cache{k}": [1, channels, steps] for k, (steps, channels) in enumerate(CACHES)
    }
    outputs = wake_word_with_caches(m, "x")
    file = write(tmp_path / "net.onnx", model(m.nodes, inputs, outputs, m.weights, opset=18))
    return file, tuple(f"cache{k}={name}" for k, name in enumerate(outputs[1:]))


@pytest.mark.parametrize("isa", ["generic", "sse2"])
def test_a_network_with_its_caches_as_tensors(isa: str, tmp_path: Path) -> None:
    need_program("gcc")
    need_toolchain(isa)
    file, pairs = cached(tmp_path)
    check_steps(cannery.load(file, state=pairs, isa=isa), proto_of(wake_word), STRIDE)


def test_caches_are_rings(tmp_path: Path) -> None:
    """Nothing is shifted, but for the cache beside the input, whose channels come first."""
    file, pairs = cached(tmp_path)
    source = compile_model(make_options(file, {"state": pairs, "isa": ("sse2",)})).files["net.c"]
    assert len(re.findall(rb"in a ring", source)) == len(CACHES) - 1
