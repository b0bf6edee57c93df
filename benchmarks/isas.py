"""What `--isa` of the benchmarks names."""

from __future__ import annotations


def isa_words(name: str) -> tuple[str, ...]:
    """The value of Cannery's option `isa`: none for `native`, or where nothing is named."""
    return () if name in ("", "native") else (name,)
