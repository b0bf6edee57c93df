"""A model given from Python: a path, or the bytes of a file."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from cannery.atomic import temporary_folder
from cannery.errors import CanneryError, OptionError, one_of
from cannery.ir.registry import RefArray
from cannery.options import SPECS, Options, make_options

#: The name of a model without a file.
_NAME = "model"
#: Its name in errors.
_BYTES = "the bytes of the model"


@dataclass(frozen=True)
class GivenModel:
    """A model with its options; `data` are its bytes if it is not a file."""

    options: Options
    data: bytes | None = None

    @contextmanager
    def as_file(self) -> Iterator[Options]:
        """The options with the path of a file, which is temporary for bytes.

        Errors within do not name it: nobody else knows it, and it is gone.
        """
        if self.data is None:
            yield self.options
            return
        with temporary_folder() as folder:
            path = folder / _NAME
            path.write_bytes(self.data)
            try:
                yield replace(self.options, model=path)
            except CanneryError as error:
                error.where = error.where.replace(str(path), _BYTES)
                error.args = (str(error),)
                raise


def given_model(model: Any, options: Mapping[str, Any], caller: str) -> GivenModel:
    """A model and the options that `caller` was given. Raises OptionError."""
    raw: dict[str, Any] = {}
    for name, value in options.items():
        field = _field(name, caller)
        if field in raw:
            raise OptionError("is given twice", where=f"option {name!r}")
        raw[field] = value
    if hasattr(model, "SerializeToString"):  # a message of ONNX
        model = model.SerializeToString()
    if isinstance(model, bytes | bytearray | memoryview):
        return GivenModel(make_options(Path(_NAME), raw), bytes(model))
    if not isinstance(model, str | os.PathLike):
        raise OptionError(f"{model!r:.60} is neither a path nor the bytes of a model", where=caller)
    return GivenModel(make_options(Path(os.fsdecode(model)), raw))


def is_seconds(value: Any) -> bool:
    """Whether a value is a number of seconds, 0 included."""
    return isinstance(value, int | float) and 0 <= value < float("inf")


def given_arrays(given: Any, option: str, cure: str) -> Path | dict[str, RefArray]:
    """Arrays by name, or the path of a file of them. Raises OptionError."""
    if isinstance(given, Mapping):
        return {name: np.asarray(array) for name, array in given.items()}
    if isinstance(given, str | bytes | os.PathLike):
        return Path(os.fsdecode(given))
    what = f"{type(given).__name__} is neither a file nor arrays by name"
    raise OptionError(what, where=option, cure=cure)


def _field(name: str, caller: str) -> str:
    """The field of Options, by its name or that of the command line (`dim`)."""
    known = {spec.flag.removeprefix("--").replace("-", "_"): spec.name for spec in SPECS}
    if name in known.values():
        return name
    if name not in known:
        cure = one_of(name, known, "options")
        raise OptionError(f"no option is called {name!r}", where=caller, cure=cure)
    return known[name]
