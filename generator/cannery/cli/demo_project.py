"""The example project of `cannery demo`: copied, built by CMake, run."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cannery.errors import OptionError, ToolchainError
from cannery.options import Options, make_options
from cannery.resources import ball_example_dir, cmake_dir
from cannery.target.compiler import first_error

_TIMEOUT = 900.0

#: The options that the project's CMakeLists.txt gives to add_nn_model, for the command line.
OPTIONS = ("--input-dtype", "image=uint8", "--scale", "0.003921568627")

_IMAGE = re.compile(r"^(\S+\.pgm) +([0-9.]+) +([0-9.]+) +(\w+)( WRONG)?$", re.MULTILINE)
_TIME = re.compile(r"([0-9.e+-]+) us per image")


@dataclass(frozen=True)
class Classified:
    """What the program says about an image: the two probabilities, and the true label."""

    image: str
    no_ball: float
    ball: float
    label: str

    @property
    def right(self) -> bool:
        """Whether the label is the one with the higher probability."""
        return (self.ball > self.no_ball) == (self.label == "ball")


@dataclass(frozen=True)
class Outcome:
    """What the program prints: every image, and the time of one in microseconds."""

    images: tuple[Classified, ...]
    latency_us: float


def find_cmake() -> str:
    """The program, on PATH or beside Python; raises ToolchainError."""
    beside = Path(sys.executable).parent / "cmake"
    found = shutil.which("cmake") or (str(beside) if beside.exists() else "")
    if not found:
        raise ToolchainError("cmake not found", cure="apt install cmake, or pip install cmake")
    return found


def copy_project(folder: Path | None) -> Path:
    """Copy the example project into `folder` (None: a new temporary one); returns the folder.

    Raises OptionError if the folder is not empty: nothing of the user's is overwritten.
    """
    if folder is None:
        folder = Path(tempfile.mkdtemp(prefix="cannery-demo-"))
    elif folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise OptionError(f"{folder} is not an empty folder", where="--folder",
                          cure="name one that does not exist yet")  # fmt: skip
    ignored = shutil.ignore_patterns("__pycache__", "build", "*.tuning.json")
    shutil.copytree(ball_example_dir(), folder, dirs_exist_ok=True, ignore=ignored)
    return folder.resolve()


def demo_options(model: Path) -> Options:
    """OPTIONS, for this machine."""
    return make_options(model, {"input_dtype": [OPTIONS[1]], "scale": OPTIONS[3]})


def build_project(folder: Path, cmake: str, ninja: str) -> Path:
    """Configure and build the project for this machine; returns the program.

    Raises ToolchainError with the first error; build/log.txt has the whole output.
    """
    tree = folder / "build"
    tree.mkdir()
    configure = [
        cmake, "-S", str(folder), "-B", str(tree), "-G", "Ninja",
        f"-DCMAKE_MAKE_PROGRAM={ninja}", f"-DCannery_DIR={cmake_dir()}",
        f"-DCANNERY_PYTHON={sys.executable}", "-DCANNERY_TARGET=native",
    ]  # fmt: skip
    log = tree / "log.txt"
    for command in (configure, [cmake, "--build", str(tree)]):
        _run(command, log)
    return tree / "classify"


def _run(command: Sequence[str], log: Path) -> None:
    try:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
            text=True, errors="replace", timeout=_TIMEOUT, check=False,
        )  # fmt: skip
    except OSError as error:
        raise ToolchainError(f"cannot start: {error.strerror}", where=command[0]) from None
    except subprocess.TimeoutExpired:
        raise ToolchainError(f"it did not end within {_TIMEOUT:.0f} s", where=command[0]) from None
    with log.open("a") as stream:
        stream.write(done.stdout)
    if done.returncode != 0:
        raise ToolchainError(
            first_error(done.stdout) or f"failed with exit code {done.returncode}",
            where="cmake", cure=f"see {log}",
        )  # fmt: skip


def run_program(program: Path) -> Outcome:
    """Run the example program. Raises ToolchainError if it fails or prints something else."""
    try:
        done = subprocess.run(
            [program], capture_output=True, text=True, timeout=_TIMEOUT, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ToolchainError(f"cannot run: {error}", where=str(program)) from None
    images = tuple(
        Classified(name, float(no_ball), float(ball), label)
        for name, no_ball, ball, label, _ in _IMAGE.findall(done.stdout)
    )
    latency = _TIME.search(done.stdout)
    if not images or latency is None:
        detail = done.stderr.strip() or f"exit code {done.returncode}"
        raise ToolchainError(f"printed no result: {detail}", where=str(program))
    return Outcome(images, float(latency[1]))
