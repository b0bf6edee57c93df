"""Measures how often the wake words are heard, and how often something else is taken for them.

    apt install espeak-ng flite
    pip install -r requirements.txt
    python evaluate.py [--hours H] [--tune]

synthesises H hours of other speech (10 by default) and tracks with the wake words, by voices and of
texts that training has not seen. The network is compiled by Cannery; what follows it is what
listener.c does.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing import Pool
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter

import cannery
from speech import (
    ACCENTS,
    OTHER_FLITE,
    TESTING,
    TUNING,
    Speech,
    Track,
    Voice,
    sentences,
    voices,
)  # fmt: skip

FOLDER = Path(__file__).parent
SECONDS = 20.0
BLOCK = 50
STEPS_PER_HOUR = 50 * 3600
THRESHOLDS = (0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95)

#: An answer counts if it comes so many steps before or after the end of the words.
EARLY, LATE = 12, 25


def listener_number(name: str) -> float:
    """A number of listener.c."""
    found = re.search(rf"\b{name}\b[ =]*([0-9.]+)", (FOLDER / "listener.c").read_text())
    assert found is not None, name
    return float(found[1])


def answers(probability: NDArray[np.float32], threshold: float) -> list[int]:
    """The steps at which listener.c says that it has heard the words."""
    newest, pause = listener_number("NEWEST"), int(listener_number("PAUSE"))
    likely = lfilter([newest], [1, newest - 1], probability)
    found: list[int] = []
    for step in np.flatnonzero(likely > threshold):
        if not found or step > found[-1] + pause:
            found.append(int(step))
    return found


def heard(ends: NDArray[np.int32], found: Sequence[int]) -> int:
    """At how many of the ends there is an answer."""
    return sum(any(-EARLY <= step - end <= LATE for step in found) for end in ends)


class Group(NamedTuple):
    """Voices that are told of together, and their share of the hours."""

    name: str
    voices: Sequence[Voice]
    share: float


def groups(which: str) -> list[Group]:
    """Of a set."""
    known = [v for v in voices(which) if v.name.split("+")[0] in ACCENTS]
    if which == TUNING:
        return [Group("espeak-ng", known, 1.0)]
    others = [v for v in voices(which) if v not in known]
    flite = [Voice(name, flite=True) for name in OTHER_FLITE]
    return [
        Group("espeak-ng", known, 1.0), Group("other accents", others, 0.5),
        Group("Flite", flite, 0.5),
    ]  # fmt: skip


class Ears:
    """The network as C."""

    def __init__(self) -> None:
        self.net = cannery.load(
            FOLDER / "wake.onnx", dims={"T": BLOCK}, streaming=True, block=(BLOCK,)
        )

    def probability(self, bands: NDArray[np.float32]) -> NDArray[np.float32]:
        """Of each step, but for those after the last whole block."""
        state = self.net.new_state()
        blocks = [bands[k : k + BLOCK] for k in range(0, len(bands) - BLOCK + 1, BLOCK)]
        return np.concatenate([
            np.array(self.net.step(state, np.ascontiguousarray(b.T[None]))).reshape(-1)
            for b in blocks
        ])  # fmt: skip


def _track(speech: Speech, seed: int) -> Track:
    return speech.track(SECONDS, seed, quiet=5.0)


def tracks(speech: Speech, hours: float, first: int) -> Iterator[Track]:
    """Made on all cores."""
    count = max(round(hours * 3600 / SECONDS), 1)
    with Pool() as pool:
        yield from pool.imap(partial(_track, speech), range(first, first + count), chunksize=8)


@dataclass
class Counts:
    """Wake words that were heard, and all; the same of what sounds near; answers to other speech,
    and the steps of that.
    """

    wakes_heard: int = 0
    wakes: int = 0
    near_heard: int = 0
    near: int = 0
    alarms: int = 0
    steps: int = 0

    def __str__(self) -> str:
        hours = self.steps / STEPS_PER_HOUR
        return (
            f"{self.wakes_heard:5} of {self.wakes:4} {self.near_heard:5} of {self.near:4}"
            f" {self.alarms:5} in {hours:5.1f} h: {self.alarms / hours:.2f}"
        )


def measure(
    ears: Ears, group: Group, texts: Sequence[str], hours: float, thresholds: Sequence[float]
) -> list[Counts]:
    """With each threshold, in so many hours of other speech, and a tenth of that with the words."""
    found = [Counts() for _ in thresholds]
    mixed = Speech(group.voices, texts, wakes=0.45, near=0.2)
    for track in tracks(mixed, hours / 10, 10**6):
        probability = ears.probability(track.bands)
        last = len(probability) - LATE
        wakes, near = track.wakes[track.wakes < last], track.near[track.near < last]
        for counts, threshold in zip(found, thresholds, strict=True):
            at = answers(probability, threshold)
            counts.wakes_heard, counts.wakes = (
                counts.wakes_heard + heard(wakes, at), counts.wakes + len(wakes))  # fmt: skip
            counts.near_heard, counts.near = (
                counts.near_heard + heard(near, at), counts.near + len(near))  # fmt: skip
    for track in tracks(Speech(group.voices, texts), hours, 2 * 10**6):
        probability = ears.probability(track.bands)
        for counts, threshold in zip(found, thresholds, strict=True):
            counts.alarms += len(answers(probability, threshold))
            counts.steps += len(probability)
    return found


def main() -> None:
    """Prints a table."""
    parser = argparse.ArgumentParser(description="Measures the network that hears the wake words.")
    parser.add_argument("--hours", type=float, default=10.0, metavar="H")
    parser.add_argument(
        "--tune", action="store_true", help="several thresholds, and the voices to choose one with"
    )
    given = parser.parse_args()
    which = TUNING if given.tune else TESTING
    thresholds = THRESHOLDS if given.tune else (listener_number("THRESHOLD"),)
    ears, texts = Ears(), sentences(which)
    print(f"{'':25} {'heard':>13} {'near, heard':>13} {'false alarms per hour':>26}")
    for group in groups(which):
        found = measure(ears, group, texts, given.hours * group.share, thresholds)
        for threshold, counts in zip(thresholds, found, strict=True):
            print(f"{group.name:18} {threshold:6.2f} {counts}", flush=True)


if __name__ == "__main__":
    main()
