"""What cases of operators of TensorFlow Lite on floats are made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from frontends.tflite_files import TYPES, TfliteFile

Arrays = Sequence[NDArray[Any]]

_RANDOM = np.random.default_rng(5)

#: Shapes of inputs.
IMAGE, ROWS = (2, 7, 6, 4), (2, 3, 6)


def normal(*shape: int) -> NDArray[np.float32]:
    """A constant of random numbers."""
    return _RANDOM.standard_normal(shape, np.float32)


@dataclass(frozen=True)
class Case:
    """An operator: shapes are inputs, arrays constants; `expected` takes all of them."""

    kind: str
    given: Sequence[tuple[int, ...] | NDArray[Any]]
    expected: Callable[..., Any]
    options: str = ""
    fields: Mapping[str, Any] = field(default_factory=dict)
    dtype: str = "float32"
    #: Random inputs are above this number.
    least: float | None = None

    def inputs(self) -> dict[str, NDArray[Any]]:
        """Random inputs, by name."""
        random = np.random.default_rng(3)
        shapes = [g for g in self.given if isinstance(g, tuple)]
        return {f"x{k}": self._random(random, shape) for k, shape in enumerate(shapes)}

    def _random(self, random: np.random.Generator, shape: tuple[int, ...]) -> NDArray[Any]:
        if self.dtype == "bool":
            return random.random(shape) < 0.5
        if self.dtype != "float32":
            return random.integers(0, 4, shape).astype(self.dtype)
        x = 2 * random.standard_normal(shape, np.float32)
        return x if self.least is None else np.abs(x) + np.float32(self.least)

    def results(self, inputs: Mapping[str, NDArray[Any]]) -> list[NDArray[Any]]:
        """What numpy makes of them."""
        waiting = iter(inputs.values())
        arrays = [next(waiting) if isinstance(g, tuple) else g for g in self.given]
        made = self.expected(*arrays)
        every = made if isinstance(made, list) else [made]
        return [np.asarray(y, np.float32) if y.dtype == np.float64 else y for y in every]

    def file(self) -> TfliteFile:
        """The file, which may be changed."""
        file = TfliteFile()
        graph, dtype = file.main, TYPES[self.dtype]
        inputs = [
            graph.input(g, dtype)
            if isinstance(g, tuple)
            else graph.constant(g, TYPES[g.dtype.name])
            for g in self.given
        ]
        results = self.results(self.inputs())
        graph.outputs = [graph.tensor(y.shape, TYPES[y.dtype.name]) for y in results]
        graph.add(self.kind, inputs, *graph.outputs, options=self.options, **self.fields)
        return file

    def data(self) -> bytes:
        """Its bytes."""
        return self.file().data()


def i32(*values: Any) -> NDArray[np.int32]:
    """A constant of whole numbers."""
    return np.asarray(values, np.int32)


def scalar(value: Any) -> NDArray[np.int32]:
    """One whole number without axes."""
    return np.asarray(value, np.int32).reshape(())
