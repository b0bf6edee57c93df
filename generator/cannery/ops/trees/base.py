"""What the schedules of tree ensembles share: the loop over samples, and how leaves are joined."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cannery.ctext.literals import c_float
from cannery.ir.graph import Graph
from cannery.layouts import Want
from cannery.ops.scalar.body import Body, Tensor
from cannery.ops.shared.function import describe, kernel_of_nothing, signature
from cannery.ops.trees.columns import Columns
from cannery.ops.trees.forest import I32, Forest, forest_of
from cannery.ops.trees.op import TreeEnsemble
from cannery.schedule.program import Step
from cannery.schedule.schedule import ConstArray, Job, Kernel, Schedule
from cannery.target.isa import Isa

#: The columns' memory is a multiple of so many bytes, for what comes after them.
_ALIGNMENT = 8

#: Cycles after a branch that was guessed wrong, on a processor that guesses, and on a small one.
_WRONG_GUESS, _TAKEN = 16.0, 2.0

#: Cycles that a step waits for the one before, shared by the trees that walk together: on a small
#: processor; for tables in the first-level cache, and for larger ones.
_SHORT_WAIT, _WAIT, _FAR_WAIT = 2.0, 6.0, 12.0

#: With each tree beyond four, this share of the steps' time goes to values without a register.
_SPILLED = 0.03

#: So many targets are summed in variables of their own, not in the output.
_SUMS = 8

#: Instructions that make a column.
_COLUMN = 14.0


def together_counts(trees: int) -> list[int]:
    """How many trees may walk together: powers of two, and all of ten."""
    return [n for n in (1, 2, 4, 8) if n <= trees] + [10] * (trees == 10)


def issue(isa: Isa) -> float:
    """Instructions per cycle."""
    return 1.0 if isa.is_small else isa.core.issue


def step_cycles(isa: Isa, instructions: float, together: int, size: float) -> float:
    """Cycles of a step of one of the trees that walk `together`; tables have `size` bytes."""
    wait = _SHORT_WAIT if isa.is_small else _near_or_far(isa, size)
    spilled = 1.0 + _SPILLED * max(together - 4, 0)
    return (instructions / issue(isa) + wait / together) * spilled


def _near_or_far(isa: Isa, size: float) -> float:
    return _WAIT if size <= isa.core.caches.l1_bytes else _FAR_WAIT


def wrong_guess(isa: Isa) -> float:
    """Cycles that an unforeseen branch takes."""
    return _TAKEN if isa.is_small else _WRONG_GUESS


@dataclass(frozen=True)
class Walk:
    """What a kernel is written from: the statements `c`, the forest, its columns, and the job.

    `in_functions`: the trees are in functions of their own, which add several targets to the
    output.
    """

    c: Body
    forest: Forest
    columns: Columns
    aggregate: str
    in_functions: bool = False

    @property
    def k(self) -> str:
        """The array that nodes index by column."""
        return "xr" if self.columns.direct else "k"

    @property
    def sums(self) -> bool:
        return self.aggregate in ("SUM", "AVERAGE")

    @cached_property
    def rows(self) -> tuple[np.ndarray, I32]:
        """Different leaves, and which of them each leaf is: several targets have few."""
        rows, which = np.unique(self.forest.leaves, axis=0, return_inverse=True)
        return rows, np.asarray(which.reshape(-1), np.int32)

    @cached_property
    def row_table(self) -> str:
        """The name of the array with the different leaves."""
        return self.c.table(self.rows[0], "leaves: what each adds to the targets")

    @cached_property
    def totals(self) -> Sequence[str]:
        """The variables in which targets are summed; empty if the output is."""
        if self.forest.targets == 1:
            return ("s",)
        several = self.forest.targets <= _SUMS and not self.in_functions
        return tuple(f"s{q}" for q in range(self.forest.targets)) if several else ()

    def begin(self) -> None:
        """Declare the sums, or start those in the output."""
        start = "0.0f" if self.sums else c_float(np.inf if self.aggregate == "MIN" else -np.inf)
        if self.totals:
            self.c(f"float {', '.join(f'{total} = {start}' for total in self.totals)};")
            return
        with self.c.loop("q", self.forest.targets) as q:
            self.c(f"yr[{q}] = {start};")

    def joined(self, total: str, leaf: str) -> str:
        """The statement that joins a leaf's value."""
        if self.sums:
            return f"{total} += {leaf};"
        sign = "<" if self.aggregate == "MIN" else ">"
        return f"{total} = {leaf} {sign} {total} ? {leaf} : {total};"

    def add_row(self, place: str) -> None:
        """Join the row of `row_table` that begins at `place`."""
        with self.c.block(""):
            self.c(f"const float *const row = {self.row_table} + {place};")
            for line in self.row_joined("row"):
                self.c(line)

    def row_joined(self, row: str) -> list[str]:
        """The statements that join a row of leaves."""
        if self.totals:
            return [self.joined(total, f"{row}[{q}]") for q, total in enumerate(self.totals)]
        head = f"for (int q = 0; q < {self.forest.targets}; ++q) {{"
        return [head, f"    {self.joined('yr[q]', f'{row}[q]')}", "}"]

    def finish(self) -> None:
        """The mean, and the base values."""
        forest, base = self.forest, self.forest.base
        mean = f" / {c_float(forest.trees)}" if self.aggregate == "AVERAGE" else ""
        if self.totals:
            for total, start, k in zip(
                self.totals, base.tolist(), range(forest.targets), strict=True
            ):
                shift = f" + {c_float(start)}" if start else ""
                self.c(f"yr[{k}] = {total}{mean}{shift};")
        elif mean or base.any():
            table = self.c.table(base, "base values") if base.any() else ""
            with self.c.loop("q", forest.targets) as q:
                self.c(f"yr[{q}] = yr[{q}]{mean}{f' + {table}[{q}]' if table else ''};")


