"""Why a layer may exceed the peak of its processor: explained below the tables that show it."""

from __future__ import annotations

from collections.abc import Iterable

from cannery.target.isa import Isa


def why_above_peak(layers: Iterable[tuple[str, float | None]], isa: Isa) -> str:
    """One sentence about the layers above 100%, each (schedule, percent); empty if there are none.

    Percentages compare the direct form's multiplications with the float32 multiply-adds that the
    widest registers can do.
    """
    above = [schedule for schedule, percent in layers if percent is not None and percent > 100]
    if not above:
        return ""
    reasons = []
    if any("winograd" in schedule for schedule in above):
        reasons.append("Winograd's algorithm multiplies less than the direct form, which counts")
    if any(schedule.startswith("quantized.") for schedule in above):
        reasons.append("the peak is that of float32, and bytes are multiplied faster")
    if isa.widest == 1:
        reasons.append("the peak is for single floats, and compilers may vectorise plain C")
    told = "; ".join(reasons) or "the clock varies, or products with zeros are skipped"
    return f"Above 100% of the peak: {told}."
