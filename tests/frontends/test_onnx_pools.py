"""Pools whose windows exceed the padded input: as many windows, and as much in them, as expected.

The expectation is written out window by window; where ONNX Runtime is installed, it is asked, too.
"""

from __future__ import annotations

import importlib.util
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from cannery.errors import ModelError
from cannery.frontends import load_graph
from cannery.ir.evaluate import evaluate
from cannery.ir.orders import from_model, to_model
from frontends.onnx_models import floats, load, model, node, write

Floats = NDArray[np.float64]


def windows(size: int, kernel: int, stride: int, pads: tuple[int, int], ceil: bool) -> int:
    """As ONNX Runtime counts: a quotient that is negative is rounded towards 0."""
    span = size + sum(pads) - kernel
    count = -(-span // stride) + 1 if ceil else int(span / stride) + 1
    return count - (ceil and (count - 1) * stride >= size + pads[0])


def pooled(x: Floats, kind: str, attributes: dict[str, Any]) -> Floats:
    """x[C,*S], one window after the other."""
    kernel, strides = attributes["kernel_shape"], attributes["strides"]
    rank, flat = len(kernel), attributes["pads"]
    pads = list(zip(flat[:rank], flat[rank:], strict=True))
    ceil = bool(attributes["ceil_mode"])
    sizes = [windows(*axis, ceil) for axis in zip(x.shape[1:], kernel, strides, pads, strict=True)]
    y = np.zeros((x.shape[0], *sizes))
    for at in product(*map(range, sizes)):
        begins = [o * s - b for o, s, (b, _) in zip(at, strides, pads, strict=True)]
        axes = list(zip(begins, kernel, x.shape[1:], pads, strict=True))
        inside = x[(slice(None), *(slice(max(b, 0), b + k) for b, k, _, _ in axes))]
        inside = inside.reshape(x.shape[0], -1)
        if kind == "MaxPool":
            y[(slice(None), *at)] = inside.max(axis=1)
        elif kind == "LpPool":
            y[(slice(None), *at)] = np.sqrt((inside**2).sum(axis=1))
        else:
            padded = np.prod([min(b + k, d + e) - b for b, k, d, (_, e) in axes])
            count = padded if attributes["count_include_pad"] else inside.shape[1]
            y[(slice(None), *at)] = inside.sum(axis=1) / count
    return y


def by_onnx_runtime(proto: Any, x: NDArray[np.float32]) -> NDArray[Any] | None:
    if importlib.util.find_spec("onnxruntime") is None:
        return None
    import onnxruntime

    session = onnxruntime.InferenceSession(
        proto.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return np.asarray(session.run(None, {"x": x})[0])


@st.composite
def pools(draw: st.DrawFn) -> tuple[str, list[int], dict[str, Any]]:
    """A pool with at least one window, one of which exceeds the padded input along some axis."""
    kind = draw(st.sampled_from(["MaxPool", "AveragePool", "LpPool"]))
    sizes, kernel, strides, begins, ends = [], [], [], [], []
    for axis in range(draw(st.integers(1, 3))):
        size, stride = draw(st.integers(1, 6)), draw(st.integers(1 + (axis == 0), 4))
        begin, end = draw(st.integers(0, 2)), draw(st.integers(0, 2))
        span = draw(st.integers(1 - stride, -1 if axis == 0 else min(3, size - 1)))
        sizes.append(size)
        strides.append(stride)
        begins.append(begin)
        ends.append(end)
        kernel.append(size + begin + end - span)
    assume(all(max(b, e) < k for b, e, k in zip(begins, ends, kernel, strict=True)))
    attributes = {
        "kernel_shape": kernel, "strides": strides, "pads": [*begins, *ends],
        "ceil_mode": draw(st.integers(0, 1)),
    }  # fmt: skip
    if kind == "AveragePool":
        attributes["count_include_pad"] = draw(st.integers(0, 1))
    return kind, sizes, attributes


@settings(max_examples=60, derandomize=True)
@given(pools())
def test_windows_that_exceed_the_padded_input(
    tmp_path_factory: pytest.TempPathFactory, pool: tuple[str, list[int], dict[str, Any]]
) -> None:
    kind, sizes, attributes = pool
    proto = model([node(kind, ["x"], ["y"], **attributes)], {"x": (1, 2, *sizes)}, opset=22)
    graph = load_graph(write(tmp_path_factory.getbasetemp() / "pool.onnx", proto))
    x = floats(1, 2, *sizes)
    (y,) = to_model(graph, evaluate(graph, from_model(graph, {"x": x}))).values()
    wanted = pooled(x[0].astype(np.float64), kind, attributes)
    assert y[0].shape == wanted.shape
    assert np.allclose(y[0], wanted)
    judge = by_onnx_runtime(proto, x)
    assert judge is None or (judge.shape == y.shape and np.allclose(judge, y, atol=1e-5))


@pytest.mark.parametrize("ceil", [0, 1])
@pytest.mark.parametrize("kind", ["MaxPool", "AveragePool", "LpPool"])
def test_windows_that_exceed_it_by_a_stride_leave_nothing(
    kind: str, ceil: int, tmp_path: Path
) -> None:
    attributes = {"kernel_shape": [6], "strides": [2], "ceil_mode": ceil}
    proto = model([node(kind, ["x"], ["y"], **attributes)], {"x": (1, 2, 4)}, opset=22)
    with pytest.raises(ModelError, match="spans 6, more than the padded input 4"):
        load_graph(write(tmp_path / "m.onnx", proto))


def test_errors_name_the_node_and_its_operator(tmp_path: Path) -> None:
    """Not what it is made of, and also what the node itself is called."""
    pool = node("LpPool", ["x"], ["y"], kernel_shape=[9, 9], name="head/pool")
    message = r"node 'y' \(LpPool, 'head/pool'\): kernel 9 .* spans 9"
    with pytest.raises(ModelError, match=message) as caught:
        load(tmp_path, model([pool], {"x": [1, 2, 4, 4]}))
    assert "AveragePool" not in str(caught.value)
