"""Times of candidates on a processor that is not at hand, from the program that holds them."""

from __future__ import annotations

from dataclasses import dataclass

from cannery.analysis.disassembly import Machine, disassemble
from cannery.analysis.estimate import estimate
from cannery.analysis.mca import Estimator, find_estimator
from cannery.analysis.walk import Walker
from cannery.target.targets import Target
from cannery.target.toolchain import Toolchain
from cannery.tune.build import Built
from cannery.tune.elf import Place, function_places, load_image

#: Changes where the same code is estimated differently: what was estimated before is forgotten.
VERSION = 1

#: What the names of functions contain that belong to candidates, or are called by them.
_OWN = ("trial", "get_pc_thunk")


@dataclass(frozen=True)
class Pipeline:
    """A model of a processor's pipeline, and the clock at which it runs, in MHz."""

    estimator: Estimator
    mhz: int

    @property
    def text(self) -> str:
        """What was used beside the cost model, for people and for the record."""
        e = self.estimator
        stands_in = f"{e.model} stands in for {e.wanted}" if e.is_approximate else e.wanted
        return f"{e.version}, {stands_in}, at {self.mhz} MHz"

    @property
    def key(self) -> str:
        """What estimates depend on."""
        return f"{self.text}, {VERSION}"

    def times(self, built: Built, toolchain: Toolchain) -> dict[str, float]:
        """Estimated microseconds of one call (all images) by symbol; see `candidate_cycles`."""
        found = candidate_cycles(built, toolchain, self.estimator)
        return {symbol: cycles / self.mhz for symbol, cycles in found.items()}


@dataclass(frozen=True)
class Estimated:
    """What estimates say of a network: by what, microseconds of its steps untuned and tuned."""

    by: str
    before_us: float
    after_us: float


def find_pipeline(target: Target) -> Pipeline | None:
    """The model of a target's processor; None if the target is no processor in particular.

    Raises ToolchainError where llvm-mca is missing, or too old to know the processor.
    """
    if not target.pipeline:
        return None
    return Pipeline(find_estimator(target.pipeline, Machine(target.triple)), target.mhz)


def candidate_cycles(built: Built, toolchain: Toolchain, estimator: Estimator) -> dict[str, float]:
    """Estimated cycles of one call (all images) by symbol; those that defy it are missing.

    Raises ToolchainError where no disassembler or no llvm-mca can be run.
    """
    places = function_places(built.executable)
    own = [p for name, p in places.items() if p.size and any(word in name for word in _OWN)]
    if not own:
        return {}
    addresses = range(min(p.address for p in own) & ~1, max(p.address + p.size for p in own))
    machine, functions = disassemble(built.executable, toolchain.compiler, addresses)
    by_address = {f.instructions[0].address: f for f in functions}
    walker = Walker(machine, by_address, load_image(built.executable).read)
    starts = {
        c.symbol: start
        for c in built.candidates
        if (start := _start(places.get(f"run_{c.symbol}"), machine)) in by_address
    }
    found = estimate(walker, list(starts.values()), estimator)
    return {s: cycles for s, cycles in zip(starts, found, strict=True) if cycles is not None}


def _start(place: Place | None, machine: Machine) -> int:
    """The address of a function's first instruction; symbols of T32 have one more."""
    if place is None:
        return -1
    return place.address & ~1 if machine is Machine.ARM else place.address
