"""Cannery: trained neural networks as C static libraries, each for one network and processor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cannery.api import Net, load

__version__ = "0.1.0"

__all__ = ["Net", "__version__", "load"]


def __getattr__(name: str) -> Any:
    """`load` and `Net`, imported when they are first asked for: most commands need neither."""
    if name in ("Net", "load"):
        from cannery import api

        return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
