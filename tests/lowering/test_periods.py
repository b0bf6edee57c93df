"""Which calls need a step, in networks with strides that run in short calls."""

from __future__ import annotations

from cannery.frontends.streaming import to_streaming
from cannery.lowering.periods import step_periods
from cannery.ops.conv.op import Conv
from cannery.ops.elementwise import Tanh
from lowering.test_rings import program
from ops.cases import Net


def test_steps_run_as_seldom_as_what_needs_them() -> None:
    """A layer of each rate: one in each call, then one in two, then one in four."""
    b = Net()
    x = b.input("x", (1, 32, 4))
    for stride in (1, 2, 2):
        op = Conv((stride,), ((4, 0),), (2,))
        x = b.node(Tanh(), [b.node(op, [x, b.weight(3, 4, 4)])])
    whole = b.graph(x)
    made = program(to_streaming(whole))
    periods = {
        node.name: period for step, period in zip(made.steps, step_periods(made), strict=True)
        for node in step.step.nodes
    }  # fmt: skip
    assert [periods[name] for name in ("conv", "tanh", "conv.1", "conv.2")] == [1, 1, 2, 4]
    assert (periods["x/past/next"], periods["tanh.1/past/next"]) == (1, 2)
    assert set(step_periods(program(to_streaming(whole, 4)))) == {1}
