"""Literals denote exactly their numbers, at the ends of every type."""

from __future__ import annotations

import numpy as np
import pytest

from cannery.ctext.literals import c_float, c_integer


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_integers_at_the_ends(bits: int) -> None:
    """The least number of a type has no literal: a minus is applied to what does not fit."""
    for value in (-(2 ** (bits - 1)), -(2 ** (bits - 1)) + 1, 2 ** (bits - 1) - 1, 2**bits - 1, 0):
        text = c_integer(value)
        plain = text.replace("u", "")
        assert eval(plain) == value
        digits = [int(word) for word in plain.strip("()").replace(" - 1", "").split("-") if word]
        assert all(digit < 2**31 or text.endswith("u") or 2**32 <= digit < 2**63 or bits == 64
                   for digit in digits)  # fmt: skip
        if bits >= 32 and value == -(2 ** (bits - 1)):
            assert text == f"({value + 1} - 1)"


@pytest.mark.parametrize(
    "value", [0.0, -0.0, 1 / 3, -1e-45, 1.17549435e-38, 3.4028235e38, 16777217.0]
)
def test_floats_read_back_to_the_same_bits(value: float) -> None:
    found = np.float32(c_float(value).removesuffix("f"))
    assert found.tobytes() == np.float32(value).tobytes()


def test_what_is_no_number_is_an_expression() -> None:
    assert c_float(np.inf) == "(1.0f / 0.0f)"
    assert c_float(-np.inf) == c_float(-1e300) == "(-1.0f / 0.0f)"
    assert c_float(np.nan) == "(0.0f / 0.0f)"
