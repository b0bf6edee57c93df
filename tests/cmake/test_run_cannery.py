"""The script by which CMake runs Cannery, in a Python that has another one installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cannery import __version__
from tiny_models import write_tiny_model

SCRIPT = Path(__file__).parents[2] / "cmake" / "run_cannery.py"

#: What an editable installation does: its finder goes before every path.
FINDER = """
import sys
from importlib.machinery import PathFinder

class Finder:
    def find_spec(self, name, path=None, target=None):
        return PathFinder.find_spec(name, [{other!r}]) if name == "cannery" else None

sys.meta_path.insert(0, Finder())
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """That of a Python with another, broken, Cannery."""
    other = tmp_path / "other"
    (other / "cannery").mkdir(parents=True)
    (other / "cannery" / "__init__.py").write_text("raise RuntimeError('the other one')\n")
    (tmp_path / "sitecustomize.py").write_text(FINDER.format(other=str(other)))
    return {**os.environ, "PYTHONPATH": str(tmp_path)}


def run(environment: dict[str, str], *words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *words], env=environment, capture_output=True, text=True, check=False
    )


def test_the_checkout_goes_first(environment: dict[str, str]) -> None:
    other = run(environment, "-c", "import cannery")
    assert "the other one" in other.stderr
    probed = run(environment, SCRIPT, "--probe")
    assert (probed.stdout.strip(), probed.stderr) == (__version__, "")
    version = run(environment, SCRIPT, "--version")
    assert (version.returncode, __version__ in version.stdout) == (0, True)


def test_builds_read_no_project_file(tmp_path: Path) -> None:
    """What CMake calls: otherwise sources could have other names than it expects."""
    model = write_tiny_model(tmp_path / "ball.h5")
    (tmp_path / "cannery.toml").write_text('[model."ball.h5"]\nbatch = 3\n')
    for words, batch in (([SCRIPT], 1), (["-m", "cannery"], 3)):
        done = run(dict(os.environ), *words, "inspect", model, "--json")
        assert f'"float32[{batch}x8x8x1]"' in done.stdout, done.stderr


def test_a_package_runs_no_other_one(tmp_path: Path) -> None:
    """Outside a checkout the script serves the Cannery that it came with, and no other."""
    alone = tmp_path / "cannery" / "cmake" / SCRIPT.name
    alone.parent.mkdir(parents=True)
    shutil.copyfile(SCRIPT, alone)
    generator = SCRIPT.parents[1] / "generator"
    probed = run({**os.environ, "PYTHONPATH": str(generator)}, alone, "--probe")
    assert probed.returncode == 1
    assert probed.stderr.strip() == f"has another Cannery, in {generator / 'cannery'}"


def test_missing_packages_are_named(tmp_path: Path) -> None:
    """With the command that installs them; installed packages are not listed."""
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['h5py'] = None\n")
    probed = run({**os.environ, "PYTHONPATH": str(tmp_path)}, SCRIPT, "--probe")
    assert probed.returncode != 0
    assert "lacks h5py: " in probed.stderr
    assert probed.stderr.strip().endswith("-m pip install h5py")
