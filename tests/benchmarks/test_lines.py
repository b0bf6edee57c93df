"""The reader of lines as plain loops and by Cannery: the same text, and a table of rates."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from rivals import lines
from rivals.contest import Settings
from rivals.lines import FORMS, columns, compare_lines

pytest.importorskip("onnx")

EXAMPLE = Path(lines.__file__).parents[2] / "examples" / "ocr"
STRICT = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror"]


def test_all_forms_read_the_same_and_are_timed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "FORMS", FORMS[:1])
    monkeypatch.setattr(lines, "LINES", 1)
    settings = Settings(
        (), (), (), None, False, ("model",), (1,), "", rounds=1, seconds=0.01, cpus=(), lock=None
    )
    table = compare_lines(settings, tmp_path)
    rows = [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("|")]
    names = [row[0] for row in rows[2:]]
    assert names == ["naive loops", "naive loops, optimised", "unrolled loops", "Cannery, float32"]
    assert len({tuple(row[1:3]) for row in rows[2:]}) == 1
    assert float(rows[2][1].rstrip("%")) > 85
    assert all(float(row[3]) > 0 for row in rows[2:])
    assert rows[2][-1] == "1.0"


def test_one_core_needs_no_columns_for_several() -> None:
    assert columns(1) == ["1 core"]
    assert len(columns(2)) == 3


@pytest.mark.parametrize("form", [[], ["-DUNROLLED"]])
def test_the_loops_are_clean_c(tmp_path: Path, form: list[str]) -> None:
    compiler = shutil.which("gcc")
    if not compiler:
        pytest.skip("there is no gcc here")
    source = Path(lines.__file__).with_name("lines.c")
    command = [compiler, "-std=c99", "-fsanitize=undefined,address", "-fno-sanitize-recover=all"]
    files = [source, EXAMPLE / "line_image.c", "-o", tmp_path / "lines", "-lm"]
    subprocess.run([*command, *STRICT, *form, f"-I{EXAMPLE}", *files], check=True)
    weights = tmp_path / "weights.bin"
    weights.write_bytes(lines._weights())
    done = subprocess.run(
        [tmp_path / "lines", "read", weights, EXAMPLE / "lines" / "3.pgm"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.startswith("klarbung")
    weights.write_bytes(lines._weights()[:-1])
    bad = subprocess.run(
        [tmp_path / "lines", "read", weights, EXAMPLE / "lines" / "3.pgm"], check=False,
        capture_output=True,
    )  # fmt: skip
    assert bad.returncode == 2
