"""A table that terminals and pages show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Table:
    """The head of each column, rows, and lines of text after them."""

    head: Sequence[str]
    rows: Sequence[Sequence[object]]
    after: Sequence[str] = ()
