"""The cheapest choices, or nearly so, whose constants stay below a bound (`MAX_SIZE`).

Transformed weights of Winograd's algorithm take up to four times the memory of the model's. Each
byte gets a price, and the total cost is minimised as without a bound, so bytes go where they save
the most (Everett, "Generalized Lagrange Multiplier Method", 1963). Bisection finds the least price
that keeps the bound.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import sqrt

from cannery.choose.plan import Option, Plan, Segment
from cannery.errors import OptionError
from cannery.ir.graph import Graph
from cannery.schedule.program import Choice
from cannery.target.isa import Isa

#: How far the chosen price may be above the least price that keeps the bound.
_NEAR = 1.02

#: Cycles per byte: the first price tried, the factor by which it is raised, a price that no saving
#: is worth.
_LOW, _STEP, _HIGH = 1e-4, 4.0, 1e9

#: The cheapest plan of options; raises UnsupportedError if there is none.
Find = Callable[[Sequence[Sequence[Option]]], Plan]


@dataclass(frozen=True)
class SizeBound:
    """The constants of a plan may be `most` times those of the graph.

    `cycle` is what a cycle costs in the unit of options.
    """

    graph: Graph
    segments: Sequence[Segment]
    isa: Isa
    most: float
    cycle: float = 1.0

    def cheapest(self, options: Sequence[Sequence[Option]], find: Find) -> Plan:
        """The cheapest plan that keeps the bound; raises OptionError if none does."""
        free = find(options)
        if self._kept(free):
            return free
        sizes = [[self._bytes(k, o.choice) for o in found] for k, found in enumerate(options)]

        def at(price: float) -> Plan:
            priced = [
                [replace(o, cost=o.cost + price * size) for o, size in zip(some, row, strict=True)]
                for some, row in zip(options, sizes, strict=True)
            ]
            found = find(priced)
            return replace(found, cost=found.cost - price * self.size(found))

        low, high = self.cycle * _LOW / _STEP, self.cycle * _LOW
        while not self._kept(best := at(high)):
            if high > self.cycle * _HIGH:
                raise self._too_small(best)
            low, high = high, _STEP * high
        while high > _NEAR * low:
            middle = sqrt(low * high)
            found = at(middle)
            if self._kept(found):
                best, high = found, middle
            else:
                low = middle
        return best

    def size(self, plan: Plan) -> float:
        """Bytes of the constants of a plan, without padding."""
        return sum(self._bytes(k, choice) for k, choice in plan.picks)

    def _bytes(self, index: int, choice: Choice) -> float:
        step = self.segments[index].step
        return choice.schedule.constant_bytes(self.graph, step, choice.params, self.isa)

    def _kept(self, plan: Plan) -> bool:
        return self.size(plan) <= self.most * self.graph.constant_bytes

    def _too_small(self, smallest: Plan) -> OptionError:
        least = self.size(smallest) / max(self.graph.constant_bytes, 1)
        return OptionError(
            f"the constants take at least {least:.3g} times the memory of the model's weights",
            where="--max-size", cure=f"give {least + 0.005:.2f} or more",
        )  # fmt: skip
