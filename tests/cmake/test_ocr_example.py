"""The example that reads old print: its lines, through CMake, as by the reference."""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cannery.ir.evaluate import evaluate
from cannery.options import make_options
from cannery.pipeline import load_model
from cmake_project import Project
from runtime.test_ctc import best_symbols, single_steps

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "ocr"
sys.path.insert(0, str(EXAMPLE))

from scoring import accuracy, distance  # noqa: E402
from text import ALPHABET, is_test_word  # noqa: E402

LINES = dict(
    line.split(" ", 1) for line in (EXAMPLE / "lines" / "texts.txt").read_text().splitlines()
)
WARNINGS = "-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A copy of the example, built for this machine."""
    folder = tmp_path_factory.mktemp("ocr") / "example"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("build", "__pycache__"))
    example = Project(folder, Path(sys.executable))
    example.configure("-DCANNERY_TARGET=native", f"-DCMAKE_C_FLAGS={WARNINGS}")
    example.build()
    return example


def read_by_reference(name: str) -> str:
    """The text of a stored line by the model's float64 reference and a decoder in Python."""
    image = (EXAMPLE / "lines" / name).read_bytes()
    _, size, _, pixels = image.split(b"\n", 3)
    width, height = map(int, size.split())
    rows = np.frombuffer(pixels, np.uint8).reshape(height, width)
    options = make_options(EXAMPLE / "ocr.onnx", {"dims": (f"length={width}",)})
    columns = (192 - rows.T.astype(np.float32)) / 64
    (symbols,) = evaluate(load_model(options), {"columns": columns}).values()
    best = best_symbols(symbols.reshape(width, -1).astype(np.float32), 0)
    return "".join(ALPHABET[label - 1] for label in single_steps(best, 0) if label > 0)


def test_lines_are_read(project: Project) -> None:
    images = [project.folder / "lines" / name for name in LINES]
    read = project.run(project.tree / "read_line", *images).splitlines()
    assert read == [read_by_reference(name) for name in LINES]
    right, _, _ = accuracy(read, list(LINES.values()))
    assert right > 0.9
    assert "read_line" in project.test()


def test_the_rate_is_told(project: Project) -> None:
    images = [project.folder / "lines" / name for name in LINES]
    told = project.run(project.tree / "rate", "2", "0.01", *images).split()
    assert told[0::3] == ["1", "2"]
    assert all(float(rate) > 0 for rate in told[1::3])
    inside = project.run(project.tree / "rate", "inside", "2", "0.01", *images).split()
    assert inside[0] == "2"
    assert float(inside[1]) > 0


@pytest.mark.parametrize(
    "content", [b"", b"P5\n3 25\n255\n" + bytes(74), b"P5\n733 25\n255\n" + bytes(733 * 25),
                b"P5\n9 16\n255\n" + bytes(144)],
)  # fmt: skip
def test_other_images_are_refused(project: Project, tmp_path: Path, content: bytes) -> None:
    image = tmp_path / "other.pgm"
    image.write_bytes(content)
    told = project.run(project.tree / "read_line", image, ok=False)
    assert "other.pgm: cannot be read, or is no grey image of 25 rows and at most 732" in told


def test_words_of_the_stored_lines_are_those_of_the_test_set() -> None:
    words = "".join(c if c.isalpha() else " " for c in " ".join(LINES.values())).split()
    assert all(is_test_word(word) for word in words if len(word) > 1 and "'" not in word)


@pytest.mark.parametrize(
    ("a", "b", "edits"), [("", "abc", 3), ("abc", "", 3), ("kitten", "sitting", 3), ("ab", "ba", 2)]
)
def test_edit_distances(a: str, b: str, edits: int) -> None:
    assert distance(a, b) == edits
    assert accuracy([a], ["x" * 9])[0] == pytest.approx(1 - distance(a, "x" * 9) / 9)


def test_training_and_export(tmp_path: Path) -> None:
    """The gradients that blstm.py writes out, and the file as the network that was trained."""
    torch: Any = pytest.importorskip("torch")
    blstm: Any = importlib.import_module("blstm")
    torch.manual_seed(1)
    shapes = ((4, 2, 2, 12), (2, 3, 12), (2, 3, 3))
    values = [torch.randn(*shape, dtype=torch.double, requires_grad=True) for shape in shapes]
    assert torch.autograd.gradcheck(blstm._Recurrence.apply, values)
    reader = blstm.Reader(25, 6, 5)
    for parameter in reader.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    columns = torch.randn(9, 1, 25)
    expected = reader(columns).softmax(dim=2)[:, 0].detach().numpy()
    blstm.write_onnx(reader, tmp_path / "small.onnx")
    graph = load_model(make_options(tmp_path / "small.onnx", {"dims": ("length=9",)}))
    (symbols,) = evaluate(graph, {"columns": columns[:, 0].numpy()}).values()
    assert np.abs(symbols - expected).max() < 1e-6


def test_a_font_that_is_missing_is_one_line(tmp_path: Path) -> None:
    pytest.importorskip("PIL")
    done = subprocess.run(
        [sys.executable, str(EXAMPLE / "evaluate.py"), "--lines", "1"], text=True,
        capture_output=True, check=False, env={**os.environ, "CANNERY_OCR_FONTS": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1 and "install the fonts" in done.stderr
