"""Several sequences side by side give what each of them does alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cannery.errors import CanneryError
from cannery.frontends.streaming import AUTO, side_by_side, to_streaming
from cannery.ir.evaluate import evaluate
from cannery.ir.verify import verify
from cannery.ops.conv.op import Conv
from cannery.ops.elementwise import Add, Tanh
from cannery.ops.movement.op import Pad
from cannery.ops.ordering.cumulative import CumSum
from cannery.ops.recurrent.base import Recurrent
from cannery.options import make_options
from cannery.passes import run_passes
from cannery.pipeline import import_graph
from emit.stepping_models import causal
from frontends.causal_nets import STEPS, Maker, VoiceMaker, compare, sequence
from frontends.keras_files import write_h5
from ops.cases import Net


class ThreeMaker(Maker):
    """Three sequences as a batch."""

    batch = VoiceMaker.batch


@pytest.mark.parametrize("block", [1, 4])
def test_random_networks(block: int) -> None:
    right = 0
    for seed in range(60):
        try:
            alone, graph = Maker(seed, ahead=True).graph(), ThreeMaker(seed, ahead=True).graph()
        except CanneryError:
            continue  # branches of different lengths
        beside = side_by_side(graph)
        verify(beside, after="side_by_side")
        x = sequence(graph)
        found = evaluate(beside, {"x": x})
        for name in graph.outputs:
            each = [np.asarray(evaluate(alone, {"x": part})[name]) for part in np.split(x, 3)]
            np.testing.assert_allclose(found[name], np.concatenate(each), atol=1e-6)
        assert compare(beside, block, AUTO) > 0
        right += 1
    assert right > 40


def test_layers_in_a_row_stay_rows() -> None:
    """A step of them moves nothing between two windows; each past is one piece of memory."""
    b = Net()
    x = b.input("x", (4, STEPS, 3))
    for _ in range(3):
        y = b.node(Tanh(), [b.node(Conv((1,), ((2, 0),), (1,)), [x, b.weight(3, 3, 3)])])
        x = b.node(Add(), [x, y])
    x = b.node(Add(), [x, b.constant("bias", np.ones((1, 1, 3), np.float32))])
    calls = run_passes(to_streaming(side_by_side(b.graph(x))))
    assert [calls.types[s.input].shape for s in calls.states] == [(1, 2, 4, 3)] * 3
    kinds = [n.op.kind for n in calls.nodes if n.op.kind not in ("Slice", "Concat", "Identity")]
    assert kinds.count("Transpose") == 2, "at the beginning and at the end"


@pytest.mark.parametrize("between", [False, True])
def test_copies_of_the_first_step_before_a_window(*, between: bool) -> None:
    """The window takes them, whatever was before the padding."""
    b = Net()
    x = b.node(CumSum(1), [b.input("x", (4, STEPS, 3))])
    x = b.node(Pad(((0, 0), (2, 0), (0, 0)), 0.0, "edge"), [x])
    x = b.node(Tanh(), [x]) if between else x
    x = b.node(Conv((1,), ((0, 0),), (1,)), [x, b.weight(3, 3, 3)])
    assert compare(side_by_side(b.graph(x)), 1, AUTO) > 0


def test_one_sequence_and_recurrent_layers_stay_as_they_are() -> None:
    seeds = range(200)
    graph = next(
        g for g in (ThreeMaker(s, ahead=False).graph() for s in seeds)
        if any(isinstance(n.op, Recurrent) for n in g.nodes)
    )  # fmt: skip
    layers = [n for n in graph.nodes if isinstance(n.op, Recurrent)]
    assert [n for n in side_by_side(graph).nodes if isinstance(n.op, Recurrent)] == layers
    alone = Maker(3, ahead=False).graph()
    assert side_by_side(alone).nodes == alone.nodes


@pytest.mark.parametrize(("many", "told"), [(1, False), (4, True)])
def test_many_names_what_steps_several_sequences(tmp_path: Path, many: int, *, told: bool) -> None:
    file = write_h5(tmp_path / "net.h5", causal(STEPS))
    graph = import_graph(make_options(file, {"streaming": True, "many": many, "isa": "sse2"}))
    found = any("net_run_many takes whole states" in note for note in graph.notes)
    assert found == told
