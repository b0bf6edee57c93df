"""Quantised networks step by step: integers are kept from call to call, of one scale in all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import cannery
from cannery.errors import OptionError
from cannery.frontends.streaming import AUTO, declare_states, to_streaming
from cannery.ir.evaluate import evaluate
from cannery.ir.graph import Graph
from cannery.ir.tensor import DType
from cannery.ops.average_pool.op import AveragePool
from cannery.ops.concat.op import Concat
from cannery.ops.conv.op import Conv
from cannery.ops.elementwise import Add, Relu, Tanh
from cannery.ops.matmul.op import MatMul
from cannery.ops.max_pool.op import MaxPool
from cannery.ops.movement.op import Pad
from cannery.ops.recurrent.op import Rnn
from cannery.ops.softmax.op import Softmax
from cannery.options import make_options
from cannery.passes import run_passes
from cannery.pipeline import compile_graphs, import_graph
from cannery.quantization.quantize import quantize
from emit.stepping_models import F, causal
from frontends.causal_integers import FloatMaker
from frontends.causal_nets import in_calls, sequence, wanted_in
from frontends.keras_files import LayerSpec, chain, image, write_h5
from needs import need_program
from nets.stream_bench import quantized_alike
from ops.cases import Net

Array = NDArray[Any]

STEPS, BLOCKS = 96, (1, 4, 16)


def conv(b: Net, x: str, channels: int, dilation: int = 1, before: int | None = None) -> str:
    """A causal convolution of three steps."""
    op = Conv((1,), ((2 * dilation if before is None else before, 0),), (dilation,))
    return b.node(op, [x, b.weight(3, b.types[x].shape[-1], channels), b.weight(channels)])


def tcn(b: Net, x: str) -> str:
    """Convolutions, one after the other; the padding of one is not 0."""
    for dilation in (1, 2, 4):
        x = b.node(Relu(), [conv(b, x, 4, dilation)])
    return conv(b, b.node(Pad(((0, 0), (2, 0), (0, 0)), 0.4), [x]), 3, before=0)


def residual(b: Net, x: str) -> str:
    """A value that a convolution reads and a sum, both as integers; maxima and means."""
    x = conv(b, x, 4)
    x = b.node(Add(), [x, conv(b, b.node(Relu(), [conv(b, x, 4, 2)]), 4)])
    x = b.node(MaxPool((3,), (1,), ((2, 0),), (1,)), [x])
    x = b.node(AveragePool((2,), (1,), ((1, 0),), (1,), count_include_pad=True), [conv(b, x, 4)])
    return conv(b, b.node(Concat(2), [x, conv(b, x, 4)]), 2)


def paths(b: Net, x: str) -> str:
    """Convolutions of one and two steps: in a call of one, the first reads what is kept."""
    return parted(b, x, 1)


def apart(b: Net, x: str) -> str:
    """The same with steps that are four apart: so it is in a call of four."""
    return parted(b, x, 4)


def parted(b: Net, x: str, dilation: int) -> str:
    x = conv(b, x, 4)
    ends = [
        b.node(Conv((1,), (((taps - 1) * dilation, 0),), (dilation,)), [x, b.weight(taps, 4, 3)])
        for taps in (1, 2)
    ]
    return conv(b, b.node(Add(), ends), 2)


def also_floats(b: Net, x: str) -> str:
    """A value that convolutions of one and of three steps read, and an operator on floats."""
    x = conv(b, x, 4)
    ends = [
        b.node(Conv((1,), ((taps - 1, 0),), (1,)), [x, b.weight(taps, 4, 4)]) for taps in (1, 3)
    ]
    return b.node(Add(), [b.node(Add(), ends), b.node(Softmax(2), [x])])


INTEGERS = {"tcn": tcn, "residual": residual, "paths": paths, "apart": apart}
NETS = {**INTEGERS, "floats": also_floats}


def calls(folder: Path, name: str, dtype: DType) -> dict[int, Graph]:
    """The quantised network for calls of all sizes, with the scales of the first one."""
    b = Net(4)
    whole = b.graph(NETS[name](b, b.input("x", (1, STEPS, 3))))
    x = np.random.default_rng(1).standard_normal((1, STEPS, 3)).astype(np.float32)
    np.savez(folder / "samples.npz", x=x)
    found: dict[int, Graph] = {}
    for block in BLOCKS:
        graph = run_passes(to_streaming(whole, block, AUTO, BLOCKS), integers=True)
        facts = found[BLOCKS[0]].quantization if found else None
        ranges = facts.ranges if facts else None
        found[block] = quantize(graph, dtype, folder / "samples.npz", 0.1, ranges=ranges)
    return found


@pytest.mark.parametrize("dtype", [DType.INT8, DType.INT16])
@pytest.mark.parametrize("name", INTEGERS)
def test_calls_of_all_sizes_have_the_same_bits(tmp_path: Path, name: str, dtype: DType) -> None:
    graphs = calls(tmp_path, name, dtype)
    kept = [[(s, g.types[s.input]) for s in g.states] for g in graphs.values()]
    assert kept[0] == kept[1] == kept[2]
    assert {type_.dtype for _, type_ in kept[0]} == {dtype}
    x = np.random.default_rng(5).standard_normal((1, STEPS, 3)).astype(np.float32)
    found = [
        np.concatenate(in_calls(graphs, x, cuts)[0], 1)
        for cuts in ([1] * STEPS, [4, 1, 16, 1, 1, 1] * 4, [16] * 6)
    ]
    assert found[0].any()
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])


def test_values_that_stay_floats_have_one_scale_in_calls_of_all_sizes(tmp_path: Path) -> None:
    """Where single steps are read as vectors, two layers round the same value each for itself."""
    found = []
    for block, graph in calls(tmp_path, "floats", DType.INT16).items():
        assert graph.quantization
        found.append(graph.quantization.ranges)
        assert len(set(found[-1])) == len(found[-1]), block
    assert found[0] == found[1] == found[2]


def test_the_first_past_is_what_the_model_pads_with(tmp_path: Path) -> None:
    graph = calls(tmp_path, "tcn", DType.INT8)[1]
    last = graph.states[-1]
    assert graph.types[last.input].shape == (1, 2, 4)
    assert len(set(last.initial)) == 1 and last.initial[0].is_integer() and last.initial[0] > 0
    assert not any(state.initial for state in graph.states[:-1])


def test_a_past_that_is_read_as_floats_stays(tmp_path: Path) -> None:
    b = Net(4)
    y = b.node(Softmax(2), [conv(b, b.input("x", (1, 8, 3)), 3)])
    graph = b.graph(b.node(MaxPool((3,), (1,), ((2, 0),), (1,)), [y]))
    x = np.random.default_rng(1).standard_normal((1, 8, 3)).astype(np.float32)
    np.savez(tmp_path / "samples.npz", x=x)
    made = run_passes(to_streaming(graph), integers=True)
    made = quantize(made, DType.INT8, tmp_path / "samples.npz", 0.1)
    assert [made.types[s.input].dtype for s in made.states] == [DType.INT8, DType.FLOAT32]


def recurrent(b: Net, x: str) -> str:
    """A recurrent layer whose outputs have a scale of their own."""
    p = b.node(MatMul(), [x, b.weight(b.types[x].shape[-1], 3)])
    layer = Rnn(3, ((Tanh(),),), (False,), returns=("sequence",))
    (y,) = b.nodes(layer, [p, b.weight(1, 3, 3), ""], name="layer")
    return y


def skipped(b: Net, x: str) -> str:
    """An input that a convolution reads, and a sum with what it makes."""
    y = b.node(Relu(), [conv(b, b.node(Pad(((0, 0), (4, 0), (0, 0))), [x]), 3, 2, before=0)])
    return conv(b, b.node(Add(), [y, x]), 4)


def after_recurrent(b: Net, x: str) -> str:
    return conv(b, recurrent(b, x), 4)


def after_recurrent_floats(b: Net, x: str) -> str:
    """What a recurrent layer makes is read as floats, too."""
    y = recurrent(b, x)
    return b.node(Add(), [conv(b, y, 3), b.node(Softmax(2), [y])])


def mean_of_floats(b: Net, x: str) -> str:
    """Nothing reads the value but a mean, which stays one of floats."""
    x = b.node(Softmax(2), [conv(b, x, 4)])
    pool = AveragePool((3,), (1,), ((2, 0),), (1,), count_include_pad=True)
    return conv(b, b.node(pool, [x]), 4)


def largest(b: Net, x: str) -> str:
    """Maxima of an input, whose range is larger than theirs."""
    x = b.node(MaxPool((3,), (1,), ((2, 0),), (1,)), [x])
    return conv(b, x, 4)


ALIKE = (
    tcn,
    residual,
    paths,
    skipped,
    after_recurrent,
    after_recurrent_floats,
    mean_of_floats,
    largest,
)


def assert_alike(whole: Graph, dtype: DType, block: int) -> None:
    """Calls give the bits of the whole sequence, both quantised by themselves."""
    x = sequence(whole)
    calls = {block: to_streaming(whole, block)}
    judge, graphs = quantized_alike(whole, calls, x, dtype)
    made = np.concatenate(in_calls(graphs, x, [block] * (x.shape[1] // block))[0], 1)
    np.testing.assert_array_equal(made, evaluate(judge, {"x": x})[whole.outputs[0]])


@pytest.mark.parametrize("dtype", [DType.INT8, DType.INT16])
@pytest.mark.parametrize("net", ALIKE)
def test_calls_have_the_bits_of_the_whole_sequence(
    net: Callable[[Net, str], str], dtype: DType
) -> None:
    b = Net(4)
    whole = b.graph(net(b, b.input("x", (1, STEPS, 3))))
    assert_alike(whole, dtype, 8)


@pytest.mark.parametrize("dtype", [DType.INT8, DType.INT16])
def test_random_networks_have_the_bits_of_the_whole_sequence(dtype: DType) -> None:
    """Up to what the exponential functions of floats differ by. In the last one a stride takes no
    step that is as large as others.
    """
    compared = 0
    for seed, block in (*((seed, 12) for seed in range(8)), (100638, 2)):
        whole = FloatMaker(seed, rates=seed % 4 > 1).graph()
        x, calls = sequence(whole, seed), {block: to_streaming(whole, block, AUTO)}
        judge, graphs = quantized_alike(whole, calls, x, dtype)
        cuts = [block] * (x.shape[1] // block)
        found = zip(in_calls(graphs, x, cuts), wanted_in(judge, graphs, cuts, x), strict=False)
        for made, right in found:
            for ours, theirs in zip(made, right, strict=True):
                used = ~np.isnan(theirs)
                np.testing.assert_allclose(ours[used], theirs[used], atol=1e-6)
                compared += int(used.sum())
    assert compared > 1000


@pytest.mark.parametrize("dtype", [DType.INT8, DType.INT16])
def test_the_past_of_a_recurrent_layer_has_its_scale(dtype: DType) -> None:
    """Zeros, before the first step; other padding has a scale of its own, and stays floats."""
    for value, kept in ((0.0, dtype), (0.5, DType.FLOAT32)):
        b = Net(4)
        y = recurrent(b, b.input("x", (1, STEPS, 3)))
        whole = b.graph(conv(b, b.node(Pad(((0, 0), (2, 0), (0, 0)), value), [y]), 4, before=0))
        calls = {1: to_streaming(whole)}
        _, graphs = quantized_alike(whole, calls, sequence(whole), dtype)
        (state,) = (s for s in graphs[1].states if graphs[1].types[s.input].shape == (1, 2, 3))
        assert graphs[1].types[state.input].dtype is kept


def test_states_that_are_no_past_have_scales_of_their_own(tmp_path: Path) -> None:
    """What a layer reads of one step and makes for the next."""
    b = Net(4)
    x, h = b.input("x", (1, 3)), b.input("h", (1, 3))
    y = b.node(Relu(), [b.node(Add(), [b.node(MatMul(), [v, b.weight(3, 3)]) for v in (x, h)])])
    made = declare_states(b.graph(b.node(MatMul(), [y, b.weight(3, 2)]), y), {"h": y})
    np.savez(tmp_path / "samples.npz", x=np.random.default_rng(1).random((8, 3), np.float32))
    for raw in (False, True):
        found = quantize(made, DType.INT8, tmp_path / "samples.npz", 0.5, raw=raw)
        assert found.types["h"].dtype is DType.FLOAT32


def given(folder: Path, blocks: tuple[int, ...]) -> tuple[Path, dict[str, Any]]:
    x = np.random.default_rng(1).standard_normal((1, STEPS, F)).astype(np.float32)
    np.savez(folder / "samples.npz", x=x)
    options = {"streaming": True, "quantize": "int8", "calibration": folder / "samples.npz"}
    return write_h5(folder / "net.h5", causal(STEPS)), {**options, "block": blocks, "isa": "sse2"}


@pytest.mark.parametrize("order", [BLOCKS, BLOCKS[::-1]])
def test_libraries_with_blocks_have_the_scales_of_the_smallest(
    tmp_path: Path, order: tuple[int, ...]
) -> None:
    """As a library of that block alone."""
    need_program("gcc")
    file, options = given(tmp_path, order)
    each = [import_graph(one) for one in make_options(file, options).each_block]
    alone = import_graph(make_options(file, {**options, "block": 1}))
    assert alone.quantization
    assert {g.quantization.ranges for g in each if g.quantization} == {alone.quantization.ranges}
    several, one = (cannery.load(file, **{**options, "block": b}) for b in (order, 1))
    x = np.random.default_rng(2).standard_normal((1, 63, F)).astype(np.float32)
    state, found, at = several.new_state(), [], 0
    for size in (1, 16, 4, 1, 20, 16, 5):
        found.append(several.step(state, x[:, at : at + size]))
        at += size
    state = one.new_state()
    right = [one.step(state, x[:, k : k + 1]) for k in range(63)]
    np.testing.assert_array_equal(np.concatenate(found, 1), np.concatenate(right, 1))


def test_other_integers_in_calls_of_another_size_are_an_error(tmp_path: Path) -> None:
    file, raw = given(tmp_path, (1, 4))
    one, four = make_options(file, raw).each_block
    floats = import_graph(replace(four, quantize=None, calibration=None))
    with pytest.raises(OptionError, match=r"--quantize: calls of 4 steps keep another state"):
        compile_graphs([(import_graph(one), one), (floats, four)])


@pytest.mark.parametrize("blocks", [(1, 4), (4, 1)])
def test_integers_of_steps_that_wait_for_a_stride_are_refused(
    tmp_path: Path, blocks: tuple[int, ...]
) -> None:
    file, raw = given(tmp_path, blocks)
    kernel = np.random.default_rng(3).standard_normal((3, F, F)).astype(np.float32)
    config = {"filters": F, "kernel_size": 3, "padding": "causal", "strides": 2, "use_bias": False}
    layer = LayerSpec("Conv1D", "halved", (), config, {"kernel": kernel})
    write_h5(file, chain(image("x", STEPS, F), layer))
    options = make_options(file, raw)
    with pytest.raises(OptionError, match=r"calls of 1 steps.*multiples of 2"):
        for each in options.each_block:
            import_graph(each)


def test_states_that_change_seldom_are_calibrated_so(tmp_path: Path) -> None:
    """Layers after a stride of 2 have the same ranges in calls of 1 as in one of all steps. In
    calls that do not need them they read a step that no stride takes, which is much larger.
    """
    b = Net(4)
    y = b.node(Conv((2,), ((0, 0),), (1,)), [b.input("x", (1, STEPS, 3)), b.weight(1, 3, 4)])
    whole = b.graph(conv(b, y, 2))
    x = np.random.default_rng(1).standard_normal((1, STEPS, 3)).astype(np.float32)
    x[:, 1::2] *= 10
    np.savez(tmp_path / "samples.npz", x=x)
    found = []
    for block in (1, STEPS):
        graph = run_passes(to_streaming(whole, block), integers=True)
        made = quantize(graph, DType.INT8, tmp_path / "samples.npz", 0.1)
        assert made.quantization
        found.append(sorted({unit for _, unit in made.quantization.ranges}))
    np.testing.assert_allclose(*found, rtol=1e-6)


def test_a_sequence_that_ends_before_a_stride_has_no_ranges(tmp_path: Path) -> None:
    b = Net(4)
    x = b.node(Conv((3,), ((2, 0),), (1,)), [b.input("x", (1, 12, 3)), b.weight(3, 3, 4)])
    graph = run_passes(to_streaming(b.graph(x), 1), integers=True)
    for steps in (3, 2):
        np.savez(
            tmp_path / "samples.npz", x=np.arange(3 * steps, dtype=np.float32).reshape(1, -1, 3)
        )
        if steps == 3:
            quantize(graph, DType.INT8, tmp_path / "samples.npz", 0.1)
    with pytest.raises(OptionError, match="2 calls of 1 steps, but what layers with strides"):
        quantize(graph, DType.INT8, tmp_path / "samples.npz", 0.1)
