"""Tells whether two checkouts generate the same code, over all cases and networks of the tests.

    python tests/same_bytes.py OLD [NEW] [--schedules 'conv.*'] [--all] [--keep DIR]

NEW is this checkout if it is not given. Of every case, on every instruction set, it compares the
kernels that `test_kernels.py` tries (with `--all` every candidate in every placing), which
candidates there are, and what the cost model thinks of them; then all files of the networks of
tests/nets and of the models next to a checkout. Each checkout brings its own cases and networks:
what one alone has, as models where the other stands elsewhere, `is new` or `is gone`. `--keep`
writes both texts of whatever differs into a folder, for `diff -r`. Exit code 0: the same bytes; 1:
not; 2: a checkout does not work.
"""

from __future__ import annotations

import argparse
import fnmatch
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.util import find_spec
from itertools import count, product
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cannery.ir.graph import Graph
    from cannery.measure.trial import Placing
    from cannery.schedule.program import Step
    from cannery.schedule.schedule import Kernel, Params, Schedule
    from cannery.target.isa import Isa
    from ops.kernel_bench import Chooser

ROOT = Path(__file__).resolve().parents[1]

#: What is compared, in the order of the report.
KINDS = ("kernel", "candidates", "costs", "network")

#: Kernels of each schedule for each step, at least.
LEAST = 1

#: Differences of each kind that are listed.
LISTED = 20


class BrokenError(Exception):
    """A checkout that generates nothing, and what it says."""


#: Name -> what is compared: a text, or its digest.
Found = dict[str, str]


def _is_view() -> Callable[[Schedule], bool]:
    """The function of the checkout; before version 0.2 its package had another name."""
    package = "tuning" if find_spec("cannery.tuning") else "tune"
    found: Callable[[Schedule], bool] = import_module(f"cannery.{package}.contests").is_view
    return found


@dataclass(frozen=True)
class Share:
    """What one process looks at: of a target's things every `of`-th, from number `first` on.

    `schedules` and `cases` are patterns; `everything`: as `--all`.
    """

    target: str
    first: int
    of: int
    schedules: str = "*"
    cases: str = "*"
    everything: bool = False

    def arguments(self) -> list[str]:
        """The arguments for its process."""
        return ["--share", json.dumps(vars(self))]

    def texts(self) -> Iterator[tuple[str, str]]:
        """(name, text) of everything."""
        from cannery.target.targets import find_target

        isa = find_target(self.target).isa
        yield from self._kernels(isa)
        if self.schedules == "*":
            yield from self._networks(isa)

    def _mine(self, number: int) -> bool:
        return number % self.of == self.first

    def _kernels(self, isa: Isa) -> Iterator[tuple[str, str]]:
        from cannery.lowering.lower import chains, cut
        from cannery.schedule.schedule import all_schedules
        from ops.cases import all_cases
        from ops.kernel_bench import Chooser

        is_view = _is_view()
        chooser, number = Chooser(everything=self.everything), count()
        ids = fnmatch.filter(all_schedules(), self.schedules)
        schedules = [s for s in map(all_schedules().__getitem__, ids) if not is_view(s)]
        for case in all_cases():
            if not fnmatch.fnmatch(case.name, self.cases):
                continue
            with case.caches():
                graph = case.make()
                steps = cut(graph)
                for step in (*steps, *chains(graph, steps)):
                    for schedule in schedules:
                        if not schedule.why_not(graph, step, isa):
                            asked = Asked(self.target, case.name, graph, step, isa, schedule)
                            yield from asked.texts(chooser, mine=self._mine(next(number)))

    def _networks(self, isa: Isa) -> Iterator[tuple[str, str]]:
        from cannery.emit.files import output_files
        from nets.compilation import graph_of, models
        from nets.net_bench import make_net_source
        from nets.test_nets import SEEDS
        from ops.kernel_bench import TARGETS

        seeds = SEEDS if self.everything else SEEDS[TARGETS.index(self.target) % 3 :: 3]
        names = fnmatch.filter([*(f"random_{k}" for k in seeds), *models()], self.cases)
        for number, name in enumerate(names):
            if self._mine(number):
                source = replace(make_net_source(graph_of(name), isa, "net"), version="any")
                for path, content in output_files(source, "same bytes").items():
                    text = content.decode(errors="replace")
                    yield f"network {self.target} {name}/{path}", f"{digest(content)}\n{text}"


@dataclass(frozen=True)
class Asked:
    """A schedule, and the step of a case that it is to compute."""

    target: str
    case: str
    graph: Graph
    step: Step
    isa: Isa
    schedule: Schedule

    def texts(self, chooser: Chooser, *, mine: bool) -> Iterator[tuple[str, str]]:
        """Its candidates, costs and some kernels. Choosing is the same whether it is `mine`."""
        candidates = self.schedule.candidates(self.graph, self.step, self.isa)
        chosen = chooser.pick(self.schedule, candidates, LEAST)
        if mine:
            yield from self._choices(candidates)
            for params, placing in chosen:
                yield from self._kernel(params, placing)

    def _choices(self, candidates: Sequence[Params]) -> Iterator[tuple[str, str]]:
        name = f"{self.target} {self.case}/{self.step.name} {self.schedule.id}"
        labels = [self.schedule.label(params) for params in candidates]
        yield f"candidates {name}", "\n".join(labels)
        costs = (self.schedule.cost(self.graph, self.step, p, self.isa) for p in candidates)
        pairs = zip(labels, costs, strict=True)
        yield f"costs {name}", "\n".join(f"{label}: {cost}" for label, cost in pairs)

    def _kernel(self, params: Params, placing: Placing) -> Iterator[tuple[str, str]]:
        """The kernel, where values can be placed so, or else placed plainly."""
        from cannery.measure.trial import Data, Placing, make_trial

        for place in dict.fromkeys((placing, Placing.PLAIN)):
            trial = make_trial(
                self.graph, self.step, self.schedule, params, self.isa, Data((), ()), placing=place
            )
            if trial:
                label = f"{self.case}/{self.step.name} {self.schedule.label(params)}"
                kernel = self.schedule.kernel(trial.job("trial"))
                yield f"kernel {self.target} {label} [{place.value}]", kernel_text(kernel)
                return


