"""Orders for processors in order: the same values, and fewer cycles; unknown code stays."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from cannery.analysis.arm_pipeline import operation
from cannery.analysis.disassembly import disassemble
from cannery.analysis.inorder import CORES, cycles_of_loop
from cannery.ctext.in_order import in_order
from cannery.ctext.transforms import Assign, linear, order
from cannery.ops.conv.winograd import F4
from cannery.resources import runtime_include_dir
from needs import need_toolchain

REGISTERS = 32
WORDS = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "max": np.maximum,
    "fma": lambda a, b, c: a * b + c,
    "fnma": lambda a, b, c: c - a * b,
    "mask": lambda a, b: np.where(b, a, 0.0),
    "join": lambda low, high: np.concatenate([low[:2], high]),
}
HEAD = "static void transform(const float *x, float *y, const i32x4 left)\n{\n"


def transform() -> str:
    """Both sides of the input transform of F(4x4, 3x3): 36 vectors at odd addresses, one masked."""
    steps = [
        Assign(f"d{i}_{j}", f"f32x4_load(x + {301 * i + 4 * j + 1})", ())
        for i in range(6)
        for j in range(6)
    ]
    masked = "i32x4_as_f32(i32x4_and(f32x4_as_i32(f32x4_load(x + 1)), left))"
    steps[0] = Assign("d0_0", masked, ())
    for j in range(6):
        sources, targets = ([f"{v}{i}_{j}" for i in range(6)] for v in "dt")
        steps += linear(F4.bt, sources, targets, "f32x4", fused=True)
    for i in range(6):
        sources, targets = ([f"{v}{i}_{j}" for j in range(6)] for v in "tv")
        steps += linear(F4.bt, sources, targets, "f32x4", fused=True)
    stores = {
        f"v{i}_{j}": [f"f32x4_store_aligned(y + {(6 * i + j) * 4}, v{i}_{j});"]
        for i in range(6)
        for j in range(6)
    }
    return HEAD + "{\n" + "\n".join(order(steps, stores, "f32x4")) + "\n}\n}\n"


class Memory:
    """What the statements of some code do, on float64; order is what they stand in."""

    def __init__(self, **values: np.ndarray) -> None:
        rng = np.random.default_rng(1)
        self.x, self.y = rng.standard_normal(20000), np.zeros(400)
        self.values: dict[str, object] = {"x": ("x", 0), "y": ("y", 0), **values}

    def run(self, code: str) -> np.ndarray:
        """`y` after all statements."""
        for statement in re.findall(r"[^;{}\n]+(?=;)", code):
            self._do(statement.strip())
        return self.y

    def _do(self, statement: str) -> None:
        if statement.startswith("CANNERY_OPAQUE_PTR"):
            return
        found = re.fullmatch(r"(?:const )?(?:float \*|f32x4 |uint64_t )?(\w+) = (.*)", statement)
        if found:
            self.values[found[1]] = self._value(found[2])
        elif found := re.fullmatch(r"f32x4_store\w*\((.*), (\w+)\)", statement):
            _, at = self._value(found[1])
            self.y[at : at + 4] = self.values[found[2]]
        else:
            assert re.fullmatch(r"f32x4 [\w, ]+", statement), statement

    def _value(self, text: str):  # type: ignore[no-untyped-def]
        if found := re.fullmatch(r"(\w+) \+ (\d+)", text):
            array, at = self._value(found[1])
            return array, at + int(found[2])
        found = re.fullmatch(r"[fi]32x4_(\w+?)(?:_ordered)?\((.*)\)", text)
        if not found:
            return self.values[text]
        word = found[1]
        if word == "set1":
            return np.full(4, float(found[2].rstrip("f")))
        given = [self._value(each) for each in re.split(r", (?![^(]*\))", found[2])]
        if word.startswith("load"):
            _, at = given[0]
            first, last = {"load_low": (0, 2), "load_high": (2, 4)}.get(word, (0, 4))
            loaded = self.x[at + first : at + last]
            return np.concatenate([loaded, [np.nan] * 2]) if word == "load_low" else loaded
        if word in ("as_f32", "as_i32"):
            return given[0]
        if lane := re.fullmatch(r"lane(\d)", word):
            return np.full(4, given[0][int(lane[1])])
        if lane := re.fullmatch(r"(fma|mul)_lane(\d)", word):
            given[1] = np.full(4, given[1][int(lane[2])])
            word = lane[1]
        return WORDS["mask" if word == "and" else word](*given)


@pytest.mark.parametrize("beside", [False, True])
def test_an_order_computes_the_same(beside: bool) -> None:
    code, left = transform(), np.array([True, False, True, True])
    ordered = in_order(code, REGISTERS, beside=beside)
    expected = Memory(left=left).run(code.removeprefix(HEAD))
    found = Memory(left=left).run(ordered.removeprefix(HEAD))
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert np.count_nonzero(expected) == 144
    assert len(re.findall(r"load_low_ordered", ordered)) == 36
    assert "f32x4_load(" not in ordered
    assert in_order(code, REGISTERS, beside=beside) == ordered


def test_variables_from_outside_keep_their_last_value() -> None:
    loads = "".join(f"const f32x4 x{k} = f32x4_load(x + {4 * k});\n" for k in range(4))
    body = "".join(
        f"{{ const f32x4 w = f32x4_load(x + {40 + 4 * k});\n"
        f"{{ const f32x4 l = f32x4_lane{k}(w);\nf32x4 r = f32x4_mul(x{k}, l);\n"
        f"total = f32x4_max(total, r);\nsum = f32x4_fma_lane{k}(x{k}, w, sum); }} }}\n"
        for k in range(4)
    )
    end = "f32x4_store(y, total);\nf32x4_store(y + 4, sum);\n"
    ordered = in_order(f"{HEAD}{{\n{loads}{body}}}\n}}\n", REGISTERS, beside=False)
    assert "f32x4_mul_lane3_ordered" in ordered
    given = {"total": np.zeros(4), "sum": np.ones(4)}
    expected = Memory(**given).run(loads + body + end)
    found = Memory(**given).run(ordered.removeprefix(HEAD) + end)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert expected[4] != 1.0


def test_what_is_not_understood_stays() -> None:
    code = transform()
    for old, new in (
        ("f32x4_sub(", "f32x4_unknown("),  # a word without an ordered form
        ("const f32x4 t0_0 =", "if (x) t0_0 ="),
        ("f32x4_store_aligned(y + 0, v0_0);", "++y;"),
    ):
        changed = code.replace(old, new)
        assert changed != code
        kept = in_order(changed, REGISTERS, beside=False)
        assert [line for line in changed.splitlines() if new in line] == [
            line for line in kept.splitlines() if new in line
        ]
    short = HEAD + "{\nconst f32x4 a = f32x4_load(x);\nf32x4_store(y, a);\n}\n}\n"
    assert in_order(short, REGISTERS, beside=False) == short
    used = code.removesuffix("}\n}\n") + "g(v0_0);\n}\n}\n"
    assert "const f32x4 v0_0 = f32x4_fnma(t0_2" in in_order(used, REGISTERS, beside=False)


@pytest.mark.parametrize(("place", "stays"), [("x + 48", False), ("y + 4", True)])
def test_what_is_stored_and_read_again_stays(place: str, stays: bool) -> None:
    loads = "".join(f"const f32x4 x{k} = f32x4_load(x + {4 * k});\n" for k in range(11))
    back = f"const f32x4 w = f32x4_load({place});\nf32x4_store(y + 8, w);\n"
    code = f"{HEAD}{{\n{loads}f32x4_store(y + 4, x0);\n{back}}}\n}}\n"
    assert (in_order(code, REGISTERS, beside=False) == code) == stays


@pytest.mark.parametrize("last", ["f32x4_store(y, sum);", "sum = f32x4_add(x0, x1);"])
def test_a_name_that_hides_another_one_stays(last: str) -> None:
    loads = "".join(f"const f32x4 x{k} = f32x4_load(x + {4 * k});\n" for k in range(12))
    inner = "{ const f32x4 w = f32x4_load(x + 48);\nf32x4_store(y + 4, w); }\n"
    code = f"{HEAD}{{\n{loads}{inner}{last}\n}}\n}}\n"
    hides = re.sub(r"\bw\b", "sum", code)
    assert in_order(code, REGISTERS, beside=False) != code
    assert in_order(hides, REGISTERS, beside=False) == hides


def cycles(code: str, cpu: str, folder: Path) -> float:
    """Cycles of a function's code, again and again, by the model of a processor."""
    toolchain = need_toolchain(cpu.replace("cortex", "aarch64"))
    source = folder / "code.c"
    source.write_text('#include "cannery/vec_neon.h"\n' + code.replace("static void", "void", 1))
    toolchain.compiler.compile(source, folder / "code.o", toolchain.cflags, [runtime_include_dir()])
    _, (function,) = disassemble(folder / "code.o", toolchain.compiler)
    core = CORES[cpu]
    return cycles_of_loop([operation(i, core) for i in function.instructions], core)


