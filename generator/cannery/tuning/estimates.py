"""Estimates times on a processor that is not available, from the program with the candidates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cannery.analysis.calls import Calls
from cannery.analysis.counting import Piece, by_instruction, counting
from cannery.analysis.disassembly import Machine, disassemble
from cannery.analysis.estimate import estimate
from cannery.analysis.estimator import Estimator
from cannery.analysis.models import find_estimator
from cannery.measure.build import Built
from cannery.measure.elf import function_places
from cannery.measure.measure import Check, check
from cannery.target.targets import Target
from cannery.target.toolchain import Toolchain

#: Incremented when the same code is estimated differently: earlier estimates are forgotten.
VERSION = 2

#: What the names of candidates' functions, and of those they call, contain.
_OWN = ("trial", "get_pc_thunk")


@dataclass(frozen=True)
class Pipeline:
    """A model of a processor's pipeline, and the clock at which it runs, in MHz."""

    estimator: Estimator
    mhz: int

    @property
    def text(self) -> str:
        """What was used in addition to the cost model, for people and for the record."""
        e = self.estimator
        stands_in = f"{e.model} stands in for {e.wanted}" if e.is_approximate else e.wanted
        return f"{e.version}, {stands_in}, at {self.mhz} MHz"

    @property
    def key(self) -> str:
        """What estimates depend on."""
        return f"{self.text}, {VERSION}"

    def times(self, checked: Checked, toolchain: Toolchain) -> dict[str, float]:
        """Estimated microseconds of one call (all images) by symbol; see `candidate_cycles`."""
        found = candidate_cycles(checked, toolchain, self.estimator)
        return {symbol: cycles / self.mhz for symbol, cycles in found.items()}


@dataclass(frozen=True)
class Checked:
    """A program whose candidates were checked, the verdicts by symbol, and what ran meanwhile."""

    built: Built
    verdicts: Mapping[str, Check]
    pieces: Mapping[Piece, int]


def counted_check(built: Built, toolchain: Toolchain) -> Checked:
    """Check all candidates while counting instructions. Raises ToolchainError if that fails."""
    with counting(toolchain.emulator()) as way:
        verdicts = check(built, way.runner, ["--signals"] if way.steps else [])
        return Checked(built, verdicts, way.read())


@dataclass(frozen=True)
class Estimated:
    """What estimates say about a network: their source, microseconds of its steps untuned and
    tuned.
    """

    by: str
    before_us: float
    after_us: float


def find_pipeline(target: Target) -> Pipeline | None:
    """The model of a target's processor; None if the target is not a particular processor.

    Raises ToolchainError if llvm-mca is needed and missing, or too old to know the processor.
    """
    if not target.pipeline:
        return None
    return Pipeline(find_estimator(target.pipeline, Machine(target.triple)), target.mhz)


def candidate_cycles(
    checked: Checked, toolchain: Toolchain, estimator: Estimator
) -> dict[str, float]:
    """Estimated cycles of one call (all images) by symbol; those that cannot be estimated are
    missing.

    Raises ToolchainError if no disassembler can run, or no llvm-mca where it is needed.
    """
    built = checked.built
    places = function_places(built.executable)
    own = [p for name, p in places.items() if p.size and any(word in name for word in _OWN)]
    if not own:
        return {}
    addresses = range(min(p.address for p in own) & ~1, max(p.address + p.size for p in own))
    machine, functions = disassemble(built.executable, toolchain.compiler, addresses)
    by_address = {f.instructions[0].address: f for f in functions}
    calls = Calls(machine, by_address, by_instruction(checked.pieces, functions))
    names = {f.name: address for address, f in by_address.items()}
    counted = {}
    for symbol in (c.symbol for c in built.candidates):
        one = calls.counted(names[f"run_{symbol}"]) if f"run_{symbol}" in names else None
        if one is not None:
            counted[symbol] = one
    cycles = estimate(machine, list(counted.values()), estimator)
    return {s: each for s, each in zip(counted, cycles, strict=True) if each is not None}
