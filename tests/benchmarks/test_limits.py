"""Limits of rivals: what they see of the processor, and that it is seen what they use."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from needs import need_program, need_runner, need_toolchain
from rivals.cpuid_sites import cpuid_sites, mapped_code
from rivals.limits import LIMITS, Used, build_library, can_watch, limited

pytestmark = pytest.mark.skipif(not can_watch(), reason="CPUID is of x86-64 Linux")

#: Asks in the way of most libraries; `decoy` has the two bytes of CPUID within another instruction
#: and within a jump, both of which have to stay.
PROGRAM = r"""
#include <cpuid.h>
#include <stdio.h>

__attribute__((noinline)) unsigned decoy(void)
{
    unsigned x;
    __asm__ volatile("movl $0xa20fa20f, %0" : "=r"(x));
    return x;
}

int main(void)
{
    unsigned a, b, c, d, seven, extended;
    __cpuid_count(7, 0, a, seven, c, d);
    __cpuid_count(7, 1, extended, b, c, d);
    __cpuid(1, a, b, c, d);
    printf("%d %d %d %d %d %d %x\n", !!(c & bit_SSSE3), !!(c & bit_AVX), !!(c & bit_FMA),
           !!(seven & bit_AVX2), !!(seven & bit_AVX512F), !!extended, decoy());
    printf("%d %d\n", __builtin_cpu_supports("avx") != 0, __builtin_cpu_supports("avx2") != 0);
    return 0;
}
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """PROGRAM, built."""
    need_program("objdump", "binutils")
    compiler = need_toolchain("native").compiler
    source, built = tmp_path / "features.c", tmp_path / "features"
    source.write_text(PROGRAM)
    compiler.compile(source, built.with_suffix(".o"), ["-O1"])
    compiler.link([built.with_suffix(".o")], built)
    return built.resolve()


def said(program: Path, environment: dict[str, str]) -> list[str]:
    done = subprocess.run(
        [program], env={**os.environ, **environment}, capture_output=True, text=True, check=True
    )
    return done.stdout.split()


@pytest.mark.parametrize("limit", LIMITS)
def test_programs_see_what_the_limit_leaves(limit: str, program: Path, tmp_path: Path) -> None:
    free = said(program, {})
    found = said(program, limited(limit, [program], tmp_path))
    if limit == "sse":
        assert found == [free[0], "0", "0", "0", "0", "0", "a20fa20f", "0", "0"]
    else:
        assert found == [*free[:4], "0", "0", "a20fa20f", *free[7:]]


def test_bytes_within_other_instructions_are_no_sites(program: Path) -> None:
    text = subprocess.run(["objdump", "-d", program], capture_output=True, text=True, check=True)
    lines = [line for line in text.stdout.splitlines() if line.endswith("\tcpuid")]
    assert lines
    assert cpuid_sites(program) == tuple(int(line.split(":")[0], 16) for line in lines)


def test_a_library_that_changed_is_not_redirected(program: Path, tmp_path: Path) -> None:
    """A site that holds no CPUID ends the process: its sites are those of another file."""
    environment = limited("sse", [program], tmp_path)
    site = cpuid_sites(program)[0]
    Path(environment["CPUID_SITES"]).write_text(f"{site + 1:x} {program}\n")
    done = subprocess.run(
        [program], env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "cannot be redirected" in done.stderr


def test_code_that_a_process_has() -> None:
    found = mapped_code(os.getpid())
    assert Path(sys.executable).resolve() in found
    assert any(path.name.startswith("libc.so") for path in found)


WATCHED = """
import ctypes, json, sys
from rivals.child import instructions
library = ctypes.CDLL(sys.argv[2])
print(json.dumps(instructions(sys.argv[1], library.work)))
"""

#: Products of vectors of this type.
WORK = """
typedef float vec __attribute__((vector_size({bytes})));
void work(void)
{{
    vec x[8];
    for (int k = 0; k < 8; ++k) {{ x[k] = (vec){{0}} + (float)k; }}
    for (int n = 0; n < 100000; ++n) {{
        for (int k = 0; k < 8; ++k) {{
            x[k] = x[k] * x[k];
            __asm__ volatile("" : "+{register}"(x[k]));
        }}
    }}
}}
"""


@pytest.mark.parametrize(
    ("isa", "size", "register", "used", "broken"),
    [
        ("ssse3", 16, "x", "no AVX", ()),
        ("avx2", 32, "x", "AVX (", ("sse",)),
        ("avx512", 64, "v", "AVX-512 (", ("sse", "avx2")),
    ],
)
def test_what_is_executed_is_seen(
    isa: str, size: int, register: str, used: str, broken: tuple[str, ...], tmp_path: Path
) -> None:
    toolchain = need_toolchain(isa)
    if need_runner(toolchain).command:
        pytest.skip(f"this processor has no {isa}")
    source, library = tmp_path / "work.c", tmp_path / "work.so"
    source.write_text(WORK.format(bytes=size, register=register))
    flags = [*toolchain.target.flags, "-O2", "-fPIC", "-ffast-math"]
    toolchain.compiler.compile(source, library.with_suffix(".o"), flags)
    toolchain.compiler.link([library.with_suffix(".o")], library, ["-shared"])
    words = [str(build_library("instructions", tmp_path)), str(library)]
    paths = {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", WATCHED, *words], capture_output=True, text=True, check=False,
        env={**os.environ, **paths},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = Used(*map(int, done.stdout.strip(" []\n").split(",")))
    assert found.samples > 10
    assert str(found).startswith(used)
    assert tuple(limit for limit in LIMITS if found.breaks(limit)) == broken


def test_without_samples_nothing_is_said() -> None:
    assert str(Used()) == ""
    assert not Used().breaks("sse")
