"""Recurrent cells: their weights in the form that recurrent operators take, and their nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cannery.errors import ModelError, UnsupportedError
from cannery.frontends.json_values import mapping, text
from cannery.frontends.keras.config import LayerConfig
from cannery.frontends.keras.layers.base import KerasLayer, LayerPlan, Scope
from cannery.frontends.keras.layers.functions import chain_of, read_activation, read_function
from cannery.ir.numeric import F64, f64
from cannery.ops.concat.op import Concat
from cannery.ops.logic.compare import Where
from cannery.ops.matmul.op import MatMul
from cannery.ops.movement.op import Reshape, Slice
from cannery.ops.recurrent.base import Activation, Recurrent
from cannery.ops.recurrent.op import Gru, Lstm, Rnn

#: Gates of Keras in the order of the operators: Keras has i, f, c, o and z, r, h.
_GATES: dict[type[Recurrent], tuple[int, ...]] = {
    Lstm: (0, 3, 1, 2), Gru: (0, 1, 2), Rnn: (0,),
}  # fmt: skip

#: The most steps of a masked sequence.
_MOST_STEPS = 128

_PEEPHOLES = tuple(f"{gate}_gate_peephole_weights" for gate in ("input", "forget", "output"))


@dataclass(frozen=True)
class Cell:
    """One recurrent cell, as in Keras."""

    kind: type[Recurrent]
    units: int
    activations: tuple[Activation, ...]
    bias: bool
    reset_after: bool = False
    peepholes: bool = False

    @property
    def weights(self) -> tuple[str, ...]:
        """Its variables, in the order in which Keras makes them."""
        bias = ("bias",) if self.bias else ()
        return ("kernel", "recurrent_kernel", *bias, *(_PEEPHOLES if self.peepholes else ()))

    @property
    def states(self) -> int:
        """How many vectors of `units` pass from step to step."""
        return self.kind.states


def read_cell(config: LayerConfig, kind: type[Recurrent], *, peepholes: bool = False) -> Cell:
    """The cell that a config describes, be it of a cell or of a layer with one cell."""
    config.ignore("dropout", "recurrent_dropout", "seed", "unit_forget_bias")
    units, bias = config.integer("units"), config.flag("use_bias", True)
    usual = _activation(config, "activation", "tanh")
    if kind is Rnn:
        return Cell(kind, units, (usual,), bias)
    gate = _activation(config, "recurrent_activation", "sigmoid")
    if kind is Gru:
        return Cell(kind, units, (gate, usual), bias, config.flag("reset_after", False))
    return Cell(kind, units, (gate, usual, usual), bias, peepholes=peepholes)


def _activation(config: LayerConfig, key: str, usual: str) -> Activation:
    given = config.has(key)
    read = read_activation(config, key) if given else read_function(usual, config.version)
    return chain_of(read, key)


_CELLS: dict[str, type[Recurrent]] = {"LSTMCell": Lstm, "GRUCell": Gru, "SimpleRNNCell": Rnn}


def read_cells(config: LayerConfig, value: object) -> list[tuple[Cell, str]]:
    """The cells of an RNN layer, each with the attribute that holds it."""
    class_name, inner = _nested(config, value, "cell")
    if class_name != "StackedRNNCells":
        return [(_read_cell(class_name, inner), "cell")]
    cells = inner.raw("cells")
    if not isinstance(cells, list) or not cells:
        raise ModelError("cells are missing")
    counts: dict[str, int] = {}
    found = []
    for each in cells:
        name, one = _nested(config, each, "cell")
        stem = _snake_case(name)
        count = counts.get(stem, 0)
        counts[stem] = count + 1
        found.append((_read_cell(name, one), f"cell/cells/{stem}{f'_{count}' if count else ''}"))
    inner.check_all_read()
    return found


def _nested(owner: LayerConfig, value: object, what: str) -> tuple[str, LayerConfig]:
    """Class and config of a serialized object."""
    given = mapping(value, what)
    class_name = text(given.get("class_name"), f"the class of its {what}").split(">")[-1]
    values = mapping(given.get("config"), f"the config of its {what}")
    return class_name, LayerConfig(owner.name, class_name, values, owner.version)


def _read_cell(class_name: str, config: LayerConfig) -> Cell:
    peepholes = class_name == "PeepholeLSTMCell"
    kind = Lstm if peepholes else _CELLS.get(class_name)
    if kind is None:
        listed = ", ".join(_CELLS)
        raise UnsupportedError(f"cell {class_name!r} is not supported", cure=f"one of: {listed}")
    config.check_policy()
    cell = read_cell(config, kind, peepholes=peepholes)
    config.check_all_read()
    return cell


def _snake_case(class_name: str) -> str:
    """The names of a list's cells in archives."""
    return {"LSTMCell": "lstm_cell", "GRUCell": "gru_cell", "SimpleRNNCell": "simple_rnn_cell"}.get(
        class_name, "peephole_lstm_cell"
    )


def layer_of(cell: Cell, name: str, *, trainable: bool) -> KerasLayer:
    """A cell as a layer that is stored within another layer."""

    def build(scope: Scope, inputs: Sequence[str]) -> str:
        raise UnsupportedError("a cell is not a layer", cure="use it in the layer RNN")

    return KerasLayer(name, cell.kind.__name__, trainable, LayerPlan(build, cell.weights))


@dataclass(frozen=True)
class Direction:
    """A cell that runs over a sequence: the scope of its weights, and whether it starts at
    the end.
    """

    scope: Scope
    cell: Cell
    reverse: bool


