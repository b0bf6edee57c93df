"""Tunables of a candidate as a dataclass of its schedule's own, and as records hold them.

A field without a default always stands in records, another one where it differs from its default.
"""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import Any, TypeVar

from cannery.schedule.schedule import MATH, Params

T = TypeVar("T")


def typed(cls: type[T], params: Params) -> T:
    """An instance of `cls` from what records hold, which is what `as_params` gave.

    An activation's form, which stands there with the tunables of any schedule, is left out.
    """
    return cls(**{name: value for name, value in params.items() if name != MATH})


def as_params(tunables: Any) -> dict[str, int | str | bool]:
    """What records hold of an instance of such a dataclass."""
    found: dict[str, int | str | bool] = {}
    for field in fields(tunables):
        value = getattr(tunables, field.name)
        if field.default is MISSING or value != field.default:
            found[field.name] = value
    return found
