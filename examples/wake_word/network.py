"""The network that listens: separable convolutions, which look back along time.

Its input are the bands of bands.h, 50 times a second; its output the probability that the words
have just ended.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn

BANDS = 32
CHANNELS = 48
WINDOW = 5

#: How many steps there are between those that the windows of a layer read: 61 in all, or 1.2 s.
DILATIONS = (1, 2, 4, 8)


class Separable(nn.Module):
    """A window along time in each channel, products of the channels, and the sum with what came."""

    def __init__(self, dilation: int) -> None:
        super().__init__()
        self.past = nn.ConstantPad1d(((WINDOW - 1) * dilation, 0), 0.0)
        self.window = nn.Conv1d(
            CHANNELS, CHANNELS, WINDOW, dilation=dilation, groups=CHANNELS, bias=False
        )
        self.mix = nn.Conv1d(CHANNELS, CHANNELS, 1, bias=False)
        self.norms = nn.ModuleList(nn.BatchNorm1d(CHANNELS) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        """[N, CHANNELS, T]"""
        y = torch.relu(self.norms[0](self.window(self.past(x))))
        return torch.relu(x + self.norms[1](self.mix(y)))


class WakeWord(nn.Module):
    """[N, BANDS, T] -> logits [N, 1, T]"""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv1d(BANDS, CHANNELS, 1), *map(Separable, DILATIONS), nn.Conv1d(CHANNELS, 1, 1)
        )

    def forward(self, bands: Tensor) -> Tensor:
        """Logits."""
        return self.layers(bands)


def write(net: WakeWord, path: Path) -> None:
    """As ONNX, with probabilities, for any number of steps."""
    torch.onnx.export(
        nn.Sequential(net, nn.Sigmoid()).eval(), (torch.zeros(1, BANDS, 64),), str(path),
        dynamo=False, input_names=["bands"], output_names=["probability"],
        dynamic_axes={"bands": {2: "T"}, "probability": {2: "T"}},
    )  # fmt: skip
