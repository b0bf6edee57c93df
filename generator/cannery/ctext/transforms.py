"""Straight-line code for multiplying by small constant matrices: Winograd and its kin.

`linear` turns a matrix into assignments: sums that several rows share are computed once (greedy
pair extraction as in R. Hartley, "Subexpression sharing in filters using canonic signed digit
multipliers", 1996), terms with equal coefficients are added before they are multiplied. `order`
puts the assignments of a whole block into an order that keeps few values alive, with each store
right after the value that it stores.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import combinations

from cannery.ctext.words import Words

#: How many transforms are cached: those of one tile recur for each of its forms.
REMEMBERED = 4096

#: A sum of named values, each with its coefficient.
Sum = dict[str, Fraction]


@dataclass(frozen=True)
class Assign:
    """`const f32x8 name = expression;` where the expression reads the values `uses`."""

    name: str
    expression: str
    uses: tuple[str, ...]


def linear(
    matrix: Sequence[Sequence[Fraction]],
    sources: Sequence[str],
    targets: Sequence[str],
    vec: str,
    *,
    fused: bool,
) -> tuple[Assign, ...]:
    """targets[i] = sum over k of matrix[i][k] * sources[k], for vectors of type `vec`.

    Names of intermediate values begin with that of the first target. `fused`: a multiply-add costs
    as much as an addition.
    """
    return _linear(tuple(map(tuple, matrix)), tuple(sources), tuple(targets), vec, fused)


@lru_cache(REMEMBERED)
def _linear(
    matrix: tuple[tuple[Fraction, ...], ...],
    sources: tuple[str, ...],
    targets: tuple[str, ...],
    vec: str,
    fused: bool,
) -> tuple[Assign, ...]:
    temporaries, rows = _shared(matrix, fused)
    names = dict(zip(map(str, range(len(matrix[0]))), sources, strict=True))
    names |= {name: f"{targets[0]}_{name}" for name, _ in temporaries}
    found: list[Assign] = []
    products: dict[tuple[str, Fraction], str] = {}
    sums = [*((names[name], row) for name, row in temporaries), *zip(targets, rows, strict=True)]
    for name, row in sums:
        named = {names[term]: c for term, c in row.items()}
        found += _assigns(name, named, Words(vec), products, fused=fused)
    return tuple(found)


@lru_cache(REMEMBERED)
def _shared(
    matrix: tuple[tuple[Fraction, ...], ...], fused: bool
) -> tuple[list[tuple[str, Sum]], list[Sum]]:
    """Values s0, s1 ... that several rows need, and the rows; sources are called by their number.

    One matrix multiplies many vectors, whose names differ.
    """
    rows = [{str(k): c for k, c in enumerate(row) if c} for row in matrix]
    temporaries = _share_pairs(rows)
    _substitute(rows, temporaries, fused=fused)
    return temporaries, rows


def _share_pairs(rows: list[Sum]) -> list[tuple[str, Sum]]:
    """Replace pairs of terms that occur more than once (up to a factor) by new values."""
    temporaries: list[tuple[str, Sum]] = []
    while True:
        counts: dict[tuple[str, str, Fraction], int] = {}
        for row in rows:
            for a, b in combinations(row, 2):
                key = (a, b, row[b] / row[a])
                counts[key] = counts.get(key, 0) + 1
        repeated = [key for key, count in counts.items() if count > 1]
        if not repeated:
            return temporaries
        a, b, ratio = max(repeated, key=lambda key: counts[key])
        name = f"s{len(temporaries)}"
        users = [row for row in rows if a in row and b in row and row[b] / row[a] == ratio]
        scale = min(_scales(ratio), key=lambda s: sum(abs(row[a]) != abs(s) for row in users))
        if sum(row[a] / scale for row in users if abs(row[a]) == abs(scale)) < 0:
            scale = -scale  # as a leading term it had to be negated
        temporaries.append((name, {a: scale, b: ratio * scale}))
        for row in users:
            row[name] = row.pop(a) / scale
            del row[b]


def _scales(ratio: Fraction) -> tuple[Fraction, Fraction]:
    """The factors that make one of a pair's coefficients 1, that with whole numbers first."""
    scales = (Fraction(1), 1 / ratio)
    return scales if abs(ratio) >= 1 else scales[::-1]


def _substitute(rows: list[Sum], temporaries: Sequence[tuple[str, Sum]], *, fused: bool) -> None:
    """Subtract a value that exists from a row where that makes the row cheaper."""
    for row in rows:
        for name, terms in temporaries:
            for factor in sorted({row[k] / c for k, c in terms.items() if k in row}):
                rest = dict(row)
                for k, c in terms.items():
                    rest[k] = rest.get(k, Fraction(0)) - factor * c
                rest = {k: c for k, c in rest.items() if c} | {name: factor}
                if name not in row and _cost(rest, fused=fused) < _cost(row, fused=fused):
                    row.clear()
                    row.update(rest)


def _groups(row: Sum) -> list[tuple[Fraction, list[tuple[str, int]]]]:
    """The terms by magnitude of their coefficient, with signs.

    Within a group, a positive term comes first if there is one; likewise among the groups, where
    magnitude 1 comes first.
    """
    groups: dict[Fraction, list[tuple[str, int]]] = {}
    for name, c in row.items():
        groups.setdefault(abs(c), []).append((name, 1 if c > 0 else -1))
    for terms in groups.values():
        terms.sort(key=lambda term: -term[1])
    return sorted(groups.items(), key=lambda group: (-group[1][0][1], group[0] != 1))


