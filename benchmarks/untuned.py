"""What the cost model loses: networks that were never tuned against the same ones tuned.

    python benchmarks/untuned.py [NET|MODEL...] [--isa ISA]... [--records DIR] [--budget S]

NET is one of benchmarks/networks.py (default: those of benchmarks/held_out.py, none of which the
cost model was fitted to).
Each is tuned first unless DIR has its record, then both forms are timed in turn. Prints how many
times longer the untuned form takes, and for each instruction set the median and the worst.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cannery.errors import CanneryError
from cannery.options import Options, make_options
from cannery.tuning.outcome import Settings
from cannery.tuning.tuner import tune, usable_record
from held_out import HELD_OUT
from isas import isa_words
from networks import NETWORKS, write_network
from turns import in_turn, make_form

#: Seconds of one sample of a form.
SECONDS = 0.03


@dataclass(frozen=True)
class Times:
    """Microseconds of a network, tuned and untuned."""

    network: str
    isa: str
    tuned_us: float
    untuned_us: float

    @property
    def ratio(self) -> float:
        """How many times longer the untuned form takes."""
        return self.untuned_us / self.tuned_us


def options_of(model: Path, isa: str, records: Path) -> Options:
    """The options of a form; without records in that folder it is untuned."""
    return make_options(model, {"isa": isa_words(isa), "tuning": str(records), "name": "net"})


def compare(model: Path, isa: str, given: argparse.Namespace, empty: Path) -> Times:
    """Both forms of a network, which is tuned first if it has to be."""
    tuned = options_of(model, isa, given.records)
    if usable_record(tuned, None) is None:
        tune(tuned, Settings(budget=given.budget, exhaustive=False))
    with ExitStack() as stack:
        forms = [make_form(o, stack) for o in (tuned, options_of(model, isa, empty))]
        us = in_turn(forms, given.rounds, SECONDS)
        return Times(model.stem, isa, *(float(np.median(each)) for each in us))


def rows(given: argparse.Namespace, folder: Path) -> Iterator[Times]:
    """The times of each network and instruction set."""
    empty = folder / "none"
    empty.mkdir()
    given.records = given.records or folder / "records"
    given.records.mkdir(parents=True, exist_ok=True)
    for name in given.models:
        model = write_network(name, folder) if name in NETWORKS else Path(name)
        for isa in given.isa or ["ssse3", "avx2", "avx512"]:
            yield compare(model, isa, given, empty)


def summary(found: Sequence[Times]) -> list[str]:
    """The median and the worst of each instruction set."""
    lines = []
    for isa in dict.fromkeys(times.isa for times in found):
        ratios = [times.ratio for times in found if times.isa == isa]
        lines.append(f"{isa}: median {np.median(ratios):.2f}, worst {max(ratios):.2f}")
    return lines


def main() -> int:
    """Prints a line for each network and instruction set, then the summary."""
    parser = argparse.ArgumentParser(description="Untuned against tuned networks.")
    parser.add_argument("models", nargs="*", default=[*HELD_OUT], metavar="NET|MODEL")
    parser.add_argument("--isa", action="append", metavar="NAME")
    parser.add_argument("--records", type=Path, metavar="DIR", help="where tuning records are kept")
    parser.add_argument("--budget", type=float, default=60.0, help="seconds of tuning a network")
    parser.add_argument("--rounds", type=int, default=21)
    given = parser.parse_args()
    found: list[Times] = []
    print(f"{'network':18} {'isa':10} {'tuned us':>10} {'untuned us':>10} ratio")
    with tempfile.TemporaryDirectory(prefix="cannery-untuned-") as folder:
        try:
            for times in rows(given, Path(folder)):
                found.append(times)
                print(
                    f"{times.network:18} {times.isa:10} {times.tuned_us:10.2f} "
                    f"{times.untuned_us:10.2f} {times.ratio:5.2f}",
                    flush=True,
                )
        except CanneryError as error:
            print(f"untuned: error: {error}", file=sys.stderr)
            return 2
    print(*summary(found), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
