"""Two networks side by side: which layers belong together, what differs, and what is worse."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import count
from typing import Any

import numpy as np

from cannery.execution.samples import join_samples, relative_error
from cannery.ir.registry import RefArray
from cannery.measure.intervals import Interval, interval
from cannery.reporting.facts import Facts, Layer
from cannery.reporting.measuring import Measured

Outputs = Sequence[Mapping[str, RefArray]]
Both = tuple[Interval | None, Interval | None]
Pair = tuple[tuple[Layer, ...], tuple[Layer, ...]]


def verdict(times: Both) -> str:
    """What two intervals say: the second is faster, slower, or there is no difference."""
    one, other = times
    if one is None or other is None:
        return ""
    if one.overlaps(other):
        return "no difference"
    return "slower" if other.mid > one.mid else "faster"


def count_verdict(counts: tuple[int, int]) -> str:
    """The same for instructions, which are exact."""
    one, other = counts
    return "no difference" if one == other else ("more" if other > one else "fewer")


def change(one: float, other: float) -> float | None:
    """The fraction by which the second exceeds the first; None if the first is 0."""
    return other / one - 1 if one else None


@dataclass(frozen=True)
class Row:
    """Layers of the first network that compute what those of the second do; either may be empty.

    `counts` are instructions, None if not counted.
    """

    layers: tuple[tuple[Layer, ...], tuple[Layer, ...]]
    times: Both
    sizes: tuple[int, int]
    counts: tuple[int, int] | None = None

    @property
    def title(self) -> str:
        """The layers' names, from the first network if it has any."""
        found = self.layers[0] or self.layers[1]
        return " + ".join(layer.name for layer in found)

    @property
    def schedules(self) -> tuple[str, str]:
        """What was chosen in each."""
        one, other = (" + ".join(layer.schedule for layer in side) for side in self.layers)
        return one, other

    @property
    def verdict(self) -> str:
        """Faster, slower, no difference, or nothing to compare with."""
        if not all(self.layers):
            return "only in A" if self.layers[0] else "only in B"
        return count_verdict(self.counts) if self.counts else verdict(self.times)


@dataclass(frozen=True)
class Limits:
    """The limits for what counts as worse: more time or memory, as fractions, or other outputs.

    Outputs may differ in any way (None), or by this much relative to the largest.
    """

    slower: float
    larger: float
    difference: float | None


@dataclass(frozen=True)
class Comparison:
    """What differs between A and B. `differences` are those of the outputs, by name in A, on the
    same inputs; None if the interfaces differ. `worse` says how B is worse, one sentence each.
    `counts` are instructions of one run, None if not counted.
    """

    rows: tuple[Row, ...]
    times: Both
    sizes: Mapping[str, tuple[int, int]]
    errors: tuple[float, float]
    differences: Mapping[str, float] | None
    worse: tuple[str, ...]
    counts: tuple[int, int] | None = None

    @property
    def verdict(self) -> str:
        """Of the whole networks."""
        return count_verdict(self.counts) if self.counts else verdict(self.times)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "time_us": [plain_time(time) for time in self.times], "verdict": self.verdict,
            "instructions": self.counts and list(self.counts),
            "bytes": {name: list(pair) for name, pair in self.sizes.items()},
            "errors": list(self.errors), "output_differences": self.differences,
            "worse": list(self.worse),
            "layers": [
                {
                    "a": [layer.name for layer in row.layers[0]],
                    "b": [layer.name for layer in row.layers[1]],
                    "schedules": list(row.schedules), "verdict": row.verdict,
                    "time_us": [plain_time(time) for time in row.times], "bytes": list(row.sizes),
                    "instructions": row.counts and list(row.counts),
                }
                for row in self.rows
            ],
        }  # fmt: skip


def plain_time(time: Interval | None) -> dict[str, float] | None:
    """An interval for JSON."""
    return None if time is None else {"low": time.low, "median": time.mid, "high": time.high}


def compare(
    facts: tuple[Facts, Facts], measured: tuple[Measured, Measured],
    outputs: tuple[Outputs, Outputs], limits: Limits,
) -> Comparison:  # fmt: skip
    """Compare two networks that were measured side by side."""
    rows = tuple(_row(measured, pair) for pair in match_layers(facts[0].layers, facts[1].layers))
    times = (measured[0].time, measured[1].time)
    a, b = facts
    sizes = {
        "weights": (a.weight_bytes, b.weight_bytes),
        "code": (measured[0].code or 0, measured[1].code or 0),
        "workspace": (a.workspace_bytes, b.workspace_bytes),
    }
    first, second = (max(m.errors.values(), default=0.0) for m in measured)
    differences = output_differences(*outputs)
    counts = _both([sum(m.instructions) if m.instructions else None for m in measured])
    worse = _worse(times, counts, sizes, (second, measured[1].max_error), differences, limits)
    return Comparison(rows, times, sizes, (first, second), differences, worse, counts)


def _row(measured: tuple[Measured, Measured], pair: Pair) -> Row:
    one, other = zip(measured, pair, strict=True)
    counts = [
        sum(m.instructions[layer.number] for layer in layers) if m.instructions else None
        for m, layers in (one, other)
    ]
    return Row(pair, (_time(*one), _time(*other)), (_bytes(*one), _bytes(*other)), _both(counts))


