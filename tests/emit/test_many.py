"""`<name>_run_many` gives the bits of single calls, for any number of inputs."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cannery.choose.defaults import Defaults
from cannery.choose.plan import make_segments
from cannery.emit.dispatch import dispatching_files
from cannery.emit.files import output_files
from cannery.emit.making import make_source
from cannery.emit.many import Many
from cannery.emit.parallel import Parallel
from cannery.emit.source import Source
from cannery.ir.graph import Graph, GraphBuilder
from cannery.layouts import nhwc
from cannery.lowering.assign import assign
from cannery.lowering.stack import Stack
from cannery.ops.concat.op import Concat
from cannery.ops.conv.op import Conv
from cannery.ops.elementwise.activations import Relu, Sigmoid
from cannery.ops.elementwise.binary import Add
from cannery.ops.matmul.op import MatMul
from cannery.ops.movement.op import Reshape
from cannery.ops.softmax.op import Softmax
from cannery.target.isa import isa
from emit.c_programs import LANGUAGES, Files, build, compile_file, run, write_all
from nets.net_bench import all_stacked


def two_heads(batch: int = 1) -> Graph:
    """An image and a hint -> a trunk, then dense layers of two heads, a residual, and a late layer.

    The steps alternate: stacked ones, single ones, stacked ones again.
    """
    rng = np.random.default_rng(3)
    b = GraphBuilder("net")

    def weight(*shape: int) -> str:
        return b.constant("w", rng.standard_normal(shape).astype(np.float32))

    x = b.input("image", (batch, 6, 6, 2))
    hint = b.input("hint", (batch, 5))
    conv = Conv((1, 1), ((1, 1), (1, 1)), (1, 1))
    x = b.node(conv, [x, weight(3, 3, 2, 4), weight(4)], name="conv")
    x = b.node(Relu(), [x], name="relu")
    flat = b.node(Reshape((batch, 144)), [x], name="flat")
    flat = b.node(Concat(1), [flat, hint], name="with_hint")
    a = b.node(MatMul(), [flat, weight(149, 24), weight(24)], name="a")
    a = b.node(Sigmoid(), [a], name="a_sigmoid")
    c = b.node(MatMul(), [a, weight(24, 24)], name="c")
    c = b.node(Add(), [c, a], name="c_added")
    late = b.node(Softmax(1), [c], name="late")
    b.output(b.node(MatMul(), [late, weight(24, 3), weight(3)], name="scores"))
    b.output(b.node(MatMul(), [flat, weight(149, 2)], name="place"))
    return b.build()


def stacked_source(graph: Graph, isa_name: str, sizes: tuple[int, ...]) -> Source:
    """The network, with everything stacked that can be."""
    target = isa(isa_name)
    segments = make_segments(graph)
    plan = Defaults(graph, segments, target, nhwc.ORDER, 1e-4).plan()
    steps = plan.steps(segments)
    program = assign(graph, steps, plan.choices, target)
    stacks = [all_stacked(graph, steps, plan.choices, target, size) for size in sizes]
    return make_source(program, target, "net", {}, stacks)


MAIN = """
#include "net.h"
#include <stdio.h>
#include <string.h>
enum { MOST = 19 };
static float image[MOST * NET_IMAGE_LEN], hint[MOST * NET_HINT_LEN];
static float scores[(MOST + 1) * NET_SCORES_LEN], place[(MOST + 1) * NET_PLACE_LEN];
static float one_scores[NET_SCORES_LEN], one_place[NET_PLACE_LEN];
static double memory[NET_MANY_WORKSPACE_BYTES / 8 + 8];
int main(void)
{
    void *const workspace = (char *)memory + (64 - (size_t)memory % 64) % 64;
    unsigned wrong = 0, state = 1;
    for (int i = 0; i < MOST * NET_IMAGE_LEN; ++i) {
        state = state * 1664525u + 1013904223u;
        image[i] = (float)(state >> 16) / 32768.0f - 1.0f;
    }
    for (int i = 0; i < MOST * NET_HINT_LEN; ++i) {
        hint[i] = (float)i;
    }
    for (int n = -1; n <= MOST; ++n) {
        const size_t count = n < 0 ? 0u : (size_t)n;
        memset(scores, 0x7f, sizeof scores);
        memset(place, 0x7f, sizeof place);
        net_run_many(workspace, n, image, hint, scores, place);
        for (size_t i = 0; i < count; ++i) {
            net_run_in(workspace, image + i * NET_IMAGE_LEN, hint + i * NET_HINT_LEN, one_scores,
                       one_place);
            wrong += memcmp(one_scores, scores + i * NET_SCORES_LEN, sizeof one_scores) != 0;
            wrong += memcmp(one_place, place + i * NET_PLACE_LEN, sizeof one_place) != 0;
        }
        memset(one_scores, 0x7f, sizeof one_scores);
        wrong += memcmp(scores + count * NET_SCORES_LEN, one_scores, sizeof one_scores) != 0;
    }
    printf("%u", wrong);
    return 0;
}
"""


@pytest.mark.parametrize("isa_name", ["generic", "sse2"])
@pytest.mark.parametrize("sizes", [(), (8, 4, 2), (5, 3)])
def test_the_same_bits_as_single_calls(
    tmp_path: Path, isa_name: str, sizes: tuple[int, ...]
) -> None:
    source = stacked_source(two_heads(), isa_name, sizes)
    assert [chunk.images for chunk in source.many.chunks] == list(sizes)
    files: Files = {**output_files(source, "test"), "main.c": MAIN}
    assert run(build(tmp_path, files)) == b"0"


def test_a_batch_of_images_is_one_input(tmp_path: Path) -> None:
    source = stacked_source(two_heads(batch=2), "generic", (4, 2))
    assert len(source.many.chunks) == 2
    files: Files = {**output_files(source, "test"), "main.c": MAIN}
    assert run(build(tmp_path, files)) == b"0"


@pytest.mark.parametrize("language", LANGUAGES)
def test_it_compiles_everywhere(tmp_path: Path, language: str) -> None:
    write_all(tmp_path, output_files(stacked_source(two_heads(), "generic", (4, 2)), "test"))
    for source in ("net.c", "net_static.c", "net_selftest.c"):
        compile_file(tmp_path, source, language, ["-O2"])


def test_steps_alternate() -> None:
    source = stacked_source(two_heads(), "generic", (4,))
    (chunk,) = source.many.chunks
    kinds = [phase.stacked for phase in chunk.phases]
    assert False in kinds[1:], "what is not stacked comes between"
    assert sum(kinds) == 4
    covered = [index for phase in chunk.phases for index in phase.steps]
    assert covered == list(range(len(source.program.steps)))


def test_a_chunk_without_stacked_steps_is_none() -> None:
    source = stacked_source(two_heads(), "generic", ())
    assert source.many_bytes == source.workspace.bytes
    empty = make_source(source.program, source.isa, "net", {}, [Stack(4)])
    assert empty.many.chunks == ()


def test_weights_of_the_same_packing_are_stored_once() -> None:
    """The smaller chunk has the same choices, and so needs no extra weights."""
    graph = two_heads()
    source = stacked_source(graph, "generic", (4,))
    (first,) = source.many.chunks
    target = source.isa
    stack = all_stacked(
        graph,
        [p.step for p in source.program.steps],
        [p.choice for p in source.program.steps],
        target,
        4,
    )
    again = make_source(source.program, target, "net", {}, [stack, type(stack)(2, stack.choices)])
    large, small = again.many.chunks
    assert sum(c.values.nbytes for s in small.steps.values() for c in s.kernel.constants) == 0
    assert all(step.aliases for step in small.steps.values())
    assert large.steps.keys() == small.steps.keys() == first.steps.keys()


CLASS = """
#include "net.hpp"
#include <cstdio>
static net::Net network;
static float image[3 * NET_IMAGE_LEN], hint[3 * NET_HINT_LEN];
static float scores[3 * NET_SCORES_LEN], place[3 * NET_PLACE_LEN];
int main()
{
    network.run_many(3, image, hint, scores, place);
    network.run();
    std::printf("%d", scores[2 * NET_SCORES_LEN] == network.scores[0]);
    return 0;
}
"""


def test_the_class(tmp_path: Path) -> None:
    source = stacked_source(two_heads(), "generic", (2,))
    files: Files = {**output_files(source, "test"), "class.c": CLASS}
    assert run(build(tmp_path, files, "c++11 g++")) == b"1"


def _size(header: str, macro: str) -> tuple[int, ...]:
    """The numbers of bytes that a macro is made of."""
    (line,) = (line for line in header.splitlines() if line.startswith(f"#define NET_{macro}"))
    return tuple(int(n) for n in re.findall(r"\b(\d\d+|0)u\b", line))


@pytest.mark.parametrize("largest", [0, 1])
@pytest.mark.parametrize("what", ["workspace", "many", "threads"])
def test_a_choice_at_run_time_has_room_for_each(largest: int, what: str) -> None:
    """Every size is that of the part which needs most of it, whichever that is."""
    parts = [stacked_source(two_heads(), name, (3,)) for name in ("avx2", "sse2")]
    parallel = Parallel((), 64, 1, openmp=False)
    parts = [replace(p, name=f"net_{k}", parallel=parallel) for k, p in enumerate(parts)]
    some, room = parts[largest], 1 << 20
    parts[largest] = {
        "workspace": replace(some, workspace=replace(some.workspace, bytes=room)),
        "many": replace(some, many=Many((replace(some.many.chunks[0], bytes=room),))),
        "threads": replace(some, parallel=replace(parallel, thread_bytes=room)),
    }[what]
    header = dispatching_files("net", parts, "test")["net.h"].decode()
    assert _size(header, "WORKSPACE_BYTES") == (max(p.single_bytes for p in parts),)
    assert _size(header, "MANY_WORKSPACE_BYTES") == (max(p.many_bytes for p in parts),)
    (at_least, each) = _size(header, "PARALLEL_WORKSPACE_BYTES")
    assert at_least == max(p.parallel_base_bytes for p in parts)
    assert each == max(p.thread_bytes for p in parts)
    (every,) = _size(header, "MANY_PARALLEL_WORKSPACE_BYTES")
    assert every == max(p.many_thread_bytes for p in parts)
