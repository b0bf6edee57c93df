"""Cases for as long as you like: `python tests/fuzz/run.py --minutes 60 --jobs 2`.

Workers try case after case under limits of time and memory; one that dies is replaced. Each finding
becomes a folder with the files of the case, `report.txt`, and the command that tries it again:
`python tests/fuzz/run.py --replay FOLDER`.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import secrets
import shutil
import subprocess
import sys
import time
import traceback
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "generator")]

#: CPU seconds and bytes that one case may take.
SECONDS = 20
MEMORY = 2 * 2**30

#: Cases of one worker, which then makes room for a new one: caches grow.
CASES = 500


def work(folder: Path, first: int, count: int, kind: str, share: float) -> None:
    """Try cases by their seeds: a line of JSON for each on stdout, the current one in `folder`."""
    from fuzz.check import try_case, try_command
    from fuzz.making import make_case

    _limit_memory()
    for seed in range(first, first + count):
        random = Random(seed)
        place = folder / "case"
        shutil.rmtree(folder, ignore_errors=True)
        _limit_time()
        told: dict[str, Any] = {"seed": seed}
        try:
            case = make_case(random, kind)
            told["kind"] = case.origin.split(":")[0]
            case.write(folder / "made")
            outcome = try_case(case, place, run=random.random() < share)
            told["stage"] = outcome.stage
            if random.random() < 0.1:
                try_command(case, folder / "command")
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            told["stage"] = "finding"
            told["report"] = traceback.format_exc()
            if (folder / "made").is_dir():  # the next case begins before this one is read
                (folder / "made").rename(_kept(folder, seed))
        sys.stdout.write(json.dumps(told) + "\n")
        sys.stdout.flush()


def _limit_memory() -> None:
    """Address space of what the process has now, and MEMORY more."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    size = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (size, size))


def _limit_time() -> None:
    """The kernel ends the process SECONDS of CPU time from now."""
    limit = int(time.process_time()) + 1 + SECONDS
    resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.RLIM_INFINITY))


def _kept(folder: Path, seed: int) -> Path:
    """Where the case of a finding waits, next to the folder of the current one."""
    return folder.with_name(f"{folder.name}-{seed}")


@dataclass
class Campaign:
    """A run: `folder` receives the findings, each kind of them once."""

    folder: Path
    kind: str
    share: float
    counts: Counter[str] = field(default_factory=Counter)
    known: set[str] = field(default_factory=set)

    def start(self, work_folder: Path, seed: int) -> subprocess.Popen[str]:
        """A worker."""
        words = [sys.executable, __file__, "--worker", work_folder, "--seed", seed, "--share",
                 self.share, "--kind", self.kind]  # fmt: skip
        environment = {
            **os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1",
            "PYTHONFAULTHANDLER": "1", "XDG_CACHE_HOME": f"{work_folder}.cache",
        }  # fmt: skip
        errors = Path(f"{work_folder}.err").open("w")  # noqa: SIM115 - the worker's
        with errors:
            return subprocess.Popen(
                list(map(str, words)), stdout=subprocess.PIPE, stderr=errors, text=True,
                env=environment,
            )  # fmt: skip

    def take(self, line: str, work_folder: Path) -> int:
        """Count what a worker reports about a case; returns its seed."""
        told = json.loads(line)
        self.counts[told["stage"]] += 1
        self.counts[f"{told.get('kind', '?')} {told['stage']}"] += 1
        if told["stage"] == "finding":
            self.keep(told["seed"], told["report"], work_folder)
        return int(told["seed"])

    def keep(self, seed: int, report: str, work_folder: Path) -> None:
        """Save a finding, unless one like it is there."""
        key = _key(report)
        if key in self.known:
            return
        self.known.add(key)
        place = self.folder / f"{len(self.known):03d}-{seed}"
        for made in (_kept(work_folder, seed), work_folder / "made"):
            if made.is_dir():
                shutil.copytree(made, place, dirs_exist_ok=True)
                break
        place.mkdir(parents=True, exist_ok=True)
        command = f"python {Path(__file__).relative_to(ROOT)} --replay {place}"
        (place / "report.txt").write_text(f"seed {seed}\n{command}\n{report}")
        sys.stdout.write(f"{place}: {report.strip().splitlines()[-1][:200]}\n")
        sys.stdout.flush()

    def summary(self) -> str:
        """How many cases came how far."""
        stages = ("options", "import", "compile", "accepted", "run", "finding")
        total = sum(self.counts[s] for s in stages) or 1
        past = sum(self.counts[s] for s in ("compile", "accepted", "run", "finding"))
        taken = self.counts["accepted"] + self.counts["run"]
        each = ", ".join(f"{self.counts[s]} {s}" for s in stages)
        return (
            f"{total} cases: {each}; {past / total:.0%} past the import, {taken / total:.0%} "
            f"accepted; {len(self.known)} kinds of findings\n{sorted(self.counts.items())}"
        )


