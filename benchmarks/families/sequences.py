"""Networks of points, of samples in time and of steps."""

from __future__ import annotations

from typing import Any

import numpy as np

from families.onnx_builder import OnnxBuilder


def _of_each_point(b: OnnxBuilder, x: str, *filters: int) -> str:
    """Dense layers that are the same for every point."""
    for count in filters:
        x = b.relu(b.conv(x, count, 1))
    return x


def _of_all_points(b: OnnxBuilder, x: str, *units: int) -> str:
    """The greatest of each channel over all points, then dense layers; the last one is linear."""
    x = b.node("ReduceMax", b.shapes[x][:2], x, axes=[2], keepdims=0)
    for count in units[:-1]:
        x = b.relu(b.linear(x, count, 2**0.5))
    return b.linear(x, units[-1], 0.1)


def pointnet() -> Any:
    """Qi et al., "PointNet", 2017; 1024 points, 40 classes, the input transform; 295 MMAC."""
    b = OnnxBuilder("pointnet", 61)
    points = b.input("points", 1, 3, 1024)
    turn = _of_all_points(b, _of_each_point(b, points, 64, 128, 1024), 512, 256, 9)
    turn = b.add(turn, b.constant(np.eye(3, dtype=np.float32).reshape(1, 9)))
    rows = b.transpose(points, 0, 2, 1)
    rows = b.node("MatMul", (1, 1024, 3), rows, b.reshape(turn, 1, 3, 3))
    x = _of_each_point(b, b.transpose(rows, 0, 2, 1), 64, 64, 64, 128, 1024)
    return b.model(scores=_of_all_points(b, x, 512, 256, 40))


def _causal(b: OnnxBuilder, x: str, filters: int, dilation: int) -> str:
    """A convolution padded on both sides, less what it looks ahead."""
    ahead, steps = 2 * dilation, b.shapes[x][2]
    wide = b.conv(x, filters, 3, pad=ahead, dilation=dilation)
    ends = (b.integers(0), b.integers(steps), b.integers(2))
    return b.relu(b.node("Slice", (1, filters, steps), wide, *ends))


def wave_tcn() -> Any:
    """Bai et al., "Sequence Modeling" (TCN), 2018; 16000 samples of sound, 38 MMAC."""
    b = OnnxBuilder("wave_tcn", 62)
    x = b.relu(b.conv(b.input("sound", 1, 1, 16000), 32, 16, 16, pad=0))
    for dilation in (1, 2, 4, 8, 16, 32):
        inner = _causal(b, _causal(b, x, 32, dilation), 32, dilation)
        x = b.relu(b.add(inner, x))
    mean = b.node("ReduceMean", (1, 32), x, axes=[2], keepdims=0)
    return b.model(scores=b.linear(mean, 35))


def _recurrent(b: OnnxBuilder, kind: str, x: str, cells: int) -> str:
    """One layer of PyTorch's LSTM or GRU, of steps x 1 x features."""
    steps, _, taken = b.shapes[x]
    gates = {"LSTM": 4, "GRU": 3}[kind]
    weights = (
        b.normal(1, gates * cells, taken, scale=taken**-0.5),
        b.normal(1, gates * cells, cells, scale=cells**-0.5),
        b.normal(1, 2 * gates * cells, scale=0.1),
    )
    how = {"linear_before_reset": 1} if kind == "GRU" else {}
    shape = (steps, 1, 1, cells)
    (states,) = b.nodes_of(kind, [shape], x, *weights, hidden_size=cells, **how)
    return b.node("Squeeze", (steps, 1, cells), states, b.integers(1))


def lstm_128() -> Any:
    """Hochreiter & Schmidhuber, "LSTM", 1997; two layers of 128, 100 steps of 40, 22 MMAC."""
    b = OnnxBuilder("lstm_128", 63)
    x = b.input("steps", 100, 1, 40)
    for _ in range(2):
        x = _recurrent(b, "LSTM", x, 128)
    return b.model(scores=b.linear(b.take(x, 99, 0), 12))


def gru_denoiser() -> Any:
    """Valin, "A Hybrid DSP/Deep Learning Approach" (RNNoise), 2018; 100 frames, 8.7 MMAC."""
    b = OnnxBuilder("gru_denoiser", 64)
    frames = b.input("frames", 100, 1, 42)
    first = b.plain("Tanh", b.linear(frames, 24))
    speech = _recurrent(b, "GRU", first, 24)
    noise = _recurrent(b, "GRU", b.concat([first, speech, frames], 2), 48)
    clean = _recurrent(b, "GRU", b.concat([speech, noise, frames], 2), 96)
    return b.model(
        gains=b.plain("Sigmoid", b.linear(clean, 22)),
        voice=b.plain("Sigmoid", b.linear(speech, 1)),
    )
