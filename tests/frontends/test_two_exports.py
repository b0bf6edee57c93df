"""Exports of one network, Keras, ONNX, TensorFlow Lite and PyTorch, give the same graph after the
passes.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cannery
from cannery.errors import CanneryError
from cannery.frontends import load_graph
from cannery.ir.evaluate import evaluate
from cannery.ir.graph import Graph
from cannery.ir.registry import Op
from cannery.ir.tensor import DType, TensorType
from cannery.passes import run_passes
from frontends.exported_networks import FOLDER, OTHERWISE, UNREAD, names, suffixes

#: Operators whose inputs may come in either order.
EITHER = ("Add", "Mul", "Max", "Min")


class Pair:
    """Two graphs, walked from their outputs to their inputs at the same time."""

    def __init__(self, a: Graph, b: Graph) -> None:
        self.graphs = (a, b)
        self.known: dict[tuple[str, str], bool] = {}

    def same(self, x: str, y: str) -> bool:
        """Whether two values are computed alike, from inputs at the same place."""
        if (x, y) not in self.known:
            self.known[x, y] = self._same(x, y)
        return self.known[x, y]

    def _same(self, x: str, y: str) -> bool:
        a, b = self.graphs
        if not x or not y or x in a.inputs or y in b.inputs:
            return bool(not x and not y) or (
                x in a.inputs and y in b.inputs and a.inputs.index(x) == b.inputs.index(y)
            )
        if x in a.constants or y in b.constants:
            return x in a.constants and y in b.constants and close(a.constants[x], b.constants[y])
        if a.types[x] != b.types[y]:
            return False
        first, second = a.producer(x), b.producer(y)
        assert first and second
        if not alike(first.op, second.op) or len(first.inputs) != len(second.inputs):
            return False
        orders = [second.inputs]
        if first.op.kind in EITHER:
            orders.append(second.inputs[::-1])
        return any(all(map(self.same, first.inputs, order)) for order in orders)


def close(a: Any, b: Any) -> bool:
    return bool(a.shape == b.shape and np.allclose(a, b, rtol=1e-5, atol=1e-6))


def alike(a: Op, b: Op) -> bool:
    """Whether operators have the same attributes, numbers up to rounding."""
    if type(a) is not type(b):
        return False
    for field in dataclasses.fields(a):
        left, right = getattr(a, field.name), getattr(b, field.name)
        numbers = isinstance(left, float) and isinstance(right, float)
        if not (np.isclose(left, right, rtol=1e-5) if numbers else left == right):
            return False
    return True


def graph(name: str, suffix: str = "keras") -> Graph:
    pytest.importorskip({"onnx": "onnx", "tflite": "tflite"}.get(suffix, "h5py"))
    return run_passes(load_graph(FOLDER / f"{name}.{suffix}"))


PAIRS = [(name, suffix) for name in names() for suffix in suffixes(name)]


@pytest.mark.parametrize(("name", "suffix"), PAIRS)
def test_the_same_graph(name: str, suffix: str) -> None:
    a, b = graph(name), graph(name, suffix)
    pair = Pair(a, b)
    assert len(a.outputs) == len(b.outputs)
    same = all(pair.same(x, y) for x, y in zip(a.outputs, b.outputs, strict=True))
    alike = same and len(a.nodes) == len(b.nodes)
    assert alike != ((name, suffix) in OTHERWISE)


@pytest.mark.parametrize(("name", "suffix"), PAIRS)
def test_the_same_results(name: str, suffix: str) -> None:
    a, b = graph(name), graph(name, suffix)
    given = [random_input(a.types[x]) for x in a.inputs]
    wanted, found = (evaluate(g, dict(zip(g.inputs, given, strict=True))) for g in (a, b))
    for y, r in zip(found.values(), wanted.values(), strict=True):
        np.testing.assert_allclose(y, r, atol=1e-6 * np.abs(r).max())


def random_input(type_: TensorType) -> Any:
    rng = np.random.default_rng(1)
    if type_.dtype is DType.FLOAT32:
        return rng.standard_normal(type_.shape)
    return rng.integers(0, 9, type_.shape).astype(type_.dtype.numpy)


#: Networks whose exported programs are tried in every run: each takes PyTorch some seconds.
FIRST = ("mlp", "smooth")


@pytest.mark.parametrize(
    "name", [n if n in FIRST else pytest.param(n, marks=pytest.mark.slow) for n in names()]
)
def test_the_same_graph_by_pytorch(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keras' layers as a module of PyTorch, exported as a program."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("onnxscript")
    monkeypatch.setenv("KERAS_BACKEND", "torch")
    keras = pytest.importorskip("keras")
    if keras.backend.backend() != "torch":
        pytest.skip("Keras runs on another backend here")
    file = tmp_path / "net.pt2"
    torch.export.save(exported_program(torch, keras, name), file)
    if OTHERWISE.get((name, "pt2")) == UNREAD:
        with pytest.raises(CanneryError, match="different dtypes"):
            load_graph(file)
        return
    a, b = graph(name), run_passes(load_graph(file))
    pair = Pair(a, b)
    same = all(pair.same(x, y) for x, y in zip(a.outputs, b.outputs, strict=True))
    assert (same and len(a.nodes) == len(b.nodes)) != ((name, "pt2") in OTHERWISE)


def exported_program(torch: Any, keras: Any, name: str) -> Any:
    """A stored network of Keras as an exported program of PyTorch."""
    model = keras.saving.load_model(FOLDER / f"{name}.keras", compile=False)

    class Network(torch.nn.Module):  # type: ignore[misc,name-defined]
        """Takes inputs one by one."""

        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, *inputs: Any) -> Any:
            """The outputs."""
            return self.model(list(inputs) if len(inputs) > 1 else inputs[0])

    zeros = [
        torch.zeros((1, *x.shape[1:]), dtype=getattr(torch, str(x.dtype))) for x in model.inputs
    ]
    return torch.export.export(Network().eval(), tuple(zeros))


def test_pytorch_by_both_of_its_exporters(tmp_path: Path) -> None:
    """A module through TorchScript, and as an exported program in a file."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("onnxscript")
    module = torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3, padding=1), torch.nn.BatchNorm2d(4), torch.nn.ReLU(),
        torch.nn.MaxPool2d(2), torch.nn.Flatten(), torch.nn.Linear(4 * 9, 5), torch.nn.Softmax(1),
    ).eval()  # fmt: skip
    x = torch.zeros(1, 3, 6, 6)
    (tmp_path / "net.onnx").write_bytes(cannery.export_torch(module, x))
    torch.export.save(torch.export.export(module, (x,)), tmp_path / "net.pt2")
    a, b = (run_passes(load_graph(tmp_path / name)) for name in ("net.onnx", "net.pt2"))
    assert len(a.nodes) == len(b.nodes)
    assert Pair(a, b).same(a.outputs[0], b.outputs[0])


def test_other_networks_are_not_the_same() -> None:
    a, b = graph("mlp"), graph("deep")
    assert not Pair(a, b).same(a.outputs[0], b.outputs[0])
    changed = {k: v * 1.01 for k, v in a.constants.items()}
    b = dataclasses.replace(a, constants=changed)
    assert not Pair(a, b).same(a.outputs[0], b.outputs[0])
