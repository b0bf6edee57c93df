"""A picture of contests: for every network, the times of all as bars, next to Cannery's best."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from math import log2

from rivals.results import Contest, Result, best_ours, forms, titled

_ROW, _GAP, _LEFT, _WIDTH, _RIGHT = 18, 34, 190, 480, 150
_OURS, _OTHERS = "#1b7837", "#9aa3ad"


@dataclass(frozen=True)
class Bar:
    """A contestant: how many times as much as Cannery's best, and how much, as text."""

    name: str
    times: float
    amount: str
    ours: bool


def as_svg(contests: Sequence[Contest]) -> str:
    """Times of all contests; contestants with wrong outputs are absent."""
    return bars(
        (
            titled(f"{contest.network}, {contest.macs / 1e6:.4g} MMAC", threads),
            [
                Bar(r.name, _times(contest, r), f"{r.net_us:.4g} us", r.is_ours)
                for r in _ranked(contest, threads)
            ],
        )
        for contest, threads in forms(contests)
        if best_ours(contest, threads)
    )


def bars(groups: Iterable[tuple[str, Sequence[Bar]]]) -> str:
    """Bars on a logarithmic scale, below their titles; shorter is better."""
    every = list(groups)
    octaves = max((log2(bar.times) for _, rows in every for bar in rows), default=0.0)
    scale = _WIDTH / (octaves + 1)
    parts: list[str] = []
    y = 0
    for title, rows in every:
        y += _GAP
        parts.append(_text(_LEFT, y - 8, title, weight="bold"))
        for bar in rows:
            parts += _drawn(bar, y, scale)
            y += _ROW
    size = f'width="{_LEFT + _WIDTH + _RIGHT}" height="{y + 10}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif">'
    return "\n".join([head, '<rect width="100%" height="100%" fill="white"/>', *parts, "</svg>\n"])


def _ranked(contest: Contest, threads: int) -> list[Result]:
    found = (r for r in contest.results if r.is_right and r.threads == threads)
    return sorted(found, key=lambda r: r.net_us)


def _times(contest: Contest, result: Result) -> float:
    best = best_ours(contest, result.threads)
    return result.net_us / best.net_us if best else 1.0


def _drawn(bar: Bar, y: int, scale: float) -> list[str]:
    """The name, a bar that begins at half of Cannery's, and the figures."""
    width = max(1.0, scale * (1 + log2(bar.times)))
    colour = _OURS if bar.ours else _OTHERS
    return [
        _text(_LEFT - 8, y + 13, bar.name, anchor="end"),
        f'<rect x="{_LEFT}" y="{y + 2}" width="{width:.1f}" height="{_ROW - 4}" fill="{colour}"/>',
        _text(_LEFT + width + 6, y + 13, f"{bar.amount}, {bar.times:.2f} x"),
    ]


def _text(x: float, y: int, text: str, *, anchor: str = "start", weight: str = "normal") -> str:
    style = f'font-size="12" text-anchor="{anchor}" font-weight="{weight}"'
    return f'<text x="{x:.1f}" y="{y}" {style}>{escape(text)}</text>'
