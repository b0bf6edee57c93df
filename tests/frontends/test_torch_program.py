"""Exported programs of PyTorch: what they compute, and what is never done with them."""

from __future__ import annotations

import json
import pickle
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cannery.errors import CanneryError, ModelError, OptionError, ToolchainError, UnsupportedError
from cannery.frontends import load_graph
from cannery.frontends.options import ImportOptions
from cannery.frontends.torch_sizes import is_size
from cannery.ir.evaluate import evaluate

NODE = {"target": "torch.ops.aten.relu.default", "inputs": [], "outputs": []}


def written(path: Path, node: dict[str, Any], **members: bytes) -> Path:
    """An archive like that of an exported program with one node."""
    program = {"graph_module": {"graph": {"nodes": [node]}}, "guards_code": ["raise Trap"]}
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("m/archive_format", "pt2")
        archive.writestr("m/models/model.json", json.dumps(program))
        for name, content in members.items():
            archive.writestr(f"m/{name}", content)
    return path


def test_without_torch(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ToolchainError, match="pip install torch onnx onnxscript"):
        load_graph(written(tmp_path / "m", NODE))


@pytest.mark.parametrize(
    "target",
    ["torch.os.system", "torch.hub.load", "_operator.methodcaller", "torch.ops.load_library",
     "torch.ops.aten.relu.default.__class__", "#mine:f", "os.system", "math.__loader__.load"],
)  # fmt: skip
def test_functions_that_are_no_operators_are_refused(target: str, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="is no operator"):
        load_graph(written(tmp_path / "m", {**NODE, "target": target}))


@pytest.mark.parametrize(
    "size",
    ["__import__('os')", "eval(s0)", "s0.func", 7, "s0" * 99, "9**9**9", "Symbol('open(1)')",
     "Symbol('s0', cls=eval)", "Integer('9')", "Pow(Integer(9), Integer(999999))", "(" * 9999,
     "Pow(Integer(9), Pow(Integer(9), Integer(9)))", "[s0]", "s0 + x", "Mul(*s0)", "Lambda(s0, s0)",
     "Integer(" + "9" * 30 + ")", "Mul(s0, evaluate=False)", "1.5", "'s0'"],
)  # fmt: skip
def test_sizes_are_sums_and_products(size: Any, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="has the size"):
        load_graph(written(tmp_path / "m", {**NODE, "metadata": [{"expr_str": size}]}))


@pytest.mark.parametrize(
    "size",
    ["s0", "2*s0 + 1", "u12", "(s0 - 1)//2", "Integer(-3)", "Symbol('s40', positive=True)",
     "Add(Integer(1), FloorDiv(Add(Symbol('s0', integer=True), Integer(-1)), Integer(2)))",
     "Pow(Symbol('s0', integer=True), Integer(2))", "Max(s0, Rational(1, 2))",
     "GreaterThan(s0, Integer(2))", "true"],
)  # fmt: skip
def test_sizes_of_programs(size: str) -> None:
    assert is_size(size)


def test_objects_of_other_classes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="never loaded"):
        load_graph(written(tmp_path / "m", NODE, **{"data/constants/custom_obj_0": b""}))


def test_an_archive_that_is_cut_off(tmp_path: Path) -> None:
    path = written(tmp_path / "m", NODE)
    path.write_bytes(path.read_bytes()[:300])
    with pytest.raises(ModelError, match="damaged or truncated"):
        load_graph(path)


class Trap:
    """Says when it is unpickled."""

    def __reduce__(self) -> Any:
        return (open, (str(Trap.path), "w"))

    path: Path


@pytest.fixture
def torch() -> Any:
    pytest.importorskip("onnxscript")
    return pytest.importorskip("torch")


@pytest.fixture
def saved(torch: Any, tmp_path: Path) -> Path:
    """A network with an open batch."""
    module = torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.Tanh(), torch.nn.Linear(5, 2))
    path = tmp_path / "net.pt2"
    program = torch.export.export(module.eval(), (torch.ones(1, 3),))
    torch.export.save(program, path)
    np.savez(tmp_path / "out.npz", y=module(torch.ones(1, 3)).detach().numpy())
    return path


def test_a_network(saved: Path, tmp_path: Path) -> None:
    graph = load_graph(saved)
    (name,) = graph.inputs
    (y,) = evaluate(graph, {name: np.ones((1, 3), np.float32)}).values()
    np.testing.assert_allclose(y, np.load(tmp_path / "out.npz")["y"], atol=1e-6)


