"""What is known of MAX_ERROR without running a network: bounds that it can hardly keep are told."""

from __future__ import annotations

from collections.abc import Sequence

from cannery.ir.tensor import DType
from cannery.options import Options
from cannery.tune.provenance import served_records

#: What storing a number in float32 costs at most, of the number: half a unit of 24 bits.
FLOAT32_ROUNDING = 2.0**-24


def bound_notes(options: Options, dtypes: Sequence[DType], bound: float) -> list[str]:
    """Why outputs of these types may be off by more than `bound`; empty if nothing speaks for it.

    What a record measured counts, for its own weights and processor; else only what no network of
    floats can do. Anything between is found by `cannery verify` alone.
    """
    check = "`cannery verify` tells what it is"
    notes = [
        f"{path}: the network's error was {record.error:.2g} when it was tuned, more than "
        f"--max-error {bound:g}; {check}"
        for _, path, record in served_records(options)
        if record.error is not None and record.error > bound
    ]
    if not notes and bound < FLOAT32_ROUNDING and DType.FLOAT32 in dtypes:
        notes.append(
            f"--max-error {bound:g} is less than the rounding of the outputs to float32, "
            f"{FLOAT32_ROUNDING:.2g}, which no choice of kernels changes; {check}"
        )
    return notes
