"""The C expressions of the elementwise operators, compiled and run against the references."""

from __future__ import annotations

import ctypes
import platform
import subprocess
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from cannery.ctext.literals import c_float
from cannery.ctext.words import Words
from cannery.ir.registry import Elementwise, all_ops
from cannery.ops.elementwise import (
    Abs,
    Add,
    Affine,
    Ceil,
    Celu,
    Clip,
    Composite,
    Div,
    Elu,
    Erf,
    Exp,
    Floor,
    Gelu,
    HardSigmoid,
    HardSwish,
    LeakyRelu,
    Log,
    Max,
    Member,
    Min,
    Mish,
    Mul,
    Neg,
    Pow,
    PRelu,
    Reciprocal,
    Relu,
    ReluGeneral,
    Round,
    Selu,
    Sigmoid,
    Sign,
    Silu,
    Softplus,
    Softsign,
    Sqrt,
    Square,
    Sub,
    Tanh,
    ThresholdedRelu,
)
from cannery.resources import runtime_include_dir
from cannery.target.isa import ISAS, Isa
from needs import need_program, need_runner, need_toolchain

F32 = NDArray[np.float32]


class Case(NamedTuple):
    """`op` in `form` is within `ulps` of the float32 result, or `absolute`, or `relative`.

    0 ulps, without the others, is the reference rounded to float32, bit by bit except for the sign
    of zero.
    """

    op: Elementwise
    ulps: float = 0.0
    absolute: float = 0.0
    relative: float = 0.0
    form: str = ""


UNARY = [
    *(Case(op) for op in (Relu(), Abs(), Neg(), Floor(), Ceil(), Round(), Sign(), Square())),
    *(Case(op) for op in (Sqrt(), Reciprocal())),
    *(Case(LeakyRelu(a)) for a in (0.1, 0.3, 1.0, 2.5, -0.5)),
    Case(LeakyRelu(0.0)),
    Case(ReluGeneral()),
    Case(ReluGeneral(0.0, 0.0, 6.0)),
    Case(ReluGeneral(0.0, 1.1)),
    Case(ReluGeneral(0.0, 2.3, 1.0)),
    Case(ReluGeneral(0.2, 0.0, 1.1)),
    Case(ReluGeneral(0.2, 1.1, 2.3), ulps=1.5, absolute=1e-7),
    Case(ThresholdedRelu(1.1)),
    Case(ThresholdedRelu(-1.1)),
    Case(Clip(0.0, 6.0)),
    Case(Clip(-1.1, 2.3)),
    Case(Clip(float("-inf"), 2.3)),
    Case(Clip(-1.1, float("inf"))),
    Case(Clip(2.3, 1.1)),
    *(Case(HardSigmoid(a, 0.5), absolute=1.2e-7) for a in (0.2, 1.0 / 6.0)),
    Case(Affine(2.5)),
    Case(Affine(0.3, 1.1), ulps=1.5, absolute=2e-7),
    Case(HardSwish(), ulps=2.0, absolute=1e-6),
    *(Case(op, ulps=4.0) for op in (Exp(), Log(), Erf(), Tanh(), Sigmoid())),
    *(Case(op, ulps=5.0) for op in (Elu(), Elu(0.3), Selu(), Celu(), Celu(2.5))),
    Case(Celu(-2.5), relative=1e-5, absolute=3e-45),
    *(Case(op, ulps=5.0) for op in (Softplus(), Softsign())),
    *(Case(op, absolute=3e-36, relative=1e-6) for op in (Silu(), Mish())),
    Case(Gelu(), absolute=5.1e-15, relative=1.5e-5),
    Case(Gelu(True), absolute=1e-6, relative=1e-6),
    Case(
        Composite((Member(Mul(), (0, -1)), Member(Sigmoid(), (1,)), Member(Mul(), (0, 2))), (1.7,)),
        absolute=3e-36,
        relative=1e-5,
    ),
    Case(Composite((Member(Square(), (0,)), Member(Mul(), (1, 0)))), ulps=1.5, absolute=2e-45),
    Case(Composite((Member(Max(), (0, -2)), Member(Sub(), (1, -1))), (1.5, -2.5)), absolute=3e-7),
    Case(Exp(), relative=0.05, absolute=1e-37, form="schraudolph"),
    Case(Tanh(), absolute=1e-4, form="rational"),
    Case(Tanh(), absolute=1e-5, form="table"),
    Case(Sigmoid(), absolute=1e-4, form="rational"),
]

BINARY = [
    *(Case(op) for op in (Add(), Sub(), Mul(), Div(), Max(), Min(), PRelu())),
    Case(Pow(), relative=2e-5, absolute=1e-44),
]


CASES = [*UNARY, *BINARY]
TARGETS = (
    *("generic", "sse2", "ssse3", "sse42", "avx2", "avx512", "neon32", "neon64"),
    *("riscv64v128", "riscv64v256"),
    *("sse2-32", "ssse3-32"),
)
HOST_ISA = "ssse3" if platform.machine() == "x86_64" else "neon64"
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror"]


