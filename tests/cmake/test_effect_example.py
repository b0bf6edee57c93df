"""The example that sounds like an amplifier: its program, and its plugin in a host."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from cannery.ir.evaluate import evaluate
from cannery.options import make_options
from cannery.pipeline import load_model
from cmake_project import Project, copy_of_example
from needs import need_program

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "effect"
sys.path.insert(0, str(EXAMPLE))

from amplifier import RATE, Sound, error, read_wav, write_riff, write_wav  # noqa: E402

WARNINGS = "-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror"
#: The errors that README.md states, and room for other sounds.
LARGEST = {"wavenet": 0.015, "lstm": 0.015}
#: Samples that are compared with the reference, more than the networks look back;
#: not a multiple of 64.
SAMPLES = 3001
URI = "https://example.org/cannery/effect"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A copy of the example, built for this machine, with sounds beside it."""
    folder = tmp_path_factory.mktemp("effect") / "example"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("build", "__pycache__"))
    example = Project(folder, Path(sys.executable))
    example.configure("-DCANNERY_TARGET=native", f"-DCMAKE_C_FLAGS={WARNINGS}")
    example.build()
    write_riff(folder, seconds=2.0)
    return example


def reference(name: str, sound: Sound) -> Sound:
    """What the network makes of a whole sound, by the float64 references."""
    options = make_options(EXAMPLE / f"{name}.onnx", {"dims": (f"T={len(sound)}",)})
    graph = load_model(options)
    (wet,) = evaluate(graph, {"dry": sound.reshape(graph.types["dry"].shape)}).values()
    return wet.reshape(-1).astype(np.float32)


@pytest.mark.parametrize("name", LARGEST)
def test_sound_is_that_of_the_amplifier(project: Project, name: str) -> None:
    riff, wanted, out = (project.folder / f"{word}.wav" for word in ("riff", "amplified", name))
    told = project.run(project.tree / "effect", name, riff, out, wanted)
    assert told.startswith(f"{name}: ") and "times real time" in told
    found = error(read_wav(out), read_wav(wanted))
    assert found < LARGEST[name]
    assert float(told.rsplit(" ", 1)[1]) == pytest.approx(found, abs=2e-4)


@pytest.mark.parametrize("name", LARGEST)
def test_blocks_are_the_whole_network(project: Project, tmp_path: Path, name: str) -> None:
    sound = read_wav(project.folder / "riff.wav")[:SAMPLES]
    write_wav(tmp_path / "in.wav", sound)
    project.run(project.tree / "effect", name, tmp_path / "in.wav", tmp_path / "out.wav")
    assert np.abs(read_wav(tmp_path / "out.wav") - reference(name, sound)).max() < 1 / 32767


@pytest.mark.parametrize(
    ("content", "words"),
    [(b"", "cannot be read, or is not a WAV file of one channel"),
     (b"RIFF\0\0\0\0WAVEfmt \x10\0\0\0\1\0\2\0" + bytes(12), "not a WAV file of one channel"),
     (b"RIFF\0\0\0\0WAVEdata\xff\xff\xff\xff", "not a WAV file")],
    ids=["empty", "stereo", "cut"],
)  # fmt: skip
def test_other_files_are_refused(
    project: Project, tmp_path: Path, content: bytes, words: str
) -> None:
    (tmp_path / "other.wav").write_bytes(content)
    out = tmp_path / "out.wav"
    told = project.run(project.tree / "effect", "lstm", tmp_path / "other.wav", out, ok=False)
    assert "other.wav" in told and words in told and not out.exists()


def test_a_host_runs_the_plugin(project: Project) -> None:
    """lv2apply passes one sample at a time, after a warm-up with silence."""
    host = need_program("lv2apply")
    riff, alone, out = (project.folder / f"{name}.wav" for name in ("short", "alone", "plugin"))
    sound = read_wav(project.folder / "riff.wav")[: RATE // 4]
    write_wav(riff, np.concatenate([np.zeros(2100, np.float32), sound]))
    project.run(project.tree / "effect", "wavenet", riff, alone)
    done = subprocess.run(
        [host, "-i", str(riff), "-o", str(out), URI], text=True, capture_output=True, check=False,
        env={**os.environ, "LV2_PATH": str(project.tree / "lv2")}, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    hosted, direct = read_wav(out)[2100:], read_wav(alone)[2100:]
    assert len(hosted) == RATE // 4
    assert np.abs(hosted - direct).max() <= 2 / 32767


def test_training_writes_networks_that_stream(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    folder = copy_of_example(tmp_path, "effect").folder
    done = subprocess.run(
        [sys.executable, "train.py", "--minutes", "0.01"], cwd=folder, text=True,
        capture_output=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    for name in LARGEST:
        load_model(make_options(folder / f"{name}.onnx", {
            "dims": ("T=64",), "streaming": True, "block": (64,)}))  # fmt: skip
