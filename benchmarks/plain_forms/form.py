"""What the forms of all operators share: loops, indices, windows, constants."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import singledispatch
from math import prod

import numpy as np
from numpy.typing import NDArray

from cannery.ir.registry import Op
from cannery.ops.average_pool.op import AveragePool
from cannery.ops.conv.op import Conv
from cannery.ops.max_pool.op import MaxPool
from cannery.schedule.schedule import ConstArray, Job


@dataclass
class Form:
    """The loops of one step under construction. `lines` hold FINISH where the epilogue goes.

    It turns `a`, the value of output `at` in channel `oc`, into the final value.
    """

    job: Job
    constants: list[ConstArray]

    def array(self, suffix: str, values: NDArray[np.generic]) -> str:
        """The name of a constant array."""
        name = f"{self.job.symbol}_{suffix}"
        self.constants.append(ConstArray(name, np.ascontiguousarray(values)))
        return name

    def weight(self) -> str:
        """The anchor's second input."""
        return self.array("w", self.job.constant(self.job.step.anchor.inputs[1]))

    def bias(self, channels: int) -> str:
        """The anchor's third input, or zeros."""
        inputs = self.job.step.anchor.inputs
        if len(inputs) > 2 and inputs[2]:
            return self.array("b", self.job.constant(inputs[2]))
        return self.array("b", np.zeros(channels, np.float32))

    @property
    def inner(self) -> bool:
        """Which of the two forms."""
        return self.job.params["form"] == "inner"

    def shape(self, number: int = 0) -> tuple[int, ...]:
        """The shape of an input of the anchor."""
        return self.job.type(self.job.step.anchor.inputs[number]).shape

    @property
    def output(self) -> tuple[int, ...]:
        """The shape of the output."""
        return self.job.type(self.job.step.output).shape


def loops(names: Sequence[str], sizes: Sequence[int]) -> list[str]:
    """Heads of nested loops, each with its brace."""
    return [f"for (int {n} = 0; {n} < {s}; ++{n}) {{" for n, s in zip(names, sizes, strict=True)]


def index(names: Sequence[str], strides: Sequence[int]) -> str:
    """`i * 12 + j`."""
    terms = [f"{n} * {s}" for n, s in zip(names, strides, strict=True) if s]
    return " + ".join(terms) or "0"


def strides_of(shape: Sequence[int]) -> list[int]:
    """Elements from one index to the next, row-major."""
    return [prod(shape[k + 1 :]) for k in range(len(shape))]


def names_of(shape: Sequence[int], letter: str = "i") -> list[str]:
    """One loop variable per axis."""
    return [f"{letter}{k}" for k in range(len(shape))]


def place(names: Sequence[str], shape: Sequence[int]) -> list[str]:
    """Definitions of `at` and `oc` for an output index."""
    return [
        f"const int at = {index(names, strides_of(shape))};",
        f"const int oc = {names[-1]}; (void)oc;",
    ]


@singledispatch
def write(op: Op, form: Form) -> list[str] | None:
    """The body of a step's function; None for an operator without a form."""
    return None


def row_of_sums(count: int, start: str) -> list[str]:
    """A row of sums that begins with the elements of an array, or with a number."""
    value = start if start[0].isdigit() else f"{start}[oc]"
    return [f"float sum[{count}];", f"for (int oc = 0; oc < {count}; ++oc) sum[oc] = {value};"]


def window(
    op: Conv | MaxPool | AveragePool, shape: Sequence[int], kernel: Sequence[int]
) -> list[str]:
    """Three braces: the loops over taps, and the test that the tap lies within the input."""
    _, h, w, _ = shape
    (sh, sw), (dh, dw) = op.strides, op.dilations
    return [
        *loops(["kh", "kw"], kernel),
        f"const int ih = oh * {sh} + kh * {dh} - {op.pads[0][0]};",
        f"const int iw = ow * {sw} + kw * {dw} - {op.pads[1][0]};",
        f"if (ih >= 0 && ih < {h} && iw >= 0 && iw < {w}) {{",
    ]
