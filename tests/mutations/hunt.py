"""Tries many mistakes that a machine makes, and says which ones no test sees.

    python tests/mutations/hunt.py 200 [--seed S] [--under FOLDER ...] [--jobs J] [--reach FOLDER]

As many mistakes from each folder, always the same ones for a seed. A mistake first meets the quick
tests that reach its line; if they pass, in operators, the kernels whose code it alters and what is
legal; then more tests that are known to reach it or its folder, and the checks of names and types.
What survives is printed as a diff: either it does not matter, or a test is missing. FOLDER of
`--reach` keeps which tests reach which lines; if it is not there, it is made, by the quick tests
(two minutes). Others are known, too, if they ran with `-p mutations.reach` and that FOLDER in
CANNERY_REACH. Seconds to two minutes for each.
"""

from __future__ import annotations

import argparse
import difflib
import json
import os
import queue
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from mutations.change import ROOT
from mutations.generated import Mutant, sample
from mutations.reach import FOLDER, Reach, inner_lines, statement_lines
from mutations.run import PYTEST, copy_tree, write
from mutations.server import Server
from quick import is_quick

#: Seconds of recorded time, and number of tests, that one mistake meets at most.
NEAR, WIDE, MOST = 6.0, 30.0, 40

#: Digests of kernels, in the same folder.
KERNELS = "kernels.json"

#: What judges the functions of plain C.
SCALAR = ("tests/ops/kernel_bench.py", "generic", "--schedules", "scalar.nest")

#: Tests that start programs, by the beginning of the path of what they are near.
OTHERS = (
    ("generator/cannery/ops/elementwise", "tests/ops/test_elementwise_c.py"),
    (
        "generator/cannery/ops/",
        "tests/ops/test_legal.py tests/ops/test_units.py tests/ops/test_ways.py",
    ),
    ("generator/cannery/emit/parallel", "tests/emit/test_parallel.py"),
    ("generator/cannery/api", "tests/api"),
    ("generator/cannery/tuning", "tests/tuning"),
    ("generator/cannery/choose", "tests/choose"),
    ("generator/cannery/cli", "tests/cli"),
    ("runtime/include/cannery/ctc.h", "tests/runtime/test_ctc.py"),
    ("runtime/include/cannery/p", "tests/emit/test_parallel.py"),
    ("runtime/include/cannery/scalar", "tests/ops/test_elementwise_c.py"),
    ("runtime/include/cannery/cannery.h", "tests/emit/test_interface.py"),
    ("runtime", "tests/runtime"),
    ("cmake", "tests/cmake"),
    ("generator/cannery/emit", "tests/emit"),
    ("generator/cannery/measure", "tests/measure"),
    ("generator/cannery/analysis", "tests/analysis tests/execution"),
    ("generator/cannery/execution", "tests/execution"),
)


@dataclass(frozen=True)
class Fate:
    """What became of a mistake: who saw it, or nobody ('')."""

    mutant: Mutant
    seen_by: str
    seconds: float


class Hunter:
    """Judges mistakes in copies of the tree."""

    def __init__(self, reach: Reach, kernels: Path) -> None:
        self.reach, self.kernels = reach, kernels
        self.servers: dict[Path, Server] = {}

    def run(self, tree: Path, tests: Sequence[str]) -> int:
        """The exit code of pytest; the first failure is enough."""
        if tree not in self.servers:
            self.servers[tree] = Server(tree, _environment(tree))
        return self.servers[tree].run([*PYTEST, *tests])

    def judge(self, tree: Path, mutant: Mutant) -> Fate:
        """Make a mistake, run tests until one fails, take it back."""
        began = time.monotonic()
        path = tree / mutant.file
        original = path.read_text()
        write(path, mutant.edit.applied(original))
        try:
            seen_by = next(self._failures(tree, mutant, original), "")
        finally:
            write(path, original)
        return Fate(mutant, seen_by, time.monotonic() - began)

    def _failures(self, tree: Path, mutant: Mutant, original: str) -> Iterator[str]:
        near, wide = self.choose(mutant, original)
        if near and self.run(tree, near):
            yield "quick tests"
        if mutant.file.startswith("generator/cannery/ops/"):
            digests = str(self.kernels)
            if _fails(tree, "tests/mutations/changed_kernels.py", digests, mutant.file):
                yield "kernels"
        if "scalar_math" in mutant.file and _fails(tree, *SCALAR):
            yield "kernels"
        if wide and self.run(tree, wide):
            yield "other tests"
        typed = mutant.file.startswith("generator/") and mutant.file.endswith(".py")
        if typed and _fails(tree, "-m", "ruff", "check", "-q", "--select", "F", mutant.file):
            yield "names"
        if typed and _fails(tree, "-m", "mypy", mutant.file):
            yield "types"

    def choose(self, mutant: Mutant, original: str) -> tuple[list[str], list[str]]:
        """The quick tests for a mistake, and the others."""
        found = [tests for start, tests in OTHERS if mutant.file.startswith(start)]
        others = found[0].split() if found else []
        if not mutant.file.endswith(".py") or mutant.file.startswith("cmake"):
            return [], others
        tests = self.reach.tests(mutant.file, statement_lines(original, mutant.edit.line))
        inner = self.reach.tests(mutant.file, inner_lines(original, mutant.edit.line))
        if mutant.edit.kind == "condition" and mutant.edit.new == "True":
            inner = tests - inner  # those that the condition stops see that it does not
        quick = {test for test in tests if is_quick(ROOT / test.partition("::")[0])}
        near = self._first(mutant, quick, inner, NEAR)
        wide = self._first(mutant, tests - {*near}, inner, WIDE)
        return near, wide + others

    def _first(self, mutant: Mutant, tests: set[str], inner: set[str], limit: float) -> list[str]:
        """Some of each function: what gets past a condition, is called alike, is in its folder."""
        folder = mutant.folder.split("/")[0]
        stem = Path(mutant.file).stem
        seconds = {test: self.reach.seconds.get(test, 1.0) for test in tests}
        cases = Counter[str]()
        turn: dict[str, int] = {}
        for test in sorted(tests, key=lambda test: (test not in inner, seconds[test])):
            function = test.partition("[")[0]
            turn[test] = cases[function] // 2
            cases[function] += 1

        def order(test: str) -> tuple[int, bool, bool, bool, float]:
            away = (test not in inner, stem not in test, f"tests/{folder}" not in test)
            return (turn[test], *away, seconds[test])

        chosen: list[str] = []
        for test in sorted(tests, key=order):
            limit -= seconds[test]
            if chosen and (limit < 0 or len(chosen) == MOST):
                break
            chosen.append(test)
        return chosen


