"""What `from_torch` compares: an exported file with what the module computes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from cannery.api import torch_check
from cannery.api.torch_check import Run, difference
from cannery.ir.registry import RefArray
from frontends.onnx_models import model, node


def file(*nodes: Any, **weights: Any) -> bytes:
    data: bytes = model(nodes, {"x": [1, 4]}, weights=weights).SerializeToString()
    return data


def run(function: Callable[[RefArray], Any]) -> Run:
    """A module with one input, in float32."""

    def compute(arrays: Sequence[RefArray]) -> Sequence[RefArray]:
        return [np.asarray(function(arrays[0].astype(np.float32)))]

    return compute


ZEROS = [np.zeros((1, 4))]
#: x // 0.5, as PyTorch's older exporter has it: truncated.
TRUNCATED = file(
    node("Div", ["x", "half"], ["q"]), node("Abs", ["q"], ["a"]), node("Floor", ["a"], ["f"]),
    node("Sign", ["q"], ["s"]), node("Mul", ["f", "s"], ["y"]), half=np.float32(0.5),
)  # fmt: skip
FLOOR = file(node("Div", ["x", "half"], ["q"]), node("Floor", ["q"], ["y"]), half=np.float32(0.5))


def test_numbers_below_zero_show_what_zeros_do_not() -> None:
    found = difference(TRUNCATED, run(lambda x: x // 0.5), ZEROS)
    assert found is not None
    assert found.startswith("'y' is -")


def test_what_is_exported_well() -> None:
    assert difference(FLOOR, run(lambda x: x // 0.5), ZEROS) is None


def test_a_result_that_is_wrong_at_the_example() -> None:
    found = difference(file(node("Exp", ["x"], ["y"])), run(lambda x: x * 0), ZEROS)
    assert found == "'y' is 1 where the module has 0"


def test_rounding_is_no_difference() -> None:
    """A module whose result a slight change of its input changes may differ by as much."""
    steep = file(node("Mul", ["x", "k"], ["z"]), node("Sin", ["z"], ["y"]), k=np.float32(1e6))
    assert difference(steep, run(lambda x: np.sin(x * np.float32(1e6))), ZEROS) is None
    assert difference(steep, run(lambda x: np.cos(x * np.float32(1e6))), ZEROS) is not None


def test_one_step_among_many_that_falls_on_the_other_side() -> None:
    many = [np.linspace(-5, 5, 40_000).reshape(1, -1)]
    data = model([node("Floor", ["x"], ["y"])], {"x": [1, 40_000]}).SerializeToString()

    def off(x: RefArray, count: int) -> RefArray:
        y = np.floor(x)
        y[0, :count] += 1
        return y

    assert difference(data, run(lambda x: off(x, 40)), many) is None
    assert difference(data, run(lambda x: off(x, 41)), many) is not None


@pytest.mark.parametrize(
    ("data", "examples"),
    [(b"no model", ZEROS), (FLOOR, [np.zeros((1, 5))]), (FLOOR, ZEROS * 2)],
    ids=["not read", "another shape", "another number of inputs"],
)
def test_what_cannot_be_compared(data: bytes, examples: list[RefArray]) -> None:
    assert difference(data, run(lambda x: x), examples) is None


def test_numbers_that_the_module_does_not_take() -> None:
    def only_zeros(x: RefArray) -> RefArray:
        if x.any():
            raise ValueError("zeros only")
        return x

    assert difference(file(node("Abs", ["x"], ["y"])), run(only_zeros), ZEROS) is None


def test_casts_of_numbers_that_the_type_lacks_are_not_compared() -> None:
    """Negative noise as uint8 is whatever the processor makes of it."""
    data = file(node("Cast", ["x"], ["u"], to=2), node("Cast", ["u"], ["y"], to=1))
    assert difference(data, run(lambda x: np.where(x < 0, 77, np.trunc(x))), ZEROS) is None
    assert difference(data, run(lambda x: x + 1), ZEROS) is not None


def test_what_takes_too_long_is_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_check, "_SECONDS", -1.0)
    assert difference(TRUNCATED, run(lambda x: x // 0.5), ZEROS) is None
