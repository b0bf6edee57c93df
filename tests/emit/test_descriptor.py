"""A network for tools that know no names: n inputs at once are n runs, in memory of exact size."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from cannery.emit.files import output_files
from cannery.lowering.cores import Cores
from cannery.options import make_options
from cannery.passes import run_passes
from cannery.pipeline import compile_model
from cannery.target.isa import isa
from emit.c_programs import compile_file, network, write_all
from emit.test_lengths import MAX, reader
from emit.test_view import network as bytes_network
from frontends.keras_files import write_h5
from needs import missing, need_program
from nets.net_bench import make_net_source

MAIN = """
#include "net.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const cannery_model *const m = &net_model;
static const cannery_parallel_model *const p = &net_parallel_model;

static void *zeros(size_t bytes)
{
    void *const memory = aligned_alloc(64, (bytes + 64) / 64 * 64);
    memset(memory, 0, bytes);
    return memory;
}

static void backwards(void *context, int32_t count, cannery_task task, void *data)
{
    for (++*(int *)context; count > 0;) {
        task(data, --count);
    }
}

static unsigned char *filled(const cannery_tensor *t, int n)
{
    unsigned char *const x = (unsigned char *)malloc((size_t)n * t->bytes);
    for (size_t i = 0; i < (size_t)n * t->bytes; ++i) {
        x[i] = (unsigned char)(i * 7919 >> 3);
    }
    for (size_t i = 0; t->dtype == CANNERY_FLOAT32 && i < (size_t)n * t->bytes / 4; ++i) {
        ((float *)(void *)x)[i] = (float)(i * 7919 % 1009) / 1009.0f;
    }
    return x;
}

int main(int argc, char **argv)
{
    const int n = atoi(argv[argc - 1]);
    int calls = 0, wrong = 0;
    const cannery_pool pool = { backwards, &calls, 3 };
    void *const one = zeros(m->many_workspace_bytes);
    void *const shares = zeros(3 * p->many_thread_bytes);
    const void *x[4], *at[4];
    void *y[4], *z[4], *to[4];
    for (int k = 0; k < m->input_count; ++k) {
        x[k] = filled(m->inputs + k, n);
    }
    for (int k = 0; k < m->output_count; ++k) {
        y[k] = malloc((size_t)n * m->outputs[k].bytes);
        z[k] = malloc((size_t)n * m->outputs[k].bytes);
    }
    for (int i = 0; i < n; ++i) {
        for (int k = 0; k < m->input_count; ++k) {
            at[k] = (const char *)x[k] + (size_t)i * m->inputs[k].bytes;
        }
        for (int k = 0; k < m->output_count; ++k) {
            to[k] = (char *)y[k] + (size_t)i * m->outputs[k].bytes;
        }
        m->run(one, at, to);
    }
    for (int way = 0; way < 2; ++way) {
        for (int k = 0; k < m->output_count; ++k) {
            memset(z[k], 255, (size_t)n * m->outputs[k].bytes);
        }
        if (way) {
            p->run_many(shares, &pool, n, x, z);
        } else {
            m->run_many(one, n, x, z);
        }
        for (int k = 0; k < m->output_count; ++k) {
            wrong |= memcmp(y[k], z[k], (size_t)n * m->outputs[k].bytes) != 0;
        }
    }
    printf("%d %d", wrong, calls > 0);
    return 0;
}
"""

#: Beside these, how many are taken at once: 16 one after the other, 256 on several cores.
COUNTS = (1, 5, 16, 17, 33, 256, 259)


def plain(folder: Path) -> dict[str, bytes]:
    cores = Cores(piece_us=0.0)
    made = make_net_source(run_passes(network()), isa("generic"), "net", cores=cores)
    return output_files(made, "test")


def views(folder: Path) -> dict[str, bytes]:
    """An image of bytes that lies in a larger one."""
    graph, cores = run_passes(bytes_network(3)), Cores(piece_us=0.0)
    made = make_net_source(graph, isa("generic"), "net", views=True, cores=cores)
    assert any(tensor.view for tensor in made.inputs)
    return output_files(made, "test")


def lengths(folder: Path) -> dict[str, bytes]:
    """Sequences of any length, of which a tool gives the longest."""
    file = write_h5(folder / "net.h5", reader(None))
    raw = {"variable_length": True, "dims": (f"x.1={MAX}",), "isa": ("generic",), "parallel": True}
    return compile_model(make_options(file, raw)).files


@pytest.mark.parametrize("make", [plain, views, lengths])
def test_many_at_once(make: Callable[[Path], dict[str, bytes]], tmp_path: Path) -> None:
    need_program("gcc")
    files = make(tmp_path)
    write_all(tmp_path, {**files, "main.c": MAIN})
    sources = [name for name in (*files, "main.c") if name.endswith(".c")]
    flags = ("-O1", "-fsanitize=address")
    objects = [compile_file(tmp_path, name, "c11 gcc", flags) for name in sources]
    link = ["gcc", *flags, *map(str, objects), "-o", "program", "-lm"]
    done = subprocess.run(link, cwd=tmp_path, capture_output=True, text=True, check=False)
    if done.returncode:
        missing(f"gcc has no sanitizers: {done.stderr[:200]}")
    for count in COUNTS:
        ran = subprocess.run(
            [tmp_path / "program", str(count)], capture_output=True, text=True, check=False,
            env={**os.environ, "ASAN_OPTIONS": "detect_leaks=0"},
        )  # fmt: skip
        assert ran.returncode == 0, f"{count}: {ran.stderr}"
        assert ran.stdout == f"0 {int(count > 1)}", count
