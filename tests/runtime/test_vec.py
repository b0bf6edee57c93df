"""Every word of the vector vocabulary against plain C (vec_words.c), for each instruction set.

x86-64 runs on this machine, with gcc and clang; 32-bit Atom, Arm and RISC-V under emulators.
Compilers, languages and optimisation levels are combined pairwise; `-m slow` adds the others.
The programs are compiled with all warnings as errors.
"""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path

import pytest

from cannery.resources import runtime_include_dir
from vec_programs import CROSS, NATIVE, STANDARDS, WARNINGS, Build, compile_program, toolchain

PAIRWISE = {
    ("gcc", "c99", "-O2"),
    ("gcc", "c++11", "-O0"),
    ("clang", "c++11", "-O2"),
    ("clang", "c99", "-O0"),
}
NATIVE_BUILDS = [
    Build(*row) for row in product(NATIVE, ("gcc", "clang"), STANDARDS, ("-O0", "-O2"))
]
#: Without optimisation newlib's fmaf is called, which rounds twice.
CROSS_BUILDS = [
    Build(*row) for row in product(CROSS, ("",), STANDARDS, ("-O0", "-O2"))
    if (row[0], row[3]) != ("helium", "-O0")
]  # fmt: skip


def _is_usual(build: Build) -> bool:
    return (build.compiler, build.language, build.level) in PAIRWISE


USUAL = [b for b in NATIVE_BUILDS if _is_usual(b)] + CROSS_BUILDS
OTHERS = [b for b in NATIVE_BUILDS if not _is_usual(b)]


def _check(build: Build, folder: Path, header: str = "") -> None:
    program, runner = compile_program("vec_words.c", build, folder, header)
    assert runner.run_text(program) == "0 failures\n"


