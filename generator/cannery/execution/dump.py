"""The values of runs as a library shows them: read from a file, or from a program's output."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from cannery.emit.values import RUN, Seen
from cannery.errors import OptionError
from cannery.ir.registry import RefArray
from cannery.ir.tensor import MAX_ELEMENTS, DType, TensorType
from cannery.layouts import ORDERS, Halo, Layout, image_dims, unpack
from cannery.user_files import check_file, read_file

_MAGIC = b"CANNERY-DUMP 1\n"
_HEAD_BYTES = 12
_MAX_BYTES = 2**32
DUMP_CURE = (
    "write it with cannery/dump_file.h, close the file after the last run, and copy all of it"
)


class _Layout(msgspec.Struct):
    """`Layout` as a dump has it."""

    order: str
    shape: tuple[int, int, int]
    row: int
    col: int
    channel: int
    origin: int
    elements: int
    halo: dict[str, int]
    slack: int
    phase: int
    dtype: str


class Shown(msgspec.Struct):
    """A value of a dump: its name in the graph, the step and the function that complete it."""

    value: str
    step: int
    symbol: str
    size: int
    shape: tuple[int, ...]
    layout: _Layout

    @classmethod
    def of(cls, seen: Seen) -> Shown:
        """What a dump says of a value."""
        return msgspec.convert(seen.as_dict(), cls)

    @property
    def type(self) -> TensorType:
        """Its type in the graph."""
        return TensorType(self.shape, DType(self.layout.dtype))

    def array(self, memory: bytes) -> RefArray:
        """The value, as the graph has it, from its memory. Raises ValueError."""
        layout, type_ = self._layout(), self.type
        images = image_dims(type_)[0]
        flat = np.frombuffer(memory, type_.dtype.numpy)[: images * layout.elements]
        parts = [unpack(part, layout) for part in flat.reshape(images, layout.elements)]
        return np.ascontiguousarray(np.stack(parts)).reshape(type_.shape)

    def _layout(self) -> Layout:
        """The layout; raises ValueError if it is none, or reaches beyond the memory."""
        told = self.layout
        fields = msgspec.structs.asdict(told)
        numbers = [*told.shape, *self.shape, *(v for v in fields.values() if isinstance(v, int))]
        if told.order not in ORDERS or not all(0 <= n < MAX_ELEMENTS for n in numbers):
            raise ValueError("layout")
        layout = Layout(**{**fields, "halo": Halo(**told.halo), "dtype": DType(told.dtype)})
        n, h, w, c = image_dims(self.type)
        rows, columns = range(max(h - 4, 0), h), range(max(w - 4, 0), w)
        last = max((layout.at(y, x, c - 1) for y in rows for x in columns), default=-1)
        fits = n * layout.elements * layout.dtype.bytes <= self.size
        if told.shape != (h, w, c) or last >= layout.elements or not fits:
            raise ValueError("layout")
        return layout


class _About(msgspec.Struct):
    model: str
    hash: str
    isa: str


@dataclass(frozen=True)
class Dump:
    """What was shown of some runs: the values, and those of each run by their numbers."""

    model: str
    hash: str
    isa: str
    values: tuple[Shown, ...]
    runs: tuple[dict[int, RefArray], ...]


def read_dump(path: Path) -> Dump:
    """The dump in a file. Raises OptionError if it is missing, damaged or incomplete."""
    check_file(path, _MAX_BYTES, cure=DUMP_CURE)
    try:
        data = read_file(path, _MAX_BYTES)
        head, _, body = data.partition(b"\n\n")
        if not data.startswith(_MAGIC) or not body:
            raise ValueError("no values of a run")
        first, *lines = head.split(b"\n")[1:]
        about, values = msgspec.json.decode(first, type=_About), _values(lines)
        runs = list(_runs(memoryview(body), values))
    except OSError as error:
        what = error.strerror or "cannot be read"
        raise OptionError(what, where=str(path), cure=DUMP_CURE) from None
    except (ValueError, TypeError, msgspec.MsgspecError) as error:
        raise OptionError(f"not a valid dump: {error}", where=str(path), cure=DUMP_CURE) from None
    return Dump(about.model, about.hash, about.isa, values, tuple(runs))


def _values(lines: Sequence[bytes]) -> tuple[Shown, ...]:
    return tuple(msgspec.json.decode(line, type=Shown) for line in lines)


def _runs(body: memoryview, values: Sequence[Shown]) -> Iterator[dict[int, RefArray]]:
    """The runs, each complete. Raises ValueError."""
    at = 0
    run: dict[int, RefArray] | None = None
    while at < len(body):
        head = bytes(body[at : at + _HEAD_BYTES])
        if len(head) < _HEAD_BYTES:
            raise ValueError("it ends within the head of a value")
        number = int.from_bytes(head[:4], "little", signed=True)
        size = int.from_bytes(head[4:], "little")
        at += _HEAD_BYTES
        if number == RUN:
            if run is not None:
                yield _complete(run, values)
            run = {}
        elif run is None or not 0 <= number < len(values) or size != values[number].size:
            raise ValueError("a value that the network does not have")
        else:
            if at + size > len(body):
                raise ValueError(f"it ends within {values[number].value!r}")
            run[number] = values[number].array(bytes(body[at : at + size]))
        at += size
    if run is not None:
        yield _complete(run, values)


def _complete(run: dict[int, RefArray], values: Sequence[Shown]) -> dict[int, RefArray]:
    if len(run) != len(values):
        raise ValueError(f"it ends within a run, after {len(run)} of {len(values)} values")
    return run
