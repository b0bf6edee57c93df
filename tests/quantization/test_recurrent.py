"""Recurrent layers of ONNX in integers: every form has the bits of its reference everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")

from cannery.ops.quantized.arithmetic import LARGEST_SUM, integer_product
from cannery.options import make_options
from cannery.pipeline import import_graph
from frontends.onnx_models import floats, model, node, write
from quantization.bits import assert_every_bit
from quantization.networks import integers, kinds

T, N, F, H = 6, 2, 3, 9
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}

#: Kind, direction, constant inputs after the bias, attributes.
LAYERS: dict[str, tuple[str, str, dict[str, Any], dict[str, Any]]] = {
    "reset": ("GRU", "bidirectional", {}, {}),
    "reset_hard": ("GRU", "reverse", {}, {"clip": 0.9, "activations": ["HardSigmoid", "Tanh"]}),
    "reset_lengths": ("GRU", "forward", {"n": np.array([4, 0], np.int32)}, {}),
    "after": ("GRU", "bidirectional", {}, {"linear_before_reset": 1, "clip": 0.4}),
    "clip": ("LSTM", "bidirectional", {}, {"clip": 0.7}),
    "peepholes": ("LSTM", "forward", {"n": None, "h": None, "c": None, "p": floats(1, 3 * H)},
                  {"clip": 1.1, "input_forget": 1}),
    "lengths": ("LSTM", "bidirectional", {"n": np.array([6, 3], np.int32)}, {}),
    "rnn": ("RNN", "bidirectional", {"n": np.array([2, 6], np.int32)}, {"clip": 0.5}),
}  # fmt: skip


def network(folder: Path) -> tuple[Path, Path]:
    """All layers side by side, with their sequences and last outputs, and samples."""
    layers, weights, outputs = [], dict[str, Any](), list[str]()
    for name, (kind, direction, more, attributes) in LAYERS.items():
        d, g = 1 + (direction == "bidirectional"), GATES[kind]
        given = {
            "w": floats(d, g * H, F, seed=1), "r": floats(d, g * H, H, seed=2) / 2,
            "b": floats(d, 2 * g * H, seed=3), **more,
        }  # fmt: skip
        weights |= {f"{name}_{key}": array for key, array in given.items() if array is not None}
        inputs = ["" if array is None else f"{name}_{key}" for key, array in given.items()]
        results = [name, f"{name}_last"]
        layers.append(
            node(kind, ["x", *inputs], results, hidden_size=H, direction=direction, **attributes)
        )
        outputs += results
    file = write(folder / "net.onnx", model(layers, {"x": [T, N, F]}, outputs, weights=weights))
    np.savez(folder / "x.npz", x=floats(4 * T, N, F))
    return file, folder / "x.npz"


@pytest.mark.parametrize(
    ("dtype", "isa"),
    [("int16", isa) for isa in ("generic", "ssse3", "avx2", "avx512vnni", "neon32", "neon64")]
    + [("int8", "avx512"), ("int8", "neon64dot"), ("int16", "riscv64v128")],
)
def test_every_bit_is_that_of_the_reference(tmp_path: Path, dtype: str, isa: str) -> None:
    assert_every_bit(*network(tmp_path), dtype, isa)


def test_what_is_lost(tmp_path: Path) -> None:
    """Nothing recurrent stays float, and the integers compute what the floats do."""
    file, calibration = network(tmp_path)
    graph = import_graph(make_options(file, integers(calibration)))
    assert not {"Lstm", "Gru", "Rnn"} & {*kinds(graph)}
    assert graph.quantization is not None
    assert all(0.0 < loss < 1e-3 for _, loss in graph.quantization.losses)


def test_sums_behind_the_reset_gate_stay_within_int32(tmp_path: Path) -> None:
    """Weights of both products: no vector of states within the bound leaves int32."""
    file, calibration = network(tmp_path)
    graph = import_graph(make_options(file, integers(calibration)))
    layers = [n for n in graph.nodes if n.op.kind == "QuantizedGru"]
    assert len(layers) == 4
    for layer in layers:
        bound = layer.op.bound  # type: ignore[attr-defined]
        for r in graph.constants[layer.inputs[1]]:
            largest = np.diag(integer_product(np.sign(r.astype(np.int64)).T * bound, r))
            assert LARGEST_SUM // 4 < largest.max() <= LARGEST_SUM
