"""Streaming models of microWakeWord's kind have the bits of LiteRT's reference kernels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

import cannery
from cannery.errors import CanneryError
from cannery.frontends import load_graph
from cannery.ir.evaluate import evaluate
from frontends.wake_word_networks import FOLDER, GOLDEN, STEPS, STRIDE
from needs import need_program

STEP_FILE, WHOLE = FOLDER / "steps.tflite", FOLDER / "whole.tflite"


@pytest.mark.parametrize("isa", ["generic", "avx2"])
def test_variables_are_the_state(isa: str) -> None:
    """Each call brings as many rows as the first layer's stride."""
    need_program("gcc")
    golden = np.load(GOLDEN)
    net = cannery.load(STEP_FILE, isa=isa)
    state = net.new_state()
    made = [net.step(state, x) for x in golden["steps/x"]]
    np.testing.assert_array_equal(np.stack(made), golden["steps/y"])
    assert len(made) == STEPS and len(np.unique(made)) > 10


@pytest.mark.parametrize("isa", ["generic", "avx2"])
@pytest.mark.parametrize("block", [(1,), (STRIDE, 4 * STRIDE)])
def test_the_network_for_sequences_streams(isa: str, block: Sequence[int]) -> None:
    """Its first output belongs to the row with which its first window is full."""
    need_program("gcc")
    golden = np.load(GOLDEN)
    x, right = golden["whole/x"][0], golden["whole/y"][0]
    np.testing.assert_array_equal(evaluate(load_graph(WHOLE), {"x": x})["output_0"], right)
    np.testing.assert_array_equal(cannery.load(WHOLE, isa=isa)(x), right)
    net = cannery.load(WHOLE, isa=isa, streaming=True, latency="auto", block=block)
    state, size = net.new_state(), max(block)
    made = [net.step(state, x[:, at : at + size]) for at in range(0, 60, size)]
    found = np.concatenate([np.asarray(y) for y in made if y is not None], 1)
    before = (net.calls_per_output - net.first_output_call) * min(block)
    first, rest = divmod(net.latency + before, STRIDE)
    assert rest == 0
    count = min(right.shape[1], found.shape[1] - first)
    assert count > 3
    np.testing.assert_array_equal(found[:, first : first + count], right[:, :count])


def test_a_network_that_keeps_its_past_needs_no_streaming() -> None:
    with pytest.raises(CanneryError, match="it keeps states of its own: leave out --streaming"):
        cannery.load(STEP_FILE, streaming=True)
