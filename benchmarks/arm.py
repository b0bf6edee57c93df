"""Cannery beside other runtimes on Arm, by counts: no board is needed, and none is measured.

    python benchmarks/arm.py [NET|MODEL...] [--core NAME]... [--rival NAME]... [--int8 | --half]
        [-o DIR]

Everything runs under QEMU as on the core: Cannery's program, and the rivals' own wheels for AArch64
in an unpacked Python, told that they are on that core. Outputs are checked; instructions of a call
are counted, exactly; a model of the core's pipeline gives them cycles, without caches. `--int8`
quantises the networks, for Cannery by its own means, for rivals by theirs, from the same samples.
With `--half` all compute in half precision, on cores that can.
Writes arm.md, arm.json and arm.svg in DIR.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from cannery.errors import CanneryError
from rivals.arm64 import unpack
from rivals.cores import CORES
from rivals.emulated import (
    ALL_RIVALS,
    HALF_RIVAL_NAMES,
    WHOLE_RIVALS,
    CountedResult,
    as_counted_table,
    compete,
    stages,
    write_counted,
)

#: Robots' networks, and kinds of layers that they lack.
DEFAULT = (
    "ball",
    "pedestrian",
    "robot_detector",
    "segmenter",
    "mobilenetv2",
    "blstm",
    "walking_policy",
)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Cannery beside other runtimes on Arm, by counts.")
    parser.add_argument("models", nargs="*", default=DEFAULT, metavar="NET|MODEL")
    parser.add_argument(
        "--core", action="append", choices=[*CORES],
        help="default: cortex-a53; with --half cortex-a76",
    )  # fmt: skip
    parser.add_argument("--rival", action="append", choices=ALL_RIVALS, help="only these")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--int8", action="store_true", help="networks of int8, quantised by each")
    form.add_argument("--half", action="store_true", help="all in half precision")
    parser.add_argument("--tuning", type=Path, help="tuning record or folder of them")
    parser.add_argument(
        "--rivals-in", type=Path, metavar="DIR",
        default=Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "cannery-arm64",
        help="where the Python for AArch64 and the rivals are unpacked (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument("-o", "--output", type=Path, default=Path("arm"), metavar="DIR")
    given = parser.parse_args()
    able = HALF_RIVAL_NAMES if given.half else WHOLE_RIVALS
    given.rival = given.rival or able
    given.core = given.core or ["cortex-a76" if given.half else "cortex-a53"]
    if other := {*given.rival} - {*able}:
        how = "in half precision" if given.half else "without --half"
        parser.error(f"not {how}: {', '.join(sorted(other))}; there are {', '.join(able)}")
    return given


def _results(given: argparse.Namespace) -> Iterator[CountedResult]:
    """One after the other; raises CanneryError."""
    arm = unpack(given.rivals_in, [ALL_RIVALS[name].package for name in given.rival])
    precision = "int8" if given.int8 else "float16" if given.half else "float32"
    for stage in stages(given, CORES, arm, precision):
        yield from compete(stage, given.rival)


def main() -> int:
    """Prints and writes the tables."""
    given = _arguments()
    try:
        found = write_counted(_results(given), given.output, "arm")
    except CanneryError as error:
        print(f"arm: error: {error}", file=sys.stderr)
        return 2
    print(as_counted_table(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
