"""Passes keep the meaning of a graph, and simplify what they promise to simplify."""

from __future__ import annotations

import numpy as np
import pytest

from cannery.ir.evaluate import evaluate
from cannery.ir.graph import Graph, GraphBuilder
from cannery.ir.registry import Op
from cannery.ir.verify import verify
from cannery.ops.average_pool.op import AveragePool
from cannery.ops.concat.op import Concat
from cannery.ops.conv.op import Conv
from cannery.ops.conv_transpose.op import ConvTranspose
from cannery.ops.elementwise.activations import Clip, Relu
from cannery.ops.elementwise.binary import Add, Div, Mul, Sub
from cannery.ops.matmul.op import MatMul
from cannery.ops.max_pool.op import MaxPool
from cannery.ops.movement.op import Expand, Identity, Pad, Reshape, Slice, Transpose
from cannery.ops.normalization.op import BatchNormalization
from cannery.ops.resize.op import Resize
from cannery.ops.window import Pads
from cannery.passes import run_passes


class Net:
    """A graph under construction with random weights."""

    def __init__(self, *shape: int) -> None:
        self.rng = np.random.default_rng(0)
        self.builder = GraphBuilder("net")
        self.value = self.builder.input("x", shape)

    def weight(self, *shape: int, low: float = -1.0) -> str:
        return self.builder.constant("c", self.rng.uniform(low, 1.0, shape).astype(np.float32))

    def then(self, op: Op, *others: str, name: str = "") -> Net:
        self.value = self.builder.node(op, [self.value, *others], name=name or op.kind.lower())
        return self

    def norm(self, channels: int) -> Net:
        parameters = [self.weight(channels) for _ in range(3)]
        op = BatchNormalization(axis=3, epsilon=1e-3)
        return self.then(op, *parameters, self.weight(channels, low=0.1))

    def graph(self) -> Graph:
        self.builder.output(self.value)
        return self.builder.build()


def conv(*, pad: int = 0, stride: int = 1, group: int = 1) -> Conv:
    return Conv((stride, stride), ((pad, pad), (pad, pad)), (1, 1), group)


def simplified(graph: Graph) -> Graph:
    """The graph after all passes, checked to compute the same."""
    result = run_passes(graph)
    verify(result, after="all passes")
    rng = np.random.default_rng(1)
    inputs = {v: rng.standard_normal(graph.types[v].shape) for v in graph.inputs}
    before, after = evaluate(graph, inputs), evaluate(result, inputs)
    assert list(before) == list(after)
    for name, expected in before.items():
        scale = float(np.abs(expected).max()) or 1.0
        assert np.abs(after[name] - expected).max() <= 2e-6 * scale
    return result


def kinds(graph: Graph) -> list[str]:
    return [node.op.kind for node in graph.nodes]


