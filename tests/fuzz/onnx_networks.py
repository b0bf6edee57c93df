"""Random valid ONNX models: nodes are proposed, and kept where ONNX itself infers their shapes."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from fuzz.onnx_maker import Maker
from fuzz.onnx_operators import (
    binary,
    compare,
    concat,
    conv,
    conv_transpose,
    cut,
    dense,
    gather,
    index,
    normalise,
    pad,
    pool,
    product,
    rearrange,
    recurrent,
    reduce,
    repeat,
    reshape,
    resize,
    softmax,
    split,
    transpose,
    unary,
)
from fuzz.onnx_patterns import (
    QONNX,
    choice,
    constants,
    drawing,
    few_numbers,
    known,
    quantised,
    residual,
    unet,
)

onnx = pytest.importorskip("onnx")

BLOCKS: tuple[Callable[[Maker], None], ...] = (
    conv, conv, conv, conv_transpose, pool, pool, unary, unary, binary, binary, compare, dense,
    dense, product, normalise, softmax, transpose, reshape, concat, split, cut, pad, resize,
    rearrange, reduce, gather, index, repeat, recurrent, quantised, known, constants, unet,
    residual, residual, drawing, few_numbers, choice,
)  # fmt: skip


def _first_inputs(m: Maker) -> None:
    rank = m.random.choice([1, 2, 3, 3, 4, 4, 4, 4, 5])
    batch = 1 if m.chance(0.85) else 2
    dims = (batch, *(m.count(1, 9) for _ in range(rank - 1)))
    if rank == 4 and m.chance(0.6):
        dims = (batch, m.random.choice([1, 3, 4, 8, 16]), m.count(3, 13), m.count(3, 13))
    if m.chance(0.04):
        dims = m.random.choice([(), (0,), (1,), (2, 0), (1, 3, 0, 2), (1, 1, 1, 1)])
    m.input("x", dims)
    if m.chance(0.2):
        m.input("other", dims)


def random_network(random: Random) -> Any:
    """A model of two to nine blocks."""
    m = Maker(random, random.choice([11, 13, 13, 17, 18, 19, 20, 21]))
    _first_inputs(m)
    wanted, tried = m.count(2, 9), 0
    while wanted and tried < 60:
        tried += 1
        try:
            random.choice(BLOCKS)(m)
            wanted -= 1
        except (LookupError, ValueError, ZeroDivisionError):
            pass
    return _finished(m)


def _finished(m: Maker) -> Any:
    """The last value that nobody reads is an output, and now and then others are."""
    read = {i for n in m.nodes for i in n.input}
    made = [o for n in m.nodes for o in n.output]
    free = [o for o in made if o not in read] or made[-1:]
    outputs = [o for k, o in enumerate(free) if k == len(free) - 1 or m.chance(0.5)]
    helper = onnx.helper
    inputs = [helper.make_tensor_value_info(v[0], v[2], v[1]) for v in m.values if v[0] not in made]
    used = {i for n in m.nodes for i in n.input}
    graph = helper.make_graph(
        m.nodes, "net", inputs,
        [helper.make_empty_tensor_value_info(o) if m.chance(0.3)
         else helper.make_value_info(o, m.types[o]) for o in outputs],
        [onnx.numpy_helper.from_array(a, n) for n, a in m.weights.items() if n in used],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", m.opset)]
    if any(n.domain == QONNX for n in m.nodes):
        opsets.append(helper.make_opsetid(QONNX, 1))
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)
