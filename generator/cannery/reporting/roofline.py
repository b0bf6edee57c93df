"""The least time that a layer can take on a processor: by its arithmetic, and by its bytes.

Williams, Waterman, Patterson, "Roofline: an insightful visual performance model", 2009. Peak and
bandwidths are measured; the bound derived from them is an estimate for the direct form. Winograd's
algorithm multiplies less, and caches keep some data that does not fit, so both may be faster.
"""

from __future__ import annotations

from dataclasses import dataclass

from cannery.measure.measure import Context
from cannery.reporting.facts import Facts, Layer
from cannery.reporting.measuring import Measured


@dataclass(frozen=True)
class Roof:
    """About the least microseconds that a layer takes: for its arithmetic, and for its bytes."""

    compute_us: float
    memory_us: float

    @property
    def us(self) -> float:
        """The bound: both happen at once."""
        return max(self.compute_us, self.memory_us)

    @property
    def limit(self) -> str:
        """Which of the two takes longer."""
        return "arithmetic" if self.compute_us >= self.memory_us else "memory"


def layer_roof(facts: Facts, measured: Measured, layer: Layer) -> Roof | None:
    """The bound of a layer; None if nothing was measured, or nothing is computed.

    Weights come from the level that holds everything a run touches, or from memory with cold
    caches; values come from the level that holds the layer's values, read and written at once.
    """
    if not (measured.peak_gflops and measured.bandwidths and layer.computes):
        return None
    everything = facts.weight_bytes + facts.workspace_bytes
    if measured.context == Context.COLD.value:
        everything = max(level.bytes for level in measured.bandwidths)
    weights = layer.weight_bytes / _rate(measured, everything)
    rate = _rate(measured, layer.read_bytes + layer.written_bytes)
    values = max(layer.read_bytes, layer.written_bytes) / rate
    return Roof(2e-3 * layer.macs / measured.peak_gflops, 1e-3 * (weights + values))


def _rate(measured: Measured, size: int) -> float:
    """GB per second for this many bytes."""
    levels = measured.bandwidths
    fitting = [level.gb_per_s for level in levels if level.bytes >= size]
    # A smaller memory is never slower: lower measurements were disturbed.
    return max(fitting) if fitting else levels[-1].gb_per_s


def intensity(layer: Layer) -> float | None:
    """Operations per byte; None for a layer that moves or multiplies nothing."""
    return 2.0 * layer.macs / layer.moved_bytes if layer.moved_bytes and layer.macs else None
