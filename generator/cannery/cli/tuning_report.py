"""What autotune found, as tables and as JSON."""

from __future__ import annotations

from typing import Any

import click

from cannery.cli.output import print_table
from cannery.cli.peak import why_above_peak
from cannery.target.runner import Origin, origin_text
from cannery.tuning.optimize import Tried
from cannery.tuning.outcome import LayerOutcome, Outcome

#: Why the fastest candidate of a layer is not always the chosen one.
_WHY_SLOWER = (
    "Where another candidate is faster alone (negative margin, or other layout), the whole network "
    "is faster, or exact enough, with the chosen one."
)

#: Candidates of a layer in the table, and how many from one schedule.
_SHOWN = 4
_PER_SCHEDULE = 2


def percent_of_peak(macs: int, us: float | None, peak_gflops: float) -> float | None:
    """Multiply-adds per time, in percent of the peak; None if that is meaningless."""
    return 0.2 * macs / us / peak_gflops if us and macs and peak_gflops else None


def as_dict(outcome: Outcome) -> dict[str, Any]:
    """The JSON of autotune."""
    return {
        "target": outcome.toolchain.target.name,
        "isa": outcome.toolchain.target.isa.name,
        "origin": outcome.origin.value,
        "device": outcome.device.as_dict() if outcome.device else None,
        "context": outcome.context.value,
        "compiler": outcome.toolchain.compiler.version,
        **({"peak_gflops": outcome.peak_gflops} if outcome.peak_gflops else {}),
        "steps": [_step(outcome, layer) for layer in outcome.layers],
        "total_us": {"before": outcome.before_us, "after": outcome.after_us},
        "estimated": vars(outcome.estimated) if outcome.estimated else None,
        "error": outcome.error,
        "max_error": outcome.max_error,
        "samples": outcome.samples,
        "measured": outcome.measured,
        "seconds": outcome.seconds,
        "record": str(outcome.path) if outcome.path.exists() else None,
        "changed": outcome.changed,
        "not_measured": list(outcome.untried),
        "measured_in_part": list(outcome.partly),
        "not_done": list(outcome.missed),
        "notes": list(outcome.notes),
    }


def _step(outcome: Outcome, layer: LayerOutcome) -> dict[str, Any]:
    return {
        "name": layer.step.name,
        "op": layer.step.kind,
        "macs": layer.macs,
        "candidates": [_candidate(outcome, layer, t) for t in _by_time(outcome, layer)],
        "chosen": str(layer.chosen),
        "margin": layer.margin,
        "origin": layer.chosen.origin,
        "recorded": not layer.untried,
    }


def _candidate(outcome: Outcome, layer: LayerOutcome, tried: Tried) -> dict[str, Any]:
    measured = tried.measurement
    us = None if outcome.estimated else tried.us
    emulated = {"emulated_us": tried.us, "estimated_us": tried.estimated_us}
    return {
        "schedule": tried.label,
        "us": us,
        **(emulated if outcome.estimated else {}),
        "percent_of_peak": percent_of_peak(layer.macs, us, outcome.peak_gflops),
        "error": measured.error if measured else None,
        "fault": measured.fault if measured else "",
        "code_bytes": tried.code_bytes,
    }


def _by_time(outcome: Outcome, layer: LayerOutcome) -> list[Tried]:
    """Everything measured or estimated, fastest first, then the rest."""
    known = [t for t in layer.tried if t.measurement is not None]
    return sorted(known, key=lambda t: _decisive(outcome, t) or float("inf"))


def _decisive(outcome: Outcome, tried: Tried) -> float | None:
    """The time that decided, or would have."""
    return tried.estimated_us if outcome.estimated else tried.us


def print_report(outcome: Outcome, *, all_layers: bool = False) -> None:
    """A table per network: the best candidates of each layer, then the totals."""
    layers = [x for x in outcome.layers if all_layers or x.macs or _by_time(outcome, x)]
    rows = [row for layer in layers for row in _rows(outcome, layer)]
    times = ["us", "% of peak"]
    if outcome.estimated:
        times = ["est. us", "emulated us"]
    elif outcome.origin is Origin.EMULATED:
        times = ["emulated us", "% of peak"]
    header = ["layer", *times, "error", "margin", "", "candidate"]
    if rows:
        chosen = {k for k, row in enumerate(rows) if row[5].startswith("chosen")}
        print_table(header, rows, chosen)
    if any(_is_slower_alone(layer) for layer in layers):
        click.echo(f"\n{_WHY_SLOWER}")
    above = why_above_peak(_percents(outcome), outcome.toolchain.target.isa)
    if above and "% of peak" in header:
        click.echo(f"\n{above}")
    if rows:
        click.echo()
    for line in _totals(outcome):
        click.echo(line)


