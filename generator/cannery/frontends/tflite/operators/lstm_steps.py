"""LSTM layers step by step, as nodes of their own.

For layers that Cannery's recurrent operator does not cover: those with a projection of the hidden
state, normalised gates, clipping, or weights of int8. The formulas are those of LiteRT's
`lstm_eval.cc`; a gate's sum is normalised before its bias is added.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cannery.errors import ModelError, UnsupportedError
from cannery.frontends.tflite.operators.hybrid import product_of_rows, scales_of_weights
from cannery.frontends.tflite.operators.movement import part
from cannery.frontends.tflite.scope import MOST_NODES, Scope
from cannery.ir.graph import Array
from cannery.ops.concat.op import Concat
from cannery.ops.elementwise import Add, Clip, Mul, Sigmoid, Sub
from cannery.ops.matmul.op import MatMul
from cannery.ops.normalization.op import LayerNormalization

#: The gates, in the order of a file: input, forget, cell, output.
_INPUT, _FORGET, _CELL, _OUTPUT = range(4)

#: Where the inputs of a direction begin, counted from its first: weights of the input, of the
#: hidden state, peepholes (the cell's gate has none), biases, the projection and its bias.
_RECURRENT, _PEEPHOLES, _BIASES, _PROJECTION = 4, 8, 11, 15

#: How many nodes a step has, at most.
_NODES_OF_STEP = 64

#: LiteRT's `kNormalizationConstant`.
_EPSILON = 1e-8


def needs_steps(scope: Scope, first: int, norms: Sequence[int]) -> bool:
    """Whether a direction whose inputs begin at `first` has what `LstmSteps` is for."""
    weights = [k for k in range(first, first + 11) if scope.has(k)]
    return (
        any(scope.has(k) for k in (first + 15, first + 16, *norms))
        or any(scope.tensor(k).is_quantised for k in weights)
        or bool(scope.number("CellClip") or scope.number("ProjClip"))
    )


class LstmSteps:
    """One direction: its inputs begin at `first`; `norms` are the places of the factors of
    normalised gates, `states` those of the hidden state and of the cells.
    """

    def __init__(
        self, scope: Scope, first: int, norms: Sequence[int], states: tuple[int, int]
    ) -> None:
        self._scope = scope
        self._first = first
        self._states = states
        self._symmetric = not scope.flag("AsymmetricQuantizeInputs")
        self._activation = scope.integer("FusedActivationFunction")
        # Without weights of the input gate, that is 1 minus the forget gate.
        coupled = not scope.has(first)
        self._gates = tuple(range(_FORGET if coupled else _INPUT, 4))
        self._cells = scope.shape(scope.input(first + _FORGET))[0]
        self._hidden = scope.shape(scope.input(states[0]))[-1]
        n = self._cells
        self._biases = {k: self._vector(first + _BIASES + k, n) for k in self._gates}
        self._peepholes = {
            k: self._vector(first + _PEEPHOLES + at, n)
            for at, k in enumerate((_INPUT, _FORGET, _OUTPUT))
            if k in self._gates and scope.has(first + _PEEPHOLES + at)
        }
        self._norms = {
            k: self._vector(norms[k], n) for k in self._gates if norms and scope.has(norms[k])
        }
        self._check()

    def _check(self) -> None:
        scope, n = self._scope, self._cells
        if self._norms and len(self._norms) < len(self._gates):
            raise ModelError("some of its gates are normalised, others are not")
        if not scope.has(self._first + _PROJECTION) and self._hidden != n:
            raise ModelError(f"a hidden state of {self._hidden} for {n} cells")
        if min(scope.number("CellClip"), scope.number("ProjClip")) < 0.0:
            raise ModelError("a limit of its clipping is below 0")

    def _vector(self, index: int, size: int) -> str:
        """An input as float32[size]; integers are multiplied by their scale."""
        scope = self._scope
        found, tensor = scope.known(index, "a parameter"), scope.tensor(index)
        if found.shape != (size,):
            raise ModelError(f"a parameter has the shape {list(found.shape)}, not {[size]}")
        if tensor.is_quantised:
            found = np.multiply(found, scales_of_weights(scope, index, 0), dtype=np.float32)
        elif found.dtype != np.float32:
            raise ModelError(f"a parameter is {found.dtype}, expected floats")
        return scope.constant("parameter", found)

    def _product(self, x: str, places: Sequence[int], rows: int, label: str) -> str:
        """x[M,K] times the transposed weights[rows,K] of these inputs, side by side."""
        scope, (m, width) = self._scope, self._scope.shape(x)
        found: list[Array] = [scope.known(k, "a weight") for k in places]
        if any(w.shape != (rows, width) for w in found):
            shapes = ", ".join(str(list(w.shape)) for w in found)
            raise ModelError(f"weights of the shapes {shapes}, expected {[rows, width]}")
        kinds = {w.dtype for w in found}
        weight = np.concatenate(found).T
        if kinds == {np.dtype(np.float32)}:
            return scope.node(MatMul(), [x, scope.constant(f"{label}_w", weight)], label)
        if kinds != {np.dtype(np.int8)}:
            raise UnsupportedError("weights of several types are not supported")
        each = [np.broadcast_to(scales_of_weights(scope, k, 0), (rows,)) for k in places]
        scales = np.concatenate(each)
        return product_of_rows(scope, MatMul(), x, weight, scales, m, symmetric=self._symmetric)

    def run(self, x: str, label: str, reverse: bool) -> str:
        """x[N,T,I] -> the hidden states[N,T,H]; the last ones are kept."""
        scope = self._scope
        n, steps, width = scope.shape(x)
        if steps * _NODES_OF_STEP > MOST_NODES:
            cure = f"convert the network for at most {MOST_NODES // _NODES_OF_STEP} steps"
            raise UnsupportedError(f"{steps} steps of such a layer are too many", cure=cure)
        columns = len(self._gates) * self._cells
        flat = scope.reshaped(x, (n * steps, width), f"{label}flat")
        places = [self._first + k for k in self._gates]
        sums = self._product(flat, places, self._cells, f"{label}projected")
        sums = scope.reshaped(sums, (n, steps, columns), f"{label}steps")
        hidden, cell = (scope.input(k) for k in self._states)
        found: list[str] = [""] * steps
        for t in reversed(range(steps)) if reverse else range(steps):
            own = part(scope, sums, (0, t, 0), (n, 1, columns), f"{label}step{t}")
            own = scope.reshaped(own, (n, columns), f"{label}own{t}")
            hidden, cell = self._step(own, hidden, cell)
            found[t] = scope.reshaped(hidden, (n, 1, self._hidden), f"{label}hidden{t}")
        scope.keep(self._states[0], hidden)
        scope.keep(self._states[1], cell)
        return scope.node(Concat(1), found, f"{label}hidden") if steps > 1 else found[0]

    def _step(self, own: str, hidden: str, cell: str) -> tuple[str, str]:
        """One step from the input's part of all gates; the hidden state and the cells."""
        scope = self._scope
        places = [self._first + _RECURRENT + k for k in self._gates]
        past = self._product(hidden, places, self._cells, "recurrent")
        sums = scope.node(Add(), [own, past], "sums")
        forget = scope.node(Sigmoid(), [self._gate(sums, _FORGET, cell)], "forget")
        if _INPUT in self._gates:
            let_in = scope.node(Sigmoid(), [self._gate(sums, _INPUT, cell)], "input")
        else:
            let_in = scope.node(Sub(), [scope.scalar("one", 1.0), forget], "input")
        new = scope.activated(self._gate(sums, _CELL, cell), self._activation)
        kept = scope.node(Mul(), [forget, cell], "kept")
        added = scope.node(Mul(), [let_in, new], "added")
        cell = self._clipped(scope.node(Add(), [kept, added], "cell"), "CellClip")
        out = scope.node(Sigmoid(), [self._gate(sums, _OUTPUT, cell)], "output")
        shown = scope.activated(cell, self._activation)
        return self._projected(scope.node(Mul(), [out, shown], "shown")), cell

    def _gate(self, sums: str, gate: int, cell: str) -> str:
        """What a gate's activation is applied to."""
        scope, n = self._scope, self._cells
        rows, at = scope.shape(sums)[0], self._gates.index(gate)
        value = part(scope, sums, (0, at * n), (rows, n), "gate")
        if gate in self._peepholes:
            seen = scope.node(Mul(), [self._peepholes[gate], cell], "seen")
            value = scope.node(Add(), [value, seen], "with_cell")
        if gate in self._norms:
            given = [value, self._norms[gate], self._biases[gate]]
            return scope.node(LayerNormalization((1,), _EPSILON), given, "normalised")
        return scope.node(Add(), [value, self._biases[gate]], "biased")

    def _projected(self, hidden: str) -> str:
        """The hidden state[N,H] of the layer from that of its cells[N,cells]."""
        scope, place = self._scope, self._first + _PROJECTION
        if not scope.has(place):
            return hidden
        hidden = self._product(hidden, [place], self._hidden, "projection")
        if scope.has(place + 1):
            bias = self._vector(place + 1, self._hidden)
            hidden = scope.node(Add(), [hidden, bias], "projected")
        return self._clipped(hidden, "ProjClip")

    def _clipped(self, value: str, option: str) -> str:
        limit = self._scope.number(option)
        if not limit:
            return value
        return self._scope.node(Clip(-limit, limit), [value], "clipped")
