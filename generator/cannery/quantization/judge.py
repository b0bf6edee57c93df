"""Samples that judge what rounding costs a network, with its outputs as they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np

from cannery.execution.samples import seeded_samples
from cannery.execution.sequences import input_samples
from cannery.ir.evaluate import evaluate
from cannery.ir.graph import Graph
from cannery.ir.registry import RefArray
from cannery.ir.stimulus import reference_cost

#: Samples that judge networks whose references cost less than CHEAP, and others.
SAMPLES, FEW, CHEAP = 16, 2, 40_000_000

J = TypeVar("J", bound="Judge")


@dataclass(frozen=True)
class Judge:
    """See the module docstring."""

    graph: Graph
    samples: Sequence[Mapping[str, RefArray]]
    expected: Sequence[Mapping[str, RefArray]]

    @classmethod
    def of(cls: type[J], graph: Graph, file: Path | None) -> J:
        """The judge of a network by the inputs in a .npz file, or by seeded ones."""
        count = SAMPLES if reference_cost(graph) < CHEAP else FEW
        found = input_samples(graph, file) if file else seeded_samples(graph, count)
        with np.errstate(all="ignore"):
            return cls(graph, found, [evaluate(graph, sample) for sample in found])
