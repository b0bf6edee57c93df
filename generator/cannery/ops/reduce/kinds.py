"""How reductions differ in C: how an element joins an accumulator, and what comes last."""

from __future__ import annotations

from dataclasses import dataclass

from cannery.ctext.words import Words
from cannery.ops.reduce.op import (
    ReduceL1,
    ReduceL2,
    ReduceLogSumExp,
    ReduceMax,
    ReduceMean,
    ReduceMin,
    ReduceProd,
    ReduceSum,
    ReduceSumSquare,
    Reduction,
)

_INFINITY = "(1.0f / 0.0f)"


@dataclass(frozen=True)
class Kind:
    """A reduction as expressions over the vocabulary.

    `word` joins two accumulators; `hsum`, `hmax`, `hmin` or nothing join the lanes of one. `start`
    is the literal of an empty accumulator; `element` is what is applied to an element first: "",
    abs or square. `zeros`: zero elements change nothing. `exp` needs a pass for the maximum.
    """

    word: str
    across: str
    start: str
    element: str = ""
    zeros: bool = False
    exp: bool = False
    last: str = ""

    def join(self, t: str, acc: str, x: str) -> str:
        """The accumulator with one more element."""
        w = Words(t)
        if self.element == "square":
            return w.fma(x, x, acc)
        if self.element == "abs":
            x = w.abs(x)
        return f"{t}_{self.word}({acc}, {x})"

    def empty(self, t: str) -> str:
        """An accumulator without elements."""
        return f"{t}_zero()" if self.start == "0.0f" else f"{t}_set1({self.start})"

    def finish(self, t: str, acc: str, count: int, shift: str) -> str:
        """The result from the accumulator of `count` elements."""
        w = Words(t)
        if self.last == "mean":
            return w.div(acc, float(count))
        if self.last == "sqrt":
            return w.sqrt(acc)
        return w.add(shift, w.log(acc)) if self.last == "log" else acc


_SUM = Kind("add", "hsum", "0.0f", zeros=True)
_KINDS: dict[type[Reduction], Kind] = {
    ReduceSum: _SUM,
    ReduceMean: Kind("add", "hsum", "0.0f", zeros=True, last="mean"),
    ReduceL1: Kind("add", "hsum", "0.0f", "abs", zeros=True),
    ReduceL2: Kind("add", "hsum", "0.0f", "square", zeros=True, last="sqrt"),
    ReduceSumSquare: Kind("add", "hsum", "0.0f", "square", zeros=True),
    ReduceMax: Kind("max", "hmax", f"-{_INFINITY}"),
    ReduceMin: Kind("min", "hmin", _INFINITY),
    ReduceProd: Kind("mul", "", "1.0f"),
    ReduceLogSumExp: Kind("add", "hsum", "0.0f", exp=True, last="log"),
}

#: The first pass of a reduction with `exp`.
MAXIMUM = _KINDS[ReduceMax]


def kind_of(op: object) -> Kind | None:
    """The kind of a reduction operator."""
    return _KINDS.get(type(op)) if isinstance(op, Reduction) else None
