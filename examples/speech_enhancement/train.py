"""Trains the network that takes the noise out of speech, and writes it as denoise.onnx.

    apt install espeak-ng
    pip install -r requirements.txt
    python train.py [--minutes M] [--tracks N]

makes N tracks of 20 s with synthesised speech (360 by default: 2 hours), which it keeps in
training.npz, and trains for M minutes, 12 by default, on them and on noise.
"""

from __future__ import annotations

import argparse
import sys
from multiprocessing import Pool
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

FOLDER = Path(__file__).parent
sys.path[:0] = [str(FOLDER.parent), str(FOLDER.parent / "wake_word")]

from denoiser import Denoiser, write  # noqa: E402
from hearing import Sound  # noqa: E402
from noises import disturbance  # noqa: E402
from speech import TRAINING, Speech, sentences, voices  # noqa: E402
from training import train_for  # noqa: E402

SECONDS = 20.0
SIZE, HOP = 512, 256
RATE_OF_LEARNING = 3e-3
BATCH, LENGTH = 16, 192 * HOP

#: As in enhancer.c.
SCALE, QUIET = 0.2, 1e-5


def clean_track(seed: int) -> Sound:
    """Speech without noise."""
    rng = np.random.default_rng(seed)
    sound, _ = Speech(voices(TRAINING), sentences(TRAINING)).sound(SECONDS, rng)
    return sound


def noise_track(seed: int) -> Sound:
    """Noise of loudness 1."""
    return disturbance(int(SECONDS * 16000), np.random.default_rng(seed))


def spectrum(sounds: Tensor) -> Tensor:
    """[N, samples] -> [T, N, BINS], complex, of the windows of enhancer.c."""
    window = torch.hann_window(SIZE).sqrt()
    pieces = torch.nn.functional.pad(sounds, (HOP, 0)).unfold(1, SIZE, HOP)
    return torch.fft.rfft(pieces * window).transpose(0, 1)


def sound_of(spectra: Tensor) -> Tensor:
    """The other way round."""
    window = torch.hann_window(SIZE).sqrt()
    pieces = torch.fft.irfft(spectra.transpose(0, 1)) * window
    return (pieces[:, :-1, HOP:] + pieces[:, 1:, :HOP]).flatten(1)


def denoised(net: Denoiser, noisy: Tensor) -> Tensor:
    """[N, samples] -> the same without the last HOP samples."""
    x = spectrum(noisy)
    return sound_of(x * net(SCALE * torch.log(x.abs() ** 2 + QUIET)))


def si_sdr(made: Tensor, clean: Tensor) -> Tensor:
    """The scale-invariant ratio of speech to all else in dB, of each sound."""
    clean, made = clean - clean.mean(1, keepdim=True), made - made.mean(1, keepdim=True)
    share = (made * clean).sum(1) / ((clean**2).sum(1) + 1e-8)
    target = share[:, None] * clean
    rest = ((made - target) ** 2).sum(1)
    return 10 * torch.log10((target**2).sum(1) / (rest + 1e-8) + 1e-8)


class Mixer:
    """Pieces of speech, with noise."""

    def __init__(self, speech: Sound, noises: Sound) -> None:
        self.speech, self.noises = torch.from_numpy(speech), torch.from_numpy(noises)

    def take(self) -> tuple[Tensor, Tensor]:
        """Noisy and clean, [BATCH, LENGTH]: the noise from 20 dB softer to 5 dB louder."""
        clean, other = (self._pieces(sound) for sound in (self.speech, self.noises))
        loud = (clean**2).mean(1, keepdim=True).sqrt() + 1e-4
        softer = 10 ** (-(torch.rand(BATCH, 1) * 25 - 5) / 20)
        gain = 10 ** (torch.rand(BATCH, 1) * 1.3 - 1.0)
        return gain * (clean + softer * loud * other), gain * clean

    @staticmethod
    def _pieces(sound: Tensor) -> Tensor:
        starts = torch.randint(len(sound) - LENGTH, (BATCH,))
        return sound[starts[:, None] + torch.arange(LENGTH)]


def train(net: Denoiser, mixer: Mixer, minutes: float) -> None:
    """On random pieces; the loss is the ratio in dB, below 0."""

    def loss() -> Tensor:
        noisy, clean = mixer.take()
        made = denoised(net, noisy)
        return -si_sdr(made, clean[:, : made.shape[1]]).clamp(max=30).mean()

    optimizer = torch.optim.Adam(net.parameters(), RATE_OF_LEARNING)
    train_for(minutes, net, optimizer, loss, clip=5.0)


def main() -> None:
    """Trains, and writes the network."""
    parser = argparse.ArgumentParser(description="Trains the network that takes noise away.")
    parser.add_argument("--minutes", type=float, default=12.0, metavar="M")
    parser.add_argument("--tracks", type=int, default=360, metavar="N")
    given = parser.parse_args()
    path = FOLDER / "training.npz"
    if not path.exists():
        voices(TRAINING), sentences(TRAINING)  # once, for all processes
        with Pool() as pool:
            speech = np.concatenate(pool.map(clean_track, range(given.tracks), chunksize=8))
            noises = np.concatenate(pool.map(noise_track, range(given.tracks), chunksize=8))
        np.savez(path, speech=speech, noises=noises)
    torch.manual_seed(1)
    net = Denoiser()
    with np.load(path) as file:
        mixer = Mixer(file["speech"], file["noises"])
    train(net, mixer, given.minutes)
    write(net, FOLDER / "denoise.onnx")


if __name__ == "__main__":
    main()
