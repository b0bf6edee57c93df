"""Samples that say nothing: errors and warnings, and never a scale that is 0 or infinite."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cannery.errors import CanneryWarning, OptionError
from cannery.ir.evaluate import evaluate_all
from cannery.ir.graph import Graph
from cannery.ir.parser import parse_graph
from cannery.options import make_options
from cannery.pipeline import import_graph
from cannery.quantization.calibration import observe
from frontends.keras_files import LayerSpec, Model, chain, image
from quantization.networks import dense, integers, layers, write


def imported(folder: Path, model: Model, x: Any, **others: Any) -> tuple[Graph, list[str]]:
    """The quantised graph and the warnings on the way."""
    file, calibration = write(folder, model)
    np.savez(calibration, x=np.asarray(x, np.float32))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        graph = import_graph(make_options(file, integers(calibration, **others)))
    return graph, [str(w.message) for w in caught if issubclass(w.category, CanneryWarning)]


def scales(graph: Graph) -> list[NDArray[Any]]:
    """All constants that scale, or make integers of floats."""
    words = ("scale", "unit", "factor", "gain")
    return [a for name, a in graph.constants.items() if name.rsplit("/", 1)[-1] in words]


@pytest.mark.parametrize("size", [0.0, -0.0, 1e-40, 1e-35])
def test_samples_of_zeros_are_an_error(size: float, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"all samples are 0 \(of 'x'\)") as caught:
        imported(tmp_path, layers(), np.full((5, 24), size))
    assert "--calibration" in str(caught.value)
    assert "typical inputs" in str(caught.value)


def test_samples_that_are_constant_are_told(tmp_path: Path) -> None:
    graph, told = imported(tmp_path, layers(), np.full((5, 24), 2.5))
    assert len(told) == 1
    assert "'x' is 2.5 in all samples" in told[0]
    assert all(np.isfinite(s).all() and (s > 0).all() for s in scales(graph))


def test_typical_samples_are_not_told(tmp_path: Path) -> None:
    x = np.random.default_rng(0).standard_normal((5, 24))
    assert imported(tmp_path, layers(), x)[1] == []
    assert imported(tmp_path, layers(), x[:1])[1] == []


def dead() -> Model:
    """The second layer's result is 0, whatever it reads."""
    spec = dense("two", 8, 6, "relu")
    weights = {"kernel": -np.abs(spec.weights["kernel"]), "bias": np.full(6, -1, np.float32)}
    silent = LayerSpec("Dense", "two", (), spec.config, weights)
    return chain(image("x", 24), dense("one", 24, 8, "relu"), silent, dense("y", 6, 2, "linear"))


@pytest.mark.parametrize("dtype", ["int8", "int16"])
def test_a_layer_that_is_silent_is_named(dtype: str, tmp_path: Path) -> None:
    x = np.random.default_rng(0).standard_normal((5, 24))
    graph, told = imported(tmp_path, dead(), x, dtype=dtype)
    assert len(told) == 1
    assert "'two/relu'" in told[0] or "'two'" in told[0]
    assert all(np.isfinite(s).all() and (s > 0).all() for s in scales(graph))


@pytest.mark.parametrize(
    ("of_x", "of_w"), [(1e-25, 1e-25), (1e30, 1e30), (1.0, 1e-39), (1e20, 1.0)]
)
@pytest.mark.parametrize("dtype", ["int8", "int16"])
def test_scales_are_numbers_or_an_error(
    of_x: float, of_w: float, dtype: str, tmp_path: Path
) -> None:
    rng = np.random.default_rng(0)
    weights = {"kernel": (rng.standard_normal((24, 4)) * of_w).astype(np.float32)}
    spec = LayerSpec("Dense", "y", (), {"units": 4, "use_bias": False}, weights)
    try:
        graph, _ = imported(
            tmp_path, chain(image("x", 24), spec), rng.standard_normal((5, 24)) * of_x, dtype=dtype
        )
    except OptionError:
        return
    assert scales(graph)
    assert all(np.isfinite(s).all() and (s > 0).all() for s in scales(graph))


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_ranges_are_magnitudes_over_all_samples(sign: float, tmp_path: Path) -> None:
    """Of numbers of any sign, in whichever sample they are."""
    file, calibration = write(tmp_path, layers())
    x = np.random.default_rng(5).uniform(-1.0, 0.5, (6, 24)).astype(np.float32)
    x[3, 7] = -9.0
    np.savez(calibration, x=sign * x)
    graph = import_graph(make_options(file, {}))
    seen = observe(graph, calibration)
    assert seen.spreads["x"].largest == 9.0
    assert seen.spreads["x"].rms == pytest.approx(np.sqrt(np.square(x, dtype=float).mean()))
    for name, spread in seen.spreads.items():
        values = [evaluate_all(graph, sample)[name] for sample in seen.samples]
        assert spread.largest == pytest.approx(max(np.abs(v).max() for v in values))
        assert 0.0 <= spread.rms <= spread.largest


def test_values_beyond_float32_are_infinite(tmp_path: Path) -> None:
    """The references compute in float64, where they are numbers."""
    text = (
        "graph net\ninput x: float32[1x3]\nconst w: float32[] = 1e30\n"
        "a = Mul(x, w)\ny = Mul(a, w)\noutput y\n"
    )
    np.savez(tmp_path / "x.npz", x=np.array([[1.0] * 3, [2.0] * 3], np.float32))
    with pytest.raises(OptionError, match="'y' is not finite on these samples"):
        observe(parse_graph(text, "net"), tmp_path / "x.npz")
