"""Collects the layers that cannot be imported, so that all are reported at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cannery.errors import UnsupportedError


@dataclass(frozen=True)
class Problem:
    """One layer that Cannery does not implement: which, why, and what to do about it."""

    layer: str
    class_name: str
    what: str
    cure: str = ""

    def __str__(self) -> str:
        return f"layer {self.layer!r} ({self.class_name}): {self.what}"


class UnsupportedLayersError(UnsupportedError):
    """All unsupported layers of a model; `instead` is the workaround for all of them."""

    def __init__(self, problems: Sequence[Problem], *, where: str = "", instead: str = "") -> None:
        self.problems = tuple(problems)
        count = len(self.problems)
        listed = "; ".join(map(str, self.problems))
        what = listed if count == 1 else f"{count} layers are not supported: {listed}"
        cures = dict.fromkeys(p.cure for p in self.problems if p.cure)
        super().__init__(what, where=where, cure="; ".join(filter(None, [*cures, instead])))