def function(index: int, case: Case, vec: str) -> str:
    """`static void f<index>_<lanes>(pa, pb, y, n)`, n a multiple of the lanes."""
    arguments = ["a", "b"] if case in BINARY else ["a"]
    loads = "".join(f"        const {vec} {x} = {vec}_load(p{x} + i);\n" for x in arguments)
    lanes = int(vec.removeprefix("f32x"))
    return (
        f"static void f{index}_{lanes}(const float *pa, const float *pb, float *y, int n)\n{{\n"
        f"    int i;\n    (void)pb;\n    for (i = 0; i < n; i += {lanes}) {{\n{loads}"
        f"        {vec}_store(y + i, {case.op.c(vec, *arguments, form=case.form)});\n    }}\n}}\n"
    )


MAIN = """
static float a[{most}], b[{most}], y[{most}];

int main(int argc, char **argv)
{{
    FILE *in = argc == 3 ? fopen(argv[1], "rb") : NULL;
    FILE *out = argc == 3 ? fopen(argv[2], "wb") : NULL;
    size_t moved = 0;
    if (in == NULL || out == NULL) {{
        return 1;
    }}
{calls}    (void)fclose(in);
    return fclose(out) == 0 && moved == {moved} ? 0 : 1;
}}
"""


def source(isa: Isa) -> str:
    """A program that reads the samples of UNARY, then of BINARY; writes the results of each case.

    Results come case by case, within a case by width.
    """
    text = f'#include "{isa.header}"\n#include "vec_math.h"\n#include <stdio.h>\n'
    calls, moved = "", 0
    for index, case in enumerate(CASES):
        first = case in (UNARY[0], BINARY[0])
        a, _ = operands_of(case)
        if first:
            for array in "ab":
                calls += f"    moved += fread({array}, sizeof(float), {len(a)}, in);\n"
                moved += len(a)
        for lanes in isa.lanes:
            text += function(index, case, isa.vec(lanes))
            calls += f"    f{index}_{lanes}(a, b, y, {len(a)});\n"
            calls += f"    moved += fwrite(y, sizeof(float), {len(a)}, out);\n"
            moved += len(a)
    return text + MAIN.format(most=max(len(samples()), len(pairs()[0])), calls=calls, moved=moved)


@cache
def samples() -> F32:
    """Dense around 0, every magnitude, edges, and both sides of every threshold in the cases."""
    dense = np.linspace(-12.0, 12.0, 4801)
    powers = 2.0 ** np.linspace(-149.0, 127.9, 1200)
    halves = np.arange(-6, 7) + 0.5
    edges = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, 1.1754944e-38, 3.4028235e38, -3.4028235e38]
    bounds = np.array([0.1, 0.3, 1.0, 1.1, 2.3, 3.0, 6.0], np.float32)
    near = [np.nextafter(bounds, np.float32(s)) for s in (-9.0, 9.0)]
    thresholds = np.concatenate([bounds, *near])
    parts: list[Any] = [dense, powers, -powers, halves, edges, thresholds, -thresholds]
    values = np.concatenate(parts).astype(np.float32)
    return np.concatenate([values, np.zeros(-len(values) % 16, np.float32)])


@cache
def pairs() -> tuple[F32, F32]:
    """A grid of numbers and edges on both sides."""
    edges = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, 2.0, 3.0, 0.5, 7.0, 1e-40, 3e38]
    one = np.array([*edges, *(-e for e in edges), *np.linspace(-7.3, 8.1, 40)], np.float32)
    a, b = np.meshgrid(one, one)
    return a.ravel(), b.ravel()


def operands_of(case: Case) -> tuple[F32, F32]:
    return pairs() if case in BINARY else (samples(), samples())


def covered(case: Case, a: F32, b: F32) -> NDArray[np.bool_]:
    """Where a case promises anything."""
    if case.form == "schraudolph":  # saturates short of infinity
        return np.asarray(~(a > 88))
    if case.op.kind == "Pow":
        return np.asarray(~((a == -1) & np.isinf(b)))
    return np.ones(a.shape, np.bool_)


def flushed(x: F32) -> F32:
    """Subnormals as zero."""
    return np.where(np.abs(x) < np.finfo(np.float32).tiny, np.copysign(np.float32(0), x), x)


def failures(case: Case, y: F32, a: F32, b: F32, *, flush: bool) -> str:
    """What is wrong with the result of a case, in words."""
    inputs = [x.astype(np.float64) for x in ((a, b) if case in BINARY else (a,))]
    reference = case.op.reference(*inputs)[0].astype(np.float64)
    with np.errstate(all="ignore"):
        expected = reference.astype(np.float32)
        error = np.abs(y.astype(np.float64) - reference)
        ulp = np.spacing(np.abs(expected)).astype(np.float64)
        allowed = np.maximum(case.ulps * ulp, case.relative * np.abs(reference)) + case.absolute
    allowed += 1e-37 if flush else 0.0  # intermediate results, too
    same = (y == expected) | (np.isnan(y) & np.isnan(expected))
    bad = (~same & ~(error <= allowed) & covered(case, a, b)).nonzero()[0]
    shown = [f"{[float(x[i]) for x in inputs]} -> {y[i]}, not {expected[i]}" for i in bad[:4]]
    return f"{case.op!r} {case.form}: {len(bad)} values: {'; '.join(shown)}" if shown else ""


