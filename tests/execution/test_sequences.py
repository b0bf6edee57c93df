"""Samples of networks that run step by step: a sequence in place of steps with their states."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from cannery.errors import OptionError
from cannery.execution import sequences
from cannery.execution.sequences import (
    each_sample,
    input_samples,
    input_steps,
    join_calls,
    output_samples,
    silent_state,
)
from cannery.ir.evaluate import evaluate
from cannery.ir.graph import Calls, Graph, Node, Scale, State
from cannery.ir.tensor import DType, TensorType
from cannery.ops.elementwise import Add

STEPS = 6
X = np.arange(2 * STEPS, dtype=np.float32).reshape(1, STEPS, 2)


def running_sum() -> Graph:
    """What a step returns is added to the next input; it begins with (1, 1)."""
    type_ = TensorType((1, 1, 2))
    return Graph(
        name="sum", constants={}, nodes=(Node(Add(), "y", ("x", "h"), ("y",)),),
        inputs=("x", "h"), outputs=("y",),
        types={"x": type_, "h": type_, "y": type_},
        states=(State("h", "y", (1.0, 1.0)),), calls=Calls(),
    )  # fmt: skip


@pytest.mark.parametrize("x", [X, X.reshape(STEPS, 1, 2)], ids=["sequence", "steps"])
def test_the_references_compute_states_that_are_not_given(x: NDArray[np.float32]) -> None:
    samples = input_samples(running_sum(), {"x": x})
    assert [sample["x"].tolist() for sample in samples] == [[[row]] for row in X[0].tolist()]
    before = [1 + X[0, :k].sum(axis=0) for k in range(STEPS)]
    assert np.array_equal(np.concatenate([s["h"][0] for s in samples]), before)
    assert [s.keys() for s in input_steps(running_sum(), {"x": x})] == [{"x"}] * STEPS


def test_a_sequence_after_silence() -> None:
    """Integers with a scale are silent at their zero point; what does not change any more, or has
    been computed for the calls of a prewarm, is the state before the first step.
    """
    type_ = TensorType((1, 1, 2), DType.INT32)
    graph = replace(
        running_sum(), types=dict.fromkeys("xhy", type_), scales={"x": Scale(0.5, -3)},
        calls=Calls(settled=5),
    )  # fmt: skip
    assert graph.prewarm_calls == 5
    assert silent_state(graph)["h"].tolist() == [[[-14, -14]]]
    first, *_ = each_sample(graph, [{"x": np.ones((1, 1, 2), np.int32)}] * 2, prewarm=True)
    assert first["h"].tolist() == [[[-14, -14]]]


def test_silence_ends_where_nothing_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    monkeypatch.setattr(sequences, "evaluate", lambda g, x: calls.append(1) or evaluate(g, x))
    graph = replace(running_sum(), calls=Calls(lasting=True, settled=8, periods={"y": 2}))
    assert graph.prewarm_calls == 4104
    assert silent_state(graph)["h"].tolist() == [[[1.0, 1.0]]]
    assert len(calls) == 2


def test_states_that_are_given_stay() -> None:
    given = {"x": X.reshape(STEPS, 1, 2), "h": np.zeros((STEPS, 1, 2), np.float32)}
    assert not any(sample["h"].any() for sample in input_samples(running_sum(), given))


@pytest.mark.parametrize(
    "given",
    [{"x": X[:, :, :1]}, {"x": X[0]}, {"x": X, "h": X[:, :1]}, {"x": X[:, :0]}, {}],
    ids=["width", "rank", "one state", "no steps", "nothing"],
)
def test_what_is_no_sequence(given: Mapping[str, NDArray[np.float32]]) -> None:
    with pytest.raises(OptionError, match=r"is needed|no array"):
        input_samples(running_sum(), given)


def larger_sum(steps: int) -> Graph:
    """The same for calls of several steps, with the last output alone as well."""
    graph, type_ = running_sum(), TensorType((1, steps, 2))
    types = {**graph.types, "x": type_, "y": type_, "last": TensorType((1, 2))}
    return replace(graph, types=types, calls=Calls(steps))


def test_calls_are_joined_to_larger_ones() -> None:
    """A value without steps is that of the last call; what fills no call is left out."""
    small, large = larger_sum(1), larger_sum(4)
    calls = [{"x": X[:, k : k + 1], "last": X[:, k]} for k in range(STEPS)]
    (found,) = join_calls(calls, small, large)
    assert np.array_equal(found["x"], X[:, :4])
    assert np.array_equal(found["last"], X[:, 3])
    with pytest.raises(OptionError, match="too few steps for a call of 4"):
        join_calls(calls[:3], small, large)


def test_an_error_names_the_axis_of_time() -> None:
    graph = replace(running_sum(), notes=("time is axis 1 of 'x'",))
    with pytest.raises(OptionError, match=r"one sequence are a multiple of it along axis 1 of 'x'"):
        input_samples(graph, {"x": X[0]})


def test_several_sequences_are_to_be_joined() -> None:
    with pytest.raises(OptionError, match=r"3 sequences of shape \(1, 6, 2\), .*join .* axis 1"):
        input_samples(running_sum(), {"x": np.concatenate([X] * 3)})


def test_expected_outputs_need_no_states() -> None:
    graph = Graph(
        name="both", constants={},
        nodes=(Node(Add(), "z", ("x", "x"), ("z",)), *running_sum().nodes),
        inputs=("x", "h"), outputs=("z", "y"),
        types={name: TensorType((1, 1, 2)) for name in "xhyz"},
        states=running_sum().states, calls=Calls(),
    )  # fmt: skip
    assert [y.keys() for y in output_samples(graph, {"z": X})] == [{"z"}] * STEPS
    with pytest.raises(OptionError, match="no array 'z'"):
        output_samples(graph, {"y": X})
