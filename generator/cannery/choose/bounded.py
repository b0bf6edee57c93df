"""Bounds of memory that a plan must keep, whoever knows what its choices cost: RAM and flash."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import inf

from cannery.choose.flash import FlashBound
from cannery.choose.plan import Option, Plan, Segment
from cannery.choose.ram import RamBound
from cannery.choose.size import Find
from cannery.ir.graph import Graph
from cannery.target.isa import Isa


@dataclass(frozen=True)
class MemoryBounds:
    """`max_ram` bounds the bytes of workspace and state, `max_flash` those of code and constants.

    `io_order` and `views` are as in `assign`. `cycle` is what a cycle costs in the unit of options.
    `known_sizes` are those that `FlashBound` has found.
    """

    graph: Graph
    segments: Sequence[Segment]
    isa: Isa
    io_order: str
    max_ram: int | None = None
    max_flash: int | None = None
    views: Collection[str] = ()
    cycle: float = 1.0
    known_sizes: dict[tuple[str, str], tuple[int, float]] = field(default_factory=dict)

    @property
    def given(self) -> bool:
        """Whether there is any bound."""
        return self.max_ram is not None or self.max_flash is not None

    def cheapest(self, options: Sequence[Sequence[Option]], find: Find) -> Plan:
        """The cheapest plan found that keeps them; raises OptionError if there is none."""
        small = self.within_flash(find)
        return small(options) if self.max_ram is None else self.ram.cheapest(options, small)

    def within_flash(self, find: Find) -> Find:
        """What finds the cheapest plan that keeps the bound of flash, by what does so without."""
        return find if self.max_flash is None else partial(self.flash.cheapest, find=find)

    def broken(self, plan: Plan) -> tuple[str, str] | None:
        """The option with the bound that a plan breaks, and its text; None if it keeps all."""
        if self.max_ram is not None and self.ram.ram(plan).bytes > self.max_ram:
            return "--max-ram", f"{self.max_ram} bytes of workspace and state"
        if self.max_flash is not None and self.flash.flash(plan) > self.max_flash:
            return "--max-flash", f"{self.max_flash} bytes of code and constants"
        return None

    @property
    def ram(self) -> RamBound:
        """That of workspace and state."""
        most = inf if self.max_ram is None else self.max_ram
        return RamBound(self.graph, self.segments, self.isa, self.io_order, most, self.views)

    @property
    def flash(self) -> FlashBound:
        """That of code and constants."""
        return FlashBound(
            self.graph, self.segments, self.isa, self.max_flash or 0, self.cycle, self.known_sizes
        )
