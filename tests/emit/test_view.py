"""Inputs that are regions of larger images: every stride and layout, nothing else is read."""

from __future__ import annotations

import subprocess
import warnings
from pathlib import Path

import numpy as np
import pytest

from cannery.choose.defaults import Defaults
from cannery.choose.plan import make_segments
from cannery.emit.files import output_files
from cannery.emit.interface import check_views
from cannery.emit.making import make_source
from cannery.emit.source import Source
from cannery.errors import OptionError
from cannery.ir.graph import Graph, GraphBuilder
from cannery.ir.tensor import DType
from cannery.layouts import nhwc, planar
from cannery.lowering.assign import assign
from cannery.ops.conv.op import Conv
from cannery.ops.elementwise.binary import Mul
from cannery.ops.matmul.op import MatMul
from cannery.ops.movement.op import Cast, Reshape
from cannery.schedule.schedule import all_schedules
from cannery.target.isa import isa
from emit.c_programs import LANGUAGES, Files, build, compile_file, run, write_all
from nets.net_bench import all_stacked

H, W = 7, 9


def network(channels: int, dtype: DType = DType.UINT8) -> Graph:
    """`image` of bytes or floats -> (scaled) convolution, dense layer -> `scores`."""
    rng = np.random.default_rng(1)
    b = GraphBuilder("net")

    def weight(*shape: int) -> str:
        return b.constant("w", rng.standard_normal(shape).astype(np.float32))

    x = b.input("image", (1, H, W, channels), dtype)
    if dtype == DType.UINT8:
        x = b.node(Cast(DType.FLOAT32), [x], name="cast")
        x = b.node(Mul(), [x, b.constant("s", np.asarray(1 / 255, np.float32))], name="scaled")
    conv = Conv((1, 1), ((1, 1), (1, 1)), (1, 1))
    x = b.node(conv, [x, weight(3, 3, channels, 4), weight(4)], name="conv")
    x = b.node(Reshape((1, H * W * 4)), [x], name="flat")
    b.output(b.node(MatMul(), [x, weight(H * W * 4, 3)], name="scores"))
    return b.build()


def view_source(graph: Graph, conv: str = "", isa_name: str = "generic") -> Source:
    """The network with its image as a view; `conv` is the schedule of the convolution, if given."""
    target = isa(isa_name)
    segments = make_segments(graph)
    plan = Defaults(graph, segments, target, nhwc.ORDER, 1e-4).plan()
    steps, choices = plan.steps(segments), list(plan.choices)
    for k, step in enumerate(steps):
        if conv and step.kind == "Conv":
            schedule = all_schedules()[conv]
            params = schedule.candidates(graph, step, target)[0]
            choices[k] = type(choices[k])(schedule, params)
    program = assign(graph, steps, choices, target, nhwc.ORDER, ["image"])
    stacks = [all_stacked(graph, steps, choices, target, 2)]
    return make_source(program, target, "net", {}, stacks)


MAIN = """
#include "net.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
typedef TYPE element;
enum { H = 7, W = 9, C = NET_IMAGE_LEN / (H * W) };
static double memory[NET_MANY_WORKSPACE_BYTES / 8 + 8];
static float dense[3 * NET_SCORES_LEN], viewed[NET_SCORES_LEN], many[3 * NET_SCORES_LEN];
static element tensor[3][H][W][C];
/* Regions in memory of exactly their size, for a sanitizer to watch. */
static unsigned trial(void *workspace, int pixel, int row)
{
    const element *regions[3];
    void *owned[3];
    unsigned wrong = 0;
    for (int n = 0; n < 3; ++n) {
        const int back_x = pixel < 0 ? -pixel * (W - 1) : 0, back_y = row < 0 ? -row * (H - 1) : 0;
        const int size = (H - 1) * abs(row) + (W - 1) * abs(pixel) + C;
        element *const all = (element *)malloc((size_t)size * sizeof *all);
        if (all == NULL) {
            exit(1);
        }
        owned[n] = all;
        memset(all, 0x7f, (size_t)size * sizeof *all);
        regions[n] = all + back_x + back_y;
        for (int y = 0; y < H; ++y) {
            for (int x = 0; x < W; ++x) {
                for (int c = 0; c < C; ++c) {
                    all[back_x + back_y + y * row + x * pixel + c] = tensor[n][y][x][c];
                }
            }
        }
        net_run_in(workspace, regions[n], pixel, row, viewed);
        wrong += memcmp(viewed, dense + n * NET_SCORES_LEN, sizeof viewed) != 0;
    }
    net_run_many(workspace, 3, regions, pixel, row, many);
    wrong += memcmp(many, dense, sizeof dense) != 0;
    for (int n = 0; n < 3; ++n) {
        free(owned[n]);
    }
    return wrong;
}
int main(void)
{
    void *const workspace = (char *)memory + (64 - (size_t)memory % 64) % 64;
    unsigned wrong = 0, state = 1;
    for (int i = 0; i < 3 * H * W * C; ++i) {
        state = state * 1664525u + 1013904223u;
        (&tensor[0][0][0][0])[i] = (element)(state >> 24);
    }
    const void *inputs[1];
    void *outputs[1];
    inputs[0] = tensor;
    outputs[0] = dense;
    net_model.run_many(workspace, 3, inputs, outputs);
    net_model.run(workspace, inputs, outputs);
    for (int pixel = C; pixel < C + 5; ++pixel) {
        wrong += trial(workspace, pixel, pixel * W);
        wrong += trial(workspace, pixel, pixel * W + 5);
        wrong += trial(workspace, -pixel, pixel * (W + 1));
        wrong += trial(workspace, pixel, -pixel * (W + 1));
    }
    printf("%u %d", wrong, net_selftest(workspace));
    return 0;
}
"""


