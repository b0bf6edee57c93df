"""Where each kind of figure in a report comes from: measured, computed, or estimated."""

from __future__ import annotations

from dataclasses import dataclass

from cannery.measure.intervals import CONFIDENCE
from cannery.reporting.facts import Facts
from cannery.reporting.measuring import ROUNDS, SAMPLES, Measured
from cannery.reporting.tried import TriedByLayer
from cannery.target.runner import Origin


@dataclass(frozen=True)
class Told:
    """A kind of figure: `how` is measured, exact, estimated or unknown, `why` says more."""

    what: str
    how: str
    why: str


#: The sheet of guarantees, and memory against time, where there are any.
GUARANTEES = Told(
    "guarantees", "exact",
    "bounds for every run, from the machine code and the plan; what runs show is beside them. Rows "
    "of instructions and cycles say what they take as given",
)  # fmt: skip
CURVE = Told("memory against time", "estimated", "bytes are exact, times are the cost model's")


def told(facts: Facts, measured: Measured, tried: TriedByLayer) -> tuple[Told, ...]:
    """What is known about a network, and its sources."""
    return (
        _times(measured), _roofs(measured), _choices(facts), _tried(tried),
        Told(
            "errors", "measured",
            f"compared with the float64 references on {SAMPLES} samples; single layers on one, "
            "with the inputs that the references compute",
        ),
        Told("workspace, what lies where", "exact", "from the plan of the code"),
        Told("weights", "exact", "bytes of the constants, as packed"),
        _code(measured),
    )  # fmt: skip


def _times(measured: Measured) -> Told:
    if measured.instructions:
        return Told("instructions", "exact", "counted under an emulator, for one run")
    if not measured.times:
        why = "only an emulator runs the programs, and its times mean nothing"
        return Told("times", "unknown", why)
    where = {Origin.DEVICE.value: "on the intended processor"}.get(
        measured.origin, "on another processor that runs the same code"
    )
    return Told(
        "times", "measured",
        f"{where}, caches {measured.context}: medians of {ROUNDS} rounds. Each round starts a "
        f"program anew and takes the lower quartile of its runs. With {CONFIDENCE:.0%} confidence, "
        "the interval contains the true median. Layers are timed within runs of the network.",
    )  # fmt: skip


def _roofs(measured: Measured) -> Told:
    if not measured.bandwidths:
        return Told("roofline", "unknown", "the processor was not measured")
    return Told(
        "roofline", "estimated",
        f"from a measured peak of {measured.peak_gflops:.3g} GFLOP/s, and measured bandwidths of "
        "memory of each size. It assumes the direct form. A layer may be faster, because "
        "Winograd's algorithm multiplies less, or because caches keep some data that does not fit.",
    )  # fmt: skip


def _choices(facts: Facts) -> Told:
    origins = sorted({layer.origin for layer in facts.layers if layer.computes})
    if "record" in origins and len(origins) == 1:
        return Told("choices", "measured", "all come from the tuning record")
    if "record" in origins:
        why = "most come from the tuning record, changes of order and the like from the cost model"
        return Told("choices", "measured", why)
    return Told("choices", "estimated", "the network was never tuned: the cost model chose")


def _tried(tried: TriedByLayer) -> Told:
    every = [one for found in tried.values() for one in found]
    if not every:
        return Told("candidates", "unknown", "there is no tuning record, and no --candidates")
    how = "estimated" if any(one.estimated for one in every) else "measured"
    return Told("candidates", how, "when the network was tuned, each layer on its own")


def _code(measured: Measured) -> Told:
    if measured.code is None:
        return Told("code", "unknown", "the object file does not say")
    why = (
        "bytes of functions in the object file. Here every kernel is a function of its own; in a "
        "library, the compiler may put several into one."
    )
    return Told("code", "exact", why)
