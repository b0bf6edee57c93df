"""Weights of few levels: which, in which layers, what they cost, where codes are stored."""

from __future__ import annotations

import json
from itertools import combinations_with_replacement
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cannery.errors import OptionError
from cannery.ir.graph import Graph
from cannery.ir.numeric import f64
from cannery.ir.tensor import DType
from cannery.ops.matmul.op import MatMul
from cannery.ops.quantized.codes import Codes, codes_of, stored_bytes
from cannery.ops.quantized.matmul import QuantizedMatMul, QuantizedProduct
from cannery.options import make_options
from cannery.pipeline import compile_model
from cannery.quantization.codes import FORMS, Coding, levels_of
from cannery.quantization.quantize import quantize
from cannery.quantization.steps import Weights, round_weights
from cannery.target.isa import isa
from ops.cases import Net
from tiny_models import write_tiny_model

LEVELS = {"int4": 15, "palette4": 16, "palette2": 4}


def normal(*shape: int) -> Any:
    rng = np.random.default_rng(len(shape))
    return rng.standard_normal(shape) * rng.uniform(0.3, 2.0, shape[-1])


def lost(w: Any, found: Weights) -> float:
    """The energy of what rounding changed, relative to that of the weights."""
    return float(np.square(w - f64(found.integers) * found.steps).sum() / np.square(w).sum())


def test_forms_have_as_many_levels_as_bits_allow_and_lose_little() -> None:
    w = normal(144, 32)
    bytes_ = round_weights(w, 127, DType.INT8)
    found = {name: form.of(w, bytes_) for name, form in FORMS.items()}
    for name, weights in found.items():
        levels = np.unique(weights.integers)
        assert weights.integers.dtype == np.int8
        assert 0 in levels
        assert len(levels) <= LEVELS[name]
    losses = {name: lost(w, weights) for name, weights in found.items()}
    # Of normal numbers, the best 16 levels lose 0.0095, the best three and 0 a little over 0.13.
    assert losses["palette4"] < losses["int4"] < 0.016
    assert losses["palette4"] < 0.0105
    assert losses["palette2"] < 0.15
    assert np.abs(found["int4"].integers).max() == 7


def test_int4_clips_what_is_rare() -> None:
    w = np.ones((200, 1)) * np.linspace(-1.0, 1.0, 200)[:, None]
    w[0] = 1.4
    found = FORMS["int4"].of(w, round_weights(w, 127, DType.INT8))
    assert found.steps[0] < 1.4 / 7
    assert lost(w, found) < lost(w, Weights(np.rint(w / 0.2).astype(np.int8), np.full(1, 0.2)))


def test_columns_of_zeros_stay_zeros() -> None:
    w = normal(80, 3)
    w[:, 1] = 0.0
    for form in FORMS.values():
        found = form.of(w, round_weights(w, 127, DType.INT8))
        assert not found.integers[:, 1].any()
        assert (found.steps > 0).all()


def test_outputs_with_large_weights_count_most() -> None:
    rng = np.random.default_rng(6)
    w = np.stack([rng.choice([-1.0, 0.25, 0.5], 90), rng.uniform(-0.01, 0.01, 90)], axis=1)
    assert lost(w, FORMS["palette2"].of(w, round_weights(w, 127, DType.INT8))) < 1e-4


def test_palettes_are_the_best_there_are() -> None:
    rng = np.random.default_rng(3)
    numbers = np.arange(-127, 128)
    for _ in range(4):
        found = np.zeros(255)
        found[rng.integers(100, 155, 9)] = rng.uniform(0.1, 1.0, 9)

        def cost(levels: Any, found: Any = found) -> float:
            nearest = np.min([np.square(numbers - each) for each in levels], axis=0)
            return float((found * nearest).sum())

        best = min(cost((0, *pair)) for pair in combinations_with_replacement(range(-28, 29), 2))
        levels = levels_of(found, 3)
        assert 0 in levels
        assert cost(levels) == pytest.approx(best)


