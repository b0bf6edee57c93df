"""The C expressions of the elementwise operators, compiled and run against the references."""

from __future__ import annotations

import ctypes
import os
import platform
import shutil
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from cannery.emit.literals import c_float
from cannery.emit.words import Words
from cannery.ops.elementwise import (
    Abs,
    Add,
    Ceil,
    Celu,
    Clip,
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
from cannery.ops.registry import Elementwise, all_ops

F32 = NDArray[np.float32]


class Case(NamedTuple):
    """`op` in `form` is within `ulps` of the float32 result, or `absolute`, or `relative`.

    0 ulps, without the others, is the reference rounded to float32, bit by bit but for the sign
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
    Case(HardSwish(), ulps=2.0, absolute=1e-6),
    *(Case(op, ulps=4.0) for op in (Exp(), Log(), Erf(), Tanh(), Sigmoid())),
    *(Case(op, ulps=5.0) for op in (Elu(), Elu(0.3), Selu(), Celu(), Celu(2.5))),
    Case(Celu(-2.5), relative=1e-5, absolute=3e-45),
    *(Case(op, ulps=5.0) for op in (Softplus(), Softsign())),
    *(Case(op, absolute=1e-6, relative=1e-6) for op in (Silu(), Mish(), Gelu(), Gelu(True))),
    Case(Exp(), relative=0.05, absolute=1e-37, form="schraudolph"),
    Case(Tanh(), absolute=1e-4, form="rational"),
    Case(Tanh(), absolute=1e-5, form="table"),
    Case(Sigmoid(), absolute=1e-4, form="rational"),
]

BINARY = [
    *(Case(op) for op in (Add(), Sub(), Mul(), Div(), Max(), Min(), PRelu())),
    Case(Pow(), relative=2e-5, absolute=1e-44),
]


INCLUDE = Path(__file__).resolve().parents[2] / "runtime" / "include" / "cannery"
CASES = [(case, case in UNARY) for case in [*UNARY, *BINARY]]
X86 = platform.machine().lower() in ("x86_64", "amd64", "i686")
#: Width and what it takes; the scalar words are plain C, the others the host's own registers.
WIDTHS = {
    "f32x1": ("vec_scalar.h", []),
    "f32x4": ("vec_x86_128.h", ["-mssse3"]) if X86 else ("vec_neon.h", []),
}
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror"]


def compiler(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        if os.environ.get("CANNERY_STRICT") == "1":
            pytest.fail(f"{name} is not installed")
        pytest.skip(f"{name} is not installed")
    return found


def function(index: int, case: Case, vec: str, unary: bool) -> str:
    """`void f<index>(const float *a, const float *b, float *y, int n)`, n a multiple of 4."""
    arguments = ["a"] if unary else ["a", "b"]
    loads = "".join(f"        const {vec} {x} = {vec}_load(p{x} + i);\n" for x in arguments)
    lanes = int(vec.removeprefix("f32x"))
    return (
        f"void f{index}(const float *pa, const float *pb, float *y, int n);\n"
        f"void f{index}(const float *pa, const float *pb, float *y, int n)\n{{\n"
        f"    int i;\n    (void)pb;\n    for (i = 0; i < n; i += {lanes}) {{\n{loads}"
        f"        {vec}_store(y + i, {case.op.c(vec, *arguments, form=case.form)});\n    }}\n}}\n"
    )


def source(vec: str) -> str:
    head = f'#include "{WIDTHS[vec][0]}"\n#include "vec_math.h"\n'
    bodies = (function(i, c, vec, unary) for i, (c, unary) in enumerate(CASES))
    return head + "\n".join(bodies)


@pytest.fixture(scope="module", params=list(WIDTHS))
def library(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """All expressions of one width, as a shared library."""
    vec = str(request.param)
    folder = tmp_path_factory.mktemp(vec)
    file, built = folder / "ops.c", folder / "ops.so"
    file.write_text(source(vec))
    flags = ["-std=c99", "-O2", "-ffp-contract=off", "-fPIC", "-shared", *WARNINGS]
    command = [compiler("cc"), *flags, *WIDTHS[vec][1], f"-I{INCLUDE}", str(file), "-o", str(built)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return ctypes.CDLL(str(built))


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
    return np.concatenate([values, np.zeros(-len(values) % 4, np.float32)])


def pairs() -> tuple[F32, F32]:
    """A grid of numbers and edges on both sides."""
    edges = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, 2.0, 3.0, 0.5, 7.0, 1e-40, 3e38]
    one = np.array([*edges, *(-e for e in edges), *np.linspace(-7.3, 8.1, 40)], np.float32)
    a, b = np.meshgrid(one, one)
    return a.ravel(), b.ravel()


def check(case: Case, y: F32, reference: NDArray[np.float64], where: list[F32]) -> None:
    with np.errstate(over="ignore", under="ignore"):
        expected = reference.astype(np.float32)
    same = (y == expected) | (np.isnan(y) & np.isnan(expected))
    with np.errstate(invalid="ignore", over="ignore"):
        error = np.abs(y.astype(np.float64) - reference)
        ulp = np.spacing(np.abs(expected)).astype(np.float64)
        allowed = np.maximum(case.ulps * ulp, case.relative * np.abs(reference)) + case.absolute
    bad = ~same & ~(error <= allowed)
    first = [f"{[float(w[i]) for w in where]} -> {y[i]}, {reference[i]}" for i in bad.nonzero()[0]]
    assert not bad.any(), f"{len(first)} values, such as " + "; ".join(first[:6])


@pytest.mark.parametrize(
    ("index", "case"), list(enumerate(UNARY)), ids=[f"{c.op!r}{c.form}" for c in UNARY]
)
def test_unary(library: Any, index: int, case: Case) -> None:
    x = samples()
    if case.form == "schraudolph":  # saturates short of infinity
        x = np.where(x > 88, np.float32(0), x)
    y = run(library, index, x, x)
    (reference,) = case.op.reference(x.astype(np.float64))
    check(case, y, reference.astype(np.float64), [x])


@pytest.mark.parametrize(
    ("index", "case"), list(enumerate(BINARY, len(UNARY))), ids=[f"{c.op!r}" for c in BINARY]
)
def test_binary(library: Any, index: int, case: Case) -> None:
    a, b = pairs()
    if case.op.kind == "Pow":  # (-1)^infinity: documented
        keep = ~((a == -1) & np.isinf(b))
        a, b = (np.pad(v[keep], (0, int(-keep.sum() % 4))) for v in (a, b))
    y = run(library, index, a, b)
    (reference,) = case.op.reference(a.astype(np.float64), b.astype(np.float64))
    check(case, y, reference.astype(np.float64), [a, b])


def run(library: Any, index: int, a: F32, b: F32) -> F32:
    y = np.full_like(a, 777.0)
    pointers = (v.ctypes.data_as(ctypes.c_void_p) for v in (a, b, y))
    library[f"f{index}"](*pointers, len(a))
    return y


def test_all_operators_and_forms_are_cases() -> None:
    forms = {(type(c.op), c.form) for c, _ in CASES}
    ops = [cls for cls in all_ops().values() if issubclass(cls, Elementwise)]
    assert forms == {(cls, form) for cls in ops for form in ("", *cls.approximations)}


@pytest.mark.parametrize(("name", "standard"), [("clang", "-std=c99"), ("g++", "-std=c++11")])
@pytest.mark.parametrize("vec", list(WIDTHS))
def test_compiles_silently(name: str, standard: str, vec: str, tmp_path: Path) -> None:
    file = tmp_path / ("ops.c" if standard == "-std=c99" else "ops.cc")
    file.write_text(source(vec))
    flags = [standard, *WARNINGS, *WIDTHS[vec][1], f"-I{INCLUDE}", "-fsyntax-only"]
    result = subprocess.run(
        [compiler(name), *flags, str(file)], capture_output=True, text=True, check=False
    )
    assert (result.returncode, result.stderr) == (0, "")


def test_unknown_form_is_refused() -> None:
    for case, unary in CASES:
        with pytest.raises(ValueError, match="has no form 'exact'"):
            case.op.c("f32x4", *(["x"] if unary else ["x", "y"]), form="exact")


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
    subprocess.run([compiler("cc"), *flags, str(file), "-o", str(built)], check=True)
    table = (ctypes.c_float * len(values)).in_dll(ctypes.CDLL(str(built)), "table")
    assert (np.ctypeslib.as_array(table).view(np.uint32) == values.view(np.uint32)).all()
