"""What you may change about a model while it is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from types import MappingProxyType

from cannery.errors import OptionError
from cannery.ir.tensor import DType

#: The largest finite float32.
_LARGEST = (2 - 2**-23) * 2.0**127

_INPUT_DTYPES = (DType.FLOAT32, DType.UINT8)


@dataclass(frozen=True)
class ImportOptions:
    """How to read a model.

    `batch` replaces the batch of the file, fixed or open. `outputs` names layers whose values
    become the model's outputs, instead of the file's; inputs that these do not need are dropped.
    `rename` maps names of inputs and outputs to others. `input_dtypes`, by input: a uint8 input v
    is read as scale * v + offset, by nodes `<input>/cast`, `<input>/scale` and `<input>/offset`;
    several scales or offsets belong to the model's channels. `reverse_channels` names inputs whose
    channels come in reverse order, which `<input>/channels` corrects. `dims` sets the sizes of the
    dimensions that the file leaves open; unnamed ones are called `<input>.<axis>`. `streaming`: the
    network will run step by step, so an open number of steps does not matter. `noise` says where
    random numbers come from, see `frontends/noise.py`. `fixed` has inputs that are constants, as
    texts: numbers by commas. `max_trips` limits loops whose end is computed. `custom` has
    the C files of operators and layers that the user computes, see `frontends/custom.py`.

    Raises OptionError for values that fit no model.
    """

    batch: int = 1
    outputs: tuple[str, ...] = ()
    rename: Mapping[str, str] = field(default_factory=dict)
    input_dtypes: Mapping[str, DType] = field(default_factory=dict)
    scale: float | tuple[float, ...] | None = None
    offset: float | tuple[float, ...] | None = None
    reverse_channels: tuple[str, ...] = ()
    dims: Mapping[str, int] = field(default_factory=dict)
    streaming: bool = False
    noise: str | None = None
    fixed: Mapping[str, str] = field(default_factory=dict)
    max_trips: int | None = None
    custom: Mapping[str, Path] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("rename", "input_dtypes", "dims", "fixed", "custom"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))
        if self.batch < 1:
            raise OptionError(f"batch {self.batch} must be at least 1", where="--batch")
        if len(set(self.outputs)) != len(self.outputs):
            raise OptionError("a layer is named twice", where="--outputs")
        self._check_rename()
        self._check_inputs()

    def _check_rename(self) -> None:
        names = list(self.rename.values())
        for name in names:
            if names.count(name) > 1:
                raise OptionError(f"two tensors get the name {name!r}", where="--rename")

    def _check_inputs(self) -> None:
        for name, dtype in self.input_dtypes.items():
            if dtype not in _INPUT_DTYPES:
                known = ", ".join(d.value for d in _INPUT_DTYPES)
                raise OptionError(
                    f"input {name!r} cannot be {dtype.value}", where="--input-dtype",
                    cure=f"one of: {known}",
                )  # fmt: skip
        largest = [max(map(abs, _numbers(v)), default=0.0) for v in (self.scale, self.offset)]
        if 255 * largest[0] + largest[1] > _LARGEST:
            what = "scale * 255 + offset is not a finite float32 number"
            raise OptionError(what, where="--scale", cure="give smaller numbers")
        for label, value in (("scale", self.scale), ("offset", self.offset)):
            if value is None:
                continue
            if not all(isfinite(v) and abs(v) <= _LARGEST for v in _numbers(value)):
                what = f"{value} is not a finite float32 number"
                raise OptionError(what, where=f"--{label}", cure="give smaller numbers")
            if DType.UINT8 not in self.input_dtypes.values():
                raise OptionError(
                    "there is no input to apply it to", where=f"--{label}",
                    cure="also make an input uint8: --input-dtype",
                )  # fmt: skip


def _numbers(value: float | tuple[float, ...] | None) -> tuple[float, ...]:
    if value is None:
        return ()
    return value if isinstance(value, tuple) else (value,)
