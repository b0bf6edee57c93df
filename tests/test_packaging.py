"""The wheel: pure, complete, and usable from where it is unpacked."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from cannery import __version__
from needs import missing

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel of this checkout, made without fetching anything."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", str(ROOT), "--no-deps", "--no-build-isolation"]
    done = subprocess.run(
        [*command, "-q", "-w", str(folder)], capture_output=True, text=True, check=False
    )
    if "scikit_build_core" in done.stderr and done.returncode:
        missing("scikit-build-core not found: pip install -e '.[dev]'")
    assert done.returncode == 0, done.stderr
    (found,) = folder.glob("*.whl")
    return found


def test_it_fits_every_machine(wheel: Path) -> None:
    assert wheel.name.endswith("-py3-none-any.whl")


def test_cmake_states_the_same_version() -> None:
    assert (
        f'PACKAGE_VERSION "{__version__}"'
        in (ROOT / "cmake/CanneryConfigVersion.cmake").read_text()
    )
    assert f"VERSION {__version__} " in (ROOT / "CMakeLists.txt").read_text()
    assert f"\nversion: {__version__}\n" in (ROOT / "CITATION.cff").read_text()
    assert f"\n## [{__version__}] - " in (ROOT / "CHANGELOG.md").read_text()
    page = (ROOT / "docs/how-to/install.md").read_text()
    assert set(re.findall(r"cannery-([\d.]+)-py3", page)) == {__version__}


def test_package_indexes_would_take_it(wheel: Path) -> None:
    """The text of the README renders, and nothing lies where it does not belong."""
    for command in (["twine", "check", "--strict"], ["check_wheel_contents"]):
        if importlib.util.find_spec(command[0]) is None:
            missing(f"{command[0]} not found: pip install -e '.[dev]'")
        words = [sys.executable, "-m", *command, str(wheel)]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_it_holds_all_that_the_checkout_holds(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    package = ROOT / "generator" / "cannery"
    expected = {f"cannery/{p.relative_to(package)}" for p in package.rglob("*.py")}
    expected |= {f"cannery/{p.relative_to(package)}" for p in package.rglob("*.j2")}
    expected |= {f"cannery/{p.relative_to(package)}" for p in package.rglob("*.toml")}
    for folder in ("cmake", "runtime", "toolchains"):
        files = (path for path in (ROOT / folder).rglob("*") if path.suffix not in ("", ".pyc"))
        expected |= {f"cannery/{path.relative_to(ROOT)}" for path in files}
    assert expected - names == set()


def test_its_data_is_found_where_it_is_unpacked(wheel: Path, tmp_path: Path) -> None:
    zipfile.ZipFile(wheel).extractall(tmp_path)
    # Without `site`, so that an editable installation of this checkout is not preferred.
    path = os.pathsep.join([str(tmp_path), sysconfig.get_path("purelib")])
    done = subprocess.run(
        [sys.executable, "-S", "-m", "cannery", "cmake-dir"],
        env={**os.environ, "PYTHONPATH": path}, cwd=tmp_path,
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert Path(done.stdout.strip()) == tmp_path / "cannery" / "cmake"


#: Files of the checkout that are not text.
BINARY = {".h5", ".hdf5", ".npz", ".pgm", ".onnx", ".keras", ".tflite", ".png", ".wav"}


def test_the_checkout_holds_sources_alone() -> None:
    """No program that an example or a test left behind, and no folder of whoever ran it."""
    git = shutil.which("git")
    if git is None or not (ROOT / ".git").exists():
        pytest.skip("no checkout")
    done = subprocess.run([git, "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if done.returncode:
        pytest.skip("git does not read this checkout")
    names = [Path(name) for name in done.stdout.decode().split("\0") if name]
    assert len(names) > 500
    for name in names:
        if name.suffix not in BINARY and (ROOT / name).is_file():
            text = (ROOT / name).read_bytes()
            assert b"\0" not in text, f"{name} is not text"
            assert str(ROOT).encode() not in text, f"{name} names this folder"
        assert not name.name.startswith(("conanbuild", "conanrun", "deactivate_")), name
