"""What one call of a function runs, including everything that it calls.

Compilers merge equal functions, even those of different callers, so a function's counts are divided
among its calls.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from cannery.analysis.disassembly import Function, Machine
from cannery.analysis.estimate import Counted
from cannery.analysis.instructions import branch_kind
from cannery.analysis.kinds import Branch


@dataclass(frozen=True)
class Calls:
    """Functions of a program by address, and how often each of their instructions ran."""

    machine: Machine
    functions: Mapping[int, Function]
    runs: Mapping[int, int]

    def counted(self, start: int) -> Counted | None:
        """One call of the function at `start`, which has no other callers; None if it never ran."""
        shares = {start: 1.0}
        for address in self._from(start):
            if not self.entries.get(address):
                return None
            each = shares[address] / self.entries[address]
            for target, times in self._targets(address).items():
                shares[target] = shares.get(target, 0.0) + each * times
        runs = {
            i.address: self.runs.get(i.address, 0) * share / self.entries[address]
            for address, share in shares.items()
            if self.entries.get(address)
            for i in self.functions[address].instructions
        }
        return Counted(tuple(self.functions[address] for address in shares), runs)

    @cached_property
    def entries(self) -> dict[int, int]:
        """How often each function was called: as often as its first instruction ran, which also
        counts unlisted callers. If a loop begins there, by the calls seen.
        """
        called: Counter[int] = Counter()
        for address in self.functions:
            called.update(self._targets(address))
        return {
            address: (called[address] if self._begins_loop(address) else 0)
            or self.runs.get(address, 0)
            for address in self.functions
        }

    def _begins_loop(self, address: int) -> bool:
        return any(i.target == address for i in self.functions[address].instructions)

    def _from(self, start: int) -> Iterator[int]:
        """A function and everything that it calls, callers first; recursion is cut."""
        order: list[int] = []
        seen: set[int] = set()

        def visit(address: int) -> None:
            seen.add(address)
            for target in self._targets(address):
                if target not in seen:
                    visit(target)
            order.append(address)

        visit(start)
        yield from reversed(order)

    def _targets(self, address: int) -> dict[int, int]:
        """The functions that one calls or jumps to at its end, and how often."""
        found: dict[int, int] = {}
        for i in self.functions[address].instructions:
            target, times = i.target, self.runs.get(i.address, 0)
            if target is None or target == address or target not in self.functions or not times:
                continue
            if branch_kind(i, self.machine) in (Branch.CALL, Branch.ALWAYS):
                found[target] = found.get(target, 0) + times
        return found
