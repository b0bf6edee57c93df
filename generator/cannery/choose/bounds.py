"""What is known about MAX_ERROR without running a network; reports bounds it can hardly keep."""

from __future__ import annotations

from collections.abc import Sequence

from cannery.choose.provenance import served_records
from cannery.choose.rounding import rounding_error
from cannery.ir.graph import Graph
from cannery.ir.tensor import DType
from cannery.options import Options

#: The largest relative error of storing a number in float32: half a unit of 24 bits.
FLOAT32_ROUNDING = 2.0**-24


def bound_notes(
    options: Options, dtypes: Sequence[DType], bound: float, graph: Graph | None = None
) -> list[str]:
    """Why outputs of these types may be off by more than `bound`; empty if nothing suggests it.

    A record's measurement counts, for its own weights and processor; otherwise the estimated effect
    of rounding `graph` to float32 does.
    """
    check = "`cannery verify` measures it"
    served = served_records(options)
    notes = [
        f"{path}: the network's error was {record.error:.2g} when it was tuned, more than "
        f"--max-error {bound:g}; {check}"
        for _, path, record in served
        if record.error is not None and record.error > bound
    ]
    if notes or DType.FLOAT32 not in dtypes:
        return notes
    if bound < FLOAT32_ROUNDING:
        notes.append(
            f"--max-error {bound:g} is less than the rounding of the outputs to float32, "
            f"{FLOAT32_ROUNDING:.2g}, which no choice of kernels can change; {check}"
        )
        return notes
    measured = served and all(record.error is not None for _, _, record in served)
    error = rounding_error(graph, bound) if graph is not None and not measured else None
    if error is not None and error > bound:
        size = f"an error of about {error:.2g}" if error < 1 else "meaningless outputs"
        notes.append(
            f"float32 rounding alone is estimated to make {size} of this network, more than "
            f"--max-error {bound:g}, whichever kernels are chosen; {check}, a larger --max-error "
            "allows it"
        )
    return notes
