"""Cycles of candidates on a processor that is not at hand, from the program that holds them."""

from __future__ import annotations

from cannery.analysis.disassembly import Machine, disassemble
from cannery.analysis.estimate import estimate
from cannery.analysis.mca import Estimator
from cannery.analysis.walk import Walker
from cannery.target.toolchain import Toolchain
from cannery.tune.build import Built
from cannery.tune.elf import Place, function_places, load_image

#: What the names of functions contain that belong to candidates, or are called by them.
_OWN = ("trial", "get_pc_thunk")


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
