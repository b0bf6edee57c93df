"""How well lines were read."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def distance(a: str, b: str) -> int:
    """The edit distance of Levenshtein: least insertions, deletions and substitutions."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        diagonal, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (x != y))
    return row[-1]


def accuracy(
    read: Sequence[str], expected: Sequence[str], draws: int = 10_000
) -> tuple[float, float, float]:
    """1 - distance / length over all lines, and its 95% confidence interval (low, high).

    The interval is that of the bootstrap: lines, not characters, are drawn with replacement, as
    those of a line share its font and its damage.
    """
    errors = np.array([distance(a, b) for a, b in zip(read, expected, strict=True)])
    lengths = np.array([len(b) for b in expected])
    drawn = np.random.default_rng(1).integers(len(errors), size=(draws, len(errors)))
    low, high = np.quantile(1 - errors[drawn].sum(1) / lengths[drawn].sum(1), [0.025, 0.975])
    return 1 - float(errors.sum() / lengths.sum()), float(low), float(high)
