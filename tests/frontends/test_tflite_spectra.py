"""Fourier transforms and complex numbers in TensorFlow Lite."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import cannery
from cannery.errors import CanneryError
from cannery.frontends import load_graph
from cannery.ir.evaluate import evaluate
from frontends.tflite_files import Graph, by_litert, tflite_file
from needs import need_program

PARTS = ("REAL", "IMAG", "COMPLEX_ABS")


def transform(shape: tuple[int, ...], lengths: tuple[int, int], kinds: Sequence[str]) -> bytes:
    """The parts of the spectra of images, which are expanded, reshaped and squeezed on the way."""
    spectra = (*shape[:-2], lengths[0], lengths[1] // 2 + 1)

    def fill(g: Graph) -> Sequence[int]:
        x = g.input(shape)
        size = g.constant(np.array(lengths, np.int32))
        y = g.add("RFFT2D", [x, size], g.tensor(spectra, "COMPLEX64"), options="Rfft2dOptions")
        wide = g.add("EXPAND_DIMS", [y, g.constant(np.array([0], np.int32))],
                     g.tensor((1, *spectra), "COMPLEX64"), options="ExpandDimsOptions")  # fmt: skip
        y = g.add("SQUEEZE", [wide], g.tensor(spectra, "COMPLEX64"), options="SqueezeOptions",
                  SqueezeDims=[0])  # fmt: skip
        return [g.add(kind, [y], g.tensor(spectra)) for kind in kinds]

    return tflite_file(fill)


def expected(x: NDArray[np.float32], lengths: tuple[int, int]) -> list[NDArray[np.float64]]:
    """Cut or filled up, by numpy."""
    y = np.fft.rfft2(x, lengths)
    return [y.real, y.imag, np.abs(y)]


SIZES = [((2, 3, 8, 16), (8, 16)), ((5, 1, 32), (1, 32)), ((2, 4, 5), (8, 8)), ((6, 9), (4, 4))]


@pytest.mark.parametrize(("shape", "lengths"), SIZES)
def test_transform(shape: tuple[int, ...], lengths: tuple[int, int], tmp_path: Path) -> None:
    file = tmp_path / "net.tflite"
    file.write_bytes(transform(shape, lengths, PARTS))
    x = np.random.default_rng(1).standard_normal(shape, np.float32)
    wanted = expected(x, lengths)
    limit = 1e-5 * np.abs(wanted[2]).max()
    for y, r in zip(evaluate(load_graph(file), {"x0": x}).values(), wanted, strict=True):
        assert y.shape == r.shape
        assert np.abs(y - r).max() <= limit
    if importlib.util.find_spec("ai_edge_litert") is not None:
        for y, r in zip(by_litert(file.read_bytes(), {"x0": x}), wanted, strict=True):
            assert np.abs(y - r).max() <= limit


def test_code(tmp_path: Path) -> None:
    need_program("gcc")
    file, (shape, lengths) = tmp_path / "net.tflite", SIZES[0]
    file.write_bytes(transform(shape, lengths, PARTS))
    x = np.random.default_rng(2).standard_normal(shape, np.float32)
    for y, r in zip(cannery.load(file)(x), expected(x, lengths), strict=True):
        assert np.abs(y - r).max() <= 1e-5 * np.abs(r).max()


@pytest.mark.parametrize("kind", ["EXP", "SOFTMAX", "PADV2"])
def test_what_complex_numbers_do_not_have(kind: str, tmp_path: Path) -> None:
    def fill(g: Graph) -> Sequence[int]:
        size = g.constant(np.array((4, 4), np.int32))
        y = g.add("RFFT2D", [g.input((4, 4)), size], g.tensor((4, 3), "COMPLEX64"))
        return [g.add(kind, [y], g.tensor((4, 3), "COMPLEX64"))]

    file = tmp_path / "net.tflite"
    file.write_bytes(tflite_file(fill))
    with pytest.raises(CanneryError, match="on complex numbers"):
        load_graph(file)


@pytest.mark.parametrize(
    ("kinds", "message"), [(("RFFT2D",), "is complex"), (("RFFT2D", "REAL", "REAL"), "not complex")]
)
def test_errors(kinds: Sequence[str], message: str, tmp_path: Path) -> None:
    """A network must end with real numbers, and parts have none."""

    def fill(g: Graph) -> Sequence[int]:
        y = g.input((4, 4))
        for kind in kinds:
            first = kind == "RFFT2D"
            given = [y, g.constant(np.array((4, 4), np.int32))] if first else [y]
            y = g.add(kind, given, g.tensor((4, 3), "COMPLEX64" if first else "FLOAT32"))
        return [y]

    file = tmp_path / "net.tflite"
    file.write_bytes(tflite_file(fill))
    with pytest.raises(CanneryError, match=message):
        load_graph(file)
