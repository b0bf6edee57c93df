"""`cannery weights`: only for the library that they fit."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import cannery
from cannery.cli import invoke
from frontends.keras_files import LayerSpec, chain, image, write_h5
from needs import need_program
from quantization import networks
from tiny_models import write_tiny_dense, write_tiny_model


def compiled(folder: Path, *words: str) -> Path:
    """The folder of a library whose weights are apart."""
    out = folder / "out"
    model = write_tiny_model(folder / "ball.h5")
    weights = str(folder / "ball.weights")
    assert invoke(["compile", str(model), "-o", str(out), "--weights", weights, *words]) == 0
    return out


@pytest.mark.parametrize(
    "words",
    [
        ("--isa", "sse2"),
        ("--target", "silvermont", "--many", "4", "--rename", "image=picture"),
        ("--isa", "avx2", "--scale", "-0.5", "--input-dtype", "image=uint8", "--name", "net"),
    ],
    ids=lambda words: words[1],
)
def test_weights_of_another_training(tmp_path: Path, words: tuple[str, ...]) -> None:
    out = compiled(tmp_path, *words)
    name = "net" if "--name" in words else "ball"
    other = write_tiny_model(tmp_path / "retrained.h5", seed=7)
    made = tmp_path / "new.weights"
    manifest = out / f"{name}.json"
    assert invoke(["weights", str(other), "--for", str(manifest), "-o", str(made)]) == 0
    again = tmp_path / "again.weights"
    given = [*words, "--name", name] if name == "ball" else list(words)
    out_again = tmp_path / "out_again"
    assert invoke(
        ["compile", str(other), "-o", str(out_again), "--weights", str(again), *given]
    ) == 0  # fmt: skip
    assert made.read_bytes() == again.read_bytes()
    assert made.read_bytes() != (tmp_path / "ball.weights").read_bytes()
    assert (out / f"{name}.c").read_bytes() == (out_again / f"{name}.c").read_bytes()


def error_of(capsys: pytest.CaptureFixture[str], *words: str | Path) -> str:
    assert invoke([str(word) for word in words]) == 2
    return capsys.readouterr().err


def test_models_that_do_not_fit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    manifest = compiled(tmp_path, "--isa", "sse2") / "ball.json"
    wanted = ("--for", manifest, "-o", tmp_path / "new.weights")
    larger = write_tiny_model(tmp_path / "larger.h5", size=5)
    told = error_of(capsys, "weights", larger, *wanted)
    assert "larger.h5 does not fit: layer 'scores' " in told
    dense = write_tiny_dense(tmp_path / "dense.h5")
    assert "does not fit: layer 'scores' is computed by" in error_of(
        capsys, "weights", dense, *wanted
    )
    assert not (tmp_path / "new.weights").exists()
    same = tmp_path / "ball.h5"
    told = error_of(capsys, "weights", same, *wanted, "--isa", "avx2")
    assert "does not fit: " in told


@pytest.mark.parametrize("isa", ["avx2", "sse2", "generic"])
def test_the_layer_that_differs_is_named_not_one_that_makes_room_for_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], isa: str
) -> None:
    """A wider window makes the layer before it write a wider border."""

    def convs(size: int) -> Path:
        rng = np.random.default_rng(size)
        layers = [
            LayerSpec(
                "Conv2D", name, (), {"filters": 4, "kernel_size": [taps, taps], "padding": "same"},
                {"kernel": rng.standard_normal((taps, taps, depth, 4)).astype(np.float32),
                 "bias": np.zeros(4, np.float32)},
            )
            for name, taps, depth in (("first", 3, 1), ("second", size, 4), ("third", 3, 4))
        ]  # fmt: skip
        path = tmp_path / f"net_{size}.h5"
        write_h5(path, chain(image("image", 24, 24, 1), *layers))
        return path

    out = tmp_path / "out"
    words = ["-o", str(out), "--isa", isa, "--name", "net", "--weights", str(tmp_path / "w")]
    assert invoke(["compile", str(convs(3)), *words]) == 0
    wanted = ("--for", out / "net.json", "-o", tmp_path / "new.weights")
    told = error_of(capsys, "weights", convs(5), *wanted)
    assert "does not fit: layer 'second' has another shape than in the library" in told


def test_a_number_in_the_code_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A scale of the input is not a weight."""
    manifest = compiled(
        tmp_path, "--isa", "generic", "--input-dtype", "image=uint8", "--scale", "0.5"
    ) / "ball.json"  # fmt: skip
    wanted = ("--for", manifest, "-o", tmp_path / "new.weights")
    assert invoke(["weights", str(tmp_path / "ball.h5"), *map(str, wanted)]) == 0
    content = json.loads(manifest.read_text())
    (symbol, *_) = content["weights"]["code"]
    content["weights"]["code"][symbol] = "00000000"
    content["model_hash"] = "0" * 16
    manifest.write_text(json.dumps(content))
    told = error_of(capsys, "weights", tmp_path / "ball.h5", *wanted)
    assert "has numbers in its code that are others in the library" in told


