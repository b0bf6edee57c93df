"""Cases of operators of TensorFlow Lite on integers: what they are made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from frontends.tflite_files import Graph, TfliteFile


@dataclass(frozen=True)
class Value:
    """A tensor: a shape is an input, or the output; an array is a constant."""

    what: tuple[int, ...] | NDArray[Any]
    dtype: str = "INT8"
    scales: Sequence[float] = (0.05,)
    zeros: Sequence[int] = (3,)
    axis: int = 0
    least: int = -(2**15)

    @property
    def more(self) -> dict[str, Any]:
        """The tensor's other facts."""
        if self.dtype in ("FLOAT32", "BOOL"):
            return {}
        return {"scales": self.scales, "zeros": self.zeros, "axis": self.axis}

    def random(self, seed: int) -> NDArray[Any]:
        """All numbers of the type may occur."""
        assert isinstance(self.what, tuple)
        random = np.random.default_rng(seed)
        if self.dtype == "FLOAT32":
            return 4 * random.standard_normal(self.what, np.float32)
        info = np.iinfo(self.dtype.lower())
        return random.integers(
            max(info.min, self.least), info.max, self.what, self.dtype.lower(), endpoint=True
        )


@dataclass(frozen=True)
class Case:
    """One operator. Where LiteRT's reference kernel is broken, its other one says what is expected,
    up to `units`.
    """

    kind: str
    given: Sequence[Value]
    output: Value
    options: str = ""
    fields: Mapping[str, Any] = field(default_factory=dict)
    reference: bool = True
    units: int = 0

    def inputs(self) -> dict[str, NDArray[Any]]:
        """Random inputs, by name."""
        values = [v for v in self.given if isinstance(v.what, tuple)]
        return {f"x{k}": v.random(k) for k, v in enumerate(values)}

    def file(self) -> TfliteFile:
        """The file, which may be changed."""
        file = TfliteFile()
        g: Graph = file.main
        given = [
            g.input(v.what, v.dtype, **v.more)
            if isinstance(v.what, tuple)
            else g.constant(v.what, v.dtype, **v.more)
            for v in self.given
        ]
        assert isinstance(self.output.what, tuple)
        y = g.tensor(self.output.what, self.output.dtype, **self.output.more)
        g.outputs = [g.add(self.kind, given, y, options=self.options, **self.fields)]
        return file

    def data(self) -> bytes:
        """Its bytes."""
        return self.file().data()


def random_of(*what: object) -> np.random.Generator:
    """Random numbers that depend on what they are for, not on what was drawn before."""
    return np.random.default_rng(crc32(repr(what).encode()))


IMAGE = (2, 7, 6, 8)
WINDOW = {"Padding": 0, "StrideH": 1, "StrideW": 1, "DilationHFactor": 1, "DilationWFactor": 1}


def weights(shape: tuple[int, ...], axis: int, per_channel: bool, dtype: str = "INT8") -> Value:
    info, random = np.iinfo(dtype.lower()), random_of(shape, axis, per_channel, dtype)
    low = info.min + (dtype == "INT8")
    array = random.integers(low, info.max, shape, dtype.lower(), endpoint=True)
    count = shape[axis] if per_channel else 1
    scales = tuple(float(v) for v in random.uniform(0.001, 0.02, count).astype(np.float32))
    return Value(array, dtype, scales, (131 if dtype == "UINT8" else 0,) * count, axis)


def bias_of(count: int, x: Value, w: Value) -> Value:
    scales = tuple(float(np.float32(x.scales[0]) * np.float32(s)) for s in w.scales)
    array = random_of(count, scales).integers(-3000, 3000, count).astype(np.int32)
    return Value(array, "INT32", scales, (0,) * len(scales))


def product(
    kind: str, x: Value, w: Value, y: Value, channels: int, options: str, **fields: Any
) -> Case:
    """With a bias."""
    return Case(kind, [x, w, bias_of(channels, x, w)], y, options, fields)
