"""Measures by how many dB the program brings noisy speech nearer to speech (SI-SDR).

    apt install espeak-ng flite
    pip install -r requirements.txt
    python evaluate.py PROGRAM [--files N]

lets PROGRAM, such as build/enhance, process N sounds of 10 s for each row: voices and texts that
training has not heard, and noise of other seeds.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

FOLDER = Path(__file__).parent
sys.path.insert(0, str(FOLDER.parent / "wake_word"))

from hearing import RATE, Sound, write_wav  # noqa: E402
from noises import disturbance  # noqa: E402
from speech import FLITE, OTHER_FLITE, TESTING, Speech, Voice, sentences, voices  # noqa: E402

SECONDS = 10
SOFTER = (0.0, 5.0, 10.0, 20.0)


def pair(speakers: Sequence[Voice], softer: float, seed: int) -> tuple[Sound, Sound]:
    """Noisy and clean speech."""
    rng = np.random.default_rng(10**6 + seed)
    sound, _ = Speech(speakers, sentences(TESTING)).sound(SECONDS, rng)
    clean = sound[: SECONDS * RATE]
    loud = np.sqrt(np.mean(clean**2))
    noise = disturbance(len(clean), rng) * loud * 10 ** (-softer / 20)
    scale = 0.5 / np.abs(clean + noise).max()
    return scale * (clean + noise), scale * clean


def run(program: Path, noisy: Sound, clean: Sound) -> list[float]:
    """Times real time, SI-SDR after and before."""
    with TemporaryDirectory() as folder:
        paths = [Path(folder) / name for name in ("noisy.wav", "out.wav", "clean.wav")]
        write_wav(paths[0], noisy)
        write_wav(paths[2], clean)
        words = [str(program), *map(str, paths)]
        told = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    return [float(number) for number in re.findall(r"-?\d+(?:\.\d+)?", told.replace("SI-SDR", ""))]


def main() -> None:
    """Prints a table."""
    parser = argparse.ArgumentParser(description="Measures the program that takes noise away.")
    parser.add_argument("program", type=Path)
    parser.add_argument("--files", type=int, default=40, metavar="N")
    given = parser.parse_args()
    print("SI-SDR in dB: before, after, gain")
    groups = {
        "espeak-ng": voices(TESTING),
        "Flite": [Voice(name, flite=True) for name in (*FLITE, *OTHER_FLITE)],
    }
    for name, speakers in groups.items():
        for softer in SOFTER:
            pairs = (pair(speakers, softer, k) for k in range(given.files))
            rows = np.array([run(given.program, *sounds) for sounds in pairs])
            _, after, before = rows.mean(0)
            print(f"{name:10} {before:6.1f} {after:6.1f} {after - before:6.1f}", flush=True)


if __name__ == "__main__":
    main()