def test_open_dimensions(torch: Any, tmp_path: Path) -> None:
    """Sizes that depend on them are computed, and a dimension without a value is an error."""
    module = torch.nn.Sequential(torch.nn.Conv1d(2, 4, 3, stride=2, padding=1), torch.nn.ReLU())
    path, auto = tmp_path / "net.pt2", torch.export.Dim.AUTO
    sizes = ({0: auto, 2: auto},)
    program = torch.export.export(module.eval(), (torch.ones(3, 2, 9),), dynamic_shapes=sizes)
    torch.export.save(program, path)
    (x,) = (node for node in program.graph.nodes if node.name == "input")
    batch, _, time = map(str, x.meta["val"].shape)
    with pytest.raises(CanneryError, match=f"--dim {time}=n"):
        load_graph(path)
    graph = load_graph(path, ImportOptions(dims={batch: 2, time: 13}))
    (name,) = graph.inputs
    given = np.linspace(-1, 1, 52, dtype=np.float32).reshape(2, 2, 13)
    (y,) = evaluate(graph, {name: given}).values()
    with torch.no_grad():
        expected = module(torch.from_numpy(given)).numpy()
    np.testing.assert_allclose(y, expected, atol=1e-6)


@pytest.mark.parametrize("size", [5, 10, 11, 40, 41])
def test_sizes_that_were_not_exported(torch: Any, size: int, tmp_path: Path) -> None:
    """With other ones, the module takes another branch."""

    class Branch(torch.nn.Module):  # type: ignore[misc]
        def forward(self, x: Any) -> Any:
            return 2 * x if x.shape[1] > 10 else x - 1

    path, time = tmp_path / "net.pt2", torch.export.Dim("time", min=11, max=40)
    program = torch.export.export(Branch(), (torch.ones(1, 20),), dynamic_shapes=({1: time},))
    torch.export.save(program, path)
    (name,) = map(str, program.range_constraints)
    options = ImportOptions(dims={name: size})
    if 11 <= size <= 40:
        assert load_graph(path, options).types["x"].shape == (1, size)
        return
    with pytest.raises(OptionError, match=f"--dim: axis 1 of 'x', {name}, is {size}.* 11 to 40"):
        load_graph(path, options)


def changed(path: Path, member: str, change: Callable[[bytes], bytes]) -> Path:
    """The archive with another member."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, change(content) if name.endswith(member) else content)
    return path


def test_nothing_is_unpickled_but_tensors(saved: Path, tmp_path: Path) -> None:
    Trap.path = tmp_path / "sprung"
    inner = tmp_path / "inner"
    with zipfile.ZipFile(inner, "w") as archive:
        archive.writestr("a/data.pkl", pickle.dumps(Trap()))
        archive.writestr("a/version", "3")
    path = changed(saved, "data/sample_inputs/model.pt", lambda _: inner.read_bytes())
    with pytest.raises(CanneryError, match="PyTorch cannot export it"):
        load_graph(path)
    assert not Trap.path.exists()


def test_python_in_a_program_is_left_out(saved: Path, tmp_path: Path) -> None:
    trap = tmp_path / "sprung"

    def add(text: bytes) -> bytes:
        return json.dumps(
            {**json.loads(text), "guards_code": [f"open({str(trap)!r}, 'w')"]}
        ).encode()

    assert load_graph(changed(saved, "models/model.json", add)).outputs
    assert not trap.exists()


def test_distances_of_all_pairs(tmp_path: Path) -> None:
    """PyTorch's exporter has no form of cdist; of `torch.special.i1` neither, which is an error."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("onnxscript")

    class Nearest(torch.nn.Module):  # type: ignore[misc,name-defined]
        """Distances to known points, or a function without a form in ONNX."""

        def __init__(self, odd: bool) -> None:
            super().__init__()
            self.odd = odd
            self.points = torch.arange(12.0).view(4, 3) / 5

        def forward(self, x: Any) -> Any:
            """From each row of x."""
            return torch.special.i1(x) if self.odd else torch.cdist(x, self.points)

    x = torch.arange(6.0).view(2, 3) - 2
    for odd in (False, True):
        module, file = Nearest(odd).eval(), tmp_path / "net.pt2"
        torch.export.save(torch.export.export(module, (x,)), file)
        if odd:
            with pytest.raises(ModelError, match=r"for prims.bessel_i1 .*custom_translation_table"):
                load_graph(file)
            continue
        graph = load_graph(file)
        (y,) = evaluate(graph, {graph.inputs[0]: x.numpy()}).values()
        assert np.allclose(y, module(x).numpy(), atol=1e-5)
