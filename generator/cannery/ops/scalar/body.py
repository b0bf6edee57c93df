"""The text of a plain C function, written statement by statement: loops of literal extent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import numpy as np

from cannery.ir.graph import Array
from cannery.ir.tensor import TensorType
from cannery.ops.shared.axes import dense_strides
from cannery.schedule.schedule import ConstArray


@dataclass(frozen=True)
class Tensor:
    """A dense C array."""

    name: str
    type: TensorType

    @property
    def c(self) -> str:
        """The C type of an element."""
        return self.type.dtype.c_name

    @property
    def shape(self) -> tuple[int, ...]:
        return self.type.shape

    def at(self, *indices: str) -> str:
        """The element at one C expression per axis."""
        return f"{self.name}[{place(self.shape, indices)}]"


def place(shape: Sequence[int], indices: Sequence[str]) -> str:
    """C expression of the position of an element in a dense array; index 0 adds nothing."""
    terms = [
        term(index, stride)
        for index, stride, d in zip(indices, dense_strides(shape), shape, strict=True)
        if index != "0" and d != 1
    ]
    return " + ".join(terms) or "0"


def term(index: str, stride: int) -> str:
    """`i * 12`, with parentheses where they are needed."""
    simple = index.replace("_", "").isalnum() or stride == 1
    text = index if simple else f"({index})"
    return text if stride == 1 else f"{text} * {stride}"


class Body:
    """Statements of one function, its operands, and the constants that it turns out to need."""

    def __init__(
        self, symbol: str, inputs: Sequence[Tensor | None], output: Tensor, scratch: str = ""
    ) -> None:
        self.inputs = tuple(inputs)
        self.output = output
        self.scratch = scratch
        self.constants: list[ConstArray] = []
        self.symbol = symbol
        self._lines: list[str] = []
        self._depth = 1

    def input(self, index: int) -> Tensor:
        """An input that is present."""
        found = self.inputs[index]
        assert found is not None
        return found

    def optional(self, index: int) -> Tensor | None:
        """An input, None if it is absent."""
        return self.inputs[index] if index < len(self.inputs) else None

    def __call__(self, line: str) -> None:
        """Append a statement."""
        self._lines.append("    " * self._depth + line)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Statements in braces after `head`."""
        self(f"{head} {{" if head else "{")
        self._depth += 1
        yield
        self._depth -= 1
        self("}")

    @contextmanager
    def loop(self, name: str, end: int | str, start: int | str = 0) -> Iterator[str]:
        """Statements for each start <= name < end, without a loop if there is one pass; yields the
        index.
        """
        if (start, end) == (0, 1):
            with self.block(""):
                yield "0"
            return
        with self.block(f"for (int {name} = {start}; {name} < {end}; ++{name})"):
            yield name

    @contextmanager
    def nest(self, prefix: str, shape: Sequence[int]) -> Iterator[list[str]]:
        """Loops over a shape; yields the indices ("0" for axes with one element)."""
        with ExitStack() as stack:
            yield [
                "0" if d == 1 else stack.enter_context(self.loop(f"{prefix}{k}", d))
                for k, d in enumerate(shape)
            ]

    def table(self, values: Array | Sequence[int], comment: str = "") -> str:
        """A constant array; Python integers become int32."""
        array = values if isinstance(values, np.ndarray) else np.asarray(values, np.int32)
        name = f"{self.symbol}_t{len(self.constants)}"
        self.constants.append(ConstArray(name, array.reshape(-1), comment))
        return name

    @property
    def text(self) -> str:
        """All statements."""
        return "\n".join(self._lines)
