"""Fourier transforms in all their settings, compared with numpy's."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("onnx")

from cannery.ir.evaluate import evaluate
from cannery.ir.orders import from_model, to_model
from frontends.onnx_models import load, model, node

Array = NDArray[Any]

TOLERANCE = 1e-5


def computed(
    folder: Path, kind: str, x: Array, others: Mapping[str, Any], opset: int, **attributes: int
) -> Array:
    """What the references of a model of one operator compute; `others` are its known inputs."""
    names = ["x", *(name if name in others else "" for name in ("b", "c", "d"))]
    known = {name: np.asarray(value) for name, value in others.items()}
    proto = model(
        [node(kind, names, ["y"], **attributes)], {"x": x.shape}, ("y",), known, opset
    )  # fmt: skip
    graph = load(folder, proto)
    outputs = to_model(graph, evaluate(graph, from_model(graph, {"x": x})))
    return np.asarray(next(iter(outputs.values())))


def parts_of(z: Array) -> Array:
    return np.stack([z.real, z.imag], axis=-1)


def complex_of(x: Array) -> Array:
    return x[..., 0] + 1j * x[..., 1] if x.shape[-1] == 2 else x[..., 0].astype(complex)


FORWARD = [
    (parts, onesided, axis, length)
    for parts, onesided, axis, length in product((1, 2), (0, 1), (1, -2, 2), (None, 5, 8, 11))
    if not (onesided and parts == 2)  # the other half would be another one
]


@pytest.mark.parametrize(("parts", "onesided", "axis", "length"), FORWARD)
@pytest.mark.parametrize("opset", [17, 20])
def test_forward(
    opset: int, parts: int, onesided: int, axis: int, length: int | None, tmp_path: Path
) -> None:
    """Numbers beyond the length are cut off, those that are missing are 0."""
    x = np.random.default_rng(parts).standard_normal((2, 8, 9, parts)).astype(np.float32)
    others: dict[str, Any] = {} if length is None else {"b": np.int64(length)}
    settings = {"axis": axis} if opset < 20 else {}
    others |= {} if opset < 20 else {"c": np.int64(axis)}
    found = computed(tmp_path, "DFT", x, others, opset, onesided=onesided, **settings)
    along = axis + (4 if axis < 0 else 0)
    right = np.fft.fft(complex_of(x), length, along)
    if onesided:
        count = right.shape[along] // 2 + 1
        right = np.take(right, range(count), along)
    np.testing.assert_allclose(found, parts_of(right), atol=TOLERANCE * 10)


@pytest.mark.parametrize("length", [5, 8, 9])
def test_inverse(length: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(length)
    x = rng.standard_normal((1, length, 3, 2)).astype(np.float32)
    found = computed(tmp_path, "DFT", x, {"c": np.int64(1)}, 20, inverse=1)
    np.testing.assert_allclose(found, parts_of(np.fft.ifft(complex_of(x), axis=1)), atol=TOLERANCE)


@pytest.mark.parametrize("length", [4, 7, 8, 9])
def test_real_numbers_come_back_from_half_of_their_spectrum(length: int, tmp_path: Path) -> None:
    """Of even lengths the highest frequency is there once, of odd ones twice."""
    x = np.random.default_rng(length).standard_normal((2, length)).astype(np.float32)
    half = parts_of(np.fft.rfft(x, axis=1)).astype(np.float32)[:, :, None, :]
    others = {"b": np.int64(length), "c": np.int64(1)}
    found = computed(tmp_path, "DFT", half, others, 20, inverse=1, onesided=1)
    np.testing.assert_allclose(found[:, :, 0, 0], x, atol=TOLERANCE)


@pytest.mark.parametrize("onesided", [0, 1])
@pytest.mark.parametrize(("length", "size", "step"), [(16, 8, 4), (17, 8, 3), (10, 10, 1)])
@pytest.mark.parametrize("windowed", [False, True])
def test_frames(
    length: int, size: int, step: int, onesided: int, windowed: bool, tmp_path: Path
) -> None:
    """As many as fit, each with the window's weights."""
    x = np.random.default_rng(length).standard_normal((2, length, 1)).astype(np.float32)
    window = np.hanning(size).astype(np.float32) + np.float32(0.1)
    others: dict[str, Any] = {"b": np.int64(step), "d": np.int64(size)}
    others |= {"c": window} if windowed else {}
    found = computed(tmp_path, "STFT", x, others, 17, onesided=onesided)
    starts = range(0, length - size + 1, step)
    frames = np.stack([x[:, s : s + size, 0] * (window if windowed else 1) for s in starts], 1)
    right = (np.fft.rfft if onesided else np.fft.fft)(frames, axis=-1)
    np.testing.assert_allclose(found, parts_of(right), atol=10 * TOLERANCE)
