"""Kernels whose code a change alters, run against the references; the others need no new test.

    python tests/mutations/changed_kernels.py DIGESTS --write    before the change
    python tests/mutations/changed_kernels.py DIGESTS FILE       after it

DIGESTS keeps one of each candidate that `test_kernels.py` may try. FILE is the changed module or
template: what does not use it is not looked at. Exit code 1 if any altered kernel fails, or cannot
be made; 2 if none is altered.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

if __name__ == "__main__":  # what pytest gets from pyproject.toml
    sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2] / "generator")]

from cannery.contents import array_digest
from cannery.measure.build import build
from cannery.measure.harness import Harness
from cannery.measure.measure import check
from cannery.schedule.schedule import all_schedules
from cannery.target.targets import find_target
from ops.kernel_bench import OPTIMIZED, QUICKLY, Attempt, Want, attempts, find

PACKAGE = Path(__file__).parents[2] / "generator" / "cannery"

TARGETS = ("generic", "avx2")

#: Candidates that are run at most, evenly chosen: they compile in some seconds.
MOST = 24


#: What names a module or a template of operators.
_USES = re.compile(r"^from cannery\.(ops[\w.]*) import ([\w, ]+)|(ops/[\w/]+\.c\.j2)", re.MULTILINE)

PLAIN = "scalar.nest"


def schedules_of(file: str) -> str:
    """The schedules that use a module or template, as a pattern; plain C if none seems to."""
    uses: dict[str, set[str]] = {}
    for path in (PACKAGE / "ops").rglob("*"):
        if path.suffix in (".py", ".j2"):
            found = uses.setdefault(path.relative_to(PACKAGE).as_posix(), set())
            for module, names, template in _USES.findall(path.read_text()):
                place = module.replace(".", "/")
                found |= {template, f"{place}.py", *(f"{place}/{n}.py" for n in names.split(", "))}
    users, new = set[str](), {file.removeprefix("generator/cannery/")}
    while new:
        users |= new
        new = {user for user, used in uses.items() if used & new} - users
    homes = {name: type(s).__module__.replace(".", "/") for name, s in all_schedules().items()}
    chosen = (n for n, home in homes.items() if f"{home.removeprefix('cannery/')}.py" in users)
    return ",".join(chosen) or PLAIN


def digest(attempt: Attempt) -> str:
    """What a kernel is made of, whatever its number is, and what it should compute."""
    candidate = attempt.candidate
    kernel = candidate.kernel
    text = kernel.code.replace(candidate.symbol, "trial")
    rest = replace(kernel, code="", constants=())
    whole = hashlib.sha256((text + repr(rest)).encode())
    data = candidate.trial.data
    for array in (*(c.values for c in kernel.constants), *data.inputs, *data.outputs):
        whole.update(array_digest(array))
    return whole.hexdigest()


def write(path: Path) -> None:
    """Keep the digests of all candidates."""
    known = {}
    for target in TARGETS:
        found, _ = attempts(find_target(target), Want(each=True))
        known[target] = {a.candidate.trial.label: digest(a) for a in found}
    path.write_text(json.dumps(known))


def altered(path: Path, schedules: str, target: str) -> tuple[list[Attempt], list[str]]:
    """Candidates that are not as they were, and those that cannot be made any more."""
    known = json.loads(path.read_text())[target]
    found, broken = attempts(find_target(target), Want(schedules=schedules, each=True))
    return [a for a in found if known.get(a.candidate.trial.label) != digest(a)], broken


def judge(found: Sequence[Attempt], target: str) -> list[str]:
    """What is wrong with some of these candidates."""
    toolchain, runner, _ = find(target)
    quick = () if target in OPTIMIZED else (QUICKLY,)
    toolchain = replace(toolchain, cflags=(*toolchain.cflags, "-std=c99", *quick))
    step = max(1, -(-len(found) // MOST))
    some = found[::step]
    with tempfile.TemporaryDirectory() as folder:
        harness = Harness(toolchain.target.isa, bands=True)
        built = build(Path(folder), harness, [a.candidate for a in some], toolchain, jobs=1)
        results = check(built, runner) if runner else {}
    judged = (
        a.judge(results.get(a.candidate.symbol), built.failed.get(a.candidate.symbol, ""))
        for a in some
    )
    return list(filter(None, judged))


def main(arguments: Sequence[str]) -> int:
    """The command."""
    path, what = arguments
    if what == "--write":
        write(Path(path))
        return 0
    count, schedules = 0, schedules_of(what)
    for target in TARGETS:
        found, broken = altered(Path(path), schedules, target)
        failures = broken or judge(found, target)
        count += len(found)
        if failures:
            print(f"{len(failures)} of {len(found)} altered kernels fail on {target}")
            print("\n".join(failures[:3]))
            return 1
    print(f"{count} altered kernels are right")
    return 0 if count else 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
