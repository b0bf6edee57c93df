"""Recurrent operators: LSTM, plain layers and SVDF. Their states go on from run to run."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cannery.errors import ModelError, UnsupportedError
from cannery.frontends.tflite.operators.lstm_steps import LstmSteps, needs_steps
from cannery.frontends.tflite.scope import ACTIVATIONS, Scope, operator, quantised
from cannery.ir.tensor import DType
from cannery.ops.concat.op import Concat
from cannery.ops.elementwise import Add, Mul, Sigmoid
from cannery.ops.matmul.op import MatMul
from cannery.ops.movement.op import Cast, Slice, Transpose
from cannery.ops.recurrent.base import CELL, HIDDEN, SEQUENCE, Activation
from cannery.ops.recurrent.op import Lstm, Rnn
from cannery.ops.reduce.op import ReduceSum

#: The gates of Cannery's LSTM, by the order i, f, c, o of weights in the file.
_GATES = (0, 3, 1, 2)

#: The factors of normalised gates i, f, c, o.
_NORMS = (20, 21, 22, 23)

#: The kernel of LSTM that has all inputs.
_FULL = 0

_F32 = NDArray[np.float32]


class _Lstm:
    """The parameters of one direction: inputs of an operator from `first` on.

    Weights of the input and of the state for the gates i, f, c, o, peepholes of i, f, o, and
    biases.
    """

    def __init__(self, scope: Scope, first: int) -> None:
        self._scope = scope
        self._first = first
        self.cells = scope.shape(scope.input(first + 1))[0]
        # Without weights of the input gate, that is 1 minus the forget gate.
        self.coupled = not scope.has(first)

    def _floats(self, index: int, shape: tuple[int, ...]) -> _F32:
        found = self._scope.known(self._first + index, "a weight")
        if found.shape != shape or found.dtype != np.float32:
            raise ModelError(f"a weight is {found.dtype}{list(found.shape)}, not {list(shape)}")
        return np.asarray(found, np.float32)

    def _joined(self, first: int, shape: tuple[int, ...]) -> _F32:
        """Weights of all gates in Cannery's order."""
        found = [self._gate(first, k, shape) for k in range(4)]
        return np.concatenate([found[k] for k in _GATES])

    def _gate(self, first: int, k: int, shape: tuple[int, ...]) -> _F32:
        """Of a gate; without one for the input, 1 - s(x) = s(-x) of the forget gate is it."""
        if self.coupled and k == 0:
            return -self._floats(first + 1, shape)
        return self._floats(first + k, shape)

    def arrays(self, width: int) -> tuple[_F32, _F32, _F32, _F32 | None]:
        """w[I,4H], b[4H], r[1,H,4H] and peepholes[1,3H] of i, o, f."""
        n = self.cells
        w, r = self._joined(0, (n, width)), self._joined(4, (n, n))
        peepholes: _F32 | None = None
        if any(self._scope.has(self._first + k) for k in (8, 9, 10)):
            peepholes = np.concatenate([self._gate(8, k, (n,)) for k in (0, 2, 1)])[None]
        return w.T, self._joined(11, (n,)), r.T[None], peepholes


def _activation(number: int) -> Activation:
    if number not in ACTIVATIONS:
        raise UnsupportedError(f"its activation {number} is not supported")
    return ACTIVATIONS[number]


def _sequence(scope: Scope, time_major: bool) -> str:
    """x[N,T,I]."""
    x = scope.input(0)
    if scope.rank(x) != 3:
        raise ModelError(f"its input has the shape {scope.shape(x)}, expected samples and steps")
    return scope.node(Transpose((1, 0, 2)), [x], "samples_first") if time_major else x


