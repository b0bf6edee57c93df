"""What tests/same_bytes.py says of a checkout in which the kernels of one schedule are others."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).with_name("same_bytes.py")
ROOT = SCRIPT.parents[1]

#: A case that two schedules can compute, on one instruction set.
FEW = (
    "--targets", "sse2", "--cases", "conv_3x3_small_image",
    "--schedules", "conv.direct_[op][ce]*",
)  # fmt: skip

#: Kernels want memory.
CHANGE = """
_kernel = ConvDirectPeeled.kernel
ConvDirectPeeled.kernel = lambda self, job: __import__("dataclasses").replace(
    _kernel(self, job), scratch_bytes=123
)
"""


def changed_copy(folder: Path, change: str) -> Path:
    """A checkout like this one, where such lines end the module of `conv.direct_peeled`."""
    ignore = shutil.ignore_patterns("__pycache__", ".*")
    for name in ("generator", "tests", "runtime"):
        shutil.copytree(ROOT / name, folder / name, ignore=ignore)
    schedule = folder / "generator" / "cannery" / "ops" / "conv" / "direct_peeled.py"
    schedule.write_text(schedule.read_text() + change)
    return folder


def test_what_differs_is_listed_and_kept(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    command = [sys.executable, str(SCRIPT), str(changed_copy(tmp_path / "old", CHANGE)), *FEW]
    command += ["--jobs", "1", "--keep", str(kept)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    assert done.returncode == 1
    kernels, *listed, candidates, costs, networks = done.stdout.splitlines()
    assert kernels == f"kernel: {len(listed) + 2} compared, {len(listed)} not the same"
    assert listed
    for line in listed:
        assert line.startswith("  kernel sse2 conv_3x3_small_image/conv conv.direct_peeled{")
        assert line.endswith(" differs")
    assert candidates == "candidates: 2 compared, 0 not the same"
    assert costs == "costs: 2 compared, 0 not the same"
    assert networks == "network: 0 compared, 0 not the same"
    old, new = (sorted((kept / side).iterdir()) for side in ("old", "new"))
    assert [f.name for f in old] == [f.name for f in new]
    assert len(old) == len(listed)
    assert "('scratch_bytes', 123)" in old[0].read_text()
    assert "('scratch_bytes', 0)" in new[0].read_text()


def test_a_checkout_that_does_not_work_is_told(tmp_path: Path) -> None:
    old = changed_copy(tmp_path / "old", "oops = (")
    command = [sys.executable, str(SCRIPT), str(old), *FEW, "--jobs", "1"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.startswith(f"{old} on sse2:")
    assert "direct_peeled.py" in done.stderr
    assert done.stdout == ""


def test_a_folder_that_is_not_a_checkout_is_told(tmp_path: Path) -> None:
    command = [sys.executable, str(SCRIPT), str(tmp_path), *FEW, "--jobs", "1"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"{tmp_path} is not a checkout: it has no generator/cannery\n"
