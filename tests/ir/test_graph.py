"""Types, builder, printer, verifier and interpreter of the graph."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import FrozenInstanceError, dataclass, replace
from typing import Any

import numpy as np
import pytest

from cannery.errors import CanneryError, ModelError, UnsupportedError
from cannery.ir.evaluate import evaluate, evaluate_all
from cannery.ir.graph import Graph, GraphBuilder, Node
from cannery.ir.printer import format_graph
from cannery.ir.registry import Op, RefArray, register
from cannery.ir.tensor import MAX_ELEMENTS, DType, TensorType
from cannery.ir.verify import verify
from cannery.ops.concat.op import Concat
from cannery.ops.conv.op import Conv
from cannery.ops.elementwise import Add, Clip, Relu, Sub
from cannery.ops.matmul.op import MatMul
from cannery.ops.movement.op import Cast, Reshape
from cannery.ops.resize.op import Resize


def small() -> Graph:
    """X -> conv -> relu -> reshape -> dense, and the sum of relu and conv."""
    b = GraphBuilder("small")
    x = b.input("x", (1, 4, 4, 2))
    w = b.constant("w", np.ones((3, 3, 2, 3)))
    bias = b.constant("bias", np.array([0.5, -20.0, 0.0], np.float16))
    conv = b.node(Conv((1, 1), ((0, 0), (0, 0)), (1, 1)), [x, w, bias], name="conv")
    relu = b.node(Relu(), [conv], name="relu")
    flat = b.node(Reshape((1, 12)), [relu], name="flat")
    dense = b.node(MatMul(), [flat, b.constant("w", np.ones((12, 1))), ""], name="dense")
    b.output(dense)
    b.output(b.node(Add(), [relu, conv], name="sum"))
    return b.build()


def test_dtypes() -> None:
    assert [d.bytes for d in DType] == [4, 1, 1, 2, 4, 8, 1, 2, 4, 8, 2]
    assert [d.c_name for d in DType] == [
        "float", "uint8_t", "int8_t", "int16_t", "int32_t", "int64_t", "uint8_t",
        "uint16_t", "uint32_t", "uint64_t", "uint16_t",
    ]  # fmt: skip
    assert DType.BOOL.numpy == np.dtype("bool")


def test_tensor_types() -> None:
    type_ = TensorType((2, 3, 4), DType.INT16)
    assert (type_.rank, type_.elements, type_.bytes) == (3, 24, 48)
    assert str(type_) == "int16[2x3x4]"
    scalar = TensorType(())
    assert (scalar.rank, scalar.elements, scalar.bytes) == (0, 1, 4)


@pytest.mark.parametrize("shape", [(1 << 31,), (1 << 16, 1 << 15), (1 << 40, 1 << 40)])
def test_too_many_elements(shape: tuple[int, ...]) -> None:
    with pytest.raises(ModelError, match=r"more than 2\^31-1 elements"):
        TensorType(shape)


def test_most_elements() -> None:
    assert TensorType((MAX_ELEMENTS,)).elements == MAX_ELEMENTS
    assert TensorType((MAX_ELEMENTS, 0)).elements == 0
    with pytest.raises(ModelError, match="more than"):
        TensorType((1 << 40, 0))


def test_negative_dimension() -> None:
    with pytest.raises(ModelError, match="negative dimension"):
        TensorType((2, -1))


def test_errors_say_what_where_and_what_to_do() -> None:
    error = CanneryError("it broke", where="there", cure="mend it")
    assert str(error) == "there: it broke (mend it)"
    assert str(CanneryError("it broke")) == "it broke"
    assert issubclass(UnsupportedError, ModelError)


def test_builder() -> None:
    graph = small()
    assert graph.inputs == ("x",)
    assert graph.outputs == ("dense", "sum")
    assert [n.name for n in graph.nodes] == ["conv", "relu", "flat", "dense", "sum"]
    assert graph.types["conv"] == TensorType((1, 2, 2, 3))
    assert set(graph.constants) == {"w", "bias", "w.1"}
    assert {a.dtype.name for a in graph.constants.values()} == {"float32"}
    verify(graph, after="building")


def test_neighbours() -> None:
    graph = small()
    producer = graph.producer("relu")
    assert producer is not None
    assert producer.output == "relu"
    assert graph.producer("x") is None
    assert graph.producer("w") is None
    assert [n.name for n in graph.consumers("relu")] == ["flat", "sum"]
    assert graph.consumers("sum") == ()


def test_graph_is_frozen() -> None:
    graph = small()
    with pytest.raises(FrozenInstanceError):
        graph.name = "other"  # type: ignore[misc]
    with pytest.raises(TypeError):
        graph.types["x"] = TensorType(())  # type: ignore[index]
    with pytest.raises(TypeError):
        graph.constants["w"] = np.ones(1)  # type: ignore[index]


def test_names_are_made_unique() -> None:
    b = GraphBuilder("g")
    x = b.input("x", (2,))
    names = [b.node(Relu(), [x], name="relu") for _ in range(3)]
    assert names == ["relu", "relu.1", "relu.2"]
    assert b.constant("relu", np.zeros(1)) == "relu.3"
    assert b.node(Relu(), [x], name="x") == "x.1"


def test_two_inputs_of_one_name() -> None:
    b = GraphBuilder("g")
    b.input("x", (2,))
    with pytest.raises(ModelError, match="two tensors are named 'x'"):
        b.input("x", (3,))


def test_no_outputs() -> None:
    b = GraphBuilder("g")
    b.input("x", (2,))
    with pytest.raises(ModelError, match="g: the model has no outputs"):
        b.build()


def test_integer_constants_keep_their_type() -> None:
    b = GraphBuilder("g")
    assert b.types[b.constant("i", np.array([1, 2], np.int64))] == TensorType((2,), DType.INT64)
    assert b.types[b.constant("u", np.array(7, np.uint8))] == TensorType((), DType.UINT8)


@pytest.mark.parametrize(
    ("op", "kind"), [(Conv((1,), ((0, 0),), (0,)), ModelError), (Resize("x", ()), UnsupportedError)]
)
def test_errors_name_the_layer(op: Op, kind: type[ModelError]) -> None:
    b = GraphBuilder("g")
    inputs = [b.input("x", (1, 5, 2)), b.constant("w", np.ones((3, 2, 4)))]
    count = 2 if op.kind == "Conv" else 1
    with pytest.raises(kind, match=rf"^layer 'first': {op.kind}") as caught:
        b.node(op, inputs[:count], name="first")
    assert caught.value.where == "layer 'first'"
    assert "first" not in b.types


def edited(**changes: Any) -> Graph:
    return replace(small(), **changes)


def with_node(index: int, **changes: Any) -> Graph:
    nodes = list(small().nodes)
    nodes[index] = replace(nodes[index], **changes)
    return small().with_nodes(nodes)


def with_type(name: str, type_: TensorType | None) -> Graph:
    types = {**small().types, name: type_}
    return edited(types={n: t for n, t in types.items() if t is not None})


BROKEN: list[tuple[Callable[[], Graph], str]] = [
    (lambda: edited(inputs=("x", "x")), "two inputs have the same name"),
    (
        lambda: edited(constants={**small().constants, "w": np.ones((3, 3, 2, 3))}),
        "constant 'w' is float64",
    ),
    (
        lambda: edited(constants={**small().constants, "w": np.ones((3, 3, 2), np.float32)}),
        r"constant 'w' is float32\(3, 3, 2\), its type says float32\[3x3x2x3\]",
    ),
    (lambda: with_node(1, inputs=("flat",)), "'relu' reads 'flat' before it is defined"),
    (lambda: with_node(1, inputs=("nowhere",)), "'relu' reads 'nowhere' before it is defined"),
    (
        lambda: with_type("conv", TensorType((1, 2, 2, 4))),
        r"'conv' \(Conv\) has other output types than its inputs imply",
    ),
    (lambda: with_node(1, op=Reshape((12,))), r"'relu' \(Reshape\) has other output types"),
    (lambda: with_node(1, outputs=("conv",)), "'conv' is defined twice"),
    (lambda: with_node(1, outputs=("x",), inputs=("x",)), "'x' is defined twice"),
    (lambda: with_node(0, outputs=("conv", "relu")), "has other output types"),
    (lambda: with_type("relu", None), "'relu' has no type"),
    (lambda: with_type("x", None), "'x' has no type"),
    (lambda: with_type("w", None), "'w' has no type"),
    (lambda: edited(inputs=("x", "bias")), "'bias' is an input and a constant"),
    (lambda: edited(outputs=("dense", "gone")), "output 'gone' is not computed"),
    (lambda: edited(outputs=("dense", "w")), "output 'w' is not computed"),
]


@pytest.mark.parametrize(("broken", "message"), BROKEN)
def test_verify(broken: Callable[[], Graph], message: str) -> None:
    with pytest.raises(ModelError, match=message) as caught:
        verify(broken(), after="a pass")
    assert caught.value.where == "graph 'small' after a pass"


def test_verify_infers_again() -> None:
    """A node whose attributes no longer fit its inputs is found even if its types agree."""
    with pytest.raises(ModelError, match=r"^graph 'small' after a pass, 'conv': Conv: dilations"):
        verify(with_node(0, op=Conv((1, 1), ((0, 0), (0, 0)), (0, 1))), after="a pass")


TEXT = """\
graph small
input x: float32[1x4x4x2]
const bias: float32[3]
const w: float32[3x3x2x3]
const w.1: float32[12x1]
conv: float32[1x2x2x3] = Conv(x, w, bias) strides=(1, 1) pads=((0, 0), (0, 0)) \
dilations=(1, 1) group=1
relu: float32[1x2x2x3] = Relu(conv)
flat: float32[1x12] = Reshape(relu) shape=(1, 12)
dense: float32[1x1] = MatMul(flat, w.1, -) transpose_a=False transpose_b=False
sum: float32[1x2x2x3] = Add(relu, conv)
output dense
output sum
"""


def test_printer() -> None:
    assert format_graph(small()) == TEXT


def test_printer_sums_up_weights() -> None:
    b = GraphBuilder("g")
    b.constant("two", np.full((2, 8), 2.0))
    b.constant("none", np.zeros((0,)))
    b.constant("whole", np.array([1, 2]))
    b.output(b.input("x", (1,)))
    lines = format_graph(b.build(), weights=True).splitlines()
    assert lines[2:5] == [
        "const none: float32[0]  mean=0 norm=0",
        "const two: float32[2x8]  mean=2 norm=8",
        "const whole: int64[2]",
    ]


def test_evaluate() -> None:
    x = np.arange(32, dtype=np.float32).reshape(1, 4, 4, 2) / 10.0
    windows = [
        float(x[0, i : i + 3, j : j + 3].astype(np.float64).sum()) for i in (0, 1) for j in (0, 1)
    ]
    conv = np.array([[s + 0.5, s - 20.0, s] for s in windows])
    outputs = evaluate(small(), {"x": x})
    assert list(outputs) == ["dense", "sum"]
    assert outputs["sum"].dtype == np.float64
    expected = np.maximum(conv, 0) + conv
    assert np.allclose(outputs["sum"].reshape(4, 3), expected, rtol=1e-14)
    assert outputs["dense"].item() == pytest.approx(np.maximum(conv, 0).sum(), rel=1e-14)
    everything = evaluate_all(small(), {"x": x})
    assert set(everything) == {"x", "w", "bias", "w.1", "conv", "relu", "flat", "dense", "sum"}


def test_evaluate_keeps_integers() -> None:
    b = GraphBuilder("g")
    x = b.input("x", (3,), DType.UINT8)
    b.output(b.node(Concat(0), [x, x], name="twice"))
    b.output(b.node(Clip(0.0, 6.0), [b.node(Cast(DType.FLOAT32), [x], name="f")], name="c"))
    outputs = evaluate(b.build(), {"x": np.array([1, 200, 7], np.uint8)})
    assert outputs["twice"].dtype == np.uint8
    assert outputs["c"].tolist() == [1.0, 6.0, 6.0]


@dataclass(frozen=True)
class Halves(Op):
    """x[2n] -> its first and its second half; only here: the rest have one output."""

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        """Two halves."""
        (x,) = inputs
        assert x is not None
        return (TensorType((x.shape[0] // 2,)),) * 2

    def reference(self, *inputs: RefArray | None) -> tuple[RefArray, ...]:
        """Two views."""
        (x,) = inputs
        assert x is not None
        return tuple(np.split(x, 2))


def test_several_outputs() -> None:
    b = GraphBuilder("g")
    low, high = b.nodes(Halves(), [b.input("x", (4,))], name="halves")
    b.output(high)
    b.output(low)
    graph = b.build()
    verify(graph, after="building")
    assert "halves: float32[2], halves.1: float32[2] = Halves(x)" in format_graph(graph)
    outputs = evaluate(graph, {"x": np.arange(4.0)})
    assert [v.tolist() for v in outputs.values()] == [[2.0, 3.0], [0.0, 1.0]]
    with pytest.raises(ValueError, match="too many values"):
        _ = graph.nodes[0].output


def test_operator_names_are_taken_once() -> None:
    with pytest.raises(TypeError, match="Relu is registered twice"):
        register(type("Relu", (Halves,), {}))


def test_node_without_outputs_cannot_have_one() -> None:
    with pytest.raises(ValueError, match="not enough values"):
        _ = Node(Relu(), "n", ("x",), ()).output


def test_evaluation_is_in_float64() -> None:
    """What float32 would round away stays, of inputs, constants and between nodes."""
    b = GraphBuilder("net")
    x = b.input("x", (1,))
    tiny = b.constant("tiny", np.float32([1e-9]))
    y = b.node(Add(), [x, tiny], name="y")
    b.output(b.node(Sub(), [y, x], name="z"))
    b.output(y)
    for found in (evaluate(b.build(), {"x": np.float32([1.0])}), evaluate_all(
        b.build(), {"x": np.float32([1.0])}
    )):  # fmt: skip
        assert found["z"].dtype == np.float64
        assert found["z"][0] == pytest.approx(1e-9, rel=1e-6)
        assert found["y"][0] > 1.0
