"""Networks quantised at generation: the same bits everywhere, proven sums, loss, bad samples."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import cannery
from cannery.cli import invoke
from cannery.errors import CanneryError, OptionError
from cannery.execution.program import network_program
from cannery.execution.samples import join_samples, read_samples
from cannery.ir.evaluate import evaluate
from cannery.ir.graph import Graph
from cannery.ir.tensor import DType, TensorType
from cannery.ops.quantized.arithmetic import LARGEST_SUM, integer_product
from cannery.ops.quantized.groups import in_groups
from cannery.ops.quantized.ways import choose_way
from cannery.options import make_options
from cannery.pipeline import compile_model, import_graph
from cannery.target.isa import isa as find_isa
from cannery.target.toolchain import find_toolchain, resolve_target
from cmake_project import MAIN_C, Project
from emit.c_programs import LANGUAGES, WARNINGS
from frontends.keras_files import LayerSpec, Model, chain, image, layer, write_h5
from needs import need_program, need_runner

Array = NDArray[Any]
T, F, H = 9, 5, 11
ISAS = ("generic", "ssse3", "avx2", "avx512", "avx512vnni", "neon32", "neon64dot")


def dense(name: str, inputs: int, units: int, activation: str, scale: float = 1.0) -> LayerSpec:
    rng = np.random.default_rng(units)
    values = {
        "kernel": (scale * rng.standard_normal((inputs, units)) / inputs**0.5).astype(np.float32),
        "bias": (scale * rng.standard_normal(units)).astype(np.float32),
    }
    return LayerSpec("Dense", name, (), {"units": units, "activation": activation}, values)


def lstm(name: str, features: int, **config: Any) -> LayerSpec:
    rng = np.random.default_rng(features)
    values = {
        "cell/kernel": rng.standard_normal((features, 4 * H)),
        "cell/recurrent_kernel": rng.standard_normal((H, 4 * H)) / H**0.5,
        "cell/bias": rng.standard_normal(4 * H),
    }
    weights = {key: array.astype(np.float32) for key, array in values.items()}
    return LayerSpec("LSTM", name, (), {"units": H, "return_sequences": True, **config}, weights)


def gru(name: str, features: int) -> LayerSpec:
    rng = np.random.default_rng(features)
    values = {
        "cell/kernel": rng.standard_normal((features, 3 * H)) / 2,
        "cell/recurrent_kernel": rng.standard_normal((H, 3 * H)) / H**0.5,
        "cell/bias": rng.standard_normal((2, 3 * H)),
    }
    weights = {key: array.astype(np.float32) for key, array in values.items()}
    config = {"units": H, "return_sequences": True, "reset_after": True}
    return LayerSpec("GRU", name, (), config, weights)


def simple_rnn(name: str, features: int) -> LayerSpec:
    rng = np.random.default_rng(features)
    values = {
        "cell/kernel": rng.standard_normal((features, H)) / 2,
        "cell/recurrent_kernel": rng.standard_normal((H, H)) / H**0.5,
        "cell/bias": rng.standard_normal(H),
    }
    weights = {key: array.astype(np.float32) for key, array in values.items()}
    return LayerSpec("SimpleRNN", name, (), {"units": H, "return_sequences": True}, weights)


def sequences(activation: str = "softmax") -> Model:
    """LSTM, a ReLU layer, GRU, a plain recurrent layer; 7 scores at each step."""
    return chain(
        image("x", T, F),
        lstm("one", F),
        dense("two", H, 13, "relu"),
        gru("three", 13),
        simple_rnn("four", H),
        dense("scores", H, 7, activation),
    )


def layers(last: str = "tanh") -> Model:
    """Dense layers whose activations are exact, have a table, or stay floats."""
    return chain(
        image("x", 24), dense("one", 24, 33, "relu"), dense("two", 33, 20, "sigmoid"),
        dense("three", 20, 17, "relu6"), dense("four", 17, 9, "linear"), dense("last", 9, 6, last),
    )  # fmt: skip


def camera() -> Model:
    """Convolutions, a pooling between them, dense layers."""
    rng = np.random.default_rng(5)

    def conv(name: str, inputs: int, filters: int, **config: Any) -> LayerSpec:
        values = {"kernel": rng.standard_normal((3, 3, inputs, filters)).astype(np.float32) / 3,
                  "bias": rng.standard_normal(filters).astype(np.float32)}  # fmt: skip
        shared = {"filters": filters, "kernel_size": [3, 3], "activation": "relu", **config}
        return LayerSpec("Conv2D", name, (), shared, values)

    return chain(
        image("x", 9, 8, 3), conv("one", 3, 7, padding="same"), conv("two", 7, 12, strides=[2, 1]),
        LayerSpec("MaxPooling2D", "pool", (), {"pool_size": [2, 2]}, {}),
        LayerSpec("Flatten", "flat", (), {}, {}), dense("scores", 72, 5, "sigmoid"),
    )  # fmt: skip


def separable() -> Model:
    """A depthwise convolution, 1x1 behind it, a maximum, a dense layer."""
    rng = np.random.default_rng(6)

    def conv(kind: str, name: str, w: tuple[int, ...], outputs: int, **config: Any) -> LayerSpec:
        key = "depthwise_kernel" if kind == "DepthwiseConv2D" else "kernel"
        values = {key: rng.standard_normal(w).astype(np.float32) / 3,
                  "bias": rng.standard_normal(outputs).astype(np.float32)}  # fmt: skip
        shared = {"kernel_size": list(w[:2]), "activation": "relu", **config}
        return LayerSpec(kind, name, (), shared, values)

    return chain(
        image("x", 9, 8, 3), conv("Conv2D", "one", (3, 3, 3, 6), 6, filters=6),
        conv("DepthwiseConv2D", "two", (3, 3, 6, 1), 6, padding="same"),
        conv("Conv2D", "three", (1, 1, 6, 8), 8, filters=8),
        LayerSpec("MaxPooling2D", "pool", (), {"pool_size": [2, 2]}, {}),
        LayerSpec("Flatten", "flat", (), {}, {}), dense("scores", 72, 5, "linear"),
    )  # fmt: skip


def decoder() -> Model:
    """An upsampled image and a skip before a depthwise convolution, as U-Nets have them."""
    rng = np.random.default_rng(7)
    values = {"depthwise_kernel": rng.standard_normal((3, 3, 11, 1)).astype(np.float32) / 3}
    shared = {"kernel_size": [3, 3], "padding": "same", "use_bias": False}
    layers = [
        image("x", 9, 8, 3), conv("one", "x", 3, 5), conv("two", "one", 5, 6, strides=[1, 2]),
        layer("UpSampling2D", "up", "two", size=[1, 2], interpolation="nearest"),
        layer("Concatenate", "join", "up", "one", axis=-1),
        LayerSpec("DepthwiseConv2D", "each", [["join"]], shared, values),
        conv("classes", "each", 11, 3, activation="linear"),
    ]  # fmt: skip
    return Model("decoder", layers, ["x"], ["classes"])


def conv(name: str, source: str, inputs: int, filters: int, **config: Any) -> LayerSpec:
    """3x3 with ReLU, behind a layer by name."""
    rng = np.random.default_rng(filters)
    values = {"kernel": rng.standard_normal((3, 3, inputs, filters)).astype(np.float32) / 5,
              "bias": rng.standard_normal(filters).astype(np.float32) / 5}  # fmt: skip
    shared = {"filters": filters, "kernel_size": [3, 3], "activation": "relu", "padding": "same"}
    return LayerSpec("Conv2D", name, [[source]], {**shared, **config}, values)


def residual() -> Model:
    """Two sums, one of which is read twice, means over windows and over all pixels."""
    pool = {"pool_size": [3, 3], "strides": [2, 2], "padding": "same"}
    layers = [
        image("x", 9, 8, 3), conv("one", "x", 3, 6),
        conv("two", "one", 6, 6, activation="linear"), layer("Add", "sum", "one", "two"),
        layer("ReLU", "relu", "sum"), conv("three", "relu", 6, 6),
        layer("Add", "sum_2", "relu", "three"), layer("AveragePooling2D", "half", "sum_2", **pool),
        conv("four", "half", 6, 7), layer("GlobalAveragePooling2D", "all", "four"),
        replace(dense("scores", 7, 5, "linear"), calls=[["all"]]),
    ]  # fmt: skip
    return Model("residual", layers, ["x"], ["scores"])


def unet() -> Model:
    """A skip, and an upsampled image beside it."""
    layers = [
        image("x", 9, 8, 3), conv("one", "x", 3, 5), conv("two", "one", 5, 6, strides=[1, 2]),
        layer("UpSampling2D", "up", "two", size=[1, 2], interpolation="nearest"),
        layer("Concatenate", "join", "up", "one", axis=-1), conv("three", "join", 11, 4),
        conv("classes", "three", 4, 3, activation="linear"),
    ]  # fmt: skip
    return Model("unet", layers, ["x"], ["classes"])


def write(folder: Path, model: Model, samples: int = 6, scale: float = 1.0) -> tuple[Path, Path]:
    """The model and samples for it."""
    file = write_h5(folder / "net.h5", model)
    shapes = {"LSTM": (T, F), "Conv2D": (9, 8, 3)}
    shape = (samples, *shapes.get(model.layers[1].class_name, (24,)))
    x = np.random.default_rng(1).standard_normal(shape).astype(np.float32) * np.float32(scale)
    np.savez(folder / "x.npz", x=x)
    return file, folder / "x.npz"


def raw(calibration: Path, dtype: str = "int16", **others: Any) -> dict[str, Any]:
    return {"quantize": dtype, "calibration": str(calibration), "max_loss": "1", **others}


def kinds(graph: Graph) -> list[str]:
    return [node.op.kind for node in graph.nodes]


def test_values_between_integer_layers_are_never_floats(tmp_path: Path) -> None:
    graph = import_graph(make_options(*_given(tmp_path, sequences())))
    assert kinds(graph).count("Quantize") == 1
    assert kinds(graph).count("QuantizedMatMul") == 5
    assert {"QuantizedLstm", "QuantizedGru", "QuantizedRnn"} < {*kinds(graph)}
    floats = {"DequantizeLinear", "Relu", "MatMul", "Lstm", "Gru", "Rnn", "Softmax"}
    assert not floats & {*kinds(graph)}
    dense_net = import_graph(make_options(*_given(tmp_path, layers())))
    assert set(kinds(dense_net)) == {"Quantize", "QuantizedMatMul"}
    image_net = import_graph(make_options(*_given(tmp_path, camera())))
    assert kinds(image_net).count("QuantizedConv") == 2
    assert not {"Conv", "MatMul", "DequantizeLinear", "Relu", "Sigmoid"} & {*kinds(image_net)}


@pytest.mark.parametrize("dtype", ["int8", "int16"])
def test_depthwise_convolutions_are_integers(tmp_path: Path, dtype: str) -> None:
    """Also behind upsampling, which is part of them where they compute with floats."""
    for make, count in ((separable, 3), (decoder, 4)):
        found = kinds(import_graph(make_options(*_given(tmp_path, make(), dtype))))
        assert found.count("QuantizedConv") == count
        assert not {"Conv", "ConvTranspose", "MaxPool", "DequantizeLinear"} & {*found}
        assert found.count("Quantize") == 1


@pytest.mark.parametrize("dtype", ["int8", "int16"])
def test_branches_meet_as_integers(tmp_path: Path, dtype: str) -> None:
    """Sums, means, a concatenation whose parts are on one scale, upsampling."""
    floats = {"Conv", "DequantizeLinear", "Relu", "Add", "AveragePool", "ReduceMean", "MaxPool"}
    sums = import_graph(make_options(*_given(tmp_path, residual(), dtype)))
    assert not floats & {*kinds(sums)}
    assert kinds(sums).count("Quantize") == 1
    assert (
        kinds(sums).count("QuantizedElementwise") == kinds(sums).count("QuantizedAveragePool") == 2
    )
    skips = import_graph(make_options(*_given(tmp_path, unet(), dtype)))
    assert not floats & {*kinds(skips)}
    (joined,) = (n for n in skips.nodes if n.op.kind == "Concat")
    assert kinds(skips).count("Quantize") == 1
    assert {skips.types[v].dtype.value for v in joined.inputs} == {dtype}


@pytest.mark.parametrize("make", [residual, unet])
def test_values_that_are_never_negative_have_no_signs_to_move(tmp_path: Path, make: Any) -> None:
    """Behind ReLU, and sums, means and upsampling of what is: all products but the first."""
    file, calibration = write(tmp_path, make())
    compiled = compile_model(make_options(file, raw(calibration, "int8", isa=("avx2",))))
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
    given = _given(tmp_path, Model("skip", layers, ["x"], ["y"]), "int8")
    found = kinds(import_graph(make_options(*given)))
    assert "Add" in found and "QuantizedElementwise" not in found


def _given(folder: Path, model: Model, dtype: str = "int16") -> tuple[Path, dict[str, Any]]:
    file, calibration = write(folder, model)
    return file, raw(calibration, dtype)


@pytest.mark.parametrize(
    ("make", "dtype", "isa"),
    [
        *((sequences, "int16", isa) for isa in ISAS),
        *((layers, "int8", isa) for isa in ("ssse3", "avx512vnni", "neon64dot")),
        *((camera, "int16", isa) for isa in ("generic", "avx2")),
        *((separable, "int8", isa) for isa in ("avx2", "neon64")),
        *((separable, "int16", isa) for isa in ("generic", "ssse3", "avx512vnni", "neon32")),
        (decoder, "int16", "avx512"),
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
    options = make_options(file, raw(calibration, dtype, isa=(isa,)))
    compiled = compile_model(options)
    toolchain = find_toolchain(options)
    runner = need_runner(toolchain)
    graph = compiled.source.graph
    samples = read_samples(calibration, {"x": graph.types["x"]})
    with network_program(compiled.source, compiled.files, toolchain, samples) as program:
        found = program.run(runner)
    for sample, outputs in zip(samples, found, strict=True):
        for name, expected in evaluate(graph, sample).items():
            assert outputs[name].tobytes() == expected.astype(np.float32).tobytes()


@pytest.mark.parametrize("language", ["c99 gcc", "c++11 g++"])
@pytest.mark.parametrize("make", [sequences, unet])
def test_code_is_silent(tmp_path: Path, make: Any, language: str) -> None:
    file, calibration = write(tmp_path, make())
    compiled = compile_model(make_options(file, raw(calibration, isa=("avx2",), name="net")))
    for name, content in compiled.files.items():
        path = tmp_path / "code" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    compiler, *standard = LANGUAGES[language]
    need_program(compiler)
    flags = [*find_isa("avx2").flags, *WARNINGS, "-fsyntax-only"]
    command = [compiler, *standard, *flags, "net.c"]
    done = subprocess.run(
        command, cwd=tmp_path / "code", capture_output=True, text=True, check=False
    )
    assert done.returncode == 0 and not done.stderr, done.stderr


@pytest.mark.parametrize(("dtype", "most"), [("int16", 2e-3), ("int8", 0.2)])
@pytest.mark.parametrize("make", [sequences, layers, camera, separable, residual, unet, decoder])
def test_loss(tmp_path: Path, make: Any, dtype: str, most: float) -> None:
    graph = import_graph(make_options(*_given(tmp_path, make(), dtype)))
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
    options = make_options(file, raw(calibration))
    graph = import_graph(options)
    (node,) = (n for n in graph.nodes if n.op.kind == "QuantizedMatMul")
    (first,) = (n for n in graph.nodes if n.op.kind == "Quantize")
    w, bound = graph.constants[node.inputs[1]], first.op.bound  # type: ignore[attr-defined]
    worst = np.sign(w[:, :1].astype(np.int64)).T * bound
    sums = integer_product(worst, w)
    assert LARGEST_SUM // 2 < sums.max() <= LARGEST_SUM
    x = (worst * np.float32(1e3)).astype(np.float32)
    for isa in ("generic", "ssse3", "avx2"):
        net = cannery.load(file, isa=isa, **raw(calibration))
        assert np.array_equal(net(x), evaluate(graph, {"x": x})[graph.outputs[0]])


def test_streaming_has_the_bits_of_the_whole_sequence(tmp_path: Path) -> None:
    need_program("gcc")
    file, calibration = write(tmp_path, sequences())
    whole = cannery.load(file, isa="ssse3", **raw(calibration))
    x = np.load(calibration)["x"][:1]
    np.savez(tmp_path / "steps.npz", **_step_inputs(file, x))
    stepper = cannery.load(file, isa="ssse3", streaming=True, **raw(tmp_path / "steps.npz"))
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
        import_graph(make_options(file, {"streaming": True, **raw(tmp_path / name)}))
        for name in ("full.npz", "steps.npz")
    )
    assert steps.quantization == full.quantization and full.quantization is not None
    assert full.quantization.samples == T


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


def test_facts_are_told(tmp_path: Path) -> None:
    file, calibration = write(tmp_path, layers())
    compiled = compile_model(make_options(file, raw(calibration, isa=("generic",))))
    manifest = json.loads(compiled.files["net.json"])["quantization"]
    (tensor,) = compiled.source.outputs
    assert (manifest["dtype"], manifest["samples"]) == ("int16", 6)
    assert 0.0 < manifest["loss"][tensor.name] < 2e-3
    assert len(manifest["layers"]) == 5
    header = compiled.files["net.h"].decode()
    assert f"{manifest['loss'][tensor.name]:.2g} of {tensor.name}" in header
    assert f"{manifest['weight_bytes']} bytes instead of" in header
    assert calibration in compiled.dependencies


def test_a_loss_that_is_too_large_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, calibration = write(tmp_path, layers())
    words = ["compile", str(file), "-o", str(tmp_path / "out"), "--isa", "generic",
             "--quantize", "int16", "--calibration", str(calibration)]  # fmt: skip
    assert invoke([*words, "--max-loss", "1e-6"]) == 2
    told = capsys.readouterr().err
    assert "more than --max-loss 1e-06" in told and "take int16" not in told
    assert not (tmp_path / "out").exists()
    assert invoke([*words, "--max-loss", "0.5"]) == 0


def bad_samples() -> dict[str, tuple[dict[str, Array], str]]:
    x = np.zeros((2, 24), np.float32)
    return {
        "name": ({"z": x}, "no array 'x'"),
        "extra": ({"x": x, "z": x}, "unknown array 'z'"),
        "dtype": ({"x": x.astype(np.float64)}, "element type float64"),
        "shape": ({"x": x[:, :3]}, "shape"),
        "none": ({"x": x[:0]}, "shape"),
        "infinite": ({"x": x + np.float32(np.inf)}, "not finite"),
    }


@pytest.mark.parametrize("name", bad_samples())
def test_bad_samples(tmp_path: Path, name: str) -> None:
    file, calibration = write(tmp_path, layers())
    arrays, message = bad_samples()[name]
    np.savez(calibration, **arrays)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match=message):
        import_graph(make_options(file, raw(calibration)))


def test_a_file_of_another_kind_is_no_pickle(tmp_path: Path) -> None:
    file, calibration = write(tmp_path, layers())
    calibration.write_text("columns: 1, 2, 3")
    with pytest.raises(OptionError, match="not a sound") as caught:
        import_graph(make_options(file, raw(calibration)))
    assert "pickle" not in str(caught.value)


@pytest.mark.parametrize(
    ("make", "dtype", "isa"),
    [(sequences, "int16", "avx2"), (layers, "int8", "ssse3"), (camera, "int8", "neon64")],
)
def test_integers_at_the_interface(tmp_path: Path, make: Any, dtype: str, isa: str) -> None:
    """Every bit, also of inputs beyond the bound, and within a unit of the network with floats."""
    file, calibration = write(tmp_path, make())
    options = make_options(file, raw(calibration, dtype, isa=(isa,), io_type="raw"))
    compiled = compile_model(options)
    (image,), (scores,) = compiled.source.inputs, compiled.source.outputs
    assert image.type.dtype.value == scores.type.dtype.value == dtype
    assert image.scale and scores.scale
    assert "Quantize" not in kinds(compiled.source.graph)[:2]
    toolchain = find_toolchain(options)
    runner = need_runner(toolchain)
    (sample, *_) = read_samples(calibration, {"x": TensorType(image.type.shape)})
    floats = np.asarray(sample["x"], np.float64) / image.scale.scale
    info = np.iinfo(dtype)
    inside = np.clip(np.rint(floats), -info.max, info.max).astype(dtype)
    beyond = np.random.default_rng(0).choice([info.min, info.max], image.type.shape).astype(dtype)
    samples = [{"x": inside}, {"x": beyond}]
    with network_program(compiled.source, compiled.files, toolchain, samples) as program:
        found = program.run(runner)
    for given, outputs in zip(samples, found, strict=True):
        for name, expected in evaluate(compiled.source.graph, given).items():
            assert outputs[name].tobytes() == expected.tobytes()
    usual = evaluate(import_graph(make_options(file, raw(calibration, dtype))), sample)
    units = np.asarray(usual[scores.source], np.float64) / scores.scale.scale
    assert np.abs(units - found[0][scores.source].astype(np.float64)).max() <= 0.5001


def test_the_meaning_of_integers_is_told(tmp_path: Path) -> None:
    file, calibration = write(tmp_path, layers())
    compiled = compile_model(
        make_options(file, raw(calibration, "int8", isa=("generic",), io_type="raw"))
    )
    header = compiled.files["net.h"].decode()
    (x,) = compiled.source.inputs
    assert x.scale
    assert f"#define NET_X_SCALE {x.scale_c}\n#define NET_X_ZERO_POINT 0\n" in header
    assert "void net_run(const int8_t *x, int8_t *last);" in header
    manifest = json.loads(compiled.files["net.json"])
    assert manifest["inputs"][0]["scale"] == x.scale.scale
    net = cannery.load(file, isa="generic", **raw(calibration, "int8", io_type="raw"))
    assert (net.inputs[0].scale, net.inputs[0].zero_point) == (x.scale.scale, 0)


def test_floats_have_no_integers(tmp_path: Path) -> None:
    file, _ = write(tmp_path, layers())
    with pytest.raises(OptionError, match="no input or output"):
        import_graph(make_options(file, {"io_type": "raw"}))
    with pytest.raises(OptionError, match="one of: model, raw"):
        make_options(file, {"io_type": "int3"})


def test_bad_options(tmp_path: Path) -> None:
    file, calibration = write(tmp_path, layers())
    calibration.write_bytes(b"no archive")
    with pytest.raises(CanneryError, match=r"x\.npz"):
        import_graph(make_options(file, raw(calibration)))
    with pytest.raises(CanneryError, match=r"absent\.npz"):
        import_graph(make_options(file, raw(tmp_path / "absent.npz")))
    with pytest.raises(OptionError, match="--calibration FILE"):
        make_options(file, {"quantize": "int16"})
    with pytest.raises(OptionError, match="nothing is quantised"):
        make_options(file, {"calibration": str(calibration)})
    with pytest.raises(OptionError, match="int4"):
        make_options(file, raw(calibration, "int4"))


def test_networks_without_such_layers(tmp_path: Path) -> None:
    file = write_h5(tmp_path / "net.h5", chain(image("x", 24), LayerSpec("ReLU", "y", (), {}, {})))
    np.savez(tmp_path / "x.npz", x=np.ones((1, 24), np.float32))
    with pytest.raises(OptionError, match="no layer of the network has an integer form"):
        import_graph(make_options(file, raw(tmp_path / "x.npz")))


def test_cmake(tmp_path: Path) -> None:
    file, _ = write(tmp_path, layers())
    file.rename(tmp_path / "ball.h5")
    project = Project(tmp_path)
    project.write("main.c", MAIN_C.replace("IMAGE", "X").replace("SCORES", "LAST"))
    project.lists(
        "add_nn_model(ball MODEL ball.h5 QUANTIZE int16 CALIBRATION x.npz MAX_LOSS 0.01)\n"
        "add_executable(robot main.c)\ntarget_link_libraries(robot PRIVATE ball)\n"
        "add_test(NAME robot COMMAND robot)\n"
    )
    project.configure()
    project.build()
    assert "right" in project.test()
    made = next(project.tree.rglob("ball.json"))
    assert json.loads(made.read_text())["quantization"]["dtype"] == DType.INT16.value