def run_cells(
    scope: Scope, x: str, directions: Sequence[Direction], initial: Sequence[str], label: str = ""
) -> tuple[str, ...]:
    """One recurrent node for cells that differ only in weights, activations and directions.

    `initial` are the states [N,D*units], or none. Returns the sequence [N,T,D*units], in the order
    of the steps, and the states after the last one.
    """
    cell = directions[0].cell
    product, recurrent, rest = _parts(scope, x, directions, label)
    inputs = [product, recurrent, *(initial or [""] * cell.states), *rest]
    activations = tuple(a for d in directions for a in d.cell.activations)
    reverse = tuple(d.reverse for d in directions)
    return scope.nodes(_operator(cell, activations, reverse), inputs, label)


def _operator(
    cell: Cell, activations: tuple[Activation, ...], reverse: tuple[bool, ...]
) -> Recurrent:
    own: dict[str, Any] = {"linear_before_reset": cell.reset_after} if cell.kind is Gru else {}
    return cell.kind(cell.units, activations, reverse, returns=cell.kind.results, **own)


def _parts(
    scope: Scope, x: str, directions: Sequence[Direction], label: str
) -> tuple[str, str, list[str]]:
    """The product of all inputs, the recurrent weights, and what comes after the states."""
    parts = [_weights(d, scope.shape(x)[-1]) for d in directions]
    product = [x, _constant(scope, label, "w", [p["w"] for p in parts], axis=1)]
    if directions[0].cell.bias:
        product.append(_constant(scope, label, "b", [p["b"] for p in parts], axis=0))
    projected = scope.node(MatMul(), product, f"{label}/projected".lstrip("/"))
    recurrent = _constant(scope, label, "r", [p["r"][None] for p in parts], axis=0)
    if "q" not in parts[0]:
        return projected, recurrent, []
    return (
        projected,
        recurrent,
        [_constant(scope, label, "q", [p["q"][None] for p in parts], axis=0)],
    )


@dataclass(frozen=True)
class MaskedRun:
    """What a cell makes of a masked sequence [N,T,units]: its output after the last step that it
    ran, and its states.
    """

    sequence: str
    last: str
    states: tuple[str, ...]


def run_masked(
    scope: Scope, x: str, direction: Direction, mask: str, initial: Sequence[str], label: str
) -> MaskedRun:
    """A cell that keeps output and states where mask[N,T] is false: a node for each step."""
    n, steps, _ = scope.shape(x)
    if steps > _MOST_STEPS:
        raise UnsupportedError(
            f"it reads a mask over {steps} steps; at most {_MOST_STEPS} are supported",
            cure="build the network without Masking and mask_zero=True",
        )
    cell, prefix = direction.cell, f"{label}/" if label else ""
    product, recurrent, rest = _parts(scope, x, [direction], label)
    op = _operator(cell, cell.activations, (False,))
    zeros = scope.constant(f"{prefix}zeros", lambda: np.zeros((n, cell.units), np.float32))
    states, output, found = tuple(initial) or (zeros,) * cell.states, zeros, {}
    for k in reversed(range(steps)) if direction.reverse else range(steps):
        at = f"{prefix}step{k}"
        part = scope.node(_slice(scope.shape(product), k), [product], f"{at}/x")
        on = scope.node(_slice((n, steps), k), [mask], f"{at}/mask")
        _, *new = scope.nodes(op, [part, recurrent, *states, *rest], at)
        output = scope.node(Where(), [on, new[0], output], f"{at}/output")
        states = tuple(
            scope.node(Where(), [on, after, before], f"{at}/state{i}")
            for i, (after, before) in enumerate(zip(new, states, strict=True))
        )
        found[k] = scope.node(Reshape((n, 1, cell.units)), [output], f"{at}/y")
    ordered = [found[k] for k in range(steps)]
    sequence = scope.node(Concat(1), ordered, f"{prefix}sequence") if steps > 1 else ordered[0]
    return MaskedRun(sequence, output, states)


def _slice(shape: tuple[int, ...], step: int) -> Slice:
    """One step of [N,T,..]."""
    starts = (0, step, *(0 for _ in shape[2:]))
    return Slice(starts, (shape[0], step + 1, *shape[2:]), (1,) * len(shape))


def _constant(scope: Scope, label: str, name: str, parts: Sequence[F64], *, axis: int) -> str:
    return scope.constant(
        f"{label}/{name}".lstrip("/"), lambda: np.ascontiguousarray(np.concatenate(parts, axis))
    )


def _weights(direction: Direction, features: int) -> dict[str, F64]:
    """w[F,G*H], b[G*H], r[H,G*H] and the rest, gates in the order of the operator."""
    scope, cell = direction.scope, direction.cell
    h, gates = cell.units, cell.kind.gates
    columns = np.concatenate([np.arange(h) + gate * h for gate in _GATES[cell.kind]])
    found = {
        "w": f64(scope.weight("kernel", (features, gates * h)))[:, columns],
        "r": f64(scope.weight("recurrent_kernel", (h, gates * h)))[:, columns],
    }
    if cell.bias:
        shape = (2, gates * h) if cell.reset_after else (gates * h,)
        bias = f64(scope.weight("bias", shape))
        if cell.reset_after:
            # The reset gate also scales the recurrent bias of the candidate.
            found["q"] = bias[1, -h:]
            bias = bias[0] + np.concatenate([bias[1, :-h], np.zeros(h)])
        found["b"] = bias[columns]
    if cell.peepholes:
        i, f, o = (f64(scope.weight(name, (h,))) for name in _PEEPHOLES)
        found["q"] = np.concatenate([i, o, f])
    return found
