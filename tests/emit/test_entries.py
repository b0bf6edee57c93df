"""Functions that programs call work on 32-bit x86 wherever the caller's stack is aligned to 4."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cannery.emit.files import output_files
from cannery.options import make_options
from cannery.pipeline import compile_model
from emit.c_programs import write_all
from emit.stepping_models import stack
from emit.test_parallel import source
from frontends.keras_files import write_h5
from needs import need_runner, need_toolchain

TARGET = "ssse3-32"
POINTERS = 10

#: `shifted(shift, f, a0 ... a9)` calls f(a0 ... a9) with a stack that is `shift` bytes off.
SHIFTED = f"""
#include <stdint.h>
int32_t shifted(int32_t shift, void *f, ...);
__asm__(
    ".text\\n.globl shifted\\nshifted:\\n"
    "pushl %ebp\\nmovl %esp, %ebp\\npushl %esi\\npushl %edi\\n"
    "subl ${4 * POINTERS + 24}, %esp\\nandl $-16, %esp\\nsubl 8(%ebp), %esp\\n"
    "leal 16(%ebp), %esi\\nmovl %esp, %edi\\nmovl ${POINTERS}, %ecx\\ncld\\nrep movsl\\n"
    "call *12(%ebp)\\n"
    "leal -8(%ebp), %esp\\npopl %edi\\npopl %esi\\npopl %ebp\\nret\\n");
"""

MAIN = (
    SHIFTED
    + """
#include "net.h"
#include "steps.h"
#include <stdio.h>
enum { N = 5, THREADS = 3 };
static float room[16][N * NET_IMAGE_LEN]; /* for any tensor */
static double memory[NET_MANY_PARALLEL_WORKSPACE_BYTES(THREADS) / 8 + 8];
static double state[STEPS_STATE_BYTES / 8 + 1];
static int32_t off; /* bytes by which the stack of tasks is wrong */
static void crooked(void *context, int32_t count, cannery_task task, void *data)
{
    (void)context;
    for (int32_t k = 0; k < count; ++k) {
        shifted(off, (void *)task, data, k, 0, 0, 0, 0, 0, 0, 0, 0);
    }
}
#define CALL(f, ...) shifted(off, (void *)(f), __VA_ARGS__, 0, 0, 0, 0, 0, 0, 0, 0, 0)
int main(void)
{
    const cannery_pool pool = { crooked, 0, THREADS };
    void *const ws = (char *)memory + (64 - (size_t)memory % 64) % 64;
    const float *const images[N] = { room[0], room[0], room[0], room[0], room[0] };
    const void *const in[] = { room[0], room[1] };
    void *const out[] = { room[2], room[3] };
    int wrong = 0;
    for (off = 0; off < 16; off += 4) {
        wrong |= CALL(net_selftest, ws);
        wrong |= CALL(steps_selftest, ws);
CALLS
    }
    printf("{\\"wrong\\": %d}\\n", wrong);
    return 0;
}
"""
)


#: Arguments by the names of parameters, with an s where they are for many; others are tensors.
GIVEN = {
    "workspace": "ws", "pool": "&pool", "n": "N", "calls": "N", "threads": "THREADS",
    "images": "images", "state": "state", "image_pixel_stride": "2", "image_row_stride": "12",
}  # fmt: skip


def _calls(header: str, model: str) -> list[str]:
    """A call of every function that a header declares, except the self-test."""
    declared = re.findall(
        rf"^(?:void|cannery_pool) ({model}_\w+)\(([^)]*)\);", header, re.MULTILINE
    )
    calls = []
    for name, parameters in declared:
        words = [re.split(r"[ *]", parameter)[-1] for parameter in parameters.split(",")]
        many = "run_many" in name
        values = []
        for k, (word, parameter) in enumerate(zip(words, parameters.split(","), strict=True)):
            known = GIVEN.get(f"{word}s" if many else word, GIVEN.get(word))
            assert known or "*" in parameter, f"{name}: no number is given for {word}"
            values.append(known or f"room[{k}]")
        calls.append(f"CALL({name}, {', '.join(values)});")
    return calls


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """`net`: a view, stacked inputs, threads; `steps`: a state."""
    model = write_h5(tmp_path_factory.mktemp("steps") / "steps.h5", stack(None))
    options = make_options(model, {"streaming": True, "isa": (TARGET,)})
    return {**output_files(source(TARGET), "test"), **compile_model(options).files}


def test_every_entry_aligns_the_stack_itself(files: dict[str, bytes], tmp_path: Path) -> None:
    toolchain = need_toolchain(TARGET)
    calls = _calls(files["net.h"].decode(), "net")
    calls += _calls(files["steps.h"].decode(), "steps")
    names = {re.split(r"[(,]", call)[1] for call in calls}
    assert {"net_run", "net_run_many_parallel", "net_openmp", "steps_step_in"} <= names
    calls = [call for call in calls if "openmp" not in call]
    calls += [
        "CALL(net_model.run, ws, in, out);", "CALL(net_model.run_many, ws, N, in, out);",
        "CALL(net_parallel_model.run, ws, &pool, in, out);",
        "CALL(net_parallel_model.run_many, ws, &pool, N, in, out);",
        "CALL(steps_model.step, ws, state, in, out);",
    ]  # fmt: skip
    main = MAIN.replace("CALLS", "\n".join(calls))
    write_all(tmp_path, {**files, "main.c": main})
    sources = [tmp_path / name for name in files if name.endswith(".c") and "openmp" not in name]
    toolchain.build([*sources, tmp_path / "main.c"], tmp_path / "program", [tmp_path])
    assert need_runner(toolchain).run(tmp_path / "program") == [{"wrong": 0}]


def test_every_function_of_a_header_is_an_entry(files: dict[str, bytes], tmp_path: Path) -> None:
    """Also where a library chooses between instruction sets."""
    model = write_h5(tmp_path / "both.h5", stack(None))
    raw = {"streaming": True, "parallel": True, "isa": ("sse2", "generic")}
    several = compile_model(make_options(model, raw)).files
    for made, name in ((files, "net"), (files, "steps"), (several, "both")):
        code = "".join(text.decode() for file, text in made.items() if file.endswith(".c"))
        header = made[f"{name}.h"].decode()
        declared = re.findall(rf"^\w+ ({name}_\w+)\(", header, re.MULTILINE)
        assert len(declared) >= 5
        for function in [*declared, "run_any", "run_many_any"]:
            defined = re.findall(rf"^(.*?)\w+ {function}\(.*\)$", code, re.MULTILINE)
            assert defined, function
            assert all(start.startswith("CANNERY_ENTRY ") for start in defined), function
