"""A part of the kernel tests: what `test_kernels.py` tries of some schedules, on some targets.

    python tests/mutations/kernels.py 'conv.*' generic avx2

Exit code 1 if any candidate fails, 2 if there is none, 3 if nothing can be built or run.
`ops/kernel_bench.py` tries more.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

if __name__ == "__main__":  # what pytest gets from pyproject.toml
    sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2] / "generator")]

from cannery.errors import CanneryError
from ops.kernel_bench import Want, run


def main(schedules: str, targets: list[str]) -> int:
    """The command."""
    count = 0
    for target in targets:
        try:
            with tempfile.TemporaryDirectory() as folder:
                report = run(target, Want(schedules=schedules), Path(folder))
        except CanneryError as error:
            print(error)
            return 3
        count += report.count
        if report.failures:
            print(f"{len(report.failures)} of {report.count} fail on {target}")
            print("\n".join(report.failures[:5]))
            return 1
    print(f"{count} candidates of {schedules} are right")
    return 0 if count else 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