@pytest.mark.parametrize(("cpu", "gain"), [("cortex-a53", 0.88), ("cortex-a55", 0.88)])
def test_an_order_takes_fewer_cycles(cpu: str, gain: float, tmp_path: Path) -> None:
    ordered = in_order(transform(), REGISTERS, beside=cpu == "cortex-a55")
    assert cycles(ordered, cpu, tmp_path) < gain * cycles(transform(), cpu, tmp_path)


def byte_tile(rows: int, vectors: int, word: str = "dot4") -> str:
    """The sums of a tile over 16 bytes of each row, as kernels of integers have them."""
    places = [(m, n) for m in range(rows) for n in range(vectors)]
    lines = [f"i32x4 a{m}_{n} = i32x4_load(s + {4 * (m * vectors + n)});" for m, n in places]
    lines.append("{")
    for m in range(rows):
        lines += [f"q8x4 u{m} = q8x4_load4(x + {100 * m});", f"CANNERY_OPAQUE_VEC(u{m});"]
    for k in range(4):
        at = [16 * (k * vectors + n) for n in range(vectors)]
        lines += ["{", *(f"const q8x4 w{n} = q8x4_load(w + {at[n]});" for n in range(vectors))]
        for m, n in places:
            lines.append(f"a{m}_{n} = i32x4_{word}_lane{k}(u{m}, w{n}, a{m}_{n});")
            lines.append(f"CANNERY_OPAQUE_VEC(a{m}_{n});")
        lines.append("}")
    stores = (f"i32x4_store(s + {4 * (m * vectors + n)}, a{m}_{n});" for m, n in places)
    head = "static void tile(const int8_t *x, const int8_t *w, int32_t *s)\n{\n"
    return head + "\n".join([*lines, "}", *stores]) + "\n}\n"


