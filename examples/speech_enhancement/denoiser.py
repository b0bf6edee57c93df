"""The network that tells speech from noise: a GRU over the frequencies of each 16 ms.

Its input is the loudness of 257 frequencies, as enhancer.c makes it; its output what to multiply
them by.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn

BINS = 257
CELLS = 64


class Denoiser(nn.Module):
    """[T, N, BINS] -> [T, N, BINS]"""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(BINS, CELLS)
        self.cells = nn.GRU(CELLS, CELLS, num_layers=2)
        self.last = nn.Linear(CELLS, BINS)

    def forward(self, loudness: Tensor) -> Tensor:
        """The mask."""
        x = torch.relu(self.first(loudness))
        return torch.sigmoid(self.last(self.cells(x)[0]))


def write(net: Denoiser, path: Path) -> None:
    """As ONNX, for any number of steps."""
    torch.onnx.export(
        net.eval(), (torch.zeros(16, 1, BINS),), str(path), dynamo=False,
        input_names=["loudness"], output_names=["mask"],
        dynamic_axes={"loudness": {0: "T"}, "mask": {0: "T"}},
    )  # fmt: skip
