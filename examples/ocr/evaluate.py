"""The table in README.md: how well and how fast lines are read, float and reduced.

    python evaluate.py [--lines 500] [--seconds 2]

prints lines of the test set, whose fonts, words and seed are not those of the training, builds the
example once for each row of the table, lets its programs read all lines, and prints the table. It
needs the fonts of fonts.py, Pillow, CMake and a C compiler, but no PyTorch.
"""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fonts import TEST, Face
from printing import ROWS, Bytes, cropped, printed_line
from scoring import accuracy
from tables import write_record_of_tables

FOLDER = Path(__file__).parent

#: Columns of the longest line.
LONGEST = 732


@dataclass(frozen=True)
class Form:
    """A row of the table: a name, and what add_nn_model gets besides."""

    name: str
    options: tuple[str, ...] = ()


def quantised(dtype: str) -> Form:
    """Integers; tables of sigmoid and tanh belong to that."""
    calibration = ("CALIBRATION", str(FOLDER / "calibration.npz"))
    return Form(f"{dtype}, tables", ("QUANTIZE", dtype, *calibration, "MAX_LOSS", "0.5"))


#: Where the record is from which the float network with tables takes them.
RECORD = "record"

FORMS = (
    Form("float32"),
    Form("float32, tables", ("TUNING", RECORD, "MAX_ERROR", "0.001")),
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

#: How often all forms are timed in turn.
ROUNDS = 12


def lines_of(
    faces: tuple[Face, ...], count: int, seed: int, *, test: bool
) -> tuple[list[Bytes], list[str]]:
    """Images of different lengths, and their texts."""
    rng = np.random.default_rng(seed)
    pairs = [printed_line(rng, faces, int(rng.integers(150, 600)), test=test) for _ in range(count)]
    return [cropped(image) for image, _ in pairs], [text for _, text in pairs]


def write_images(images: Sequence[Bytes], folder: Path) -> list[Path]:
    """Write them as PGM."""
    files = []
    for number, image in enumerate(images):
        file = folder / f"{number:04d}.pgm"
        file.write_bytes(b"P5\n%d %d\n255\n" % (image.shape[1], ROWS) + image.tobytes())
        files.append(file)
    return files


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
    if RECORD in options:
        record = folder.with_suffix(".record")
        record.mkdir()
        write_record_of_tables(FOLDER / "ocr.onnx", record, target, LONGEST)
        options[options.index(RECORD)] = str(record)
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


def best_rates(folders: Sequence[Path], images: Sequence[Path], seconds: float) -> list[Rates]:
    """Of each form the best of some rounds: other programs only take time away."""
    rounds = [
        [rates_of(folder, images, seconds / ROUNDS) for folder in folders] for _ in range(ROUNDS)
    ]
    return [
        {threads: max((rates[threads] for rates in form), key=lambda rate: rate.lines)
         for threads in form[0]}
        for form in zip(*rounds, strict=True)
    ]  # fmt: skip


def row(form: Form, texts: Sequence[str], rates: Rates, expected: Sequence[str]) -> str:
    """A line of the table."""
    right, low, high = accuracy(texts, expected)
    cells = [form.name, f"{right:.2%}", f"{low:.2%} to {high:.2%}"]
    cells += [f"{rate.lines:.0f}" for rate in rates.values()]
    cells += [f"{r.joules * 1e3:.2f} mJ" if r.joules >= 0 else "-" for r in rates.values()]
    return "| " + " | ".join(cells) + " |"


def heading(threads: Sequence[int]) -> str:
    """The table's head."""
    names = [f"{n} core{'s' if n > 1 else ''}" for n in threads]
    cells = ["form", "accuracy", "95% interval", *(f"lines/s, {n}" for n in names)]
    cells += [f"energy per line, {n}" for n in names]
    return "| " + " | ".join(cells) + " |\n" + "|---" * len(cells) + "|"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Accuracy and speed of the reader.")
    parser.add_argument("--lines", type=int, default=500, help="at most 512")
    parser.add_argument("--seconds", type=float, default=2.0, help="per form and number of threads")
    parser.add_argument("--target", default="native")
    given = parser.parse_args()
    try:
        images, texts = lines_of(TEST, given.lines, 3, test=True)
    except FileNotFoundError as error:  # a font
        sys.exit(str(error))
    columns = sum(image.shape[1] for image in images)
    print(f"{len(texts)} lines, {sum(map(len, texts))} characters, {columns} columns", flush=True)
    with tempfile.TemporaryDirectory() as name:
        files = write_images(images, Path(name))
        folders = [Path(name) / f"build{number}" for number in range(len(FORMS))]
        for form, folder in zip(FORMS, folders, strict=True):
            build(form, folder, given.target)
        rates = best_rates(folders, files, given.seconds)
        print(heading(list(rates[0])))
        for form, folder, measured in zip(FORMS, folders, rates, strict=True):
            print(row(form, texts_of(folder, files), measured, texts), flush=True)


if __name__ == "__main__":
    main()
