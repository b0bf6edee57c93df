"""Every word of vec_half.h, bit by bit, against numpy's float16: each operation rounds once.

Arguments are of all kinds: subnormals, zeros, infinities, NaN. Products that are added to something
are of middling size: there float64 has them exactly, and numpy rounds as often as the processor.
"""

from __future__ import annotations

from collections.abc import Callable
from math import erf
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from cannery.ctext.half import half_words
from cannery.resources import runtime_include_dir
from needs import need_runner
from vec_programs import PROGRAMS, STANDARDS, WARNINGS, Build, toolchain

COUNT = 720  # vectors of 4 and 8 lanes meet parts of 0 to 8 elements
Halves = NDArray[np.float16]
Doubles = NDArray[np.float64]


def _values(seed: int) -> Halves:
    """Any numbers, and all edges, at other places for each seed."""
    rng = np.random.default_rng(seed)
    found = rng.integers(0, 1 << 16, COUNT, dtype=np.uint16).view(np.float16)
    edges = [0.0, -0.0, np.inf, -np.inf, np.nan, 6e-8, -6e-8, 6.1e-5, 65504.0, 0.5, 1.5, 2.5, -0.5]
    places = rng.permutation(COUNT)[: 3 * len(edges)]
    found[places] = np.resize(np.array(edges, np.float16), places.size)
    return found


def _middling(seed: int) -> Halves:
    """Numbers whose products and sums float64 has exactly."""
    rng = np.random.default_rng(seed)
    signs = rng.choice([-1.0, 1.0], COUNT)
    return (signs * np.exp2(rng.uniform(-6.0, 3.0, COUNT))).astype(np.float16)


def _array(type_: str, name: str, texts: list[str]) -> str:
    return f"static const {type_} {name}[{COUNT}] = {{{', '.join(texts)}}};\n"


def _bits(name: str, values: Halves) -> str:
    return _array("uint16_t", name, list(map(str, values.view(np.uint16).tolist())))


def _results(folder: Path, build: Build, x: Halves, y: Halves, z: Halves) -> dict[str, Halves]:
    """What the program makes of these, by vector type and word."""
    tools = toolchain(build)
    runner = need_runner(tools)
    floats = [f"{v!r}f" for v in _floats()]
    text = f"enum {{ COUNT = {COUNT} }};\n" + _bits("X", x) + _bits("Y", y) + _bits("Z", z)
    (folder / "half_values.h").write_text(text + _array("float", "W", floats))
    flags = [*tools.cflags, *WARNINGS, *STANDARDS[build.language], build.level]
    obj, program = folder / "words.o", folder / "words"
    includes = [runtime_include_dir(), folder]
    tools.compiler.compile(PROGRAMS / "half_words.c", obj, flags, includes)
    tools.compiler.link([obj], program, [*tools.cflags, *tools.ldflags, "-lm"])
    found = {}
    for line in runner.run_text(program).splitlines():
        word, *numbers = line.split()
        found[word] = np.array([int(n, 16) for n in numbers], np.uint16).view(np.float16)
    return found


def _floats() -> list[float]:
    """Floats between float16s, ties among them, and beyond the largest."""
    rng = np.random.default_rng(7)
    found = rng.standard_normal(COUNT) * np.exp2(rng.uniform(-24, 16, COUNT))
    found[:6] = [1 + 2.0**-11, 1 + 3 * 2.0**-11, 65519.9, 65520.0, 2.0**-25, 3 * 2.0**-26]
    return [float(v) for v in found.astype(np.float32)]


def _rounded(values: Doubles) -> Halves:
    return values.astype(np.float16)


def _groups(x: Halves, lanes: int) -> Halves:
    return x.reshape(-1, lanes)


def _spread(x: Halves, lanes: int, k: int) -> Halves:
    return np.repeat(_groups(x, lanes)[:, k], lanes)


def _part(x: Halves, lanes: int) -> Halves:
    """The first lanes of each vector, of the next none, one, two ..."""
    groups = _groups(x, lanes).copy()
    for number, group in enumerate(groups):
        group[number % (lanes + 1) :] = 0.0
    return groups.reshape(-1)


def _halves_apart(x: Halves, lanes: int) -> Halves:
    pairs = x.reshape(-1, lanes, 2)
    return np.ascontiguousarray(pairs.swapaxes(1, 2)).reshape(-1)


def _together(x: Halves, lanes: int) -> Halves:
    pairs = x.reshape(-1, 2, lanes)
    return np.ascontiguousarray(pairs.swapaxes(1, 2)).reshape(-1)


def _larger(x: Halves, y: Halves) -> Halves:
    """NaN if either is; -0 < +0."""
    best = np.where(x > y, x, y)
    best = np.where((x == y) & np.signbit(best), x, best)
    return np.where(np.isnan(x) | np.isnan(y), np.float16(np.nan), best)


