"""Spectrograms: convolutions with the waves of a Fourier transform."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
from numpy.typing import NDArray

from cannery.errors import ModelError, UnsupportedError
from cannery.frontends.fourier import transform_matrix
from cannery.frontends.keras.config import LayerConfig
from cannery.frontends.keras.layers.base import LayerPlan, Scope, layer
from cannery.frontends.keras.layers.window import window_pads
from cannery.ops.concat.op import Concat
from cannery.ops.conv.op import Conv
from cannery.ops.elementwise import Add, Log, Max, Mul, Pow, Sqrt, Square, Sub
from cannery.ops.logic.trigonometry import Atan2
from cannery.ops.matmul.op import MatMul
from cannery.ops.movement.op import Pad, Reshape, Slice, Transpose
from cannery.ops.reduce.op import ReduceMax

_MODES = ("log", "magnitude", "psd", "real", "imag", "angle", "stft")

#: keras.config.epsilon().
_EPSILON = 1e-7


@layer("STFTSpectrogram")
def stft_spectrogram(config: LayerConfig) -> LayerPlan:
    """x[N,T,C], real and imaginary kernels[L,1,F] -> [N,T',C*F], or [N,T',F,C] if it expands."""
    mode = config.choice("mode", "log", _MODES)
    length = config.integer("frame_length")
    step = length // 2 if config.raw("frame_step") is None else config.integer("frame_step")
    given = config.raw("fft_length")
    size = config.integer("fft_length") if given else 1 << (length - 1).bit_length()
    padding = config.choice("padding", "valid", ("valid", "same"))
    first, expands = config.channels_first(), config.flag("expand_dims", False)
    config.ignore("window", "periodic", "scaling")  # they are in the kernels
    kernels = [f"{side}_kernel" for side in ("real", "imag") if mode != _OTHER.get(side)]

    def build(scope: Scope, inputs: Sequence[str]) -> str:
        x = scope.to_float(scope.single(inputs))
        if scope.rank(x) != 3:
            raise ModelError(f"its input has shape {scope.shape(x)}, expected samples and channels")
        x = x if first else scope.transposed(x, "channels", (0, 2, 1))
        n, channels, time = scope.shape(x)
        lines = scope.node(Reshape((n * channels, time, 1)), [x], "lines")
        pads = window_pads(padding, (time,), (length,), (step,), (1,))
        op = Conv((step,), pads, (1,), 1)
        shape = (length, 1, size // 2 + 1)
        sides = [scope.node(op, [lines, scope.stored(k, shape)], k) for k in kernels]
        y = _of_mode(scope, mode, sides)
        return _arranged(scope, y, (n, channels), first, expands)

    return LayerPlan(build, tuple(kernels))


#: The mode that needs no kernel of a side.
_OTHER = {"real": "imag", "imag": "real"}


def _of_mode(scope: Scope, mode: str, sides: list[str]) -> str:
    """[N*C,T',F] of the real and imaginary parts."""
    if len(sides) == 1:
        return sides[0]
    if mode == "angle":
        return scope.node(Atan2(), sides[::-1], "angle")
    if mode == "stft":
        return scope.node(Concat(2), sides, "both")
    power = _power(scope, *sides)
    if mode == "psd":
        n, time, bins = scope.shape(power)
        inner = Slice((0, 0, 1), (n, time, bins - 1), (1, 1, 1))
        twice = scope.node(inner, [power], "inner")
        wide = scope.node(Pad(((0, 0), (0, 0), (1, 1))), [twice], "again")
        return scope.node(Add(), [power, wide], "density")
    least = scope.literal("least", np.asarray(_EPSILON))
    size = scope.node(Sqrt(), [scope.node(Max(), [power, least], "positive")], "magnitude")
    if mode == "magnitude":
        return size
    return scope.node(Log(), [scope.node(Max(), [size, least], "bounded")], "log")


def _power(scope: Scope, real: str, imaginary: str) -> str:
    squares = [
        scope.node(Square(), [x], f"square{k}") for k, x in enumerate((real, imaginary))
    ]  # fmt: skip
    return scope.node(Add(), squares, "power")


def _arranged(
    scope: Scope, y: str, outer: tuple[int, int], first: bool, expands: bool
) -> str:  # fmt: skip
    """[N*C,T',F] as the layer returns it."""
    _, time, bins = scope.shape(y)
    y = scope.node(Reshape((*outer, time, bins)), [y], "spectra")
    if first and expands:
        return y
    order = (0, 2, 3, 1) if expands else (0, 1, 3, 2) if first else (0, 2, 1, 3)
    y = scope.node(Transpose(order), [y], "order")
    if expands:
        return y
    n, channels = outer
    shape = (n, channels * bins, time) if first else (n, time, channels * bins)
    return scope.node(Reshape(shape), [y])


def _window(given: object, length: int) -> NDArray[np.float64]:
    """A periodic window, in float32 as Keras has it."""
    if given is None:
        return np.ones(length)
    terms = {"hann": (0.5, 0.5), "hamming": (0.54, 0.46)}.get(str(given))
    if terms is None:
        raise UnsupportedError(f"the window {given!r:.20} is not supported")
    wave = np.cos(2 * np.pi / length * np.arange(length))
    return np.asarray((terms[0] - terms[1] * wave).astype(np.float32), np.float64)


def _mel(hertz: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(1127.0 * np.log(1.0 + hertz / 700.0))


def _mel_filters(
    count: int, bins: int, rate: float, ends: tuple[float, float]
) -> NDArray[np.float64]:
    """[bins,count]: triangles evenly spaced in mel, whose peak is 1; bin 0 belongs to none."""
    places = _mel(np.linspace(0.0, rate / 2, bins)[1:])[:, None]
    low, high = _mel(np.asarray(ends))
    edges = np.linspace(low, high, count + 2)
    below, middle, above = edges[None, :-2], edges[None, 1:-1], edges[None, 2:]
    rising, falling = (places - below) / (middle - below), (above - places) / (above - middle)
    return np.pad(np.maximum(0.0, np.minimum(rising, falling)), ((1, 0), (0, 0)))


@layer("MelSpectrogram")
def mel_spectrogram(config: LayerConfig) -> LayerPlan:
    """x[..,T] -> [..,bins,T']: the power of bands, in decibels unless it is told not to."""
    size = config.integer("fft_length", 2048)
    step = config.integer("sequence_stride", 512)
    given = config.raw("sequence_length")
    length = config.integer("sequence_length") if given else size
    window = _window(config.raw("window"), length)
    rate, count = config.number("sampling_rate", 16000.0), config.integer("num_mel_bins", 128)
    low, high = config.number("min_freq", 20.0), config.optional_number("max_freq")
    decibels, top = config.flag("power_to_db", True), config.number("top_db", 80.0)
    exponent, least = config.number("mag_exp", 2.0), config.number("min_power", 1e-10)
    reference = config.number("ref_power", 1.0)
    if length > size or not 0 <= low < (high or rate / 2) or least <= 0:
        raise ModelError("its numbers make no spectrogram", where=f"layer {config.name!r}")

    def build(scope: Scope, inputs: Sequence[str]) -> str:
        x = scope.to_float(scope.single(inputs))
        *outer, samples = scope.shape(x)
        if samples <= size // 2:
            raise ModelError(f"{samples} samples are fewer than half of a transform")
        lines = scope.node(Reshape((prod(outer), samples)), [x], "flat")
        half = size // 2
        lines = scope.node(Pad(((0, 0), (half, half)), mode="reflect"), [lines], "padded")
        lines = scope.node(Reshape((*scope.shape(lines), 1)), [lines], "lines")
        waves = scope.literal("waves", _waves(window, size).astype(np.float32))
        spectra = scope.node(Conv((step,), ((0, 0),), (1,), 1), [lines, waves], "spectra")
        power = _raised(scope, _power(scope, *_halves(scope, spectra)), exponent)
        filters = _mel_filters(count, size // 2 + 1, rate, (low, high or int(rate / 2)))
        mel = scope.literal("filters", filters.astype(np.float32))
        y = scope.node(MatMul(), [power, mel], "mel")
        y = _decibels(scope, y, (least, reference, top)) if decibels else y
        y = scope.node(Transpose((0, 2, 1)), [y], "bands_first")
        return scope.node(Reshape((*outer, *scope.shape(y)[1:])), [y])

    return LayerPlan(build)


def _waves(window: NDArray[np.float64], size: int) -> NDArray[np.float64]:
    """[size,1,2*bins]: real parts of all bins, then imaginary ones, of a window in the middle."""
    before = (size - len(window)) // 2
    wide = np.pad(window, (before, size - len(window) - before))
    matrix = transform_matrix(size, size, size // 2 + 1, (1, 2), -1)[:, 0]
    return np.asarray((wide[:, None, None] * matrix).swapaxes(1, 2).reshape(size, 1, -1))


def _halves(scope: Scope, x: str) -> tuple[str, str]:
    n, time, both = scope.shape(x)
    half = both // 2
    first = scope.node(Slice((0, 0, 0), (n, time, half), (1, 1, 1)), [x], "real")
    second = scope.node(Slice((0, 0, half), (n, time, both), (1, 1, 1)), [x], "imaginary")
    return first, second


def _raised(scope: Scope, power: str, exponent: float) -> str:
    """A power of the magnitudes, given their squares."""
    if exponent == 2.0:
        return power
    size = scope.node(Sqrt(), [power], "magnitude")
    if exponent == 1.0:
        return size
    return scope.node(Pow(), [size, scope.literal("exponent", np.asarray(exponent))], "raised")


def _decibels(scope: Scope, y: str, numbers: tuple[float, float, float]) -> str:
    """10 log10 of what is at least a number, relative to a reference; at most `top` below the
    greatest of all.
    """
    least, reference, top = numbers
    bounded = scope.node(Max(), [y, scope.literal("least", np.asarray(least))], "bounded")
    logs = scope.node(Log(), [bounded], "logs")
    tenth = scope.literal("tenth", np.asarray(10.0 / np.log(10.0)))
    y = scope.node(Mul(), [logs, tenth], "decibels")
    zero = 10.0 * np.log10(max(abs(reference), least))
    if zero:
        y = scope.node(Sub(), [y, scope.literal("reference", np.asarray(zero))], "relative")
    most = scope.node(ReduceMax((0, 1, 2), keepdims=True), [y], "most")
    bottom = scope.node(Sub(), [most, scope.literal("top", np.asarray(top))], "bottom")
    return scope.node(Max(), [y, bottom], "limited")
