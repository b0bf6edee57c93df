"""Networks on several threads give the bits of one, on every instruction set, without races."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from cannery.emit.files import output_files
from cannery.emit.source import Source
from cannery.ir.graph import Graph
from cannery.measure.build import ninja_file, run_ninja, write
from cannery.passes import run_passes
from cannery.target.runner import Runner
from cannery.target.toolchain import Toolchain
from needs import need_program, need_runner, need_toolchain
from nets.kernels_in_pieces import ALL, cut_schedules, kernel_sources
from nets.net_bench import make_net_source
from nets.random_graphs import random_graph
from nets.test_nets import MODELS, REAL, real_net
from nets.test_sanitizers import sanitizing

MAIN = Path(__file__).with_name("parallel_main.c")

#: Schedules whose kernels can be cut into units.
WITH_UNITS = {
    "attention.rows", "conv.gemm", "conv.winograd_oc", "matmul.dense_k", "matmul.dense_n",
    "matmul.general", "recurrent.gates", "quantized.matmul_n", "quantized.gates",
}  # fmt: skip

#: Cases that bring each of them, with rows, columns, samples and directions to cut.
CASES = (
    "attention_batch", "attention_masked", "matmul_dense_batch", "matmul_dense_wide",
    "conv_3x3_wide", "conv_deep_1x1",
    "recurrent_lstm_both", "recurrent_lstm_lengths", "quantized_matmul_rows_int16",
    "quantized_lstm_both_int8",
)  # fmt: skip

#: How often the program hands over inputs; whatever is above that are steps that were cut.
CALLS_OF_MANY = 24


def build(folder: Path, graphs: Sequence[Graph], toolchain: Toolchain) -> Path:
    """A program of networks that are cut wherever they can be."""
    isa = toolchain.target.isa
    made = (
        make_net_source(run_passes(graph), isa, f"net{k}", views=k % 2 == 1, cores=ALL)
        for k, graph in enumerate(graphs)
    )
    return build_sources(folder, list(made), toolchain)


def build_sources(folder: Path, sources: Sequence[Source], toolchain: Toolchain) -> Path:
    """The program of generated networks."""
    need_program("ninja", "ninja-build")
    files: dict[str, bytes] = {"parallel_main.c": MAIN.read_bytes()}
    table = ['#include "cannery/parallel.h"']
    for source in sources:
        made = output_files(source, "test")
        files |= {p: content for p, content in made.items() if not p.endswith((".json", ".hpp"))}
        table.append(f"extern const cannery_parallel_model {source.name}_parallel_model;")
    rows = ", ".join(f"&{source.name}_parallel_model" for source in sources)
    table += [
        "extern const cannery_parallel_model *const nets[];", "extern const int net_count;",
        f"const cannery_parallel_model *const nets[] = {{{rows}}};",
        f"const int net_count = {len(sources)};", "",
    ]  # fmt: skip
    files["table.c"] = "\n".join(table).encode()
    write(folder, files)
    units = [path for path in files if path.endswith(".c")]
    toolchain = replace(toolchain, ldflags=(*toolchain.ldflags, "-pthread"))
    failures = run_ninja(folder, ninja_file(toolchain, units, executable="nets"))
    assert not failures, "\n".join(f"{k}: {v}" for k, v in failures.items())
    return folder / "nets"


def judge(executable: Path, runner: Runner, count: int) -> None:
    """Run and judge; most networks have to be cut somewhere."""
    lines = list(runner.run(executable))
    assert [line["net"] for line in lines] == list(range(count))
    assert {line["net"]: line["fault"] for line in lines if line["fault"]} == {}
    assert sum(line["calls"] > CALLS_OF_MANY for line in lines) > count // 2


def real_graphs(limit: int = len(REAL)) -> list[Graph]:
    """Those that are here."""
    return [real_net(file).graph for file in REAL[:limit] if (MODELS / file).is_file()]


@pytest.mark.parametrize("target", ["generic", "ssse3", "avx2", "neon64"])
def test_the_same_bits_as_one_thread(target: str, tmp_path: Path) -> None:
    toolchain = need_toolchain(target)
    graphs = [random_graph(seed) for seed in range(2000, 2004)]
    judge(build(tmp_path, graphs, toolchain), need_runner(toolchain), len(graphs))


@pytest.mark.parametrize("target", ["avx2"])
def test_no_races(target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TSAN_OPTIONS", "halt_on_error=1")
    toolchain = sanitizing(target, "gcc", ["-fsanitize=thread"])
    graphs = [random_graph(seed) for seed in range(2020, 2024)]
    judge(build(tmp_path, graphs, toolchain), need_runner(toolchain), len(graphs))


def test_units_of_kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without races, so each unit is computed once."""
    monkeypatch.setenv("TSAN_OPTIONS", "halt_on_error=1")
    toolchain = sanitizing("avx2", "gcc", ["-fsanitize=thread"])
    used = run_kernels(toolchain, CASES, WITH_UNITS, tmp_path, most=2)
    assert used >= WITH_UNITS


def test_directions_of_recurrent_layers(tmp_path: Path) -> None:
    """Also of one sample that ends early, where each direction clears its own half."""
    cases = ["recurrent_*lengths*", "quantized_lstm_*lengths*"]
    toolchain = need_toolchain("generic")
    toolchain = replace(toolchain, cflags=(*toolchain.cflags, "-O0"))
    wanted = {"recurrent.gates", "quantized.gates"}
    assert run_kernels(toolchain, cases, wanted, tmp_path, most=9) == wanted


@pytest.mark.slow
@pytest.mark.parametrize("target", ["generic", "ssse3", "avx2", "avx512"])
def test_no_races_in_kernels(target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TSAN_OPTIONS", "halt_on_error=1")
    toolchain = sanitizing(target, "gcc", ["-fsanitize=thread"])
    used = run_kernels(toolchain, ["*"], (), tmp_path, most=4)
    assert used > WITH_UNITS


@pytest.mark.slow
@pytest.mark.parametrize("target", ["sse2", "neon32", "neon64"])
def test_kernels_in_pieces(target: str, tmp_path: Path) -> None:
    used = run_kernels(need_toolchain(target), ["*"], (), tmp_path, most=4)
    assert used > WITH_UNITS


def run_kernels(
    toolchain: Toolchain, cases: Sequence[str], schedules: Collection[str], folder: Path, most: int
) -> set[str]:
    """Compares kernels in pieces, last piece first, with whole ones; returns the schedules that
    were cut.
    """
    sources = kernel_sources(toolchain.target.isa, cases, schedules, most)
    judge(build_sources(folder, sources, toolchain), need_runner(toolchain), len(sources))
    return {name for source in sources for name in cut_schedules(source)}


@pytest.mark.slow
@pytest.mark.parametrize(
    "target", ["generic", "sse2", "ssse3", "avx2", "avx512", "neon32", "neon64"]
)
def test_many_networks(target: str, tmp_path: Path) -> None:
    toolchain = need_toolchain(target)
    graphs = [*(random_graph(seed) for seed in range(3000, 3150)), *real_graphs()]
    judge(build(tmp_path, graphs, toolchain), need_runner(toolchain), len(graphs))


@pytest.mark.slow
@pytest.mark.parametrize("target", ["generic", "ssse3", "avx2", "avx512"])
def test_no_races_in_many(target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TSAN_OPTIONS", "halt_on_error=1")
    toolchain = sanitizing(target, "gcc", ["-fsanitize=thread"])
    graphs = [*(random_graph(seed) for seed in range(4000, 4060)), *real_graphs()]
    judge(build(tmp_path, graphs, toolchain), need_runner(toolchain), len(graphs))
