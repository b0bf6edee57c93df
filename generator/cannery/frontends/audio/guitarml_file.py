"""GuitarML's JSON (Proteus, NeuralPi, AIDA-X's trainer): recurrent layers with PyTorch's weights.

The network is `SimpleRNN` of Wright's trainer: LSTM or GRU, a dense layer, and maybe some of the
inputs added to the output.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from cannery.errors import ModelError, UnsupportedError, one_of
from cannery.frontends.audio.samples import F32, SampleNet, float_numbers
from cannery.frontends.json_values import OBJECT_START, Fields, read_object
from cannery.frontends.metadata import make_metadata
from cannery.frontends.options import ImportOptions
from cannery.ir.graph import Graph
from cannery.ir.numeric import F64, f64
from cannery.ops.elementwise.binary import Add

FORMAT = "GuitarML (.json)"

_KEY = re.compile(rb'"model_data"\s*:\s*\{')

#: PyTorch's gates in the order of the operators: i, f, g, o and r, z, n.
_GATES = {"LSTM": (0, 3, 1, 2), "GRU": (1, 0, 2)}


def recognises(head: bytes) -> bool:
    """Whether a file that begins with `head` is JSON with the sizes of a recurrent network."""
    return bool(re.match(OBJECT_START, head) and _KEY.search(head))


def load(path: Path, options: ImportOptions) -> Graph:
    """The graph of a model; see `cannery.frontends.load_graph`."""
    fields = Fields(read_object(path), "")
    sizes, state = fields.inner("model_data"), fields.inner("state_dict")
    fields.check_all_read()
    if sizes.word("model") != "SimpleRNN":
        what = f"the model {sizes.word('model')!r} is not supported"
        raise UnsupportedError(what, where=sizes.where, cure="one of: SimpleRNN")
    unit = sizes.word("unit_type")
    if unit not in _GATES:
        cure = one_of(unit, _GATES)
        raise UnsupportedError(f"unit_type {unit!r} is not supported", where=sizes.where, cure=cure)
    net = SampleNet("SimpleRNN", options, (sizes.integer("input_size"),), steps=None)
    y = _recurrent(net, sizes, state, unit)
    y = _skipped(net, y, sizes.integer("skip", 0, minimum=0), sizes)
    sizes.check_all_read()
    state.check_all_read()
    return replace(net.finish(y, ()), metadata=make_metadata([("format", "GuitarML")]))


def _recurrent(net: SampleNet, sizes: Fields, state: Fields, unit: str) -> str:
    """The layers, and the dense one after them."""
    cells, outputs = sizes.integer("hidden_size"), sizes.integer("output_size")
    x = net.x
    for k in range(sizes.integer("num_layers")):
        weights = _layer_weights(state, k, net.channels(x), cells, unit)
        add = net.lstm if unit == "LSTM" else net.gru
        x = add(x, weights, f"rec{k}")
    weight = _array(state, "lin.weight", outputs, cells)
    bias = _array(state, "lin.bias", outputs) if sizes.flag("bias_fl") else None
    return net.dense(x, np.ascontiguousarray(weight.T), bias, "lin")


def _layer_weights(
    state: Fields, layer: int, inputs: int, cells: int, unit: str
) -> Mapping[str, F64]:
    """Of one layer: w[IC,G*H], b[G*H], r[H,G*H], and q[H] of a GRU."""
    order = _GATES[unit]

    def gates(name: str, *rest: int) -> F64:
        found = _array(state, f"rec.{name}_l{layer}", len(order) * cells, *rest)
        return f64(found).reshape(len(order), cells, *rest)[list(order)]

    def product(name: str, given: int) -> F64:
        return np.ascontiguousarray(gates(name, given).reshape(-1, given).T)

    known = {"w": product("weight_ih", inputs), "r": product("weight_hh", cells)}
    bias, recurrent = gates("bias_ih"), gates("bias_hh")
    if unit == "GRU":  # the reset gate also scales the recurrent bias of the candidate
        known["q"] = recurrent[2]
        recurrent = np.concatenate([recurrent[:2], np.zeros((1, cells))])
    return {**known, "b": (bias + recurrent).reshape(-1)}


def _array(state: Fields, key: str, *shape: int) -> F32:
    """A weight of PyTorch."""
    found = float_numbers(state.items(key), f"{state.where}, {key}")
    if found.shape != shape:
        what = f"{key} has the shape {list(found.shape)}, expected {list(shape)}"
        raise ModelError(what, where=state.where)
    return found


def _skipped(net: SampleNet, y: str, skip: int, sizes: Fields) -> str:
    """The first inputs, as many as the model adds to its outputs."""
    if not skip:
        return y
    if skip > net.channels(net.x) or skip != net.channels(y):
        what = f"skip is {skip}, with {net.channels(net.x)} inputs and {net.channels(y)} outputs"
        raise ModelError(what, where=sizes.where)
    first = net.part(net.x, 0, skip, "skip/first") if skip < net.channels(net.x) else net.x
    return net.node(Add(), [y, first], "skip")
