"""`cannery.from_torch`: with PyTorch if it is installed, and the error if it is not."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

import cannery
from cannery.errors import ModelError, OptionError, ToolchainError
from needs import need_toolchain

pytestmark = pytest.mark.usefixtures("cache")


def test_without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ToolchainError, match=r"PyTorch cannot be imported.*pip install torch"):
        cannery.from_torch(object(), np.zeros((1, 3)))


@pytest.fixture
def torch() -> Any:
    need_toolchain("native")
    pytest.importorskip("onnx")
    return pytest.importorskip("torch")


def test_a_module(torch: Any) -> None:
    """Any number of samples; its dropout does nothing, and is still there afterwards."""
    module = torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3, padding=1), torch.nn.BatchNorm2d(4), torch.nn.ReLU(),
        torch.nn.Dropout(0.9), torch.nn.Flatten(), torch.nn.Linear(4 * 6 * 5, 7),
    )  # fmt: skip
    module[1].eval()
    net = cannery.from_torch(module, torch.zeros(1, 3, 6, 5), isa="generic")
    assert [part.training for part in module] == [True, False, True, True, True, True]
    assert net.name == "sequential"
    assert [port.name for port in net.outputs] == ["output"]
    x = torch.randn(4, 3, 6, 5, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        expected = module.eval()(x).numpy()
    assert np.abs(net(x) - expected).max() < 1e-5 * np.abs(expected).max()


def test_names_and_several_inputs(torch: Any) -> None:
    class Two(torch.nn.Module):  # type: ignore[misc]
        def forward(self, left: Any, right: Any) -> Any:
            return left * 2 + right, left.sum(1)

    net = cannery.from_torch(Two(), (np.zeros((1, 3), np.float32), torch.zeros(1, 3)), name="two")
    assert [port.name for port in net.inputs] == ["left", "right"]
    assert [port.name for port in net.outputs] == ["output_0", "output_1"]
    both, total = net(right=np.ones((1, 3)), left=np.full((1, 3), 2.0))
    assert both.tolist() == [[5.0] * 3]
    assert total.tolist() == [6.0]


def test_attention(torch: Any) -> None:
    """The older exporter does not know it, the newer one does."""
    pytest.importorskip("onnxscript")
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    x = torch.rand(1, 5, 8)
    net = cannery.from_torch(layer, x)
    with torch.no_grad():
        wanted = layer.eval()(x).numpy()
    np.testing.assert_allclose(net(x.numpy()), wanted, atol=1e-5)


def test_what_cannot_be_exported(torch: Any) -> None:
    class Wrong(torch.nn.Module):  # type: ignore[misc]
        def forward(self, x: Any) -> Any:
            if torch.onnx.is_in_onnx_export() or torch.compiler.is_compiling():
                raise ValueError("not today")
            return x

    with pytest.raises(ModelError, match=r"Wrong: PyTorch cannot export it.*not today"):
        cannery.from_torch(Wrong(), torch.zeros(1))


def test_an_example_of_another_shape(torch: Any) -> None:
    with pytest.raises(ModelError, match=r"Linear: it cannot compute with this example: .*shape"):
        cannery.from_torch(torch.nn.Linear(3, 2), torch.zeros(1, 4))


def test_what_is_neither_a_module_nor_an_example(torch: Any) -> None:
    with pytest.raises(OptionError, match=r"str is not a torch.nn.Module .*load the model"):
        cannery.from_torch("net.pt", torch.zeros(1))
    for example in (None, "x", (torch.zeros(1), "x")):
        with pytest.raises(OptionError, match=r"example: \w+ is not a tensor"):
            cannery.from_torch(torch.nn.ReLU(), example)


@pytest.mark.parametrize("how", ["trace", "script", "program"])
def test_torchscript_and_programs(torch: Any, how: str) -> None:
    module = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU()).eval()
    x = torch.randn(1, 3, 6, 5, generator=torch.Generator().manual_seed(1))
    if how == "program":
        pytest.importorskip("onnxscript")
        given, example = torch.export.export(module, (x,)), None
    else:
        given = torch.jit.trace(module, x) if how == "trace" else torch.jit.script(module)
        example = x
    net = cannery.from_torch(given, example, isa="generic", name="net")
    assert np.abs(net(x) - module(x).detach().numpy()).max() < 1e-6


def test_bytes_for_other_functions(torch: Any, tmp_path: Any) -> None:
    data = cannery.export_torch(torch.nn.Linear(3, 2), torch.zeros(1, 3))
    cannery.compile(data, tmp_path / "out", name="net", target="generic")
    assert (tmp_path / "out" / "net.h").is_file()
