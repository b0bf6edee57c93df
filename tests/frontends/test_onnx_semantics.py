"""GridSample, windows with auto_pad where runtimes disagree: `docs/reference/semantics.md`.

Expected numbers are small enough to check by hand, or come from ONNX Runtime 1.31 and PyTorch 2.13,
which agree on them. Resize is in `test_onnx_resize.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("onnx")

from cannery.ir.evaluate import evaluate
from cannery.ir.orders import from_model, to_model
from frontends.onnx_models import floats, load, model, node

Array = NDArray[Any]


def computed(folder: Path, proto: Any, inputs: Mapping[str, Array]) -> Array:
    """What the references of its graph compute."""
    graph = load(folder, proto)
    outputs = to_model(graph, evaluate(graph, from_model(graph, inputs)))
    return np.asarray(next(iter(outputs.values())))


def one(
    kind: str, inputs: Mapping[str, Array], weights: Mapping[str, Array] | None = None,
    opset: int = 22, **attributes: Any,
) -> Any:  # fmt: skip
    """A model of one operator."""
    names = [*inputs, *(weights or {})]
    shapes = {name: x.shape for name, x in inputs.items()}
    return model([node(kind, names, ["y"], **attributes)], shapes, ("y",), weights, opset)


def as_in_onnx_runtime(proto: Any, inputs: Mapping[str, Array]) -> Array:
    """What ONNX Runtime computes; skips where it is not installed."""
    runtime = pytest.importorskip("onnxruntime")
    options = runtime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    session = runtime.InferenceSession(proto.SerializeToString(), options)
    return np.asarray(session.run(None, dict(inputs))[0])


GRIDS = [
    (mode, padding, align)
    for mode in ("linear", "nearest", "cubic")
    for padding in ("zeros", "border", "reflection")
    for align in (0, 1)
]


@pytest.mark.parametrize(("mode", "padding", "align"), GRIDS)
def test_samples_outside_are_those_of_a_larger_image(
    mode: str, padding: str, align: int, tmp_path: Path
) -> None:
    """Elements outside, one by one, not positions: of a cubic at a border, too."""
    x = floats(1, 1, 3, 4)
    grid = np.random.default_rng(1).uniform(-2, 2, (1, 5, 6, 2)).astype(np.float32)
    how = {"mode": mode, "align_corners": align}
    y = computed(
        tmp_path, one("GridSample", {"x": x, "g": grid}, padding_mode=padding, **how),
        {"x": x, "g": grid},
    )  # fmt: skip
    wide = 8
    turned = "reflect" if align else "symmetric"
    kind: Any = {"zeros": "constant", "border": "edge", "reflection": turned}[padding]
    larger = np.pad(x, ((0, 0), (0, 0), (wide, wide), (wide, wide)), kind)
    factors = [(size - align) / (size + 2 * wide - align) for size in (4, 3)]
    inner = (grid * np.asarray(factors)).astype(np.float32)
    inputs = {"x": larger, "g": inner}
    wanted = computed(tmp_path, one("GridSample", inputs, padding_mode="zeros", **how), inputs)
    assert np.allclose(y, wanted, atol=2e-5)


def test_a_cubic_at_a_border_is_that_of_pytorch(tmp_path: Path) -> None:
    x = np.asarray([1, 2, 4, 8], np.float32).reshape(1, 1, 1, 4)
    at = np.zeros((1, 1, 4, 2), np.float32)
    at[0, 0, :, 0] = [-1.1, -0.9, 1.1, 1.5]
    inputs = {"x": x, "g": at}
    proto = one("GridSample", inputs, mode="cubic", padding_mode="border")
    found = computed(tmp_path, proto, inputs).ravel()
    assert np.allclose(found, [0.95275, 0.88975, 8.189, 8], atol=1e-5)


@pytest.mark.parametrize(("opset", "rank"), [(16, 2), (20, 2), (20, 3)])
def test_grids_are_as_in_onnx_runtime(opset: int, rank: int, tmp_path: Path) -> None:
    names = {"linear": "bilinear", "cubic": "bicubic"} if opset < 20 else {}
    x = floats(1, 2, *(3, 4, 5)[:rank])
    grid = np.random.default_rng(2).uniform(-2, 2, (1, *(2, 4, 3)[:rank], rank))
    grid.reshape(-1)[:9] = [-1, 1, 0, 0.5, -0.5, 0.25, 0.75, -1, -1]  # ties and corners
    inputs = {"x": x, "g": grid.astype(np.float32)}
    for mode, padding, align in GRIDS:
        if rank == 3 and mode == "cubic":
            continue
        how = {"padding_mode": padding, "align_corners": align}
        proto = one("GridSample", inputs, opset=opset, mode=names.get(mode, mode), **how)
        wanted = as_in_onnx_runtime(proto, inputs)
        assert np.allclose(computed(tmp_path, proto, inputs), wanted, atol=2e-5), how


#: Operator, version, attributes and what becomes of 1 to 10 with kernel 2 and stride 5, by SAME:
#: windows begin at the first element, where half the negative padding would put them at the second.
NARROW = [
    ("Conv", 11, {}, [3, 13]),
    ("MaxPool", 12, {}, [2, 7]),
    ("AveragePool", 19, {}, [1.5, 6.5]),
    ("AveragePool", 19, {"ceil_mode": 1}, [1.5, 6.5]),
    ("AveragePool", 19, {"count_include_pad": 1}, [1.5, 6.5]),
    ("LpPool", 18, {}, [5**0.5, 85**0.5]),
]


@pytest.mark.parametrize("auto_pad", ["SAME_UPPER", "SAME_LOWER"])
@pytest.mark.parametrize(("kind", "opset", "more", "wanted"), NARROW)
def test_padding_is_never_negative(
    kind: str, opset: int, more: Mapping[str, int], wanted: list[float], auto_pad: str,
    tmp_path: Path,
) -> None:  # fmt: skip
    x = np.arange(1, 11, dtype=np.float32).reshape(1, 1, 10)
    weights = {"w": np.ones((1, 1, 2), np.float32)} if kind == "Conv" else None
    proto = one(
        kind, {"x": x}, weights, opset, strides=[5], kernel_shape=[2], auto_pad=auto_pad, **more
    )
    assert np.allclose(computed(tmp_path, proto, {"x": x}).ravel(), wanted)


@pytest.mark.parametrize("kind", ["MaxPool", "AveragePool", "LpPool"])
def test_dilated_windows_are_padded_for_their_whole_extent(kind: str, tmp_path: Path) -> None:
    x = np.arange(1, 7, dtype=np.float32).reshape(1, 1, 6)
    proto = one(kind, {"x": x}, kernel_shape=[2], dilations=[2], auto_pad="SAME_UPPER")
    wanted = {
        "MaxPool": [2, 3, 4, 5, 6, 5], "AveragePool": [2, 2, 3, 4, 5, 5],
        "LpPool": np.sqrt([4, 10, 20, 34, 52, 25]),
    }[kind]  # fmt: skip
    assert np.allclose(computed(tmp_path, proto, {"x": x}).ravel(), wanted)


#: auto_pad, output_shape, and what becomes of 1, 2 with a kernel of ones and stride 3.
TRANSPOSED: list[tuple[str, list[int], int, list[float]]] = [
    ("SAME_UPPER", [], 1, [1, 0, 0, 2, 0, 0]),
    ("SAME_LOWER", [], 1, [1, 0, 0, 2, 0, 0]),
    ("SAME_UPPER", [6], 2, [1, 1, 0, 2, 2, 0]),
    ("NOTSET", [6], 2, [1, 1, 0, 2, 2, 0]),
    ("SAME_UPPER", [], 4, [1, 1, 1, 3, 2, 2]),
    ("SAME_LOWER", [], 4, [1, 1, 3, 2, 2, 2]),
    ("SAME_UPPER", [], 5, [1, 1, 3, 3, 2, 2]),
]


@pytest.mark.parametrize(("auto_pad", "shape", "kernel", "wanted"), TRANSPOSED)
def test_transposed_convolutions_get_the_size_that_is_asked_for(
    auto_pad: str, shape: list[int], kernel: int, wanted: list[float], tmp_path: Path
) -> None:
    """As in Keras, whose "same" it is; what no window reaches is zero, at the end."""
    x = np.asarray([1, 2], np.float32).reshape(1, 1, 2)
    weights = {"w": np.ones((1, 1, kernel), np.float32)}
    more = {"output_shape": shape} if shape else {}
    proto = one("ConvTranspose", {"x": x}, weights, strides=[3], auto_pad=auto_pad, **more)
    assert np.array_equal(computed(tmp_path, proto, {"x": x}).ravel(), wanted)


def test_windows_are_as_in_onnx_runtime(tmp_path: Path) -> None:
    """Where windows are at least as wide as their stride."""
    for kernel, stride, size in ((2, 1, 5), (2, 2, 5), (3, 2, 6), (4, 3, 9), (3, 3, 7)):
        x = floats(1, 2, size, seed=kernel)
        how: dict[str, Any] = {"strides": [stride], "kernel_shape": [kernel]}
        weights = {"w": floats(2, 2, kernel)}
        for auto_pad in ("VALID", "SAME_UPPER", "SAME_LOWER"):
            protos = [
                one(kind, {"x": x}, weights, auto_pad=auto_pad, **how)
                for kind in ("Conv", "ConvTranspose")
            ]
            protos += [
                one(kind, {"x": x}, auto_pad=auto_pad, ceil_mode=ceil, **how)
                for kind in ("MaxPool", "AveragePool", "LpPool")
                for ceil in (0, 1)
            ]
            for proto in protos:
                wanted = as_in_onnx_runtime(proto, {"x": x})
                found = computed(tmp_path, proto, {"x": x})
                assert found.shape == wanted.shape
                assert np.allclose(found, wanted, atol=1e-5), proto.graph.node[0]
