"""Quantised TensorFlow Lite networks step by step: the bits of the whole sequence."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from cannery.frontends import load_graph
from cannery.frontends.streaming import AUTO, to_streaming
from cannery.ir.evaluate import evaluate
from cannery.ir.tensor import DType
from frontends.tflite_nets import Net

STEPS = 30


class _Sequence(Net):
    """Layers along time, the second axis."""

    def along(self, channels: int, taps: int, *, same: bool = False) -> None:
        """A convolution; with no channels, one for each of them."""
        n, steps, w, c = self._shape()
        each, made = not channels, channels or c
        shape, axis = ((1, taps, 1, c), 3) if each else ((made, taps, 1, c), 0)
        terms = taps if each else taps * c
        weights, bias, mean = self._weights(shape, axis, terms)
        size = (n, steps if same else steps - taps + 1, w, made)
        y = self._made(size, self._after(mean, terms, True), True)
        self.x = self.graph.add(
            "DEPTHWISE_CONV_2D" if each else "CONV_2D", [self.x, weights, bias], y,
            options="DepthwiseConv2DOptions" if each else "Conv2DOptions",
            Padding=0 if same else 1, StrideH=1, StrideW=1, FusedActivationFunction=1,
            **({"DepthMultiplier": 1} if each else {}),
        )  # fmt: skip

    def largest(self, kind: str) -> None:
        """A pool of three steps."""
        n, steps, w, c = self._shape()
        old = self.graph.tensors[self.x]
        y = self.graph.tensor((n, steps - 2, w, c), "INT8", scales=old.scales, zeros=old.zeros)
        self.x = self.graph.add(
            kind, [self.x], y, options="Pool2DOptions", Padding=1, StrideH=1, StrideW=1,
            FilterHeight=3, FilterWidth=1,
        )  # fmt: skip


def convolutions() -> _Sequence:
    """As microWakeWord has them, with a probability for each step."""
    net = _Sequence((1, STEPS, 1, 8))
    net.along(12, 5)
    for taps in (3, 7):
        net.along(0, taps)
        net.along(10, 1)
    net.logistic()
    return net


def padded() -> _Sequence:
    """Padding before the first step holds the zero point."""
    net = _Sequence((1, STEPS, 1, 8))
    net.along(12, 5, same=True)
    net.along(0, 3, same=True)
    net.softmax()
    return net


def pooled() -> _Sequence:
    """Pools between convolutions."""
    net = _Sequence((1, STEPS, 1, 8))
    net.along(6, 3)
    net.largest("MAX_POOL_2D")
    net.along(6, 1)
    net.largest("AVERAGE_POOL_2D")
    return net


@pytest.mark.parametrize("make", [convolutions, padded, pooled])
def test_steps_give_the_bits_of_the_sequence(make: Callable[[], _Sequence], tmp_path: Path) -> None:
    (tmp_path / "net.tflite").write_bytes(make().data())
    graph = load_graph(tmp_path / "net.tflite")
    calls = to_streaming(graph, 1, AUTO)
    assert calls.calls is not None
    assert {calls.types[s.input].dtype for s in calls.states} <= {DType.INT8, DType.FLOAT32}
    (name,), (result, *_) = graph.inputs, graph.outputs
    x = np.random.default_rng(3).integers(-128, 128, graph.types[name].shape).astype(np.int8)
    (whole,) = evaluate(graph, {name: x}).values()
    late, state = calls.calls.latency, {}
    for s in calls.states:
        type_ = calls.types[s.input]
        first = np.array(s.initial) if s.initial else np.zeros(type_.elements)
        state[s.input] = first.reshape(type_.shape).astype(type_.dtype.numpy)
    compared = 0
    for step in range(STEPS):
        found = evaluate(calls, {**state, name: x[:, step : step + 1]})
        state = {s.input: np.asarray(found[s.output]) for s in calls.states}
        if 0 <= step - late < whole.shape[1]:
            assert np.array_equal(found[result][:, 0], whole[:, step - late])
            compared += 1
    assert compared >= STEPS - late
    assert len(np.unique(whole)) > 20
