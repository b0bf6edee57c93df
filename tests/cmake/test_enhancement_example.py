"""The example that takes noise out of speech: how much better it is, and that it is the network."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cannery.ir.evaluate import evaluate
from cannery.options import make_options
from cannery.pipeline import load_model
from cmake_project import EXAMPLES, Project, copy_of_example
from needs import need_program

EXAMPLE = EXAMPLES / "speech_enhancement"
sys.path.insert(0, str(EXAMPLES / "wake_word"))

from hearing import read_wav, write_wav  # noqa: E402

WARNINGS = "-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror"
SIZE, HOP = 512, 256
NOISY, CLEAN = (f"sounds/{name}.wav" for name in ("noisy", "clean"))


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A copy of the example, built for this machine."""
    example = copy_of_example(
        tmp_path_factory.mktemp("enhancement"), "speech_enhancement", "wake_word", "effect"
    )
    example.configure("-DCANNERY_TARGET=native", f"-DCMAKE_C_FLAGS={WARNINGS}")
    example.build()
    return example


def by_reference(noisy: NDArray[np.float32]) -> NDArray[np.float64]:
    """The whole sound in float64: spectra, the network's references, and back."""
    window = np.sqrt(np.hanning(SIZE + 1)[:-1])
    steps = -(-len(noisy) // HOP) + 1
    padded = np.zeros((steps + 1) * HOP)
    padded[HOP : HOP + len(noisy)] = noisy
    spectra = np.fft.rfft([window * padded[k * HOP : k * HOP + SIZE] for k in range(steps)])
    loudness = 0.2 * np.log(np.abs(spectra) ** 2 + 1e-5)
    graph = load_model(make_options(EXAMPLE / "denoise.onnx", {"dims": (f"T={steps}",)}))
    inputs = {"loudness": loudness.astype(np.float32).reshape(graph.types["loudness"].shape)}
    (mask,) = evaluate(graph, inputs).values()
    pieces = window * np.fft.irfft(spectra * mask.reshape(spectra.shape))
    return np.asarray((pieces[:-1, HOP:] + pieces[1:, :HOP]).reshape(-1)[: len(noisy)])


def si_sdr(made: NDArray[Any], clean: NDArray[Any]) -> float:
    share = (made @ clean) / (clean @ clean) * clean
    rest = made - share
    return float(10 * np.log10((share @ share) / (rest @ rest)))


def test_speech_is_nearer_to_what_was_said(project: Project) -> None:
    told = project.run(project.tree / "enhance", NOISY, "out.wav", CLEAN)
    noisy, made, clean = (
        read_wav(project.folder / name)[0].astype(np.float64) for name in (NOISY, "out.wav", CLEAN)
    )
    before, after = si_sdr(noisy, clean), si_sdr(made, clean)
    assert after - before > 6
    assert "times real time" in told
    assert told.endswith(f", SI-SDR {after:.1f} dB, before {before:.1f} dB\n")


def test_steps_are_the_whole_network(project: Project, tmp_path: Path) -> None:
    """Of a length that is no multiple of a step."""
    noisy = read_wav(EXAMPLE / NOISY)[0][: 40 * HOP + 77]
    write_wav(tmp_path / "in.wav", noisy)
    project.run(project.tree / "enhance", tmp_path / "in.wav", tmp_path / "out.wav")
    made = read_wav(tmp_path / "out.wav")[0]
    expected = by_reference(read_wav(tmp_path / "in.wav")[0])
    assert len(made) == len(expected)
    assert np.abs(made - expected).max() < 2 / 32767
    assert np.abs(expected).max() > 0.1


@pytest.mark.parametrize(
    ("names", "words"),
    [(("empty.wav", "o.wav"), "empty.wav: cannot be read, or is not a WAV file"),
     ((NOISY, "o.wav", "short.wav"), "short.wav: cannot be read, or is not as long"),
     ((NOISY,), "usage: enhance noisy.wav")],
    ids=["empty", "short", "usage"],
)  # fmt: skip
def test_other_files_are_refused(project: Project, names: tuple[str, ...], words: str) -> None:
    (project.folder / "empty.wav").write_bytes(b"")
    write_wav(project.folder / "short.wav", np.zeros(100, np.float32))
    assert words in project.run(project.tree / "enhance", *names, ok=False)
    assert not (project.folder / "o.wav").exists()


def test_training_writes_a_network_that_streams(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("scipy")
    need_program("espeak-ng")
    example = copy_of_example(tmp_path, "speech_enhancement", "wake_word", "effect")
    words = [sys.executable, "train.py", "--minutes", "0.01", "--tracks", "2"]
    done = subprocess.run(words, cwd=example.folder, text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    written = example.folder / "denoise.onnx"
    assert written.read_bytes() != (EXAMPLE / "denoise.onnx").read_bytes()
    graph = load_model(make_options(written, {"dims": ("T=16",), "streaming": True}))
    assert graph.types[graph.outputs[0]].shape[-1] == SIZE // 2 + 1
