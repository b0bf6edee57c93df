"""Synthesised speech: voices, what they say, and tracks of it with the moments of the wake words.

Voices and texts are in three sets: one to train with, one to choose the threshold with, one to
test with. No voice of espeak-ng and no page of text is in two of them.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sysconfig
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray
from scipy.signal import resample_poly

from hearing import HOP, RATE, Sound, bands_of, read_wav
from sound import in_a_room, loudness, noise

WAKE = "hey cannery"

#: What sounds much like it.
NEAR = (
    "cannery", "the cannery", "hey", "hey there", "hey Henry", "hey Mary", "hey Kenneth",
    "hey canary", "a tannery", "say granary", "can every", "okay can you", "hey can we",
    "hey Annie", "they carry", "hey Terry", "hey camera", "they can hurry", "in a cannery",
    "hey Sally", "bakery", "scenery", "machinery", "hey kitchen", "hay and berries",
    "eight canaries",
)  # fmt: skip

TRAINING, TUNING, TESTING = "training", "tuning", "testing"

#: Of English as espeak-ng has it; the others are heard in the test alone.
ACCENTS = ("en-us", "en-gb", "en-gb-x-rp", "en-gb-scotland", "en-gb-x-gbclan")
_OTHER_ACCENTS = ("en-029", "en-gb-x-gbcwmd", "en-us-nyc")

#: Flite's voices are made of recordings of people: for training, and for the test.
FLITE, OTHER_FLITE = ("kal16", "rms"), ("awb", "slt")

_ESPEAK_RATE, _ESPEAK_HEADER = 22050, 44  # of its standard output

_ONSETS = "b br ch d f fl g gr h j k kl l m n p pr r s sk sh st t th tr v w y".split()
_NUCLEI = "a e i o u ai ee oo ow ay er an en in air".split()


def set_of(name: str) -> str:
    """The set that a voice or a page belongs to, by its checksum."""
    return (TESTING, TUNING, TRAINING, TRAINING, TRAINING)[zlib.crc32(name.encode()) % 5]


@dataclass(frozen=True)
class Voice:
    """Of espeak-ng, an accent and a variant; of Flite, a name."""

    name: str
    flite: bool = False

    def say(self, text: str, rng: np.random.Generator) -> Sound:
        """At any speed and pitch, without silence around it."""
        sound, rate = self._flite(text, rng) if self.flite else self._espeak(text, rng)
        smaller = rng.uniform(0.9, 1.12)  # as a child speaks, or a large person
        sound = resample_poly(sound, 160, round(rate * smaller / 100))
        loud = np.flatnonzero(np.abs(sound) > 0.02 * np.abs(sound).max(initial=0))
        return sound[loud[0] : loud[-1] + 1].astype(np.float32) if len(loud) else sound[:0]

    def _espeak(self, text: str, rng: np.random.Generator) -> tuple[Sound, int]:
        words = ["espeak-ng", "-v", self.name, "--stdout", "-s", str(rng.integers(110, 220)),
                 "-p", str(rng.integers(15, 85)), "--", text]  # fmt: skip
        wav = subprocess.run(words, check=True, capture_output=True).stdout
        samples = np.frombuffer(wav[_ESPEAK_HEADER:], np.int16)
        return samples.astype(np.float32) / 32768, _ESPEAK_RATE

    def _flite(self, text: str, rng: np.random.Generator) -> tuple[Sound, int]:
        stretch = f"duration_stretch={rng.uniform(0.8, 1.25):.2f}"
        with TemporaryDirectory() as folder:
            path = Path(folder) / "said.wav"
            words = ["flite", "-voice", self.name, "--setf", stretch, "-t", text, "-o", str(path)]
            subprocess.run(words, check=True)
            return read_wav(path)


def _family(variant: str) -> str:
    """Steph2 is a relative of Steph; f2 is none of f1."""
    return variant.lower().rstrip("0123456789") if len(variant) > 2 else variant


@cache
def voices(which: str) -> list[Voice]:
    """Those of espeak-ng in a set, without relatives in the set for training."""
    done = subprocess.run(
        ["espeak-ng", "--voices=variant"], check=True, capture_output=True, text=True
    )
    variants = sorted(set(re.findall(r"!v/(\S.*?)\s*(?:\(|$)", done.stdout, re.MULTILINE)))
    if which != TRAINING:
        known = {_family(v) for v in variants if set_of(v) == TRAINING}
        variants = [v for v in variants if _family(v) not in known]
    accents = (*ACCENTS, *_OTHER_ACCENTS) if which == TESTING else ACCENTS
    return [Voice(f"{a}+{v}") for a in accents for v in variants if set_of(v) == which]


@cache
def sentences(which: str) -> list[str]:
    """Prose of a set: what Python's standard library says of itself."""
    found: dict[str, None] = {}
    library = Path(sysconfig.get_paths()["stdlib"])
    for path in sorted([*library.glob("*.py"), *library.glob("[a-su-z]*/*.py")]):  # not test
        if set_of(path.stem) == which and "-packages" not in path.parent.name:
            tree = ast.parse(path.read_text(encoding="utf-8", errors="replace"))
            for node in ast.walk(tree):
                if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                    found |= dict.fromkeys(_prose(ast.get_docstring(node) or ""))
    return list(found)


