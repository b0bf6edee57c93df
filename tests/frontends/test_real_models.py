"""Networks of a robot soccer team, against what another engine computed for them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cannery.choose.signature import step_text
from cannery.frontends import load_graph
from cannery.ir.evaluate import evaluate
from cannery.ir.orders import from_model, to_model
from cannery.options import make_options
from cannery.passes import run_passes
from cannery.pipeline import choose, import_graph
from cannery.target.toolchain import resolve_target

FOLDER = Path(__file__).parents[3] / "shared" / "models"
SUFFIXES = ("*.h5", "*.hdf5", "*.keras", "*.onnx")
MODELS = sorted(p for suffix in SUFFIXES for p in FOLDER.glob(suffix))
TWINS = [p for p in MODELS if p.suffix == ".onnx" and list(FOLDER.glob(f"{p.stem}.h*5"))]

#: What moves elements only; a Reshape moves none.
LAYOUT_OPS = {"Transpose", "Slice", "Expand"}


def _reads_onnx(path: Path) -> None:
    if path.suffix == ".onnx":
        pytest.importorskip("onnx")


def _operators(path: Path) -> set[str]:
    return {node.op.kind for node in run_passes(load_graph(path)).nodes}


def _steps(path: Path, isa: str) -> list[tuple[str, str]]:
    """What is computed by which schedule, without names and weights."""
    options = make_options(path, {"isa": (isa,)})
    graph = import_graph(options)
    chosen = choose(graph, resolve_target(options), options)
    pairs = zip(chosen.steps, chosen.choices, strict=True)
    return sorted((step_text(graph, step), choice.schedule.id) for step, choice in pairs)


@pytest.mark.skipif(not MODELS, reason=f"no models beside the checkout, in {FOLDER.name}")
@pytest.mark.parametrize("path", MODELS, ids=lambda p: p.name)
def test_output_is_as_recorded(path: Path) -> None:
    _reads_onnx(path)
    graph = load_graph(path)
    recorded = np.load(f"{path}.npz")
    inputs = from_model(graph, {name: recorded[f"in:{name}"] for name in graph.inputs})
    results = list(to_model(graph, evaluate(graph, inputs)).values())
    expected = [recorded[key] for key in recorded if key.startswith("out:")]
    for result, reference in zip(results, expected, strict=True):
        assert result.shape == reference.shape
        error = np.abs(result - reference).max() / np.abs(reference).max()
        assert error < 1e-5


@pytest.mark.skipif(not MODELS, reason=f"no models beside the checkout, in {FOLDER.name}")
@pytest.mark.parametrize("path", [p for p in MODELS if "lstm" not in p.name], ids=lambda p: p.name)
def test_no_layout_operation_is_left(path: Path) -> None:
    _reads_onnx(path)
    assert not LAYOUT_OPS & _operators(path)


@pytest.mark.skipif(not TWINS, reason=f"no models beside the checkout, in {FOLDER.name}")
@pytest.mark.parametrize("path", TWINS, ids=lambda p: p.stem)
def test_a_network_is_the_same_from_keras_and_from_onnx(path: Path) -> None:
    _reads_onnx(path)
    (other,) = FOLDER.glob(f"{path.stem}.h*5")
    for isa in ("sse2", "avx512"):
        assert _steps(path, isa) == _steps(other, isa)
