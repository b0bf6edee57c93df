"""Ensembles of decision trees: depths, targets, kinds of columns, ways to join the trees."""

from __future__ import annotations

from cannery.ops.trees.forest import Column
from ops.cases import add_case
from ops.forests import Growth, forest_graph

EVERY = tuple(Column)

_CASES: dict[str, tuple[Growth, int, str]] = {
    "full": (Growth(5, 3, 4, full=True), 2, "SUM"),
    "ragged": (Growth(11, 7, 6), 3, "SUM"),
    "strict": (Growth(9, 4, 3, strict=True), 5, "SUM"),
    "leaf_only": (Growth(3, 0, 2), 2, "SUM"),
    "one": (Growth(1, 5, 1), 4, "SUM"),
    "targets": (Growth(6, 4, 5, targets=3, rows=9), 3, "SUM"),
    "targets_mean": (Growth(6, 4, 5, targets=2), 3, "AVERAGE"),
    "many_targets": (Growth(6, 4, 5, targets=11, rows=9), 2, "AVERAGE"),
    "targets_in_parts": (Growth(10, 5, 6, targets=3, rows=9, full=True), 2, "SUM"),
    "mean": (Growth(7, 4, 5), 3, "AVERAGE"),
    "least": (Growth(7, 4, 5), 3, "MIN"),
    "most_targets": (Growth(7, 4, 5, targets=3), 3, "MAX"),
    "missing": (Growth(10, 4, 5, kinds=EVERY), 4, "SUM"),
    "missing_strict": (Growth(8, 4, 5, kinds=EVERY, strict=True), 4, "SUM"),
    "many_columns": (Growth(4, 6, 300, kinds=EVERY), 2, "SUM"),
    "deep": (Growth(2, 14, 3), 3, "SUM"),
    "64_leaves": (Growth(10, 6, 8, full=True), 2, "SUM"),
}


def _add(name: str, growth: Growth, samples: int, aggregate: str) -> None:
    add_case(f"trees_{name}", lambda: forest_graph(growth, samples, aggregate))


for _name, _rest in _CASES.items():
    _add(_name, *_rest)
