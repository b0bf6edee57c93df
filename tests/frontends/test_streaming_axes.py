"""Which axis of an input is time, named or found, and which layer is to blame if none can be."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cannery.errors import OptionError, UnsupportedError
from cannery.frontends.streaming import AUTO, to_streaming
from cannery.ir.graph import Graph
from cannery.ops.conv.op import Conv
from cannery.ops.elementwise import Sub, Tanh
from cannery.ops.matmul.op import MatMul
from cannery.ops.movement.op import Pad, Reshape, Slice, Transpose
from cannery.ops.ordering.cumulative import CumProd, CumSum
from cannery.ops.ordering.extremes import TopK
from cannery.ops.reduce.op import ReduceMean
from cannery.ops.softmax.op import Softmax
from frontends.causal_builds import Build, chain, conv, network, node
from frontends.causal_nets import STEPS
from ops.cases import Net


def test_the_layer_that_is_to_blame_is_named() -> None:
    """Where channels could be time as well, but for the first layer."""
    b = Net()
    x = b.node(Transpose((0, 2, 1)), [b.input("x", (1, 3, STEPS))])
    y = b.node(CumProd(1), [conv(2, 0)(b, x)], name="mixes")
    with pytest.raises(UnsupportedError, match="layer 'mixes'"):
        to_streaming(b.graph(y))


def image(*, first: bool = False) -> Graph:
    """A window over rows and columns, either of which could be time; and numbers without steps."""
    b = Net()
    x, scale = b.input("x", (1, 4, 6, 3)), b.input("scale", (1, 4, 6, 3))
    x = b.node(Pad(((0, 0), (1, 0), (2, 0), (0, 0)), 0.0), [x])
    x = b.node(Conv((1, 1), ((0, 0), (0, 0)), (1, 1)), [x, b.weight(2, 3, 3, 2)])
    graph = b.graph(x, b.node(Tanh(), [scale]))
    return replace(graph, channels_first=frozenset(("x", "scale"))) if first else graph


@pytest.mark.parametrize(("first", "axes"), [(False, (1, 2)), (True, (2, 3))])
def test_the_axis_of_time_may_be_named(first: bool, axes: tuple[int, int]) -> None:
    """In the order of the model."""
    graph = image(first=first)
    rows, columns = (to_streaming(graph, time_axis={"x": axis, "scale": axis}) for axis in axes)
    assert rows.types["x"].shape == (1, 1, 6, 3) and columns.types["x"].shape == (1, 4, 1, 3)
    assert to_streaming(graph).types["x"].shape == (1, 1, 6, 3), "what is found alone"
    alone = to_streaming(graph, time_axis={"x": axes[1], "scale": "none"})
    assert alone.types["scale"].shape == (1, 4, 6, 3)
    assert alone.types["x"].shape == (1, 4, 1, 3)


@pytest.mark.parametrize(
    ("time_axis", "message"),
    [
        ({"y": 1}, "--time-axis: 'y' is not an input .*x, scale"),
        ({"x": 4}, "--time-axis: 'x' has the shape 1x4x6x3: no axis 4"),
        ({"x": 0}, "axis 0 has one step"),
    ],
)
def test_what_is_no_axis_of_time(time_axis: dict[str, int | str], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        to_streaming(image(), time_axis=time_axis)


def test_an_axis_that_cannot_be_time_is_an_error_of_the_layer() -> None:
    """No other axis is tried."""
    with pytest.raises(UnsupportedError, match="layer "):
        to_streaming(image(), time_axis={"x": 3})


@pytest.mark.parametrize("latency", [0, AUTO])
def test_an_axis_that_needs_no_later_steps_is_time(latency: int | str) -> None:
    """Channels before steps, and a convolution that is as wide on both sides of a channel."""

    def build(b: Net, x: str) -> str:
        planes = b.node(Reshape((1, 8, STEPS, 1)), [x])
        wide = b.node(Conv((1, 1), ((1, 1), (1, 0)), (1, 1)), [planes, b.weight(3, 2, 1, 1)])
        return b.node(Reshape((1, 8, STEPS)), [wide])

    b = Net()
    found = to_streaming(b.graph(build(b, b.input("x", (1, 8, STEPS)))), latency=latency)
    assert found.types["x"].shape == (1, 8, 1)
    assert found.calls is not None
    assert found.calls.latency == 0


def test_rows_of_frames_are_not_taken_for_time_by_chance() -> None:
    """Where the frames cannot be, as a layer mixes them; the rows can, if they are named."""
    b = Net()
    x = b.node(Softmax(1), [b.input("x", (1, 8, 4, 6, 2))])
    graph = b.graph(b.node(CumSum(2), [x]))
    with pytest.raises(UnsupportedError, match=r"axis 1 of 'x', the frames, .*--time-axis x=2 "):
        to_streaming(graph)
    assert to_streaming(graph, time_axis={"x": 2}).types["x"].shape == (1, 8, 1, 6, 2)


def test_frames_after_channels_are_time() -> None:
    """In the order of PyTorch, [N,C,T,H,W]; channels cannot be time, and need not be."""
    b = Net()
    pads = ((0, 0), (0, 0), (2, 0), (0, 0), (0, 0))
    x = b.node(Pad(pads, 0.0), [b.input("x", (1, 2, 9, 4, 3))])
    x = b.node(CumSum(1), [b.node(Transpose((0, 2, 3, 4, 1)), [x])])
    found = to_streaming(b.graph(b.node(Softmax(4), [x])))
    assert found.types["x"].shape == (1, 2, 1, 4, 3)


def test_a_network_without_a_past_streams_along_a_named_axis() -> None:
    """Its state is a number that stays 0; no other axis is known to be time."""
    graph = network(chain(conv(0, 0, taps=1), node(Tanh())))
    with pytest.raises(UnsupportedError, match=r"no state.*--time-axis"):
        to_streaming(graph)
    found = to_streaming(graph, 4, time_axis={"x": 1})
    assert found.types["x"].shape == (1, 4, 3)
    assert [found.types[state.input].elements for state in found.states] == [1]


def test_an_axis_whose_steps_reach_the_output_is_time() -> None:
    """Not that of channels, which a softmax mixes: an output is what it is after the last one."""
    b = Net()
    x = b.node(Softmax(1), [b.input("x", (1, 4, STEPS))])
    found = to_streaming(b.graph(b.node(CumSum(2), [x])))
    assert found.types["x"].shape == (1, 4, 1)


def test_errors_name_the_axis_that_was_time() -> None:
    """As the model counts axes; not if it is known."""
    turned = node(Slice((0, STEPS - 1, 0), (1, -1, 3), (1, -1, 1)))
    graph = network(chain(conv(2, 0), turned))
    with pytest.raises(UnsupportedError, match="turns time around, with axis 1 of 'x' as time; "):
        to_streaming(graph)
    first = replace(graph, channels_first=frozenset({"x"}))
    with pytest.raises(UnsupportedError, match="turns time around, with axis 2 of 'x' as time; "):
        to_streaming(first)
    with pytest.raises(UnsupportedError, match=r"turns time around \("):
        to_streaming(graph, time_axis={"x": 1})
    with pytest.raises(OptionError, match="looks ahead, by 1, with axis 1 of 'x' as time"):
        to_streaming(network(conv(1, 1)))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (node(Pad(((0, 0), (2, 0), (0, 0)), mode="reflect")), "'pad' .*later steps"),
        (lambda b, x: b.node(Sub(), [x, b.node(ReduceMean((1,), keepdims=True), [x])]),
         "'sub' .*when the sequence ends"),
        (node(TopK(1, 4, largest=True)), "'topk' .*works along time"),
    ],
)  # fmt: skip
def test_errors_are_about_the_longest_axis(build: Build, message: str) -> None:
    """Which time most likely is, although channels fail later; why these are not is said, too."""
    graph = network(chain(build, conv(2, 0)))
    channels = "; with axis 2 of 'x' as time: layer 'conv' .Conv.: it works along time"
    with pytest.raises(UnsupportedError, match=f"{message}.*, with axis 1 of 'x'.*{channels}"):
        to_streaming(graph)


@pytest.mark.parametrize(
    ("build", "layer"),
    [
        (node(Softmax(1)), "softmax"),
        (chain(node(Softmax(1)), node(Tanh()), lambda b, x: b.node(MatMul(), [x, b.weight(3, 2)])),
         "softmax"),
        (chain(node(Reshape((1, 3 * STEPS))), node(Tanh())), "reshape"),
    ],
)  # fmt: skip
def test_outputs_are_no_windows_of_all_steps(build: Build, layer: str) -> None:
    with pytest.raises(UnsupportedError, match=f"'{layer}' .*it needs all steps; '.*window"):
        to_streaming(network(chain(conv(2, 0), build)), time_axis={"x": 1})


def apart() -> Graph:
    """Two inputs as long, each with an output of its own."""
    b = Net()
    x, y = b.input("x", (1, STEPS, 3)), b.input("y", (1, STEPS, 3))
    return b.graph(conv(0, 2)(b, x), conv(2, 0)(b, y))


def test_inputs_that_share_no_layer_all_have_steps() -> None:
    """None of them silently stays a whole sequence, because it would be late."""
    found = to_streaming(apart(), latency=AUTO)
    assert found.types["x"].shape == found.types["y"].shape == (1, 1, 3)
    assert found.calls and found.calls.latency == 2
    with pytest.raises(OptionError, match=r"later steps; layer 'conv' .*--latency 2"):
        to_streaming(apart())
    kept = to_streaming(apart(), time_axis={"x": "none"})
    assert kept.types["x"].shape == (1, STEPS, 3)


def test_an_input_that_cannot_have_steps_is_named() -> None:
    b = Net()
    x, y = b.input("x", (1, STEPS, 3)), b.input("y", (1, STEPS, 3))
    graph = b.graph(b.node(CumProd(1), [b.node(MatMul(), [x, b.weight(3, 3)])]), conv(2, 0)(b, y))
    with pytest.raises(UnsupportedError, match=r"CumProd.*works along time"):
        to_streaming(graph)


def test_a_note_says_which_axis_is_time() -> None:
    notes = to_streaming(network(conv(2, 0))).notes
    assert notes == ("time is axis 1 of 'x'",)
