"""The programs that Cannery began from: their networks, and figures of them, as no index has them.

Figures are of one core of a Zen 5, SSSE3, 64 bits: each program was built from its sources and
timed in turn with Cannery on the same inputs. They are not of the machine that runs the benchmark.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rivals.results import Contest, best_ours, best_rival

WHERE = "Zen 5, SSSE3"


@dataclass(frozen=True)
class Figure:
    """Microseconds: of the seed, and of Cannery without and with tuning beside it."""

    seed: float
    untuned: float
    tuned: float


@dataclass(frozen=True)
class Seed:
    """A program by its title, the networks of its paper that are at hand, and its figures."""

    title: str
    networks: tuple[str, ...]
    figures: Mapping[str, Figure]


SEEDS: Mapping[str, Seed] = {
    "nncg": Seed(
        "NNCG (best build)",
        ("ball", "pedestrian", "robot_detector"),
        {"ball": Figure(0.92, 0.70, 0.63), "robot_detector": Figure(223, 91.6, 88.1)},
    ),
    "compilednn": Seed(
        "CompiledNN",
        ("ball", "pedestrian", "robot_detector", "segmenter", "mobilenetv2", "vgg19"),
        {
            "ball": Figure(0.99, 0.70, 0.63), "pedestrian": Figure(59.4, 21.8, 21.9),
            "robot_detector": Figure(242, 91.6, 88.1),
        },
    ),
}  # fmt: skip


def as_seed(contests: Sequence[Contest], seed: Seed) -> str:
    """A table of a seed's networks: its figure and Cannery's beside it there, then this machine."""
    header = (
        "network", f"{seed.title} us, {WHERE}", "Cannery there, untuned, tuned", "times as long",
        "Cannery us here", "best rival us here",
    )  # fmt: skip
    lines = [header, ("---",) * len(header)]
    for contest in contests:
        ours, rival = best_ours(contest), best_rival(contest)
        there = ("-", "-", "-")
        if contest.network in seed.figures:
            f = seed.figures[contest.network]
            ratio = f"{f.seed / f.untuned:.2f}, {f.seed / f.tuned:.2f}"
            there = (f"{f.seed:g}", f"{f.untuned:g}, {f.tuned:g}", ratio)
        here = (
            f"{ours.us:.4g} ({ours.isa}; {ours.remark})" if ours else "-",
            f"{rival.net_us:.4g} ({rival.name})" if rival else "-",
        )
        lines.append((contest.network, *there, *here))
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"
