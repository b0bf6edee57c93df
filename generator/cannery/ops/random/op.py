"""Random numbers from a state, and the next state."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from cannery.ir.registry import RefArray, register
from cannery.ir.tensor import DType, TensorType
from cannery.ops.checks import operands, require, require_shape, require_type
from cannery.ops.random.normal import PLACE, POINT, QUANTILES, normal
from cannery.ops.random.philox import WORDS, philox, write_philox
from cannery.ops.scalar.base import ScalarOp
from cannery.ops.scalar.body import Body

#: A state: the seed, low word first, and the number of the run, likewise.
STATE = TensorType((4,), DType.UINT32)


def _state(op: ScalarOp, inputs: tuple[TensorType | None, ...]) -> None:
    """Raises CanneryError unless the only input is a state."""
    (state,), _ = operands(op, inputs, 1)
    require_shape(op, "state", state, STATE.shape)
    require_type(state.dtype is STATE.dtype, op, f"a state of {state.dtype.value}")


@dataclass(frozen=True)
class Draw(ScalarOp):
    """state -> `shape` numbers; draws of one state with another `stream` are independent.

    Element 4i + k is word k of the block whose number is i, `stream` and the number of the run.
    """

    shape: tuple[int, ...]
    stream: int = 0

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        """float32 of `shape`."""
        _state(self, inputs)
        require(0 <= self.stream < 2**32, self, f"stream {self.stream}")
        return (TensorType(self.shape),)

    def reference(self, *inputs: RefArray | None) -> tuple[RefArray, ...]:
        """The same integers as in C, so the same bits."""
        (state,), _ = operands(self, inputs, 1)
        low, high, *run = (int(word) for word in state)
        count = prod(self.shape)
        counter = np.empty((-(-count // WORDS), WORDS), np.uint32)
        counter[:, 0] = np.arange(len(counter))
        counter[:, 1:] = self.stream, *run
        words = philox(counter, (low, high)).reshape(-1)[:count]
        return (self.number(words).reshape(self.shape),)

    @abstractmethod
    def number(self, words: NDArray[np.uint32]) -> NDArray[np.float32]:
        """The number that each word becomes."""

    @abstractmethod
    def write_number(self, c: Body, word: str, y: str) -> None:
        """Statements that store the number of a word."""

    def write(self, c: Body) -> None:
        """Block by block; the last one may be cut."""
        state, y = c.input(0).name, c.output.name
        count = prod(self.shape)
        run, key = (f"{state}[2]", f"{state}[3]"), (f"{state}[0]", f"{state}[1]")
        with c.loop("i", -(-count // WORDS)) as i:
            number = "0u" if i == "0" else f"(uint32_t){i}"
            write_philox(c, (number, f"{self.stream}u", *run), key)
            cut = f" && {WORDS} * {i} + k < {count}" if count % WORDS else ""
            first = i == "0"
            end, at = (str(count), "k") if first else (f"{WORDS}{cut}", f"{WORDS} * {i} + k")
            with c.block(f"for (int k = 0; k < {end}; ++k)"):
                self.write_number(c, "w[k]", f"{y}[{at}]")


@register
@dataclass(frozen=True)
class DrawUniform(Draw):
    """Multiples of 2^-24, from 0 to below 1, all equally likely."""

    def number(self, words: NDArray[np.uint32]) -> NDArray[np.float32]:
        """The upper 24 bits."""
        return np.asarray((words >> 8) * 2.0**-24, np.float32)

    def write_number(self, c: Body, word: str, y: str) -> None:
        """The upper 24 bits, which a float holds."""
        c(f"{y} = (float)(int32_t)({word} >> 8) * {2.0**-24!r}f;")


@register
@dataclass(frozen=True)
class DrawNormal(Draw):
    """Standard normal numbers, see `normal.py`."""

    def number(self, words: NDArray[np.uint32]) -> NDArray[np.float32]:
        """The quantile of each word."""
        return normal(words)

    def write_number(self, c: Body, word: str, y: str) -> None:
        """Finds the octave, then its polynomial by Horner's rule."""
        width = len(QUANTILES[0])
        table = c.table(np.asarray(QUANTILES, np.int32), "polynomials of normal quantiles")
        c(f"const int32_t *c = {table};")
        c(f"uint32_t v = {word} | 1u;")
        with c.block("while (v >> 31 == 0u)"):
            c("v <<= 1;")
            c(f"c += {width};")
        c(f"const int64_t t = (int64_t)(v & 0x{2**PLACE - 1:X}u);")
        c(f"int64_t sum = c[{width - 1}];")
        with c.block(f"for (int j = {width - 2}; j >= 0; --j)"):
            c(f"sum = c[j] + ((sum * t) >> {PLACE});")
        c(f"{y} = (float)(int32_t)({word} & 1u ? -sum : sum) * {2.0**-POINT!r}f;")


@register
@dataclass(frozen=True)
class NextDraw(ScalarOp):
    """state -> the state of the next run."""

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        """A state."""
        _state(self, inputs)
        return (STATE,)

    def reference(self, *inputs: RefArray | None) -> tuple[RefArray, ...]:
        """The number of the run is one more."""
        (state,), _ = operands(self, inputs, 1)
        low, high, *run = (int(word) for word in state)
        following = (run[0] + (run[1] << 32) + 1) % 2**64
        return (np.array([low, high, following % 2**32, following >> 32], np.uint32),)

    def write(self, c: Body) -> None:
        """Two words and a carry."""
        x, y = c.input(0).name, c.output.name
        c(f"const uint32_t run = {x}[2] + 1u;")
        c(f"{y}[0] = {x}[0];")
        c(f"{y}[1] = {x}[1];")
        c(f"{y}[2] = run;")
        c(f"{y}[3] = {x}[3] + (run == 0u ? 1u : 0u);")
