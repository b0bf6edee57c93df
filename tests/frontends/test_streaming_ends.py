"""What takes all steps of a sequence is that of the last steps, call by call, or an error."""

from __future__ import annotations

import numpy as np
import pytest

from cannery.errors import UnsupportedError
from cannery.frontends.streaming import AUTO, to_streaming
from cannery.ir.evaluate import evaluate
from cannery.ops.average_pool.op import AveragePool
from cannery.ops.conv_transpose.op import ConvTranspose
from cannery.ops.elementwise import Sigmoid, Tanh
from cannery.ops.matmul.op import MatMul
from cannery.ops.movement.op import Pad, Reshape, Slice
from cannery.ops.normalization.op import GroupNormalization, LayerNormalization
from cannery.ops.ordering.cumulative import CumProd, CumSum
from cannery.ops.recurrent.op import Gru
from cannery.ops.reduce.op import ReduceMean
from cannery.ops.resize.op import Resize
from frontends.causal_builds import Build, chain, conv, network, node
from frontends.causal_nets import STEPS, call_by_call, compare
from ops.cases import Net


def test_means_over_all_are_those_of_the_last_steps() -> None:
    """As many as the model has; before them there are zeros."""
    graph = network(node(ReduceMean((1,))), 4)
    x = np.random.default_rng(1).standard_normal((1, 10, 3))
    found = [call[0] for call in call_by_call(to_streaming(graph), x, 1)[0]]
    padded = np.concatenate([np.zeros((1, 3, 3)), x], 1)[0]
    right = [padded[t : t + 4].mean(0) for t in range(10)]
    np.testing.assert_allclose(found, right, atol=1e-6)


def test_what_takes_all_steps_takes_padding_before_them() -> None:
    """The padding is known from the first call on."""
    pad = node(Pad(((0, 0), (2, 0), (0, 0)), 0.5))
    for end in (
        node(ReduceMean((1,))),
        node(Slice((0, STEPS + 1, 0), (1, STEPS + 2, 3), (1, 1, 1))),
    ):
        for block in (1, 4):
            assert compare(network(chain(conv(2, 0), pad, node(Tanh()), end)), block, 0) > 0


def last_state(b: Net, x: str) -> str:
    """Of a GRU, after the whole sequence."""
    p = b.node(MatMul(), [x, b.weight(3, 6)])
    layer = Gru(2, ((Sigmoid(),), (Tanh(),)), (False,), returns=("hidden",))
    return b.nodes(layer, [p, b.weight(1, 2, 6), "", ""], name="gru")[0]


def last_step(b: Net, x: str) -> str:
    length = b.types[x].shape[1]
    return b.node(Slice((0, length - 1, 0), (1, length, 3), (1, 1, 1)), [x])


ENDS = (node(ReduceMean((1,))), last_step, last_state)


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize(
    ("build", "message"),
    [
        (node(Pad(((0, 0), (0, 2), (0, 0)))), "ends 2 elements after the last input"),
        (lambda b, x: b.node(ConvTranspose((2,), ((0, 0),), (1,), (0,)), [x, b.weight(3, 3, 3)]),
         "ends 1 elements after the last input"),
        (node(Slice((0, 0, 0), (1, STEPS - 3, 3), (1, 1, 1))), "ends 3 elements before the last"),
        (chain(conv(1, 1), node(Slice((0, 0, 0), (1, STEPS - 3, 3), (1, 1, 1)))),
         "ends 2 elements before the last"),
    ],
)  # fmt: skip
def test_sequences_that_do_not_end_with_the_input(build: Build, message: str, end: Build) -> None:
    """What is of all of them is not known when the last input comes, or was known before."""
    with pytest.raises(UnsupportedError, match=message):
        to_streaming(network(chain(conv(2, 0), build, end)), latency=AUTO)


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize(
    "build", [conv(0, 0), node(Slice((0, 3, 0), (1, STEPS, 3), (1, 1, 1))), conv(0, 0, stride=2)]
)
def test_sequences_that_begin_later_end_with_the_input(build: Build, end: Build) -> None:
    """What is of all of them is not late, though the first steps have no elements."""
    assert compare(network(chain(conv(2, 0), build, end)), 1, 0) > 0


@pytest.mark.parametrize(
    "build",
    [
        chain(node(Reshape((1, 12))), lambda b, x: b.node(MatMul(), [x, b.weight(12, 2)])),
        node(AveragePool((4,), (1,), ((0, 0),), (1,))),
        conv(0, 0, taps=4),
        node(Slice((0, 2, 0), (1, 4, 3), (1, 1, 1))),
    ],
)
def test_what_takes_all_steps_slides(build: Build) -> None:
    """After any call it is what the whole network makes of the last four steps."""
    graph = network(build, 4)
    x = np.random.default_rng(1).standard_normal((1, 8, 3))
    sees_less = graph.types[graph.outputs[0]].shape == (1, 2, 3)
    for block in (1,) if sees_less else (1, 2):
        found = call_by_call(to_streaming(graph, block), x, block)[0]
        for end in range(4, 9, block):
            whole = evaluate(graph, {"x": x[:, end - 4 : end]})[graph.outputs[0]]
            np.testing.assert_allclose(found[end // block - 1], whole, atol=1e-6)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (node(LayerNormalization((1,), 1e-3)), "mean and variance are those of all steps"),
        (node(LayerNormalization((1, 2), 1e-3)), "mean and variance are those of all"),
        (node(GroupNormalization(3, 2, 1e-3)), "mean and variance are those of all steps"),
        (node(CumProd(1)), "works along time"),
        (
            chain(
                node(Reshape((STEPS, 1, 3))),
                lambda b, x: b.node(MatMul(), [x, b.weight(STEPS, 3, 2)]),
            ),
            "each step with other weights",
        ),
        (node(Slice((0, STEPS - 1, 0), (1, -1, 3), (1, -1, 1))), "turns time around"),
        (node(Slice((0, 4, 0), (1, 9, 3), (1, 1, 1))), "some of the steps,"),
        (
            node(Slice((0, 4, 0), (1, 5, 3), (1, 1, 1))),
            "some of the steps: step 4 alone, as a loop",
        ),
        (node(Pad(((0, 0), (2, 0), (0, 0)), mode="reflect")), "values of later steps"),
        (node(CumSum(1, reverse=True)), "sums from the end"),
        (node(Resize("linear", (2 * STEPS,), "align_corners")), "between steps"),
        (node(Resize("linear", (STEPS * 2 // 3,), "half_pixel")), "between steps"),
        (node(Resize("nearest", (STEPS // 2,), "align_corners")), "between steps"),
    ],
)
def test_what_needs_the_whole_sequence(build: Build, message: str) -> None:
    with pytest.raises(UnsupportedError, match=message) as caught:
        to_streaming(network(chain(conv(2, 0), build)))
    assert caught.value.where.startswith("layer ")
