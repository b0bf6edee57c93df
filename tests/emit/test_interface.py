"""Generated files are valid in every language they promise, and cost what a program uses."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from cannery.emit.files import output_files
from cannery.ir.tensor import DType
from cannery.options import make_options
from cannery.pipeline import compile_model
from emit.c_programs import (
    LANGUAGES,
    Files,
    build,
    compile_file,
    link,
    net_files,
    network,
    run,
    write_all,
)
from emit.stepping_models import stack
from emit.test_lengths import reader
from emit.test_parallel import source as parallel_source
from frontends.keras_files import write_h5
from needs import need_program
from nets.random_graphs import random_graph

HEADER = '#include "net.h"\n#include "net.h"\ntypedef int not_empty;\n'
CLASS = """
#include "net.hpp"
#include "net.hpp"
#include <cstdio>
static net::Net network;
int main()
{
    network.image[0] = 1.0f;
    network.run();
    std::fwrite(network.scores, sizeof network.scores, 1, stdout);
    return 0;
}
"""


@pytest.mark.parametrize("language", LANGUAGES)
def test_all_files_compile(tmp_path: Path, language: str) -> None:
    files = net_files(network(), "net")
    write_all(tmp_path, {**files, "header.c": HEADER})
    for source in (*(n for n in files if n.endswith(".c")), "header.c"):
        compile_file(tmp_path, source, language, ["-O2"])
    if "c++" in language:
        write_all(tmp_path, {"class.c": CLASS})
        compile_file(tmp_path, "class.c", language)


#: What projects that allow no warning in what they include ask compilers for.
STRICT = {
    "c99 gcc": "-Wundef -Wcast-qual -Wbad-function-cast -Wstrict-prototypes -Wsign-conversion",
    "c99 clang": "-Wundef -Wcast-qual -Wcast-align -Wsign-conversion -Wfloat-equal -Wcomma",
    "c++11 g++": "-Wold-style-cast -Wuseless-cast -Wzero-as-null-pointer-constant -Wcast-qual "
    "-Weffc++ -Wundef -Wsign-conversion -Wredundant-decls -Wmissing-declarations -Wfloat-equal",
    "c++17 g++": "-Wold-style-cast -Wzero-as-null-pointer-constant -Weffc++",
    "c++11 clang": "-Wold-style-cast -Wzero-as-null-pointer-constant -Wcast-qual -Wcast-align "
    "-Wundef -Wsign-conversion -Wfloat-equal -Wextra-semi -Wnon-virtual-dtor -Wcomma "
    "-Wdocumentation",
}

STRICT_USER = """
#include "net.h"
#include "read.h"
#include "steps.h"
#ifdef __cplusplus
#include "net.hpp"
#include "read.hpp"
#include "steps.hpp"
#endif
#include "cannery/ctc.h"
#include "cannery/pthread_pool.h"
#include "cannery/subnormals.h"
unsigned char *memory(int threads, size_t *size);
unsigned char *memory(int threads, size_t *size)
{
    static unsigned char a[NET_PARALLEL_WORKSPACE_BYTES(4) + NET_MANY_PARALLEL_WORKSPACE_BYTES(4)];
    *size = NET_PARALLEL_WORKSPACE_BYTES(threads) + NET_MANY_PARALLEL_WORKSPACE_BYTES(threads);
    return a;
}
"""


@pytest.fixture(scope="module")
def consumer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with headers of every kind of network, and a file that includes all of them."""
    folder = tmp_path_factory.mktemp("consumer")
    write_all(folder, output_files(parallel_source(), "test"))
    for name, model, form in (
        ("steps", stack(None), "streaming"),
        ("read", reader(8), "variable_length"),
    ):
        raw = {form: True, "isa": ("generic",), "name": name}
        made = compile_model(make_options(write_h5(folder / f"{name}.h5", model), raw))
        write_all(folder, made.files)
    write_all(folder, {"user.c": STRICT_USER})
    return folder


@pytest.mark.parametrize("language", STRICT)
def test_headers_bear_strict_warnings(consumer: Path, language: str) -> None:
    compile_file(consumer, "user.c", language, STRICT[language].split())


@pytest.mark.parametrize("language", ["c99 gcc", "c99 clang", "c++11 g++"])
def test_many_kernels_compile(tmp_path: Path, language: str) -> None:
    for seed in range(8):
        files = net_files(random_graph(seed), f"net{seed}")
        write_all(tmp_path, files)
        compile_file(tmp_path, f"net{seed}.c", language, ["-O1"])


def test_the_class_runs(tmp_path: Path) -> None:
    files: Files = {**net_files(network(), "net"), "class.c": CLASS}
    assert len(run(build(tmp_path, files, "c++11 g++"))) == 12


TWO = """
#include "ball.h"
#include "goal.h"
#include <stdio.h>
#include <string.h>
static float image[BALL_IMAGE_LEN], a[BALL_SCORES_LEN], b[GOAL_SCORES_LEN];
static unsigned char frame[GOAL_IMAGE_LEN];
int main(void)
{
    ball_run(image, a);
    goal_run(frame, b);
    printf("%s %s", ball_model.name, goal_model.name);
    return memcmp(a, b, sizeof a) == 0;
}
"""


