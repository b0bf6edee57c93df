"""C programs around one generated network: built with it in a folder that is gone afterwards."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from cannery.measure.build import build_error, ninja_file, run_ninja, write
from cannery.measure.identify import device_sources
from cannery.measure.measure import alone
from cannery.options import Options
from cannery.pipeline import Compiled
from cannery.target.toolchain import find_toolchain


def run_driver(
    driver: Path, macros: str, compiled: Compiled, options: Options, seconds: float
) -> dict[str, Any]:
    """The line of JSON that a program prints, given `seconds`; `macros` come before its text.

    Raises CanneryError.
    """
    toolchain = find_toolchain(options)
    (runner, *_) = toolchain.runners()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        text = macros.encode() + driver.read_bytes()
        write(folder, {**compiled.files, driver.name: text, **device_sources()})
        units = [file for file in compiled.files if file.endswith(".c")]
        failures = run_ninja(
            folder, ninja_file(toolchain, [*units, driver.name], executable=driver.stem)
        )
        if failures:
            raise build_error(failures, toolchain)
        with alone(runner):
            (line,) = runner.run(folder / driver.stem, [f"{seconds:g}"])
    return dict(line)
