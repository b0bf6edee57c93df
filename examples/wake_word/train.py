"""Trains the network that listens for the wake words, and writes it as wake.onnx.

    apt install espeak-ng flite
    pip install -r requirements.txt
    python train.py [--minutes M] [--tracks N]

makes N tracks of 20 s with synthesised speech (4500 by default: 25 hours), which it keeps in
training.npz, and trains on them for M minutes, 10 by default.
"""

from __future__ import annotations

import argparse
import sys
from multiprocessing import Pool
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import softplus

FOLDER = Path(__file__).parent
sys.path.insert(0, str(FOLDER.parent))

from network import BANDS, WakeWord, write  # noqa: E402
from speech import (  # noqa: E402
    FLITE,
    TRAINING,
    Speech,
    Track,
    Voice,
    read_tracks,
    sentences,
    voices,
    write_tracks,
)
from training import train_for  # noqa: E402

SECONDS = 20.0
RATE_OF_LEARNING = 4e-3

#: Steps of a piece that training looks at, and how many of these are only the past of the others.
LENGTH, PAST = 160, 60
BATCH = 64

#: After the words end, so many steps should say so; around that, any answer will do.
SAYS, BEFORE, AFTER = 8, 12, 20


def make_track(seed: int) -> Track:
    """One of the training set: a quarter is by Flite, and in a half the wake words are rare."""
    shares = {"wakes": 0.45, "near": 0.2} if seed % 2 else {"wakes": 0.1, "near": 0.15}
    flite = [Voice(name, flite=True) for name in FLITE]
    speakers = flite if seed % 8 in (3, 4) else voices(TRAINING)
    return Speech(speakers, sentences(TRAINING), **shares).track(SECONDS, seed)


def make_tracks(count: int) -> list[Track]:
    """On all cores."""
    voices(TRAINING), sentences(TRAINING)  # once, for all processes
    with Pool() as pool:
        return pool.map(make_track, range(count), chunksize=8)


class Pieces:
    """All tracks as one, of which steps of training take pieces."""

    def __init__(self, tracks: list[Track]) -> None:
        starts = np.cumsum([0, *(len(t.bands) for t in tracks)])
        self.bands = torch.from_numpy(np.concatenate([t.bands for t in tracks]))
        wakes = np.concatenate([s + t.wakes for s, t in zip(starts, tracks, strict=False)])
        near = np.concatenate([s + t.near for s, t in zip(starts, tracks, strict=False)])
        steps = len(self.bands)
        self.wanted, self.counts = torch.zeros(steps), torch.ones(steps)
        for end in wakes:
            self.counts[max(end - BEFORE, 0) : end + AFTER] = 0
            self.counts[end : end + SAYS] = 1
            self.wanted[end : end + SAYS] = 1
        self.ends = (torch.from_numpy(wakes), torch.from_numpy(near))

    def take(self) -> tuple[Tensor, Tensor, Tensor]:
        """[N, BANDS, T], and of each step what is wanted and whether it counts, [N, T].

        A third of the pieces ends after wake words, a sixth after what sounds much like them.
        """
        last = len(self.bands) - LENGTH - 1
        starts = torch.randint(last, (BATCH,))
        for ends, share in zip(self.ends, (slice(0, BATCH // 3), slice(BATCH // 3, BATCH // 2)),
                               strict=True):  # fmt: skip
            chosen = ends[torch.randint(len(ends), starts[share].shape)]
            starts[share] = chosen - torch.randint(PAST + 20, LENGTH - 20, chosen.shape)
        at = starts.clamp(0, last)[:, None] + torch.arange(LENGTH)
        louder = 0.15 * torch.randn(BATCH, 1, 1)
        brighter = 0.1 * torch.randn(BATCH, 1, 1) * torch.linspace(-1, 1, BANDS)
        rough = 0.05 * torch.randn(BATCH, LENGTH, BANDS)
        bands = self.bands[at] + louder + brighter + rough
        return bands.transpose(1, 2), self.wanted[at], self.counts[at]


def loss_of(logits: Tensor, wanted: Tensor, counts: Tensor) -> Tensor:
    """Cross entropy of the steps that count, each kind by itself."""
    silent = counts * (1 - wanted)
    whole = wanted[:, PAST:]  # words that are heard from their beginning
    missed = (softplus(-logits[:, PAST:]) * whole).sum() / whole.sum().clamp(min=1)
    false = (softplus(logits) * silent).sum() / silent.sum()
    return missed * 0.3 + false * 3.0


def train(net: WakeWord, pieces: Pieces, minutes: float) -> None:
    """On random pieces."""

    def loss() -> Tensor:
        bands, wanted, counts = pieces.take()
        return loss_of(net(bands)[:, 0], wanted, counts)

    optimizer = torch.optim.AdamW(net.parameters(), RATE_OF_LEARNING, weight_decay=1e-3)
    train_for(minutes, net, optimizer, loss)


def main() -> None:
    """Trains, and writes the network."""
    parser = argparse.ArgumentParser(description="Trains the network that hears the wake words.")
    parser.add_argument("--minutes", type=float, default=10.0, metavar="M")
    parser.add_argument("--tracks", type=int, default=4500, metavar="N")
    given = parser.parse_args()
    path = FOLDER / "training.npz"
    if not path.exists():
        write_tracks(path, make_tracks(given.tracks))
    torch.manual_seed(1)
    net = WakeWord()
    train(net, Pieces(read_tracks(path)), given.minutes)
    write(net, FOLDER / "wake.onnx")


if __name__ == "__main__":
    main()
