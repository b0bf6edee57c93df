"""Networks of a robot soccer team, against what another engine computed for them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cannery.frontends import load_graph
from cannery.ir.evaluate import evaluate

FOLDER = Path(__file__).parents[3] / "shared" / "models"
MODELS = sorted(p for suffix in ("*.h5", "*.hdf5", "*.keras") for p in FOLDER.glob(suffix))


@pytest.mark.skipif(not MODELS, reason=f"no models beside the checkout, in {FOLDER.name}")
@pytest.mark.parametrize("path", MODELS, ids=lambda p: p.name)
def test_output_is_as_recorded(path: Path) -> None:
    graph = load_graph(path)
    recorded = np.load(f"{path}.npz")
    inputs = {name: recorded[f"in:{name}"] for name in graph.inputs}
    results = list(evaluate(graph, inputs).values())
    expected = [recorded[key] for key in recorded if key.startswith("out:")]
    for result, reference in zip(results, expected, strict=True):
        assert result.shape == reference.shape
        error = np.abs(result - reference).max() / np.abs(reference).max()
        assert error < 1e-5
