"""The example that hears wake words: what it hears, and when, for this machine and a Cortex-M7."""

from __future__ import annotations

import re
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
from cmake_project import EXAMPLES, Project, copy_of_example, need_tools
from needs import need_program

EXAMPLE = EXAMPLES / "wake_word"
sys.path.insert(0, str(EXAMPLE))

from hearing import BANDS, HOP, RATE, bands_of, read_wav, write_wav  # noqa: E402

WARNINGS = "-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror"
SOUNDS = {"hey_cannery": (0.9, 1.2), "others": None}  # seconds within which the words end


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A copy of the example, built for this machine."""
    example = copy_of_example(tmp_path_factory.mktemp("wake"), "wake_word", "effect")
    example.configure("-DCANNERY_TARGET=native", f"-DCMAKE_C_FLAGS={WARNINGS}")
    example.build()
    return example


def bands_by_definition(sound: NDArray[Any]) -> NDArray[np.float64]:
    """bands.h in float64."""
    window, count = 512, len(sound) // HOP
    past = np.concatenate([np.zeros(window - HOP), sound.astype(np.float64)])

    def mel(frequency: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.log1p(frequency / 700)

    low, high = mel(np.array([100.0, 7600.0]))
    place = (mel(np.fft.rfftfreq(window, 1 / RATE)) - low) / (high - low) * (BANDS + 1)
    triangles = np.maximum(0, 1 - np.abs(place[:, None] - np.arange(1, BANDS + 1)))
    hann = np.hanning(window + 1)[:-1]
    pieces = np.stack([past[k * HOP : k * HOP + window] for k in range(count)])
    energy = np.abs(np.fft.rfft(hann * pieces)) ** 2
    return np.asarray(0.2 * np.log(energy @ triangles + 1e-4))


def heard_by_reference(sound: NDArray[np.float32]) -> list[str]:
    """When the words end, by the float64 references and what listener.c does with the results."""
    bands = bands_by_definition(sound).astype(np.float32)
    graph = load_model(make_options(EXAMPLE / "wake.onnx", {"dims": (f"T={len(bands)}",)}))
    (probability,) = evaluate(graph, {"bands": bands.T[None]}).values()
    likely, pause, found = 0.0, 0, []
    for step, value in enumerate(probability.reshape(-1)):
        likely += 0.4 * (float(value) - likely)
        if pause:
            pause -= 1
        elif likely > 0.9:
            found.append(f"heard at {(step + 1) * HOP / RATE:.2f} s")
            pause = 30
    return found or ["nothing heard"]


def test_bands_are_those_of_their_definition() -> None:
    need_program("cc")
    time = np.arange(2 * RATE + 100) / RATE
    sweep = 0.7 * np.sin(2 * np.pi * (50 * time + 1900 * time**2))
    sound = (sweep + 1e-3 * np.random.default_rng(1).standard_normal(len(time))).astype(np.float32)
    made = bands_of(sound)
    assert made.shape == (100, BANDS)
    np.testing.assert_allclose(made, bands_by_definition(sound), atol=1e-3)
    assert (np.diff(made.argmax(1)[2:]) >= -1).all(), "the loudest band is the sweep's"
    np.testing.assert_allclose(bands_of(np.zeros(HOP, np.float32)), 0.2 * np.log(1e-4), rtol=1e-6)


@pytest.mark.parametrize("name", SOUNDS)
def test_words_are_heard_when_they_end(project: Project, name: str) -> None:
    told = project.run(project.tree / "wake_word", f"sounds/{name}.wav").splitlines()
    sound, rate = read_wav(EXAMPLE / "sounds" / f"{name}.wav")
    assert rate == RATE
    assert told == [f"sounds/{name}.wav: {line}" for line in heard_by_reference(sound)]
    times = [float(t) for t in re.findall(r"heard at ([\d.]+) s", "\n".join(told))]
    expected = SOUNDS[name]
    if expected is None:
        assert not times
    else:
        assert len(times) == 1 and expected[0] < times[0] < expected[1]


def test_several_times_with_other_words_between(project: Project, tmp_path: Path) -> None:
    wake, other = (read_wav(EXAMPLE / "sounds" / f"{name}.wav")[0] for name in SOUNDS)
    silence = np.zeros(RATE, np.float32)
    sound = np.concatenate([other, wake, silence, silence, 0.5 * wake, other])
    write_wav(tmp_path / "long.wav", sound)
    told = project.run(project.tree / "wake_word", tmp_path / "long.wav").splitlines()
    sound, _ = read_wav(tmp_path / "long.wav")
    assert told == [f"{tmp_path}/long.wav: {line}" for line in heard_by_reference(sound)]
    assert len(told) == 2


def test_on_a_microcontroller(tmp_path: Path) -> None:
    """A Cortex-M7 hears the same at the same time."""
    need_tools("cortex-m7")
    example = copy_of_example(tmp_path, "wake_word", "effect")
    example.configure("-DCMAKE_COMPILE_WARNING_AS_ERROR=ON", toolchain="arm-none-eabi")
    example.build()
    told = example.test()
    for name in SOUNDS:
        sound, _ = read_wav(EXAMPLE / "sounds" / f"{name}.wav")
        for line in heard_by_reference(sound):
            assert f"sounds/{name}.wav: {line}\n" in told
    assert example.isa(target="wake", name="wake") == "thumbdsp"


@pytest.mark.parametrize("content", [b"", b"RIFF\0\0\0\0WAVEdata\xff\xff\xff\xff"])
def test_other_files_are_refused(project: Project, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "other.wav").write_bytes(content)
    told = project.run(project.tree / "wake_word", tmp_path / "other.wav", ok=False)
    assert "other.wav: cannot be read, or is not a WAV file of one channel" in told


def test_another_rate_is_refused(project: Project, tmp_path: Path) -> None:
    write_wav(tmp_path / "slow.wav", np.zeros(800, np.float32))
    content = bytearray((tmp_path / "slow.wav").read_bytes())
    content[24:28] = (8000).to_bytes(4, "little")
    (tmp_path / "slow.wav").write_bytes(content)
    told = project.run(project.tree / "wake_word", tmp_path / "slow.wav", ok=False)
    assert "slow.wav: cannot be read" in told and "16000 Hz" in told


def test_training_writes_a_network_that_streams(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("scipy")
    need_program("espeak-ng")
    example = copy_of_example(tmp_path, "wake_word", "effect")
    words = [sys.executable, "train.py", "--minutes", "0.01", "--tracks", "2"]
    done = subprocess.run(words, cwd=example.folder, text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    written = example.folder / "wake.onnx"
    assert written.read_bytes() != (EXAMPLE / "wake.onnx").read_bytes()
    graph = load_model(make_options(written, {"dims": ("T=64",), "streaming": True}))
    assert graph.types["bands"].shape in ((1, 1, BANDS), (1, BANDS, 1))
