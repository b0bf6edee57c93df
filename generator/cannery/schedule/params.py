"""Tunables of a candidate, as its schedule's own dataclass and as records hold them.

Records always hold a field without a default, and other fields if they differ from their default.
"""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import Any, TypeVar

from cannery.schedule.schedule import MATH, Params

T = TypeVar("T")


def typed(cls: type[T], params: Params) -> T:
    """An instance of `cls` from what records hold, as `as_params` wrote it.

    Leaves out an activation's form, which may accompany the tunables of any schedule.
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