@pytest.mark.parametrize(
    "content",
    ["", "{", "[1]", "{}", '{"weights": 3}', '{"weights": {}}',
     '{"weights": {"options": [], "code": {}}}'],
)  # fmt: skip
def test_what_is_no_manifest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str
) -> None:
    (tmp_path / "net.json").write_text(content)
    model = write_tiny_model(tmp_path / "ball.h5")
    told = error_of(capsys, "weights", model, "--for", tmp_path / "net.json", "-o", "x")
    assert "name the JSON file that `cannery compile --weights` wrote" in told


@pytest.mark.parametrize(
    ("name", "value"),
    [("macs", "many"), ("nodes", []), ("nodes", [3]), ("reads", None), ("schedule", None)],
)
def test_damaged_steps_of_a_manifest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, value: object
) -> None:
    manifest = compiled(tmp_path, "--isa", "generic") / "ball.json"
    content = json.loads(manifest.read_text())
    content["steps"][0][name] = value
    manifest.write_text(json.dumps(content))
    told = error_of(
        capsys, "weights", tmp_path / "ball.h5", "--for", manifest, "-o", tmp_path / "x"
    )
    assert "not a library whose weights are apart: Expected" in told


def test_options_of_a_manifest_that_are_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest = compiled(tmp_path, "--isa", "generic") / "ball.json"
    content = json.loads(manifest.read_text())
    content["weights"]["options"] = ["--nonsense"]
    manifest.write_text(json.dumps(content))
    told = error_of(capsys, "weights", tmp_path / "ball.h5", "--for", manifest, "-o", "x")
    assert "--nonsense" in told


def stored(path: Path, seed: int, scale: float = 0.5) -> Path:
    """A dense layer of stored integers, and the scale of its input."""
    m = pytest.importorskip("frontends.onnx_models")
    rng = np.random.default_rng(seed)
    weights = {
        "s": np.float32(scale), "z": np.int8(0), "t": np.float32(rng.uniform(0.01, 0.02)),
        "w": rng.integers(-128, 127, (4, 4), np.int8),
    }  # fmt: skip
    nodes = [
        m.node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        m.node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        m.node("DequantizeLinear", ["w", "t", "z"], ["e"]),
        m.node("MatMul", ["d", "e"], ["m"]),
        m.node("QuantizeLinear", ["m", "s", "z"], ["p"]),
        m.node("DequantizeLinear", ["p", "s", "z"], ["y"]),
    ]
    found = m.write(path, m.model(nodes, {"x": [1, 4]}, weights=weights))
    assert isinstance(found, Path)
    return found


