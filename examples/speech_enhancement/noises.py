"""Noise that training and measurements have."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "wake_word"))

from hearing import Sound
from sound import loudness, noise


def disturbance(count: int, rng: np.random.Generator) -> Sound:
    """Noise as of machines, with knocks."""
    sound = noise(count, rng)
    for at in rng.integers(0, count - 4000, rng.integers(0, 12)):
        knock = rng.standard_normal(4000) * np.exp(-np.arange(4000) / rng.uniform(50, 800))
        sound[at : at + 4000] += (knock * rng.uniform(1, 6)).astype(np.float32)
    return (sound / loudness(sound)).astype(np.float32)
