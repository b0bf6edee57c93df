"""A WaveNet in PyTorch, with its pasts as arguments and results: as it is, and as TorchScript."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from rivals.wavenet import F32, Conv, WaveNet, compute


class _Functions:
    """Operations on tensors; the weights become tensors beforehand."""

    def __init__(self, net: WaveNet) -> None:
        self._weights = {
            conv: (torch.from_numpy(conv.weight), _optional(conv.bias)) for conv in net.convs()
        }

    def conv(self, x: Any, conv: Conv) -> Any:
        """See Operations."""
        weight, bias = self._weights[conv]
        return torch.conv1d(x, weight, bias, dilation=conv.dilation)

    def join(self, past: Any, x: Any) -> Any:
        """See Operations."""
        return torch.cat((past, x), 2)

    def last(self, x: Any, steps: int) -> Any:
        """A view: nothing is copied. See Operations."""
        return x[:, :, -steps:]

    def add(self, a: Any, b: Any) -> Any:
        """See Operations."""
        return a + b

    def tanh(self, x: Any) -> Any:
        """See Operations."""
        return torch.tanh(x)

    def scale(self, x: Any, factor: float) -> Any:
        """See Operations."""
        return x * factor


def _optional(array: F32 | None) -> Any:
    return None if array is None else torch.from_numpy(array)


class _Call(torch.nn.Module):
    """One call: x and the pasts in; y and the next pasts out."""

    def __init__(self, net: WaveNet) -> None:
        super().__init__()
        self.net, self.functions = net, _Functions(net)

    def forward(self, x: Any, *pasts: Any) -> tuple[Any, ...]:
        """See the class."""
        y, later = compute(self.net, self.functions, x, pasts)
        return y, *later


class PyTorch:
    """The functions of PyTorch, one by one, on one thread."""

    def __init__(self, net: WaveNet, steps: int) -> None:
        torch.set_num_threads(1)
        self._x = torch.zeros(1, 1, steps)
        self._pasts: Sequence[Any] = [torch.zeros(shape) for shape in net.pasts()]
        self._function = self._made(_Call(net).eval())
        self._y = self._x

    def _made(self, module: Any) -> Callable[..., Any]:
        made: Callable[..., Any] = module.forward
        return made

    def set(self, x: F32) -> None:
        """The samples of the next calls, x[1,1,steps]."""
        self._x.copy_(torch.from_numpy(x))

    def call(self) -> None:
        """The next call."""
        with torch.inference_mode():
            self._y, *self._pasts = self._function(self._x, *self._pasts)

    def output(self) -> F32:
        """Of the last call, y[1,1,steps]."""
        return np.array(self._y.numpy(), np.float32)


class TorchScript(PyTorch):
    """Traced, frozen and optimised for inference."""

    def _made(self, module: Any) -> Callable[..., Any]:
        with torch.inference_mode():
            traced = torch.jit.trace(module, (self._x, *self._pasts), check_trace=False)
            frozen = torch.jit.freeze(traced.eval())
            made: Callable[..., Any] = torch.jit.optimize_for_inference(frozen)
        return made