def test_stored_integers_get_other_weights(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    given = ["--isa", "sse2", "--name", "net", "--weights", str(tmp_path / "w")]
    assert invoke(["compile", str(stored(tmp_path / "a.onnx", 1)), "-o", str(out), *given]) == 0
    wanted = ("--for", out / "net.json", "-o", tmp_path / "new.weights")
    second = stored(tmp_path / "b.onnx", 2)
    assert invoke(["weights", str(second), *map(str, wanted)]) == 0
    assert (tmp_path / "new.weights").stat().st_size == (tmp_path / "w").stat().st_size
    assert (tmp_path / "new.weights").read_bytes() != (tmp_path / "w").read_bytes()
    told = error_of(capsys, "weights", stored(tmp_path / "c.onnx", 2, scale=0.25), *wanted)
    assert "has numbers in its code that are others in the library" in told
    assert "scales of values" in told


def quantised(folder: Path) -> tuple[Path, list[str]]:
    """A quantised library with weights apart: its manifest, and words that name the samples."""
    model, samples = networks.write(folder, networks.layers())
    words = ["--calibration", str(samples)]
    given = ["--isa", "sse2", "--quantize", "int8", "--weights", str(folder / "net.weights")]
    assert invoke(["compile", str(model), "-o", str(folder / "out"), *given, *words]) == 0
    return folder / "out" / "net.json", words


def test_quantised_networks_keep_the_scales_of_the_library(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest, words = quantised(tmp_path)
    (tmp_path / "other").mkdir()
    other, _ = networks.write(tmp_path / "other", networks.retrained(networks.layers()))
    wanted = ("--for", manifest, "-o", tmp_path / "new.weights")
    assert invoke(["weights", str(other), *map(str, wanted), *words]) == 0
    own = tmp_path / "own.weights"
    given = ["--isa", "sse2", "--quantize", "int8", "--weights", str(own), *words]
    assert invoke(["compile", str(other), "-o", str(tmp_path / "own"), *given]) == 0
    made = (tmp_path / "new.weights").read_bytes()
    assert made[:64] != own.read_bytes()[:64], "scales of its own, and so other code"
    assert made != (tmp_path / "net.weights").read_bytes()
    assert made[32:48] == (tmp_path / "net.weights").read_bytes()[32:48], "the hash of the code"
    capsys.readouterr()
    told = error_of(capsys, "weights", other, *wanted)
    assert "name typical inputs with --calibration" in told
    told = error_of(capsys, "weights", other, *wanted, *words, "--max-loss", "1e-6")
    assert "more than --max-loss 1e-06" in told
    shorter = replace(networks.layers(), layers=networks.layers().layers[:-1])
    shorter = replace(shorter, outputs=[shorter.layers[-1].name])
    less, _ = networks.write(tmp_path / "other", shorter)
    assert "those of other layers" in error_of(capsys, "weights", less, *wanted, *words)


@pytest.mark.parametrize(
    "ranges", [None, 3, [[1]], [[1, -1.0]], [[-1, 1.0]], [[True, 1.0]], [["a", 1.0]], [[1e9, 1.0]]]
)
def test_scales_that_are_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], ranges: object
) -> None:
    manifest, words = quantised(tmp_path)
    content = json.loads(manifest.read_text())
    content["weights"]["ranges"] = ranges
    manifest.write_text(json.dumps(content))
    told = error_of(
        capsys, "weights", tmp_path / "net.h5", "--for", manifest, "-o", tmp_path / "x", *words
    )
    assert "not a library that --quantize made" in told
    assert not (tmp_path / "x").exists()


def test_python_has_the_weights_in_its_library(tmp_path: Path) -> None:
    need_program("cc", "gcc")
    model = write_tiny_model(tmp_path / "ball.h5")
    image = np.ones((8, 8, 1), np.float32)
    plain, apart = (cannery.load(model, **given) for given in ({}, {"weights": "x.weights"}))
    assert np.array_equal(plain(image), apart(image))


def test_compile_of_python_writes_both(tmp_path: Path) -> None:
    model = write_tiny_model(tmp_path / "ball.h5")
    weights = tmp_path / "somewhere" / "ball.weights"
    result = cannery.compile(model, tmp_path / "out", isa="sse2", weights=weights)
    assert weights.read_bytes().startswith(b"CNWEIGHT")
    assert "ball_weights_file.c" in result.files
    assert "ball.weights" not in {path.name for path in (tmp_path / "out").iterdir()}


def test_verify_runs_what_is_shipped(tmp_path: Path) -> None:
    need_program("cc", "gcc")
    model = write_tiny_model(tmp_path / "ball.h5")
    assert invoke(["verify", str(model), "--isa", "generic", "--weights", "x.weights"]) == 0