@dataclass(frozen=True)
class TreeSchedule(Schedule):
    """The base of all; `write` walks through the trees of one sample."""

    want = Want(dense=True)

    #: Whether `Columns.spare` is needed.
    spare = False

    def why_not(self, graph: Graph, step: Step, isa: Isa) -> str:
        if not isinstance(step.anchor.op, TreeEnsemble):
            return "not an ensemble of trees"
        if not step.alone:
            return "several nodes"
        if any(name not in graph.constants for name in step.anchor.inputs[1:]):
            return "trees are not constant"
        return self.unfit(forest_of(graph, step.anchor))

    def unfit(self, forest: Forest) -> str:
        """Why this schedule does not suit a forest; empty if it does."""
        return ""

    def in_functions(self, forest: Forest) -> bool:
        """Whether trees are in functions of their own."""
        return False

    def more_bytes(self, forest: Forest) -> int:
        """Bytes of scratch memory after the columns."""
        return 0

    @abstractmethod
    def write(self, walk: Walk, job: Job) -> str:
        """Append the statements of one sample; returns functions that are needed before."""

    def kernel(self, job: Job) -> Kernel:
        node = job.step.anchor
        op, forest = node.op, forest_of(job.graph, node)
        assert isinstance(op, TreeEnsemble)
        if not job.type(node.output).elements:
            return kernel_of_nothing(job)
        columns = Columns(forest, bool(job.params["integers"]), job.symbol, self.spare)
        x, y = job.type(job.step.inputs[0]), job.type(node.output)
        c = Body(job.symbol, [Tensor("x", x)], Tensor("y", y))
        walk = Walk(c, forest, columns, op.aggregate, self.in_functions(forest))
        scratch = column_bytes(columns) + self.more_bytes(forest)
        with c.loop("i", x.shape[0]) as i:
            _rows(c, i, x.shape[1], forest.targets)
            _declare(c, columns)
            walk.begin()
            before = self.write(walk, job)
            walk.finish()
        head = signature(job, scratch=bool(scratch))
        code = f"{columns.helper}{before}{describe(job)}\n{head}\n{{\n{c.text}\n}}\n"
        constants: tuple[ConstArray, ...] = (*columns.constants, *c.constants)
        return Kernel(code, constants, scratch_bytes=scratch, whole=True)


def _rows(c: Body, i: str, features: int, targets: int) -> None:
    """The sample and its results."""
    for kind, name, of, size in (
        ("const float", "xr", "x", features),
        ("float", "yr", "y", targets),
    ):
        at = of if i == "0" else f"{of} + {i}" if size == 1 else f"{of} + {i} * {size}"
        c(f"{kind} *const {name} = {at};")


def column_bytes(columns: Columns) -> int:
    """Bytes of the columns in scratch memory."""
    return -(-4 * columns.count // _ALIGNMENT) * _ALIGNMENT


def _declare(c: Body, columns: Columns) -> None:
    """The columns, if they are in memory. Not on the stack: gcc 12 may lay out a function's frame
    so that what it writes there with vectors is not aligned.
    """
    if columns.count:
        cast = f"({columns.type} *)" if columns.integers else ""
        c(f"{columns.type} *const k = {cast}scratch;")
    if not len(columns.forest.columns):
        c("(void)xr;")
    for line in columns.statements():
        c(line)


def column_cycles(columns: Columns, isa: Isa) -> float:
    """Cycles of making the columns of a sample."""
    made = _COLUMN if columns.integers else _COLUMN / 3.0
    return columns.count * made / issue(isa)
