"""Cannery beside the runtimes from the Python package index, on this machine.

    python benchmarks/compare.py [NET|MODEL...] [-o DIR]

NET is one of benchmarks/networks.py (default: the four small ones), MODEL a model file. All run
interleaved, see benchmarks/README.md. Writes DIR/compare.md, DIR/compare.json and DIR/compare.svg.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from cannery.errors import CanneryError
from networks import NETWORKS, write_network
from rivals.contest import Settings, compare
from rivals.report import as_json, as_markdown
from rivals.results import Contest
from rivals.runtimes import RIVALS

SMALL = ("ball", "pedestrian", "robot_detector", "segmenter")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Cannery beside other runtimes.")
    parser.add_argument("models", nargs="*", metavar="NET|MODEL", default=SMALL)
    parser.add_argument("--rival", action="append", choices=[*RIVALS], help="only these")
    parser.add_argument("--isa", action="append", help="of Cannery; several take part")
    parser.add_argument("--cc", action="append", help="compiler for Cannery; several take part")
    parser.add_argument("--tuning", type=Path, help="tuning record or folder of them")
    parser.add_argument("--threads", type=int, default=1, help="of the rivals")
    parser.add_argument("--cpu", type=int, help="run everything on this processor")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--seconds", type=float, default=60.0, help="of timing per network")
    parser.add_argument("-o", "--output", type=Path, default=Path("compare"), metavar="DIR")
    return parser.parse_args()


def main() -> int:
    """Prints and writes the tables."""
    given = _arguments()
    if given.cpu is not None:
        os.sched_setaffinity(0, {given.cpu})
    settings = Settings(
        tuple(given.rival or RIVALS), tuple(given.isa or ()), tuple(given.cc or ()), given.tuning,
        given.threads, given.rounds, given.seconds,
    )  # fmt: skip
    found: list[Contest] = []
    given.output.mkdir(parents=True, exist_ok=True)
    for name in given.models:
        with tempfile.TemporaryDirectory(prefix="cannery-compare-") as folder:
            try:
                model = Path(name)
                if name in NETWORKS:
                    model = write_network(name, Path(folder))
                found.append(compare(model, settings, Path(folder) / "work"))
            except CanneryError as error:
                print(f"compare: error: {error}", file=sys.stderr)
                return 2
        print(as_markdown(found[-1:]))
        (given.output / "compare.md").write_text(as_markdown(found))
        (given.output / "compare.json").write_text(as_json(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
