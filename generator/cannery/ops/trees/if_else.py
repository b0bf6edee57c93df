"""Trees as code: an if for each node, its threshold a number in the code.

There are no tables to read, but a processor that guesses branches guesses many of them wrong, and
large forests do not stay in its cache for code. For small forests, and small processors.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from cannery.ctext.literals import c_float
from cannery.ir.graph import Graph
from cannery.ops.trees.base import (
    TreeSchedule,
    Walk,
    column_cycles,
    issue,
    wrong_guess,
)
from cannery.ops.trees.columns import Columns
from cannery.ops.trees.forest import Forest, forest_of
from cannery.schedule.params import as_params, typed
from cannery.schedule.program import Step
from cannery.schedule.schedule import Estimate, Job, Params, schedule
from cannery.target.isa import Isa

#: The deepest nesting (C99 promises 127 blocks), the most nodes, and nodes of one function.
_DEEPEST, _MOST, _PART = 100, 10_000, 256

#: Instructions of a step from node to node, and bytes of a node.
_STEP, _NODE_BYTES = 3.5, 18.0

#: How often a guess is wrong at most; with fewer steps, less often: the processor learns them.
_WRONG, _LEARNED = 0.4, 180.0


@dataclass(frozen=True)
class Tunables:
    """Columns are `integers` or floats."""

    integers: bool


@schedule
@dataclass(frozen=True)
class TreesIfElse(TreeSchedule):
    """See the module docstring."""

    id = "trees.if_else"

    def unfit(self, forest: Forest) -> str:
        if not 0 < forest.nodes <= _MOST:
            return f"it has {forest.nodes} nodes"
        return f"deeper than {_DEEPEST}" if int(forest.depths.max()) > _DEEPEST else ""

    def candidates(self, graph: Graph, step: Step, isa: Isa) -> Sequence[Params]:
        return [as_params(Tunables(integers)) for integers in (True, False)]

    def cost(self, graph: Graph, step: Step, params: Params, isa: Isa) -> Estimate:
        p, forest = typed(Tunables, params), forest_of(graph, step.anchor)
        samples = graph.types[step.output].shape[0]
        steps = float(forest.mean_depths.sum())
        wrong = 1.0 if isa.is_small else min(_WRONG, steps / _LEARNED)
        price = 1.0 if p.integers else 2.5 if isa.is_small else 1.6
        each = price * _STEP / issue(isa) + wrong * wrong_guess(isa)
        made = column_cycles(Columns(forest, p.integers, ""), isa)
        beyond = _NODE_BYTES * forest.nodes / isa.core.code.hot_bytes - 1.0
        cycles = steps * each * (1.0 + min(max(beyond, 0.0), 4.0)) + made
        return Estimate(samples * cycles, steps)

    def constant_bytes(self, graph: Graph, step: Step, params: Params, isa: Isa) -> float:
        forest = forest_of(graph, step.anchor)
        return 4.0 * forest.leaves.size if forest.targets > 1 else 0.0

    def in_functions(self, forest: Forest) -> bool:
        return len(list(_parts(forest))) > 1

    def write(self, walk: Walk, job: Job) -> str:
        if walk.in_functions:
            return "".join(_functions(walk, job.symbol))
        for tree in range(walk.forest.trees):
            for line in _tree(walk, tree):
                walk.c(line)
        return ""


def _functions(walk: Walk, symbol: str) -> Iterator[str]:
    """Functions of some trees each, which the kernel calls."""
    single = walk.forest.targets == 1
    for number, trees in enumerate(_parts(walk.forest)):
        name = f"{symbol}_trees{number}"
        kind, last, call = ("float", "float s", f"s = {name}({walk.k}, s);")
        if not single:
            kind, last, call = ("void", "float *yr", f"{name}({walk.k}, yr);")
        head = f"CANNERY_APART {kind} {name}(const {walk.columns.type} *{walk.k}, {last})"
        lines = [line for tree in trees for line in _tree(walk, tree)]
        unused = [] if any("if (" in line for line in lines) else [f"(void){walk.k};"]
        end = ["return s;"] if single else []
        body = [f"    {line}" for line in (*unused, *lines, *end)]
        yield "\n".join([head, "{", *body, "}", "", ""])
        walk.c(call)


def _parts(forest: Forest) -> Iterator[list[int]]:
    """The trees of each function."""
    part: list[int] = []
    nodes = 0
    for tree, leaves in enumerate(forest.leaf_counts.tolist()):
        if part and nodes + leaves > _PART:
            yield part
            part, nodes = [], 0
        part.append(tree)
        nodes += leaves
    yield part


def _tree(walk: Walk, tree: int) -> Iterator[str]:
    """The lines of one tree."""
    root = int(walk.forest.roots[tree])
    if walk.forest.targets == 1:
        yield from _lines(walk, root, 0)
        return
    yield "{"
    yield f"    const float *row = {walk.row_table};"
    yield from _lines(walk, root, 1)
    for line in walk.row_joined("row"):
        yield f"    {line}"
    yield "}"


def _lines(walk: Walk, root: int, depth: int) -> Iterator[str]:
    """Nested ifs; `waiting` holds nodes, and the lines between."""
    forest, columns = walk.forest, walk.columns
    waiting: list[tuple[int | str, int]] = [(root, depth)]
    while waiting:
        node, depth = waiting.pop()
        indent = "    " * depth
        if isinstance(node, str):
            yield f"{indent}{node}"
        elif node < 0:
            yield f"{indent}{_leaf(walk, -1 - node)}"
        else:
            column, yes, no = (int(v) for v in forest.links[node])
            place = f"{walk.k}[{int(columns.numbers[column])}]"
            yield f"{indent}if ({columns.no(place, columns.literal(node))}) {{"
            waiting += [
                ("}", depth), (yes, depth + 1), ("} else {", depth), (no, depth + 1),
            ]  # fmt: skip


def _leaf(walk: Walk, leaf: int) -> str:
    """The statement of a leaf."""
    if walk.forest.targets == 1:
        value = float(walk.forest.leaves[leaf, 0])
        return walk.joined("s", c_float(value))
    return f"row += {int(walk.rows[1][leaf]) * walk.forest.targets};"
