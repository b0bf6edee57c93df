"""Pools whose windows exceed the padded input: as many windows, and as much in them, as expected.

The expectation is written out window by window; where ONNX Runtime is installed, it is asked, too.
Attributes that differ along each axis and at each of its ends are judged by ONNX's own interpreter.
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
from frontends.onnx_models import assert_as_onnx, floats, load, model, node, write

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


#: Sizes, kernels, strides, begins, ends and dilations of three axes; none is symmetric, and no two
#: are alike.
AXES = ((9, 4, 2, 1, 2, 1), (8, 3, 1, 2, 0, 2), (11, 5, 3, 0, 3, 1))

KINDS: list[tuple[str, dict[str, Any], list[str]]] = [
    ("MaxPool", {}, ["y"]),
    ("MaxPool", {"storage_order": 0}, ["y", "places"]),
    ("MaxPool", {"storage_order": 1}, ["y", "places"]),
    ("AveragePool", {"count_include_pad": 0}, ["y"]),
    ("AveragePool", {"count_include_pad": 1}, ["y"]),
    *[("LpPool", {"p": p}, ["y"]) for p in (1, 2, 3)],
]


@pytest.mark.parametrize("axes", [AXES[:1], AXES[2:], AXES[:2], AXES[2:0:-1], AXES])
@pytest.mark.parametrize(("kind", "more", "outputs"), KINDS)
def test_each_axis_has_its_own_begin_and_end(
    kind: str, more: dict[str, Any], outputs: list[str], axes: Any, tmp_path: Path
) -> None:
    """As they are, and with begins and ends exchanged."""
    sizes, kernel, strides, begins, ends, dilations = zip(*axes, strict=True)
    given = {"kernel_shape": kernel, "strides": strides, "dilations": dilations, **more}
    for pads in ([*begins, *ends], [*ends, *begins]):
        pool = node(kind, ["x"], outputs, pads=pads, **given)
        proto = model([pool], {"x": (1, 2, *sizes)}, outputs, opset=22)
        assert_as_onnx(proto, load(tmp_path, proto))


@pytest.mark.parametrize("side", ["SAME_UPPER", "SAME_LOWER"])
@pytest.mark.parametrize("axes", [AXES[:1], AXES[:2], AXES])
@pytest.mark.parametrize(("kind", "more", "outputs"), KINDS)
def test_each_axis_has_its_own_padding_to_the_same_size(
    kind: str, more: dict[str, Any], outputs: list[str], axes: Any, side: str, tmp_path: Path
) -> None:
    """Where it is odd, one more at the side that is asked for. The judge is given these pads: its
    own MaxPool computes another size with SAME_LOWER.
    """
    sizes, kernel, strides, *_ = zip(*axes, strict=True)
    rows = zip(sizes, kernel, strides, strict=True)
    totals = [(-(-d // s) - 1) * s + k - d for d, k, s in rows]
    assert any(total % 2 for total in totals)
    less, rest = [t // 2 for t in totals], [t - t // 2 for t in totals]
    pads = [*less, *rest] if side == "SAME_UPPER" else [*rest, *less]
    given, shape = {"kernel_shape": kernel, "strides": strides, **more}, {"x": (1, 2, *sizes)}
    same = model([node(kind, ["x"], outputs, auto_pad=side, **given)], shape, outputs, opset=22)
    padded = model([node(kind, ["x"], outputs, pads=pads, **given)], shape, outputs, opset=22)
    assert_as_onnx(padded, load(tmp_path, same))


@pytest.mark.parametrize("larger", [None, 0, 3])
@pytest.mark.parametrize("axes", [AXES[:1], AXES[2:], AXES[:2], AXES[2:0:-1], AXES])
def test_unpooling_takes_off_each_begin_and_end(
    axes: Any, larger: int | None, tmp_path: Path
) -> None:
    """To the size that follows, asked for or not, and to a larger one."""
    sizes, kernel, strides, begins, ends, _ = zip(*axes, strict=True)
    rows = zip(sizes, kernel, strides, begins, ends, strict=True)
    made = [(d - 1) * s + k - b - e for d, k, s, b, e in rows]
    shape = (1, 2, *sizes)
    places = np.random.default_rng(0).permutation(2 * np.prod(made))[: np.prod(shape)]
    known = {"places": places.reshape(shape)}
    if larger is not None:
        known["shape"] = np.array([1, 2, *(m + larger * k for k, m in enumerate(made, 1))])
    for pads in ([*begins, *ends], [*ends, *begins]):
        unpool = node("MaxUnpool", ["x", *known], ["y"], pads=pads, kernel_shape=kernel,
                      strides=strides)  # fmt: skip
        proto = model([unpool], {"x": shape}, weights=known)
        assert_as_onnx(proto, load(tmp_path, proto))