def _exact(x: Halves, y: Halves, z: Halves, lanes: int) -> dict[str, Halves]:
    """What every word but the functions must give, to the last bit."""
    a, b, c = x.astype(np.float64), y.astype(np.float64), z.astype(np.float64)
    low, high = -_larger(-x, -y), _larger(x, y)
    w = np.array(_floats(), np.float32).astype(np.float16)
    found: dict[str, Halves] = {
        "add": _rounded(a + b), "sub": _rounded(a - b), "mul": _rounded(a * b),
        "div": _rounded(a / b), "min": low, "max": high, "copysign": np.copysign(x, y),
        "abs": np.abs(x), "neg": -x, "sqrt": _rounded(np.sqrt(a)), "round": np.rint(x),
        "floor": np.floor(x), "ceil": np.ceil(x), "trunc": np.trunc(x),
        "lt": x < y, "le": x <= y, "gt": x > y, "ge": x >= y, "eq": x == y, "not_le": ~(x <= y),
        "ge_and_le": x == y, "lt_or_gt": (x < y) | (x > y),
        "load_aligned": x, "load_n": _part(x, lanes), "store_n": _part(x, lanes),
        "load_stride": _groups(x, lanes)[:, ::-1].reshape(-1),
        "store_stride": _groups(x, lanes)[:, ::-1].reshape(-1),
        "load1": _spread(x, lanes, 1), "load2": _halves_apart(x, lanes),
        "unzip": _halves_apart(x, lanes), "store2": _together(x, lanes), "store_f32": x,
        "store_f32_n": _part(x, lanes), "from_f32": w, "from_f32_n": _part(w, lanes),
    }  # fmt: skip
    found |= {f"lane{k}": _spread(x, lanes, k) for k in range(4)}
    del c
    return {word: np.asarray(values, np.float16) for word, values in found.items()}


def _products(x: Halves, y: Halves, z: Halves, lanes: int) -> dict[str, Halves]:
    a, b, c = x.astype(np.float64), y.astype(np.float64), z.astype(np.float64)
    found = {"fma": _rounded(a * b + c), "fnma": _rounded(c - a * b)}
    for k in range(4):
        found[f"fma_lane{k}"] = _rounded(a * _spread(y, lanes, k).astype(np.float64) + c)
    return found


FUNCTIONS: dict[str, Callable[[Doubles], Doubles]] = {
    "elu": lambda v: np.where(v > 0, v, 0.5 * np.expm1(v)), "exp": np.exp, "expm1": np.expm1,
    "erf": lambda v: np.array([erf(t) for t in v]), "log": lambda v: np.log(np.abs(v)),
    "sigmoid": lambda v: 1 / (1 + np.exp(-v)), "silu": lambda v: v / (1 + np.exp(-v)),
    "tanh": np.tanh, "softplus": lambda v: np.log1p(np.exp(v)),
    "softsign": lambda v: v / (1 + np.abs(v)), "mish": lambda v: v * np.tanh(np.log1p(np.exp(v))),
    "gelu_erf": lambda v: v / 2 * (1 + np.array([erf(t / np.sqrt(2)) for t in v])),
    "gelu_tanh": lambda v: (
        v / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (v + 0.044715 * v**3)))
    ),
}  # fmt: skip


def _gates(x: Doubles, y: Doubles, z: Doubles) -> dict[str, Doubles]:
    """The functions of recurrent layers, as half_words.c calls them."""

    def sigmoid(v: Doubles) -> Doubles:
        return 1 / (1 + np.exp(-v))

    return {
        "sigmoid_inverse": 1 / sigmoid(z), "sigmoid_tanh": sigmoid(z) * np.tanh(y),
        "gru_output": (1 - sigmoid(z)) * np.tanh(y) + sigmoid(z) * x,
        "lstm_cell": sigmoid(y) * z + sigmoid(z) * np.tanh(x),
    }  # fmt: skip


def _same(found: Halves, expected: Halves) -> bool:
    """Equal bits, or both NaN."""
    same = (found.view(np.uint16) == expected.view(np.uint16)) | (
        np.isnan(found) & np.isnan(expected)
    )
    return bool(same.all())


@pytest.mark.parametrize(
    "build",
    [
        Build("neon64half"),
        Build("neon64half", language="c++11", level="-O0"),
        Build("neon64half", "clang"),
        Build("neon64half", "clang", "c++11", "-O0"),
    ],
    ids=str,
)
def test_words_round_as_float16_does(build: Build, tmp_path: Path) -> None:
    any_x, any_y, middling = _values(1), _values(2), _middling(3)
    with np.errstate(all="ignore"):
        found = _results(tmp_path, build, any_x, any_y, middling)
        tried = set()
        for lanes in (4, 8):
            for word, expected in _exact(any_x, any_y, middling, lanes).items():
                assert _same(found[f"f16x{lanes}_{word}"], expected), f"f16x{lanes}_{word}"
                tried.add(word)
            for word, function in FUNCTIONS.items():
                close = function(middling.astype(np.float64)).astype(np.float16)
                spacing = np.spacing(np.abs(close)).astype(np.float64)
                off = np.abs(found[f"f16x{lanes}_{word}"].astype(np.float64) - close)
                assert (off <= spacing).all(), f"f16x{lanes}_{word}"
                tried.add(word)
        joined = _groups(any_x, 8)[:, [4, 5, 6, 7, 0, 1, 2, 3]].reshape(-1)
        stored = np.array(_floats(), np.float32).astype(np.float16)
        for word in ("f32x4_store_f16", "f32x1_store_f16"):
            assert _same(found[word], stored), word
        assert _same(found["f32x4_store_f16_n"], _part(stored, 4))
        assert _same(found["f16x8_join"], joined) and _same(found["f16x4_store1"], any_x)
        factors, others = _middling(4), _middling(5)
        found = _results(tmp_path, build, factors, others, middling)
        for lanes in (4, 8):
            for word, expected in _products(factors, others, middling, lanes).items():
                assert _same(found[f"f16x{lanes}_{word}"], expected), f"f16x{lanes}_{word}"
                tried.add(word)
            parts = (a.astype(np.float64) for a in (factors, others, middling))
            for word, values in _gates(*parts).items():
                off = np.abs(found[f"f16x{lanes}_{word}"].astype(np.float64) - values)
                assert (off <= 2.0**-10 * np.abs(values) + 2.0**-21).all(), f"f16x{lanes}_{word}"
                tried.add(word)
    used = {"set1", "zero", "select", "lo", "hi", "join", "load", "store", "store_aligned"} | {
        "store1"
    }
    assert half_words() <= tried | used
