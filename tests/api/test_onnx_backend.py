"""ONNX's backend interface: node tests of the onnx package, run as its scoreboard does."""

from __future__ import annotations

import subprocess
import sys
import unittest
from typing import Any

import numpy as np
import pytest

from needs import need_toolchain

scores = pytest.importorskip("onnx.backend.test")
m = pytest.importorskip("frontends.onnx_models")

from cannery import onnx_backend as backend  # noqa: E402
from cannery.errors import CanneryError  # noqa: E402

#: One or two of each kind: floats, integers, several inputs and outputs, a list, float16.
CASES = (
    "test_relu", "test_conv_with_strides_padding", "test_softmax_axis_1", "test_add",
    "test_gemm_default_vector_bias", "test_split_equal_parts_1d_opset18", "test_max_float16",
    "test_max_int32", "test_argmax_default_axis_example", "test_clip_default_int8_inbounds",
    "test_split_to_sequence_nokeepdims",
)  # fmt: skip


@pytest.fixture(autouse=True)
def compiler(cache: object) -> None:
    need_toolchain("native")


def test_node_tests_pass() -> None:
    """All run, on the processor; those for another device are skipped."""
    runner = scores.BackendTest(backend, __name__)
    for name in CASES:
        runner.include(f"^{name}_cpu$")
    result = unittest.TestResult()
    unittest.TestSuite(
        unittest.defaultTestLoader.loadTestsFromTestCase(case)
        for case in runner.test_cases.values()
    ).run(result)
    assert [error for _, error in (*result.failures, *result.errors)] == []
    skipped = {test.id().rpartition(".")[2] for test, _ in result.skipped}
    assert result.testsRun - len(skipped) == len(CASES)
    assert not skipped & {f"{name}_cpu" for name in CASES}


def model() -> Any:
    nodes = [m.node("MatMul", ["a", "w"], ["y"])]
    return m.model(nodes, {"a": [1, 2]}, weights={"w": np.array([[1.0], [2.0]], np.float32)})


def test_prepare_and_run() -> None:
    assert backend.is_compatible(model())
    prepared = backend.prepare(model(), "CPU", isa="generic", name="small")
    assert prepared.net.name == "small"
    a = np.array([[3.0, 4.0]], np.float32)
    for given in ([a], a, {"a": a}):
        (y,) = prepared.run(given)
        assert y.tolist() == [[11.0]]
    (y,) = backend.run_model(model(), [a])
    assert y.tolist() == [[11.0]]


def test_run_node() -> None:
    node = m.node("Concat", ["a", "b"], ["y"], axis=0)
    (y,) = backend.run_node(node, [np.ones(2, np.float32), np.zeros(1, np.float32)])
    assert y.tolist() == [1.0, 1.0, 0.0]
    (y,) = backend.run_node(
        m.node("Abs", ["a"], ["y"]), [np.array([-2.0], np.float16)], opset_version=13
    )
    assert (y.tolist(), y.dtype) == ([2.0], np.float16)


def test_without_the_onnx_package() -> None:
    program = "import sys; sys.modules['onnx'] = None; import cannery.onnx_backend"
    done = subprocess.run(
        [sys.executable, "-c", program], text=True, capture_output=True, check=False
    )
    assert done.returncode == 1
    assert "needs the Python package onnx" in done.stderr.splitlines()[-1]


def test_what_is_not_supported() -> None:
    strange = m.model([m.node("Strange", ["a"], ["y"], domain="of.others")], {"a": [1]})
    assert not backend.is_compatible(strange)
    assert not backend.is_compatible(model(), "CUDA:1")
    assert backend.supports_device("CPU")
    assert not backend.supports_device("CUDA")
    with pytest.raises(CanneryError, match="Strange"):
        backend.prepare(strange)
    with pytest.raises(CanneryError, match=r"str is not a model of the onnx package .*onnx\.load"):
        backend.prepare("net.onnx")
