"""What bands.c hears of sounds, by the C itself; sound files."""

from __future__ import annotations

import ctypes
import os
import subprocess
import wave
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray

FOLDER = Path(__file__).parent
RATE, HOP, BANDS = 16000, 320, 32

Sound = NDArray[np.float32]


def read_wav(path: Path) -> tuple[Sound, int]:
    """Samples from -1 to 1, and how many a second has."""
    with wave.open(str(path)) as file:
        samples = np.frombuffer(file.readframes(file.getnframes()), np.int16)
        return samples.astype(np.float32) / 32768, file.getframerate()


def write_wav(path: Path, sound: Sound) -> None:
    """One channel, 16 bits."""
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        file.writeframes((np.clip(sound, -1, 1) * 32767).astype(np.int16).tobytes())


@cache
def _library() -> ctypes.CDLL:
    """bands.c, so that training hears what the program hears."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "bands.so"
        command = [os.environ.get("CC", "cc"), "-O2", "-shared", "-fPIC", "bands.c", "fft.c", "-lm"]
        subprocess.run([*command, "-o", str(path)], cwd=FOLDER, check=True)
        return ctypes.CDLL(str(path))


def bands_of(sound: Sound) -> NDArray[np.float32]:
    """[T, BANDS] of a whole sound, from silence on."""
    library = _library()
    steps = len(sound) // HOP
    out = np.empty((steps, BANDS), np.float32)
    sound = np.ascontiguousarray(sound[: steps * HOP])
    state = (ctypes.c_float * 4096)()  # larger than `bands` of bands.h
    library.bands_init(state)
    first_in, first_out = sound.ctypes.data, out.ctypes.data
    for k in range(steps):
        library.bands_next(
            state, ctypes.c_void_p(first_in + 4 * HOP * k),
            ctypes.c_void_p(first_out + 4 * BANDS * k),
        )  # fmt: skip
    return out
