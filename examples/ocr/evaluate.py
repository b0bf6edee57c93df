"""The table in README.md: how well and how fast lines are read, float and reduced.

    python evaluate.py [--lines 500] [--seconds 2]

prints lines of the test set, whose fonts, words and seed are not those of the training, builds the
example once for each row of the table, lets its programs read all lines, and prints the table. It
needs the fonts of fonts.py, Pillow, CMake and a C compiler, but no PyTorch.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from fonts import TEST, Face
from forms import FORMS, Form, Rates, build, rates_of, texts_of
from printing import ROWS, Bytes, cropped, printed_line
from scoring import accuracy

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
