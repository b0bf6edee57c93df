"""Cannery beside other runtimes on Intel's Atoms, by counts: none is needed, and none is measured.

    python benchmarks/atom.py [NET|MODEL...] [--core NAME]... [--rival NAME]... [--int8] [-o DIR]

As `arm.py`, on a processor that QEMU emulates without AVX; rivals are those installed here. For a
Bonnell, Cannery makes code of 32 bits with SSSE3, as old robots need; no rival has wheels for that,
so they get 64 bits and SSE4.2. Writes atom.md, atom.json and atom.svg in DIR.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from cannery.errors import CanneryError
from rivals.cores import ATOMS, HostPython
from rivals.emulated import (
    X86_RIVALS,
    CountedResult,
    as_counted_table,
    compete,
    stages,
    write_counted,
)

#: Robots' networks.
DEFAULT = ("ball", "pedestrian", "robot_detector", "segmenter")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Cannery beside other runtimes on Intel's Atoms, by counts."
    )
    parser.add_argument("models", nargs="*", default=DEFAULT, metavar="NET|MODEL")
    parser.add_argument("--core", action="append", choices=[*ATOMS], help="default: silvermont")
    parser.add_argument("--rival", action="append", choices=X86_RIVALS, help="only these")
    parser.add_argument("--int8", action="store_true", help="networks of int8, quantised by each")
    parser.add_argument("--tuning", type=Path, help="tuning record or folder of them")
    parser.add_argument("-o", "--output", type=Path, default=Path("atom"), metavar="DIR")
    given = parser.parse_args()
    given.core = given.core or ["silvermont"]
    return given


def _results(given: argparse.Namespace) -> Iterator[CountedResult]:
    """One after the other; raises CanneryError."""
    for stage in stages(given, ATOMS, HostPython(), "int8" if given.int8 else "float32"):
        yield from compete(stage, given.rival or X86_RIVALS)


def main() -> int:
    """Prints and writes the tables."""
    given = _arguments()
    try:
        found = write_counted(_results(given), given.output, "atom")
    except CanneryError as error:
        print(f"atom: error: {error}", file=sys.stderr)
        return 2
    print(as_counted_table(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
