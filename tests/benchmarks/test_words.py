"""Compares a header's words with the base's: which the base makes equally well."""

from __future__ import annotations

from needs import need_toolchain
from words import compared


def test_words_of_sse() -> None:
    found = compared(need_toolchain("ssse3"))
    assert len(found) > 80
    for word in ("f32x4_add", "f32x4_store", "i32x4_xor", "f32x4_unzip"):
        own, base = found[word]
        assert own == base, word
    for word in (
        "f32x4_min", "f32x4_sqrt", "f32x4_to_i32_round", "f32x4_rotate1", "i32x4_dot",
        "f32x4_put_u8",
    ):  # fmt: skip
        own, base = found[word]
        assert own < base, word


def test_words_of_riscv() -> None:
    found = compared(need_toolchain("riscv64v128"))
    for word in ("f32x4_load", "f32x4_min", "f32x4_transpose4", "f32x4_put_u8"):
        own, base = found[word]
        assert own < base, word
