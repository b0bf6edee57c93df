"""Random numbers: every target has to compute those of the reference, to the last bit."""

from __future__ import annotations

from functools import partial

from cannery.ir.graph import Graph
from cannery.ir.registry import Op
from cannery.ops.elementwise.binary import Mul
from cannery.ops.random.op import STATE, DrawNormal, DrawUniform, NextDraw
from ops.cases import Net, add_case


def drawn(op: Op) -> Graph:
    """One node on a state."""
    net = Net()
    return net.graph(net.node(op, [net.input("state", STATE.shape, STATE.dtype)]))


def drawn_and_used() -> Graph:
    """Numbers that scale others, from a state that goes on."""
    net = Net()
    x, state = net.input("x", (2, 5)), net.input("state", STATE.shape, STATE.dtype)
    noise = net.node(DrawNormal((2, 5)), [net.node(NextDraw(), [state])])
    return net.graph(net.node(Mul(), [x, noise]))


for _kind in (DrawUniform, DrawNormal):
    for _shape in ((), (1, 4), (3, 7), (2, 3, 4), (1, 4099)):
        _name = f"{_kind.__name__.lower()}_{'x'.join(map(str, _shape)) or 'one'}"
        add_case(_name, partial(drawn, _kind(_shape, stream=len(_shape))), tolerance=0.0)
add_case("nextdraw", partial(drawn, NextDraw()), tolerance=0.0)
add_case("drawn_and_used", drawn_and_used, tolerance=0.0)
