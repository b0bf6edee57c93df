"""What the trainings of the examples have in common: Adam on random pieces for some minutes."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

#: The rate of learning ends there.
LEAST_RATE = 1e-5


def train_for(
    minutes: float, net: nn.Module, optimizer: torch.optim.Optimizer,
    loss_of: Callable[[], Tensor], *, clip: float = 1.0,
) -> None:  # fmt: skip
    """Steps with the losses of other pieces each; the rate of learning falls along a cosine.

    `clip` bounds the norm of the gradients. Prints the mean of the last losses.
    """
    rates = [group["lr"] for group in optimizer.param_groups]
    start, done, step, mean = time.monotonic(), 0.0, 0, 0.0
    while done < 1:
        done = (time.monotonic() - start) / (60 * minutes)
        falling = 0.5 + 0.5 * np.cos(np.pi * min(done, 1))
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            group["lr"] = rate * falling + LEAST_RATE
        loss = loss_of()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), clip)
        optimizer.step()
        mean += max(0.02, 1 / (step + 1)) * (loss.item() - mean)
        if step % 100 == 0:
            print(f"step {step}, {done:.0%} of the time: loss {mean:.4f}", flush=True)
        step += 1