@pytest.mark.parametrize("build", USUAL, ids=str)
def test_words(build: Build, tmp_path: Path) -> None:
    _check(build, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("build", OTHERS, ids=str)
def test_words_in_other_combinations(build: Build, tmp_path: Path) -> None:
    _check(build, tmp_path)


#: Compilers that know eight lanes, so that no ABI is missing, and one for each way of shuffling.
BASE_BUILDS = [
    Build("avx2", "gcc"), Build("avx2", "clang", "c++11"), Build("avx2", "gcc", "c++11", "-O0"),
    Build("riscv64"), Build("riscv64", language="c++11", level="-O0"),
]  # fmt: skip


@pytest.mark.parametrize("build", BASE_BUILDS, ids=str)
def test_words_of_the_base_alone(build: Build, tmp_path: Path) -> None:
    """What a new register family has before it defines any words."""
    _check(build, tmp_path, "vec_base_only.h")


HEADERS = {
    "cortex-m7": ("vec_scalar.h", "vec_dsp.h"),
    "sse2": ("vec_scalar.h", "vec_x86_128.h"),
    "avx512": ("vec_x86_256.h", "vec_x86_512.h"),
    "helium": ("vec_mve.h",),
    "neon32": ("vec_neon.h",),
    "riscv64v128": ("vec_rvv.h",),
    "riscv64v256": ("vec_rvv.h",),
}


@pytest.mark.parametrize("language", STANDARDS)
@pytest.mark.parametrize("target", HEADERS)
def test_headers_are_silent_alone(target: str, language: str, tmp_path: Path) -> None:
    """Unused, no header causes warnings, also when followed by vec_math.h."""
    tools = toolchain(Build(target))
    for header in HEADERS[target]:
        source = tmp_path / f"{header}.c"
        source.write_text(f'#include "cannery/{header}"\n#include "cannery/vec_math.h"\nint x;\n')
        flags = [*tools.cflags, *WARNINGS, *STANDARDS[language]]
        tools.compiler.compile(source, tmp_path / "alone.o", flags, [runtime_include_dir()])


KERNEL = """
#include "cannery/HEADER"
void kernel(const float *x, const float *w, float *y, int n);
void kernel(const float *x, const float *w, float *y, int n)
{
    int i;
    VECTOR a0 = VECTOR_zero(), a1 = a0, a2 = a0, a3 = a0, a4 = a0, a5 = a0, a6 = a0, a7 = a0;
    for (i = 0; i < n; ++i) {
        const VECTOR w0 = VECTOR_load_aligned(w), w1 = VECTOR_load_aligned(w + LANES);
        a0 = VECTOR_fma(VECTOR_load1(x), w0, a0);
        a1 = VECTOR_fma(VECTOR_load1(x), w1, a1);
        a2 = VECTOR_fma(VECTOR_load1(x + 100), w0, a2);
        a3 = VECTOR_fma(VECTOR_load1(x + 100), w1, a3);
        a4 = VECTOR_fma(VECTOR_load1(x + 200), w0, a4);
        a5 = VECTOR_fma(VECTOR_load1(x + 200), w1, a5);
        a6 = VECTOR_fma(VECTOR_load1(x + 300), w0, a6);
        a7 = VECTOR_fma(VECTOR_load1(x + 300), w1, a7);
        x += 1;
        w += 2 * LANES;
    }
    VECTOR_store(y, a0);
    VECTOR_store(y + LANES, a1);
    VECTOR_store(y + 2 * LANES, a2);
    VECTOR_store(y + 3 * LANES, a3);
    VECTOR_store(y + 4 * LANES, a4);
    VECTOR_store(y + 5 * LANES, a5);
    VECTOR_store(y + 6 * LANES, a6);
    VECTOR_store_n(y + 7 * LANES, a7, 3);
}
"""

#: Target, lanes, and what multiplies and adds in one instruction (or multiplies).
KERNELS = [
    ("sse2", 4, r"\bmulps\b"),
    ("avx2", 8, r"\bvfmadd\d+ps\b.*ymm"),
    ("avx512", 4, r"\bvfmadd\d+ps\b.*xmm"),
    ("avx512", 16, r"\bvfmadd\d+ps\b.*zmm"),
]
KERNEL_BUILDS = [
    *((*kernel, compiler) for kernel, compiler in product(KERNELS, ("gcc", "clang"))),
    ("neon64", 4, r"\bfmla\b", "gcc"),
    ("riscv64v128", 4, r"\bvfmacc\.vf\b", "clang"),
    ("riscv64v256", 4, r"\bvfmacc\.vf\b", "clang"),
    ("riscv64v256", 8, r"\bvfmacc\.vf\b", "clang"),
]


@pytest.mark.parametrize(("target", "lanes", "instruction", "compiler"), KERNEL_BUILDS)
def test_accumulators_stay_in_registers(
    target: str, lanes: int, instruction: str, compiler: str, tmp_path: Path
) -> None:
    """Named accumulators cost one instruction each: no call, nothing on the stack."""
    tools = toolchain(Build(target, compiler))
    source, assembly = tmp_path / "kernel.c", tmp_path / "kernel.s"
    text = KERNEL.replace("HEADER", tools.target.isa.header)
    source.write_text(text.replace("VECTOR", f"f32x{lanes}").replace("LANES", str(lanes)))
    flags = [*tools.cflags, *WARNINGS, "-std=c99", "-S", "-fno-asynchronous-unwind-tables"]
    tools.compiler.compile(source, assembly, flags, [runtime_include_dir()])
    lines = assembly.read_text().splitlines()
    assert sum(bool(re.search(instruction, line)) for line in lines) == 8
    assert not [line for line in lines if re.search(r"\bcall\b|\bbl\b|%rsp|%rbp|\bsp\b", line)]


#: Target, lanes, and the instruction that makes floats of float16.
CONVERSIONS = [
    ("avx2", 8, "vcvtph2ps"), ("avx512", 16, "vcvtph2ps"), ("neon64", 4, "fcvtl"),
    ("neon32-vfpv4", 4, "vcvt.f32.f16"), ("cortex-m4", 1, "vcvtb.f32.f16"),
    ("cortex-m7", 1, "vcvtb.f32.f16"),
]  # fmt: skip


@pytest.mark.parametrize(("target", "lanes", "instruction"), CONVERSIONS)
def test_float16_is_converted_by_an_instruction(
    target: str, lanes: int, instruction: str, tmp_path: Path
) -> None:
    tools = toolchain(Build(target))
    source, assembly = tmp_path / "kernel.c", tmp_path / "kernel.s"
    vec = f"f32x{lanes}"
    source.write_text(
        f'#include "cannery/{tools.target.isa.header}"\n'
        "void kernel(const uint16_t *w, float *y);\n"
        "void kernel(const uint16_t *w, float *y)\n"
        f"{{\n    {vec}_store(y, {vec}_load_f16(w));\n}}\n"
    )
    flags = [*tools.cflags, *WARNINGS, "-std=c99", "-S"]
    tools.compiler.compile(source, assembly, flags, [runtime_include_dir()])
    text = assembly.read_text()
    assert text.count(instruction) == 1
    assert not re.search(r"0x38800000|947912704|939524096", text)