@pytest.mark.parametrize("name", TARGETS)
def test_expressions(name: str, tmp_path: Path) -> None:
    toolchain = need_toolchain(name)
    isa = toolchain.target.isa
    file, program = tmp_path / "ops.c", tmp_path / "ops"
    file.write_text(source(isa))
    compiler, obj = toolchain.compiler, file.with_suffix(".o")
    flags = (*toolchain.cflags, "-std=c99", *WARNINGS)
    compiler.compile(file, obj, flags, [runtime_include_dir() / "cannery"])
    compiler.link([obj], program, [*toolchain.cflags, *toolchain.ldflags, "-lm"])
    flush = name == "neon32"  # documented: its vectors know no subnormals
    given = [flushed(x) if flush else x for x in (samples(), samples(), *pairs())]
    data, result = tmp_path / "in", tmp_path / "out"
    data.write_bytes(np.concatenate(given).tobytes())
    need_runner(toolchain).run_text(program, [str(data), str(result)])
    results = np.fromfile(result, np.float32)
    wrong = []
    for case in CASES:
        a, b = (given[2], given[3]) if case in BINARY else (given[0], given[1])
        for lanes in isa.lanes:
            y, results = results[: len(a)], results[len(a) :]
            found = failures(case, y, a, b, flush=flush)
            wrong += [f"f32x{lanes} {found}"] if found else []
    assert not results.size
    assert not wrong, "\n".join(wrong)


def test_all_operators_and_forms_are_cases() -> None:
    forms = {(type(c.op), c.form) for c in CASES}
    ops = [cls for cls in all_ops().values() if issubclass(cls, Elementwise)]
    assert forms == {(cls, form) for cls in ops for form in ("", *cls.approximations)}


@pytest.mark.parametrize(("name", "standard"), [("clang", "-std=c99"), ("g++", "-std=c++11")])
@pytest.mark.parametrize(
    "isa", ["generic", "ssse3" if platform.machine() == "x86_64" else "neon64"]
)
def test_compiles_silently(name: str, standard: str, isa: str, tmp_path: Path) -> None:
    file = tmp_path / ("ops.c" if standard == "-std=c99" else "ops.cc")
    row = ISAS[isa]
    file.write_text(source(row))
    flags = [
        standard,
        *WARNINGS,
        *row.flags,
        f"-I{runtime_include_dir() / 'cannery'}",
        "-fsyntax-only",
    ]
    result = subprocess.run(
        [need_program(name), *flags, str(file)], capture_output=True, text=True, check=False
    )
    assert (result.returncode, result.stderr) == (0, "")


def test_unknown_form_is_refused() -> None:
    for case in CASES:
        arguments = ["x", "y"] if case in BINARY else ["x"]
        with pytest.raises(ValueError, match="has no form 'exact'"):
            case.op.c("f32x4", *arguments, form="exact")


def test_words() -> None:
    w = Words("f32x8")
    assert w.max(0.0, "x") == "f32x8_max(f32x8_zero(), x)"
    assert w.fma(0.1, "x", -0.0) == "f32x8_fma(f32x8_set1(0.1f), x, f32x8_set1(-0.0f))"
    assert w.zero() == "f32x8_zero()"


@pytest.mark.parametrize(
    ("value", "literal"),
    [
        (0.1, "0.1f"),
        (6.0, "6.0f"),
        (-0.0, "-0.0f"),
        (1e-5, "1e-05f"),
        (1 / 3, "0.33333334f"),
        (1e16, "1e+16f"),
        (float("inf"), "(1.0f / 0.0f)"),
        (-1e39, "(-1.0f / 0.0f)"),
        (float("nan"), "(0.0f / 0.0f)"),
    ],
)
def test_literals(value: float, literal: str) -> None:
    assert c_float(value) == literal


def test_literals_read_back_exactly(tmp_path: Path) -> None:
    bits = np.arange(0, 1 << 32, 1_000_003, dtype=np.uint64).astype(np.uint32)
    values = bits.view(np.float32)
    values = values[~np.isnan(values)]
    values = np.concatenate([values, np.array([3.4028235e38, 1e-45, 1.1754942e-38], np.float32)])
    text = ",\n".join(map(c_float, values.tolist()))
    file, built = tmp_path / "t.c", tmp_path / "t.so"
    file.write_text(f"extern const float table[];\nconst float table[] = {{\n{text}}};\n")
    flags = ["-std=c99", "-fPIC", "-shared", *WARNINGS]
    subprocess.run(
        [need_program("cc", "gcc", "clang"), *flags, str(file), "-o", str(built)], check=True
    )
    table = (ctypes.c_float * len(values)).in_dll(ctypes.CDLL(str(built)), "table")
    assert (np.ctypeslib.as_array(table).view(np.uint32) == values.view(np.uint32)).all()
