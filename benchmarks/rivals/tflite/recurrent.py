"""Recurrent layers: LSTM has an operator, GRU is written step by step."""

from __future__ import annotations

import numpy as np
from ai_edge_litert import schema_py_generated as schema

from cannery.ir.graph import Array, Node
from cannery.ops.elementwise import Sigmoid, Tanh
from cannery.ops.recurrent.op import Gru, Lstm
from rivals.exchange import as_float, constant, lstm_layer, unsupported
from rivals.tflite.writer import CODE, FUSED, TfliteFile, form


@form(Lstm)
def _lstm(file: TfliteFile, op: Lstm, node: Node) -> None:
    """Inputs in the order of TensorFlow Lite: weights, peepholes, biases; gates i, f, c, o."""
    if op.reverse not in ((False,), (False, True)):
        raise unsupported(op)
    layer, both, name = lstm_layer(file.graph, node), op.directions == 2, node.output
    inputs = [file.value(layer.x)]
    for d in range(op.directions):
        for what, array in (("w", layer.w[d]), ("r", layer.r[d])):
            parts = layer.gates(array, "ifco")
            inputs += [file.weight(f"{name}/{what}{d}{k}", p) for k, p in enumerate(parts)]
        inputs += _peepholes(file, f"{name}/p{d}", layer.peepholes, d)
        parts = layer.gates(layer.bias[d], "ifco")
        inputs += [file.weight(f"{name}/b{d}{k}", p) for k, p in enumerate(parts)]
        inputs += [-1, -1]  # no projection
    batch = file.shape(layer.x)[0]
    for k in range(2 * op.directions):
        state = file.tensor(f"{name}/state{k}", (batch, op.cells))
        file.tensors[state].isVariable = True
        inputs.append(state)
    kind = "Bidirectional" if both else "Unidirectional"
    options = getattr(schema, f"{kind}SequenceLSTMOptionsT")()
    options.fusedActivationFunction, options.timeMajor = FUSED.TANH, False
    if both:
        options.mergeOutputs = True
    inputs += [-1] * (9 if both else 4)  # no auxiliary input, no normalisation
    file.add(getattr(CODE, f"{kind.upper()}_SEQUENCE_LSTM"), inputs, name, options)


def _peepholes(file: TfliteFile, name: str, weights: Array | None, d: int) -> list[int]:
    """Of i, f, o; absent ones are -1."""
    if weights is None:
        return [-1] * 3
    parts = np.split(as_float(weights[d]), 3)
    return [file.weight(f"{name}{k}", parts[k]) for k in (0, 2, 1)]


@form(Gru)
def _gru(file: TfliteFile, op: Gru, node: Node) -> None:
    """Unrolled: TensorFlow Lite has no operator for it."""
    p, r, start, bias, *_ = (*node.inputs, "", "")[:4]
    (batch, steps, _), n = file.shape(p), op.cells
    plain = op.linear_before_reset and not (op.clip or op.lengths or start)
    usual = op.activations == ((Sigmoid(),), (Tanh(),))
    if batch != 1 or op.directions > 1 or not plain or not usual:
        raise unsupported(op)
    shift = np.zeros(3 * n, np.float32)
    if bias:
        shift[2 * n :] = constant(file.graph, bias)[0]
    layer = _Steps(file, node, as_float(constant(file.graph, r)[0].T), shift, n)
    rows = file.reshape(file.value(p), (steps, 3 * n))
    h, found = file.weight(f"{node.name}/start", np.zeros((1, n), np.float32)), {}
    for t in reversed(range(steps)) if op.reverse[0] else range(steps):
        h = found[t] = layer.step(rows, t, h)
    for what, value in zip(op.returns, node.outputs, strict=True):
        if what == "hidden":
            file.reshape(h, (1, n), value)
            continue
        joined = schema.ConcatenationOptionsT()
        joined.axis = 0
        all_steps = [found[t] for t in range(steps)]
        sequence = file.made(CODE.CONCATENATION, all_steps, (steps, n), joined)
        file.reshape(sequence, (1, steps, n), value)


class _Steps:
    """The operators of a step of a GRU of `n` cells, reset after the product."""

    def __init__(self, file: TfliteFile, node: Node, r: Array, bias: Array, n: int) -> None:
        self.file, self.n = file, n
        self.r = file.weight(f"{node.name}/r", r)
        self.bias = file.weight(f"{node.name}/bias", bias)

    def step(self, rows: int, t: int, h: int) -> int:
        """The next state, of the inputs in row `t` and the state."""
        file, n, one = self.file, self.n, (1, self.n)
        options = schema.FullyConnectedOptionsT()
        q = file.made(CODE.FULLY_CONNECTED, [h, self.r, self.bias], (1, 3 * n), options)
        given = file.slice(rows, (t, 0), (1, 2 * n)), file.slice(q, (0, 0), (1, 2 * n))
        gates = file.made(CODE.LOGISTIC, [file.binary("ADD", *given, (1, 2 * n))], (1, 2 * n))
        z, reset = file.slice(gates, (0, 0), one), file.slice(gates, (0, n), one)
        inner = file.binary("MUL", reset, file.slice(q, (0, 2 * n), one), one)
        inner = file.binary("ADD", file.slice(rows, (t, 2 * n), one), inner, one)
        g = file.made(CODE.TANH, [inner], one)
        kept = file.binary("MUL", z, file.binary("SUB", h, g, one), one)
        return file.binary("ADD", g, kept, one)
