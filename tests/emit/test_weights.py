"""Weights apart from the code: the same code for every training, and no file that is not theirs."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from cannery.emit.files import output_files
from cannery.emit.source import Source
from cannery.emit.weights import HEAD_BYTES
from cannery.errors import OptionError
from cannery.execution.program import network_program
from cannery.ir.evaluate import evaluate
from cannery.ir.graph import Graph
from cannery.ir.tensor import DType
from cannery.options import make_options
from cannery.passes import run_passes
from cannery.pipeline import compile_model
from cannery.target.isa import isa
from cannery.target.toolchain import Toolchain
from emit.c_programs import LANGUAGES, Files, build, compile_file, network, write_all
from frontends.keras_files import LayerSpec, Model, chain, image, layer, write_h5
from needs import need_program, need_runner, need_toolchain
from nets.net_bench import make_net_source
from nets.random_graphs import random_graph
from tiny_models import write_tiny_model

CODES = {
    "ok": 0, "missing": 1, "alignment": 2, "foreign": 3, "endian": 4, "format": 5, "network": 6,
    "size": 7, "damaged": 8,
}  # fmt: skip


def apart(graph: Graph, isa_name: str = "generic", prefer: str = "") -> Source:
    """The program of a graph whose weights may change."""
    simple = replace(run_passes(graph, weights_vary=True), weights_vary=True)
    return make_net_source(simple, isa(isa_name), "net", prefer=prefer)


def files_of(source: Source) -> Files:
    return dict(output_files(source, "test"))


def only_weights_differ(one: Mapping[str, object], other: Mapping[str, object]) -> bool:
    assert one.keys() == other.keys()
    return [name for name in one if one[name] != other[name]] == ["net.weights"]


@pytest.mark.parametrize("isa_name", ["generic", "sse2", "avx2", "avx512", "neon32", "neon64"])
@pytest.mark.parametrize("prefer", ["", "conv.unrolled", "conv.rolled", "conv.winograd"])
def test_two_trainings_have_the_same_code(isa_name: str, prefer: str) -> None:
    one, other = (files_of(apart(network(seed), isa_name, prefer)) for seed in (1, 2))
    assert only_weights_differ(one, other)


@pytest.mark.parametrize("seed", range(8))
def test_trainings_of_random_networks(seed: int) -> None:
    graph = random_graph(seed)
    trained = {
        name: _trained(array, seed) for name, array in graph.constants.items()
    }  # fmt: skip
    one, other = (files_of(apart(g)) for g in (graph, replace(graph, constants=trained)))
    assert one.keys() == other.keys()
    texts = [name for name in one if name.endswith((".c", ".h"))]
    assert all(one[name] == other[name] for name in texts)


def _trained(array: NDArray[np.generic], seed: int) -> NDArray[np.generic]:
    """Other weights; numbers that are alone belong to the architecture."""
    if array.dtype.kind != "f" or array.size == 1:
        return array
    factors = np.random.default_rng(seed).uniform(0.8, 1.25, array.shape)
    return np.asarray(array * factors, array.dtype)


def zeros(seed: int) -> Graph:
    """A training that left zeros, channels that are dead among them."""
    graph = network(seed)
    name = next(n for n, a in graph.constants.items() if a.ndim == 4)
    w = np.array(graph.constants[name])
    w[..., seed % 5] = 0.0
    w[0] = 0.0
    return replace(graph, constants={**graph.constants, name: w})


@pytest.mark.parametrize("isa_name", ["generic", "sse2", "neon64"])
def test_zeros_do_not_show_in_the_code(isa_name: str) -> None:
    trained = [network(1), zeros(1), zeros(2)]
    one, *others = (files_of(apart(graph, isa_name, "conv.unrolled")) for graph in trained)
    assert all(only_weights_differ(one, other) for other in others)


def judged(source: Source, graph: Graph, toolchain: Toolchain, files: Files) -> float:
    """The largest error of a network that runs with its weights, relative to its largest output."""
    rng = np.random.default_rng(0)
    sample = {v: rng.standard_normal(graph.types[v].shape).astype(np.float32) for v in graph.inputs}
    expected = evaluate(graph, sample)
    content = {n: t.encode() if isinstance(t, str) else t for n, t in files.items()}
    with network_program(source, content, toolchain, [sample]) as program:
        (found,) = program.run(need_runner(toolchain))
    return max(
        float(np.abs(found[v] - expected[v]).max() / np.abs(expected[v]).max())
        for v in graph.outputs
    )


@pytest.mark.parametrize("target", ["generic", "sse2", "sse2-32", "avx2", "neon32", "neon64"])
@pytest.mark.parametrize("prefer", ["", "conv.unrolled"])
def test_code_computes_with_the_weights_that_it_is_given(target: str, prefer: str) -> None:
    toolchain = need_toolchain(target)
    graph, retrained = network(1), network(2)
    source = apart(graph, toolchain.target.isa.name, prefer)
    source = make_net_source(source.graph, toolchain.target.isa, "net", prefer=prefer)
    if prefer:
        assert any(prefer in str(call.planned.choice) for call in source.calls)
    files = files_of(source)
    assert judged(source, graph, toolchain, files) < 1e-5
    other = make_net_source(apart(retrained).graph, toolchain.target.isa, "net", prefer=prefer)
    files["net.weights"] = files_of(other)["net.weights"]
    assert judged(source, retrained, toolchain, files) < 1e-5


@pytest.mark.parametrize("seed", range(8, 14))
def test_random_networks_run(seed: int) -> None:
    toolchain = need_toolchain("native")
    graph = random_graph(seed)
    source = make_net_source(apart(graph).graph, toolchain.target.isa, "net")
    assert judged(source, graph, toolchain, files_of(source)) < 1e-4


@pytest.mark.parametrize("language", LANGUAGES)
def test_all_files_compile(tmp_path: Path, language: str) -> None:
    files = files_of(replace(apart(network(), "sse2"), split=2))
    write_all(tmp_path, files)
    for source in (name for name in files if name.endswith(".c")):
        compile_file(tmp_path, source, language, ["-O2", "-msse2"])


#: What any network does before, while and after it has weights.
LIFE = """
#include "net.h"
#include "cannery/weights.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static float image[2 * NET_IMAGE_LEN], scores[2 * NET_SCORES_LEN];
static double memory[NET_MANY_WORKSPACE_BYTES / 8 + 8];
static int untouched(void)
{
    for (int k = 0; k < 2 * NET_SCORES_LEN; ++k) {
        if (scores[k] != 7.0f) {
            return 0;
        }
    }
    return 1;
}
int main(void)
{
    void *const workspace = (char *)memory + (64 - (size_t)memory % 64) % 64;
    char error[200] = "";
    for (int k = 0; k < 2 * NET_SCORES_LEN; ++k) {
        scores[k] = 7.0f;
    }
    net_run(image, scores);
    net_run_in(workspace, image, scores);
    net_run_many(workspace, 2, image, scores);
    printf("%d %d '%s' ", untouched(), net_selftest(workspace), net_weights_hash());
    printf("%d ", net_weights_open("nothing", error, sizeof(error)));
    printf("%d ", net_weights_open("other.weights", error, sizeof(error)));
    printf("%d ", net_weights_open("net.weights", error, sizeof(error)));
    printf("%d %d ", (int)strlen(net_weights_hash()), net_selftest(workspace));
    net_run_many(workspace, 2, image, scores);
    printf("%d ", untouched());
    printf("%d ", net_weights_open("other.weights", NULL, 0));
    printf("%d ", net_selftest(workspace));
    printf("%d ", net_weights_open("again.weights", NULL, 0));
    printf("%d ", net_selftest(workspace));
    net_weights_close();
    printf("%d", net_selftest(workspace));
    return 0;
}
"""


@pytest.mark.parametrize("language", ["c99 gcc", "c++11 g++"])
def test_weights_come_and_go(tmp_path: Path, language: str) -> None:
    files = files_of(apart(network(1)))
    again = files_of(apart(network(2)))["net.weights"]
    other = files_of(apart(network(1, DType.UINT8)))["net.weights"]
    files |= {"again.weights": again, "other.weights": other, "main.c": LIFE}
    sanitizers = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g")
    write_all(tmp_path, files)
    program = _sanitized(tmp_path, files, language, sanitizers)
    done = subprocess.run([str(program)], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "1 2 '' 1 6 0 16 0 0 6 0 0 0 2"


def _sanitized(folder: Path, files: Files, language: str, flags: tuple[str, ...]) -> Path:
    """A program of all C files, with sanitizers."""
    sources = [name for name in files if name.endswith(".c")]
    compiler, *standard = LANGUAGES[language]
    command = [need_program(compiler), *standard, "-O1", *flags, "-I.", *sources, "-o", "program"]
    done = subprocess.run(
        [*command, "-lm"], cwd=folder, capture_output=True, text=True, check=False
    )
    if "cannot find" in done.stderr and "san" in done.stderr:
        pytest.skip("the compiler has no sanitizers")
    assert done.returncode == 0, done.stderr
    return folder / "program"


#: Tries a file with each of its bytes changed, cut off and longer, in memory of exactly that size.
FUZZ = """
#include "net.h"
#include "cannery/weights.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static unsigned char *whole;
static size_t bytes;
static long counts[9];
static void try_it(const unsigned char *data, size_t size, int expected)
{
    /* Ends where the memory ends, so that sanitizers see every read behind it. */
    void *exact = NULL;
    if (posix_memalign(&exact, 64, size) != 0) {
        exit(2);
    }
    memcpy(exact, data, size);
    const int code = net_weights_set(exact, size);
    ++counts[code];
    if ((code == 0) != expected) {
        printf("code %d of %lu bytes\\n", code, (unsigned long)size);
        exit(1);
    }
    free(exact);
}
int main(void)
{
    FILE *const file = fopen("net.weights", "rb");
    whole = (unsigned char *)calloc(1, 1 << 20);
    bytes = fread(whole, 1, 1 << 20, file);
    fclose(file);
    try_it(whole, bytes, 1);
    for (size_t k = 0; k < bytes; ++k) {
        for (int bit = 0; bit < 8; ++bit) {
            if (k < NET_WEIGHTS_HEAD || k % 7 == (size_t)bit) {
                whole[k] ^= (unsigned char)(1 << bit);
                try_it(whole, bytes, 0);
                whole[k] ^= (unsigned char)(1 << bit);
            }
        }
        if (k < NET_WEIGHTS_HEAD) {
            const unsigned char kept = whole[k];
            whole[k] = (unsigned char)~kept;
            try_it(whole, bytes, 0);
            whole[k] = kept;
        }
        if (k < 2 * NET_WEIGHTS_HEAD || bytes - k < 130 || k % 61 == 0) {
            try_it(whole, k, 0);
        }
    }
    for (size_t more = 1; more < 200; ++more) {
        try_it(whole, bytes + more, 0);
    }
    const unsigned char *const odd = whole + 4 + (64 - (size_t)whole % 64);
    if (net_weights_set(NULL, bytes) != CANNERY_WEIGHTS_MISSING ||
        net_weights_set(odd, bytes) != CANNERY_WEIGHTS_ALIGNMENT) {
        return 1;
    }
    try_it(whole, bytes, 1);
    for (int code = 0; code < 9; ++code) {
        printf("%ld ", counts[code]);
    }
    return 0;
}
"""


def test_no_damaged_file_is_taken(tmp_path: Path) -> None:
    files = {**files_of(apart(network())), "main.c": FUZZ}
    write_all(tmp_path, files)
    flags = (
        "-fsanitize=address,undefined",
        "-fno-sanitize-recover=all",
        "-g",
        "-D_POSIX_C_SOURCE=200112L",
    )
    program = _sanitized(tmp_path, files, "c11 gcc", flags)
    done = subprocess.run([str(program)], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    counts = list(map(int, done.stdout.split()))
    assert counts[CODES["ok"]] == 2
    reasons = ("foreign", "endian", "format", "network", "size", "damaged")
    assert all(counts[CODES[reason]] for reason in reasons if reason != "endian")


def test_every_number_is_checked() -> None:
    files = files_of(apart(network()))
    data = files["net.weights"]
    assert isinstance(data, bytes)
    header = str(bytes(files["net.h"]).decode() if isinstance(files["net.h"], bytes) else "")
    (size,) = re.findall(r"NET_WEIGHTS_BYTES (\d+)u", header)
    assert len(data) == HEAD_BYTES + int(size)
    assert int(size) % 64 == 0


OPENING = """
#include "net.h"
#include <stdio.h>
int main(int argc, char **argv)
{
    char error[300] = "";
    const int code = net_weights_open(argv[argc - 1], error, sizeof(error));
    printf("%d %s", code, error);
    return 0;
}
"""


def test_what_is_no_file_of_weights(tmp_path: Path) -> None:
    files = {**files_of(apart(network())), "main.c": OPENING}
    program = build(tmp_path, files)
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "text").write_text("weights, it says\n" * 100)
    os.mkfifo(tmp_path / "pipe")
    whole = (tmp_path / "net.weights").read_bytes()
    (tmp_path / "long").write_bytes(whole + b"\0")
    swapped = bytearray(whole)
    swapped[8:12] = swapped[8:12][::-1]
    (tmp_path / "swapped").write_bytes(swapped)
    for name, code, text in (
        ("net.weights", "ok", ""),
        ("nothing", "missing", "No such file"),
        (".", "missing", "not a file of weights"),
        ("empty", "missing", "not a file of weights"),
        ("pipe", "missing", "not a file of weights"),
        ("text", "foreign", "not a file of weights"),
        ("long", "size", "something was appended"),
        ("swapped", "endian", "another order of bytes"),
    ):
        path = tmp_path / name
        said = subprocess.run([program, path], capture_output=True, text=True, check=True).stdout
        assert said.startswith(f"{CODES[code]} {f'{path}: ' if text else ''}"), said
        assert text in said
        assert "\n" not in said


STEPS = """
#include "net.h"
#include <stdio.h>
static double state[NET_STATE_BYTES / 8 + 1];
static float x[NET_X_LEN], y[NET_Y_LEN];
int main(void)
{
    net_reset(state);
    net_step(state, x, y);
    printf("%g %g %d ", state[0], (double)y[0], net_weights_open("net.weights", NULL, 0));
    net_reset(state);
    for (int k = 0; k < 4; ++k) {
        printf("%.9g ", (double)((float *)(void *)state)[k]);
    }
    net_step(state, x, y);
    printf("%d", y[0] < 0.0f || y[0] > 0.0f);
    return 0;
}
"""


def test_the_first_state_of_a_model_is_a_weight(tmp_path: Path) -> None:
    m = pytest.importorskip("frontends.onnx_models")
    trained = []
    for seed in (4, 5):
        r = {"w": m.floats(1, 4, 3, seed=1), "r": m.floats(1, 4, 4, seed=2),
             "h": m.floats(1, 1, 4, seed=seed)}  # fmt: skip
        node = m.node("RNN", ["x", "w", "r", "", "", "h"], ["y"], hidden_size=4)
        m.write(tmp_path / "net.onnx", m.model([node], {"x": ["T", 1, 3]}, weights=r))
        options = {"isa": "generic", "streaming": True, "weights": "net.weights"}
        files = dict(compile_model(make_options(tmp_path / "net.onnx", options)).files)
        trained.append(files)
        folder = tmp_path / str(seed)
        folder.mkdir()
        program = build(folder, {**files, "main.c": STEPS})
        done = subprocess.run([program], cwd=folder, capture_output=True, text=True, check=True)
        before, zero, code, *state, ran = map(float, done.stdout.split())
        assert (before, zero, code, ran) == (0, 0, 0, 1)
        assert np.array_equal(np.array(state, np.float32), r["h"].ravel())
    assert only_weights_differ(*trained)


def model(seed: int, wide: int = 4) -> Model:
    """A convolution of random weights."""
    rng = np.random.default_rng(seed)
    kernel = rng.standard_normal((3, 3, 2, wide)).astype(np.float32)
    arrays = {"kernel": kernel, "bias": rng.standard_normal(wide).astype(np.float32)}
    conv = LayerSpec("Conv2D", "conv", (), {"filters": wide, "kernel_size": [3, 3]}, arrays)
    return chain(image("image", 9, 8, 2), conv, layer("ReLU", "scores"))


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"isa": "avx2", "many": "4"},
        {"parallel": True, "split": "3"},
        {"isa": "sse2", "max_lines": "20", "shared": True},
    ],
    ids=str,
)
def test_options_and_trainings(tmp_path: Path, given: dict[str, object]) -> None:
    found = []
    for seed in (1, 2):
        path = tmp_path / f"training_{seed}.h5"
        write_h5(path, model(seed))
        options = {"isa": "generic", "name": "net", "weights": "any", **given}
        found.append(compile_model(make_options(path, options)).files)
    assert only_weights_differ(*found)


def test_what_does_not_go_together() -> None:
    with pytest.raises(OptionError, match="depends on the instruction set"):
        make_options(Path("net.h5"), {"weights": "x", "isa": ["sse2", "avx2"]})


def test_memory_without_files(tmp_path: Path) -> None:
    """A microcontroller has the weights in its flash."""
    toolchain = need_toolchain("cortex-m7")
    write_tiny_model(tmp_path / "net.h5")
    options = {"target": "cortex-m7", "weights": "net.weights"}
    files = compile_model(make_options(tmp_path / "net.h5", options)).files
    write_all(tmp_path, dict(files))
    for name in (n for n in files if n.endswith(".c")):
        flags = [*toolchain.cflags, "-Wall", "-Wextra", "-Werror"]
        toolchain.compiler.compile(tmp_path / name, tmp_path / f"{name}.o", flags, [tmp_path])
