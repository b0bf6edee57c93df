"""Trains two networks to imitate the amplifier of amplifier.py, and writes them as ONNX files.

    pip install -r requirements.txt
    python train.py [--minutes M] [wavenet] [lstm]

writes wavenet.onnx and lstm.onnx, and prints their error on a riff that they were not trained on.
The training of each takes M minutes, 8 by default, on one core.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn

FOLDER = Path(__file__).parent
sys.path.insert(0, str(FOLDER.parent))

from amplifier import RIFF, TRAINING, amplify, error, played  # noqa: E402
from training import train_for  # noqa: E402

SECONDS = 60.0
RATE_OF_LEARNING = 4e-3


class Layer(nn.Module):
    """A layer of the WaveNet: a dilated convolution, a gate, and a sum with what came in."""

    def __init__(self, channels: int, dilation: int) -> None:
        super().__init__()
        self.past = 2 * dilation
        self.convolution = nn.Conv1d(channels, 2 * channels, 3, dilation=dilation)
        self.mix = nn.Conv1d(channels, channels, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """What goes on to the next layer, and to the output; [N, C, T]."""
        wave, gate = self.convolution(nn.functional.pad(x, (self.past, 0))).chunk(2, dim=1)
        y = torch.tanh(wave) * torch.sigmoid(gate)
        return x + self.mix(y), y


class WaveNet(nn.Module):
    """Ten layers of 8 channels that look back 2046 samples, as in models of amplifiers."""

    def __init__(self, channels: int = 8, layers: int = 10) -> None:
        super().__init__()
        self.first = nn.Conv1d(1, channels, 1)
        self.layers = nn.ModuleList(Layer(channels, 2**k) for k in range(layers))
        self.last = nn.Conv1d(channels, 1, 1)

    def forward(self, samples: Tensor) -> Tensor:
        """[N, 1, T] -> [N, 1, T]"""
        x = self.first(samples)
        total: Tensor | None = None
        for layer in self.layers:
            x, y = layer(x)
            total = y if total is None else total + y
        assert total is not None
        return self.last(total)


class Lstm(nn.Module):
    """An LSTM of 16 cells, the output of which is added to the sound."""

    def __init__(self, cells: int = 16) -> None:
        super().__init__()
        self.cells = nn.LSTM(1, cells)
        self.last = nn.Linear(cells, 1)

    def forward(self, samples: Tensor) -> Tensor:
        """[T, N, 1] -> [T, N, 1]"""
        return self.last(self.cells(samples)[0]) + samples


class Pieces(NamedTuple):
    """How many pieces of sound a step of training takes, their samples, and how many of these are
    only the past of the others.
    """

    count: int
    length: int
    past: int


NETWORKS: dict[str, tuple[type[WaveNet | Lstm], Pieces]] = {
    "wavenet": (WaveNet, Pieces(8, 6144, 2046)),
    "lstm": (Lstm, Pieces(64, 1024, 128)),
}


def pieces(sound: Tensor, wanted: Tensor, size: Pieces) -> tuple[Tensor, Tensor]:
    """Random pieces of both, [N, T]."""
    starts = torch.randint(len(sound) - size.length, (size.count,))
    at = starts[:, None] + torch.arange(size.length)
    return sound[at], wanted[at]


def train(net: WaveNet | Lstm, minutes: float, size: Pieces) -> None:
    """On random pieces of sound."""
    sound = torch.from_numpy(played(TRAINING, SECONDS))
    wanted = torch.from_numpy(amplify(sound.numpy()))
    heard = slice(size.past, None)

    def loss() -> Tensor:
        x, y = pieces(sound, wanted, size)
        off = ((run(net, x) - y)[:, heard] ** 2).mean()
        return off / ((y[:, heard] ** 2).mean() + 1e-5)

    train_for(minutes, net, torch.optim.Adam(net.parameters(), RATE_OF_LEARNING), loss)


def run(net: WaveNet | Lstm, sounds: Tensor) -> Tensor:
    """[N, T] -> [N, T]"""
    if isinstance(net, Lstm):
        return net(sounds.T[:, :, None])[:, :, 0].T
    return net(sounds[:, None])[:, 0]


def write(net: WaveNet | Lstm, path: Path) -> None:
    """As ONNX, for any number of samples."""
    example, time_axis = (torch.zeros(64, 1, 1), 0) if isinstance(net, Lstm) else (
        torch.zeros(1, 1, 64), 2)  # fmt: skip
    torch.onnx.export(
        net.eval(), (example,), str(path), dynamo=False, input_names=["dry"], output_names=["wet"],
        dynamic_axes={"dry": {time_axis: "T"}, "wet": {time_axis: "T"}},
    )  # fmt: skip


def main() -> None:
    """Trains both."""
    parser = argparse.ArgumentParser(description="Trains networks that imitate an amplifier.")
    parser.add_argument("--minutes", type=float, default=8.0, metavar="M")
    parser.add_argument("networks", nargs="*", help=" or ".join(NETWORKS))
    given = parser.parse_args()
    if unknown := set(given.networks) - NETWORKS.keys():
        parser.error(f"no network is called {', '.join(sorted(unknown))}")
    torch.set_num_threads(1)
    riff = played(RIFF, 10.0)
    for name in given.networks or NETWORKS:
        torch.manual_seed(1)
        kind, pieces_of = NETWORKS[name]
        net = kind()
        train(net, given.minutes, pieces_of)
        write(net, FOLDER / f"{name}.onnx")
        with torch.no_grad():
            out = run(net, torch.from_numpy(riff)[None])[0].numpy()
        print(f"{name}: error {error(out, amplify(riff)):.4f}")


if __name__ == "__main__":
    main()
