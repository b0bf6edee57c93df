"""Which values need to be floats, and which share a scale."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cannery.ir.graph import GraphBuilder
from cannery.ir.tensor import DType
from cannery.ops.concat.op import Concat
from cannery.ops.elementwise import Add, Tanh
from cannery.ops.matmul.op import MatMul
from cannery.ops.movement.op import Reshape
from cannery.quantization.flow import Flow
from cannery.quantization.quantize import quantize


def builder() -> tuple[GraphBuilder, str, str]:
    """An input of 4x4 numbers, and a matrix."""
    b = GraphBuilder("flow")
    return b, b.input("x", (4, 4)), b.constant("w", np.eye(4, dtype=np.float32))


def test_layers_read_integers_as_their_first_input_alone() -> None:
    b, x, w = builder()
    p, q = (b.node(MatMul(), [x, w], name=name) for name in "pq")
    y = b.node(MatMul(), [p, q], name="y")
    b.output(y)
    flow = Flow(b.build(), {y}, {})
    assert flow.only_integers(p)
    assert not flow.only_integers(q), "a layer's weights that are computed"


def test_what_is_moved_and_joined_shares_a_scale() -> None:
    b, x, w = builder()
    p, q = (b.node(MatMul(), [x, w], name=name) for name in "pq")
    moved = b.node(Reshape((4, 4)), [p], name="moved")
    joined = b.node(Concat(0), [moved, q], name="joined")
    y = b.node(MatMul(), [joined, w], name="y")
    b.output(y)
    flow = Flow(b.build(), {p, q, y}, {})
    assert flow.is_joint(joined)
    assert set(flow.group(q)) == set(flow.group(moved)) == {p, q}
    assert (flow.moved_from(moved), flow.moved_from(q)) == (p, "")
    assert [(node.output, value) for node, value in flow.readers(p)] == [(y, joined)]
    assert flow.group(y) == (y,)


def test_what_anything_else_reads_is_a_float_with_all_that_shares_its_scale() -> None:
    b, x, w = builder()
    p, q = (b.node(MatMul(), [x, w], name=name) for name in "pq")
    joined = b.node(Concat(0), [p, q], name="joined")
    y = b.node(MatMul(), [joined, w], name="y")
    for value in (y, b.node(Tanh(), [p], name="read")):
        b.output(value)
    flow = Flow(b.build(), {p, q, y}, {})
    assert not any(map(flow.only_integers, (p, q, joined)))
    assert not flow.is_joint(joined)
    assert flow.group(q) == (q,)


def test_sums_read_what_their_results_are() -> None:
    for read in (False, True):
        b, x, w = builder()
        p, q, r = (b.node(MatMul(), [x, w], name=name) for name in "pqr")
        inner = b.node(Add(), [p, q], name="inner")
        outer = b.node(Add(), [inner, r], name="outer")
        y = b.node(MatMul(), [outer, w], name="y")
        for value in (y, b.node(Tanh(), [outer], name="read")) if read else (y,):
            b.output(value)
        flow = Flow(b.build(), {p, q, r, y}, {inner: inner, outer: outer})
        assert [flow.only_integers(v) for v in (p, q, r, inner, outer)] == [not read] * 5


@pytest.mark.parametrize("layer", [False, True])
def test_sums_are_integers_if_an_operand_is(layer: bool, tmp_path: Path) -> None:
    b, x, w = builder()
    z = b.input("z", (4, 4))
    other = b.node(MatMul(), [x, w], name="layer") if layer else z
    b.output(b.node(MatMul(), [b.node(Add(), [z, other], name="sum"), w], name="y"))
    samples = np.random.default_rng(0).standard_normal((2, 8, 4)).astype(np.float32)
    np.savez(tmp_path / "samples.npz", x=samples[0], z=samples[1])
    made = quantize(b.build(), DType.INT16, tmp_path / "samples.npz", 0.1)
    kinds = {node.op.kind for node in made.nodes}
    assert ("QuantizedElementwise" in kinds, "Add" in kinds) == (layer, not layer)
