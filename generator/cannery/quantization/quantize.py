"""Turns a float graph and samples into an integer graph whose loss is known and bounded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from cannery.errors import OptionError
from cannery.execution.samples import errors_by_output
from cannery.ir.evaluate import evaluate
from cannery.ir.graph import Graph, Quantization
from cannery.ir.tensor import DType
from cannery.ir.verify import verify
from cannery.quantization.calibration import observe
from cannery.quantization.flow import pasts_of
from cannery.quantization.pasts import integer_states
from cannery.quantization.ranges import Ranges
from cannery.quantization.rewrite import rewrite


def quantize(
    graph: Graph, dtype: DType, calibration: Path, max_loss: float, *, raw: bool = False,
    ranges: Sequence[tuple[int, float]] | None = None,
) -> Graph:  # fmt: skip
    """The graph with integer layers; `Graph.quantization` says what that costs and saves.

    `raw`: inputs are quantised before they are moved, and outputs are floats made of integers.
    `ranges` are those of an earlier network with the same layers, whose scales are kept.

    Raises OptionError for samples that do not fit, if no layer can be quantised, and if an output
    of any sample is off by more than `max_loss`, relative to the largest of all samples; the past
    of a value is as little an output as the value is.
    """
    seen = observe(graph, calibration)
    rewritten = rewrite(graph, seen, dtype, Ranges(ranges), raw=raw)
    made = rewritten.graph
    verify(made, after="quantize")
    if not rewritten.layers:
        raise OptionError(
            "no layer of the network has an integer form", where="--quantize",
            cure="leave it out; dense layers, convolutions and recurrent layers have integer forms",
        )  # fmt: skip
    with np.errstate(all="ignore"):
        found = [
            {name: value for name, value in evaluate(made, sample).items() if name in due}
            for sample, due in zip(seen.samples, seen.outputs, strict=True)
        ]
    losses, pasts = errors_by_output(found, seen.outputs), pasts_of(graph)
    better = "" if dtype is DType.INT16 else "int16 or "
    for name, loss in losses.items():
        if name not in pasts and not loss <= max_loss:
            raise OptionError(
                f"output {name!r} loses {loss:.3g} as {dtype.value}, more than --max-loss "
                f"{max_loss:g}", where="--quantize",
                cure=f"allow more, or take {better}samples like those in training",
            )  # fmt: skip
    facts = Quantization(
        dtype, len(seen.samples), tuple(losses.items()), rewritten.layers,
        _weight_bytes(graph), _weight_bytes(made), rewritten.floats,
        rewritten.ranges,
    )  # fmt: skip
    made = integer_states(made, pasts)
    return replace(made, quantization=facts, files=(*made.files, calibration))


def _weight_bytes(graph: Graph) -> int:
    return sum(int(array.nbytes) for array in graph.constants.values())
