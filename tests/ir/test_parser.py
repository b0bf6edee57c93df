"""What is written as text is read back as the same graph; what cannot be read names its line."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cannery.errors import ModelError
from cannery.ir.graph import Graph, GraphBuilder, Length, Node, Scale, State
from cannery.ir.parser import parse_graph
from cannery.ir.printer import format_graph, write_graph
from cannery.ir.tensor import MODEL_DTYPES, DType
from cannery.ops.elementwise import Relu
from cannery.passes import run_passes
from nets.random_graphs import random_constants, random_graph
from ops.cases import all_cases

SMALL = """\
graph net
input x: float32[1x4]
const w: float32[4x2]
y: float32[1x2] = MatMul(x, w) transpose_a=False transpose_b=False
output y
"""


def equal(a: Graph, b: Graph) -> bool:
    """Whether two graphs are the same, constants to the bit."""
    bits = [{k: (v.dtype, v.tobytes()) for k, v in g.constants.items()} for g in (a, b)]
    none: dict[str, np.ndarray] = {}
    return bits[0] == bits[1] and replace(a, constants=none) == replace(b, constants=none)


@given(st.integers(0, 2**31), st.sampled_from([random_graph, random_constants]), st.booleans())
@settings(max_examples=25)
def test_what_is_written_is_read_back(seed: int, make: object, simplified: bool) -> None:
    assert callable(make)
    graph = run_passes(make(seed)) if simplified else make(seed)
    assert equal(parse_graph(write_graph(graph)), graph)


def test_every_operator_is_read_back() -> None:
    """Those of all cases; their constants by mean and norm, as these may be large."""
    for case in all_cases():
        graph = case.make()
        text = write_graph(graph, most=16)
        found = parse_graph(text, case.name)
        assert (found.nodes, found.types) == (graph.nodes, graph.types), case.name


def test_dumps_can_be_read() -> None:
    graph = random_graph(3)
    for text in (format_graph(graph), format_graph(graph, weights=True)):
        assert parse_graph(text).nodes == graph.nodes


def test_all_that_a_graph_knows_is_read_back() -> None:
    b = GraphBuilder("a net")
    x, h = b.input("x, y", (2, 3, 4, 1)), b.input("->", (2,), DType.INT8)
    y = b.node(Relu(), [b.node(Relu(), [x], name='"é"')], name="output")
    b.output(y)
    b.output(h)
    w = b.constant("a weight", np.array([0.5, 2.0], np.float32))
    graph = replace(
        b.build(),
        halves=frozenset({w}),
        channels_first=frozenset({y, x}),
        length=Length(3, {x: 1, y: 1}),
        states=(State(h, y, (0.5, float("inf"))), State(x, h)),
        scales={h: Scale(0.1, -3)},
        unit_error=1 / 64,
        integer_layers=("one", "two words"),
        notes=('a "quoted"\nnote',),
    )
    graph = graph.with_nodes([replace(n, name=f"layer {k}") for k, n in enumerate(graph.nodes)])
    assert equal(parse_graph(write_graph(graph)), graph)


@pytest.mark.parametrize("dtype", MODEL_DTYPES)
def test_constants_of_every_type(dtype: DType) -> None:
    rng = np.random.default_rng(0)
    arrays = [np.zeros((2, 2)), rng.integers(0, 2, (3,)), np.ones(()), np.zeros((0, 3))]
    if dtype not in (DType.BOOL, DType.FLOAT32):
        info = np.iinfo(dtype.numpy)
        arrays.append(np.array([info.min, info.max], dtype.numpy))
    if dtype is DType.FLOAT32:
        arrays += [
            np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 1e-45, 3.4e38, 0.1]),
            np.array([0.0, -0.0]),
        ]
    b = GraphBuilder("net")
    for array in arrays:
        b.constant("c", array.astype(dtype.numpy))
    b.output(b.input("x", (1,)))
    graph = b.build()
    assert equal(parse_graph(write_graph(graph)), graph)


def test_a_person_may_leave_out_what_follows() -> None:
    graph = parse_graph(
        "# a network\n\ngraph net # its name\ninput x:float32[1x4x4x2]\n"
        "const w: float32[3x3x2x3] = uniform(0.25, 0.5)\nconst b : float32[3] = 1e-1\n"
        "conv = Conv(x,w , b) strides=(1,1) dilations=(1, 1) pads=[(1,1), (1,1)]\n"
        "y = Relu(conv)\noutput y\n"
    )
    conv, relu = graph.nodes
    assert graph.types["y"].shape == (1, 4, 4, 3)
    assert (conv.name, conv.inputs) == ("conv", ("x", "w", "b"))
    assert relu == Node(Relu(), "y", ("conv",), ("y",))
    assert 0.25 <= graph.constants["w"].min() < graph.constants["w"].max() <= 0.5
    assert graph.constants["b"].tolist() == [np.float32(0.1)] * 3


def test_constants_without_elements_are_the_same_each_time() -> None:
    """They follow from their names alone."""
    first, second = (parse_graph(text).constants["w"] for text in (SMALL, SMALL))
    assert np.array_equal(first, second)
    assert first[0].tolist() == [-0.3532674312591553, -0.014882326126098633]
    other = parse_graph(SMALL.replace("w", "v")).constants["v"]
    assert not np.array_equal(first, other)


WRONG = (
    ("", "text: there is no graph"),
    ("input x: float32[1]\n", "text, line 1: the first line must be"),
    (SMALL.replace("x, w", "x, v"), "text, line 4: no value 'v' (one of: x, w)"),
    (SMALL.replace("MatMul", "Matmul"), "line 4: no operator 'Matmul' (did you mean 'MatMul'"),
    (SMALL.replace("x: float32[1x4]", "x: float32[1x3]"), "line 4"),
    (SMALL.replace("y: float32[1x2]", "y: float32[1x3]"), "line 4: 'y' is float32[1x2], not float"),
    (SMALL.replace("y: float32[1x2]", "y, z"), "line 4: MatMul has 1 results, not 2"),
    (SMALL.replace("y: float32[1x2]", "x"), "line 4: 'x' is defined twice"),
    (SMALL.replace("_b=False", "_c=False"), "line 4: MatMul has no 'transpose_c' (did you mean"),
    (SMALL.replace("_b=False", "_b=0"), "line 4: MatMul cannot have transpose_b=0"),
    (SMALL.replace("_b=False", "_b="), "line 4: transpose_b=: not a value"),
    (SMALL.replace("_b=False", "_b=w"), "line 4: w: not a value"),
    (SMALL.replace("_a=False", "_b=False"), "line 4: transpose_b is given twice"),
    (SMALL.replace("(x, w)", "(x w)"), "line 4: ',' is expected in column 28, not 'w)"),
    (SMALL.replace("(x, w)", "(x, w"), "line 4: ',' is expected in column 31"),
    (SMALL.replace("float32[4x2]", "float64[4x2]"), "line 3: no element type 'float64'"),
    (SMALL.replace("float32[4x2]", "float32 4x2"), "line 3: a type such as"),
    (SMALL.replace("[4x2]", "[4x2] = [1, 2]"), "line 3: 2 elements are listed, float32[4x2] has 8"),
    (SMALL.replace("[4x2]", "[4x2] = [1, x]"), "line 3: a number is expected in column 29, not"),
    (SMALL.replace("float32[4x2]", "int8[] = 200"), "line 3: 200 is not of type int8"),
    (SMALL.replace("float32[4x2]", "uint8[1] = [0.5]"), "line 3: 0.5 is not of type uint8"),
    (SMALL.replace("output y", "output y z"), "line 5: the end of the line is expected in column"),
    (SMALL.replace("output y", 'output "y'), "line 5: a name is expected in column 8"),
    (SMALL.replace("output y", 'output "\\y"'), 'line 5: "\\y" is not quoted as in JSON'),
    (SMALL.replace("output y", "output"), "line 5: a name is expected in column 7, not the end"),
    (SMALL.replace("output y\n", ""), "net: the model has no outputs"),
    (SMALL + "y = Conv(x, w)\n", "line 6: 'y' is defined twice"),
    (SMALL + "z = Conv(x, w)\n", "line 6: Conv needs strides"),
    (SMALL + "z = Relu()\n", "line 6: Relu"),
)  # fmt: skip


@pytest.mark.parametrize(("text", "message"), WRONG)
def test_errors_name_the_line(text: str, message: str) -> None:
    with pytest.raises(ModelError) as caught:
        parse_graph(text)
    assert message in str(caught.value)
