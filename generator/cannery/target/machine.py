"""Processors as the cost model sees them: one table each, `machines/<name>.toml`.

A figure is written with where it comes from, a word that `[sources]` explains:

    latency = { value = 4.0, source = "manual" }

`python benchmarks/cost_model.py --fit` writes the table of the processor that it runs on.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import msgspec

from cannery.errors import CanneryError, OptionError, one_of

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FOLDER = Path(__file__).with_name("machines")

_Positive = Annotated[float, msgspec.Meta(gt=0.0)]


@dataclass(frozen=True)
class Rates:
    """What a core does in one cycle with vectors of one width.

    `macs`: multiply-accumulates; `arithmetic`: vector instructions that calculate or shuffle, of
    any kind; `issue`: instructions in all. `latency` are the cycles from one term of a sum to the
    next. `unaligned`: aligned loads that one at any address takes as long as, in a loop over
    neighbouring ones. `copies`: instructions per multiply-accumulate that save what it would
    overwrite.
    """

    macs: float
    arithmetic: float
    loads: float
    stores: float
    latency: float
    issue: float
    copies: float = 0.0
    unaligned: float = 1.0


@dataclass(frozen=True)
class Caches:
    """Bytes of the caches, and bytes per cycle that a core reads from beyond each of them.

    The first level has `l1_ways`; what it lacks takes `l2_latency` cycles where nobody foresaw it.
    `far_bytes` is what comes neither from the second level nor in the shade of other work, at
    `far_rate`.
    """

    l1_bytes: float
    l1_ways: float
    l2_bytes: float
    l2_latency: float
    l2_rate: float
    l3_rate: float
    far_bytes: float
    far_rate: float


@dataclass(frozen=True)
class Code:
    """Straight-line code: up to `hot_bytes` stay in the first-level cache.

    A core gets `fetched` bytes per cycle of what was displaced since the last run, and `decoded`
    bytes per cycle of what was not.
    """

    hot_bytes: float
    fetched: float
    decoded: float


@dataclass(frozen=True)
class Machine:
    """A processor.

    `window` is how many instructions it looks ahead: what they need is worked on meanwhile; a core
    that runs in order has none. `registers` are its vector registers, 0: as many as its
    instruction set says. `chain_gap`: how much longer a chain of dependent sums takes than its
    latencies. `spill_latency` is what a sum waits for when it was stored and is loaded again.
    """

    name: str
    title: str
    issue: float
    window: float
    registers: int
    chain_gap: float
    spill_latency: float
    vectors: Mapping[int, Rates]
    caches: Caches
    code: Code

    @property
    def in_order(self) -> bool:
        """Whether instructions wait for those before them."""
        return not self.window

    def rates(self, lanes: int) -> Rates:
        """Those of the narrowest vectors in the table that have so many lanes, or of the widest."""
        wide = [width for width in self.vectors if width >= lanes]
        return self.vectors[min(wide, default=max(self.vectors))]


class _Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A part of a file."""


class _Figure(_Table, frozen=True):
    value: _Positive
    source: str


class _Core(_Table, frozen=True):
    issue: _Figure
    chain_gap: _Figure
    spill_latency: _Figure
    window: _Figure | None = None
    registers: _Figure | None = None


class _Vectors(_Table, frozen=True):
    macs: _Figure
    arithmetic: _Figure
    loads: _Figure
    stores: _Figure
    latency: _Figure
    copies: _Figure | None = None
    unaligned: _Figure | None = None


class _Caches(_Table, frozen=True):
    l1_bytes: _Figure
    l1_ways: _Figure
    l2_bytes: _Figure
    l2_latency: _Figure
    l2_rate: _Figure
    l3_rate: _Figure
    far_bytes: _Figure
    far_rate: _Figure


class _Code(_Table, frozen=True):
    hot_bytes: _Figure
    fetched: _Figure
    decoded: _Figure


class _File(_Table, frozen=True):
    title: str
    sources: dict[str, str]
    core: _Core
    vectors: dict[str, _Vectors]
    caches: _Caches
    code: _Code


def parse_machine(text: str, name: str, where: str) -> Machine:
    """The machine that a table describes; raises CanneryError for a bad one."""
    try:
        raw = tomllib.loads(text)
        file = msgspec.convert(raw, _File)
        vectors = {_lanes(key): row for key, row in file.vectors.items()}
    except (tomllib.TOMLDecodeError, msgspec.ValidationError, ValueError) as error:
        raise _bad(str(error), where) from None
    if not vectors:
        raise _bad("it has no [vectors.f32xN]", where)
    for path, source in _sources(raw):
        if source not in file.sources:
            known = f"[sources] does not explain {source!r}, the source of {path}"
            raise _bad(known, where)
    core = _values(file.core)
    return Machine(
        name, file.title, core["issue"], core.get("window", 0.0), int(core.get("registers", 0)),
        core["chain_gap"], core["spill_latency"],
        {
            lanes: Rates(issue=core["issue"], **_values(row))
            for lanes, row in sorted(vectors.items())
        },
        Caches(**_values(file.caches)), Code(**_values(file.code)),
    )  # fmt: skip


def _bad(what: str, where: str) -> CanneryError:
    return CanneryError(f"not the table of a machine: {what}", where=where, cure="mend the table")


def _lanes(key: str) -> int:
    """The lanes of `f32x8`; raises ValueError."""
    head, _, lanes = key.partition("x")
    if head != "f32" or lanes not in ("1", "4", "8", "16"):
        raise ValueError(f"{key!r} is not one of f32x1, f32x4, f32x8, f32x16 - at `$.vectors`")
    return int(lanes)


def _values(table: _Table) -> dict[str, float]:
    """The figures of a table without their sources; those that are not given are left out."""
    found = ((name, getattr(table, name)) for name in table.__struct_fields__)
    return {name: figure.value for name, figure in found if figure is not None}


def _sources(raw: Mapping[str, Any], path: str = "") -> list[tuple[str, str]]:
    """(path of a figure, its source) for all of them."""
    if "source" in raw:
        return [(path, str(raw["source"]))]
    tables = ((key, value) for key, value in raw.items() if isinstance(value, dict))
    return [
        each
        for key, value in tables
        if key != "sources"
        for each in _sources(value, f"{path}.{key}" if path else key)
    ]


def machine_names() -> list[str]:
    """Every machine that has a table."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


@cache
def find_machine(name: str) -> Machine:
    """The machine called `name`; raises CanneryError if its table is missing or bad."""
    path = FOLDER / f"{name}.toml"
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        what = f"there is no table of a machine {name!r}"
        raise OptionError(what, where=str(FOLDER), cure=one_of(name, machine_names())) from None
    except (OSError, UnicodeDecodeError) as error:
        raise _bad(str(error), str(path)) from None
    return parse_machine(text, name, str(path))
