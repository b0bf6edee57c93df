"""The transforms of Winograd tiles on the phase-split layout, as straight-line code.

A 4 x 4 tile of outputs reads 6 x 6 inputs, each a vector of neighbouring tiles. F(4x4) makes one
tile of them, F(2x2) four: both are one product with the stacked matrices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product

from cannery.ctext.environment import offset
from cannery.ctext.transforms import Assign, linear, order
from cannery.layouts import Layout
from cannery.ops.conv.winograd import Matrix, Winograd, stacked_input, stacked_output
from cannery.ops.shared import epilogue as epilogues
from cannery.ops.shared.cover import Span
from cannery.ops.shared.lanes import Vec
from cannery.schedule.cost import busy_cycles
from cannery.schedule.schedule import Job
from cannery.target.isa import Isa

#: Rows of the transforms of F(4x4), by shape, ordered so that rows with common sums are neighbours.
_ROWS = {(6, 6): (1, 2, 3, 4, 0, 5), (4, 6): (0, 2, 1, 3)}

#: Vectors of intermediate results that `group` 0 keeps in memory.
KEPT = 64


@dataclass(frozen=True)
class Masks:
    """Which lanes of the last tiles lie outside. `right`: the width is not a multiple of 4.

    `bottom`: the first tile of the last tile row, if the height is not a multiple of 4, else 0.
    """

    right: int
    bottom: int
    bottom_rows: int


@dataclass(frozen=True)
class TileCode:
    """Writes the transforms of one span of tiles, with `vectors` per position.

    `group` is the number of rows whose values are alive at once; 0: the columns are transformed
    first, into memory.
    """

    winograd: Winograd
    job: Job
    span: Span
    vectors: int
    group: int

    def input(self, ic: int) -> list[list[str]]:
        """From the 6 x 6 pixels of a 4 x 4 tile to the positions of its products."""
        x = self.job.inputs[0]

        def load(i: int, j: int) -> str:
            text = f"{self.span.t}_load(xp{offset(at(x, i - 1, j - 1))})"
            mask = {0: "left", 5: "right"}.get(j)
            return keep(self.span, text, mask) if mask else text

        def store(a: int, b: int, value: str) -> list[str]:
            there = self.place(a, b, ic)
            return [f"{self.span.t}_store_aligned(vp{offset(there)}, {value});"]

        return self.transform(stacked_input(self.winograd), load, store)

    def output(self, n: int, ep: epilogues.Epilogue, masks: Masks) -> list[list[str]]:
        """From the sums of `n` channels to pixels."""

        def store(i: int, j: int, value: str) -> list[str]:
            t = self.span.t
            vec = Vec(0, self.span.lanes, self.span.lanes, 0)
            lines = ep.apply(vec, "r", "(oc + c)", self.residual(i, j), across=False)
            result = "r" if lines else value
            if masks.right and j >= masks.right:
                result = keep(self.span, result, "right")
            if masks.bottom and i >= masks.bottom_rows:
                result = keep(self.span, result, "bottom")
            end = f"{t}_store(yp{offset(at(self.job.output, i, j))}, {result});"
            return [f"{{ {t} r = {value};", *lines, f"{end} }}"] if lines else [end]

        return self.transform(self.output_matrix, self.sums(n), store)

    def pooled(
        self, n: int, ep: epilogues.Epilogue, layout: Layout, word: str, *, late: bool
    ) -> list[list[str]]:
        """Like `output`, but `word` (max or add) joins windows of 2 x 2 pixels.

        Quarter (a, b) of the tile (see `shared.quarters`) is pixel (a, b) of `layout`, from yp on;
        `late`: the epilogue may come after the joining.
        """
        t = self.span.t
        vec = Vec(0, self.span.lanes, self.span.lanes, 0)
        marks: dict[str, tuple[int, int, str]] = {}

        def mark(i: int, j: int, value: str) -> list[str]:
            marks[f"/* {value} */"] = (i, j, value)
            return [f"/* {value} */"]

        def joined(i: int, j: int, value: str) -> Iterator[str]:
            lines = ep.apply(vec, "r", "(oc + c)", self.residual(i, j), across=False)
            one = value if late or not lines else "r"
            total = quarter(i, j)
            join = f"{total} = {f'{t}_{word}({total}, {one})' if total in seen else one};"
            yield f"{{ {t} r = {value}; {' '.join(lines)} {join} }}" if one == "r" else join
            seen.append(total)
            if seen.count(total) == 4:
                if word == "add":
                    yield f"{total} = {t}_mul({total}, {t}_set1(0.25f));"
                if late:
                    yield from ep.apply(vec, total, "(oc + c)", None, across=False)
                place = i // 2 * layout.row + j // 2 * layout.col
                yield f"{t}_store(yp{offset(place)}, {total});"

        seen: list[str] = []
        return [
            [out for line in lines for out in (joined(*marks[line]) if line in marks else (line,))]
            for lines in self.transform(self.output_matrix, self.sums(n), mark)
        ]

    @property
    def output_matrix(self) -> Matrix:
        """The code that transforms sums into pixels."""
        return stacked_output(self.winograd)

    def sums(self, n: int) -> Callable[[int, int], str]:
        """Loads of the sums of `n` channels; the bias enters at position (1, 1)."""

        def load(a: int, b: int) -> str:
            text = f"{self.span.t}_load_aligned(ap{offset(self.place(a, b, n))})"
            middle = a % self.winograd.tile == b % self.winograd.tile == 1
            return f"{self.span.t}_add({text}, bias)" if middle else text

        return load

    def residual(self, i: int, j: int) -> Callable[[int], str]:
        """Input index -> pointer to the tile's pixels (i, j)."""
        return lambda k: f"r{k}p{offset(at(self.job.inputs[k], i, j))}"

    def place(self, a: int, b: int, channels: int) -> int:
        """Where position (a, b) of the stacked transform lies, for the first channel and vector."""
        size = self.winograd.tile
        position = a % size * size + b % size
        block = a // size * blocks(self.winograd) + b // size
        return (position * channels * self.vectors + block * self.span.vectors) * self.span.lanes

    def transform(
        self,
        matrix: Matrix,
        load: Callable[[int, int], str],
        store: Callable[[int, int, str], list[str]],
        across: Matrix | None = None,
    ) -> list[list[str]]:
        """The product matrix . d . across^T (None: as matrix) as statements, by groups of rows."""
        across = across or matrix
        width = len(across[0])
        t = self.span.t
        places = product(range(len(matrix[0])), range(width))
        loads = [Assign(f"d{i}_{j}", load(i, j), ()) for i, j in places]
        if self.group == 0:
            columns = self.columns(matrix, loads, width)
            return [*columns, [self.written], *self.rows(len(matrix), store, across)]
        found: list[list[str]] = []
        for rows in row_groups(matrix, self.group):
            assigns = list(loads)
            for j in range(width):
                assigns += self.column(matrix, rows, j)
            stores: dict[str, list[str]] = {}
            for a in rows:
                assigns += self.row(across, a)
                stores |= {f"v{a}_{b}": store(a, b, f"v{a}_{b}") for b in range(len(across))}
            found.append(order(assigns, stores, t))
        return found

    def column(self, matrix: Matrix, rows: Sequence[int], j: int) -> tuple[Assign, ...]:
        """Rows t<a>_<j> of column j of matrix . d."""
        sources = [f"d{i}_{j}" for i in range(len(matrix[0]))]
        targets = [f"t{a}_{j}" for a in rows]
        fused = self.job.isa.has("fma")
        return linear([matrix[a] for a in rows], sources, targets, self.span.t, fused=fused)

    def row(self, matrix: Matrix, a: int) -> tuple[Assign, ...]:
        """Row v<a>_<b> of t . matrix^T."""
        sources = [f"t{a}_{j}" for j in range(len(matrix[0]))]
        targets = [f"v{a}_{b}" for b in range(len(matrix))]
        return linear(matrix, sources, targets, self.span.t, fused=self.job.isa.has("fma"))

    def columns(self, matrix: Matrix, loads: Sequence[Assign], width: int) -> list[list[str]]:
        """Matrix . d, column by column, into memory at tp."""
        t = self.span.t
        found = []
        for j in range(width):
            assigns = [*loads, *self.column(matrix, range(len(matrix)), j)]
            stores = {
                f"t{a}_{j}": [f"{t}_store_aligned(tp{offset(self.kept(a, j))}, t{a}_{j});"]
                for a in range(len(matrix))
            }
            found.append(order(assigns, stores, t))
        return found

    def rows(
        self, count: int, store: Callable[[int, int, str], list[str]], across: Matrix
    ) -> list[list[str]]:
        """The `count` rows in memory at tp, times across^T, row by row."""
        t = self.span.t
        found = []
        for a in range(count):
            loads = [
                Assign(f"t{a}_{j}", f"{t}_load_aligned(tp{offset(self.kept(a, j))})", ())
                for j in range(len(across[0]))
            ]
            stores = {f"v{a}_{b}": store(a, b, f"v{a}_{b}") for b in range(len(across))}
            found.append(order([*loads, *self.row(across, a)], stores, t))
        return found

    @property
    def written(self) -> str:
        """Makes compilers load what is at tp instead of keeping copies of it on the stack."""
        return f"CANNERY_OPAQUE_MEM(*(float(*)[{KEPT * self.span.lanes}])tp);"

    def kept(self, a: int, j: int) -> int:
        """The offset of t<a>_<j> from tp."""
        return (a * 8 + j) * self.span.lanes


