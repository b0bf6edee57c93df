"""Layers of a Keras model that the user computes, see `custom.py`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from cannery.errors import UnsupportedError
from cannery.frontends.custom import check_all_used, custom_op
from cannery.frontends.keras.layers.base import KerasLayer, LayerPlan, Scope
from cannery.frontends.keras.model import Entry, ModelConfig
from cannery.frontends.unsupported import Problem


def with_custom(model: ModelConfig, custom: Mapping[str, Path]) -> ModelConfig:
    """The model with layers of the option, by class or by name, in the place of unsupported ones.

    Raises OptionError for names that no such layer has.
    """
    used: set[str] = set()
    found = _replaced(model, custom, used)
    check_all_used(custom, used)
    return found


def _replaced(model: ModelConfig, custom: Mapping[str, Path], used: set[str]) -> ModelConfig:
    entries = []
    for entry in model.entries:
        if isinstance(entry.target, ModelConfig):
            entry = replace(entry, target=_replaced(entry.target, custom, used))
        name = next((n for n in (entry.name, entry.class_name) if n in custom), "")
        if name and isinstance(entry.target, Problem) and entry.unread is not None:
            used.add(name)
            entry = replace(entry, target=_layer(entry, custom[name], entry.unread))
        entries.append(entry)
    return replace(model, entries=tuple(entries))


def _layer(entry: Entry, path: Path, values: Mapping[str, object]) -> KerasLayer:
    attributes = {key: value for key, value in values.items() if _is_attribute(key, value)}

    def build(scope: Scope, inputs: Sequence[str]) -> str:
        if scope.stored_weights():
            raise UnsupportedError(
                "has weights, which CUSTOM does not read",
                cure="put them into the C file and its reference, or use built-in layers for them",
            )
        return scope.node(custom_op(entry.class_name, path, attributes), inputs)

    return KerasLayer(entry.name, entry.class_name, True, LayerPlan(build))


def _is_attribute(key: str, value: object) -> bool:
    """Whether the user's files get an attribute: numbers and names, not what all layers have."""
    if key in ("name", "trainable", "dtype", "function_type", "output_shape_type"):
        return False
    if isinstance(value, list):
        return bool(value) and all(type(v) in (int, float) for v in value)
    return isinstance(value, int | float | str)
