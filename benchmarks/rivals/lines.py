"""Lines of old print, read by an LSTM in two directions, as a thesis on OCR on processors did.

It took a network of this kind from plain loops to unrolled ones, tables of sigmoid and tanh,
integers and threads. Here the reader of `examples/ocr` goes the same way: loops in C as a person
writes them (`lines.c`), then Cannery's forms. All read the same images, and say what they read.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rivals.contest import Settings, alone

_EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "ocr"
sys.path.insert(0, str(_EXAMPLE))

from forms import Form, build, quantised, rates_of, run, tabled, texts_of  # noqa: E402
from scoring import accuracy  # noqa: E402

#: What `compare.py --seed` calls it.
BLSTM = "blstm"

#: How many lines are printed and read, where the fonts of the example are installed.
LINES = 100

#: Cannery's forms; tables have so many pieces.
FORMS = (
    Form("float32"), *(tabled(pieces) for pieces in (64, 256, 1024)), quantised("int16"),
    quantised("int8"),
)  # fmt: skip

#: The loops, and what they are compiled with.
_PLAIN = {
    "naive loops": ("-O2",),
    "naive loops, optimised": ("-O3", "-march=native"),
    "unrolled loops": ("-O3", "-march=native", "-DUNROLLED"),
}

_SOURCE = Path(__file__).with_name("lines.c")

#: The samples' quantile that counts: rates, so the upper quartile.
_QUANTILE = 0.75


@dataclass(frozen=True)
class Reader:
    """A form that was built: what it reads of files, and lines per second, by what takes part."""

    name: str
    read: Callable[[Sequence[Path]], Sequence[str]]
    rates: Callable[[Sequence[Path], float], Mapping[str, float]]


def columns(cores: int) -> list[str]:
    """What takes part, as the table's head says it."""
    several = [f"{cores} cores, lines divided up", f"{cores} cores on each line"]
    return ["1 core", *(several if cores > 1 else [])]


def compare_lines(settings: Settings, folder: Path) -> str:
    """The table; raises SystemExit with the messages of what fails, such as the compiler."""
    images, texts, where = _images(folder / "images")
    readers = _readers(folder)
    with alone([], settings):
        cores = columns(len(os.sched_getaffinity(0)))
        found = _rates(readers, images, settings)
    rows = [
        ("form", "characters right", "95% interval", *(f"lines/s, {c}" for c in cores), "times")
    ]
    rows.append(("---",) * len(rows[0]))
    first = found[readers[0].name]["1 core"]
    for reader in readers:
        right, low, high = accuracy(reader.read(images), texts)
        rates = found[reader.name]
        rows.append((
            reader.name, f"{right:.2%}", f"{low:.2%} to {high:.2%}",
            *(f"{rates[c]:.0f}" if c in rates else "-" for c in cores),
            f"{rates['1 core'] / first:.1f}",
        ))  # fmt: skip
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    length = sum(map(len, texts))
    return (
        f"{table}\n\n{len(texts)} {where}, {length} characters. Times: lines per second by one"
        f" core, beside the first row. Tables have pieces of straight lines.\n"
    )


def _images(folder: Path) -> tuple[list[Path], list[str], str]:
    """Files of lines and their texts; those of the example where its fonts are not installed."""
    try:
        from evaluate import lines_of, write_images
        from fonts import TEST

        images, texts = lines_of(TEST, LINES, 3, test=True)
    except (FileNotFoundError, ImportError):  # a font, or Pillow
        listed = (_EXAMPLE / "lines" / "texts.txt").read_text().splitlines()
        names, known = zip(*(line.split(" ", 1) for line in listed), strict=True)
        files = [_EXAMPLE / "lines" / name for name in names]
        return files, list(known), "lines of examples/ocr, whose fonts are not installed here"
    folder.mkdir(parents=True)
    return write_images(images, folder), texts, "lines"


def _readers(folder: Path) -> list[Reader]:
    """All forms, built."""
    weights = folder / "weights.bin"
    weights.write_bytes(_weights())
    readers = [_plain(name, flags, weights, folder) for name, flags in _PLAIN.items()]
    for number, form in enumerate(FORMS):
        built = folder / f"form{number}"
        build(form, built, "native")
        pieces = f" of {form.pieces} pieces" if form.pieces else ""
        readers.append(_ours(f"Cannery, {form.name}{pieces}", built))
    return readers


def _weights() -> bytes:
    """The numbers of the model as `lines.c` reads them."""
    import onnx
    from onnx import numpy_helper

    model = onnx.load(str(_EXAMPLE / "ocr.onnx"))
    arrays = {each.name: numpy_helper.to_array(each) for each in model.graph.initializer}
    names = ("W", "R", "B", "P", "kernel", "bias")
    return b"".join(np.ascontiguousarray(arrays[name], np.float32).tobytes() for name in names)


def _plain(name: str, flags: Sequence[str], weights: Path, folder: Path) -> Reader:
    program = folder / name.replace(" ", "_").replace(",", "")
    sources = (_SOURCE, _EXAMPLE / "line_image.c")
    compiler = os.environ.get("CC", "cc")
    run(compiler, "-std=c99", *flags, f"-I{_EXAMPLE}", *sources, "-o", program, "-lm")

    def rates(images: Sequence[Path], seconds: float) -> Mapping[str, float]:
        return {"1 core": float(run(program, "rate", weights, f"{seconds:g}", *images))}

    return Reader(name, lambda images: run(program, "read", weights, *images).splitlines(), rates)


def _ours(name: str, folder: Path) -> Reader:
    def rates(images: Sequence[Path], seconds: float) -> Mapping[str, float]:
        several = rates_of(folder, images, seconds)
        cores = max(several)
        found = dict(zip(columns(cores), (several[n].lines for n in sorted(several)), strict=False))
        if cores > 1:
            inside = run(folder / "rate", "inside", str(cores), f"{seconds:g}", *images)
            found[columns(cores)[-1]] = float(inside.split()[1])
        return found

    return Reader(name, lambda images: texts_of(folder, images), rates)


def _rates(
    readers: Sequence[Reader], images: Sequence[Path], settings: Settings
) -> dict[str, dict[str, float]]:
    """Lines per second of all, in turn, by name and by what takes part."""
    share = settings.seconds / settings.rounds / len(readers)
    samples: dict[str, dict[str, list[float]]] = {reader.name: {} for reader in readers}
    for number in range(settings.rounds):
        for reader in readers if number % 2 else reversed(readers):
            for who, rate in reader.rates(images, share).items():
                samples[reader.name].setdefault(who, []).append(rate)
    return {
        name: {who: float(np.quantile(rates, _QUANTILE)) for who, rates in found.items()}
        for name, found in samples.items()
    }