def blocks(winograd: Winograd) -> int:
    """Tiles along one side of 4 x 4 outputs."""
    return 4 // winograd.m


def at(layout: Layout, i: int, j: int) -> int:
    """Distance of pixel (i, j) of a tile from the tile's place in plane 0."""
    return (i % 4 * 4 + j % 4) * layout.phase + i // 4 * layout.row + j // 4


def quarter(i: int, j: int) -> str:
    """The variable of the window that pixel (i, j) of a tile belongs to."""
    return f"q{i // 2}_{j // 2}"


def keep(span: Span, value: str, mask: str) -> str:
    """The C expression of a vector with zeros where the mask is not set."""
    i = f"i32x{span.lanes}"
    return f"{i}_as_f32({i}_and({span.t}_as_i32({value}), {mask}))"


def row_groups(matrix: Matrix, size: int) -> list[tuple[int, ...]]:
    """The rows of a transform in groups of at most `size` that are computed together; 0: all."""
    count = len(matrix)
    rows = _ROWS.get((count, len(matrix[0])), tuple(range(count)))
    return [rows[k : k + (size or count)] for k in range(0, count, size or count)]


@cache
def operations(matrix: Matrix, across: Matrix, group: int, *, fused: bool) -> int:
    """Arithmetic instructions of a transform of both sides."""
    rows = _operations(across, range(len(across)), fused=fused) * len(matrix)
    columns = sum(_operations(matrix, part, fused=fused) for part in row_groups(matrix, group))
    return rows + columns * len(across[0])


