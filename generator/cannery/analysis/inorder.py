"""Cycles of code on Arm's small processors, which issue at most two instructions at once, in order.

`arm_pipeline.py` says what an instruction needs, `CORES` how processors differ. Caches and
mispredicted branches are left out. Arm says little about the Cortex-A53; the sources are:

- Estévez, github.com/daniestevez/qsdr, qsdr-benchmarks: cycles measured, of pairs of instructions
  and of whole loops. All that tests/analysis/test_inorder.py has of it, the model gives exactly.
- Arm's description of the pipeline for gcc, gcc/config/arm/cortex-a53.md: two vector units of 64
  bits; instructions on 128 bits take both and have to be the first of a pair; latencies.
- ncnn, docs/developer-guide/arm-a53-a55-dual-issue.md: vectors are not loaded while a multiply-add
  adds; XNNPACK's loop for this processor says the same, by blocks of 4 cycles for 3 multiply-adds.

For the Cortex-A55: Arm, Cortex-A55 Software Optimization Guide, 3.0, and ncnn's page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

#: Incremented when the same code is estimated differently.
VERSION = 1

#: Passes through a loop after which it counts as steady though no state came back.
_MOST_PASSES = 24

#: How much later than at issue simple arithmetic may read its operands, in its second stage, and a
#: store what it stores.
_ARITHMETIC, _DATA = 1, 2


@dataclass(frozen=True)
class Core:
    """How a processor differs from others of its kind.

    `load_halves` and `insert_halves`: vector units of 64 bits that a load of 64 bits takes, and a
    move from a general register. `fma` is the latency of a multiply-add of floats, which reads its
    sum `fma_adds` cycles after its factors, and adds then: where that is not 0, loads of vectors
    and additions cannot issue meanwhile. `integer` and `product` are latencies of vectors of
    integers, `product_adds` says when their sums are read.
    """

    name: str
    load_halves: int
    insert_halves: int
    fma: int
    fma_adds: int
    integer: int
    product: int
    product_adds: int


#: The processors by LLVM's name.
CORES: Mapping[str, Core] = {
    "cortex-a53": Core("cortex-a53", 1, 1, 8, 4, 4, 4, 0),
    "cortex-a55": Core("cortex-a55", 0, 0, 4, 0, 2, 4, 3),
}


@dataclass(frozen=True)
class Operation:
    """What the pipeline has to know of an instruction.

    Registers are read at the time of issue (`reads`), as an address, or later: as sums (`adds`
    cycles later), as data to be stored (each with the cycle in which it goes), as operands of
    simple arithmetic. `writes` have their latencies; that of `moved`, an address register that is
    advanced, is 1. `cycles` it issues for; `alone`: nothing beside it; `first`: not the second of a
    pair. `halves` are the vector units that it takes, `meets`: not while a multiply-add adds,
    `divides` the cycles for which it keeps the divider. `ends`: what follows cannot issue in the
    same cycle.
    """

    reads: tuple[str, ...] = ()
    address: tuple[str, ...] = ()
    sums: tuple[str, ...] = ()
    adds: int = 0
    data: tuple[tuple[str, int], ...] = ()
    operands: tuple[str, ...] = ()
    writes: tuple[tuple[str, int], ...] = ()
    moved: tuple[str, ...] = ()
    cycles: int = 1
    alone: bool = False
    first: bool = False
    halves: int = 0
    accesses: bool = False
    branches: bool = False
    ends: bool = False
    meets: bool = False
    divides: int = 0


@dataclass(frozen=True)
class _Value:
    """When a result is there, when it can be read at the earliest, and later as an address."""

    time: int
    least: int
    extra: int = 0


@dataclass
class _Pipeline:
    """The state: the cycle in which the next instruction may issue, and what is taken of it."""

    core: Core
    cycle: int = 0
    issued: int = 0
    halves: int = 0
    accesses: bool = False
    branches: bool = False
    divider: int = 0
    values: dict[str, _Value] = field(default_factory=dict)
    additions: dict[int, None] = field(default_factory=dict)

    def issue(self, one: Operation) -> None:
        """Let one instruction issue as soon as it can."""
        wanted = self._wanted(one)
        if wanted > self.cycle:
            self._advance(wanted)
        while not self._fits(one):
            self._advance(self.cycle + 1)
        at = self.cycle
        self._write(one, at)
        self.issued += 1
        self.halves += one.halves
        self.accesses |= one.accesses
        self.branches |= one.branches
        if one.sums and one.adds and one.adds == self.core.fma_adds and one.halves == 2:
            self.additions[at + one.adds] = None
        if one.divides:
            self.divider = at + one.divides
        if one.alone or one.ends or one.cycles > 1 or self.issued == 2:
            self._advance(at + one.cycles)

    def _wanted(self, one: Operation) -> int:
        """When its operands are there."""
        needs = [(r, 0) for r in one.reads]
        needs += [(r, one.adds) for r in one.sums]
        needs += [(r, _DATA + when) for r, when in one.data]
        needs += [(r, _ARITHMETIC) for r in one.operands]
        wanted = self.divider if one.divides else 0
        for register, later in needs:
            if value := self.values.get(register):
                wanted = max(wanted, value.time - later, value.least)
        for register in one.address:
            if value := self.values.get(register):
                wanted = max(wanted, value.time + value.extra)
        return wanted

    def _fits(self, one: Operation) -> bool:
        if self.issued and (one.alone or one.first):
            return False
        if self.halves + one.halves > 2:
            return False
        if (one.accesses and self.accesses) or (one.branches and self.branches):
            return False
        return not (one.meets and any(self.cycle + k in self.additions for k in range(one.cycles)))

    def _write(self, one: Operation, at: int) -> None:
        for register in one.moved:
            self.values[register] = _Value(at + 1, at + 1)
        # Simple arithmetic whose operands come late is done a stage later.
        late = any(
            register in self.values and self.values[register].time > at for register in one.operands
        )
        for register, latency in one.writes:
            if one.operands or not (one.halves or one.accesses or latency > 1):
                self.values[register] = _Value(at + latency + late, at, 1)
            else:
                self.values[register] = _Value(at + latency, at + 1)

    def _advance(self, cycle: int) -> None:
        self.cycle, self.issued, self.halves = cycle, 0, 0
        self.accesses = self.branches = False
        for passed in [when for when in self.additions if when < cycle]:
            del self.additions[passed]

    def state(self) -> tuple[object, ...]:
        """What the future depends on, relative to now."""
        values = (
            (r, v.time - self.cycle, v.least - self.cycle, v.extra)
            for r, v in self.values.items()
            if max(v.time + v.extra, v.least) > self.cycle
        )
        additions = tuple(when - self.cycle for when in self.additions)
        taken = (self.issued, self.halves, self.accesses, self.branches)
        return (frozenset(values), additions, taken, max(self.divider - self.cycle, 0))


def cycles_once(code: Sequence[Operation], core: Core) -> float:
    """Cycles until the last instruction has issued."""
    pipeline = _Pipeline(core)
    for one in code:
        pipeline.issue(one)
    return float(pipeline.cycle + (pipeline.issued > 0))


def cycles_of_loop(code: Sequence[Operation], core: Core) -> float:
    """Cycles of one pass through a loop in its steady state, at whose end a branch is taken."""
    if code and code[-1].branches:
        code = [*code[:-1], replace(code[-1], ends=True)]
    pipeline, seen = _Pipeline(core), dict[tuple[object, ...], tuple[int, int]]()
    for number in range(_MOST_PASSES):
        state = pipeline.state()
        if state in seen:
            before, cycle = seen[state]
            return (pipeline.cycle - cycle) / (number - before)
        seen[state] = (number, pipeline.cycle)
        for one in code:
            pipeline.issue(one)
    return pipeline.cycle / _MOST_PASSES