def _fails(tree: Path, *command: str) -> bool:
    """Whether a command ends with 1."""
    done = subprocess.run(
        [sys.executable, *command], cwd=tree, env=_environment(tree), capture_output=True,
        check=False,
    )  # fmt: skip
    return done.returncode == 1


def _environment(tree: Path) -> dict[str, str]:
    path = os.pathsep.join([str(tree / "site"), str(tree / "generator"), str(tree / "tests")])
    return {**os.environ, "PYTHONPATH": path}


def prepare(tree: Path, reach: Path) -> None:
    """Find out which quick tests reach which lines, and what kernels look like, if not known."""
    if not reach.is_dir():
        reach.mkdir(parents=True)
        quick = ("-m", "pytest", "-p", "mutations.reach", "-m", "quick", "-q", "-n", "2", "tests")
        _start(tree, quick, {FOLDER: str(reach)})
    if not (reach / KERNELS).exists():
        command = ("tests/mutations/changed_kernels.py", str(reach / KERNELS), "--write")
        _start(tree, command, {})


def _start(tree: Path, command: Sequence[str], more: Mapping[str, str]) -> None:
    environment = {**_environment(tree), **more}
    subprocess.run([sys.executable, *command], cwd=tree, env=environment, check=True)


def diff(mutant: Mutant) -> str:
    """What a mistake changes."""
    before = (ROOT / mutant.file).read_text()
    lines = (before.splitlines(), mutant.edit.applied(before).splitlines())
    found = difflib.unified_diff(*lines, n=0, lineterm="")
    return "\n".join(line for line in found if not line.startswith(("---", "+++", "@@")))


def compiles(mutant: Mutant) -> bool:
    """Whether a mistake leaves Python that can be read."""
    text = mutant.edit.applied((ROOT / mutant.file).read_text())
    try:
        return not mutant.file.endswith(".py") or bool(compile(text, mutant.file, "exec"))
    except (SyntaxError, ValueError):
        return False


def hunt(mutants: Sequence[Mutant], jobs: int, known: Path | None, log: Path | None) -> list[Fate]:
    """Try mistakes, some at once; `known` is where to keep which tests reach which lines."""
    with tempfile.TemporaryDirectory(prefix="cannery-hunt-") as folder:
        trees: queue.Queue[Path] = queue.Queue()
        for number in range(jobs):
            trees.put(copy_tree(Path(folder) / str(number)))
        reach = (known or Path(folder) / "reach").resolve()
        prepare(trees.queue[0], reach)
        hunter = Hunter(Reach(reach), reach / KERNELS)

        def one(mutant: Mutant) -> Fate:
            tree = trees.get()
            try:
                fate = hunter.judge(tree, mutant)
            finally:
                trees.put(tree)
            show(fate, log)
            return fate

        with ThreadPoolExecutor(jobs) as pool:
            return list(pool.map(one, mutants))


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("number", type=int, help="mistakes")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--under", nargs="*", default=[""], help="folders, or beginnings of paths")
    parser.add_argument("--jobs", type=int, default=2, help="mistakes that are tried at once")
    parser.add_argument("--reach", type=Path, help="keeps which tests reach which lines")
    parser.add_argument("--log", type=Path, help="a file for one line of JSON each")
    given = parser.parse_args(arguments)
    mutants = list(filter(compiles, sample(given.number, given.seed, given.under)))
    return report(hunt(mutants, max(given.jobs, 1), given.reach, given.log))


def show(fate: Fate, log: Path | None) -> None:
    """One line for a mistake, and a diff of one that nobody saw."""
    mutant = fate.mutant
    place = f"{mutant.file}:{mutant.edit.line}"
    who = f"{fate.seen_by or 'UNSEEN':12} {fate.seconds:6.1f} s"
    print(f"{who}  {place} {mutant.edit.kind}", flush=True)
    if not fate.seen_by:
        print(diff(mutant), flush=True)
    if log:
        row = {"place": place, "folder": mutant.folder, **asdict(mutant.edit),
               "seen": fate.seen_by, "seconds": fate.seconds, "diff": diff(mutant)}  # fmt: skip
        with log.open("a") as file:
            file.write(json.dumps(row) + "\n")


def report(fates: Sequence[Fate]) -> int:
    """How many were seen, by folder; 1 if some were not."""
    total = Counter(fate.mutant.folder for fate in fates)
    seen = Counter(fate.mutant.folder for fate in fates if fate.seen_by)
    for folder in sorted(total):
        print(f"{seen[folder]:4} of {total[folder]:3}  {folder}")
    print(f"{seen.total():4} of {total.total():3}  seen")
    return int(seen.total() < total.total())


if __name__ == "__main__":
    sys.exit(main())
