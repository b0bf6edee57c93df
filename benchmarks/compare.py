"""Compares Cannery with runtimes from the Python package index, on this machine.

    python benchmarks/compare.py [NET|MODEL...] [-o DIR] [--layers]

NET is one of benchmarks/networks.py (default: the four small ones), MODEL a model file. All run
interleaved, see benchmarks/README.md. Writes compare.md, compare.json and compare.svg in DIR. With
--layers, every kind of layer becomes a separate network.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from cannery.errors import CanneryError
from networks import NETWORKS, write_network
from rivals.contest import Match, Noops, Settings, compare, compare_all
from rivals.layers import write_layers
from rivals.limits import LIMITS
from rivals.lines import BLSTM, compare_lines
from rivals.packages import RIVALS
from rivals.plot import as_svg
from rivals.products import MARLIN, as_products, compare_products
from rivals.report import as_absent, as_json, as_markdown, as_summary
from rivals.results import Contest
from rivals.seeds import SEEDS, as_seed

SMALL = ("ball", "pedestrian", "robot_detector", "segmenter")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Cannery beside other runtimes.")
    parser.add_argument("models", nargs="*", metavar="NET|MODEL")
    parser.add_argument(
        "--seed", choices=[*SEEDS, MARLIN, BLSTM], help="the networks and figures of a seed"
    )
    parser.add_argument("--layers", action="store_true", help="every kind of layer by itself")
    parser.add_argument("--rival", action="append", choices=[*RIVALS], help="only these")
    parser.add_argument("--isa", action="append", help="of Cannery, or native; several take part")
    parser.add_argument("--cc", action="append", help="compiler for Cannery; several take part")
    parser.add_argument("--tuning", type=Path, help="tuning record or folder of them")
    parser.add_argument("--autotune", action="store_true", help="tune first (default: if known)")
    parser.add_argument(
        "--limit", default="", choices=LIMITS, help="what rivals see of it (x86-64 Linux)"
    )
    parser.add_argument(
        "--threads", type=int, action="append", help="of all; several take part (default: 1)"
    )
    parser.add_argument("--cpu", type=int, action="append", help="time on these processors alone")
    parser.add_argument("--lock", type=Path, help="file to lock while timing, as others do")
    parser.add_argument(
        "--together", type=int, default=1, help="networks to prepare before they are timed"
    )
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--seconds", type=float, default=60.0, help="of timing per network")
    parser.add_argument("-o", "--output", type=Path, default=Path("compare"), metavar="DIR")
    given = parser.parse_args()
    if given.seed in (MARLIN, BLSTM):
        if given.models or given.layers or given.limit or given.rival or given.threads:
            parser.error(f"--seed {given.seed} has its own networks and rivals, limits and threads")
    elif given.seed:
        given.models = given.models or SEEDS[given.seed].networks
        given.isa, given.limit = given.isa or ["ssse3"], given.limit or "sse"
    given.models = given.models or SMALL
    return given


def _settings(given: argparse.Namespace, records: Path | None) -> Settings:
    return Settings(
        tuple(given.rival or RIVALS), tuple(given.isa or ()), tuple(given.cc or ()), records,
        given.autotune, ("model",), tuple(given.threads or (1,)),
        given.limit, given.rounds, given.seconds, tuple(given.cpu or ()), given.lock,
    )  # fmt: skip


def _contests(given: argparse.Namespace, folder: Path) -> Iterator[Contest]:
    """One after the other; raises CanneryError."""
    records = given.tuning
    if given.autotune and records is None:
        records = given.output / "records"
        records.mkdir(exist_ok=True)
    settings = _settings(given, records)
    if given.seed == MARLIN:
        yield from compare_products(settings, folder)
        return
    with ExitStack() as stack:
        noops = Noops(folder / "noop", settings, stack)
        waiting: list[Match] = []
        for name in given.models:
            own = folder / Path(name).stem
            model = write_network(name, own) if name in NETWORKS else Path(name)
            if not given.layers:
                waiting.append(Match(model, own / "work", model.suffix == ".onnx"))
                if len(waiting) == given.together or name == given.models[-1]:
                    yield from compare_all(waiting, settings, noops)
                    waiting.clear()
                continue
            for layer in write_layers(model, own / "layers"):
                both = replace(settings, orders=("nhwc", "nchw"))
                found = compare(layer.file, both, own / layer.file.stem, noops, as_given=False)
                title = f"{model.stem}: {layer.name}" + f" x{layer.count}" * (layer.count > 1)
                yield replace(found, network=title)


def _tables(found: list[Contest], seed: str | None) -> list[str]:
    """What is said of all networks together."""
    if seed == MARLIN:
        return [as_products(found), as_absent(found)]
    beside = [as_seed(found, SEEDS[seed])] if seed else []
    return [*beside, as_summary(found), as_absent(found)]


def main() -> int:
    """Prints and writes the tables."""
    given = _arguments()
    found: list[Contest] = []
    given.output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="cannery-compare-") as folder:
        if given.seed == BLSTM:
            table = compare_lines(_settings(given, None), Path(folder))
            (given.output / "compare.md").write_text(table)
            print(table)
            return 0
        try:
            for contest in _contests(given, Path(folder)):
                found.append(contest)
                print(as_markdown([contest]), flush=True)
                tables = "\n".join((*_tables(found, given.seed), as_markdown(found)))
                (given.output / "compare.md").write_text(tables)
                (given.output / "compare.json").write_text(as_json(found))
                (given.output / "compare.svg").write_text(as_svg(found))
        except CanneryError as error:
            print(f"compare: error: {error}", file=sys.stderr)
            return 2
    print(*_tables(found, given.seed), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
