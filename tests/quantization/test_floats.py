"""Layers that compute with floats in a quantised network are named, with the reason."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cannery.cli import invoke
from cannery.ir.graph import FloatLayer
from cannery.options import make_options
from cannery.pipeline import import_graph
from frontends.keras_files import Model, chain, image, layer
from quantization.networks import F, H, conv, dense, integers, layers, lstm, resets, write, written


def mixed() -> Model:
    """A layer without a table between layers of integers."""
    return chain(
        image("x", 9, F),
        lstm("one", F),
        lstm("two", H, activation="relu"),
        dense("scores", H, 7, "linear"),
    )


def skip() -> Model:
    """A sum that is an output, and softmax along the rows of an image."""
    layers = [
        image("x", 9, 8, 3), conv("one", "x", 3, 6), conv("two", "one", 6, 6),
        layer("Add", "sum", "one", "two"), layer("Softmax", "columns", "sum", axis=2),
        conv("three", "one", 6, 2, groups=2), layer("GlobalAveragePooling2D", "mean", "columns"),
    ]  # fmt: skip
    layers[5].weights["kernel"] = layers[5].weights["kernel"][:, :, :3]
    return Model("skip", layers, ["x"], ["sum", "mean", "three"])


def floats_of(folder: Path, model: Model, dtype: str = "int16") -> tuple[FloatLayer, ...]:
    graph = import_graph(make_options(*written(folder, model, dtype)))
    assert graph.quantization is not None
    return graph.quantization.floats


def test_what_has_a_form_is_not_named(tmp_path: Path) -> None:
    for model in (resets(), layers()):
        assert floats_of(tmp_path, model) == ()


def test_reasons(tmp_path: Path) -> None:
    (two,) = floats_of(tmp_path, mixed())
    assert (two.name, two.differs) == ("two", True)
    assert two.reason == "Relu as activation has no table"
    found = {f.name: f for f in floats_of(tmp_path, skip(), "int8")}
    assert {name: f.differs for name, f in found.items()} == {
        "sum": False, "columns": True, "three": True, "mean": True,
    }  # fmt: skip
    assert found["sum"].reason == "its operands or result are needed as floats"
    assert found["columns"].reason == "it is not along the last axis, or too long"
    assert found["three"].reason == "grouped convolutions have no integer form"
    assert found["mean"].reason == "its input is floats"


def test_they_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, calibration = write(tmp_path, mixed())
    words = [f"--{key.replace('_', '-')}={value}" for key, value in integers(calibration).items()]
    assert invoke(["compile", str(file), "-o", str(tmp_path), "--isa", "generic", *words]) == 0
    told = "floats remain in 'two' (Relu as activation has no table); last bits may differ"
    assert told in capsys.readouterr().err
    header = (tmp_path / "net.h").read_text()
    assert '1 layer computes with floats:\n *   "two": Relu as activation has no table\n' in header
    assert "Last bits may differ between processors there" in header
    facts = json.loads((tmp_path / "net.json").read_text())["quantization"]
    reason = "Relu as activation has no table"
    assert facts["float_layers"] == [{"name": "two", "reason": reason, "differs": True}]
    assert facts["same_everywhere"] is False


def test_without_any_the_header_promises_the_same_bits(tmp_path: Path) -> None:
    file, calibration = write(tmp_path, resets())
    words = [f"--{key.replace('_', '-')}={value}" for key, value in integers(calibration).items()]
    assert invoke(["compile", str(file), "-o", str(tmp_path), "--isa", "generic", *words]) == 0
    header = (tmp_path / "net.h").read_text()
    assert "Every processor computes the same bits." in header
    assert "with floats" not in header
