"""The domain ai.onnx.ml: scalers and linear models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cannery
from cannery.errors import ModelError, UnsupportedError
from cannery.ir.evaluate import evaluate
from frontends.onnx_models import load, model, node

X = np.array([[1.0, -2.0, 0.5], [0.0, 0.0, 0.0], [-3.0, 4.0, 12.0]])
W = np.array([[1.0, 2.0, 3.0], [-1.0, 0.5, 2.0]])


def _model(kind: str, outputs: tuple[str, ...] = ("y",), **attributes: Any) -> Any:
    made = node(kind, ["x"], outputs, domain="ai.onnx.ml", **attributes)
    proto = model([made], {"x": list(X.shape)}, outputs)
    proto.opset_import.add(domain="ai.onnx.ml", version=3)
    return proto


def _run(folder: Path, proto: Any, x: Any = X) -> list[Any]:
    return list(evaluate(load(folder, proto), {"x": np.asarray(x)}).values())


def _linear(**attributes: Any) -> Any:
    coefficients, intercepts = W.reshape(-1).tolist(), [0.25, -1.0]
    return {"coefficients": coefficients, "intercepts": intercepts, **attributes}


NORMS = {"L1": [3.5, 1.0, 19.0], "L2": [5.25**0.5, 1.0, 13.0], "MAX": [1.0, 1.0, 12.0]}


@pytest.mark.parametrize("norm", NORMS)
def test_rows_are_normalised_unless_they_are_zero(tmp_path: Path, norm: str) -> None:
    (y,) = _run(tmp_path, _model("Normalizer", norm=norm))
    assert np.allclose(y, X / np.array(NORMS[norm])[:, None])


def test_features_are_scaled_and_filled_in(tmp_path: Path) -> None:
    (y,) = _run(tmp_path, _model("Scaler", offset=[1.0, 2.0, 3.0], scale=[0.5]))
    assert np.allclose(y, (X - [1.0, 2.0, 3.0]) * 0.5)
    fill = {"imputed_value_floats": [7.0, 8.0, 9.0], "replaced_value_float": float("nan")}
    (y,) = _run(tmp_path, _model("Imputer", **fill), np.where(X == 0.0, np.nan, X))
    assert np.allclose(y, np.where(X == 0.0, [7.0, 8.0, 9.0], X))
    (y,) = _run(tmp_path, _model("Binarizer", threshold=0.75))
    assert np.array_equal(y, X > 0.75)


def test_categories_become_places(tmp_path: Path) -> None:
    x = np.array([[4.0, -2.0, 0.5], [9.0, 7.0, np.nan], [4.9, -0.9, 1e30]])
    (y,) = _run(tmp_path, _model("OneHotEncoder", cats_int64s=[4, 0, -2, 7], zeros=1), x)
    places = [[0, 2, 1], [None, 3, 1], [0, 1, None]]
    wanted = [[[float(k == place) for k in range(4)] for place in row] for row in places]
    assert np.array_equal(y, wanted)
    net = cannery.load(tmp_path / "model.onnx")
    assert np.array_equal(net(x.astype(np.float32)), wanted)
    with pytest.raises(UnsupportedError, match=r"categories that are texts.*encode texts"):
        load(tmp_path, _model("OneHotEncoder", cats_strings=["a", "b"]))


def test_linear_models(tmp_path: Path) -> None:
    sums = X @ W.T + [0.25, -1.0]
    (y,) = _run(tmp_path, _model("LinearRegressor", **_linear(targets=2)))
    assert np.allclose(y, sums)
    labels = {"classlabels_ints": [5, -3], "post_transform": "LOGISTIC"}
    label, scores = _run(tmp_path, _model("LinearClassifier", ("l", "s"), **_linear(**labels)))
    assert label.tolist() == np.where(sums[:, 0] >= sums[:, 1], 5, -3).tolist()
    assert np.allclose(scores, 1.0 / (1.0 + np.exp(-sums)))


def test_one_score_is_that_of_the_second_class(tmp_path: Path) -> None:
    one = {"coefficients": W[0].tolist(), "intercepts": [0.25], "classlabels_ints": [0, 1]}
    label, scores = _run(tmp_path, _model("LinearClassifier", ("l", "s"), **one))
    s = X @ W[0] + 0.25
    assert label.tolist() == (s > 0.0).astype(int).tolist()
    assert np.allclose(scores, np.stack([1.0 - s, s], 1))


def test_what_cannot_be_is_told(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="2 entries for 3 features"):
        load(tmp_path, _model("Scaler", offset=[1.0, 2.0]))
    with pytest.raises(UnsupportedError, match=r"other than .*Scaler"):
        load(tmp_path, _model("TfIdfVectorizer"))
