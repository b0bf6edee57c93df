"""How generated code makes the columns that nodes compare, and how it compares them.

Integers that are ordered as the floats (`ordered`) compare without a floating-point unit, and treat
NaN as greater than all, so that its answer is no. Floats are compared as they are; if nodes ask for
nothing but features, the sample itself holds the columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from cannery.ctext.literals import c_float
from cannery.ops.trees.forest import Column, Forest
from cannery.schedule.schedule import ConstArray

#: What integers compare for a column that is 0 or 1, and for its threshold.
_MEMBER_KEYS, _MEMBER_THRESHOLD = ("0u", "2u"), 1

#: NaN as an integer, when the answer is no and when it is yes.
_NAN_NO, _NAN_YES = "0xffffffffu", "0u"


def ordered(values: NDArray[np.float32], *, strict: bool = False) -> NDArray[np.uint32]:
    """Integers in the order of floats. Of thresholds t, so that x < t is key(x) <= key if `strict`.

    The two zeros are one number: as a threshold for <= the greater one, for < one less than both.
    """
    zero = np.float32(-0.0) if strict else np.float32(0.0)
    bits = np.where(values == 0, zero, values).astype(np.float32).view(np.uint32)
    negative = (bits >> np.uint32(31)).astype(bool)
    keys = np.where(negative, ~bits, bits | np.uint32(1 << 31))
    return keys - np.uint32(1) if strict else keys


@dataclass(frozen=True)
class Columns:
    """The columns of a forest in C: integers, or floats. `symbol` begins the names of constants.

    `spare`: there is one more column, which answers yes whatever the threshold.
    """

    forest: Forest
    integers: bool
    symbol: str
    spare: bool = False

    @property
    def type(self) -> str:
        """The C type of a column."""
        return "uint32_t" if self.integers else "float"

    @cached_property
    def direct(self) -> bool:
        """Whether the sample itself holds the columns."""
        plain = bool((self.forest.columns[:, 1] == Column.VALUE).all())
        return not self.integers and not self.spare and plain

    @property
    def count(self) -> int:
        """Columns in memory, apart from the sample."""
        return 0 if self.direct else len(self.forest.columns) + self.spare

    @property
    def spare_column(self) -> int:
        """The number of the spare column."""
        return len(self.forest.columns)

    @cached_property
    def numbers(self) -> NDArray[np.int64]:
        """The place of each column in the array that nodes index."""
        features = self.forest.columns[:, 0].astype(np.int64)
        return features if self.direct else np.arange(len(features))

    @cached_property
    def thresholds(self) -> NDArray[np.generic]:
        """Those of the nodes, as `no` compares them."""
        given = self.forest.thresholds
        if not self.integers:
            return given
        kinds = self.forest.columns[self.forest.links[:, 0], 1] if len(given) else given
        members = kinds >= int(Column.MEMBER)
        keys = ordered(given, strict=self.forest.strict)
        return np.where(members, np.uint32(_MEMBER_THRESHOLD), keys)

    def no(self, column: str, threshold: str) -> str:
        """The C expression of the answer no."""
        if self.integers:
            return f"{column} > {threshold}"
        return f"!({column} {'<' if self.forest.strict else '<='} {threshold})"

    def literal(self, node: int) -> str:
        """The threshold of a node as a C literal."""
        value = self.thresholds[node]
        return f"0x{int(value):x}u" if self.integers else c_float(float(value))

    @cached_property
    def helper(self) -> str:
        """The C function that makes integers from floats; empty if there is none."""
        if not self.integers:
            return ""
        return (
            f"/* An integer in the order of floats; `nan` for NaN. */\n"
            f"CANNERY_INLINE uint32_t {self.symbol}_key(float x, uint32_t nan)\n{{\n"
            "    uint32_t bits;\n    memcpy(&bits, &x, sizeof bits);\n"
            "    if ((bits & 0x7fffffffu) > 0x7f800000u) {\n        return nan;\n    }\n"
            "    return (bits & 0x80000000u) != 0u ? ~bits : bits | 0x80000000u;\n}\n\n"
        )

    @cached_property
    def constants(self) -> tuple[ConstArray, ...]:
        """What the statements read."""
        found = []
        for kind, start, end in [] if self.direct else self._runs:
            features = self.forest.columns[start:end, 0]
            if not Column(kind).is_member and _step(features) is None:
                name = f"{self.symbol}_features{kind}"
                found.append(ConstArray(name, smallest(features), "features of columns"))
        if self.forest.values.size:
            found.append(ConstArray(f"{self.symbol}_sets", self.forest.values, "sets of values"))
        return tuple(found)

    @cached_property
    def _runs(self) -> list[tuple[int, int, int]]:
        """Kind, first column, and end of the columns of each kind."""
        kinds = self.forest.columns[:, 1]
        bounds = [(int(k), np.flatnonzero(kinds == k)) for k in np.unique(kinds)]
        return [(k, int(at[0]), int(at[-1]) + 1) for k, at in bounds]

    def statements(self) -> list[str]:
        """C that makes the columns `k` from the sample `xr`."""
        lines: list[str] = []
        for kind, start, end in [] if self.direct else self._runs:
            if Column(kind).is_member:
                for column in range(start, end):
                    lines += self._member(column)
            else:
                lines += self._values(Column(kind), start, end)
        if self.spare:
            least = "0u" if self.integers else c_float(-np.inf)
            lines.append(f"k[{self.spare_column}] = {least};")
        return lines

    def _values(self, kind: Column, start: int, end: int) -> list[str]:
        """A loop over columns that hold features."""
        features = self.forest.columns[start:end, 0]
        first = _step(features)
        feature = f"{self.symbol}_features{int(kind)}[j]" if first is None else _sum("j", first)
        value = self._value(f"xr[{feature}]", kind)
        head = f"for (int j = 0; j < {end - start}; ++j) {{"
        return [head, f"    k[{_sum('j', start)}] = {value};", "}"]

    def _value(self, x: str, kind: Column) -> str:
        if self.integers:
            return f"{self.symbol}_key({x}, {_NAN_YES if kind.nan_is_yes else _NAN_NO})"
        return f"{x} == {x} ? {x} : {c_float(-np.inf)}" if kind.nan_is_yes else x

    def _member(self, column: int) -> list[str]:
        """A column that says whether a feature is in a set."""
        feature, kind, start, end = (int(v) for v in self.forest.columns[column])
        yes, no = _MEMBER_KEYS if self.integers else ("0.0f", "1.0f")
        x = f"xr[{feature}]"
        begin = f"{x} != {x}" if Column(kind).nan_is_yes else "0"
        lines = ["{", f"    int inside = {begin};"]
        if end > start:
            lines += [
                f"    for (int j = {start}; j < {end}; ++j) {{",
                f"        inside |= {x} == {self.symbol}_sets[j];",
                "    }",
            ]
        return [*lines, f"    k[{column}] = inside ? {yes} : {no};", "}"]


def _step(features: NDArray[np.int32]) -> int | None:
    """The first of features that follow one another; None if they do not."""
    first = int(features[0])
    return first if (features == np.arange(first, first + len(features))).all() else None


def _sum(name: str, number: int) -> str:
    return f"{name} + {number}" if number else name


def smallest(values: NDArray[np.generic]) -> NDArray[np.generic]:
    """Numbers >= 0 in the smallest unsigned type that holds them."""
    most = int(values.max(initial=0))
    kind = np.uint8 if most < 2**8 else np.uint16 if most < 2**16 else np.uint32
    return np.asarray(values, kind)