@pytest.mark.parametrize("language", ["c99 gcc", "c++11 g++"])
def test_two_models_in_one_program(tmp_path: Path, language: str) -> None:
    files: Files = {
        **net_files(network(1), "ball"),
        **net_files(network(2, DType.UINT8), "goal"),
        "main.c": TWO,
    }
    assert run(build(tmp_path, files, language)) == b"ball goal"


def symbols(file: Path, *options: str) -> set[str]:
    """Names that `nm` lists."""
    command = [need_program("nm"), *options, str(file)]
    listing = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return {line.split()[-1] for line in listing.splitlines() if line.strip()}


def test_external_symbols_begin_with_the_name(tmp_path: Path) -> None:
    write_all(tmp_path, net_files(network(), "net"))
    objects = [
        compile_file(tmp_path, source, "c99 gcc")
        for source in ("net.c", "net_static.c", "net_weights.c", "net_selftest.c")
    ]
    defined = set().union(*(symbols(o, "-g", "--defined-only") for o in objects))
    assert defined == {"net_run", "net_run_in", "net_run_many", "net_selftest", "net_model"}
    needed = set().union(*(symbols(o, "-u") for o in objects))
    assert needed - defined <= {"memcpy", "memset", "_GLOBAL_OFFSET_TABLE_", "__stack_chk_fail"}


USES = """
#include "net.h"
static float image[NET_IMAGE_LEN], scores[NET_SCORES_LEN];
static unsigned char memory[NET_WORKSPACE_BYTES];
int main(void)
{
    CALL
    return 0;
}
"""


@pytest.mark.parametrize("seed", range(8))
def test_every_function_has_one_comment(seed: int) -> None:
    files = net_files(random_graph(seed), "net")
    text = files["net.c"]
    text = text.decode() if isinstance(text, bytes) else text
    steps = set(re.findall(r"^static void (net_L\d\d)_", text, re.MULTILINE))
    assert len(re.findall(r"multiply-accumulates\. Tunables", text)) >= len(steps) > 0
    assert re.findall(r"\*/\s*/\*.*", text) == []


def test_a_file_without_large_weights_says_why_it_is_there() -> None:
    files = net_files(network(), "net")
    assert "net_weights.bin" not in files
    text = files["net_weights.c"]
    text = text.decode() if isinstance(text, bytes) else text
    assert text.count("/*") == 1
    assert "no large weights" in text


def test_what_is_not_called_is_not_linked(tmp_path: Path) -> None:
    """The static workspace and the stored result are in separate objects."""
    write_all(tmp_path, net_files(network(), "net"))
    names = ("net.c", "net_static.c", "net_weights.c", "net_selftest.c")
    objects = [compile_file(tmp_path, source, "c99 gcc") for source in names]
    archive = tmp_path / "libnet.a"
    subprocess.run([need_program("ar"), "rcs", str(archive), *map(str, objects)], check=True)

    def linked(call: str) -> set[str]:
        write_all(tmp_path, {"main.c": USES.replace("CALL", call)})
        unused = ["-Wno-unused-variable"]
        main = compile_file(tmp_path, "main.c", "c99 gcc", unused)
        return {s for s in symbols(link(tmp_path, [main, archive])) if s.startswith("net_")}

    assert linked("net_run_in(memory, image, scores);") >= {"net_run_in"}
    assert "net_run" not in linked("net_run_in(memory, image, scores);")
    assert "net_selftest" not in linked("net_run_in(memory, image, scores);")
    assert {"net_run", "net_run_in"} <= linked("net_run(image, scores);")


REENTRY = """
#include "net.h"
#include <signal.h>
#include <stdlib.h>
static float image[NET_IMAGE_LEN], scores[NET_SCORES_LEN];
static void stop(int number) { (void)number; _Exit(3); }
/* A signal handler is the plainest second caller. */
static void again(int number) { (void)number; net_run(image, scores); }
int main(void)
{
    signal(SIGILL, stop);
    signal(SIGTRAP, stop);
    signal(SIGUSR1, again);
    net_run(image, scores);
    return 0;
}
void net_run_in(void *workspace, const float *x, float *y)
{
    static int calls;
    (void)workspace; (void)x; (void)y;
    if (++calls == 1) {
        raise(SIGUSR1);
    }
}
"""


@pytest.mark.parametrize(("flag", "expected"), [("-UNDEBUG", 3), ("-DNDEBUG", 0)])
def test_reentry_traps_in_debug_builds(tmp_path: Path, flag: str, expected: int) -> None:
    write_all(tmp_path, {**net_files(network(), "net"), "main.c": REENTRY})
    objects = [compile_file(tmp_path, s, "c11 gcc", [flag]) for s in ("main.c", "net_static.c")]
    program = link(tmp_path, objects)
    assert subprocess.run([str(program)], check=False).returncode == expected