@pytest.mark.parametrize("dtype", [DType.UINT8, DType.FLOAT32])
@pytest.mark.parametrize("channels", [1, 2, 3, 6])
def test_all_strides(tmp_path: Path, channels: int, dtype: DType) -> None:
    files: Files = {
        **output_files(view_source(network(channels, dtype)), "test"),
        "main.c": MAIN.replace("TYPE", dtype.c_name),
    }
    flags = ("-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
    write_all(tmp_path, files)
    objects = [
        compile_file(tmp_path, name, "c99 gcc", flags) for name in files if name.endswith(".c")
    ]
    assert run(_linked(tmp_path, objects, flags)) == b"0 0"


def _linked(folder: Path, objects: list[Path], flags: tuple[str, ...]) -> Path:
    program = folder / "program"
    command = ["gcc", *flags, *map(str, objects), "-o", str(program), "-lm"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no sanitizers: {done.stderr[:200]}")
    return program


@pytest.mark.parametrize("conv", ["conv.direct_px", "conv.winograd_planar", "conv.gemm"])
def test_whatever_reads_it_first(tmp_path: Path, conv: str) -> None:
    """Planar and phase-split images are made from the view, too."""
    source = view_source(network(2, DType.FLOAT32), conv, "sse2")
    files: Files = {**output_files(source, "test"), "main.c": MAIN.replace("TYPE", "float")}
    assert run(build(tmp_path, files)) == b"0 0"


def test_conversion_happens_while_it_is_read() -> None:
    source = view_source(network(1))
    first = source.calls[0]
    assert first.planned.choice.schedule.id == "movement.view"
    assert [n.name for n in first.planned.step.nodes] == ["cast", "scaled"]


@pytest.mark.parametrize("language", LANGUAGES)
def test_it_compiles_everywhere(tmp_path: Path, language: str) -> None:
    files: Files = {**output_files(view_source(network(3)), "test"), "header.c": CLASS}
    write_all(tmp_path, files)
    names = ["net.c", "net_static.c", "net_selftest.c"]
    for name in [*names, "header.c"] if "++" in language else names:
        compile_file(tmp_path, name, language, ["-O2"])


CLASS = """
#include "net.hpp"
#include <cstdio>
static net::Net network;
static unsigned char frame[480 * 640];
int main()
{
    network.image = frame + 100;
    network.image_row_stride = 3 * 640 / 3;
    network.run();
    const unsigned char *patches[2] = {frame, frame + 10};
    float scores[2 * NET_SCORES_LEN];
    network.run_many(2, patches, scores);
    std::printf("%d %d", network.image_pixel_stride, scores[0] == network.scores[0]);
    return 0;
}
"""


def test_the_class(tmp_path: Path) -> None:
    files: Files = {**output_files(view_source(network(3)), "test"), "class.c": CLASS}
    assert run(build(tmp_path, files, "c++11 g++")) == b"3 1"


def test_the_header_explains_it() -> None:
    header = output_files(view_source(network(3)), "test")["net.h"].decode()
    assert "the next row image_row_stride" in header
    assert "strides 3 and 27" in header
    assert "int32_t image_pixel_stride, int32_t image_row_stride, float *scores" in header


def test_what_cannot_be_a_view() -> None:
    graph = network(3)
    with pytest.raises(OptionError, match="no input is called 'frame'"):
        check_views(graph, ["frame"], nhwc.ORDER)
    with pytest.raises(OptionError, match="channels first"):
        check_views(graph, ["image"], planar.ORDER)
    check_views(network(1), ["image"], planar.ORDER)
    b = GraphBuilder("net")
    b.output(b.node(Cast(DType.FLOAT32), [b.input("x", (1, 4))], name="y"))
    with pytest.raises(OptionError, match="only one image"):
        check_views(b.build(), ["x"], nhwc.ORDER)


def test_an_unused_view(tmp_path: Path) -> None:
    """Its parameters are there all the same, and no compiler complains."""
    b = GraphBuilder("net")
    b.input("image", (1, 4, 4, 1))
    b.output(b.node(Cast(DType.FLOAT32), [b.input("x", (1, 4))], name="y"))
    graph = b.build()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        write_all(tmp_path, output_files(view_source(graph), "test"))
    for name in ("net.c", "net_static.c", "net_selftest.c"):
        compile_file(tmp_path, name, "c99 gcc")


@pytest.mark.parametrize(
    ("shape", "order", "fits"),
    [((1, 4, 5, 3), nhwc.ORDER, True), ((2, 4, 5, 3), nhwc.ORDER, False),
     ((4, 5, 3), nhwc.ORDER, False), ((1, 4, 5, 3), planar.ORDER, False),
     ((1, 4, 5, 1), planar.ORDER, True), ((1, 0, 5, 3), nhwc.ORDER, False)],
)  # fmt: skip
def test_views_are_single_images_with_channels_last(
    shape: tuple[int, ...], order: str, fits: bool
) -> None:
    b = GraphBuilder("net")
    b.output(b.node(Cast(DType.INT32), [b.input("x", shape)], name="y"))
    graph = b.build()
    if fits:
        check_views(graph, ["x"], order)
        return
    with pytest.raises(OptionError):
        check_views(graph, ["x"], order)
