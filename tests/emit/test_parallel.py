"""The functions for several threads: valid in every language, and only there when asked for."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from cannery.emit.dispatch import dispatching_files, part_name
from cannery.emit.files import output_files
from cannery.emit.making import make_source
from cannery.emit.source import Source
from cannery.lowering.cores import Cores
from cannery.options import make_options
from cannery.passes import run_passes
from cannery.pipeline import compile_model
from cannery.target.targets import parse_isa
from emit.c_programs import LANGUAGES, Files, build, compile_file, network, run, write_all
from emit.test_lengths import MAX, reader
from emit.test_many import two_heads
from frontends.keras_files import write_h5
from nets.net_bench import make_net_source

POOL = '#include "net.h"\n#include "cannery/pthread_pool.h"\ntypedef int not_empty;\n'
ALL = Cores(openmp=True, piece_us=0.0)


def source(isa_name: str = "generic", name: str = "net", cores: Cores | None = ALL) -> Source:
    """A network with views, a batch of one, dense layers and a convolution."""
    graph = run_passes(two_heads())
    return make_net_source(graph, parse_isa(isa_name), name, views=True, cores=cores)


def sources(files: dict[str, bytes]) -> list[str]:
    return [name for name in files if name.endswith(".c")]


@pytest.mark.parametrize("language", LANGUAGES)
def test_all_files_compile(tmp_path: Path, language: str) -> None:
    files = output_files(source(), "test")
    write_all(tmp_path, {**files, "pool.c": POOL})
    openmp = ["-Wno-unknown-pragmas"]
    assert "net_openmp.c" in files
    for name in (*sources(files), "pool.c"):
        if name != "net_openmp.c":
            compile_file(tmp_path, name, language, ["-O2", *openmp])
    if "clang" not in language:
        compile_file(tmp_path, "net_openmp.c", language, ["-O2", "-fopenmp"])


def test_nothing_is_there_that_was_not_asked_for() -> None:
    plain = output_files(source(cores=None), "test")
    assert "net_openmp.c" not in plain
    assert not any(b"parallel" in content for name, content in plain.items())
    assert not any("parallel.h" in name or "pool.h" in name for name in plain)
    assert "net_openmp.c" not in output_files(source(cores=Cores()), "test")


def test_small_steps_stay_on_one_thread() -> None:
    made = output_files(source(cores=Cores()), "test")
    assert json.loads(made["net.json"])["parallel"]["steps"] == []
    assert b"no step is worth synchronising" in made["net.c"]
    cut = json.loads(output_files(source(), "test")["net.json"])["parallel"]["steps"]
    assert any(step["axis"] == "rows" and step["parts"] > 1 for step in cut)


MAIN = """
#include "net.h"
#include <stdio.h>
#include <string.h>
enum { N = 9, THREADS = 3 };
static float image[N * NET_IMAGE_LEN], hint[N * NET_HINT_LEN];
static float scores[2][N * NET_SCORES_LEN], place[2][N * NET_PLACE_LEN];
static double memory[NET_PARALLEL_WORKSPACE_BYTES(THREADS) / 8 + 8];
static double many[NET_MANY_PARALLEL_WORKSPACE_BYTES(THREADS) / 8 + 8];
static void *aligned(double *p) { return (char *)p + (64 - (size_t)p % 64) % 64; }
static void backwards(void *context, int32_t count, cannery_task task, void *data)
{
    for (*(int *)context += 1; count > 0;) {
        task(data, --count);
    }
}
int main(void)
{
    int calls = 0, wrong = 0;
    const cannery_pool pool = { backwards, &calls, THREADS };
    for (int i = 0; i < N * NET_IMAGE_LEN; ++i) {
        image[i] = (float)(i % 97) / 97.0f;
    }
    net_run_many(aligned(many), N, image, hint, scores[0], place[0]);
    net_run_many_parallel(aligned(many), &pool, N, image, hint, scores[1], place[1]);
    wrong |= memcmp(scores[0], scores[1], sizeof scores[0]) | (calls == 0);
    calls = 0;
    net_run_parallel(aligned(memory), &pool, image, hint, scores[1], place[1]);
    wrong |= memcmp(place[0], place[1], sizeof place[0] / N) | (calls == 0);
    net_run_parallel(aligned(memory), 0, image, hint, scores[1], place[1]);
    wrong |= memcmp(scores[0], scores[1], sizeof scores[0] / N);
    printf("%d", wrong);
    return 0;
}
"""


def test_a_library_of_several_instruction_sets(tmp_path: Path) -> None:
    """Each network has its own pieces; the memory suffices for all of them."""
    graph = run_passes(two_heads())
    parts = []
    for name in ("sse2", "generic"):
        target = parse_isa(name)
        made = make_net_source(graph, target, part_name("net", target), cores=Cores(piece_us=0.0))
        parts.append(replace(made, target=name))
    files: Files = {**dispatching_files("net", parts, "test"), "main.c": MAIN}
    assert run(build(tmp_path, files)) == b"0"


CLASS = """
#include "net.hpp"
#include <cstdio>
#include <cstring>
static net::Net network;
static float scores[NET_SCORES_LEN];
static unsigned char memory[NET_PARALLEL_WORKSPACE_BYTES(2)] __attribute__((aligned(64)));
static void backwards(void *, int32_t count, cannery_task task, void *data)
{
    while (count > 0) {
        task(data, --count);
    }
}
int main()
{
    const cannery_pool pool = { backwards, nullptr, 2 };
    network.image[5] = 1.0f;
    network.run();
    std::memcpy(scores, network.scores, sizeof scores);
    std::memset(network.scores, 0, sizeof scores);
    network.run_parallel(memory, &pool);
    std::printf("%d", std::memcmp(scores, network.scores, sizeof scores));
    return 0;
}
"""


def test_the_class(tmp_path: Path) -> None:
    made = make_net_source(
        run_passes(network()), parse_isa("generic"), "net", cores=Cores(piece_us=0.0)
    )
    files: Files = {**output_files(made, "test"), "class.c": CLASS}
    assert run(build(tmp_path, files, "c++11 g++")) == b"0"


LENGTHS = """
#include "net.h"
#include <stdio.h>
#include <string.h>
enum { N = 6, THREADS = 2 };
static float x[N * NET_X_LEN], y[2][N * NET_SCORES_LEN], one[NET_SCORES_LEN];
static double memory[NET_PARALLEL_WORKSPACE_BYTES(THREADS) / 8 + 8];
static double many[NET_MANY_PARALLEL_WORKSPACE_BYTES(THREADS) / 8 + 8];
static void *aligned(double *p) { return (char *)p + (64 - (size_t)p % 64) % 64; }
static void backwards(void *context, int32_t count, cannery_task task, void *data)
{
    for (*(int *)context += 1; count > 0;) {
        task(data, --count);
    }
}
int main(void)
{
    static const int32_t lengths[N] = { 3, NET_MAX_LENGTH, 0, 7, 1, 2 };
    int calls = 0, wrong = 0;
    const cannery_pool pool = { backwards, &calls, THREADS };
    for (int i = 0; i < N * NET_X_LEN; ++i) {
        x[i] = (float)(i * 37 % 101) / 50.0f - 1.0f;
    }
    net_run_many(aligned(many), N, x, lengths, y[0]);
    net_run_many_parallel(aligned(many), &pool, N, x, lengths, y[1]);
    for (int i = 0; i < N; ++i) {
        const size_t bytes = sizeof(float) * (size_t)lengths[i] * NET_SCORES_LEN / NET_MAX_LENGTH;
        const size_t at = (size_t)i * NET_SCORES_LEN;
        wrong |= memcmp(y[0] + at, y[1] + at, bytes);
        net_run_parallel(aligned(memory), &pool, x + i * NET_X_LEN, lengths[i], one);
        wrong |= memcmp(y[0] + at, one, bytes);
    }
    net_run_parallel(aligned(memory), &pool, x, NET_MAX_LENGTH + 1, one);
    printf("%d", wrong || calls < 8);
    return 0;
}
"""


@pytest.mark.parametrize("language", ["c99 gcc", "c++11 g++"])
def test_sequences_of_any_length(tmp_path: Path, language: str) -> None:
    raw = {"variable_length": True, "dims": (f"x.1={MAX}",), "isa": ("sse2",), "name": "net"}
    options = make_options(write_h5(tmp_path / "reader.h5", reader(None)), raw)
    single = compile_model(options).source
    made = make_source(single.program, single.isa, "net", {}, cores=Cores(piece_us=0.0))
    assert made.parallel is not None
    assert {step.axis for step in made.parallel.steps} == {"units"}
    files: Files = {**output_files(made, "test"), "main.c": LENGTHS}
    assert run(build(tmp_path, files, language)) == b"0"


def test_the_tiny_network(tmp_path: Path) -> None:
    made = make_net_source(run_passes(network()), parse_isa("generic"), "net", cores=ALL)
    assert made.parallel is not None
    assert {step.axis for step in made.parallel.steps} <= {"rows", "units"}