def _percents(outcome: Outcome) -> list[tuple[str, float | None]]:
    """Of everything that was tried."""
    return [
        (tried.label, percent_of_peak(layer.macs, tried.us, outcome.peak_gflops))
        for layer in outcome.layers for tried in layer.tried
    ]  # fmt: skip


def _rows(outcome: Outcome, layer: LayerOutcome) -> list[list[str]]:
    """The best candidates, not all from one schedule, and the chosen one."""
    chosen = str(layer.chosen)
    counts: dict[str, int] = {}
    rows: list[list[str]] = []
    for tried in _by_time(outcome, layer):
        schedule = tried.ranked.choice.schedule.id
        counts[schedule] = counts.get(schedule, 0) + 1
        is_chosen = tried.label == chosen
        if not is_chosen and (counts[schedule] > _PER_SCHEDULE or len(rows) >= _SHOWN):
            continue
        percent = percent_of_peak(layer.macs, tried.us, outcome.peak_gflops)
        more = tried.us if outcome.estimated else percent
        margin = layer.margin if is_chosen else None
        rows.append([
            "", _number(_decisive(outcome, tried)), _number(more), f"{tried.error:.1g}",
            "" if margin is None else f"{margin:+.1%}",
            "chosen" if is_chosen else _excuse(layer, tried), tried.label,
        ])  # fmt: skip
    if not any(row[5] == "chosen" for row in rows):
        how = "not tried" if layer.untried else f"chosen ({layer.chosen.origin})"
        rows.append(["", "", "", "", "", how, chosen])
    rows[0][0] = f"{layer.index:02d} {layer.step.kind} {layer.step.name}"
    return rows


def _excuse(layer: LayerOutcome, tried: Tried) -> str:
    """Why a candidate that looks good was not chosen, if there is a reason."""
    if tried.measurement and tried.measurement.fault:
        return tried.measurement.fault
    chosen = next((t for t in layer.tried if t.label == str(layer.chosen)), tried)
    return "" if tried.rivals(chosen) else "other layout"


def _is_slower_alone(layer: LayerOutcome) -> bool:
    """Whether a correct candidate is faster than the chosen one."""
    us = layer.chosen.us
    sound = (t for t in layer.tried if t.usable and t.label != str(layer.chosen))
    return us is not None and any(t.us is not None and t.us < us for t in sound)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}"


def _totals(outcome: Outcome) -> list[str]:
    target = outcome.toolchain.target
    where = f"{target.name} ({target.isa.name}, {origin_text(outcome.origin, outcome.device)})"
    lines = []
    if outcome.before_us and outcome.after_us:
        factor = outcome.before_us / outcome.after_us
        lines.append(
            f"{where}: {outcome.before_us:.3g} us before, {outcome.after_us:.3g} us after tuning "
            f"({factor:.2f} times as fast)"
        )
    elif outcome.estimated:
        found = outcome.estimated
        lines.append(f"{where}: {found.by}, and the cost model")
        lines.append(
            f"by this estimate {found.before_us:.3g} us before, {found.after_us:.3g} us after "
            "tuning; an emulator's times are ignored (--device measures on the device)"
        )
    elif outcome.origin is Origin.EMULATED:
        lines.append(f"{where}: times under an emulator are ignored; the cost model chose")
    how = "checked and estimated" if outcome.estimated else "measured"
    timed = not outcome.estimated and outcome.origin is not Origin.EMULATED
    known = timed and outcome.peak_gflops
    peak = f"; peak {outcome.peak_gflops:.3g} GFLOP/s" if known else ""
    error = "the whole network was not compared with the reference"
    if outcome.error is not None:
        error = f"error {outcome.error:.2g} over {outcome.samples} samples"
    lines.append(f"{error}; {outcome.measured} candidates {how} in {outcome.seconds:.1f} s{peak}")
    if outcome.error is not None and outcome.error > outcome.max_error:
        lines.append(
            f"the error exceeds {outcome.max_error:.2g}, what --max-error allows, and nothing that "
            "was tried is more exact: no record is written, an earlier one stays"
        )
    return lines + list(outcome.notes)