@pytest.mark.parametrize(("cpu", "gain"), [("cortex-a53", 0.75), ("cortex-a55", 0.85)])
def test_products_of_bytes_take_fewer_cycles_in_order(
    cpu: str, gain: float, tmp_path: Path
) -> None:
    code, small = byte_tile(3, 5), cpu == "cortex-a55"
    ordered = in_order(code, REGISTERS, beside=small, dots=small)
    assert cycles(ordered, cpu, tmp_path) < gain * cycles(code, cpu, tmp_path)


def test_products_share_the_bytes_that_they_repeat() -> None:
    ordered = in_order(byte_tile(2, 3), REGISTERS, beside=False)
    assert len(re.findall(r"_(?:first|second)_two\d_ordered", ordered)) == 2 * 2 * 4
    assert len(re.findall("p16x4_mla_high_ordered", ordered)) == 2 * 3 * 4
    assert "dot4" not in ordered
    wide = in_order(byte_tile(2, 3, "dot4w"), REGISTERS, beside=False)
    assert len(re.findall("i32x4_add_pairs_ordered", wide)) == 2 * 2 * 3 * 4
    assert "mla_high" not in wide
    dots = in_order(byte_tile(2, 3), REGISTERS, beside=True, dots=True)
    assert len(re.findall(r"i32x4_dot4_lane\d_ordered", dots)) == 2 * 3 * 4
    assert "CANNERY_OPAQUE_VEC" not in dots


def test_bytes_are_repeated_when_their_weights_are_there() -> None:
    ordered = in_order(byte_tile(4, 2), REGISTERS, beside=False)
    for k in range(1, 4):
        repeated = ordered.index(f"q8x4_first_two{k}_ordered")
        assert ordered.index(f"load_low_ordered(w + {32 * k})") < repeated
