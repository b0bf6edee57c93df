"""Makes the files of this folder, with what PyTorch computes: `python make.py FOLDER`.

`expected.npz` has the input and the output of each file, under its name.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import torch

STEPS, CELLS = 48, 4

#: Kind, inputs, layers, inputs that are added to the output, bias of the dense layer.
FILES = {
    "lstm": ("LSTM", 1, 1, 1, True), "lstm2": ("LSTM", 2, 2, 0, False),
    "gru": ("GRU", 2, 2, 1, True),
}  # fmt: skip


class SimpleRNN(torch.nn.Module):
    """As in the trainer."""

    def __init__(self, unit: str, inputs: int, layers: int, skip: int, bias: bool) -> None:
        super().__init__()
        self.rec = getattr(torch.nn, unit)(inputs, CELLS, layers)
        self.lin = torch.nn.Linear(CELLS, 1, bias=bias)
        self.skip = skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.lin(self.rec(x)[0])
        return y + x[:, :, : self.skip] if self.skip else y


def main(folder: Path) -> None:
    torch.manual_seed(7)
    expected = {}
    for name, (unit, inputs, layers, skip, bias) in FILES.items():
        net = SimpleRNN(unit, inputs, layers, skip, bias)
        with torch.no_grad():
            for value in net.parameters():
                value.copy_(torch.round(3 * value, decimals=3))
        x = torch.randn(STEPS, 1, inputs)
        expected |= {f"{name}_x": x[:, 0].numpy(), name: net(x)[:, 0].detach().numpy()}
        sizes = {
            "model": "SimpleRNN", "input_size": inputs, "skip": skip, "output_size": 1,
            "unit_type": unit, "num_layers": layers, "hidden_size": CELLS, "bias_fl": bias,
        }  # fmt: skip
        state = {
            key: np.round(v.double().numpy(), 3).tolist() for key, v in net.state_dict().items()
        }
        text = json.dumps({"model_data": sizes, "state_dict": state})
        (folder / f"{name}.json").write_text(text + "\n")
    np.savez_compressed(folder / "expected.npz", **expected)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
