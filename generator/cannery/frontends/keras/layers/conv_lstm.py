"""LSTM layers whose products are convolutions, one step after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from cannery.errors import ModelError, UnsupportedError
from cannery.frontends.keras.config import LayerConfig
from cannery.frontends.keras.layers.base import KerasLayer, LayerPlan, Scope, layer_by_rank
from cannery.frontends.keras.layers.functions import Activation, read_activation, read_function
from cannery.frontends.keras.layers.window import check_rank, window_pads
from cannery.frontends.volumes import conv_3d
from cannery.ops.concat.op import Concat
from cannery.ops.conv.op import Conv
from cannery.ops.elementwise.binary import Add, Mul
from cannery.ops.movement.op import Reshape, Slice

#: The most steps: each has nodes of its own.
_MOST_STEPS = 64


@dataclass(frozen=True)
class _Cell:
    filters: int
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    padding: str
    bias: bool
    gate: Activation | None
    activation: Activation | None

    @property
    def ones(self) -> tuple[int, ...]:
        return (1,) * len(self.kernel)


@layer_by_rank("ConvLSTM{}D")
def conv_lstm(config: LayerConfig, rank: int) -> LayerPlan:
    """x[N,T,*S,C] -> h[N,*S',F] of the last step, or of all; maybe the states h and c."""
    config.ignore("dropout", "recurrent_dropout", "seed", "unit_forget_bias", "unroll")
    config.ignore("zero_output_for_mask", "time_major")
    cell = _Cell(
        config.integer("filters"), config.integers("kernel_size", rank),
        config.integers("strides", rank, (1,) * rank),
        config.integers("dilation_rate", rank, (1,) * rank),
        config.choice("padding", "valid", ("valid", "same")), config.flag("use_bias", True),
        _function(config, "recurrent_activation", "sigmoid"),
        _function(config, "activation", "tanh"),
    )  # fmt: skip
    first, backwards = config.channels_first(), config.flag("go_backwards", False)
    sequences, state = (config.flag(f"return_{word}", False) for word in ("sequences", "state"))

    def build(scope: Scope, inputs: Sequence[str]) -> str | list[str]:
        if not inputs:
            raise ModelError("has no inputs")
        x, *states = [
            _channels_last(scope, scope.to_float(v), first, rank, f"last{k}")
            for k, v in enumerate(inputs)
        ]
        check_rank(scope.shape(x)[2:-1], rank)
        found, states = _run(scope, cell, x, states, backwards)
        if sequences:
            n, *shape = scope.shape(found[0])
            parts = [scope.node(Reshape((n, 1, *shape)), [h], f"step{k}") for k, h in
                     enumerate(found)]  # fmt: skip
            y = scope.node(Concat(1), parts, "sequence" if first else "")
        else:
            y = found[-1]
        results = (y, *(states if state else []))
        y, *rest = [
            _channels_first(scope, v, first, rank, f"first{k}") for k, v in enumerate(results)
        ]
        return [y, *rest] if rest else y

    weights = ("kernel", "recurrent_kernel", *(("bias",) if cell.bias else ()))
    child = KerasLayer("cell", "ConvLSTMCell", config.trainable, LayerPlan(build, weights))
    stateful = config.flag("stateful", False)
    return LayerPlan(build, children={"cell": child}, stateful=stateful, unrolled=True)


def _function(config: LayerConfig, key: str, usual: str) -> Activation | None:
    found = read_activation(config, key) if config.has(key) else read_function(
        usual, config.version
    )  # fmt: skip
    if found is not None and (found.child is not None or not found.pointwise):
        raise UnsupportedError(f"{key} {found.label!r} inside a cell")
    return found


def _channels_last(scope: Scope, x: str, first: bool, rank: int, label: str) -> str:
    """[N,(T,)C,*S] as [N,(T,)*S,C]; a state has no steps."""
    at = scope.rank(x) - rank - 1
    order = (*range(at), *range(at + 1, at + 1 + rank), at)
    return scope.transposed(x, label, order) if first else x


def _channels_first(scope: Scope, x: str, first: bool, rank: int, label: str) -> str:
    """Undoes `_channels_last`."""
    at = scope.rank(x) - rank - 1
    order = (*range(at), at + rank, *range(at, at + rank))
    return scope.transposed(x, label, order) if first else x


def _run(
    scope: Scope, cell: _Cell, x: str, states: list[str], backwards: bool
) -> tuple[list[str], list[str]]:
    """The result of each step in the order in which they are computed, and the last states."""
    own = scope.under("cell", attribute="cell")
    n, steps, *space, channels = scope.shape(x)
    if steps > _MOST_STEPS:
        raise UnsupportedError(f"{steps} steps; at most {_MOST_STEPS} are supported")
    width = 4 * cell.filters
    kernel = own.stored("kernel", (*cell.kernel, channels, width))
    bias = [own.stored("bias", (width,))] if cell.bias else []
    pads = window_pads(cell.padding, tuple(space), cell.kernel, cell.strides, cell.dilations)
    images = scope.node(Reshape((n * steps, *space, channels)), [x], "images")
    every = _convolved(
        scope.under("inputs"), Conv(cell.strides, pads, cell.dilations), [images, kernel, *bias]
    )
    shape = scope.shape(every)[1:-1]
    every = scope.node(Reshape((n, steps, *shape, width)), [every], "projected")
    if states and len(states) != 2:
        raise ModelError(f"has {len(states)} initial states, expected 2")
    h, c = states or _zeros(scope, (n, *shape, cell.filters))
    found = []
    for k in range(steps):
        at = steps - 1 - k if backwards else k
        part = _part(scope, every, 1, at, at + 1, f"at{k}")
        part = scope.node(Reshape((n, *shape, width)), [part], f"x{k}")
        h, c = _step(scope.under(f"{k}"), own, cell, part, (h, c))
        found.append(h)
    return found, [h, c]


def _zeros(scope: Scope, shape: tuple[int, ...]) -> list[str]:
    return [scope.literal(name, np.zeros(shape, np.float32)) for name in ("h0", "c0")]


def _convolved(scope: Scope, op: Conv, operands: list[str]) -> str:
    x, kernel, *bias = operands
    return conv_3d(scope, op, x, kernel, bias) if len(op.strides) == 3 else scope.node(op, operands)


def _part(scope: Scope, x: str, axis: int, start: int, end: int, label: str) -> str:
    shape = scope.shape(x)
    starts = tuple(start if k == axis else 0 for k in range(len(shape)))
    ends = tuple(end if k == axis else d for k, d in enumerate(shape))
    return scope.node(Slice(starts, ends, (1,) * len(shape)), [x], label)


def _step(
    scope: Scope, own: Scope, cell: _Cell, x: str, states: tuple[str, str]
) -> tuple[str, str]:
    """The states after one step, from the inputs' share of the gates i, f, c, o."""
    h, c = states
    f = cell.filters
    pads = window_pads("same", scope.shape(h)[1:-1], cell.kernel, cell.ones, cell.ones)
    kernel = own.stored("recurrent_kernel", (*cell.kernel, f, 4 * f))
    back = _convolved(scope.under("back"), Conv(cell.ones, pads, cell.ones), [h, kernel])
    total = scope.node(Add(), [x, back], "gates")
    i, forget, new, out = (
        _part(scope, total, scope.rank(total) - 1, k * f, (k + 1) * f, name)
        for k, name in enumerate(("i", "f", "g", "o"))
    )
    gate, bend = _applied(scope, cell.gate), _applied(scope, cell.activation)
    kept = scope.node(Mul(), [gate(forget, "forget"), c], "kept")
    added = scope.node(Mul(), [gate(i, "input"), bend(new, "candidate")], "added")
    c = scope.node(Add(), [kept, added], "c")
    return scope.node(Mul(), [gate(out, "output"), bend(c, "result")], "h"), c


def _applied(scope: Scope, activation: Activation | None) -> Callable[[str, str], str]:
    if activation is None:
        return lambda x, label: x
    return lambda x, label: activation.apply(scope.under(label), x)
