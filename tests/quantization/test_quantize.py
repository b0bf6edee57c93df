"""Networks quantised at generation: the same bits everywhere, proven sums, loss."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import cannery
from cannery.execution.samples import join_samples
from cannery.ir.evaluate import evaluate
from cannery.ops.quantized.arithmetic import LARGEST_SUM, integer_product
from cannery.ops.quantized.groups import in_groups
from cannery.ops.quantized.ways import choose_way
from cannery.options import make_options
from cannery.pipeline import compile_model, import_graph
from cannery.quantization.calibration import observe
from cannery.target.toolchain import resolve_target
from frontends.keras_files import LayerSpec, Model, chain, image, layer
from needs import need_program
from quantization.bits import assert_every_bit
from quantization.networks import (
    T,
    camera,
    conv,
    decoder,
    integers,
    kinds,
    layers,
    normalised,
    resets,
    residual,
    separable,
    sequences,
    unet,
    write,
    written,
)

Array = NDArray[Any]
ISAS = ("generic", "ssse3", "avx2", "avx512", "avx512vnni", "neon32", "neon64dot")


def test_values_between_integer_layers_are_never_floats(tmp_path: Path) -> None:
    graph = import_graph(make_options(*written(tmp_path, sequences())))
    assert kinds(graph).count("Quantize") == 1
    assert kinds(graph).count("QuantizedMatMul") == 5
    assert {"QuantizedLstm", "QuantizedGru", "QuantizedRnn"} < {*kinds(graph)}
    floats = {"DequantizeLinear", "Relu", "MatMul", "Lstm", "Gru", "Rnn", "Softmax"}
    assert not floats & {*kinds(graph)}
    dense_net = import_graph(make_options(*written(tmp_path, layers())))
    assert set(kinds(dense_net)) == {"Quantize", "QuantizedMatMul"}
    image_net = import_graph(make_options(*written(tmp_path, camera())))
    assert kinds(image_net).count("QuantizedConv") == 2
    assert not {"Conv", "MatMul", "DequantizeLinear", "Relu", "Sigmoid"} & {*kinds(image_net)}


@pytest.mark.parametrize("dtype", ["int8", "int16"])
def test_depthwise_convolutions_are_integers(tmp_path: Path, dtype: str) -> None:
    """Also after upsampling, which is part of them if they compute with floats."""
    for make, count in ((separable, 3), (decoder, 4)):
        found = kinds(import_graph(make_options(*written(tmp_path, make(), dtype))))
        assert found.count("QuantizedConv") == count
        assert not {"Conv", "ConvTranspose", "MaxPool", "DequantizeLinear"} & {*found}
        assert found.count("Quantize") == 1


@pytest.mark.parametrize("dtype", ["int8", "int16"])
def test_branches_meet_as_integers(tmp_path: Path, dtype: str) -> None:
    """Sums, means, a concatenation whose parts are on one scale, upsampling."""
    floats = {"Conv", "DequantizeLinear", "Relu", "Add", "AveragePool", "ReduceMean", "MaxPool"}
    sums = import_graph(make_options(*written(tmp_path, residual(), dtype)))
    assert not floats & {*kinds(sums)}
    assert kinds(sums).count("Quantize") == 1
    assert (
        kinds(sums).count("QuantizedElementwise") == kinds(sums).count("QuantizedAveragePool") == 2
    )
    skips = import_graph(make_options(*written(tmp_path, unet(), dtype)))
    assert not floats & {*kinds(skips)}
    (joined,) = (n for n in skips.nodes if n.op.kind == "Concat")
    assert kinds(skips).count("Quantize") == 1
    assert {skips.types[v].dtype.value for v in joined.inputs} == {dtype}


@pytest.mark.parametrize("make", [residual, unet])
def test_values_that_are_never_negative_have_no_signs_to_move(tmp_path: Path, make: Any) -> None:
    """After ReLU, and sums, means and upsampling of such values: all products except the first."""
    file, calibration = write(tmp_path, make())
    compiled = compile_model(make_options(file, integers(calibration, "int8", isa=("avx2",))))
    graph = compiled.source.graph
    target = resolve_target(make_options(file, {"isa": ("avx2",)}))
    ways = [
        choose_way(graph, n.inputs[0], in_groups(graph.constants[n.inputs[1]]), target.isa).dot
        for n in graph.nodes
        if n.op.kind in ("QuantizedConv", "QuantizedMatMul")
    ]
    assert ways == ["dot4", *["dot4u"] * (len(ways) - 1)]


def test_sums_that_are_read_as_floats_stay(tmp_path: Path) -> None:
    """A skip into the output: nothing on its way is rounded more than by the layers."""
    layers = [image("x", 9, 8, 3), conv("one", "x", 3, 6), conv("two", "one", 6, 6),
              layer("Add", "sum", "one", "two"), layer("Softmax", "y", "sum")]  # fmt: skip
    given = written(tmp_path, Model("skip", layers, ["x"], ["y"]), "int8")
    found = kinds(import_graph(make_options(*given)))
    assert "Add" in found and "QuantizedElementwise" not in found


@pytest.mark.parametrize(
    ("make", "dtype", "isa"),
    [
        *((sequences, "int16", isa) for isa in ISAS),
        *((resets, "int16", isa) for isa in ISAS),
        *((resets, "int8", isa) for isa in ("generic", "avx2", "neon64dot")),
        *((layers, "int8", isa) for isa in ("ssse3", "avx512vnni", "neon64dot", "riscv64v256")),
        *((camera, "int16", isa) for isa in ("generic", "avx2")),
        *((separable, "int8", isa) for isa in ("avx2", "neon64")),
        *((separable, "int16", isa) for isa in ("generic", "ssse3", "avx512vnni", "neon32")),
        (decoder, "int16", "avx512"),
        *((normalised, "int16", isa) for isa in ("generic", "avx2", "neon32")),
        (decoder, "int8", "neon64"),
        (residual, "int8", "ssse3"),
        (residual, "int16", "neon64"),
        (unet, "int8", "avx512"),
        (unet, "int16", "generic"),
    ],
)
def test_every_bit_is_that_of_the_reference(
    tmp_path: Path, make: Any, dtype: str, isa: str
) -> None:
    file, calibration = write(tmp_path, make())
    assert_every_bit(file, calibration, dtype, isa)


@pytest.mark.parametrize(("dtype", "most"), [("int16", 2e-3), ("int8", 0.2)])
@pytest.mark.parametrize(
    "make", [sequences, resets, layers, camera, separable, residual, unet, decoder]
)
def test_loss(tmp_path: Path, make: Any, dtype: str, most: float) -> None:
    graph = import_graph(make_options(*written(tmp_path, make(), dtype)))
    assert graph.quantization is not None
    ((_, loss),) = graph.quantization.losses
    assert 0.0 < loss < most
    assert graph.quantization.bytes < graph.quantization.float_bytes


def test_sums_stay_within_int32_at_the_extremes(tmp_path: Path) -> None:
    """All weights at the largest magnitude, all inputs at the bound and beyond."""
    ones = np.where(np.arange(24)[:, None] % 2, -3.0, 3.0) * np.ones((24, 5))
    values = {"kernel": ones.astype(np.float32), "bias": np.zeros(5, np.float32)}
    file, calibration = write(
        tmp_path, chain(image("x", 24), LayerSpec("Dense", "y", (), {"units": 5}, values))
    )
    options = make_options(file, integers(calibration))
    graph = import_graph(options)
    (node,) = (n for n in graph.nodes if n.op.kind == "QuantizedMatMul")
    (first,) = (n for n in graph.nodes if n.op.kind == "Quantize")
    w, bound = graph.constants[node.inputs[1]], first.op.bound  # type: ignore[attr-defined]
    worst = np.sign(w[:, :1].astype(np.int64)).T * bound
    sums = integer_product(worst, w)
    assert LARGEST_SUM // 2 < sums.max() <= LARGEST_SUM
    x = (worst * np.float32(1e3)).astype(np.float32)
    for isa in ("generic", "ssse3", "avx2"):
        net = cannery.load(file, isa=isa, **integers(calibration))
        assert np.array_equal(net(x), evaluate(graph, {"x": x})[graph.outputs[0]])


@pytest.mark.parametrize("make", [sequences, partial(resets, backwards=False)])
def test_streaming_has_the_bits_of_the_whole_sequence(tmp_path: Path, make: Any) -> None:
    need_program("gcc")
    file, calibration = write(tmp_path, make())
    whole = cannery.load(file, isa="ssse3", **integers(calibration))
    x = np.load(calibration)["x"][:1]
    np.savez(tmp_path / "steps.npz", **_step_inputs(file, x))
    stepper = cannery.load(file, isa="ssse3", streaming=True, **integers(tmp_path / "steps.npz"))
    state = stepper.new_state()
    steps = [stepper.step(state, x[:, t : t + 1]) for t in range(T)]
    found, expected = np.concatenate(steps, axis=1), whole(x)
    assert np.abs(found - expected).max() < 2e-3 * np.abs(expected).max()


def test_states_are_those_of_a_sequence_if_the_samples_have_none(tmp_path: Path) -> None:
    file, calibration = write(tmp_path, sequences())
    x = np.load(calibration)["x"][:1].reshape(T, 1, -1)
    graph = import_graph(make_options(file, {"streaming": True}))
    values: dict[str, Array] = {}
    samples: list[dict[str, Array]] = []
    for step in x:  # states written down on the way
        given = {s.input: np.zeros(graph.types[s.input].shape, np.float32) for s in graph.states}
        given |= {s.input: values[s.output].astype(np.float32) for s in graph.states if values}
        samples.append({**given, "x": step.reshape(graph.types["x"].shape)})
        values = dict(evaluate(graph, samples[-1]))
    np.savez(tmp_path / "full.npz", **join_samples(samples))
    np.savez(tmp_path / "steps.npz", **join_samples([{"x": s["x"]} for s in samples]))
    full, steps = (
        import_graph(make_options(file, {"streaming": True, **integers(tmp_path / name)}))
        for name in ("full.npz", "steps.npz")
    )
    assert steps.quantization is not None and full.quantization is not None
    # What is written down is rounded to float32.
    np.testing.assert_allclose(steps.quantization.ranges, full.quantization.ranges, rtol=1e-6)
    found, right = (dict(g.quantization.losses) for g in (steps, full) if g.quantization)
    assert found == pytest.approx(right, rel=0.02)
    assert full.quantization.samples == T


def test_states_in_the_samples_are_taken_as_they_are(tmp_path: Path) -> None:
    """Not as the sequence would come to them."""
    file, calibration = write(tmp_path, sequences())
    given = _step_inputs(file, np.load(calibration)["x"][:1])
    np.savez(tmp_path / "full.npz", **given)
    graph = import_graph(make_options(file, {"streaming": True}))
    seen = observe(graph, tmp_path / "full.npz")
    assert len(seen.samples) == T
    for name, arrays in given.items():
        for sample, array in zip(seen.samples, arrays, strict=True):
            assert np.array_equal(np.asarray(sample[name]).ravel(), array.ravel())
        assert seen.spreads[name].largest == np.abs(arrays).max()
        assert seen.spreads[name].rms == pytest.approx(np.sqrt(np.square(arrays).mean()), rel=1e-5)


def _step_inputs(file: Path, x: Array) -> dict[str, Array]:
    """Steps of a sequence with states between -1 and 1, as calibration takes them."""
    graph = import_graph(make_options(file, {"streaming": True}))
    rng = np.random.default_rng(3)
    given = {}
    for name in graph.inputs:
        shape = graph.types[name].shape
        given[name] = (
            x.reshape(T, *shape[1:]) if name == "x" else rng.uniform(-1.0, 1.0, (T, *shape[1:]))
        ).astype(np.float32)
    return given
