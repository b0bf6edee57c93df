"""Every word of vec_bfloat.h, bit by bit: numbers round to the nearest, sums to odd (FPCR.EBF = 0).

Products of middling numbers and their sums are exact in float64, so numpy rounds as often as the
processor.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from cannery.ir.bfloat import bfloat_bits, paired, rounded_to_bfloat
from cannery.resources import runtime_include_dir
from needs import need_runner
from vec_programs import PROGRAMS, STANDARDS, WARNINGS, Build, toolchain

COUNT = 400
Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]


def _any(seed: int) -> Floats:
    """Any floats, and all edges: ties, NaN, infinities, subnormals, what rounds to infinity."""
    rng = np.random.default_rng(seed)
    found = rng.integers(0, 1 << 32, COUNT, dtype=np.uint32)
    edges = [0x3F808000, 0x3F818000, 0x3F808001, 0x7F7FFFFF, 0x7FC00001, 0x7F800001, 0xFF800000,
             0x00008000, 0x00018000, 0x80000001, 0x80000000, 0x007FFFFF]  # fmt: skip
    found[rng.permutation(COUNT)[: len(edges)]] = edges
    return found.view(np.float32)


def _middling(seed: int, count: int) -> Floats:
    rng = np.random.default_rng(seed)
    signs = rng.choice([-1.0, 1.0], count)
    values = signs * np.exp2(rng.uniform(-6.0, 3.0, count))
    return rounded_to_bfloat(values).astype(np.float32)


def _to_odd(exact: Doubles) -> Doubles:
    """float32 toward zero, with the last bit set if anything was lost."""
    near = exact.astype(np.float32)
    beyond = np.abs(near.astype(np.float64)) > np.abs(exact)
    down = np.where(beyond, np.nextafter(near, np.float32(0.0)), near).astype(np.float32)
    lost = (down.astype(np.float64) != exact).astype(np.uint32)
    return (down.view(np.uint32) | lost).view(np.float32).astype(np.float64)


def _pair(a: Doubles, b: Doubles, c: Doubles) -> Doubles:
    """c[...] and the products of a[..., 2] and b[..., 2]."""
    return _to_odd(c + _to_odd(a[..., 0] * b[..., 0] + a[..., 1] * b[..., 1]))


def _expected(x: Floats, y: Floats, a: Floats, b: Floats, c: Floats) -> dict[str, Floats]:
    """`a` and `b` hold the numbers of pairs side by side."""
    halves = np.concatenate([x.reshape(-1, 4), y.reshape(-1, 4)], axis=1).reshape(-1)
    both = np.stack([x.reshape(-1, 2, 2), y.reshape(-1, 2, 2)], axis=2)
    pairs = a.astype(np.float64).reshape(-1, 4, 2), b.astype(np.float64).reshape(-1, 4, 2)
    sums = c.astype(np.float64).reshape(-1, 4)
    found = {
        "bfloat": _joined(bfloat_bits(halves)),
        "first_halves": both[:, 0].reshape(-1), "last_halves": both[:, 1].reshape(-1),
        "dot": _pair(*pairs, sums).astype(np.float32).reshape(-1),
    }  # fmt: skip
    for k in range(4):
        lane = np.repeat(pairs[1][:, k : k + 1], 4, axis=1)
        found[f"dot_lane{k}"] = _pair(pairs[0], lane, sums).astype(np.float32).reshape(-1)
    rows, columns = (p.reshape(-1, 2, 2, 2) for p in pairs)
    matrix = sums.reshape(-1, 2, 2)
    for half in (0, 1):
        matrix = _pair(rows[:, :, None, half], columns[:, None, :, half], matrix)
    return found | {"dot_matrix": matrix.astype(np.float32).reshape(-1)}


def _joined(bits: NDArray[np.uint16]) -> Floats:
    return (bits[0::2] | bits[1::2].astype(np.uint32) << 16).view(np.float32)


def _found(folder: Path, build: Build, values: dict[str, Floats]) -> dict[str, NDArray[np.uint32]]:
    tools = toolchain(build)
    runner = need_runner(tools)
    arrays = [
        f"static const uint32_t {name}[{COUNT}] = {{"
        + ", ".join(f"{bits}u" for bits in array.view(np.uint32).tolist()) + "};\n"
        for name, array in values.items()
    ]  # fmt: skip
    (folder / "bfloat_values.h").write_text(f"enum {{ COUNT = {COUNT} }};\n" + "".join(arrays))
    flags = [*tools.cflags, *WARNINGS, *STANDARDS[build.language], build.level]
    obj, program = folder / "words.o", folder / "words"
    includes = [runtime_include_dir(), folder]
    tools.compiler.compile(PROGRAMS / "bfloat_words.c", obj, flags, includes)
    tools.compiler.link([obj], program, [*tools.cflags, *tools.ldflags, "-lm"])
    lines = (line.split() for line in runner.run_text(program).splitlines())
    return {word: np.array([int(n, 16) for n in bits], np.uint32) for word, *bits in lines}


@pytest.mark.parametrize(
    "build",
    [Build("neon64bf16"), Build("neon64bf16", "clang", "c++11", "-O0")],
    ids=str,
)
def test_words_round_as_processors_do(build: Build, tmp_path: Path) -> None:
    x, y = _any(1), _any(2)
    a, b, c = _middling(3, 2 * COUNT), _middling(4, 2 * COUNT), _middling(5, COUNT)
    c += np.float32(2.0**-20) * c
    given = {"X": x, "Y": y, "A": paired(a), "B": paired(b), "C": c}
    found = _found(tmp_path, build, given)
    for word, expected in _expected(x, y, a, b, c).items():
        assert (found.pop(word) == expected.view(np.uint32)).all(), word
    assert not found


def test_every_word_is_tried() -> None:
    text = (runtime_include_dir() / "cannery" / "vec_bfloat.h").read_text(encoding="utf-8")
    words = set(re.findall(r"\bf32x4_(\w+)(?=\(f32x4 a|, f32x4,)", text))
    program = (PROGRAMS / "bfloat_words.c").read_text(encoding="utf-8")
    assert len(words) == 9
    assert words <= set(re.findall(r'EACH\("(\w+)"', program))


def test_pairs_are_the_bits_of_floats() -> None:
    pairs = paired(np.array([[1.0, -2.0], [3.0, 0.5]], np.float32))
    assert [hex(bits) for bits in pairs.view(np.uint32).reshape(-1).tolist()] == [
        "0x40403f80", "0x3f00c000",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("number", "rounded"),
    [(1 + 2.0**-8, 1.0), (1 + 3 * 2.0**-8, 1 + 2.0**-6), (3.4e38, np.inf), (-0.0, -0.0)],
)
def test_rounding(number: float, rounded: float) -> None:
    found = rounded_to_bfloat(np.array([number]))
    assert found[0] == rounded and np.signbit(found[0]) == np.signbit(rounded)