@pytest.mark.parametrize("group", [1, 2, 4])
def test_batch_norm_behind_a_convolution_vanishes(group: int) -> None:
    net = Net(1, 6, 6, 4)
    graph = net.then(conv(group=group), net.weight(3, 3, 4 // group, 8)).norm(8).graph()
    assert kinds(simplified(graph)) == ["Conv"]


@pytest.mark.parametrize("group", [1, 2])
def test_batch_norm_behind_a_transposed_convolution_vanishes(group: int) -> None:
    net = Net(1, 4, 4, 4)
    op = ConvTranspose((2, 2), ((0, 1), (0, 1)), (1, 1), (0, 0), group)
    graph = net.then(op, net.weight(3, 3, 6 // group, 4)).norm(6).graph()
    assert kinds(simplified(graph)) == ["ConvTranspose"]


@pytest.mark.parametrize("group", [1, 2, 4])
def test_batch_norm_before_an_unpadded_convolution_vanishes(group: int) -> None:
    net = Net(1, 6, 6, 4).norm(4)
    graph = net.then(conv(group=group), net.weight(3, 3, 4 // group, 8), net.weight(8)).graph()
    assert kinds(simplified(graph)) == ["Conv"]


def test_a_shift_before_zero_padding_stays() -> None:
    net = Net(1, 6, 6, 4).norm(4)
    graph = net.then(conv(pad=1), net.weight(3, 3, 4, 8)).graph()
    assert kinds(simplified(graph)) == ["Mul", "Add", "Conv"]


def test_a_scale_before_zero_padding_goes() -> None:
    net = Net(1, 6, 6, 4)
    net.then(Mul(), net.weight(4))
    graph = net.then(conv(pad=1), net.weight(3, 3, 4, 8)).graph()
    assert kinds(simplified(graph)) == ["Conv"]


def test_batch_norm_behind_an_activation_stays_for_the_epilogue() -> None:
    net = Net(1, 6, 6, 4)
    graph = net.then(conv(), net.weight(3, 3, 4, 8)).then(Relu()).norm(8).graph()
    assert kinds(simplified(graph)) == ["Conv", "Relu", "Mul", "Add"]


@pytest.mark.parametrize("transpose_b", [False, True])
def test_scales_fold_into_a_matrix_product_on_both_sides(transpose_b: bool) -> None:
    net = Net(2, 5)
    net.then(Mul(), net.weight(5)).then(Add(), net.weight(1, 5))
    shape = (7, 5) if transpose_b else (5, 7)
    net.then(MatMul(transpose_b=transpose_b), net.weight(*shape))
    net.then(Sub(), net.weight(7)).then(Div(), net.builder.constant("d", np.float32([4.0])))
    assert kinds(simplified(net.graph())) == ["MatMul"]


@pytest.mark.parametrize("pad", [0, 1])
def test_divisions_fold_into_a_convolution_on_both_sides(pad: int) -> None:
    net = Net(1, 6, 6, 3)
    net.then(Sub(), net.weight(3)).then(Div(), net.builder.constant("d", np.float32([3, 5, 7])))
    net.then(conv(pad=pad), net.weight(3, 3, 3, 4))
    net.then(Div(), net.builder.constant("e", np.float32([0.3])))
    assert kinds(simplified(net.graph())) == (["Add"] if pad else []) + ["Conv"]


def test_a_division_by_zero_is_not_folded_away() -> None:
    net = Net(1, 6, 6, 3)
    net.then(conv(), net.weight(3, 3, 3, 2)).then(
        Div(), net.builder.constant("d", np.float32([0.0]))
    )
    assert kinds(run_passes(net.graph())) == ["Conv", "Div"]


def test_a_value_with_two_readers_is_not_folded_away() -> None:
    net = Net(1, 6, 6, 4)
    net.then(conv(), net.weight(1, 1, 4, 4), name="first")
    first = net.value
    net.then(Mul(), net.weight(4))
    net.then(Add(), first)
    result = simplified(net.graph())
    assert kinds(result) == ["Conv", "Mul", "Add"]


def test_an_inner_value_that_is_an_output_keeps_its_value() -> None:
    net = Net(1, 6, 6, 4)
    net.then(conv(), net.weight(1, 1, 4, 4))
    net.builder.output(net.value)
    graph = net.then(Mul(), net.weight(4)).graph()
    assert len(simplified(graph).outputs) == 2


def test_shared_weights_are_scaled_for_one_reader_only() -> None:
    net = Net(1, 5, 5, 3)
    weight = net.weight(1, 1, 3, 3)
    net.then(conv(), weight).then(Mul(), net.weight(3)).then(conv(), weight)
    assert kinds(simplified(net.graph())) == ["Conv", "Conv"]


@pytest.mark.parametrize(
    ("op", "value"),
    [
        (MaxPool((2, 2), (1, 1), ((0, 0), (0, 0)), (1, 1)), float("-inf")),
        (AveragePool((2, 2), (1, 1), ((0, 0), (0, 0)), (1, 1)), 0.0),
    ],
)
def test_padding_joins_pools(op: Op, value: float) -> None:
    graph = Net(1, 5, 5, 3).then(Pad(((0, 0), (1, 0), (0, 1), (0, 0)), value)).then(op).graph()
    assert kinds(simplified(graph)) == [op.kind]


def test_padding_joins_convolutions_only_where_it_is_zero() -> None:
    for value, expected in ((0.0, ["Conv"]), (1.0, ["Pad", "Conv"])):
        net = Net(1, 5, 5, 3).then(Pad(((0, 0), (1, 2), (0, 1), (0, 0)), value))
        graph = net.then(conv(pad=1), net.weight(3, 3, 3, 4)).graph()
        assert kinds(simplified(graph)) == expected


def test_zero_padding_does_not_join_a_max_pool() -> None:
    pool = MaxPool((2, 2), (1, 1), ((0, 0), (0, 0)), (1, 1))
    graph = Net(1, 5, 5, 3).then(Pad(((0, 0), (1, 1), (1, 1), (0, 0)))).then(pool).graph()
    assert kinds(simplified(graph)) == ["Pad", "MaxPool"]


def test_padding_that_fills_a_window_stays() -> None:
    """A pool may not have windows that lie wholly in its own padding."""
    net = Net(1, 4, 4, 2).then(Pad(((0, 0), (0, 3), (0, 0), (0, 0)), float("-inf")))
    net.then(MaxPool((2, 2), (1, 1), ((0, 0), (0, 0)), (1, 1)))
    assert kinds(simplified(net.then(Clip(-9.0, 9.0)).graph())) == ["Pad", "MaxPool", "Clip"]


def test_one_dimension_becomes_two() -> None:
    net = Net(2, 9, 3)
    net.then(Conv((2,), ((1, 0),), (1,)), net.weight(3, 3, 4), net.weight(4))
    net.then(MaxPool((2,), (2,), ((0, 0),), (1,)))
    result = simplified(net.graph())
    assert kinds(result) == ["Reshape", "Conv", "MaxPool", "Reshape"]


def test_elementwise_operators_stay_neighbours_of_lifted_convolutions() -> None:
    net = Net(1, 9, 4)
    start = net.value
    one = Conv((1,), ((1, 1),), (1,), 1)
    net.then(one, net.weight(3, 4, 4)).then(Mul(), net.weight(1, 1, 4)).then(Relu())
    net.then(one, net.weight(3, 4, 4)).then(Add(), start).then(Relu())
    net.then(one, net.weight(3, 4, 2)).then(Mul(), net.weight(9, 2))  # not per channel
    found = kinds(simplified(net.graph()))
    assert found == ["Reshape", "Conv", "Relu", "Conv", "Add", "Relu", "Conv", "Reshape", "Mul"]


def pruned(filters: int, *, inputs: bool, bias: float, act: Op) -> tuple[Graph, list[int]]:
    """Two convolutions with a depthwise one and a pool between them, and the middle's channels.

    The last `filters` of 8 channels are zero in the first convolution, or in the second.
    """
    net = Net(1, 9, 8, 3)
    first, between, second = (net.rng.standard_normal(s) for s in (
        (3, 3, 3, 8), (3, 3, 1, 8), (3, 3, 8, 5)))  # fmt: skip
    zeros = second[:, :, 8 - filters :] if inputs else first[..., 8 - filters :]
    zeros[...] = 0.0
    biases = np.full(8, bias, np.float32)
    weights = [net.builder.constant("w", w.astype(np.float32)) for w in (first, between, second)]
    net.then(conv(pad=1), weights[0], net.builder.constant("b", biases)).then(act)
    net.then(conv(pad=1, group=8), weights[1]).then(Mul(), net.weight(8))
    net.then(MaxPool((2, 2), (2, 2), ((0, 0), (0, 0)), (1, 1))).then(conv(pad=1), weights[2])
    graph = simplified(net.graph())
    convs = [node for node in graph.nodes if node.op.kind == "Conv"]
    return graph, [graph.types[node.output].shape[-1] for node in convs]


@pytest.mark.parametrize(
    ("filters", "inputs", "bias", "left"),
    [
        (3, True, 1.0, 5),
        (3, False, -1.0, 5),
        (3, False, 1.0, 8),
        (8, False, 0.0, 1),
        (0, True, 0.0, 8),
    ],
)
def test_channels_that_are_zero_are_left_out(
    filters: int, inputs: bool, bias: float, left: int
) -> None:
    graph, channels = pruned(filters, inputs=inputs, bias=bias, act=Relu())
    assert channels == [left, left, 5]
    assert run_passes(graph) == graph


@pytest.mark.parametrize("counts", [False, True])
@pytest.mark.parametrize("bias", [2.0, -2.0])
@pytest.mark.parametrize("shift", [0.0, 1.5, -1.5])
def test_counted_padding_changes_what_is_constant(counts: bool, bias: float, shift: float) -> None:
    """Behind such a pool a channel of one number is another number at the border."""
    net = Net(1, 6, 6, 3)
    first = net.rng.standard_normal((1, 1, 3, 4)).astype(np.float32)
    first[..., 1:] = 0.0
    constants = [first, np.float32([bias] * 4), np.float32([shift] * 4)]
    weights, biases, shifts = (net.builder.constant("c", c) for c in constants)
    net.then(conv(), weights, biases)
    net.then(AveragePool((3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), counts))
    net.then(Sub(), shifts).then(Mul(), net.builder.constant("m", np.float32([-1.0])))
    net.then(Relu(), name="relu").then(conv(pad=1), net.weight(3, 3, 4, 5))
    simplified(net.graph())


def test_a_channel_that_others_read_stays() -> None:
    net = Net(1, 6, 6, 4)
    weights = net.rng.standard_normal((1, 1, 4, 4)).astype(np.float32)
    weights[..., 1:] = 0.0
    start = net.then(conv(), net.builder.constant("w", weights)).value
    net.then(conv(pad=1), net.weight(3, 3, 4, 4)).then(Add(), start)
    graph = simplified(net.graph())
    assert [graph.types[n.output].shape[-1] for n in graph.nodes if n.op.kind == "Conv"] == [4, 4]


def test_reshapes_and_transposes_merge_and_vanish() -> None:
    net = Net(1, 4, 6, 2).then(Transpose((0, 2, 1, 3))).then(Identity())
    net.then(Transpose((0, 2, 1, 3))).then(Reshape((1, 48))).then(Reshape((2, 24)))
    assert kinds(simplified(net.graph())) == ["Reshape"]


@pytest.mark.parametrize("first", [(1, 9, 2), (8, -1, -3), (9, 2, -1)])
@pytest.mark.parametrize("second", [(0, 2, 1), (2, -1, -2), (1, 3, 1)])
def test_slices_of_slices_are_one(
    first: tuple[int, int, int], second: tuple[int, int, int]
) -> None:
    net = Net(2, 10)
    for start, end, step in (first, second):
        net.then(Slice((0, start), (2, end), (1, step)))
    assert kinds(simplified(net.graph())) == ["Slice"]


def test_equal_nodes_are_computed_once_and_dead_ones_never() -> None:
    net = Net(1, 8)
    source = net.value
    weight = net.weight(8, 8)
    left = net.builder.node(MatMul(), [source, weight], name="a")
    right = net.builder.node(MatMul(), [source, weight], name="b")
    net.builder.node(Relu(), [left], name="unused")
    net.value = net.builder.node(Add(), [left, right], name="sum")
    assert kinds(simplified(net.graph())) == ["MatMul", "Add"]


def test_what_is_constant_is_computed_at_once() -> None:
    net = Net(1, 8)
    scale = net.builder.node(Mul(), [net.weight(8), net.weight(8)], name="scale")
    net.then(Mul(), scale)
    result = simplified(net.graph())
    assert kinds(result) == ["Mul"]
    assert len(result.constants) == 1


def test_what_reads_a_constant_output_is_computed_at_once_too() -> None:
    net = Net(1, 4)
    known = net.builder.node(Add(), [net.weight(4), net.weight(1)], name="known")
    more = net.builder.node(Mul(), [known, known], name="more")
    net.then(Mul(), more)
    net.builder.output(known)
    assert sorted(kinds(simplified(net.graph()))) == ["Identity", "Mul"]


@pytest.mark.parametrize(("size", "folded"), [(4096, True), (4097, False)])
def test_what_would_grow_is_left_to_the_network(size: int, folded: bool) -> None:
    net = Net(1, size)
    known = net.builder.node(Expand((1, size)), [net.weight(1, 1)], name="known")
    found = kinds(simplified(net.then(Add(), known).graph()))
    assert ("Expand" not in found) is folded


@pytest.mark.parametrize("own", [0, 1])
@pytest.mark.parametrize("counts", [False, True])
def test_padding_joins_averages_that_count_it(own: int, counts: bool) -> None:
    """Or that have their own padding, which they would not count."""
    net = Net(1, 5, 6, 2).then(Pad(((0, 0), (1, 0), (0, 1), (0, 0))))
    net.then(AveragePool((2, 2), (1, 1), ((own, own), (own, 0)), (1, 1), counts))
    found = kinds(simplified(net.graph()))
    assert found == (["AveragePool"] if counts or not own else ["Pad", "AveragePool"])


def test_passes_leave_the_given_graph_alone_and_are_idempotent() -> None:
    net = Net(1, 6, 6, 4)
    graph = net.then(conv(), net.weight(3, 3, 4, 8)).norm(8).graph()
    once = run_passes(graph)
    assert kinds(graph) == ["Conv", "BatchNormalization"]
    twice = run_passes(once)
    assert kinds(twice) == kinds(once)


@pytest.mark.parametrize("batch", [1, 2])
def test_a_window_as_large_as_its_input_is_a_matrix_product(batch: int) -> None:
    net = Net(batch, 3, 2, 4)
    net.then(conv(), net.weight(3, 2, 4, 5), net.weight(5)).norm(5).then(Relu())
    assert kinds(simplified(net.graph())) == ["Reshape", "MatMul", "Relu"]


def test_a_pixel_is_a_matrix_product_at_once() -> None:
    net = Net(1, 1, 1, 4)
    net.then(conv(), net.weight(1, 1, 4, 5))
    assert kinds(simplified(net.graph())) == ["MatMul"]


def test_other_windows_stay_convolutions() -> None:
    for op, kernel in ((conv(), (2, 2)), (conv(pad=1), (3, 3)), (conv(group=2), (3, 3))):
        net = Net(1, 3, 3, 4)
        net.then(op, net.weight(*kernel, 4 // op.group, 6))
        assert kinds(simplified(net.graph())) == ["Conv"]


def upsampling(net: Net, height: int, width: int, **attributes: str) -> Net:
    return net.then(Resize("nearest", (height, width), **attributes))


@pytest.mark.parametrize("kernel", [(1, 1), (3, 3), (2, 5)])
@pytest.mark.parametrize("pads", [((0, 0), (0, 0)), ((1, 1), (1, 1)), ((0, 1), (2, 0))])
@pytest.mark.parametrize("scales", [(2, 2), (1, 3), (4, 1)])
def test_depthwise_convolutions_take_in_upsamplings(
    kernel: tuple[int, int], pads: Pads, scales: tuple[int, int]
) -> None:
    net = upsampling(Net(1, 4, 5, 3), 4 * scales[0], 5 * scales[1])
    op = Conv((1, 1), pads, (1, 1), group=3)
    graph = net.then(op, net.weight(*kernel, 1, 3), net.weight(3)).graph()
    inside = all(p < k for k, pair in zip(kernel, pads, strict=True) for p in pair)
    expected = ["ConvTranspose"] if inside else ["Resize", "Conv"]
    if kernel == (1, 1) and inside:
        expected = ["Conv", "Resize"]
    assert kinds(simplified(graph)) == expected


@pytest.mark.parametrize(
    ("strides", "pads"),
    [((2, 2), ((0, 0), (0, 0))), ((1, 2), ((0, 0), (0, 0))), ((1, 1), ((0, 0), (1, 1)))],
)
def test_pointwise_convolutions_with_strides_or_pads_stay_behind_upsamplings(
    strides: tuple[int, int], pads: Pads
) -> None:
    """They read some of the repeated pixels, or zeros between them."""
    net = upsampling(Net(1, 4, 5, 3), 8, 10)
    op = Conv(strides, pads, (1, 1))
    graph = net.then(op, net.weight(1, 1, 3, 2), net.weight(2)).graph()
    after = simplified(graph)
    x = np.random.default_rng(1).standard_normal((1, 4, 5, 3))
    (name,) = graph.inputs
    right, found = (evaluate(g, {name: x})[g.outputs[0]] for g in (graph, after))
    np.testing.assert_allclose(found, right, atol=1e-6)


def test_convolutions_are_cut_where_an_upsampling_is_joined() -> None:
    net = Net(1, 4, 5, 3)
    skip = net.builder.input("skip", (1, 8, 10, 2))
    net = upsampling(net, 8, 10).then(Concat(3), skip)
    graph = net.then(conv(pad=1, group=5), net.weight(3, 3, 1, 5), net.weight(5)).graph()
    assert kinds(simplified(graph)) == ["ConvTranspose", "Conv", "Concat"]


def test_upsamplings_stay_where_others_read_them_or_pixels_are_mixed() -> None:
    net = upsampling(Net(1, 4, 4, 3), 8, 8)
    net.builder.output(net.value)
    graph = net.then(conv(pad=1, group=3), net.weight(3, 3, 1, 3)).graph()
    assert sorted(kinds(simplified(graph))) == ["ConvTranspose", "Resize"]
    shifted = upsampling(Net(1, 4, 4, 3), 8, 8, coordinate="asymmetric", rounding="ceil")
    graph = shifted.then(conv(pad=1, group=3), shifted.weight(3, 3, 1, 3)).graph()
    assert kinds(simplified(graph)) == ["Resize", "Conv"]
    uneven = upsampling(Net(1, 4, 4, 3), 6, 8)
    graph = uneven.then(conv(pad=1, group=3), uneven.weight(3, 3, 1, 3)).graph()
    assert kinds(simplified(graph)) == ["Resize", "Conv"]


def test_pixels_are_computed_before_they_are_repeated() -> None:
    net = upsampling(Net(1, 3, 4, 5), 6, 8)
    net.then(conv(), net.weight(1, 1, 5, 7), net.weight(7)).norm(7).then(Relu())
    assert kinds(simplified(net.graph())) == ["Conv", "Relu", "Resize"]


def test_pixels_stay_repeated_where_that_is_less_work() -> None:
    net = upsampling(Net(1, 3, 4, 2), 6, 8)
    net.then(conv(), net.weight(1, 1, 2, 9))
    assert kinds(simplified(net.graph())) == ["Resize", "Conv"]
    net = upsampling(Net(1, 3, 4, 5), 6, 8)
    net.then(Add(), net.weight(6, 8, 5))
    assert kinds(simplified(net.graph())) == ["Resize", "Add"]
    net = upsampling(Net(1, 3, 4, 5), 6, 8)
    net.builder.output(net.value)
    assert kinds(simplified(net.then(Relu()).graph())) == ["Resize", "Relu"]


def test_what_is_joined_for_one_layer_comes_right_before_it() -> None:
    net = upsampling(Net(1, 3, 4, 5), 6, 8)
    up, skip = net.value, net.builder.input("skip", (1, 6, 8, 2))
    net.value = skip
    lateral = net.then(conv(), net.weight(1, 1, 2, 4)).value
    net.value = up
    joined = net.then(Concat(3), lateral).value
    net.value = skip
    net.builder.output(net.then(Relu()).value)
    net.value = joined
    graph = simplified(net.then(conv(pad=1), net.weight(3, 3, 9, 3)).graph())
    assert kinds(graph) == ["Conv", "Relu", "Resize", "Concat", "Conv"]


def test_concatenations_read_those_before_them() -> None:
    net = Net(1, 3, 4, 2)
    x = net.value
    y = net.then(Relu()).value
    first = net.then(Concat(3), x, name="yx").value
    net.builder.output(first)
    net.value = x
    z = net.then(Concat(3), y, x, y, x, name="xyxyx").value
    net.builder.output(z)
    net.value = x
    graph = simplified(net.then(Concat(3), y, x, name="xyx").graph())
    joins = {n.output: n.inputs for n in graph.nodes if n.op.kind == "Concat"}
    assert joins["xyx"] == (x, first)
    assert joins["xyxyx"] == (x, y, x, y, x)  # it is there twice: nothing is gained


def test_outputs_keep_their_names_and_producers() -> None:
    """Also where an output is an input, or the same as another output."""
    b = GraphBuilder("net")
    x = b.input("x", (1, 4))
    same = b.node(Identity(), [x], name="same")
    y = b.node(Relu(), [x], name="y")
    again = b.node(Identity(), [y], name="again")
    more = b.node(Reshape((1, 4)), [again], name="more")
    for value in (same, y, again, more):
        b.output(value)
    graph = simplified(b.build())
    assert graph.outputs == ("same", "y", "again", "more")
