"""Writes a sound file in which a synthesiser says something, in a room with some noise.

    python say.py VOICE TEXT FILE.wav [--seed N]

VOICE is one of espeak-ng, such as en-us+f2, or of Flite: awb, kal16, rms, slt.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from hearing import RATE, Sound, write_wav
from sound import in_a_room, loudness, noise
from speech import FLITE, OTHER_FLITE, Voice

#: Of speech, and of noise.
LOUD, SOFT = 0.08, 0.003


def said(voice: str, text: str, seed: int) -> Sound:
    """The sound, with 0.3 s before and after the words."""
    rng = np.random.default_rng(seed)
    speech = Voice(voice, flite=voice in (*FLITE, *OTHER_FLITE)).say(text, rng)
    around = np.zeros(int(0.3 * RATE), np.float32)
    sound = in_a_room(np.concatenate([around, speech * (LOUD / loudness(speech)), around]), rng)
    return sound + SOFT * noise(len(sound), rng)


def main() -> None:
    """Writes a file."""
    parser = argparse.ArgumentParser(description="Lets a synthesiser say something.")
    parser.add_argument("voice")
    parser.add_argument("text")
    parser.add_argument("path", type=Path)
    parser.add_argument("--seed", type=int, default=1, metavar="N")
    given = parser.parse_args()
    write_wav(given.path, said(given.voice, given.text, given.seed))


if __name__ == "__main__":
    main()
