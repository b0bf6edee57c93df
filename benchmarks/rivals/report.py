"""What was found, as tables for people and as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict

from rivals.results import (
    NO_FORM,
    Contest,
    Result,
    best_ours,
    best_rival,
    forms,
    gflops,
    peaks,
    percent_of_peak,
    ratio,
    titled,
)

#: Characters of a reason.
_LONGEST = 120

_HEADER = (
    "contestant", "us", "less no-op", "best rival / it", "GFLOP/s", "% of peak", "error",
    "library", "model", "version", "instructions", "remark",
)  # fmt: skip


def as_summary(contests: Sequence[Contest]) -> str:
    """A line per network and number of threads: the fastest of Cannery and of the rivals."""
    header = ("network", "MMAC", "Cannery us", "% of peak", "best rival", "us", "times as long")
    lines = [_line(header), _line(["---"] * len(header))]
    for contest, threads in forms(contests):
        ours, rival = best_ours(contest, threads), best_rival(contest, threads)
        if ours is None:
            continue
        percent, times = percent_of_peak(contest, ours), ratio(contest, ours)
        cells = [
            titled(contest.network, threads), f"{contest.macs / 1e6:.4g}", _number(ours.us),
            "" if not percent else f"{percent:.0f}", rival.name if rival else "none",
            _number(rival.net_us) if rival else "", "" if times is None else f"{times:.2f}",
        ]  # fmt: skip
        lines.append(_line(cells))
    return "\n".join(lines) + "\n"


def as_absent(contests: Sequence[Contest]) -> str:
    """Which rivals did not take part in which networks, and why; empty if all did."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for contest in contests:
        for rival, reason in contest.absent.items():
            reasons.setdefault((rival, _short(reason)), []).append(contest.network)
    if not reasons:
        return ""
    header = ("who did not take part", "why", "in")
    lines = [_line(header), _line(["---"] * len(header))]
    for (rival, reason), networks in sorted(reasons.items()):
        lines.append(_line((rival, reason, ", ".join(networks))))
    return "\n".join(lines) + "\n"


def _short(reason: str) -> str:
    """A reason as one line, an operator without its attributes."""
    if reason.startswith(NO_FORM):
        return reason.split("(")[0].strip()
    words = " ".join(reason.replace("|", "/").split())
    return words if len(words) <= _LONGEST else f"{words[:_LONGEST]} ..."


def as_markdown(contests: Sequence[Contest]) -> str:
    """A table per network, the fastest first."""
    return "\n".join(map(_table, contests))


def _table(contest: Contest) -> str:
    lines = [f"## {contest.network} ({contest.macs / 1e6:.4g} MMAC)", ""]
    lines += [_line(_HEADER), _line(["---"] * len(_HEADER))]
    for result in sorted(contest.results, key=lambda r: r.net_us):
        lines.append(_line(_cells(contest, result)))
    lines.append("")
    lines.append(
        "Peaks: " + ", ".join(f"{i} {p:.4g} GFLOP/s" for i, p in peaks(contest).items()) + "."
    )
    without = {**contest.absent, **contest.lost}
    lines += [f"Without {name}: {_short(reason)}" for name, reason in without.items()]
    return "\n".join(lines) + "\n"


def _cells(contest: Contest, result: Result) -> list[str]:
    times, percent = ratio(contest, result), percent_of_peak(contest, result)
    return [
        titled(result.name, result.threads),
        _number(result.us),
        "" if result.is_ours else _number(result.net_us),
        "" if times is None else f"{times:.2f}",
        f"{gflops(contest, result):.1f}",
        "" if percent is None else f"{percent:.0f}",
        f"{result.error:.1e}" if result.is_right else f"{result.error:.1e}, out",
        _bytes(result.library),
        _bytes(result.model) if result.model else "",
        result.version,
        result.isa or result.used,
        result.remark,
    ]


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _number(value: float) -> str:
    """Four digits."""
    return f"{value:.0f}" if value >= 1000 else f"{value:.4g}"


def _bytes(count: int) -> str:
    return f"{count / 1e6:.3g} MB" if count >= 1e6 else f"{count / 1e3:.3g} kB"


def as_json(contests: Sequence[Contest]) -> str:
    """All figures."""
    found = []
    for contest in contests:
        rows = [
            {
                **asdict(result), "net_us": result.net_us, "ratio": ratio(contest, result),
                "gflops": gflops(contest, result),
                "percent_of_peak": percent_of_peak(contest, result),
            }
            for result in contest.results
        ]  # fmt: skip
        found.append({**asdict(contest), "results": rows})
    return json.dumps(found, indent=2) + "\n"
