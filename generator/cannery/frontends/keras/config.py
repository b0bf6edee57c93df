"""Typed access to the JSON that configures a Keras layer.

A value of an unexpected type is a ModelError that names layer and attribute. An attribute that is
set, but that no reader asked for, is an UnsupportedError: nothing is silently ignored.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np
from numpy.typing import NDArray

from cannery.errors import UnsupportedError
from cannery.frontends import json_values
from cannery.frontends.json_values import Fields, shown, whole_numbers
from cannery.frontends.keras.version import KerasVersion
from cannery.ir.tensor import MAX_ELEMENTS

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
    return json_values.parse_json(text, what, _unwrap)


def _unwrap(value: dict[str, object]) -> object:
    """Serialized tuples and shapes as plain lists."""
    if value.get("class_name") in ("__tuple__", "TensorShape"):
        config = value.get("config")
        items = value.get("items", config.get("value") if isinstance(config, dict) else None)
        return items if isinstance(items, list) else value
    return value


def policy_name(dtype: object) -> str:
    """Name of a dtype policy, given as a string or as a serialized object; "" for none."""
    if dtype is None:
        return ""
    if isinstance(dtype, dict):
        config = dtype.get("config")
        inner = config.get("name") if isinstance(config, dict) else None
        return inner if isinstance(inner, str) else str(dtype.get("class_name"))
    return str(dtype)


def other_policy(name: str) -> str:
    """A dtype policy that computes with 16 or 64 bits, or the empty string for other ones."""
    return name if name.endswith(("float16", "float64")) else ""


class LayerConfig(Fields):
    """The attributes of one layer."""

    def __init__(
        self, name: str, class_name: str, values: Mapping[str, object], version: KerasVersion
    ) -> None:
        super().__init__(values, f"layer {name!r}")
        self.name = name
        self.class_name = class_name
        self.version = version

    def integers(
        self, key: str, count: int, default: tuple[int, ...] | None = None, *, minimum: int = 1
    ) -> tuple[int, ...]:
        """`count` whole numbers, one per spatial axis; one number applies to all."""
        kind = f"{count} whole numbers from {minimum} to {MAX_ELEMENTS}"
        return self._get(key, default, lambda v: whole_numbers(v, count, minimum), kind)

    def axes(self, key: str, default: tuple[int, ...] | None = None) -> tuple[int, ...]:
        """One axis or several, possibly negative."""
        limit = -MAX_ELEMENTS
        return self._get(
            key,
            default,
            lambda v: whole_numbers([v] if isinstance(v, int) else v, None, limit),
            "axes",
        )

    def optional_number(self, key: str) -> float | None:
        """A finite number, or None."""
        return None if self.raw(key) is None else self.number(key)

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

    @property
    def other_policy(self) -> str:
        """The dtype policy, if it computes with 16 or 64 bits."""
        return other_policy(policy_name(self._values.get("dtype")))

    def check_policy(self) -> None:
        """Raises UnsupportedError for a quantised or unknown dtype policy."""
        name = policy_name(self._values.get("dtype"))
        if name and name not in _FLOAT_POLICIES:
            raise UnsupportedError(
                f"dtype {name!r} is not supported", cure="save the layer with dtype float32"
            )

    def check_all_read(self) -> None:
        """Raises UnsupportedError if an attribute is set that no reader asked for."""
        for key, value in self.unread():
            unset = value is False or value in ([], {})
            if not unset and key not in _TRAINING_ONLY and not key.endswith(_TRAINING_SUFFIXES):
                raise UnsupportedError(f"attribute {key}={shown(value)} is unknown")

    def ignore_all(self) -> None:
        """Mark all attributes as having no influence on inference."""
        self._read.update(self._values)


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