def _both(counts: Sequence[int | None]) -> tuple[int, int] | None:
    """Two counts if both are known."""
    one, other = counts
    return None if one is None or other is None else (one, other)


def _time(measured: Measured, layers: Sequence[Layer]) -> Interval | None:
    """The total time of layers: by round, then the median."""
    rounds = [measured.layers[layer.number] for layer in layers if measured.layers]
    timed = [times for times in rounds if times]
    return interval([sum(times) for times in zip(*timed, strict=True)]) if timed else None


def _bytes(measured: Measured, layers: Sequence[Layer]) -> int:
    """Weights and code."""
    return sum(layer.weight_bytes + (measured.code_bytes[layer.number] or 0) for layer in layers)


def output_differences(one: Outputs, other: Outputs) -> dict[str, float] | None:
    """max|b - a| / max|a| of each output; None if the outputs do not match."""
    a, b = join_samples(one), join_samples(other)
    shapes = [[array.shape for array in arrays.values()] for arrays in (a, b)]
    if shapes[0] != shapes[1]:
        return None
    pairs = zip(a.items(), b.values(), strict=True)
    return {name: relative_error(mine.astype(np.float64), y) for (name, y), mine in pairs}


def _worse(
    times: Both, counts: tuple[int, int] | None, sizes: Mapping[str, tuple[int, int]],
    error: tuple[float, float], differences: Mapping[str, float] | None, limits: Limits,
) -> tuple[str, ...]:  # fmt: skip
    """How B is worse than A by more than allowed."""
    found = []
    one, other = times
    if one and other and verdict(times) == "slower" and other.mid > one.mid * (1 + limits.slower):
        found.append(f"B takes {other} us, A {one} us")
    if counts and counts[1] > counts[0] * (1 + limits.slower):
        found.append(f"B executes {counts[1]:,} instructions, A {counts[0]:,}")
    for name, (before, after) in sizes.items():
        if after > before * (1 + limits.larger):
            found.append(f"B has {after:,} bytes of {name}, A {before:,}")
    if error[0] > error[1]:
        found.append(f"the error of B is {error[0]:.2g}, more than {error[1]:.2g}")
    if limits.difference is not None:
        if differences is None:
            found.append("the outputs of A and B have different shapes")
        found += [
            f"output {name!r} of B differs by {value:.2g}"
            for name, value in (differences or {}).items() if not value <= limits.difference
        ]  # fmt: skip
    return tuple(found)


def match_layers(one: Sequence[Layer], other: Sequence[Layer]) -> list[Pair]:
    """The layers that belong together, in the order of the first network.

    Layers that compute the same nodes, by name, belong together: one step here may be several
    there. The rest is matched by kind and shape, in order.
    """
    groups = _by_nodes(one, other)
    pairs = [pair for pair in groups if all(pair)]
    left = [layer for pair in groups if not pair[1] for layer in pair[0]]
    right = [layer for pair in groups if not pair[0] for layer in pair[1]]
    pairs += _by_kind(left, right)
    paired = {id(layer) for pair in pairs for layer in pair[0]}
    pairs += [((layer,), ()) for layer in left if id(layer) not in paired]
    pairs.sort(key=lambda pair: pair[0][0].number)
    met = {id(layer) for pair in pairs for layer in pair[1]}
    return [*pairs, *(((), (layer,)) for layer in right if id(layer) not in met)]


def _by_nodes(one: Sequence[Layer], other: Sequence[Layer]) -> list[Pair]:
    """The smallest groups such that no node is in two of them."""
    fresh = count()
    group: dict[str, int] = {}
    members: dict[int, tuple[list[Layer], list[Layer]]] = {}
    for side, layers in enumerate((one, other)):
        for layer in layers:
            touched = {group[node] for node in layer.nodes if node in group}
            joined = min(touched) if touched else next(fresh)
            kept = members.setdefault(joined, ([], []))
            for number in touched - {joined}:
                for mine, theirs in zip(kept, members.pop(number), strict=True):
                    mine += theirs
            kept[side].append(layer)
            for member in (*kept[0], *kept[1]):
                group.update(dict.fromkeys(member.nodes, joined))
    return [
        (
            tuple(sorted(mine, key=lambda layer: layer.number)),
            tuple(sorted(theirs, key=lambda layer: layer.number)),
        )
        for mine, theirs in members.values()
    ]


def _by_kind(one: Sequence[Layer], other: Sequence[Layer]) -> list[Pair]:
    """Pairs of equal kind and shape: as many as possible in one order, then the rest likewise."""
    pairs: list[Pair] = []
    left, right = list(one), list(other)
    while True:
        mine, theirs = ([(layer.kind, layer.shapes) for layer in side] for side in (left, right))
        blocks = SequenceMatcher(None, mine, theirs, autojunk=False).get_matching_blocks()
        found = [(block.a + k, block.b + k) for block in blocks for k in range(block.size)]
        if not found:
            return pairs
        pairs += [((left[a],), (right[b],)) for a, b in found]
        taken = {a for a, _ in found}, {b for _, b in found}
        left = [layer for k, layer in enumerate(left) if k not in taken[0]]
        right = [layer for k, layer in enumerate(right) if k not in taken[1]]
