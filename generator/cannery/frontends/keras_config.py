"""Typed access to the JSON that configures a Keras layer.

A value of an unexpected type is a ModelError that names layer and attribute. An attribute that is
set, but that no reader asked for, is an UnsupportedError: nothing is silently ignored.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from math import isfinite
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from cannery.errors import ModelError, UnsupportedError
from cannery.frontends.keras_version import KerasVersion
from cannery.ir.tensor import MAX_ELEMENTS

T = TypeVar("T")

#: Attributes without influence on inference.
_TRAINING_ONLY = frozenset(
    """
    name trainable dtype activity_regularizer batch_input_shape batch_shape input_shape input_dtype
    autocast momentum synchronized fused virtual_batch_size adjustment renorm_clipping
    renorm_momentum robust_masking implementation input_dim
    """.split()
)
_TRAINING_SUFFIXES = ("_initializer", "_regularizer", "_constraint")

#: Policies that may be computed in float32.
_FLOAT_POLICIES = frozenset(
    "float16 bfloat16 float32 float64 mixed_float16 mixed_bfloat16 infer _infer".split()
)


def parse_json(text: str | bytes, what: str) -> object:
    """Decoded JSON; ModelError naming `what` if it is damaged or nested absurdly deep."""
    try:
        value: object = json.loads(text, object_hook=_unwrap)
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise ModelError(f"{what} is damaged: {reason}", cure="save the model again") from None
    return value


def _unwrap(value: dict[str, object]) -> object:
    """Serialized tuples and shapes as plain lists."""
    if value.get("class_name") in ("__tuple__", "TensorShape"):
        config = value.get("config")
        items = value.get("items", config.get("value") if isinstance(config, dict) else None)
        return items if isinstance(items, list) else value
    return value


def mapping(value: object, what: str) -> Mapping[str, object]:
    """`value` as a JSON object; ModelError naming `what` otherwise."""
    if not isinstance(value, dict):
        raise ModelError(f"{what} is {_shown(value)}, expected an object")
    return value


def sequence(value: object, what: str) -> Sequence[object]:
    """`value` as a JSON array; ModelError naming `what` otherwise."""
    if not isinstance(value, list):
        raise ModelError(f"{what} is {_shown(value)}, expected a list")
    return value


def text(value: object, what: str) -> str:
    """`value` as a string that is not empty; ModelError naming `what` otherwise."""
    if not isinstance(value, str) or not value:
        raise ModelError(f"{what} is {_shown(value)}, expected a text")
    return value


def _shown(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else f"{shown[:57]}..."


def policy_name(dtype: object) -> str:
    """Name of a dtype policy, given as a string or as a serialized object; "" for none."""
    if dtype is None:
        return ""
    if isinstance(dtype, dict):
        config = dtype.get("config")
        inner = config.get("name") if isinstance(config, dict) else None
        return inner if isinstance(inner, str) else str(dtype.get("class_name"))
    return str(dtype)


class LayerConfig:
    """The attributes of one layer; each getter raises ModelError for a malformed value."""

    def __init__(
        self, name: str, class_name: str, values: Mapping[str, object], version: KerasVersion
    ) -> None:
        self.name = name
        self.class_name = class_name
        self.version = version
        self._values = values
        self._read: set[str] = set()

    def raw(self, key: str) -> object:
        """The value as JSON; None if it is absent."""
        self._read.add(key)
        return self._values.get(key)

    def has(self, key: str) -> bool:
        """Whether the file has the attribute at all."""
        return key in self._values

    def _get(self, key: str, default: T | None, read: Callable[[object], T | None], kind: str) -> T:
        value = self.raw(key)
        if value is None and default is not None:
            return default
        result = read(value)
        if result is None:
            what = f"{key} is {_shown(value)}" if self.has(key) else f"{key} is missing"
            raise ModelError(f"{what}, expected {kind}", where=f"layer {self.name!r}")
        return result

    def integer(self, key: str, default: int | None = None, *, minimum: int = 1) -> int:
        """A whole number from `minimum` to the greatest number of elements."""
        kind = f"a whole number from {minimum} to {MAX_ELEMENTS}"
        return self._get(key, default, lambda v: _integer(v, minimum), kind)

    def integers(
        self, key: str, count: int, default: tuple[int, ...] | None = None, *, minimum: int = 1
    ) -> tuple[int, ...]:
        """`count` whole numbers, one per spatial axis; one number applies to all."""
        kind = f"{count} whole numbers from {minimum} to {MAX_ELEMENTS}"
        return self._get(key, default, lambda v: _integers(v, count, minimum), kind)

    def shape(self, key: str, *, minimum: int) -> tuple[int, ...]:
        """Any number of whole numbers."""
        kind = f"whole numbers of at least {minimum}"
        return self._get(key, None, lambda v: _integers(v, None, minimum), kind)

    def axes(self, key: str, default: tuple[int, ...] | None = None) -> tuple[int, ...]:
        """One axis or several, possibly negative."""
        limit = -MAX_ELEMENTS
        return self._get(
            key,
            default,
            lambda v: _integers([v] if isinstance(v, int) else v, None, limit),
            "axes",
        )

    def number(self, key: str, default: float | None = None) -> float:
        """A finite number."""
        return self._get(key, default, _number, "a finite number")

    def optional_number(self, key: str) -> float | None:
        """A finite number, or None."""
        return None if self.raw(key) is None else self.number(key)

    def flag(self, key: str, default: bool) -> bool:
        """True or false; integers count as in Python."""
        return self._get(
            key, default, lambda v: bool(v) if isinstance(v, int) else None, "true or false"
        )

    def choice(self, key: str, default: str, known: Collection[str]) -> str:
        """One of the names in `known`; UnsupportedError for another one."""
        value = self._get(key, default, lambda v: v if isinstance(v, str) else None, "a name")
        if value.lower() not in known:
            listed = ", ".join(known)
            raise UnsupportedError(f"{key} {value!r} is not supported", cure=f"{key}: {listed}")
        return value.lower()

    def array(self, key: str, default: float | None = None) -> NDArray[np.float64]:
        """Numbers of any shape, also as a serialized numpy array or tensor."""
        fallback = None if default is None else np.asarray(default, np.float64)
        return self._get(key, fallback, _array, "numbers")

    def channels_first(self) -> bool:
        """Whether `data_format` puts the channels before space."""
        formats = ("channels_last", "channels_first")
        return self.choice("data_format", "channels_last", formats) == "channels_first"

    @property
    def trainable(self) -> bool:
        """Whether the layer's trainable weights were being trained when it was saved."""
        return self._values.get("trainable") is not False

    def check_policy(self) -> None:
        """Raises UnsupportedError for a quantised or unknown dtype policy."""
        name = policy_name(self._values.get("dtype"))
        if name and name not in _FLOAT_POLICIES:
            raise UnsupportedError(
                f"dtype {name!r} is not supported", cure="save the layer with dtype float32"
            )

    def check_all_read(self) -> None:
        """Raises UnsupportedError if an attribute is set that no reader asked for."""
        for key, value in self._values.items():
            harmless = key in _TRAINING_ONLY or key.endswith(_TRAINING_SUFFIXES)
            unset = value is None or value is False or value in ([], {})
            if key not in self._read and not harmless and not unset:
                raise UnsupportedError(f"attribute {key}={_shown(value)} is unknown")

    def ignore_all(self) -> None:
        """Mark all attributes as having no influence on inference."""
        self._read.update(self._values)

    def ignore(self, *keys: str) -> None:
        """Mark attributes as having no influence on inference."""
        self._read.update(keys)


def _integer(value: object, minimum: int) -> int | None:
    if isinstance(value, float) and isfinite(value) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return value if minimum <= value <= MAX_ELEMENTS else None


def _integers(value: object, count: int | None, minimum: int) -> tuple[int, ...] | None:
    if count is not None and not isinstance(value, list):
        value = [value] * count
    if isinstance(value, list) and len(value) == 1 and count is not None:
        value = value * count
    if not isinstance(value, list) or (count is not None and len(value) != count):
        return None
    numbers = [_integer(v, minimum) for v in value]
    result = tuple(n for n in numbers if n is not None)
    return result if len(result) == len(numbers) else None


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if isfinite(number) else None


def _array(value: object) -> NDArray[np.float64] | None:
    if isinstance(value, dict) and value.get("class_name") in ("__numpy__", "__tensor__"):
        config = value.get("config")
        value = config.get("value") if isinstance(config, dict) else None
    if not isinstance(value, int | float | list) or isinstance(value, bool):
        return None
    try:
        array = np.asarray(value, np.float64)
    except (ValueError, TypeError, OverflowError):
        return None
    return array if np.isfinite(array).all() else None