def kernel_text(kernel: Kernel) -> str:
    """The code of a kernel, digests of its constants, and what else it says."""
    from cannery.ctext.tidy import tidy

    arrays = [
        f"{c.name} {c.values.dtype} {c.values.shape} {c.comment}: {digest(c.values.tobytes())}"
        for c in kernel.constants
    ]
    flags = {k: v for k, v in vars(kernel).items() if k not in ("code", "constants")}
    flags["needs_table"] = kernel.needs_table
    return "\n".join([tidy(kernel.code), *arrays, str(sorted(flags.items()))])


def digest(content: bytes) -> str:
    """Of any bytes, short enough for a line."""
    return hashlib.sha256(content).hexdigest()[:16]


def look(checkout: Path, shares: Sequence[Share], jobs: int, wanted: Path | None = None) -> Found:
    """The digests of all that a checkout generates, or the texts whose names the file has."""
    more = ["--wanted", str(wanted)] if wanted else []
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}

    def run(share: Share) -> str:
        command = [sys.executable, __file__, str(checkout), *share.arguments(), *more]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        if done.returncode:
            raise BrokenError(f"{checkout} on {share.target}:\n{done.stderr}")
        return done.stdout

    with ThreadPoolExecutor(jobs) as pool:
        try:
            lines = "".join(pool.map(run, shares)).splitlines()
        except BrokenError:
            pool.shutdown(cancel_futures=True)
            raise
    return dict(map(json.loads, lines))


def tell(share: Share, wanted: Path | None) -> None:
    """Prints what `look` reads: a JSON line for each text of a share, or for each wanted one."""
    names = set(json.loads(wanted.read_text())) if wanted else set()
    for name, text in share.texts():
        if not wanted:
            print(json.dumps([name, digest(text.encode())]))
        elif name in names:
            print(json.dumps([name, text]))


def differences(old: Found, new: Found) -> Found:
    """Name -> what is the matter with it."""
    found = {name: "differs" for name in old if name in new and old[name] != new[name]}
    found |= dict.fromkeys(old.keys() - new.keys(), "is gone")
    return found | dict.fromkeys(new.keys() - old.keys(), "is new")


def report(old: Found, wrong: Found) -> None:
    """One line for each kind, and the first differences."""
    total, bad = (Counter(name.split()[0] for name in names) for names in (old, wrong))
    for kind in KINDS:
        print(f"{kind}: {total[kind]} compared, {bad[kind]} not the same")
        names = sorted(name for name in wrong if name.startswith(f"{kind} "))
        for name in names[:LISTED]:
            print(f"  {name} {wrong[name]}")
        if len(names) > LISTED:
            print(f"  ... {len(names) - LISTED} more")


def keep_texts(folder: Path, texts: Found) -> None:
    """A file for each text."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (folder / name.replace("/", "_").replace(" ", "_")[:200]).write_text(text)


def prefer(checkout: Path) -> None:
    """Makes Python take package and tests of a checkout, whatever is installed."""
    sys.meta_path[:] = [f for f in sys.meta_path if "editable" not in type(f).__module__]
    sys.path[:0] = [str(checkout / folder) for folder in ("generator", "tests", ".")]


def arguments() -> argparse.Namespace:
    """Of the command line; `--share` and `--wanted` are what `look` gives its processes."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path, nargs="?", default=ROOT)
    parser.add_argument("--targets", default="", help="names with commas between; else all")
    parser.add_argument("--cases", default="*", help="pattern of the names of cases and networks")
    parser.add_argument("--schedules", default="*", help="pattern of ids; then without networks")
    parser.add_argument("--all", action="store_true", help="every candidate in every placing")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--keep", type=Path, metavar="DIR", help="folder for what differs")
    parser.add_argument("--share", default="", help=argparse.SUPPRESS)
    parser.add_argument("--wanted", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


def check_checkout(folder: Path) -> None:
    """Else an installed Cannery would be compared with itself. Raises BrokenError."""
    for package in ("generator/cannery", "tests/ops"):
        if not (folder / package).is_dir():
            raise BrokenError(f"{folder} is not a checkout: it has no {package}")


def main() -> int:
    """The command line."""
    given = arguments()
    prefer(given.old.resolve() if given.share else given.new.resolve())
    if given.share:
        tell(Share(**json.loads(given.share)), given.wanted)
        return 0
    from ops.kernel_bench import TARGETS

    targets = given.targets.split(",") if given.targets else TARGETS
    each = -(-given.jobs // len(targets))
    shares = [
        Share(target, k, each, given.schedules, given.cases, given.all)
        for target, k in product(targets, range(each))
    ]
    sides = {"old": given.old.resolve(), "new": given.new.resolve()}
    try:
        for side in sides.values():
            check_checkout(side)
        old, new = (look(side, shares, given.jobs) for side in sides.values())
    except BrokenError as error:
        print(error, file=sys.stderr)
        return 2
    wrong = differences(old, new)
    report(old, wrong)
    if given.keep and wrong:
        with tempfile.TemporaryDirectory() as temporary:
            wanted = Path(temporary) / "wanted.json"
            wanted.write_text(json.dumps(list(wrong)))
            for name, side in sides.items():
                keep_texts(given.keep / name, look(side, shares, given.jobs, wanted))
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
