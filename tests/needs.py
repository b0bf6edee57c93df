"""What a test needs from the machine: skipped with the reason, or failed under CANNERY_STRICT=1."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import NoReturn

import pytest

from cannery.errors import CanneryError
from cannery.target.runner import Runner, find_runner
from cannery.target.toolchain import Toolchain, toolchain_for

# cmake and ninja may be those of the environment, which need not be activated.
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])


def missing(reason: str) -> NoReturn:
    """Skip the test, or fail it where everything is meant to be installed."""
    if os.environ.get("CANNERY_STRICT") == "1":
        pytest.fail(reason)
    pytest.skip(reason)


def need_program(*names: str) -> str:
    """The path of the first program found."""
    for name in names:
        path = shutil.which(name)
        if path:
            return path
    missing(f"{' or '.join(names)} not found")


def need_toolchain(target: str) -> Toolchain:
    """The toolchain of a target."""
    try:
        return toolchain_for(target)
    except CanneryError as error:
        missing(str(error))


def need_runner(toolchain: Toolchain, *, strict: bool = False) -> Runner:
    """A way to run programs. No emulator knows AVX-512, so that lack is always a skip."""
    try:
        return find_runner(toolchain.target, strict=strict)
    except CanneryError as error:
        if not toolchain.target.emulator:
            pytest.skip(f"compiled, not run: {error}")
        missing(str(error))
