"""Operators that ONNX Runtime's optimisation writes into models."""

from __future__ import annotations

from math import erf
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cannery
from cannery.errors import ModelError, UnsupportedError
from cannery.ir.evaluate import evaluate
from cannery.ir.orders import from_model, to_model
from frontends.onnx_models import floats, load, model, node

X, B, S = floats(2, 3, 8), floats(8, seed=1), floats(2, 3, 8, seed=2)
G, C = floats(8, seed=3), floats(8, seed=4)
IMAGE, W = floats(1, 3, 5, 5, seed=5), floats(4, 3, 3, 3, seed=6)


def fused(
    kind: str, inputs: list[str], outputs: tuple[str, ...] = ("y",), **attributes: Any
) -> Any:
    """A node whose inputs besides x are weights by their names here."""
    known = {"b": B, "s": S, "g": G, "c": C, "w": W, "more": floats(1, 4, 3, 3, seed=7),
             "k": floats(4, seed=8), "m": floats(8, 24, seed=9), "n": floats(24, seed=10),
             "t": floats(5, 8, seed=11), "mask": np.ones((2, 3), np.int32)}  # fmt: skip
    domain = "" if kind == "SimplifiedLayerNormalization" else "com.microsoft"
    shape = (1, 3, 5, 5) if "w" in inputs else X.shape
    made = model(
        [node(kind, inputs, outputs, domain=domain, **attributes)], {"x": shape},
        [o for o in outputs if o], {i: known[i] for i in inputs if i in known},
    )  # fmt: skip
    made.opset_import.add(domain="com.microsoft", version=1)
    return made


def computed(folder: Path, proto: Any) -> list[Any]:
    graph = load(folder, proto)
    x = IMAGE if len(graph.types[graph.inputs[0]].shape) == 4 else X
    return list(to_model(graph, evaluate(graph, from_model(graph, {"x": x}))).values())


def gelu(x: Any) -> Any:
    return 0.5 * x * (1 + np.vectorize(erf)(x / 2**0.5))


def fast_gelu(x: Any) -> Any:
    return 0.5 * x * (1 + np.tanh((2 / np.pi) ** 0.5 * (x + 0.044715 * x**3)))


def norm(x: Any, epsilon: float = 1e-12) -> Any:
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + epsilon)


def rms(x: Any, epsilon: float = 1e-12) -> Any:
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + epsilon)


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


