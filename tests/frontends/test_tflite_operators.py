"""Operators of TensorFlow Lite: each alone against numpy, and numpy against LiteRT where that is
installed.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from cannery.errors import ModelError
from cannery.frontends import load_graph
from cannery.frontends.tflite.scope import operator_names
from cannery.ir.evaluate import evaluate
from frontends.tflite_case import Case
from frontends.tflite_cases import CASES
from frontends.tflite_files import Graph, by_litert, tflite_file

#: LiteRT has no reference kernels of these, or (LRN) one that leaves out the last channel.
NOT_REFERENCE = ("BROADCAST_TO", "CEIL", "ELU", "LOCAL_RESPONSE_NORMALIZATION", "ROUND",
                 "SEGMENT_SUM", "STABLEHLO_AND", "STABLEHLO_SHIFT_LEFT")  # fmt: skip


def assert_near(found: np.ndarray, expected: np.ndarray) -> None:
    """The same shape, and the same numbers up to float32's rounding."""
    assert found.shape == expected.shape
    wide = expected.astype(np.float64)
    limit = 1e-5 * max(1e-6, np.abs(wide).max(initial=0.0))
    assert np.abs(found.astype(np.float64) - wide).max(initial=0.0) <= limit


@pytest.mark.parametrize("name", CASES)
def test_operator(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    file = tmp_path / "net.tflite"
    file.write_bytes(case.data())
    inputs = case.inputs()
    found = evaluate(load_graph(file), inputs).values()
    for y, expected in zip(found, case.results(inputs), strict=True):
        assert_near(np.asarray(y), expected)


@pytest.mark.parametrize("name", CASES)
def test_the_expectation_is_that_of_litert(name: str) -> None:
    if importlib.util.find_spec("ai_edge_litert") is None:
        pytest.skip("ai_edge_litert is not installed")
    case: Case = CASES[name]
    inputs = case.inputs()
    found = by_litert(case.data(), inputs, reference=case.kind not in NOT_REFERENCE)
    for y, expected in zip(found, case.results(inputs), strict=True):
        assert_near(y, expected)


def test_a_common_shape_is_known(tmp_path: Path) -> None:
    """The network adds zeros of it."""

    def fill(g: Graph) -> Sequence[int]:
        shapes = [g.constant(np.array(s, np.int32)) for s in ((2, 1, 3), (4, 1))]
        common = g.add("BROADCAST_ARGS", shapes, g.tensor((3,), "INT32"))
        x = g.input((1, 3))
        return [
            g.add("BROADCAST_TO", [x, common], g.tensor((2, 4, 3)), options="BroadcastToOptions")
        ]

    file = tmp_path / "net.tflite"
    file.write_bytes(tflite_file(fill))
    x = np.array([[1, 2, 3]], np.float32)
    (y,) = evaluate(load_graph(file), {"x0": x}).values()
    assert np.array_equal(y, np.broadcast_to(x, (2, 4, 3)))


def test_every_operator_has_a_case() -> None:
    """Those with files of their own are in the modules named."""
    states = {
        "ASSIGN_VARIABLE", "BIDIRECTIONAL_SEQUENCE_LSTM", "BIDIRECTIONAL_SEQUENCE_RNN", "CALL_ONCE",
        "LSTM", "READ_VARIABLE", "RNN", "SVDF",
        "UNIDIRECTIONAL_SEQUENCE_LSTM", "UNIDIRECTIONAL_SEQUENCE_RNN", "VAR_HANDLE",
    }  # fmt: skip
    drawn = {"MULTINOMIAL", "RANDOM_STANDARD_NORMAL", "RANDOM_UNIFORM"}
    spectra = {"COMPLEX_ABS", "IMAG", "REAL", "RFFT2D"}
    elsewhere = (
        states
        | drawn
        | spectra
        | {
            "STABLEHLO_COMPOSITE",
            "UNIQUE",
            "WHERE",
            "IF",
            "WHILE",
            "SHAPE",
            "RANK",
            "RANGE",
            "QUANTIZE",
            "DEQUANTIZE",
            "RELU_0_TO_1",
            "BITWISE_XOR",
            "BROADCAST_ARGS",
            "DENSIFY",
            "CUSTOM TFLite_Detection_PostProcess",
            "NON_MAX_SUPPRESSION_V4",
            "NON_MAX_SUPPRESSION_V5",
        }
    )
    assert {case.kind for case in CASES.values()} | elsewhere == set(operator_names())


def test_whole_numbers_by_zero(tmp_path: Path) -> None:
    """0 where the divisor is computed; one that is known is an error at once."""

    def fill(g: Graph, known: bool) -> Sequence[int]:
        x = g.input((1, 3), "INT32")
        by = g.constant(np.array([[2, 0, -2]], np.int32)) if known else g.input((1, 3), "INT32")
        return [g.add("FLOOR_DIV", [x, by], g.tensor((1, 3), "INT32"), options="FloorDivOptions")]

    file = tmp_path / "net.tflite"
    file.write_bytes(tflite_file(lambda g: fill(g, known=False)))
    given = [np.array([v], np.int32) for v in ([7, 7, 7], [2, 0, -2])]
    (y,) = evaluate(load_graph(file), {"x0": given[0], "x1": given[1]}).values()
    assert np.asarray(y).tolist() == [[3, 0, -4]]
    file.write_bytes(tflite_file(lambda g: fill(g, known=True)))
    with pytest.raises(ModelError, match="divides by zero"):
        load_graph(file)