def _operations(matrix: Matrix, rows: Sequence[int], *, fused: bool) -> int:
    """Arithmetic instructions of some rows times a vector; a mere copy counts as none."""
    sources = [f"d{k}" for k in range(len(matrix[0]))]
    assigns = linear([matrix[a] for a in rows], sources, [f"t{a}" for a in rows], "f", fused=fused)
    return sum(assign.uses != (assign.expression,) for assign in assigns)


def transform_cycles(
    matrix: Matrix,
    group: int,
    work: int,
    isa: Isa,
    results: int = 0,
    across: Matrix | None = None,
    *,
    ordered: bool = False,
) -> float:
    """Cycles of a transform of both sides (`across` None: the same for both) with `work` extra
    operations.

    `results` of its values are stored (0: all). `ordered`: loads of halves, in an order for
    processors in order, which takes two more instructions for each load. The factors are fitted: a
    transform overlaps with the products around it.
    """
    across = across or matrix
    size, count = len(matrix[0]) * len(across[0]), len(matrix) * len(across)
    results = results or count
    arithmetic = operations(matrix, across, group, fused=isa.has("fma")) + work
    if group == 0:
        kept = len(across[0]) * len(matrix)
        loads, stores = size + kept, kept + results
    else:
        alive = min(group, len(matrix)) * len(across[0]) + 4
        spills = max(alive - isa.registers, 0) * -(-len(matrix) // group)
        loads = _rows_used(matrix, group) * len(across[0]) + spills
        stores = results + spills
    core = isa.rates()
    if not isa.core.window:
        way = isa.core.loading.get("dual") if ordered else None
        slots = loads * way.least * core.loads if way else float(loads)
        return busy_cycles(isa, arithmetic, slots, stores, beside=2.0 * slots * ordered)
    loads *= 3 if ordered else 1
    return (0.6 if isa.has("fma") else 0.8) * max(
        arithmetic / core.arithmetic,
        stores / core.stores,
        (arithmetic + loads + stores) / isa.core.issue,
    )


@cache
def _rows_used(matrix: Matrix, group: int) -> int:
    """Columns of a matrix that each of its groups of rows needs, in all."""
    return sum(_used(matrix, rows) for rows in row_groups(matrix, group))


def _used(matrix: Matrix, rows: Sequence[int]) -> int:
    """Columns of a matrix that some of its rows need."""
    return sum(any(matrix[a][j] for a in rows) for j in range(len(matrix[0])))
