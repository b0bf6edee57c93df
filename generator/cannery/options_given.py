"""Options given from Python, as the texts that the command line would give."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from enum import Enum

import numpy as np

from cannery.errors import OptionError

#: Longest value that an error shows.
_SHOWN = 60


def flag_of(value: object) -> bool:
    """A flag. Raises OptionError for anything but True and False."""
    if not isinstance(value, bool | np.bool_):
        raise OptionError(f"{value!r:.60} is neither True nor False")
    return bool(value)


def text_of(value: object) -> str:
    """One text, path, number or element type as text. Raises OptionError for anything else."""
    if isinstance(value, Enum):
        value = value.value
    if isinstance(value, np.generic) or (isinstance(value, np.ndarray) and value.ndim == 0):
        value = value.item()
    if isinstance(value, str | bytes | os.PathLike):
        return os.fsdecode(value)
    if isinstance(value, np.dtype) or (isinstance(value, type) and issubclass(value, np.generic)):
        return str(np.dtype(value).name)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    shown = repr(value)
    if len(shown) > _SHOWN or "\n" in shown:
        shown = f"this {type(value).__name__}"
    raise OptionError(f"{shown} is neither text nor a number", cure="give a path, text or number")


def texts_of(value: object, *, pairs: bool = False) -> tuple[str, ...]:
    """Any number of texts; a single one is a list of one.

    With `pairs`, `{"a": 1}` is `a=1`. Raises OptionError for values without a text.
    """
    if isinstance(value, Mapping):
        if not pairs:
            raise OptionError(f"{dict(value)!r:.60} is a mapping", cure="give a list")
        return tuple(f"{text_of(key)}={_item_of(item)}" for key, item in value.items())
    if isinstance(value, str | bytes | os.PathLike | type | Enum) or not isinstance(
        value, Iterable
    ):
        return (text_of(value),)
    if isinstance(value, np.ndarray) and value.ndim == 0:
        return (text_of(value),)
    texts = map(text_of, value)
    return tuple(sorted(texts)) if isinstance(value, set | frozenset) else tuple(texts)


def _item_of(value: object) -> str:
    """What a mapping has for a name: flags become words, and several numbers one text."""
    if isinstance(value, np.ndarray) and value.ndim:
        value = value.reshape(-1).tolist()
    if isinstance(value, list | tuple):
        return ",".join(map(_item_of, value))
    return str(bool(value)).lower() if isinstance(value, bool | np.bool_) else text_of(value)
