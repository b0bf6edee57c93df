"""Whole networks on every instruction set: random ones, and the real ones where they are.

Compilers optimise for two of the targets as they do for users, for the others as in the kernel
tests, as that takes most of the time; the slow tests optimise everywhere.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cannery.frontends import ImportOptions, load_graph
from cannery.frontends.streaming import AUTO, to_streaming
from cannery.ir.tensor import DType
from cannery.layouts import planar
from cannery.measure.build import with_flags
from frontends.causal_nets import Maker
from needs import need_program, need_runner, need_toolchain
from nets.decoders import decoder_graph
from nets.net_bench import (
    DEPTH_FIRST,
    MAX_ERROR,
    Net,
    beginning_net,
    build_nets,
    failures,
    reference_net,
    run_nets,
)
from nets.random_graphs import random_graph
from nets.shuffles import shuffle_graph
from ops.cases_depth_first import byte_network
from ops.kernel_bench import QUICKLY, TARGETS

MODELS = Path(__file__).resolve().parents[3] / "shared" / "models"
REAL = ("multihead.h5", "intersections.h5", "field_boundary.h5", "robot_detector.hdf5")
#: Each target takes every third.
SEEDS = range(51)
DECODERS = range(2)
CALLS = (0, 1, 4, 5, 7, 8, 9, 11, 12, 13, 16, 17)
#: Targets of both families whose networks are compiled as for users.
OPTIMIZED = ("avx2", "neon64")


def run(
    nets: list[Net], target: str, folder: Path, io_order: str = "nhwc", *, optimized: bool = False
) -> None:
    """Build, run and judge; where nothing can run it, building must do."""
    need_program("ninja", "ninja-build")
    toolchain = need_toolchain(target)
    if not optimized and target not in OPTIMIZED:
        toolchain = with_flags(toolchain, QUICKLY)
    executable = build_nets(folder, nets, toolchain, io_order)
    names = [net.name for net in nets]
    wrong = failures(run_nets(executable, names, need_runner(toolchain)), MAX_ERROR)
    assert not wrong, "\n".join(wrong)


def real_net(file: str) -> Net:
    """A model with the input and the outputs that another engine computed for it."""
    path = MODELS / file
    if not path.is_file():
        pytest.skip(f"{file} is not here")
    stored = np.load(f"{path}.npz")
    graph = load_graph(path, ImportOptions())
    inputs = {name: stored[f"in:{name}"] for name in graph.inputs}
    expected = {name: stored[f"out:{k}"] for k, name in enumerate(graph.outputs)}
    return Net(file, graph, inputs, expected)


@pytest.mark.parametrize("target", TARGETS)
def test_random_nets(target: str, tmp_path: Path) -> None:
    seeds = SEEDS[TARGETS.index(target) % 3 :: 3]
    run([reference_net(f"seed {s}", random_graph(s), s) for s in seeds], target, tmp_path)


@pytest.mark.parametrize("target", ["generic", "avx2", "neon64"])
def test_decoders_that_read_what_is_joined(target: str, tmp_path: Path) -> None:
    found = [(f"decoder {s}", decoder_graph(s), s) for s in DECODERS]
    run([reference_net(*each, prefer="chains.sources") for each in found], target, tmp_path)


@pytest.mark.parametrize("target", ["generic", "avx2", "thumbdsp", "neon64", "riscv64v256"])
def test_depth_first(target: str, tmp_path: Path) -> None:
    """As many layers as possible a few rows at a time, floats and integers."""
    found = [(f"seed {s}", random_graph(s), s) for s in range(8)]
    found += [(f"bytes {h}", byte_network(DType.INT8, h, h - 3), h) for h in (16, 23)]
    run([reference_net(*each, prefer=DEPTH_FIRST) for each in found], target, tmp_path)


@pytest.mark.parametrize("target", ["generic", "avx2", "neon64"])
def test_shuffled_channels(target: str, tmp_path: Path) -> None:
    run([reference_net(f"shuffles {s}", shuffle_graph(s), s) for s in range(4)], target, tmp_path)


@pytest.mark.parametrize("target", TARGETS)
def test_real_nets(target: str, tmp_path: Path) -> None:
    run([real_net(file) for file in REAL], target, tmp_path)


@pytest.mark.parametrize("target", TARGETS)
def test_calls_of_networks_over_time(target: str, tmp_path: Path) -> None:
    """With random states, or from a reset; `test_streaming_windows.py` compares with sequences."""
    nets = []
    for seed in CALLS[TARGETS.index(target) % 3 :: 3]:
        whole = Maker(seed, ahead=seed % 2 == 1, rates=seed % 4 > 1).graph()
        calls = to_streaming(whole, (12, 1)[seed % 4 == 0], AUTO)
        make = beginning_net if seed % 2 else reference_net
        nets.append(make(f"calls {seed}", calls, seed))
    run(nets, target, tmp_path)


def test_nchw_at_the_interface(tmp_path: Path) -> None:
    nets = [reference_net(f"seed {s}", random_graph(s), s) for s in range(6)]
    run(nets, "generic", tmp_path, planar.ORDER)


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_many_random_nets(target: str, tmp_path: Path) -> None:
    nets = [reference_net(f"seed {s}", random_graph(s), s) for s in range(1000, 1300)]
    run(nets, target, tmp_path, optimized=True)


def test_random_graphs_follow_from_their_seed() -> None:
    a, b = random_graph(7), random_graph(7)
    assert a.nodes == b.nodes
    assert all(np.array_equal(a.constants[k], b.constants[k]) for k in a.constants)
