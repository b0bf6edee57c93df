"""Recurrent layers: kinds, directions, states, lengths, first steps, peepholes, sizes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from cannery.ir.graph import Graph
from cannery.ops.elementwise import Add, Clip, HardSigmoid, Mul, Relu, Sigmoid, Softsign, Tanh
from cannery.ops.recurrent.base import Recurrent
from cannery.ops.recurrent.op import Gru, Lstm, Rnn
from ops.cases import Net, add_case

GATE, INPUT = (Sigmoid(),), (Tanh(),)
USUAL: Mapping[type[Recurrent], Any] = {
    Lstm: (GATE, INPUT, INPUT), Gru: (GATE, INPUT), Rnn: (INPUT,),
}  # fmt: skip

BOTH = {"reverse": (False, True)}
ALL = ("sequence", "hidden", "cell")

#: Kind, cells, steps, samples, initial states (i inputs, c constants, z none), attributes.
CASES: dict[str, tuple[type[Recurrent], int, int, int, str, dict[str, Any]]] = {
    "lstm": (Lstm, 19, 4, 1, "zz", {}),
    "lstm_tiny": (Lstm, 1, 3, 1, "zz", {}),
    "lstm_one_step": (Lstm, 6, 1, 2, "zz", {"returns": ALL}),
    "lstm_one_step_state": (Lstm, 20, 1, 1, "ii", {"returns": ALL}),
    "lstm_one_step_both": (
        Lstm, 9, 1, 2, "ii", {"peepholes": True, **BOTH, "returns": ("sequence", "cell")},
    ),
    "lstm_one_step_constant": (Lstm, 16, 1, 1, "ic", {"returns": ("sequence", "cell")}),
    "lstm_large": (Lstm, 53, 3, 1, "zz", {"returns": ("sequence", "cell")}),
    "lstm_both": (Lstm, 13, 3, 2, "zz", {**BOTH, "returns": ALL}),
    "lstm_peepholes": (Lstm, 11, 4, 1, "zz", {"peepholes": True, **BOTH}),
    "lstm_states": (
        Lstm, 9, 3, 2, "ci", {"peepholes": True, "clip": 0.4, "returns": ("hidden", "cell")},
    ),
    "lstm_cell_state": (Lstm, 5, 3, 1, "zc", {}),
    "lstm_coupled": (Lstm, 12, 4, 1, "zz", {"coupled": True, "peepholes": True}),
    "lstm_lengths": (Lstm, 8, 5, 3, "zz", {"lengths": (5, 2, 0), **BOTH, "returns": ALL}),
    "lstm_lengths_of_one": (Lstm, 7, 4, 1, "zz", {"lengths": (2,), **BOTH, "returns": ALL}),
    "rnn_lengths_of_one": (Rnn, 9, 3, 1, "z", {"lengths": (1,), "reverse": (True, False)}),
    "lstm_first": (Lstm, 9, 5, 2, "ic", {"peepholes": True, "first": 2.0, "returns": ALL}),
    "lstm_first_of_one": (Lstm, 20, 1, 1, "ii", {"first": 1.0, "returns": ALL}),
    "gru_first": (
        Gru, 7, 4, 1, "i",
        {"linear_before_reset": True, "bias": True, "first": 3.0, "returns": ("hidden",)},
    ),
    "rnn_first_after_all": (Rnn, 8, 3, 1, "z", {"first": 9.0, "returns": ("sequence", "hidden")}),
    "rnn_first_before_all": (Rnn, 8, 3, 1, "i", {"first": -9.0}),
    "lstm_functions": (
        Lstm, 10, 3, 1, "zz",
        {**BOTH, "activations": ((HardSigmoid(),), (), (Softsign(),), GATE, INPUT, INPUT)},
    ),
    "gru_functions": (
        Gru, 10, 3, 1, "z", {**BOTH, "activations": (GATE, (Relu(),), (HardSigmoid(),), INPUT)},
    ),
    "gru_after_functions": (
        Gru, 7, 3, 2, "z",
        {"linear_before_reset": True, "bias": True, "reverse": (True, False),
         "activations": ((HardSigmoid(),), INPUT, GATE, (Softsign(),))},
    ),
    "rnn_functions": (Rnn, 9, 3, 1, "z", {**BOTH, "activations": (INPUT, (Relu(),))}),
    "gru_large": (Gru, 62, 3, 1, "i", {"returns": ("sequence", "hidden")}),
    "gru_after": (Gru, 23, 4, 2, "z", {"linear_before_reset": True, "bias": True}),
    "gru_after_both": (
        Gru, 9, 3, 2, "i",
        {"linear_before_reset": True, "bias": True, **BOTH, "returns": ("hidden",)},
    ),
    "gru_after_plain": (Gru, 16, 3, 1, "z", {"linear_before_reset": True, "clip": 0.5}),
    "rnn_both": (Rnn, 34, 3, 1, "c", {**BOTH, "returns": ("sequence", "hidden")}),
    "rnn_relu": (
        Rnn, 21, 4, 2, "z",
        {"activations": ((Relu(), Clip(0.0, 2.0)),), "returns": ("hidden",), "reverse": (True,)},
    ),
    "rnn_large": (Rnn, 130, 3, 1, "z", {}),
}  # fmt: skip


def first_step(net: Net, first: float) -> str:
    """The number of the first step that exists, computed; a layer cuts its fraction off."""
    none = net.node(Mul(), [net.input("first", (1,)), net.constant("none", np.zeros(1))])
    return net.node(Add(), [none, net.constant("begin", np.full(1, first + 0.5))])


def recurrent_graph(
    kind: type[Recurrent], cells: int, steps: int, samples: int, states: str,
    attributes: Mapping[str, Any],
) -> Graph:  # fmt: skip
    """One recurrent layer over a projected input."""
    net = Net()
    given = dict(attributes)
    d = len(given.get("reverse", (False,)))
    others = {
        "peepholes": lambda: net.weight(d, 3 * cells), "bias": lambda: net.weight(d, cells),
    }  # fmt: skip
    inputs = [net.input("p", (samples, steps, d * kind.gates * cells))]
    inputs.append(net.weight(d, cells, kind.gates * cells))
    shape = (samples, d * cells)
    for number, state in enumerate(states):
        make = {"i": lambda k: net.input(f"s{k}", shape), "c": lambda k: net.weight(*shape)}
        inputs.append(make[state](number) if state in make else "")
    for name, make_other in others.items():
        if given.pop(name, False):
            inputs.append(make_other())
    if "first" in given:
        inputs += [""] * (2 + kind.states + kind.others - len(inputs))
        inputs.append(first_step(net, given.pop("first")))
    op = kind(cells, given.pop("activations", USUAL[kind] * d), **given)
    return net.graph(*net.nodes(op, inputs, name="layer"))


for _name, _case in CASES.items():
    add_case(f"recurrent_{_name}", partial(recurrent_graph, *_case))
