"""Sounds of plucked strings, and the amplifier that the networks learn to imitate.

    python amplifier.py

writes riff.wav, of notes that no network was trained on, and amplified.wav, what the amplifier
makes of it. Sounds are float32 arrays of one channel, from -1 to 1, 48000 samples per second.
"""

from __future__ import annotations

import wave
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Sound = NDArray[np.float32]

RATE = 48000
#: Seeds of the riff and of the sounds of training.
RIFF, TRAINING = 1, 2
#: The lowest string of a guitar, and the semitones above it that are played.
LOWEST_HZ, SEMITONES = 82.4, 30
#: Samples for which the amplifier's filters are heard.
TAPS = 512


def pluck(rng: np.random.Generator, hz: float, seconds: float) -> Sound:
    """A plucked string: noise that goes round in a delay line and loses its high frequencies.

    Source: Karplus and Strong, Digital Synthesis of Plucked-String and Drum Timbres, 1983.
    """
    period = round(RATE / hz)
    line = rng.uniform(-1, 1, period)
    line -= line.mean()
    turns = []
    for _ in range(-(-round(seconds * RATE) // period)):
        turns.append(line)
        line = 0.498 * (line + np.roll(line, 1))
    return np.concatenate(turns)[: round(seconds * RATE)].astype(np.float32)


def played(seed: int, seconds: float) -> Sound:
    """Notes and chords of different lengths and strengths, with rests between some of them."""
    rng = np.random.default_rng(seed)
    sound = np.zeros(round(seconds * RATE), np.float32)
    at = 0
    while at < len(sound):
        length = rng.uniform(0.15, 0.8)
        for _ in range(rng.choice([1, 1, 2, 3])):
            note = pluck(rng, LOWEST_HZ * 2 ** (rng.integers(SEMITONES) / 12), length)
            note = note[: len(sound) - at] * np.float32(rng.uniform(0.1, 0.6))
            sound[at : at + len(note)] += note
        at += round((length + rng.choice([0, 0, 0.1])) * RATE)
    return np.clip(sound, -1, 1)


def amplify(sound: Sound) -> Sound:
    """The amplifier: its input loses the lows, a tube clips it, on one side first, and a
    loudspeaker takes away what is above 4.5 kHz.
    """
    bright = _filtered(sound, _second_order(150, high=True))
    bias = 0.3
    clipped = np.tanh(8 * bright + bias) - np.tanh(bias)
    return (0.6 * _filtered(clipped, _second_order(4500))).astype(np.float32)


def _second_order(hz: float, high: bool = False) -> NDArray[np.float64]:
    """What a Butterworth filter of second order, low-pass or high-pass, makes of an impulse.

    Source: Bristow-Johnson, Cookbook formulae for audio EQ biquad filter coefficients.
    """
    turn = 2 * np.pi * hz / RATE
    alpha, cosine = np.sin(turn) / np.sqrt(2), np.cos(turn)
    edge = (1 + cosine) / 2 if high else (1 - cosine) / 2
    middle = -2 * edge if high else 2 * edge
    found = np.zeros(TAPS + 2)
    for n, x in enumerate([edge, middle, edge] + [0.0] * (TAPS - 3)):
        found[n + 2] = (x + 2 * cosine * found[n + 1] - (1 - alpha) * found[n]) / (1 + alpha)
    return found[2:]


def _filtered(sound: NDArray[Any], taps: NDArray[np.float64]) -> NDArray[np.float64]:
    """Each sample from those up to it."""
    return np.convolve(sound, taps)[: len(sound)]


def error(sound: Sound, wanted: Sound) -> float:
    """Error-to-signal ratio: energy of the difference, as a part of what is wanted."""
    return float(
        np.sum((sound - wanted) ** 2, dtype=np.float64) / np.sum(wanted**2, dtype=np.float64)
    )


def write_wav(path: Path, sound: Sound) -> None:
    """One channel of 16 bits."""
    with wave.open(str(path), "wb") as file:
        file.setparams((1, 2, RATE, len(sound), "NONE", ""))
        file.writeframes(np.clip(np.rint(sound * 32767), -32768, 32767).astype("<i2").tobytes())


def read_wav(path: Path) -> Sound:
    """What `write_wav` wrote."""
    with wave.open(str(path), "rb") as file:
        return np.frombuffer(file.readframes(file.getnframes()), "<i2").astype(np.float32) / 32767


def write_riff(folder: Path, seconds: float = 10.0) -> Sequence[Path]:
    """riff.wav and amplified.wav."""
    riff = played(RIFF, seconds)
    paths = folder / "riff.wav", folder / "amplified.wav"
    write_wav(paths[0], riff)
    write_wav(paths[1], amplify(riff))
    return paths


if __name__ == "__main__":
    write_riff(Path())