def _run(
    scope: Scope, x: str, first: int, states: tuple[int, int], label: str, *,
    norms: Sequence[int] = (), reverse: bool = False,
) -> str:  # fmt: skip
    """One direction, whose parameters are inputs from `first` on; returns the sequence."""
    if scope.tensor(0).is_quantised or scope.output.is_quantised:
        raise UnsupportedError("on integers it is not supported")
    scope.ignore("AsymmetricQuantizeInputs")
    if needs_steps(scope, first, norms):
        return LstmSteps(scope, first, norms, states).run(x, label, reverse)
    layer = _Lstm(scope, first)
    w, b, r, peepholes = layer.arrays(scope.shape(x)[-1])
    product = scope.node(
        MatMul(), [x, scope.constant(f"{label}w", w), scope.constant(f"{label}b", b)],
        f"{label}projected",
    )  # fmt: skip
    inputs = [product, scope.constant(f"{label}r", r), *(scope.input(k) for k in states)]
    if peepholes is not None:
        inputs.append(scope.constant(f"{label}peepholes", peepholes))
    of_cell = _activation(scope.integer("FusedActivationFunction"))
    op = Lstm(
        layer.cells, ((Sigmoid(),), of_cell, of_cell), (reverse,),
        returns=(SEQUENCE, HIDDEN, CELL), coupled=layer.coupled,
    )  # fmt: skip
    y, hidden, cell = scope.nodes(op, inputs, label.rstrip("/"))
    scope.keep(states[0], hidden)
    scope.keep(states[1], cell)
    return y


@operator("UNIDIRECTIONAL_SEQUENCE_LSTM")
def unidirectional_lstm(scope: Scope) -> str:
    """x, 16 parameters and a projection, two states, and normalisations of gates."""
    if scope.flag("DiagonalRecurrentTensors"):
        raise UnsupportedError("its diagonal weights are not supported")
    major = scope.flag("TimeMajor")
    y = _run(scope, _sequence(scope, major), 1, (18, 19), "", norms=_NORMS)
    return scope.node(Transpose((1, 0, 2)), [y], "steps_first") if major else y


@operator("BIDIRECTIONAL_SEQUENCE_LSTM")
def bidirectional_lstm(scope: Scope) -> list[str]:
    """x, the parameters of both directions, four states, and a second input."""
    if any(scope.has(k) for k in range(39, 48)):
        raise UnsupportedError("its second input is not supported")
    major = scope.flag("TimeMajor")
    x = _sequence(scope, major)
    both = [
        _run(scope, x, 1, (35, 36), "forward/"),
        _run(scope, x, 18, (37, 38), "backward/", reverse=True),
    ]
    return _both(scope, both, major)


@operator("LSTM")
def lstm_step(scope: Scope) -> list[str]:
    """One step, with the inputs of UNIDIRECTIONAL_SEQUENCE_LSTM."""
    if scope.integer("KernelType") != _FULL or len(scope.outputs) != 1:
        raise UnsupportedError("its basic kernel is not supported")
    y = _run(scope, _step(scope), 1, (18, 19), "", norms=_NORMS)
    return [_of_step(scope, y)]


for _kind, _build in (
    ("UNIDIRECTIONAL_SEQUENCE_LSTM", unidirectional_lstm),
    ("BIDIRECTIONAL_SEQUENCE_LSTM", bidirectional_lstm), ("LSTM", lstm_step),
):  # fmt: skip
    # Floats with weights of int8.
    quantised(_kind)(_build)


def _step(scope: Scope) -> str:
    """x[N,I] as the sequence x[N,1,I]."""
    x = scope.input(0)
    if scope.rank(x) != 2:
        raise ModelError(f"its input has the shape {scope.shape(x)}, expected one step")
    return scope.reshaped(x, (scope.shape(x)[0], 1, scope.shape(x)[1]), "step")


def _of_step(scope: Scope, y: str) -> str:
    """y[N,1,H] as y[N,H]."""
    return scope.reshaped(y, (scope.shape(y)[0], scope.shape(y)[2]), "result")


@operator("UNIDIRECTIONAL_SEQUENCE_RNN", "RNN")
def rnn(scope: Scope) -> str:
    """x, w[H,I], r[H,H], bias[H], state[N,H]; RNN is one step."""
    scope.ignore("AsymmetricQuantizeInputs")
    if scope.kind == "RNN":
        return _of_step(scope, _run_rnn(scope, _step(scope), 1, ""))
    major = scope.flag("TimeMajor")
    y = _run_rnn(scope, _sequence(scope, major), 1, "")
    return scope.node(Transpose((1, 0, 2)), [y], "steps_first") if major else y


