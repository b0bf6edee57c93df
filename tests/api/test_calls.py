"""Calls of networks in Python: samples, memory that is given, arrays of other libraries."""

from __future__ import annotations

import array
import copy
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cannery
from cannery.api import arrays, direct
from cannery.api.net import Net
from cannery.api.store import restored
from cannery.errors import OptionError, ToolchainError
from frontends import onnx_models as m
from tiny_models import tiny_image


@pytest.fixture
def net(model: Path) -> Net:
    return cannery.load(model)


def one_by_one(net: Net, images: Any) -> Any:
    """Of each image what it gives alone."""
    return np.concatenate([net(image) for image in images])


class Foreign:
    """An array of another library, which has DLPack and nothing else."""

    def __init__(self, values: Any) -> None:
        self._values = values

    def __dlpack__(self, **given: Any) -> Any:
        return self._values.__dlpack__(**given)

    def __dlpack_device__(self) -> Any:
        return self._values.__dlpack_device__()


class WithProtocol:
    """An array of another library, which has numpy's array protocol."""

    def __init__(self, values: Any) -> None:
        self._values = values

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self._values


class Elsewhere(WithProtocol):
    """One in the memory of a graphics card."""

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise TypeError("can't convert cuda:0 device type tensor to numpy")


def test_exact_arrays_take_the_short_way(net: Net, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = net(tiny_image().tolist() and tiny_image().astype(np.float64))
    monkeypatch.setattr("cannery.api.net.read_inputs", lambda *_: pytest.fail("the long way"))
    assert np.array_equal(net(tiny_image()), expected)
    out = np.empty_like(expected)
    assert net(tiny_image(), out=out) is out
    assert np.array_equal(out, expected)
    assert np.array_equal(net(tiny_image()[0]), expected)
    assert np.array_equal(net(image=tiny_image()), expected)
    several = net(np.repeat(tiny_image(), 3, axis=0))
    assert np.array_equal(several, np.repeat(expected, 3, axis=0))
    assert net(tiny_image(0, 3), out=several) is several
    assert net(tiny_image(0, 0)).shape == (0, 8, 8, 4)


def test_addresses_are_those_of_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the quick way and in the plain one, which other Pythons take."""
    frozen = np.arange(5.0)
    frozen.flags.writeable = False
    for each in (frozen, frozen[2:], np.zeros((3, 4), np.uint8)[1:], np.empty(0)):
        assert arrays.pointer(each).value == each.ctypes.data
        assert arrays._plain_pointer(each).value == each.ctypes.data
    monkeypatch.setattr(arrays, "_ADDRESS_AT", arrays._ADDRESS_AT + 8)
    assert arrays._find_pointer() is arrays._plain_pointer


def test_calls_let_other_threads_work(net: Net) -> None:
    """A function of ctypes.PyDLL would hold Python's lock: its type has the flag 4."""
    assert not type(net._run)._flags_ & 4


@pytest.mark.parametrize("count", [0, 1, 2, 7])
@pytest.mark.parametrize("options", [{}, {"many": 4}, {"threads": 3}, {"input_view": "image"}])
def test_any_number_of_samples(model: Path, count: int, options: dict[str, Any]) -> None:
    net = cannery.load(model, **options)
    images = tiny_image(3, count)
    found = net(images)
    assert found.shape == (count, 8, 8, 4)
    if count:
        assert np.array_equal(found, one_by_one(net, images))
    out = np.empty_like(found)
    assert net(images, out=out) is out
    assert np.array_equal(out, found)
    stacked = net(images[:, np.newaxis])
    assert np.array_equal(stacked, found[:, np.newaxis])


def test_samples_of_a_larger_batch(model: Path) -> None:
    net = cannery.load(model, batch=2)
    images = tiny_image(3, 6)
    assert np.array_equal(net(images), one_by_one(cannery.load(model), images))
    with pytest.raises(OptionError, match=r"shape \(5, 8, 8, 1\); \(2, 8, 8, 1\) is needed, or"):
        net(images[:5])


def two(tmp_path: Path) -> Path:
    """A network of two inputs and two outputs, of which one is a sum over everything."""
    nodes = [
        m.node("Add", ["a", "b"], ["sum"]),
        m.node("ReduceMax", ["sum"], ["most"], keepdims=0),
    ]
    shapes = {"a": [1, 3], "b": [1, 3]}
    return m.write(tmp_path / "two.onnx", m.model(nodes, shapes, {"sum": [1, 3], "most": []}))


def test_several_inputs_and_outputs(tmp_path: Path, model: Path) -> None:
    net = cannery.load(two(tmp_path), isa="generic")
    a, b = np.arange(12, dtype=np.float32).reshape(2, 2, 3)
    total, most = net(a, b)
    assert np.array_equal(total, a + b)
    assert np.array_equal(most, (a + b).max(axis=1))
    for wrong in ({"b": b, "c": b}, {"c": b}, {"a": b}, {}):
        with pytest.raises(OptionError, match=r"is not an input|is given twice|is missing"):
            net(a[:1], **wrong)
    assert np.array_equal(net(b=b[:1], a=a[:1])[0], a[:1] + b[:1])
    single = net(a[0], b=b[0])
    assert [y.shape for y in single] == [(1, 3), ()]
    out = np.empty((2, 3), np.float32)
    first, second = net(a, b, out=[out, None])
    assert first is out
    assert np.array_equal(second, most)
    with pytest.raises(OptionError, match="inputs hold 1 sample, 2 samples"):
        net(a, b[:1])
    with pytest.raises(OptionError, match="out= has 1 arrays, there are 2"):
        net(a, b, out=out)
    with pytest.raises(OptionError, match="would be overwritten"):
        net(a, b, out=[b, None])


def test_memory_that_does_not_fit(net: Net) -> None:
    image = np.zeros((1, 8, 8, 4), np.float32)
    frozen = image.copy()
    frozen.flags.writeable = False
    for wrong, message in (
        (image.astype(np.float64), "out= is float64 of shape"),
        (image[:, :4], "shape .*with gaps|out= is float32 of shape"),
        (np.zeros((1, 8, 8, 8), np.float32)[..., ::2], "with gaps"),
        (frozen, "read-only"),
        (image.tolist(), "list, whose memory is read-only"),
    ):
        with pytest.raises(OptionError, match=message):
            net(tiny_image(), out=wrong)


def test_an_output_on_an_input(model: Path) -> None:
    """Also where the call is the shortest."""
    memory = np.zeros(8 * 8 * 5, np.float32)
    image, out = memory[:64].reshape(1, 8, 8, 1), memory[60:316].reshape(1, 8, 8, 4)
    net = cannery.load(model)
    with pytest.raises(OptionError, match="would be overwritten"):
        net(image, out=out)
    beside = memory[64:].reshape(1, 8, 8, 4)
    assert net(image, out=beside) is beside
    memory = np.zeros(8 * 8 * 10, np.float32)
    images, out = memory[:128].reshape(2, 8, 8, 1), memory[127:639].reshape(2, 8, 8, 4)
    with pytest.raises(OptionError, match="would be overwritten"):
        net(images, out=out)
    beside = memory[128:].reshape(2, 8, 8, 4)
    assert net(images, out=beside) is beside


def test_arrays_of_other_libraries(net: Net) -> None:
    image = tiny_image()
    expected = net(image)
    given = (
        Foreign(image), WithProtocol(image), image.tolist(), memoryview(image),
        array.array("f", image.ravel()),
    )  # fmt: skip
    for each in given[:-1]:
        assert np.array_equal(net(each), expected)
    with pytest.raises(OptionError, match=r"shape \(64,\)"):
        net(given[-1])
    with pytest.raises(OptionError, match="Elsewhere is not an array: can't convert cuda"):
        net(Elsewhere(image))
    out = np.empty_like(expected)
    for memory in (Foreign(out), memoryview(out)):
        out[:] = 0
        assert net(image, out=memory) is memory
        assert np.array_equal(out, expected)
    assert np.array_equal(np.from_dlpack(Foreign(net(image))), expected)


def test_tensors_of_torch(net: Net) -> None:
    torch = pytest.importorskip("torch")
    expected = net(tiny_image())
    image = torch.from_numpy(tiny_image()).requires_grad_()
    out = torch.zeros(1, 8, 8, 4)
    assert net(image, out=out) is out
    assert np.array_equal(out.numpy(), expected)


def test_arrays_of_jax(net: Net) -> None:
    numpy = pytest.importorskip("jax.numpy")
    assert np.array_equal(net(numpy.asarray(tiny_image())), net(tiny_image()))


def test_what_it_looks_like(net: Net) -> None:
    assert repr(net) == ("<cannery.Net tiny: image float32[1x8x8x1] -> scores float32[1x8x8x4]>")


def test_a_copy_is_the_network_itself(net: Net) -> None:
    assert copy.copy(net) is net
    assert copy.deepcopy({"net": net})["net"] is net


@pytest.mark.parametrize("threads", [1, 2])
def test_pickled_for_another_process(model: Path, tmp_path: Path, threads: int) -> None:
    """One that has neither the model nor the library in its cache."""
    net = cannery.load(model, threads=threads)
    pickle.loads(pickle.dumps(net))
    (tmp_path / "net").write_bytes(pickle.dumps(net))
    tiny_image(1, 3).tofile(tmp_path / "image")
    program = (
        "import numpy as np, pickle, sys\n"
        "net = pickle.load(open('net', 'rb'))\n"
        "x = np.fromfile('image', np.float32).reshape(3, 8, 8, 1)\n"
        "print(repr(net), net.threads, net(x).tobytes().hex(), sep='|')\n"
        "assert 'cannery.pipeline' not in sys.modules\n"
    )
    paths = os.pathsep.join(str(Path(p).absolute()) for p in sys.path if p)
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True,
        env={**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache"), "PYTHONPATH": paths},
    )  # fmt: skip
    expected = (repr(net), str(threads), net(tiny_image(1, 3)).tobytes().hex())
    assert done.stdout.strip().split("|") == list(expected)


def test_pickled_for_another_processor(model: Path) -> None:
    net = cannery.load(model)
    data, interface, threads = net.__reduce__()[1]
    for other in ({"needs": ("warp_drive",)}, {"machine": "Plan9 m68k 32 bit"}):
        with pytest.raises(ToolchainError, match="made for another machine"):
            restored(data, interface._replace(**other), threads)


def test_networks_without_a_short_way(tmp_path: Path, model: Path) -> None:
    net = cannery.load(two(tmp_path), isa="generic")
    a = np.ones((1, 3), np.float32)
    there = net._interface
    call = direct.make_direct(net._run, there.inputs, there.outputs, net._workspace)
    assert call((a, a[:, ::-1]), None) is None
    assert call((a,), None) is None
    assert [y.tolist() for y in call((a, a), None)] == [[[2.0] * 3], 2.0]
