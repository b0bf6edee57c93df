"""The order in which the stages of a depth-first chain run, and the rows that this keeps.

The last stage asks for its next rows. A stage whose input rows are not all there asks the stage
that makes them; one that ran gives the word back to the last. So no row exists before it is needed,
and a row is dropped when no reader's next window begins at it or above. The generated code follows
the same rule, so the rows kept here are all that it ever keeps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cannery.ops.chains.sliced import Window


@dataclass(frozen=True)
class Stage:
    """Makes `rows` rows at a time of a value that has `height` of them.

    `sources` are the stages whose rows it reads, with the window; values from outside the chain are
    not listed.
    """

    height: int
    rows: int
    sources: tuple[tuple[int, Window], ...]


def readers(stages: Sequence[Stage]) -> list[list[tuple[int, Window]]]:
    """The stages that read each stage's rows, with their windows."""
    found: list[list[tuple[int, Window]]] = [[] for _ in stages]
    for number, stage in enumerate(stages):
        for source, window in stage.sources:
            found[source].append((number, window))
    return found


def kept_rows(stages: Sequence[Stage]) -> list[int]:
    """The most rows of each stage that are kept at once; of the last one those that it makes."""
    last, reading = len(stages) - 1, readers(stages)
    made = [0] * len(stages)
    kept = [stage.rows for stage in stages]
    while made[last] < stages[last].height:
        number = _runnable(stages, made)
        rows = stages[number].rows if made[number] < stages[number].height else 1
        starts = [window.first(made[reader]) for reader, window in reading[number]]
        low = min([made[number], *starts])
        kept[number] = max(kept[number], made[number] + rows - low)
        made[number] += rows
    return kept


def _runnable(stages: Sequence[Stage], made: Sequence[int]) -> int:
    """The stage that runs next: from the last one back to one whose input rows are there."""
    number = len(stages) - 1
    while made[number] < stages[number].height:
        stage = stages[number]
        missing = (
            source
            for source, window in stage.sources
            if made[source] < window.first(made[number]) + window.rows(stage.rows)
        )
        source = next(missing, None)
        if source is None:
            break
        number = source
    return number
