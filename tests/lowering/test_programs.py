"""Programs with their memory plans, run on labels: every step finds what it wants where it looks.

See `tests/lowering/interpreter.py` for what that means. Networks, cuts, schedules, parameters,
orders, views and scratch sizes are random; instruction sets take turns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cannery.choose.defaults import Defaults
from cannery.choose.plan import make_segments
from cannery.ir.graph import Graph, GraphBuilder
from cannery.ir.parser import parse_graph
from cannery.layouts import nhwc, planar
from cannery.lowering import lifetimes
from cannery.lowering.assign import MODEL_ORDER, assign
from cannery.lowering.lifetimes import Workspace, plan_workspace
from cannery.lowering.lower import cut
from cannery.ops.concat.op import Concat
from cannery.ops.concat.view import ConcatView
from cannery.ops.conv.op import Conv
from cannery.ops.elementwise import Add, Relu, Sigmoid, Tanh
from cannery.ops.max_pool.op import MaxPool
from cannery.ops.movement.op import Reshape, Slice
from cannery.ops.movement.part import MovementPart
from cannery.ops.movement.reshape import MovementReshape
from cannery.ops.softmax.op import Softmax
from cannery.options import make_options
from cannery.passes import run_passes
from cannery.pipeline import import_graph
from cannery.schedule.program import Choice, Program, Step
from cannery.schedule.schedule import legal
from cannery.target.isa import ISAS, Isa, isa
from frontends.keras_files import Model
from lowering.interpreter import FaultError, check_program
from lowering.networks import Integer, any_choices, shared_network
from nets.compilation import graph_of, models
from nets.decoders import decoder_graph
from nets.net_bench import may_be_view
from nets.random_graphs import random_graph
from nets.shuffles import shuffle_graph
from quantization.networks import decoder, residual, separable, sequences, unet, written

ORDERS = (nhwc.ORDER, planar.ORDER, MODEL_ORDER)

#: How much separate memory halos may have: all of them, a few, none.
PINNED = (lifetimes.PINNED_BYTES, 2000, 0)

SMALL = {"ball", "multihead"}


def check(
    graph: Graph, steps: Sequence[Step], choices: Sequence[Choice], isa: Isa, integer: Integer
) -> None:
    """Assign, plan and run on labels, with scratch memory for some steps."""
    order = ORDERS[integer(0, len(ORDERS) - 1)]
    views = [v for v in graph.inputs if order == nhwc.ORDER and may_be_view(graph, v)]
    program = assign(graph, steps, choices, isa, order, views if integer(0, 1) else ())
    scratch = [integer(0, 2) * 100 for _ in program.steps]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lifetimes, "PINNED_BYTES", PINNED[integer(0, len(PINNED) - 1)])
        fast_ram = (None, None, 2000, 10**6)[integer(0, 3)]
        workspace = plan_workspace(program, scratch, fast_ram=fast_ram)
    assert workspace.fast_bytes <= (fast_ram or 0)
    check_program(program, isa, workspace, scratch)


def _integer(rng: np.random.Generator) -> Integer:
    return lambda low, high: int(rng.integers(low, high + 1))


@pytest.mark.parametrize("name", ISAS)
def test_random_networks(name: str) -> None:
    target = isa(name)
    for seed in range(40):
        integer = _integer(np.random.default_rng([seed, *name.encode()]))
        graph = shared_network(integer) if seed % 4 else run_passes(random_graph(seed))
        check(graph, *any_choices(graph, target, integer), target, integer)


@given(st.data())
@settings(max_examples=100)
def test_networks_that_share_memory(data: st.DataObject) -> None:
    def integer(low: int, high: int) -> int:
        return data.draw(st.integers(low, high))

    graph = shared_network(integer)
    target = isa(data.draw(st.sampled_from(sorted(ISAS))))
    if graph.nodes:
        check(graph, *any_choices(graph, target, integer), target, integer)


def check_everywhere(graph: Graph, *ids: str, names: Iterable[str] = ISAS) -> None:
    """Any choices and the default ones; with `ids`, those schedules wherever they are legal."""
    used = set[str]()
    for number, name in enumerate(names):
        integer = _integer(np.random.default_rng(number))
        target = isa(name)
        if ids:
            steps, choices = _with(graph, target, ids, integer)
            check(graph, steps, choices, target, integer)
            used |= {choice.schedule.id for choice in choices}
            continue
        check(graph, *any_choices(graph, target, integer), target, integer)
        segments = make_segments(graph)
        plan = Defaults(graph, segments, target, nhwc.ORDER, 1e-4).plan()
        check(graph, plan.steps(segments), plan.choices, target, integer)
    assert used.issuperset(ids), f"{ids} are not all legal anywhere"


def _with(
    graph: Graph, target: Isa, ids: Sequence[str], integer: Integer
) -> tuple[Sequence[Step], Sequence[Choice]]:
    steps, choices = cut(graph), []
    for step in steps:
        ways = legal(graph, step, target)
        ways = [way for way in ways if way.id in ids] or ways
        way = ways[integer(0, len(ways) - 1)]
        candidates = way.candidates(graph, step, target)
        choices.append(Choice(way, candidates[integer(0, len(candidates) - 1)]))
    return steps, choices


@pytest.mark.parametrize("seed", range(2))
def test_decoders(seed: int) -> None:
    check_everywhere(run_passes(decoder_graph(seed)), names=("generic", "avx2", "neon64"))


@pytest.mark.parametrize("seed", range(2))
def test_shuffles(seed: int) -> None:
    check_everywhere(run_passes(shuffle_graph(seed)), names=("generic", "avx2", "neon64"))


@pytest.mark.parametrize("name", sorted(SMALL & models().keys()))
def test_real_networks(name: str) -> None:
    check_everywhere(graph_of(name), names=("sse2", "neon32"))


@pytest.mark.parametrize("make", [residual, unet, decoder, separable, sequences])
@pytest.mark.parametrize("dtype", ["int8", "int16"])
def test_integer_networks(make: Callable[[], Model], dtype: str, tmp_path: Path) -> None:
    check_everywhere(import_graph(make_options(*written(tmp_path, make(), dtype))))


GATED = """graph net
input x: float32[1x6x5x9]
const w: float32[1x1x9x9]
const v: float32[1x1x9x4]
conv = Conv(x, w) strides=(1, 1) pads=((0, 0), (0, 0)) dilations=(1, 1)
mean = ReduceMean(conv) axes=(1, 2) keepdims=True
gate = Sigmoid(mean)
scaled = Mul(conv, gate)
y = Conv(scaled, v) strides=(1, 1) pads=((0, 0), (0, 0)) dilations=(1, 1)
output y
"""


def test_squeezed_and_excited_channels_stay_where_they_are() -> None:
    graph = parse_graph(GATED)
    check_everywhere(graph, "movement.strided")
    segments = make_segments(graph)
    plan = Defaults(graph, segments, isa("avx2"), nhwc.ORDER, 1e-4).plan()
    program = assign(graph, plan.steps(segments), plan.choices, isa("avx2"))
    scaled, conv = program.buffers["scaled"], program.buffers["conv"]
    assert scaled.root == conv.root


WINDOWS = """graph net
input x: float32[1x6x5x9]
const w: float32[1x1x9x128]
const d: float32[3x3x1x128]
wide = Conv(x, w) strides=(1, 1) pads=((0, 0), (0, 0)) dilations=(1, 1)
y = Conv(wide, d) strides=(1, 1) pads=((0, 0), (0, 0)) dilations=(1, 1) group=128
output y
"""
FLAT = "flat = Reshape(wide) shape=(1, 3840)\noutput flat\n"


@pytest.mark.parametrize(
    ("name", "more", "pitch"), [("avx2", "", 144), ("avx2", FLAT, 128), ("generic", "", 128)]
)
def test_pixels_that_windows_read_do_not_share_cache_sets(name: str, more: str, pitch: int) -> None:
    target, graph = isa(name), parse_graph(WINDOWS + more)
    steps, choices = _with(graph, target, ["conv.depthwise_c"], lambda low, high: low)
    check(graph, steps, choices, target, lambda low, high: low)
    program = assign(graph, steps, choices, target)
    assert program.buffers["wide"].layout.col == pitch


def builder() -> tuple[GraphBuilder, str]:
    """A network with one input, an image."""
    made = GraphBuilder("net")
    return made, made.input("image", (1, 5, 6, 4))


def conv_3x3(b: GraphBuilder, x: str, name: str) -> str:
    """A convolution that keeps the shape."""
    channels = b.types[x].shape[-1]
    weight = b.constant("w", np.ones((3, 3, channels, channels), np.float32))
    return b.node(Conv((1, 1), ((1, 1), (1, 1)), (1, 1)), [x, weight], name=name)


@pytest.mark.parametrize("axis", [1, 2, 3])
def test_a_part_of_two_concatenations_is_in_both(axis: int) -> None:
    b, image = builder()
    part = b.node(Relu(), [image], name="part")
    b.output(b.node(Concat(axis), [image, part], name="one"))
    b.output(b.node(Concat(axis), [part, image, part], name="two"))
    check_everywhere(b.build(), ConcatView.id)


@pytest.mark.parametrize("axis", [1, 2, 3])
def test_a_part_that_is_a_reshape_is_copied(axis: int) -> None:
    b, image = builder()
    part = b.node(Reshape((1, 5, 6, 4)), [b.node(Relu(), [image], name="relu")], name="part")
    b.output(b.node(Concat(axis), [image, part], name="whole"))
    check_everywhere(b.build(), ConcatView.id, MovementReshape.id)


@pytest.mark.parametrize("axis", [1, 2, 3])
def test_neighbours_of_a_part_are_no_halo(axis: int) -> None:
    """A part that is read by a window, beside the concatenation that is."""
    b, image = builder()
    part = b.node(Relu(), [image], name="part")
    whole = b.node(Concat(axis), [b.node(Tanh(), [image], name="other"), part], name="whole")
    b.output(conv_3x3(b, part, "of_part"))
    b.output(conv_3x3(b, whole, "of_whole"))
    for schedule in ("conv.gemm", "conv.unrolled", "conv.direct_ic", "conv.direct_px"):
        check_everywhere(b.build(), ConcatView.id, schedule)


@pytest.mark.parametrize("read", ["inner", "part", "whole"])
def test_windows_over_a_part_of_a_concatenation_read_it_where_it_is(read: str) -> None:
    """Also over a part of a part: the whole has a halo for them, so nothing is copied."""
    b, image = builder()
    inner = b.node(Relu(), [image], name="inner")
    part = b.node(Concat(3), [inner, b.node(Tanh(), [image], name="tanh")], name="part")
    whole = b.node(Concat(3), [part, b.node(Sigmoid(), [image], name="other")], name="whole")
    b.output(conv_3x3(b, {"inner": inner, "part": part, "whole": whole}[read], "y"))
    b.output(b.node(Softmax(3), [whole], name="z"))
    graph, target = b.build(), isa("avx2")
    steps, choices = cut(graph), []
    for step in steps:
        ways = {way.id: way for way in legal(graph, step, target)}
        names = (ConcatView.id, "conv.direct_oc", "softmax.row", "movement.strided")
        way = ways[next(name for name in names if name in ways)]
        found = way.candidates(graph, step, target)
        params = next(p for p in found if p.get("order", nhwc.ORDER) == nhwc.ORDER)
        choices.append(Choice(way, params))
    program = assign(graph, steps, choices, target)
    kinds = [planned.step.kind for planned in program.steps]
    assert sorted(kinds) == ["Conv", "Relu", "Sigmoid", "Softmax", "Tanh"]


def channels(b: GraphBuilder, x: str, start: int, end: int) -> str:
    """These channels of an image."""
    n, h, w, _ = b.types[x].shape
    return b.node(Slice((0, 0, 0, start), (n, h, w, end), (1, 1, 1, 1)), [x], name=f"from_{start}")


@pytest.mark.parametrize("outputs", [1, 2])
def test_windows_over_some_channels_find_a_halo(outputs: int) -> None:
    """Of a value that is a part of a concatenation itself."""
    b, image = builder()
    x = b.node(Relu(), [image], name="x")
    left, right = channels(b, x, 0, 1), channels(b, x, 1, 4)
    found = conv_3x3(b, right, "of_right")
    b.output(b.node(Concat(3), [x, found], name="whole"))
    if outputs == 2:
        b.output(conv_3x3(b, channels(b, right, 1, 2), "of_inner"))
        b.output(left)
    for schedule in ("conv.gemm", "conv.unrolled", "conv.direct_oc", "conv.direct_px"):
        check_everywhere(b.build(), ConcatView.id, MovementPart.id, schedule)


def test_some_channels_are_no_step() -> None:
    """But the convolution may have them in another order, which an Identity makes."""
    b, image = builder()
    x = b.node(Relu(), [image], name="x")
    b.output(conv_3x3(b, channels(b, x, 1, 4), "y"))
    graph, target = b.build(), isa("avx2")
    segments = make_segments(graph)
    plan = Defaults(graph, segments, target, nhwc.ORDER, 1e-4).plan()
    program = assign(graph, plan.steps(segments), plan.choices, target)
    assert {step.step.kind for step in program.steps} == {"Relu", "Identity", "Conv"}


@pytest.mark.parametrize("outputs", [1, 2])
def test_what_is_read_later_is_not_taken_over(outputs: int) -> None:
    """A residual, and an output, around steps that could work in place."""
    b, image = builder()
    kept = conv_3x3(b, image, "kept")
    x = b.node(Softmax(3), [kept], name="softmax")
    x = b.node(Concat(3), [x, b.node(Tanh(), [kept], name="tanh")], name="whole")
    x = b.node(Slice((0, 0, 0, 2), (1, 5, 6, 6), (1, 1, 1, 1)), [x], name="slice")
    b.output(b.node(Add(), [x, kept], name="sum"))
    if outputs > 1:
        b.output(kept)
    graph = b.build()
    for ids in (("movement.strided", "softmax.row"), ("movement.strided", "softmax.across")):
        check_everywhere(graph, *ids)


def test_halos_in_shared_memory_are_cleared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "PINNED", (0,))
    b, x = builder()
    for k in range(6):
        x = conv_3x3(b, x, f"conv_{k}")
        x = b.node(MaxPool((3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1)), [x], name=f"pool_{k}")
    b.output(x)
    for name in ("conv.gemm", "conv.direct_ic", "conv.direct_px", "conv.winograd_planar"):
        check_everywhere(b.build(), name, "max_pool.direct_px")


def planned() -> tuple[Program, Workspace]:
    """A residual network whose halos share memory, for plain C."""
    b, x = builder()
    for k in range(4):
        x = b.node(Add(), [conv_3x3(b, x, f"conv_{k}"), x], name=f"sum_{k}")
    b.output(x)
    graph, target = b.build(), isa("generic")
    chosen = _with(graph, target, ("conv.unrolled",), lambda low, high: low)
    program = assign(graph, *chosen, target)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lifetimes, "PINNED_BYTES", 0)
        return program, plan_workspace(program, [64] * len(program.steps))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda w: w, ""),
        (lambda w: replace(w, offsets=dict.fromkeys(w.offsets, 0)), "should hold"),
        (lambda w: replace(w, zeroed={}), "its halo holds"),
        (lambda w: replace(w, scratch=dict.fromkeys(w.scratch, 0)), "holds garbage"),
    ],
)
def test_the_interpreter_sees_wrong_plans(
    wrong: Callable[[Workspace], Workspace], message: str
) -> None:
    program, workspace = planned()
    scratch = [64] * len(program.steps)
    if not message:
        check_program(program, isa("generic"), workspace, scratch)
        return
    with pytest.raises(FaultError, match=message):
        check_program(program, isa("generic"), wrong(workspace), scratch)


def test_the_interpreter_sees_steps_that_work_in_place_where_they_must_not() -> None:
    program, _ = planned()
    first = program.steps[0]
    buffers = dict(program.buffers)
    # The second convolution writes over its own input.
    source, target = program.steps[1].reads[0], program.steps[1].writes[0]
    buffers[target] = replace(buffers[target], root=source, layout=buffers[source].layout)
    wrong = replace(program, buffers=buffers)
    assert first.writes == (source,)
    with pytest.raises(FaultError, match="garbage"):
        check_program(wrong, isa("generic"), plan_workspace(wrong, []), [])
