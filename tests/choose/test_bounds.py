"""Compiling warns about bounds that a network can hardly keep, and changes no byte."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cannery.choose.bounds import bound_notes
from cannery.choose.record import FORMAT, Record, format_record
from cannery.cli import invoke
from cannery.ir.tensor import DType
from cannery.options import Options
from tiny_models import write_tiny_model

FLOATS = [DType.FLOAT32]


def options(folder: Path) -> Options:
    return Options(folder / "toy.h5", "toy", isa=("generic",))


def test_less_than_rounding_is_told(tmp_path: Path) -> None:
    (told,) = bound_notes(options(tmp_path), FLOATS, 1e-12)
    assert told.startswith("--max-error 1e-12 is less than the rounding of the outputs to float32")
    assert bound_notes(options(tmp_path), FLOATS, 1e-7) == []
    assert bound_notes(options(tmp_path), [DType.INT64], 1e-12) == []


def test_what_a_record_measured_is_told(tmp_path: Path) -> None:
    made = Record(FORMAT, "0.1.0", "toy", "generic", "generic", 64, "k", {}, [], error=2e-6)
    path = tmp_path / "toy.generic.tuning.json"
    path.write_text(format_record(made))
    (told,) = bound_notes(options(tmp_path), FLOATS, 1e-6)
    assert told.startswith(f"{path}: the network's error was 2e-06 when it was tuned, more than")
    assert bound_notes(options(tmp_path), FLOATS, 1e-5) == []


@pytest.mark.parametrize("errors", [(), (1e-7,), (1e-7, None), (None, 1e-7), (1e-7, 2e-7)])
def test_what_is_not_measured_is_estimated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, errors: tuple[float | None, ...]
) -> None:
    """Of a library of several instruction sets each has to be measured."""
    monkeypatch.setattr("cannery.choose.bounds.rounding_error", lambda graph, bound: 1e-3)
    for name, error in zip(("generic", "sse2"), errors, strict=False):
        made = Record(FORMAT, "0.1.0", "toy", name, name, 64, "k", {}, [], error=error)
        (tmp_path / f"toy.{name}.tuning.json").write_text(format_record(made))
    both = replace(options(tmp_path), isa=("generic", "sse2")[: max(len(errors), 1)])
    graph: Any = object()
    told = bound_notes(both, FLOATS, 1e-4, graph)
    assert [*map(bool, told)] == ([] if errors and None not in errors else [True])
    assert all("estimated to make an error of about 0.001" in text for text in told)


def test_compile_tells_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = write_tiny_model(tmp_path / "toy.h5")
    words = ["compile", str(model), "--isa", "generic", "-o"]
    assert invoke([*words, str(tmp_path / "usual")]) == 0
    assert "rounding" not in capsys.readouterr().err
    assert invoke([*words, str(tmp_path / "exact"), "--max-error", "1e-12"]) == 0
    assert "--max-error 1e-12 is less than the rounding" in capsys.readouterr().err
    manifests = [(tmp_path / name / "toy.json").read_text() for name in ("usual", "exact")]
    kernels = [[step["schedule"] for step in json.loads(m)["steps"]] for m in manifests]
    assert kernels[0] == kernels[1]
