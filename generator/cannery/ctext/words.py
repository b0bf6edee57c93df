"""Writes C expressions over the vector vocabulary (runtime/include/cannery/vec_scalar.h)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cannery.ctext.literals import c_float


@dataclass(frozen=True)
class Words:
    """`Words("f32x8").max(0.0, "x")` is "f32x8_max(f32x8_zero(), x)".

    Any attribute is a word of the vocabulary. A number becomes a vector that holds it in every
    lane; if a word takes a plain float, pass its literal.
    """

    vec: str

    def __getattr__(self, word: str) -> Callable[..., str]:
        if word.startswith("__"):  # never a word: keeps copy and pickle working
            raise AttributeError(word)

        def render(*args: str | float) -> str:
            return f"{self.vec}_{word}({', '.join(map(self.vector, args))})"

        return render

    def vector(self, value: str | float) -> str:
        """An expression as it is, a number in every lane."""
        if isinstance(value, str):
            return value
        literal = c_float(value)
        return f"{self.vec}_zero()" if literal == "0.0f" else f"{self.vec}_set1({literal})"