def test_codes_come_back_as_the_weights() -> None:
    rng = np.random.default_rng(4)
    for bits, levels in ((4, range(-8, 8)), (2, (-2, -1, 0, 1)), (4, (-90, -3, 0, 77)),
                         (2, (-90, 0, 77))):  # fmt: skip
        w = rng.choice(np.asarray(levels, np.int8), (7, 9))
        codes = Codes.of(w, bits)
        packed = codes.packed(w)
        assert packed.size == -(-63 * bits // 8)
        places = bits * np.arange(8 // bits, dtype=np.uint8)
        unpacked = (packed[:, None] >> places & codes.mask).ravel()[:63]
        assert np.asarray(codes.levels)[unpacked].tolist() == w.ravel().tolist()
        assert codes.plain == (max(levels) < 8)


def test_more_levels_than_codes_are_a_defect() -> None:
    with pytest.raises(AssertionError, match="17 levels of 4 bits"):
        Codes.of(np.arange(0, 17, dtype=np.int8) * 3, 4)


def layers() -> Graph:
    """Three dense layers, of which the last one has too few weights for codes."""
    net = Net()
    value = net.input("x", (1, 24))
    for name, (k, n) in {"first": (24, 24), "second": (24, 8), "last": (8, 3)}.items():
        weights = net.rng.standard_normal((k, n)) / k**0.5
        value = net.node(MatMul(), [value, net.constant(f"w_{name}", weights)], name=name)
    return net.graph(value)


def coded(folder: Path, max_loss: float, **given: Any) -> Graph:
    file = folder / "samples.npz"
    np.savez(file, x=np.random.default_rng(8).standard_normal((6, 24)).astype(np.float32))
    return quantize(layers(), DType.INT8, file, max_loss, **given)


def bits(graph: Graph) -> list[int]:
    return [n.op.weight_bits for n in graph.nodes if isinstance(n.op, QuantizedProduct)]


def test_layers_have_codes_where_the_loss_allows(tmp_path: Path) -> None:
    plain = coded(tmp_path, 1.0)
    all_of_them = coded(tmp_path, 1.0, weights="palette2")
    assert all_of_them.quantization
    assert all_of_them.quantization.codes
    assert bits(plain) == [8, 8, 8]
    assert bits(all_of_them) == [2, 2, 8]
    assert all_of_them.quantization.codes.layers == ("first", "second")
    assert all_of_them.quantization.codes.kept == ()
    most = max(all_of_them.quantization.by_output.values())
    some = coded(tmp_path, 0.99 * most, weights="palette2").quantization
    assert some
    assert some.codes
    (kept,) = some.codes.kept
    assert {kept[0], *some.codes.layers} == {"first", "second"}
    assert kept[1].startswith("alone it loses 0.")
    assert max(some.by_output.values()) <= 0.99 * most
    assert some.codes.bytes > all_of_them.quantization.codes.bytes


def test_layers_that_others_chose(tmp_path: Path) -> None:
    found = coded(tmp_path, 1.0, weights="int4", coded=("second",))
    assert bits(found) == [8, 4, 8]
    assert found.quantization
    assert found.quantization.codes
    assert found.quantization.codes.kept[0][0] == "first"


def test_losses_that_no_layer_bears(tmp_path: Path) -> None:
    plain = coded(tmp_path, 1.0).quantization
    assert plain
    least = max(plain.by_output.values())
    with pytest.raises(OptionError, match="no layer bears weights of 2 bits") as refused:
        coded(tmp_path, 1.01 * least, weights="palette2")
    assert refused.value.where == "--weights-as"
    with pytest.raises(OptionError, match="as int8, more than --max-loss") as refused:
        coded(tmp_path, 0.5 * least, weights="palette2")
    assert refused.value.where == "--quantize"


def test_codes_are_stored_by_microcontrollers_alone(tmp_path: Path) -> None:
    graph = coded(tmp_path, 1.0, weights="palette4")
    (first, *_) = (n for n in graph.nodes if isinstance(n.op, QuantizedMatMul))
    assert codes_of(graph, first, isa("thumbdsp"))
    assert codes_of(graph, first, isa("helium"))
    assert codes_of(graph, first, isa("avx2")) is None
    saved = sum(c.nbytes for c in graph.constants.values()) - stored_bytes(graph)
    assert saved == (24 * 24 + 24 * 8) // 2 - 2 * 16


def test_few_weights_gain_nothing() -> None:
    coding = Coding(FORMS["palette2"], frozenset({"kept"}))
    assert [coding.bits(name, n) for name, n in (("a", 64), ("a", 63), ("kept", 900))] == [2, 8, 8]


@pytest.mark.parametrize("target", ["cortex-m4", "native"])
def test_what_the_files_say(target: str, tmp_path: Path) -> None:
    model = write_tiny_model(tmp_path / "tiny.h5", size=5)
    np.savez(tmp_path / "s.npz", image=np.random.default_rng(1).random((4, 8, 8, 1), np.float32))
    raw = {"quantize": "int8", "calibration": str(tmp_path / "s.npz"), "max_loss": "1",
           "weights_as": "palette4", "target": target}  # fmt: skip
    files = compile_model(make_options(model, raw)).files
    facts = json.loads(bytes(files["tiny.json"]))["quantization"]
    stored = target == "cortex-m4"
    assert facts["codes"]["form"] == "palette4"
    assert facts["codes"]["stored"] == stored
    assert facts["codes"]["layers"]
    assert (facts["codes"]["weight_bytes"] < facts["weight_bytes"]) == stored
    header = bytes(files["tiny.h"]).decode()
    assert "have few levels (palette4)" in header
    assert ("on this processor they are bytes" in header) != stored
    assert ("_levels[16]" in bytes(files["tiny.c"]).decode()) == stored


@pytest.mark.parametrize(
    ("raw", "message"),
    [({}, "only weights of int8"), ({"quantize": "int16"}, "only weights of int8"),
     ({"quantize": "int8", "weights": "w"}, "codes depend on the weights")],
)  # fmt: skip
def test_options_that_do_not_fit(raw: dict[str, object], message: str) -> None:
    given = {"weights_as": "int4", "calibration": "s.npz", **raw}
    with pytest.raises(OptionError, match=message) as refused:
        make_options(Path("net.h5"), given)
    assert refused.value.where == "--weights-as"
