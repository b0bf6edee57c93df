"""Activations after a layer are in its step, however a file spells them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cannery.ir.parser import parse_graph
from cannery.lowering.lower import cut
from cannery.passes import run_passes
from cannery.passes.fuse_activations import fuse_activations

TEXTS = Path(__file__).parents[1] / "passes" / "texts" / "fuse_activations"

#: Those that are one function of their input x: their result is a graph of one node.
SPELT = sorted(
    path.stem
    for path in TEXTS.glob("*.txt")
    if path.read_text().partition("=>")[2].count(" = ") == 1
)

LAYER = """graph net
input image: float32[1x4x4x3]
const w: float32[1x1x3x3]
x = Conv(image, w) strides=(1, 1) pads=((0, 0), (0, 0)) dilations=(1, 1)
"""


def test_there_are_some() -> None:
    assert len(SPELT) >= 9


@pytest.mark.parametrize("name", SPELT)
def test_a_spelt_activation_joins_the_step_of_its_layer(name: str) -> None:
    written = (TEXTS / f"{name}.txt").read_text().partition("=>")[0]
    lines = [line for line in written.splitlines() if not line.startswith(("#", "graph", "input"))]
    graph = parse_graph(LAYER + "\n".join(lines), name)
    assert len(cut(graph)) > 1
    (step,) = cut(run_passes(graph))
    assert len(step.epilogue) == 1


def test_integer_layers_keep_the_operators_of_the_file() -> None:
    """Their bits are what the file says."""
    written = (TEXTS / "silu.txt").read_text().partition("=>")[0]
    graph = parse_graph(written, "silu")
    assert len(fuse_activations(graph).nodes) == 1
    integers = replace(graph, integer_layers=("another",))
    assert fuse_activations(integers) is integers
