"""What a user meets of quantisation: options, samples, messages, header, manifest, CMake."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import cannery
from cannery.cli import invoke
from cannery.errors import CanneryError, OptionError
from cannery.execution.program import network_program
from cannery.execution.samples import read_samples
from cannery.ir.evaluate import evaluate
from cannery.ir.tensor import DType, TensorType
from cannery.options import make_options
from cannery.pipeline import compile_model, import_graph
from cannery.target.isa import isa as find_isa
from cannery.target.toolchain import find_toolchain
from cmake_project import MAIN_C, Project
from emit.c_programs import LANGUAGES, WARNINGS
from frontends.keras_files import LayerSpec, chain, image, write_h5
from needs import need_program, need_runner
from quantization.networks import (
    camera,
    integers,
    kinds,
    layers,
    sequences,
    unet,
    write,
)

Array = NDArray[Any]


@pytest.mark.parametrize("language", ["c99 gcc", "c++11 g++"])
@pytest.mark.parametrize("make", [sequences, unet])
def test_code_is_silent(tmp_path: Path, make: Any, language: str) -> None:
    file, calibration = write(tmp_path, make())
    compiled = compile_model(make_options(file, integers(calibration, isa=("avx2",), name="net")))
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


def test_facts_are_told(tmp_path: Path) -> None:
    file, calibration = write(tmp_path, layers())
    compiled = compile_model(make_options(file, integers(calibration, isa=("generic",))))
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
        import_graph(make_options(file, integers(calibration)))


def test_a_file_of_another_kind_is_no_pickle(tmp_path: Path) -> None:
    file, calibration = write(tmp_path, layers())
    calibration.write_text("columns: 1, 2, 3")
    with pytest.raises(OptionError, match="not a valid") as caught:
        import_graph(make_options(file, integers(calibration)))
    assert "pickle" not in str(caught.value)


@pytest.mark.parametrize(
    ("make", "dtype", "isa"),
    [(sequences, "int16", "avx2"), (layers, "int8", "ssse3"), (camera, "int8", "neon64")],
)
def test_integers_at_the_interface(tmp_path: Path, make: Any, dtype: str, isa: str) -> None:
    """Every bit, also of inputs beyond the bound, and within a unit of the network with floats."""
    file, calibration = write(tmp_path, make())
    options = make_options(file, integers(calibration, dtype, isa=(isa,), io_type="raw"))
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
    usual = evaluate(import_graph(make_options(file, integers(calibration, dtype))), sample)
    units = np.asarray(usual[scores.source], np.float64) / scores.scale.scale
    assert np.abs(units - found[0][scores.source].astype(np.float64)).max() <= 0.5001


def test_the_meaning_of_integers_is_told(tmp_path: Path) -> None:
    file, calibration = write(tmp_path, layers())
    compiled = compile_model(
        make_options(file, integers(calibration, "int8", isa=("generic",), io_type="raw"))
    )
    header = compiled.files["net.h"].decode()
    (x,) = compiled.source.inputs
    assert x.scale
    assert f"#define NET_X_SCALE {x.scale_c}\n#define NET_X_ZERO_POINT 0\n" in header
    assert "void net_run(const int8_t *x, int8_t *last);" in header
    manifest = json.loads(compiled.files["net.json"])
    assert manifest["inputs"][0]["scale"] == x.scale.scale
    net = cannery.load(file, isa="generic", **integers(calibration, "int8", io_type="raw"))
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
        import_graph(make_options(file, integers(calibration)))
    with pytest.raises(CanneryError, match=r"absent\.npz"):
        import_graph(make_options(file, integers(tmp_path / "absent.npz")))
    with pytest.raises(OptionError, match="--calibration FILE"):
        make_options(file, {"quantize": "int16"})
    for name, value in {"calibration": str(calibration), "max_loss": "0.1"}.items():
        with pytest.raises(OptionError, match="nothing is quantised") as caught:
            make_options(file, {name: value})
        assert caught.value.where == "--" + name.replace("_", "-")
    with pytest.raises(OptionError, match="int4"):
        make_options(file, integers(calibration, "int4"))


def test_networks_without_such_layers(tmp_path: Path) -> None:
    file = write_h5(tmp_path / "net.h5", chain(image("x", 24), LayerSpec("ReLU", "y", (), {}, {})))
    np.savez(tmp_path / "x.npz", x=np.ones((1, 24), np.float32))
    with pytest.raises(OptionError, match="no layer of the network has an integer form"):
        import_graph(make_options(file, integers(tmp_path / "x.npz")))


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
