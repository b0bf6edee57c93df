"""Breaks the code in many small ways, one at a time, and says which the nearest tests see.

    python tests/mutations/run.py [--only NAME ...] [--jobs N]

The changes are in `table_*.py`. Each is applied to a copy of the tree in a temporary folder, never
to the checkout; its tests run there with `-x`. First the tests have to pass without any change.
Takes some seconds to a minute per change. Exit code 0: all were seen, except those that the table
calls equivalent; 1: some were not; 2: the table is wrong, or tests fail without a change.
"""

from __future__ import annotations

import argparse
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import count
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from mutations.change import KERNELS, ROOT, Change, faults
from mutations.table import CHANGES

#: What a copy needs.
FOLDERS = ("generator", "tests", "runtime", "cmake", "toolchains", "examples", "benchmarks")

#: Seconds that the tests of one change may take; a change that makes them hang is seen.
LIMIT = 900.0

#: Makes Python prefer the copy to an editable installation, whose finder comes before all paths.
_SITE = """
import sys
sys.meta_path[:] = [f for f in sys.meta_path if "editable" not in type(f).__module__]
"""

#: The first failure is enough, without a small example of it.
PYTEST = ("-x", "-q", "--tb=line", "-p", "no:cacheprovider", "--hypothesis-profile=unshrunk")

#: Exit codes of pytest that count: all passed, some failed.
_PASSED, _FAILED = 0, 1

#: No two versions of a file may have one time, or Python takes old bytecode for the new one's.
_TIMES = count(int(time.time()), 2)


@dataclass(frozen=True)
class Outcome:
    """What came of a change: `verdict` is caught, unseen or broken; the last lines of pytest."""

    change: Change
    verdict: str
    seconds: float
    text: str


def copy_tree(target: Path) -> Path:
    """The files that the tests need, in a new folder."""
    for folder in FOLDERS:
        ignored = shutil.ignore_patterns(".venv*", "build", "__pycache__", ".hypothesis")
        shutil.copytree(ROOT / folder, target / folder, ignore=ignored)
    for path in ROOT.iterdir():
        if path.is_file():
            shutil.copy(path, target)
    (target / "site").mkdir()
    (target / "site" / "sitecustomize.py").write_text(_SITE)
    _, found = _run(target, [sys.executable, "-c", "import cannery; print(cannery.__file__)"])
    if not found.startswith(str(target)):
        raise SystemExit(f"the tests would import {found}, not the copy in {target}")
    return target


def run_tests(tree: Path, tests: Iterable[str]) -> tuple[int, str]:
    """Run tests until one fails: the exit code of pytest (-1: it took too long), its last words."""
    parts = [test for test in tests if test.startswith(f"{KERNELS}[")]
    whole = [test for test in tests if test not in parts]
    commands = [
        ["tests/mutations/kernels.py", *part.partition("[")[2][:-1].split()] for part in parts
    ]
    if whole:
        commands.insert(0, ["-m", "pytest", *PYTEST, *whole])
    text = ""
    for command in commands:
        code, text = _run(tree, [sys.executable, *command])
        if code != _PASSED:
            return code, text
    return _PASSED, text


def _run(tree: Path, command: Sequence[str]) -> tuple[int, str]:
    # What the tests start must be this tree, wherever Cannery is installed from.
    own = (str(tree / "site"), str(tree / "generator"))
    path = os.pathsep.join([*own, os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path}
    shutil.rmtree(tree / ".hypothesis", ignore_errors=True)
    try:
        done = subprocess.run(
            command, cwd=tree, env=environment, capture_output=True, text=True, timeout=LIMIT,
            check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return -1, f"it did not end within {LIMIT:.0f} s"
    lines = [line for line in done.stdout.splitlines() if line.strip()]
    return done.returncode, "\n".join(lines[-6:]) or done.stderr[-2000:]


def write(path: Path, text: str) -> None:
    """Write a file that no bytecode fits."""
    path.write_text(text)
    now = next(_TIMES)
    os.utime(path, (now, now))


def judge(tree: Path, change: Change) -> Outcome:
    """Apply a change to a tree, run its tests, take it back."""
    began = time.monotonic()
    path = tree / change.file
    original = path.read_text()
    write(path, change.applied(tree))
    try:
        code, text = run_tests(tree, change.tests)
    finally:
        write(path, original)
    # Below 0: it crashed, or took too long.
    verdict = "caught" if code < 0 else {_PASSED: "unseen", _FAILED: "caught"}.get(code, "broken")
    return Outcome(change, verdict, time.monotonic() - began, text)


def chosen(only: Sequence[str]) -> list[Change]:
    """The changes that are tried: all, or those whose names contain a word."""
    found = [c for c in CHANGES if not c.equivalent]
    return [c for c in found if any(word in c.name for word in only)] if only else found


def sound(tree: Path, changes: Sequence[Change]) -> bool:
    """Whether the tests pass as the tree is; says which do not."""
    tests = sorted({test for change in changes for test in change.tests})
    files = {test for test in tests if "::" not in test}
    tests = [test for test in tests if test in files or test.partition("::")[0] not in files]
    code, text = run_tests(tree, tests)
    if code != _PASSED:
        print(f"the tests fail without any change:\n{text}")
    return code == _PASSED


def report(outcomes: Sequence[Outcome]) -> int:
    """Print what was not seen, and how many were, by folder; returns the exit code."""
    for outcome in outcomes:
        if outcome.verdict != "caught":
            print(f"\n{outcome.verdict}: {outcome.change.name} ({outcome.change.file})")
            print(f"  {outcome.change.old!r}\n  -> {outcome.change.new!r}\n  {outcome.text}")
    total, caught = Counter[str](), Counter[str]()
    for outcome in outcomes:
        folder = str(Path(outcome.change.file.removeprefix("generator/cannery/")).parent)
        total[folder] += 1
        caught[folder] += outcome.verdict == "caught"
    print()
    for folder in sorted(total):
        print(f"{caught[folder]:4} of {total[folder]:3}  {folder}")
    equal = sum(1 for c in CHANGES if c.equivalent)
    count_all, count_caught = total.total(), caught.total()
    share = 100.0 * count_caught / max(count_all, 1)
    print(f"{count_caught:4} of {count_all:3}  caught ({share:.1f} %); {equal} are equivalent")
    return int(count_caught < count_all)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="*", default=[], help="parts of the names of changes")
    parser.add_argument("--jobs", type=int, default=2, help="changes that are tried at once")
    parser.add_argument(
        "--no-baseline", action="store_true", help="trust that the tests pass without a change"
    )
    given = parser.parse_args(arguments)
    wrong = list(faults(CHANGES))
    changes = chosen(given.only)
    if wrong or not changes:
        print("\n".join(wrong or ["no change is called so"]))
        return 2
    with tempfile.TemporaryDirectory(prefix="cannery-mutations-") as folder:
        trees: queue.Queue[Path] = queue.Queue()
        for number in range(max(given.jobs, 1)):
            trees.put(copy_tree(Path(folder) / str(number)))
        first = trees.get()
        if not given.no_baseline and not sound(first, changes):
            return 2
        trees.put(first)

        def one(change: Change) -> Outcome:
            tree = trees.get()
            try:
                outcome = judge(tree, change)
            finally:
                trees.put(tree)
            print(f"{outcome.verdict}  {outcome.seconds:6.1f} s  {change.name}", flush=True)
            return outcome

        with ThreadPoolExecutor(max(given.jobs, 1)) as pool:
            return report(list(pool.map(one, changes)))


if __name__ == "__main__":
    sys.exit(main())
