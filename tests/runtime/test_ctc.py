"""Decoding of CTC's best path (ctc.h) against a separate definition, on random scores."""

from __future__ import annotations

import subprocess
from itertools import groupby
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from cannery.options import make_options
from cannery.pipeline import compile_model
from cannery.resources import runtime_include_dir
from emit.c_programs import LANGUAGES, WARNINGS
from needs import need_program
from onnx_networks import write_onnx_network

SOURCE = Path(__file__).with_name("ctc_labels.c")
#: What stands in memory that was not written.
UNTOUCHED = -7


def best_symbols(scores: NDArray[np.float32], blank: int) -> list[int]:
    """Of each step the first of the best symbols that are numbers; none: the blank."""
    return [
        int(np.argmax(np.where(np.isnan(row), -np.inf, row))) if not np.isnan(row).all() else blank
        for row in scores
    ]


def single_steps(best: list[int], blank: int) -> list[int]:
    """What each step adds: a new symbol that is not blank, else -1."""
    return [
        symbol if first and symbol != blank else -1
        for symbol, run in groupby(best)
        for first in [True] + [False] * (len(list(run)) - 1)
    ]


def compiled(folder: Path, language: str) -> Path:
    compiler, *standard = LANGUAGES[language]
    program = folder / "ctc"
    command = [need_program(compiler), *standard, *WARNINGS, "-O1", str(SOURCE), "-o", str(program)]
    subprocess.run([*command, f"-I{runtime_include_dir()}"], check=True)
    return program


def case(rng: np.random.Generator) -> tuple[NDArray[np.float32], int, int]:
    """Scores, the blank, and room for labels; few values, so that ties are frequent."""
    steps, symbols = int(rng.integers(0, 40)), int(rng.integers(1, 20))
    scores = rng.integers(-2, 6, (steps, symbols)).astype(np.float32)
    scores[rng.random(scores.shape) < 0.1] = np.nan
    return scores, int(rng.integers(symbols)), int(rng.integers(0, steps + 2))


@pytest.mark.parametrize("language", LANGUAGES)
def test_labels(tmp_path: Path, language: str) -> None:
    rng = np.random.default_rng(1)
    cases = [case(rng) for _ in range(300)]
    given = b"".join(
        np.array([*scores.shape, blank, room], np.int32).tobytes() + scores.tobytes()
        for scores, blank, room in cases
    )
    program = compiled(tmp_path, language)
    done = subprocess.run([program], input=given, capture_output=True, check=True)
    found = np.frombuffer(done.stdout, np.int32).tolist()
    for scores, blank, room in cases:
        steps = len(scores)
        added = single_steps(best_symbols(scores, blank), blank)
        labels = [label for label in added if label >= 0]
        expected = labels[:room] + [UNTOUCHED] * (steps - len(labels[:room]))
        assert found[: 1 + 2 * steps] == [len(labels), *expected, *added]
        found = found[1 + 2 * steps :]
    assert not found


@pytest.mark.parametrize(("network", "brings"), [("blstm", True), ("walking_policy", False)])
def test_recurrent_networks_bring_the_header(tmp_path: Path, network: str, brings: bool) -> None:
    options = make_options(write_onnx_network(network, tmp_path), {"isa": ("generic",)})
    assert ("cannery/ctc.h" in compile_model(options).files) is brings
