"""`cannery weights`: only for the library that they fit."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import cannery
from cannery.cli import invoke
from frontends.keras_files import LayerSpec, chain, image, write_h5
from needs import need_program
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


@pytest.mark.parametrize("content", ["", "{", "[1]", "{}", '{"weights": 3}', '{"weights": {}}'])
def test_what_is_no_manifest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str
) -> None:
    (tmp_path / "net.json").write_text(content)
    model = write_tiny_model(tmp_path / "ball.h5")
    told = error_of(capsys, "weights", model, "--for", tmp_path / "net.json", "-o", "x")
    assert "name the JSON file that `cannery compile --weights` wrote" in told


def test_integers_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    m = pytest.importorskip("frontends.onnx_models")
    one = {"s": np.float32(0.5).reshape(()), "z": np.int8(0).reshape(())}
    w = np.arange(-8, 8, dtype=np.int8).reshape(4, 4)
    nodes = [
        m.node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        m.node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        m.node("DequantizeLinear", ["w", "s", "z"], ["e"]),
        m.node("MatMul", ["d", "e"], ["m"]),
        m.node("QuantizeLinear", ["m", "s", "z"], ["p"]),
        m.node("DequantizeLinear", ["p", "s", "z"], ["y"]),
    ]
    path = m.write(tmp_path / "q.onnx", m.model(nodes, {"x": [1, 4]}, weights={**one, "w": w}))
    told = error_of(capsys, "compile", path, "-o", tmp_path / "out", "--weights", "x")
    assert "computes with integers, whose scales are in the code" in told


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
