"""What users see: one line, whatever names a file has."""

from __future__ import annotations

import pytest

from cannery.errors import CanneryError, ModelError


@pytest.mark.parametrize(
    ("name", "shown"),
    [("a\nb", r"a\nb"), ("\x1b[31mred", r"\x1b[31mred"), ("a\u2028b", r"a\u2028b"),
     ("größe", "größe"), ("a b\\n", "a b\\n")],
)  # fmt: skip
def test_names_cannot_end_the_line(name: str, shown: str) -> None:
    error: CanneryError = ModelError(f"no {name}", where=f"net.onnx: {name}", cure=f"not {name}")
    assert str(error) == f"net.onnx: {shown}: no {shown} (not {shown})"
