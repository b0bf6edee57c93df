"""Kernels whose weights become float16: which text changes, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from cannery.ctext.arrays import array_type, format_array
from cannery.ctext.halves import with_halves
from cannery.schedule.schedule import ConstArray, Kernel

WEIGHTS = ConstArray("k_w", np.array([1.0, -0.5, 65504.0, 2.0**-24], np.float32), "weights [n]",
                     is_weights=True)  # fmt: skip
BIAS = ConstArray("k_b", np.zeros(4, np.float32), "bias")


def halved(body: str, before: str = "") -> str:
    """The code of a kernel with these statements."""
    head = "static void k(const float *x, float *y)"
    text = "\n".join(["/* k_w in a comment */", before, head, "{", body, "}"])
    return with_halves(Kernel(text, (WEIGHTS, BIAS))).code


def test_arrays_are_bits_of_float16() -> None:
    kernel = with_halves(Kernel("", (WEIGHTS, BIAS)))
    weights, bias = kernel.constants
    assert array_type(weights.values) == "uint16_t"
    assert bias is BIAS
    assert kernel.constant_bytes == 2 * 4 + 4 * 4
    assert "15360, 47104, 31743, 1" in format_array(weights)
    assert "/* weights [n], bits of float16 */" in format_array(weights)


def test_a_kernel_without_weights_is_the_same() -> None:
    kernel = Kernel("void k(void)\n{\n}\n", (BIAS,))
    assert with_halves(kernel) is kernel


def test_numbers_are_never_rounded_here() -> None:
    third = ConstArray("k_w", np.array([1 / 3], np.float32), is_weights=True)
    with pytest.raises(ValueError, match="k_w has numbers"):
        with_halves(Kernel("", (third,)))


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("const f32x8 w0 = f32x8_load(k_w + 8);", "const f32x8 w0 = f32x8_load_f16(k_w + 8);"),
        ("a = f32x4_load_aligned(k_w);", "a = f32x4_load_f16(k_w);"),
        ("a = f32x4_load1(k_w + i);", "a = f32x4_load1_f16(k_w + i);"),
        ("a = f32x4_load_n(k_w, 3);", "a = f32x4_load_f16_n(k_w, 3);"),
        ("const float *wp = k_w + 2;", "const uint16_t *wp = k_w + 2;"),
        ("const float *const wp = k_w;", "const uint16_t *const wp = k_w;"),
        ("const float *bp = k_b, *xp = x;", "const float *bp = k_b, *xp = x;"),
        ("a = f32x4_load(x + 1);", "a = f32x4_load(x + 1);"),
        ("CANNERY_PREFETCH(k_w, next);", "CANNERY_PREFETCH(k_w, next);"),
    ],
)
def test_lines(line: str, expected: str) -> None:
    assert f"    {expected}\n" in halved(line)


def test_pointers_are_followed() -> None:
    code = halved(
        "const float *wk = k_w + 4;\n"
        "const float *wp = wk + 8;\n"
        "CANNERY_OPAQUE_PTR(wp);\n"
        "wp = (const float *)CANNERY_ASSUME_ALIGNED(wp, 16);\n"
        "wp += 4;\n"
        "y[0] = f32x1_load(wp); /* wp */"
    )
    assert "const uint16_t *wp = wk + 8;" in code
    assert "wp = (const uint16_t *)CANNERY_ASSUME_ALIGNED(wp, 8);" in code
    assert "y[0] = f32x1_load_f16(wp); /* wp */" in code


def test_functions_take_what_they_are_given() -> None:
    """The function is the same for all its calls, and so are the types of its parameters."""
    step = (
        "static void step(const float *h, const float *w, float *y)\n"
        "{\n"
        "const float *wp = w + 4;\n"
        "y[0] = f32x1_fma(f32x1_load(wp), f32x1_load(h), f32x1_zero());\n"
        "}\n"
    )
    code = halved("step(x + 2 * (1 + 1), k_w, y);", step)
    assert "static void step(const float *h, const uint16_t *w, float *y)" in code
    assert "f32x1_fma(f32x1_load_f16(wp), f32x1_load(h)" in code
    assert "step(x + 2 * (1 + 1), k_w, y);" in code


@pytest.mark.parametrize(
    "body",
    [
        "y[0] = k_w[3];",
        "memcpy(y, k_w, 16);",
        "a = f32x8_broadcast4(k_w);",
        "const float *wp = k_w;\nwp = x;\nwp = wp + k_w[0];",
        "float *wp = (float *)k_w;",
    ],
)
def test_other_uses_are_defects(body: str) -> None:
    with pytest.raises(ValueError, match="weights as float16 are not known in"):
        halved(body)


def test_a_pointer_is_to_one_type() -> None:
    with pytest.raises(ValueError, match="wp are weights and others"):
        halved("{\nconst float *wp = k_w;\n}\n{\nconst float *wp = x;\n}")