def _key(report: str) -> str:
    """Where it went wrong: file and line, and of findings the text without its numbers."""
    places = re.findall(r'File "([^"]+)", line (\d+)', report)
    last = report.strip().splitlines()[-1]
    if "Finding" in last:
        return re.sub(r"'[^']*'|[\d.]+(e[-+]?\d+)?", "#", last)[:160]
    return f"{places[-1] if places else last}"


def campaign(minutes: float, jobs: int, seed: int, run: Campaign) -> int:
    """Keep workers busy until the time is over; the exit code."""
    end = time.monotonic() + 60 * minutes
    with TemporaryDirectory(prefix="cannery-fuzz-") as temporary:
        folders = [Path(temporary) / f"work{k}" for k in range(jobs)]
        workers: dict[Path, tuple[subprocess.Popen[str], int]] = {}
        while time.monotonic() < end:
            for folder in folders:
                if folder not in workers:
                    workers[folder] = (run.start(folder, seed), seed)
                    seed += CASES
            _listen(run, workers, end)
        for process, _ in workers.values():
            process.kill()
            process.wait()
    sys.stdout.write(run.summary() + "\n")
    return int(bool(run.known))


def _listen(
    run: Campaign, workers: dict[Path, tuple[subprocess.Popen[str], int]], end: float
) -> None:
    """Read what the workers report, until one is done or has died."""
    import selectors

    with selectors.DefaultSelector() as selector:
        for folder, (process, _) in workers.items():
            assert process.stdout is not None
            selector.register(process.stdout, selectors.EVENT_READ, folder)
        while time.monotonic() < end:
            for key, _ in selector.select(timeout=1.0):
                folder = key.data
                process, at = workers[folder]
                assert process.stdout is not None
                line = process.stdout.readline()
                if line:
                    workers[folder] = (process, run.take(line, folder) + 1)
                    continue
                code = process.wait()
                del workers[folder]
                if code:
                    said = Path(f"{folder}.err").read_text()[-3000:]
                    run.counts["finding"] += 1
                    run.keep(at, f"{said}\nthe worker ended with {code}: {_why(code)}", folder)
                return


def _why(code: int) -> str:
    return {-24: f"more than {SECONDS} s", -11: "segmentation fault", -9: "killed"}.get(code, "?")


def replay(folder: Path) -> int:
    """Try a saved case again, with all that there is; the exit code."""
    from fuzz.cases import read_case
    from fuzz.check import try_case, try_command

    case = read_case(folder)
    with TemporaryDirectory() as temporary:
        outcome = try_case(case, Path(temporary) / "case", run=True)
        try_command(case, Path(temporary) / "command")
    sys.stdout.write(f"{case.origin} {dict(case.options)}\n{outcome.stage}: {outcome.message}\n")
    return 0


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seed", type=int, default=None, help="of the first case (default: any)")
    kinds = ("", "onnx", "node", "keras", "audio", "record", "tflite")
    parser.add_argument(
        "--kind",
        default="",
        choices=kinds,
        help="onnx, node, keras, audio, record or tflite (default: all)",
    )
    parser.add_argument("--share", type=float, default=0.3, help="part of networks that are run")
    parser.add_argument("--findings", type=Path, default=Path("fuzz-findings"))
    parser.add_argument("--replay", type=Path, help="a folder with a case")
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    a = parser.parse_args()
    if a.replay:
        return replay(a.replay)
    seed = secrets.randbelow(2**40) if a.seed is None else a.seed
    if a.worker:
        work(a.worker, seed, CASES, a.kind, a.share)
        return 0
    return campaign(a.minutes, a.jobs, seed, Campaign(a.findings, a.kind, a.share))


if __name__ == "__main__":
    sys.exit(main())
