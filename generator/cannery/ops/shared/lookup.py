"""Lookup tables for activations in float networks: approximate forms that MAX_ERROR may allow.

The form `lut256` is a table of 256 pieces; the generated code states its error beside it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from cannery.ctext.words import Words
from cannery.ir.registry import Elementwise
from cannery.ops.quantized.table import Table, sized_table
from cannery.schedule.schedule import ConstArray

#: The forms, and how many pieces their tables have.
FORMS = {f"lut{pieces}": pieces for pieces in (64, 256, 1024)}


def table_of(op: Elementwise, form: str) -> Table | None:
    """The table of an activation; None if it has none, or `form` is another."""
    return sized_table((op,), FORMS[form]) if form in FORMS and op.needs_math else None


def forms(op: Elementwise) -> tuple[str, ...]:
    """The approximate forms of an operator."""
    return (*op.approximations, *(form for form in FORMS if table_of(op, form)))


def table_array(name: str, table: Table) -> ConstArray:
    """A table as a constant."""
    text = f"{len(table.entries)} pieces from {-table.limit:g} to {table.limit:g}"
    comment = f"{text}, off by {table.error:.2g} at most"
    return ConstArray(name, table.entries, comment, is_table=True)


@dataclass(frozen=True)
class Lookup:
    """A table and the name of its array."""

    table: Table
    symbol: str

    def expression(self, t: str, x: str) -> str:
        """C expression of the function of the vector variable x; NaN stays."""
        w = Words(t)
        steps = w.mul(x, self.table.scale)
        found = self.table.c(self.symbol, t, steps)
        return w.select(w.eq(x, x), w.mul(found, self.table.unit), x)


def lookups(symbol: str, ops: Iterable[Elementwise], form: str) -> dict[Elementwise, Lookup]:
    """The tables of the operators that have this form, called `<symbol>_t<number>`."""
    found: dict[Elementwise, Lookup] = {}
    for op in ops:
        table = table_of(op, form)
        if table is not None and op not in found:
            found[op] = Lookup(table, f"{symbol}_t{len(found)}")
    return found
