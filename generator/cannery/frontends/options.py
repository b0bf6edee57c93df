"""What a user may change about a model while it is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite
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
    become the model's outputs, instead of the file's; inputs that these do not need vanish.
    `rename` maps names of inputs and outputs to others. `input_dtypes`, by input: a uint8 input v
    is read as scale * v + offset, by nodes `<input>/cast`, `<input>/scale` and `<input>/offset`.
    `dims` sizes the dimensions that the file leaves open; where they have no name,
    `<input>.<axis>` is one. `streaming`: the network will be run step by step, so that an open
    number of steps does not matter.

    Raises OptionError for values that no model could satisfy.
    """

    batch: int = 1
    outputs: tuple[str, ...] = ()
    rename: Mapping[str, str] = field(default_factory=dict)
    input_dtypes: Mapping[str, DType] = field(default_factory=dict)
    scale: float | None = None
    offset: float | None = None
    dims: Mapping[str, int] = field(default_factory=dict)
    streaming: bool = False

    def __post_init__(self) -> None:
        for name in ("rename", "input_dtypes", "dims"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))
        if self.batch < 1:
            raise OptionError(f"batch {self.batch} must be at least 1")
        if len(set(self.outputs)) != len(self.outputs):
            raise OptionError("outputs name a layer twice")
        self._check_rename()
        self._check_inputs()

    def _check_rename(self) -> None:
        names = list(self.rename.values())
        for name in names:
            if names.count(name) > 1:
                raise OptionError(f"rename: two tensors get the name {name!r}")

    def _check_inputs(self) -> None:
        for name, dtype in self.input_dtypes.items():
            if dtype not in _INPUT_DTYPES:
                known = ", ".join(d.value for d in _INPUT_DTYPES)
                raise OptionError(
                    f"input {name!r} cannot be {dtype.value}", cure=f"one of: {known}"
                )
        if 255 * abs(self.scale or 0.0) + abs(self.offset or 0.0) > _LARGEST:
            raise OptionError("scale * 255 + offset is not a finite float32 number")
        for label, value in (("scale", self.scale), ("offset", self.offset)):
            if value is None:
                continue
            if not isfinite(value) or abs(value) > _LARGEST:
                raise OptionError(f"{label} {value} is not a finite float32 number")
            if DType.UINT8 not in self.input_dtypes.values():
                raise OptionError(
                    f"{label} has no input to apply to", cure="make an input uint8, too"
                )
