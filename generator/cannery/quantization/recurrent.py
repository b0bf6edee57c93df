"""Recurrent layers with constant weights as layers of integers with tables."""

from __future__ import annotations

from typing import Any

import numpy as np

from cannery.ir.graph import Graph, Node
from cannery.ir.numeric import F64, f64
from cannery.ir.tensor import TensorType
from cannery.ops.elementwise import Mul
from cannery.ops.quantized.gru import QuantizedGru
from cannery.ops.quantized.lstm import QuantizedLstm
from cannery.ops.quantized.recurrent import QuantizedRecurrent
from cannery.ops.quantized.rnn import QuantizedRnn
from cannery.ops.quantized.table import make_table
from cannery.ops.recurrent.base import HIDDEN, SEQUENCE, Recurrent
from cannery.ops.recurrent.op import Gru, Lstm, Rnn
from cannery.quantization.draft import Draft, Integers
from cannery.quantization.gates import gate_steps, in_steps
from cannery.quantization.steps import choose_state_bound, round_weights

#: Recurrent layers and their integer forms.
INTEGER: dict[type[Recurrent], type[QuantizedRecurrent]] = {
    Lstm: QuantizedLstm, Gru: QuantizedGru, Rnn: QuantizedRnn,
}  # fmt: skip


def why_float(graph: Graph, node: Node) -> str:
    """Why a recurrent layer has no integer form; empty if it has one."""
    op = node.op
    assert isinstance(op, Lstm | Gru | Rnn)
    p, r, *rest = node.inputs
    if not all(v in graph.constants for v in (r, *rest[op.states : op.states + op.others]) if v):
        return "its weights are not constant"
    if p in graph.constants:
        return "its input is constant"
    for activation in op.activations:
        if make_table(activation) is None:
            names = ", then ".join(f.kind for f in activation) or "the identity"
            return f"its activation ({names}) has no table"
    return ""


def is_recurrent(graph: Graph, node: Node) -> bool:
    """Whether a node is a recurrent layer that has an integer form."""
    return isinstance(node.op, Lstm | Gru | Rnn) and not why_float(graph, node)


def gates_of(graph: Graph, value: str) -> F64 | None:
    """The factor that turns a value into steps of tables, if it feeds only one layer's gates."""
    readers = graph.consumers(value)
    if len(readers) != 1 or value in graph.outputs:
        return None
    (reader,) = readers
    alone = reader.inputs[0] == value and reader.inputs.count(value) == 1
    if not alone or not is_recurrent(graph, reader):
        return None
    assert isinstance(reader.op, Lstm | Gru | Rnn)
    return gate_steps(reader.op).reshape(-1)


def rewrite_recurrent(draft: Draft, node: Node) -> None:
    """A recurrent layer; projected inputs are already in steps of its tables, or are converted."""
    op, graph = node.op, draft.graph
    assert isinstance(op, Lstm | Gru | Rnn)
    p, r, *rest = (*node.inputs, "", "", "")[:5]
    h0, c0, others = rest if isinstance(op, Lstm) else (rest[0], "", rest[1] if op.others else "")
    steps, new = gate_steps(op), list[Node]()
    if p not in draft.gates:
        factor = draft.constant(f"{node.name}/steps", steps.reshape(-1))
        p = draft.add(Mul(), f"{node.name}/in_steps", [p, factor], new)
    recurrent = [f64(w) for w in graph.constants[r]]
    sequence = node.outputs[op.returns.index(SEQUENCE)] if SEQUENCE in op.returns else ""
    rms = draft.spread(node.outputs[0]).rms if op.returns[0] in (SEQUENCE, HIDDEN) else 0.5
    after = draft.products(sequence) if sequence else []

    def find() -> tuple[int, float]:
        found = choose_state_bound([*recurrent, *after], rms, draft.dtype)
        return found, 1.0 / found

    bound, _ = draft.ranges.next(find)
    rounded = [round_weights(w, bound, draft.dtype) for w in recurrent]
    scale = np.stack([w.steps for w in rounded]) / bound * steps
    inputs = [
        p,
        draft.constant(f"{node.name}/{draft.dtype.value}", np.stack([w.integers for w in rounded])),
        draft.scales(f"{node.name}/scale", scale),
        h0,
        c0,
    ]
    if others:
        others = draft.constant(f"{node.name}/others", in_steps(op, graph.constants[others]))
    inputs += [others, op.first_input(node.inputs)]
    while not inputs[-1]:
        inputs.pop()
    form: dict[str, Any] = {}
    if isinstance(op, Gru):
        form["linear_before_reset"] = op.linear_before_reset
    elif isinstance(op, Lstm):
        form["coupled"] = op.coupled
    made = INTEGER[type(op)](
        op.cells, op.activations, bound, draft.dtype, op.reverse, op.returns, op.clip, op.lengths,
        **form,
    )  # fmt: skip
    outputs = list(node.outputs)
    draft.layers.append(node.name)
    if sequence:
        type_ = TensorType(graph.types[sequence].shape, draft.dtype)
        name = draft.rewriter.value(f"{sequence}/integers", type_)
        outputs[op.returns.index(SEQUENCE)] = name
    new.append(Node(made, node.name, tuple(inputs), tuple(outputs)))
    if sequence:
        draft.floats(Integers(name, bound, 1.0 / bound), sequence, new)
    draft.rewriter.replace_node(node, new)