def _cost(row: Sum, *, fused: bool) -> int:
    """Instructions that a row takes."""
    groups = _groups(row)
    magnitude, terms = groups[0]
    products = int(magnitude != 1 or terms[0][1] < 0)
    if not fused:
        products += sum(magnitude != 1 for magnitude, _ in groups[1:])
    return len(row) - 1 + products


def _assigns(
    name: str, row: Sum, w: Words, products: dict[tuple[str, Fraction], str], *, fused: bool
) -> Iterator[Assign]:
    """One value as a chain of instructions; `products` holds those that exist."""
    chain = ""
    groups = _groups(row)
    for number, (magnitude, terms) in enumerate(groups):
        last = number == len(groups) - 1
        total, sign = terms[0]
        bare = last and magnitude == 1 and sign > 0 and not chain
        for k, (term, its_sign) in enumerate(terms[1:]):
            into = name if bare and k == len(terms) - 2 else f"{name}_g{number}_{k}"
            word = "add" if its_sign == sign else "sub"
            yield Assign(into, getattr(w, word)(total, term), (total, term))
            total = into
        into = name if last else f"{name}_c{number}"
        factor = float(magnitude)
        if not chain and magnitude == 1 and sign > 0:
            if bare and total != name:
                yield Assign(name, total, (total,))
            chain = total
        elif not chain:
            yield Assign(into, w.mul(total, sign * factor), (total,))
            chain = into
        elif magnitude == 1:
            yield Assign(into, (w.add if sign > 0 else w.sub)(chain, total), (chain, total))
            chain = into
        elif fused:
            multiply_add = w.fma if sign > 0 else w.fnma
            yield Assign(into, multiply_add(total, factor, chain), (total, chain))
            chain = into
        else:
            product = products.get((total, magnitude))
            if product is None:
                product = products[total, magnitude] = f"{name}_m{number}"
                yield Assign(product, w.mul(total, factor), (total,))
            yield Assign(into, (w.add if sign > 0 else w.sub)(chain, product), (chain, product))
            chain = into


def order(assigns: Sequence[Assign], stores: Mapping[str, Sequence[str]], vec: str) -> list[str]:
    """The statements of a block: assignments that the stored values need, and their stores.

    `stores` maps values to the statements that consume them. The next value to be stored is the one
    that leaves the fewest values alive; operands are computed depth first, the larger one first.
    """
    expressions = {a.name: a.expression for a in assigns}
    lines: list[str] = []
    for target, steps in _sequence(tuple((a.name, a.uses) for a in assigns), tuple(stores)):
        lines += [f"const {vec} {step} = {expressions[step]};" for step in steps]
        lines += stores[target]
    return lines


#: The operands of each value.
_Uses = tuple[tuple[str, tuple[str, ...]], ...]


@lru_cache(REMEMBERED)
def _sequence(uses: _Uses, targets: tuple[str, ...]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """The targets in the order of their stores, each with the values computed just before."""
    block = _Block(dict(uses), targets)
    found = []
    left = list(targets)
    while left:
        target = min(left, key=block.rank)
        left.remove(target)
        found.append((target, tuple(block.take(target))))
    return tuple(found)


class _Block:
    """What is done of a block, and which values are alive."""

    def __init__(self, operands: dict[str, tuple[str, ...]], targets: Sequence[str]) -> None:
        self.operands = operands
        self.done: set[str] = set()
        self.uses = self._uses(targets)
        self.sizes: dict[str, int] = {}
        self.largest_first: dict[str, tuple[str, ...]] = {}

    def _uses(self, targets: Sequence[str]) -> dict[str, int]:
        """How often each needed value is read."""
        uses = dict.fromkeys(targets, 1)
        waiting = list(targets)
        seen = set(waiting)
        while waiting:
            for name in self.operands[waiting.pop()]:
                uses[name] = uses.get(name, 0) + 1
                if name not in seen:
                    seen.add(name)
                    waiting.append(name)
        return uses

    def size(self, name: str) -> int:
        """Values below a value, including itself (shared ones count each time)."""
        if name not in self.sizes:
            self.sizes[name] = 1 + sum(self.size(n) for n in self.operands[name])
        return self.sizes[name]

    def ordered(self, name: str) -> tuple[str, ...]:
        """The operands of a value, the larger ones first."""
        if name not in self.largest_first:
            operands = sorted(self.operands[name], key=lambda n: -self.size(n))
            self.largest_first[name] = tuple(operands)
        return self.largest_first[name]

    def missing(self, name: str) -> list[str]:
        """The values that a value still needs, in order, including itself."""
        found: list[str] = []
        self._add_missing(name, set(self.done), found)
        return found

    def _add_missing(self, name: str, done: set[str], found: list[str]) -> None:
        if name not in done:
            done.add(name)
            for operand in self.ordered(name):
                self._add_missing(operand, done, found)
            found.append(name)

    def _run(self, target: str, uses: dict[str, int]) -> tuple[int, int]:
        """(values alive after storing `target`, most alive before), relative to now."""
        alive = most = 0
        for step in self.missing(target):
            for name in self.operands[step]:
                uses[name] -= 1
                alive -= uses[name] == 0
            alive += 1
            most = max(most, alive)
        uses[target] -= 1
        return alive - (uses[target] == 0), most

    def rank(self, target: str) -> tuple[int, int]:
        """The lower the better: values that become alive, and most of them at once."""
        return self._run(target, dict(self.uses))

    def take(self, target: str) -> list[str]:
        """Compute everything that a value needs."""
        steps = self.missing(target)
        self._run(target, self.uses)
        self.done.update(steps)
        return steps
