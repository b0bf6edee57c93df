"""float64 in an ONNX file: computed as float32.

Shapes that such numbers determine are computed with float64, as in the file. Numbers outside of
float32's range become the largest, or 0: that is said.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

import numpy as np

from cannery.frontends.onnx.operators.values import Constant, Value

#: The number of float64 in TensorProto.DataType, and its name in declarations.
NUMBER, NAME = 11, "double"

_LARGEST = float(np.finfo(np.float32).max)
_LEAST = float(np.finfo(np.float32).tiny)

#: Most tensors that a note names.
_NAMED = 3


@dataclass
class Doubles:
    """The known tensors of float64 that were made float32, and what that lost."""

    used: bool = False
    _made: dict[int, tuple[Constant, Constant]] = field(default_factory=dict)
    _lost: dict[str, str] = field(default_factory=dict)

    def narrowed(self, value: Value | None) -> Value | None:
        """A tensor of float32 instead of a known one of float64."""
        if not isinstance(value, Constant) or value.array.dtype != np.float64:
            return value
        self.used = True
        if id(value.array) not in self._made:  # which is kept, so that no other array has its id
            self._made[id(value.array)] = (value, self._narrowed(value))
        return self._made[id(value.array)][1]

    def _narrowed(self, value: Constant) -> Constant:
        array = np.asarray(value.array, np.float64)
        finite = np.isfinite(array)
        large = finite & (np.abs(array) > _LARGEST)
        small = (array != 0) & (np.abs(array) < _LEAST)
        for wrong, becomes in ((large, "at most 3.4e38"), (small, "0")):
            if wrong.any():
                first = array[wrong][0]
                self._lost[value.hint or "a constant"] = f"{first:.3g} becomes {becomes}"
        inside = np.where(finite, np.clip(array, -_LARGEST, _LARGEST), array)
        return Constant(np.where(small, 0, inside).astype(np.float32), value.hint)

    def notes(self, ports: Collection[str]) -> tuple[str, ...]:
        """What users should know; `ports` are the inputs and outputs that are float64."""
        found = []
        if ports:
            listed = ", ".join(map(repr, dict.fromkeys(ports)))
            found.append(f"{listed} (float64): float32 here, and so is what is computed from it")
        elif self.used:
            found.append("the model's float64 computations use float32")
        lost = [f"{name!r}: {what}" for name, what in self._lost.items()]
        if lost:
            more = f" and {len(lost) - _NAMED} more" if len(lost) > _NAMED else ""
            found.append(f"float32 does not hold all numbers, {'; '.join(lost[:_NAMED])}{more}")
        return tuple(found)
