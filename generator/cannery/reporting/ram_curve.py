"""Memory against time (`--ram-curve`), with what is proved, for terminals, pages and tools."""

from __future__ import annotations

from typing import Any

from cannery.choose.ram import Curve
from cannery.reporting.tables import Table


def curve_json(found: Curve) -> dict[str, Any]:
    """A point for each plan, the fastest first, whose time is 1, and the least of any plan."""
    fastest = max(found.points[0].cost, 1.0)
    points = [
        {
            "bytes": point.bytes, "time": round(point.cost / fastest, 4),
            "steps": len(point.plan.picks),
            "depth_first": sum(
                len(step.parts) for step in point.ram.steps if step.depth_first
            ),
            "peak": point.ram.peak,
        }
        for point in found.points
    ]  # fmt: skip
    return {"points": points, "least": found.least}


def curve_table(found: Curve) -> Table:
    """A row for each plan, then what is proved."""
    rows = [
        [f"{p['bytes']:,}", f"{p['time']:.2f}", p["steps"], p["depth_first"], p["peak"]]
        for p in curve_json(found)["points"]
    ]
    proved = (
        "Times are estimates, the fastest plan's is 1. No plan of these steps takes less than "
        f"{found.least:,} bytes of workspace and state."
    )
    return Table(["bytes", "time", "steps", "depth first", "alive at the peak"], rows, [proved])