CASES: dict[str, tuple[Any, Any]] = {
    "gelu": (fused("Gelu", ["x"]), gelu(X)),
    "bias": (fused("BiasGelu", ["x", "b"]), gelu(X + B)),
    "fast": (fused("FastGelu", ["x"]), fast_gelu(X)),
    "fast bias": (fused("FastGelu", ["x", "b"]), fast_gelu(X + B)),
    "quick": (fused("QuickGelu", ["x"]), X * sigmoid(1.702 * X)),
    "quick 2": (fused("QuickGelu", ["x"], alpha=2.0), X * sigmoid(2 * X)),
    "matmul": (fused("FusedMatMul", ["x", "t"], transB=1, alpha=0.25),
               0.25 * X @ floats(5, 8, seed=11).T),
    "turned": (fused("FusedMatMul", ["x", "s"], transA=1), X.swapaxes(1, 2) @ S),
    "skip": (fused("SkipLayerNormalization", ["x", "s", "g"]), norm(X + S) * G),
    "skip bias": (fused("SkipLayerNormalization", ["x", "s", "g", "c", "b"], epsilon=0.125),
                  norm(X + S + B, 0.125) * G + C),
    "sum": (fused("SkipLayerNormalization", ["x", "s", "g", "c", "b"], ("", "", "", "y")),
            X + S + B),
    "simplified": (fused("SkipSimplifiedLayerNormalization", ["x", "s", "g", "b"], epsilon=0.25),
                   rms(X + S + B, 0.25) * G),
    "rms": (fused("SimplifiedLayerNormalization", ["x", "g"], epsilon=0.5, axis=-1),
            rms(X, 0.5) * G),
    "gemm": (fused("FusedMatMul", ["x", "m"]), X @ floats(8, 24, seed=9)),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_what_they_compute(name: str, tmp_path: Path) -> None:
    proto, wanted = CASES[name]
    (y,) = computed(tmp_path, proto)
    assert y.shape == wanted.shape
    assert np.allclose(y, wanted, rtol=1e-5, atol=1e-5)


ACTIVATIONS: dict[str, tuple[dict[str, Any], Any]] = {
    "Relu": ({}, lambda y: np.maximum(y, 0)),
    "Tanh": ({}, np.tanh),
    "Sigmoid": ({}, sigmoid),
    "LeakyRelu": ({"activation_params": [0.25]}, lambda y: np.where(y > 0, y, y / 4)),
    "Clip": ({"activation_params": [-0.5, 2.0]}, lambda y: np.clip(y, -0.5, 2)),
    "HardSigmoid": ({"activation_params": [0.5, 0.25]}, lambda y: np.clip(y / 2 + 0.25, 0, 1)),
}


@pytest.mark.parametrize("kind", ACTIVATIONS)
@pytest.mark.parametrize("more", [[], ["more"]])
def test_convolutions_with_an_activation(kind: str, more: list[str], tmp_path: Path) -> None:
    given, function = ACTIVATIONS[kind]
    (plain,) = computed(tmp_path, fused("FusedConv", ["x", "w", "k", *more]))
    proto = fused("FusedConv", ["x", "w", "k", *more], activation=kind, **given)
    (y,) = computed(tmp_path, proto)
    assert np.allclose(y, function(plain), atol=1e-6)
    assert np.ptp(plain) > 3


def test_attention(tmp_path: Path) -> None:
    proto = fused("Attention", ["x", "m", "n"], num_heads=2, unidirectional=1)
    (y,) = computed(tmp_path, proto)
    q, k, v = (
        part.reshape(2, 3, 2, 4).transpose(0, 2, 1, 3)
        for part in np.split(X @ floats(8, 24, seed=9) + floats(24, seed=10), 3, -1)
    )
    scores = np.where(np.tri(3, dtype=bool), q @ k.swapaxes(2, 3) / 2, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    wanted = weights / weights.sum(-1, keepdims=True) @ v
    assert np.allclose(y, wanted.transpose(0, 2, 1, 3).reshape(2, 3, 8), atol=1e-5)


def test_grid_samples(tmp_path: Path) -> None:
    """Before the standard had them."""
    grid = np.stack(np.meshgrid([-1, 0, 0.5], [-1, 1]), -1)[None].astype(np.float32)
    proto = model(
        [node("GridSample", ["x", "grid"], ["y"], domain="com.microsoft", align_corners=1)],
        {"x": [1, 3, 5, 5]}, weights={"grid": grid},
    )  # fmt: skip
    proto.opset_import.add(domain="com.microsoft", version=1)
    (y,) = computed(tmp_path, proto)
    assert np.allclose(y, IMAGE[:, :, ::4][..., [0, 2, 3]], atol=1e-6)


def test_generated_code(tmp_path: Path) -> None:
    proto, wanted = CASES["skip bias"]
    load(tmp_path, proto)
    assert np.allclose(cannery.load(tmp_path / "model.onnx")(X), wanted, atol=1e-5)


@pytest.mark.parametrize(
    ("proto", "message"),
    [
        (fused("Attention", ["x", "m", "n", "mask"], num_heads=2), "a mask or a past"),
        (fused("FusedMatMul", ["x", "s"], transBatchA=1), "batches that are transposed"),
        (fused("FusedConv", ["x", "w"], activation="Elu"), "the activation Elu"),
        (fused("Attention", ["x", "m"], num_heads=2, do_rotary=1), "attribute 'do_rotary'"),
        (fused("EmbedLayerNormalization", ["x", "m"]), "the domain 'com.microsoft'"),
    ],
)
def test_what_has_no_standard_form(proto: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match=rf"{message}.*ORT_ENABLE_BASIC"):
        load(tmp_path, proto)


def test_inputs_that_are_missing(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="needs 3 inputs"):
        load(tmp_path, fused("SkipLayerNormalization", ["x", "s"]))
    with pytest.raises(ModelError, match="needs a number of heads"):
        load(tmp_path, fused("Attention", ["x", "m"]))
