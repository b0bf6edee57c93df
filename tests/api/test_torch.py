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


def floors(torch: Any) -> Any:
    """PyTorch's older exporter truncates this."""

    class Floors(torch.nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, x: Any) -> Any:
            return x // 0.3

    return Floors()


def test_what_is_exported_wrongly_is_exported_by_the_newer_exporter(torch: Any) -> None:
    pytest.importorskip("onnxscript")
    net = cannery.from_torch(floors(torch), torch.zeros(1, 3), isa="generic")
    assert net(np.array([[-1.0, -0.1, 1.0]], np.float32)).tolist() == [[-4, -1, 3]]


def test_what_is_exported_wrongly_is_an_error(torch: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    module, x = floors(torch), torch.zeros(1, 3)
    with pytest.raises(ModelError, match=r"exports it wrongly: output 'output' .*the module itse"):
        cannery.from_torch(torch.jit.trace(module, x), x)
    monkeypatch.setattr("cannery.api.torch._exported_newer", lambda *_: None)
    with pytest.raises(ModelError, match=r"Floors: PyTorch exports it wrongly: .*look for"):
        cannery.from_torch(module, x)


def test_one_tensor_as_two_inputs(torch: Any) -> None:
    """The newer exporter takes them for one."""
    pytest.importorskip("onnxscript")
    x = torch.rand(2, 3)
    net = cannery.from_torch(torch.nn.Bilinear(3, 3, 2).eval(), (x, x), isa="generic")
    assert len(net.inputs) == 2


def test_buffers_stay_what_they_are(torch: Any) -> None:
    class Counts(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("runs", torch.zeros(1))

        def forward(self, x: Any) -> Any:
            self.runs += 1
            return x * 2

    module = Counts()
    cannery.export_torch(module, torch.zeros(1, 3))
    assert module.runs.tolist() == [0]


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
    given = ((7, "load the model"), ({"w": 1}, "load_state_dict"), ("net.pt2", "cannery.load"))
    for wrong, cure in given:
        with pytest.raises(
            OptionError, match=rf"{type(wrong).__name__} is not a .*Module .*{cure}"
        ):
            cannery.from_torch(wrong, torch.zeros(1))
    with pytest.raises(OptionError, match=r"no example of the input.*torch.zeros"):
        cannery.from_torch(torch.nn.ReLU())
    for example in ("x", (torch.zeros(1), "x")):
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