def _run_rnn(scope: Scope, x: str, first: int, label: str, reverse: bool = False) -> str:
    """One direction, whose weights, bias and state are inputs from `first` on; the sequence."""
    w = scope.node(Transpose((1, 0)), [scope.input(first)], f"{label}w")
    r = np.asarray(scope.known(first + 1, "its weights"))
    if r.ndim != 2:
        raise ModelError(f"its weights have the shape {r.shape}")
    activation = _activation(scope.integer("FusedActivationFunction"))
    product = scope.node(MatMul(), [x, w, scope.input(first + 2)], f"{label}projected")
    op = Rnn(r.shape[0], (activation,), (reverse,), returns=(SEQUENCE, HIDDEN))
    inputs = [product, scope.constant(f"{label}r", r.T[None]), scope.input(first + 3)]
    y, hidden = scope.nodes(op, inputs, label.rstrip("/"))
    scope.keep(first + 3, hidden)
    return y


@operator("BIDIRECTIONAL_SEQUENCE_RNN")
def bidirectional_rnn(scope: Scope) -> list[str]:
    """x, the parameters and the state of both directions, and a second input."""
    if any(scope.has(k) for k in range(9, 12)):
        raise UnsupportedError("its second input is not supported")
    scope.ignore("AsymmetricQuantizeInputs")
    major = scope.flag("TimeMajor")
    x = _sequence(scope, major)
    forward = _run_rnn(scope, x, 1, "forward/")
    return _both(scope, [forward, _run_rnn(scope, x, 5, "backward/", reverse=True)], major)


def _both(scope: Scope, both: list[str], major: bool) -> list[str]:
    """The outputs of two directions: joined if an option says so, steps first if `major`."""
    if scope.flag("MergeOutputs"):
        both = [scope.node(Concat(2), both, "joined")]
    if major:
        both = [scope.node(Transpose((1, 0, 2)), [y], "steps_first") for y in both]
    return both


@operator("SVDF")
def svdf(scope: Scope) -> str:
    """x[N,I], features[F,I], weights of time[F,T], bias[F/rank]?, state[N,F*T].

    The state moves by a step, and takes in the products with the features. Each filter is the sum
    over time and over `rank` rows.
    """
    scope.ignore("AsymmetricQuantizeInputs")
    features = scope.node(Transpose((1, 0)), [scope.input(1)], "features")
    product = scope.node(MatMul(), [scope.input(0), features], "product")
    y = svdf_sums(scope, product, scope.input(4), scope.input(2))
    if scope.has(3):
        y = scope.node(Add(), [y, scope.input(3)], "biased")
    return scope.fused(y)


def svdf_sums(scope: Scope, newest: str, past: str, times: str) -> str:
    """The state moves by a step and is kept; its products with `times` are summed."""
    (n, filters), (_, steps) = scope.shape(newest), _matrix(scope, times)
    rank = scope.integer("Rank")
    if rank < 1 or filters % rank:
        raise ModelError(f"a rank of {rank} for {filters} filters")
    newest = scope.reshaped(newest, (n, filters, 1), "newest")
    past = scope.reshaped(past, (n, filters, steps), "past")
    kept = scope.node(Slice((0, 0, 1), (n, filters, steps), (1, 1, 1)), [past], "kept")
    state = scope.node(Concat(2), [kept, newest], "state") if steps > 1 else newest
    scope.keep(4, scope.reshaped(state, (n, filters * steps), "next"))
    if scope.dtype(times) is DType.INT16:
        state, times = (scope.node(Cast(DType.INT32), [v], "numbers") for v in (state, times))
    weighted = scope.node(Mul(), [state, times], "weighted")
    rows = scope.reshaped(weighted, (n, filters // rank, rank * steps), "rows")
    return scope.node(ReduceSum((2,)), [rows], "sum")


def _matrix(scope: Scope, value: str) -> Sequence[int]:
    shape = scope.shape(value)
    if len(shape) != 2:
        raise ModelError(f"its weights have the shape {shape}, expected two axes")
    return shape
