"""The forms of the reader: float and reduced, each built as a project of its own, and run."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tables import PIECES, write_record_of_tables

FOLDER = Path(__file__).parent

#: Columns of the longest line.
LONGEST = 732


@dataclass(frozen=True)
class Form:
    """A row of the table: a name, what add_nn_model gets besides, and how many pieces tables of
    sigmoid and tanh have, if the float network is to take them from tables.
    """

    name: str
    options: tuple[str, ...] = ()
    pieces: int = 0


def quantised(dtype: str) -> Form:
    """Integers; tables of sigmoid and tanh belong to that."""
    calibration = ("CALIBRATION", str(FOLDER / "calibration.npz"))
    return Form(f"{dtype}, tables", ("QUANTIZE", dtype, *calibration, "MAX_LOSS", "0.5"))


def tabled(pieces: int) -> Form:
    """Floats, with sigmoid and tanh from tables."""
    return Form("float32, tables", ("MAX_ERROR", "0.001"), pieces)


FORMS = (
    Form("float32"),
    tabled(PIECES),
    quantised("int16"),
    quantised("int8"),
)


@dataclass(frozen=True)
class Rate:
    """Lines per second, and joules per line, which are negative if unknown."""

    lines: float
    joules: float


#: By the number of threads.
Rates = dict[int, Rate]


def run(*command: str | Path) -> str:
    """The standard output of a command; ends the program with its messages if it fails."""
    done = subprocess.run(
        list(map(str, command)), text=True, capture_output=True, encoding="utf-8", check=False
    )
    if done.returncode:
        sys.exit(f"{shlex.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


def build(form: Form, folder: Path, target: str) -> None:
    """Configure and build the example for a row."""
    options = list(form.options)
    if form.pieces:
        record = folder.with_suffix(".record")
        record.mkdir()
        write_record_of_tables(FOLDER / "ocr.onnx", record, target, LONGEST, form.pieces)
        options += ["TUNING", str(record)]
    cannery = run(sys.executable, "-m", "cannery", "cmake-dir").strip()
    run(
        "cmake", "-S", FOLDER, "-B", folder, f"-DCannery_DIR={cannery}",
        "-DCMAKE_BUILD_TYPE=Release", f"-DCANNERY_PYTHON={sys.executable}",
        f"-DCANNERY_TARGET={target}",
        f"-DOCR_LONGEST={LONGEST}", f"-DOCR_OPTIONS={';'.join(options)}",
    )  # fmt: skip
    run("cmake", "--build", folder)


def texts_of(folder: Path, images: Sequence[Path]) -> list[str]:
    """All images as the program that was built reads them."""
    return run(folder / "read_line", *images).splitlines()


def rates_of(folder: Path, images: Sequence[Path], seconds: float) -> Rates:
    """One measurement with one thread and with as many as there are cores."""
    cores = len(os.sched_getaffinity(0))
    told = run(folder / "rate", str(cores), str(seconds), *images).splitlines()
    found = [(int(t), Rate(float(r), float(j))) for t, r, j in map(str.split, told)]
    return dict(found)
