"""Processors as the cost model sees them: one table each, `machines/<name>.toml`.

Each figure states its source, a word that `[sources]` explains:

    latency = { value = 4.0, source = "manual" }

`python benchmarks/cost_model.py --fit` writes the table of the processor on which it runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import msgspec

from cannery.errors import CanneryError, OptionError, one_of

FOLDER = Path(__file__).with_name("machines")


class _Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A part of a file, or what is made from it."""


class Rates(_Table, frozen=True):
    """What a core does in one cycle with vectors of one width.

    `macs`: multiply-accumulates; `arithmetic`: vector instructions of any kind that calculate or
    shuffle. `latency` is the cycles from one term of a sum to the next. `unaligned`: how many
    aligned loads take as long as one at any address, in a loop over neighbouring ones. `copies`:
    instructions per multiply-accumulate that save values from being overwritten.
    """

    macs: float
    arithmetic: float
    loads: float
    stores: float
    latency: float
    copies: float = 0.0
    unaligned: float = 1.0


class Caches(_Table, frozen=True):
    """Bytes of the caches, and bytes per cycle that a core reads from beyond each of them.

    The first level has `l1_ways`; a miss takes `l2_latency` cycles unless it was prefetched. Data
    beyond `far_bytes` comes neither from the second level nor hidden by other work, at `far_rate`.
    """

    l1_bytes: float
    l1_ways: float
    l2_bytes: float
    l2_latency: float
    l2_rate: float
    l3_rate: float
    far_bytes: float
    far_rate: float


class Code(_Table, frozen=True):
    """Straight-line code: up to `hot_bytes` stay in the first-level cache.

    A core gets `fetched` bytes per cycle of code that was evicted since the last run, and `decoded`
    bytes per cycle of code that was not.
    """

    hot_bytes: float
    fetched: float
    decoded: float


class Loading(_Table, frozen=True):
    """How vectors that a register tile needs are loaded, by a processor that issues in order.

    Each takes `cycles` in addition to multiply-adds, and `least` cycles where there are few of
    these; an update of the tile waits for `waits`, and for `short` with each register that is
    missing to load early.
    """

    cycles: float
    least: float
    waits: float
    short: float = 0.0


class Machine(_Table, frozen=True):
    """A processor; the figures of its file's `[core]` are here.

    `issue`: instructions per cycle, in all. `window` is how many instructions it looks ahead, to
    work on what they need; 0: it runs in order. `registers` are its vector registers, 0: as many as
    its instruction set has. `chain_gap`: how much longer a chain of dependent sums takes than its
    latencies. `spill_latency` is how long a sum waits that was stored and is loaded again.
    `product_held`: cycles for which a product occupies its register until it was added, where
    registers are not renamed; 0: they are.
    `friction`: simultaneous work takes longer than its slowest kind alone, by this fraction of the
    second slowest. `loading` is by the order of a tile's instructions: "whole", or one of
    `cannery.ops.shared.dual`.
    """

    name: str
    title: str
    issue: float
    chain_gap: float
    spill_latency: float
    vectors: Annotated[dict[int, Rates], msgspec.Meta(min_length=1)]
    caches: Caches
    code: Code
    window: float = 0.0
    product_held: float = 0.0
    registers: float = 0.0
    friction: float = 0.0
    loading: dict[str, Loading] = {}

    def rates(self, lanes: int) -> Rates:
        """Those of the narrowest vectors in the table with at least this many lanes, or of the
        widest.
        """
        wide = [width for width in self.vectors if width >= lanes]
        return self.vectors[min(wide, default=max(self.vectors))]


class _Figure(_Table, frozen=True):
    value: Annotated[float, msgspec.Meta(gt=0.0)]
    source: str


class _File(_Table, frozen=True):
    title: str
    sources: dict[str, str]
    core: dict[str, Any]
    vectors: dict[str, dict[str, Any]]
    caches: dict[str, Any]
    code: dict[str, Any]
    loading: dict[str, dict[str, Any]] = {}


def parse_machine(text: str, name: str, where: str) -> Machine:
    """The machine that a table describes; raises CanneryError for a bad one."""
    try:
        file = msgspec.toml.decode(text, type=_File)
        core, caches, code = (
            _values(part, getattr(file, part), file.sources) for part in ("core", "caches", "code")
        )
        vectors = {
            _lanes(width): _values(f"vectors.{width}", row, file.sources)
            for width, row in file.vectors.items()
        }
        loading = {
            way: _values(f"loading.{way}", row, file.sources) for way, row in file.loading.items()
        }
        given = {"name": name, "title": file.title, "vectors": vectors, "loading": loading, **core}
        return msgspec.convert({**given, "caches": caches, "code": code}, Machine)
    except (msgspec.DecodeError, ValueError) as error:
        raise _bad(str(error), where) from None


def _bad(what: str, where: str) -> CanneryError:
    return CanneryError(f"not the table of a machine: {what}", where=where, cure="mend the table")


def _lanes(key: str) -> int:
    """The lanes of `f32x8`; raises ValueError."""
    head, _, lanes = key.partition("x")
    if head != "f32" or lanes not in ("1", "4", "8", "16"):
        raise ValueError(f"{key!r} is not one of f32x1, f32x4, f32x8, f32x16 - at `$.vectors`")
    return int(lanes)


def _values(
    section: str, figures: Mapping[str, Any], sources: Mapping[str, str]
) -> dict[str, float]:
    """The figures of a section without their sources; raises ValueError for a bad one."""
    found = {}
    for name, raw in figures.items():
        try:
            figure = msgspec.convert(raw, _Figure)
        except msgspec.ValidationError as error:
            raise ValueError(f"{section}.{name}: {error}") from None
        if figure.source not in sources:
            raise ValueError(f"{section}.{name}: [sources] does not explain {figure.source!r}")
        found[name] = figure.value
    return found


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
