"""What rooms and machines add to speech."""

from __future__ import annotations

import numpy as np
from scipy.fft import irfft, next_fast_len, rfft, rfftfreq
from scipy.signal import fftconvolve

from hearing import RATE, Sound


def loudness(sound: Sound) -> float:
    """The root of the mean energy."""
    return float(np.sqrt(np.mean(np.square(sound)) + 1e-12))


def in_a_room(sound: Sound, rng: np.random.Generator) -> Sound:
    """With echoes that die away within 0.1 to 0.6 s."""
    length = rng.uniform(0.1, 0.6)
    count = int(length * RATE)
    echo = rng.standard_normal(count) * np.exp(-6.9 * np.arange(count) / count)
    echo *= rng.uniform(0.1, 0.9) / np.sqrt(np.sum(echo**2))
    echo[0] = 1.0
    return fftconvolve(sound, echo.astype(np.float32))[: len(sound)]


def noise(count: int, rng: np.random.Generator) -> Sound:
    """Between white and brown, louder and softer as time goes by, maybe with a hum; loudness 1."""
    size = next_fast_len(count)
    spectrum = rfft(rng.standard_normal(size, np.float32))
    frequency = np.maximum(rfftfreq(size, 1 / RATE), 20.0)
    sound = irfft(spectrum * frequency ** -rng.uniform(0, 1.0), size)[:count]
    knots = np.arange(0, count + RATE, RATE)
    sound *= np.interp(np.arange(count), knots, rng.uniform(0.3, 1.0, len(knots)))
    if rng.random() < 0.3:
        hum = rng.choice([50, 60, 120, 400]) * rng.uniform(0.95, 1.05)
        turns = 2 * np.pi * hum * np.arange(count) / RATE
        sound += rng.uniform(0, 1.5) * sound.std() * np.clip(3 * np.sin(turns), -1, 1)
    return (sound / loudness(sound)).astype(np.float32)
