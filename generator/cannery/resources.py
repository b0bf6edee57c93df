"""Where Cannery's own data is: C headers, CMake modules, toolchain files, the demo project.

In an installed wheel they are in the package; in a checkout, two folders up.
"""

from __future__ import annotations

from pathlib import Path

from cannery.errors import CanneryError


def _data(name: str, proof: str) -> Path:
    package = Path(__file__).resolve().parent
    for folder in (package / name, package.parents[1] / name):
        if (folder / proof).is_file():
            return folder
    raise CanneryError(
        f"the folder {name!r} of Cannery is missing", where=str(package), cure="reinstall Cannery"
    )


def cmake_dir() -> Path:
    """The folder of CanneryConfig.cmake, for `-DCannery_DIR=`."""
    return _data("cmake", "CanneryConfig.cmake")


def runtime_include_dir() -> Path:
    """The folder that holds `cannery/cannery.h` and the vector headers."""
    return _data("runtime", "include/cannery/cannery.h") / "include"


def toolchains_dir() -> Path:
    """The folder of the CMake toolchain files."""
    return _data("toolchains", "mps2.ld")


def ball_example_dir() -> Path:
    """The example project that `cannery demo` copies: a ball classifier and images for it."""
    return _data("examples/ball", "ball.h5")
