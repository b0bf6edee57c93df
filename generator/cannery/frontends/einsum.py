"""Einstein sums: diagonals, sums over labels of only one operand, then products of pairs.

A pair is a batched matrix product: common labels that stay are the batch, common labels that vanish
are summed over, the others are rows and columns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from cannery.errors import ModelError
from cannery.frontends.node_scope import NodeScope
from cannery.ir.registry import Op
from cannery.ops.elementwise.binary import Mul
from cannery.ops.matmul.op import MatMul
from cannery.ops.movement.op import Expand, Reshape, Slice, Transpose
from cannery.ops.reduce.op import ReduceSum

_ELLIPSIS = "..."


@dataclass(frozen=True)
class Term:
    """A value of the graph with a label for each axis."""

    name: str
    labels: str


def parse(equation: str, ranks: Sequence[int]) -> tuple[list[str], str]:
    """One label per axis of each operand, and those of the output; ellipses become digits.

    Raises ModelError for an equation that does not fit.
    """
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(ranks):
        raise ModelError(
            f"equation {equation!r:.80} has {len(terms)} terms for {len(ranks)} inputs"
        )
    open_axes = [r - len(t) + 3 for t, r in zip(terms, ranks, strict=True) if _ELLIPSIS in t]
    spare = max(open_axes, default=0)
    if spare > 9:
        raise ModelError(f"equation {equation!r:.80} has too many axes")
    wide = "987654321"[9 - spare :] if spare > 0 else ""
    found = []
    for term, rank in zip(terms, ranks, strict=True):
        own = rank - len(term) + 3
        labels = term.replace(_ELLIPSIS, wide[len(wide) - own :] if own > 0 else "", 1)
        if len(labels) != rank or not all(c.isalpha() or c in wide for c in labels):
            raise ModelError(f"term {term!r:.80} does not fit an input with {rank} axes")
        found.append(labels)
    if arrow:
        output = right.replace(_ELLIPSIS, wide, 1)
    else:
        counts = Counter("".join(found))
        output = wide + "".join(sorted(c for c, n in counts.items() if n == 1 and c.isalpha()))
    known = set("".join(found))
    if len(set(output)) != len(output) or not set(output) <= known:
        raise ModelError(f"equation {equation!r:.80} has an output that does not fit its inputs")
    return found, output


def einsum(scope: NodeScope, equation: str, operands: Sequence[str]) -> str:
    """The Einstein sum of values, by the name of the result."""
    terms, output = parse(equation, [scope.type(name).rank for name in operands])
    sums = _Sums(scope)
    left = [Term(name, labels) for name, labels in zip(operands, terms, strict=True)]
    left = [sums.diagonal(term) for term in left]
    for k, term in enumerate(left):
        others = {c for other in (*left[:k], *left[k + 1 :]) for c in other.labels}
        left[k] = sums.without(term, others | set(output))
    result = left[0]
    for k, term in enumerate(left[1:], start=1):
        kept = set(output) | {c for other in left[k + 1 :] for c in other.labels}
        result = sums.product(result, term, kept)
    result = sums.without(result, set(output))
    return sums.ordered(result, output).name


class _Sums:
    """Makes the nodes of one Einsum."""

    def __init__(self, scope: NodeScope) -> None:
        self._scope = scope
        self._count = 0

    def _node(self, op: Op, *names: str) -> str:
        self._count += 1
        return self._scope.node(op, names, f"step{self._count}")

    def _sizes(self, term: Term) -> dict[str, int]:
        return dict(zip(term.labels, self._scope.type(term.name).shape, strict=True))

    def _reshaped(self, name: str, shape: Sequence[int]) -> str:
        if self._scope.type(name).shape == tuple(shape):
            return name
        return self._node(Reshape(tuple(shape)), name)

    def ordered(self, term: Term, labels: str) -> Term:
        """The axes in another order."""
        if term.labels == labels:
            return term
        perm = tuple(term.labels.index(c) for c in labels)
        return Term(self._node(Transpose(perm), term.name), labels)

    def diagonal(self, term: Term) -> Term:
        """Each label once: for repeated labels, the elements with equal indices."""
        for label, count in Counter(term.labels).items():
            for _ in range(count - 1):
                term = self._one_diagonal(term, label)
        return term

    def _one_diagonal(self, term: Term, label: str) -> Term:
        first = term.labels.index(label)
        second = term.labels.index(label, first + 1)
        rest = [k for k in range(len(term.labels)) if k not in (first, second)]
        name = self._node(Transpose((*rest, first, second)), term.name)
        *outer, n, m = self._scope.type(name).shape
        if n != m:
            raise ModelError(f"label {label!r} has {n} and {m} elements")
        flat = self._reshaped(name, (*outer, n * n))
        starts, steps = (0,) * (len(outer) + 1), (*(1,) * len(outer), n + 1)
        part = self._node(Slice(starts, (*outer, n * n), steps), flat)
        return Term(part, "".join(term.labels[k] for k in rest) + label)

    def without(self, term: Term, kept: set[str]) -> Term:
        """Summed over the labels that are not kept."""
        axes = tuple(k for k, c in enumerate(term.labels) if c not in kept)
        if not axes:
            return term
        labels = "".join(c for c in term.labels if c in kept)
        return Term(self._node(ReduceSum(axes), term.name), labels)

    def product(self, a: Term, b: Term, kept: set[str]) -> Term:
        """The product of two terms, summed over common labels that are not kept."""
        both = [c for c in a.labels if c in b.labels]
        batch = "".join(c for c in both if c in kept)
        summed = "".join(c for c in both if c not in kept)
        rows = "".join(c for c in a.labels if c not in both)
        columns = "".join(c for c in b.labels if c not in both)
        a, b = self._matched(a, b, summed)
        a, b = self.ordered(a, batch + rows + summed), self.ordered(b, batch + summed + columns)
        sizes_a, sizes_b = self._sizes(a), self._sizes(b)
        for c in batch:
            if sizes_a[c] != sizes_b[c] and 1 not in (sizes_a[c], sizes_b[c]):
                raise ModelError(f"label {c!r} has {sizes_a[c]} and {sizes_b[c]} elements")
        lead = [[s[c] for c in batch] for s in (sizes_a, sizes_b)]
        m, n = (prod(s[c] for c in part) for s, part in ((sizes_a, rows), (sizes_b, columns)))
        k = prod(sizes_a[c] for c in summed)
        left = self._reshaped(a.name, (*lead[0], m, k))
        right = self._reshaped(b.name, (*lead[1], k, n))
        y = self._multiplied(left, right, k)
        wide = self._scope.type(y).shape[: len(batch)]
        shape = (*wide, *(sizes_a[c] for c in rows), *(sizes_b[c] for c in columns))
        return Term(self._reshaped(y, shape), batch + rows + columns)

    def _multiplied(self, a: str, b: str, k: int) -> str:
        """A batched matrix product; for integers, the sum of an outer product."""
        if k == 1:
            return self._node(Mul(), a, b)
        if self._scope.type(a).dtype.value == "float32":
            return self._node(MatMul(), a, b)
        wide = self._reshaped(a, (*self._scope.type(a).shape, 1))
        *lead, inner, n = self._scope.type(b).shape
        products = self._node(Mul(), wide, self._reshaped(b, (*lead, 1, inner, n)))
        return self._node(ReduceSum((self._scope.type(products).rank - 2,)), products)

    def _matched(self, a: Term, b: Term, summed: str) -> tuple[Term, Term]:
        """Both with the same sizes along the summed labels; 1 matches any size."""
        for c in summed:
            sizes = self._sizes(a)[c], self._sizes(b)[c]
            if sizes[0] != sizes[1] and 1 not in sizes:
                raise ModelError(f"label {c!r} stands for {sizes[0]} and for {sizes[1]} elements")
            a, b = self._expanded(a, c, max(sizes)), self._expanded(b, c, max(sizes))
        return a, b

    def _expanded(self, term: Term, label: str, size: int) -> Term:
        sizes = self._sizes(term)
        if sizes[label] == size:
            return term
        shape = tuple(size if c == label else sizes[c] for c in term.labels)
        return Term(self._node(Expand(shape), term.name), term.labels)
