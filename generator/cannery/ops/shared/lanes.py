"""Cuts channels (or pixels) into vectors: full ones first, then ever narrower ones, then a tail."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache

from cannery.ir.tensor import DType
from cannery.target.isa import Isa

#: The suffixes of the words that load numbers of a type: as floats (`f32x8_load_u8`), and bytes as
#: int16 (`p16x8_load_u8`).
LOADS = {
    DType.FLOAT32: "load", DType.UINT8: "load_u8", DType.INT8: "load_i8", DType.INT16: "load_s16",
}  # fmt: skip


@dataclass(frozen=True)
class Vec:
    """`lanes` elements from `start` on, of which the first `valid` exist; `packed` is its place in
    arrays padded to whole vectors.
    """

    start: int
    lanes: int
    valid: int
    packed: int

    @property
    def t(self) -> str:
        """Type and word prefix: `f32x8`."""
        return f"f32x{self.lanes}"

    @property
    def full(self) -> bool:
        return self.valid == self.lanes

    @property
    def at_zero(self) -> Vec:
        """The same vector for code whose pointers point to its first element."""
        return replace(self, start=0)

    def load(self, pointer: str, dtype: DType = DType.FLOAT32) -> str:
        """A load, as floats, that never touches anything after the valid elements."""
        word = f"{self.t}_{LOADS[dtype]}"
        return f"{word}({pointer})" if self.full else f"{word}_n({pointer}, {self.valid})"

    def store(self, pointer: str, value: str) -> str:
        """A store statement that never touches anything after the valid elements."""
        if self.full:
            return f"{self.t}_store({pointer}, {value});"
        return f"{self.t}_store_n({pointer}, {value}, {self.valid});"


@cache
def split_lanes(count: int, isa: Isa, widest: int = 0, *, partial: bool = True) -> tuple[Vec, ...]:
    """Cut `count` elements into vectors of the ISA's widths, none wider than `widest` (0: any).

    A rest that fills more than half of a width becomes one partial vector of that width. Without
    `partial`, all vectors are full and a rest goes element by element.
    """
    widths = sorted((w for w in isa.lanes if w <= (widest or isa.widest)), reverse=True)
    vectors: list[Vec] = []
    start = packed = 0
    while start < count:
        left = count - start
        lanes = next((w for w in widths if w <= left), widths[-1])
        wider = next((w for w in reversed(widths) if w >= left), 0)
        if partial and wider and lanes < left and wider < 2 * left and wider <= widths[0]:
            lanes = wider
        if partial and lanes == 1 and widths[0] >= 4:
            lanes = 4
        valid = min(lanes, left)
        vectors.append(Vec(start, lanes, valid, packed))
        start, packed = start + valid, packed + lanes
    return tuple(vectors)


@dataclass(frozen=True)
class Cut:
    """What `split_lanes` gives, for counts in the millions: `whole` full vectors of `width`, then
    `rest`, which may begin with more of them.
    """

    width: int
    whole: int
    rest: tuple[Vec, ...]

    @staticmethod
    @cache
    def of(count: int, isa: Isa, widest: int = 0, *, partial: bool = True) -> Cut:
        """See `split_lanes`."""
        width = max(w for w in isa.lanes if w <= (widest or isa.widest))
        whole = max(count // width - 1, 0)
        done = whole * width
        rest = split_lanes(count - done, isa, widest, partial=partial)
        moved = tuple(Vec(v.start + done, v.lanes, v.valid, v.packed + done) for v in rest)
        return Cut(width, whole, moved)

    def __len__(self) -> int:
        return self.whole + len(self.rest)

    def __getitem__(self, index: int) -> Vec:
        if index >= self.whole:
            return self.rest[index - self.whole]
        return Vec(index * self.width, self.width, self.width, index * self.width)


@dataclass(frozen=True)
class VecLoop:
    """`count` neighbouring vectors like `vec`, which is the first."""

    vec: Vec
    count: int


def vector_loops(vectors: Iterable[Vec], first: VecLoop | None = None) -> list[VecLoop]:
    """Neighbouring full vectors of one width become one loop; those of `first` come before."""
    loops = [first] if first else []
    for vec in vectors:
        if loops and loops[-1].vec.lanes == vec.lanes and loops[-1].vec.full and vec.full:
            loops[-1] = VecLoop(loops[-1].vec, loops[-1].count + 1)
        else:
            loops.append(VecLoop(vec, 1))
    return loops


def vector_runs(
    count: int, isa: Isa, widest: int = 0, *, partial: bool = True
) -> list[tuple[Vec, int]]:
    """`split_lanes` with equal full neighbours counted, not listed."""
    cut = Cut.of(count, isa, widest, partial=partial)
    first = VecLoop(cut[0], cut.whole) if cut.whole else None
    return [(loop.vec, loop.count) for loop in vector_loops(cut.rest, first)]