def _prose(text: str) -> Iterator[str]:
    """Sentences of 3 to 25 words."""
    for sentence in re.split(r"[.:;!?]\s|\n\n", text):
        plain = " ".join(re.findall(r"[A-Za-z']+", sentence))
        if 3 <= len(plain.split()) <= 25:
            yield plain


def _invented(rng: np.random.Generator) -> str:
    """Words that nobody has heard."""
    words = []
    for _ in range(rng.integers(2, 8)):
        parts = [
            str(rng.choice(_ONSETS)) + str(rng.choice(_NUCLEI)) for _ in range(rng.integers(1, 4))
        ]
        words.append("".join(parts))
    return " ".join(words)


@dataclass(frozen=True)
class Track:
    """What is heard, [T, BANDS]; the steps at which the wake words and what is near them end."""

    bands: NDArray[np.float32]
    wakes: NDArray[np.int32]
    near: NDArray[np.int32]


@dataclass(frozen=True)
class Speech:
    """Who speaks of what: shares of the wake words and of what is near them."""

    voices: Sequence[Voice]
    texts: Sequence[str]
    wakes: float = 0.0
    near: float = 0.0

    def _text(self, rng: np.random.Generator) -> tuple[str, str]:
        """The kind of what is said next, and its words."""
        kind = rng.random()
        if kind < self.wakes:
            return "wake", WAKE + str(rng.choice(["", ".", "!", "?", ","]))
        if kind < self.wakes + self.near:
            return "near", str(rng.choice(NEAR))
        if rng.random() < 0.2:
            return "", _invented(rng)
        return "", self.texts[rng.integers(len(self.texts))]

    def sound(self, seconds: float, rng: np.random.Generator) -> tuple[Sound, dict[str, list[int]]]:
        """Speech with pauses; the samples at which each kind ends."""
        pieces, at, ends = [], 0, dict[str, list[int]](wake=[], near=[])
        while at < seconds * RATE:
            pause = rng.uniform(0.02, 0.3) if rng.random() < 0.5 else rng.uniform(0.3, 1.5)
            kind, text = self._text(rng)
            said = self.voices[rng.integers(len(self.voices))].say(text, rng)
            if not len(said):  # such as a word that the synthesiser does not know
                continue
            said *= 10 ** rng.uniform(-1.9, -0.9) / loudness(said)
            pieces += [np.zeros(int(pause * RATE), np.float32), said]
            at += len(pieces[-2]) + len(said)
            if kind:
                ends[kind].append(at)
        return np.concatenate(pieces), ends

    def track(self, seconds: float, seed: int, quiet: float = 4.0) -> Track:
        """In a room, with noise; the noise is softer than speech by `quiet` dB at least."""
        rng = np.random.default_rng(seed)
        clean, ends = self.sound(seconds, rng)
        sound = in_a_room(clean, rng) if rng.random() < 0.6 else clean
        softer = 10 ** (-rng.uniform(quiet, 45) / 20)
        sound = sound + noise(len(sound), rng) * softer * loudness(sound)
        sound = (sound * 10 ** rng.uniform(-1.0, 0.3)).clip(-1, 1)
        steps = {kind: np.array(found, np.int32) // HOP for kind, found in ends.items()}
        return Track(bands_of(sound.astype(np.float32)), steps["wake"], steps["near"])


def write_tracks(path: Path, tracks: Sequence[Track]) -> None:
    """Keep tracks in a file."""
    arrays = {f"{k}_{name}": getattr(track, name)
              for k, track in enumerate(tracks) for name in ("bands", "wakes", "near")}  # fmt: skip
    np.savez(path, **arrays)


def read_tracks(path: Path) -> list[Track]:
    """The tracks of a file."""
    with np.load(path) as file:
        count = len(file.files) // 3
        return [
            Track(file[f"{k}_bands"], file[f"{k}_wakes"], file[f"{k}_near"]) for k in range(count)
        ]
