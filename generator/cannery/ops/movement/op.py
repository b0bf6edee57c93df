"""Operators that move or convert elements and compute nothing. All take any dtype."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cannery.errors import UnsupportedError
from cannery.ir.half import rounded_to_half
from cannery.ir.numeric import Numeric, f32
from cannery.ir.registry import Op, RefArray, register
from cannery.ir.tensor import DType, TensorType
from cannery.ops.checks import broadcast_shapes, operands, require
from cannery.ops.window import Pads

PAD_MODES = ("constant", "reflect", "edge")


@register
@dataclass(frozen=True)
class Identity(Op):
    """x -> x."""

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        """The type of x."""
        (x,), _ = operands(self, inputs, 1)
        return (x,)

    def reference(self, *inputs: RefArray | None) -> tuple[RefArray, ...]:
        """The input itself."""
        (x,), _ = operands(self, inputs, 1)
        return (x,)


@register
@dataclass(frozen=True)
class Reshape(Op):
    """x -> the same elements, row-major, as `shape` (-1 and 0 have no special meaning)."""

    shape: tuple[int, ...]

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        """The type of y; raises ModelError if the number of elements differs."""
        (x,), _ = operands(self, inputs, 1)
        require(all(d >= 0 for d in self.shape), self, f"shape {self.shape} is not resolved")
        y = TensorType(self.shape, x.dtype)
        fits = y.elements == x.elements
        require(fits, self, f"{x.shape} has {x.elements} elements, {y.shape} {y.elements}")
        return (y,)

    def reference(self, *inputs: RefArray | None) -> tuple[RefArray, ...]:
        """A view or copy."""
        (x,), _ = operands(self, inputs, 1)
        return (x.reshape(self.shape),)


@register
@dataclass(frozen=True)
class Transpose(Op):
    """x -> y with y.shape[i] == x.shape[perm[i]]."""

    perm: tuple[int, ...]

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        """The type of y; raises ModelError unless perm permutes the axes."""
        (x,), _ = operands(self, inputs, 1)
        sound = sorted(self.perm) == list(range(x.rank))
        require(sound, self, f"perm {self.perm} is not a permutation of {x.rank} axes")
        return (TensorType(tuple(x.shape[p] for p in self.perm), x.dtype),)

    def reference(self, *inputs: RefArray | None) -> tuple[RefArray, ...]:
        """A permuted view."""
        (x,), _ = operands(self, inputs, 1)
        return (x.transpose(self.perm),)


@register
@dataclass(frozen=True)
class Pad(Op):
    """x -> y with `pads` (begin, end) more elements per axis, batch and channels included.

    mode "constant": `value`; "reflect": mirrored without the edge; "edge": the edge repeated.
    """

    pads: Pads
    value: float = 0.0
    mode: str = "constant"

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        """The type of y; raises ModelError for bad pads, UnsupportedError for an unknown mode."""
        (x,), _ = operands(self, inputs, 1)
        if self.mode not in PAD_MODES:
            raise UnsupportedError(f"Pad: mode {self.mode!r} is not one of {', '.join(PAD_MODES)}")
        require(len(self.pads) == x.rank, self, f"pads {self.pads} must have {x.rank} pairs")
        sound = all(len(pair) == 2 and min(pair) >= 0 for pair in self.pads)
        require(sound, self, f"pads {self.pads} must be pairs (begin, end), none negative")
        if self.mode == "constant":
            self._check_value(x.dtype)
        else:
            self._check_source(x.shape)
        grown = (b + d + e for d, (b, e) in zip(x.shape, self.pads, strict=True))
        return (TensorType(tuple(grown), x.dtype),)

    def _check_value(self, dtype: DType) -> None:
        if dtype is DType.FLOAT32:
            return
        bounds = (0, 1) if dtype is DType.BOOL else _integer_bounds(dtype)
        exact = float(self.value).is_integer() and bounds[0] <= self.value <= bounds[1]
        require(exact, self, f"value {self.value} is not a valid {dtype.value}")

    def _check_source(self, shape: tuple[int, ...]) -> None:
        for d, pair in zip(shape, self.pads, strict=True):
            most = d - 1 if self.mode == "reflect" else (max(pair) if d else 0)
            fits = max(pair) <= max(most, 0)
            require(fits, self, f"pads {pair} are more than an axis of {d} can {self.mode}")

    def reference(self, *inputs: RefArray | None) -> tuple[RefArray, ...]:
        """Copies."""
        (x,), _ = operands(self, inputs, 1)
        if not self.pads:
            return (x,)  # numpy pads no scalars
        if self.mode == "constant":
            value = f32(self.value) if x.dtype.kind == "f" else int(self.value)
            return (np.pad(x, self.pads, constant_values=value),)
        return (np.pad(x, self.pads, mode="reflect" if self.mode == "reflect" else "edge"),)


@register
@dataclass(frozen=True)
class Slice(Op):
    """x -> every `steps`-th element from `starts` to before `ends`, per axis, all resolved.

    steps > 0: 0 <= start <= end <= dim. steps < 0: dim > start >= end, where an end of -1 means
    down to and including the first element, and a start of -1 means no elements.
    """

    starts: tuple[int, ...]
    ends: tuple[int, ...]
    steps: tuple[int, ...]

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        """The type of y; raises ModelError for unresolved bounds or a step of 0."""
        (x,), _ = operands(self, inputs, 1)
        for name, values in (("starts", self.starts), ("ends", self.ends), ("steps", self.steps)):
            require(len(values) == x.rank, self, f"{name} {values} must have {x.rank} entries")
        sizes = []
        for d, start, end, step in zip(x.shape, self.starts, self.ends, self.steps, strict=True):
            require(step != 0, self, f"steps {self.steps} must not hold 0")
            there = start >= 0 or d == 0
            sound = 0 <= start <= end <= d if step > 0 else d > start >= end >= -1 and there
            require(sound, self, f"{start}:{end}:{step} is outside an axis of {d}")
            sizes.append(len(range(start, end, step)))
        return (TensorType(tuple(sizes), x.dtype),)

    def reference(self, *inputs: RefArray | None) -> tuple[RefArray, ...]:
        """A view."""
        (x,), _ = operands(self, inputs, 1)
        cuts = zip(self.starts, self.ends, self.steps, strict=True)
        return (x[tuple(slice(s, None if e < 0 else e, step) for s, e, step in cuts)],)


@register
@dataclass(frozen=True)
class Expand(Op):
    """x -> x repeated to `shape` by numpy's broadcasting; `shape` is y's."""

    shape: tuple[int, ...]

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        """The type of y; raises ModelError if x does not broadcast to `shape`."""
        (x,), _ = operands(self, inputs, 1)
        fits = broadcast_shapes(self, x.shape, self.shape) == self.shape
        require(fits, self, f"{x.shape} does not broadcast to {self.shape}")
        return (TensorType(self.shape, x.dtype),)

    def reference(self, *inputs: RefArray | None) -> tuple[RefArray, ...]:
        """A read-only view."""
        (x,), _ = operands(self, inputs, 1)
        return (np.broadcast_to(x, self.shape),)


@register
@dataclass(frozen=True)
class Cast(Op):
    """x -> x as `to`. Float to integer truncates and saturates, NaN gives 0; integers wrap.

    Any type to bool is x != 0; float32 is rounded to half precision, ties to even.
    """

    converts = True

    to: DType

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        """The shape of x with dtype `to`."""
        (x,), _ = operands(self, inputs, 1)
        return (TensorType(x.shape, self.to),)

    def reference(self, *inputs: RefArray | None) -> tuple[RefArray, ...]:
        """As written above; float stays float64."""
        (x,), _ = operands(self, inputs, 1)
        if self.to is DType.FLOAT32:
            return (x.astype(np.float64),)
        if self.to is DType.HALF:
            return (rounded_to_half(x),)
        if self.to is DType.BOOL:
            return (np.asarray(x != np.zeros((), x.dtype)),)
        if x.dtype.kind != "f":
            return (x.astype(self.to.numpy),)
        return (_saturated(x, self.to),)


def _integer_bounds(dtype: DType) -> tuple[int, int]:
    """The least and the greatest integer of a dtype."""
    info = np.iinfo(dtype.value)
    return int(info.min), int(info.max)


def _saturated(x: Numeric, dtype: DType) -> RefArray:
    """float64 to integer: truncated, clamped, NaN as 0."""
    low, high = _integer_bounds(dtype)
    whole = np.trunc(np.where(np.isnan(x), 0.0, x))
    inside = np.where((whole > float(low)) & (whole < float(high)), whole, 0.0)
    result = inside.astype(dtype.numpy)
    result[whole <= float(low)] = low
    result[whole >= float(high)] = high
    return result
