"""A bidirectional LSTM with peepholes for PyTorch, which has none, and the file it becomes.

Both directions are computed side by side: a step is one product of matrices for both. Only the
recurrent part is a separate function, with its gradient written out; what does not depend on the
step before (the product of the columns and the input weights, the gradients of weights) is left to
PyTorch in one piece for all steps.

Shapes: T steps, B lines, D = 2 directions, H cells; gates lie in the order input, forget, cell,
output, peepholes without that of the cell; ONNX has another order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import Tensor, nn


class _Recurrence(torch.autograd.Function):
    """z [T, D, B, 4H] (products of the inputs), r [D, H, 4H], p [D, 3, H] -> h [T, D, B, H].

    Hochreiter and Schmidhuber's cell with the forget gate and the peepholes of Gers et al. 2002.
    All that does not depend on neighbouring steps is computed for all steps at once.
    """

    @staticmethod
    def forward(ctx: Any, z: Tensor, r: Tensor, p: Tensor) -> Tensor:
        steps, directions, lines, _ = z.shape
        cells = r.shape[1]
        gates = torch.empty_like(z)
        c = z.new_zeros(steps + 1, directions, lines, cells)
        h = z.new_zeros(steps + 1, directions, lines, cells)
        views = gates.view(steps, directions, lines, 4, cells)
        early, late = p[:, None, :2], p[:, None, 2]
        for t in range(steps):
            torch.baddbmm(z[t], h[t], r, out=gates[t])
            now, seen, made = views[t], c[t], c[t + 1]
            now[:, :, :2].addcmul_(seen[:, :, None], early).sigmoid_()
            i, f, g, o = now.unbind(2)
            torch.mul(f, seen, out=made).addcmul_(i, g.tanh_())
            o.addcmul_(made, late).sigmoid_()
            torch.mul(o, made.tanh(), out=h[t + 1])
        ctx.save_for_backward(gates, c, h, r, p)
        return h[1:]

    @staticmethod
    def backward(ctx: Any, *outer: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        gates, c, h, r, p = ctx.saved_tensors
        (dy,) = outer
        steps, directions, lines, _ = gates.shape
        cells = r.shape[1]
        p_i, p_f, p_o = (p[:, None, k] for k in range(3))
        i, f, g, o = gates.split(cells, dim=3)
        tanh_c = c[1:].tanh()
        by_o = tanh_c * o * (1 - o)  # dh -> do
        into = torch.addcmul(o * (1 - tanh_c * tanh_c), by_o, p_o)  # dh -> dc
        by_i, by_f, by_g = g * i * (1 - i), c[:-1] * f * (1 - f), i * (1 - g * g)
        keep = f + by_i * p_i + by_f * p_f  # dc -> dc of the step before
        by_cell = torch.stack((by_i, by_f, by_g), dim=3)
        dz = torch.empty_like(gates)
        views = dz.view(steps, directions, lines, 4, cells)
        transposed = r.transpose(1, 2).contiguous()
        dh, dc = dy[-1], torch.zeros_like(c[0])
        for t in reversed(range(steps)):
            torch.mul(dh, by_o[t], out=views[t, :, :, 3])
            dc.addcmul_(dh, into[t])
            torch.mul(dc[:, :, None], by_cell[t], out=views[t, :, :, :3])
            dc.mul_(keep[t])
            dh = torch.baddbmm(dy[t - 1], dz[t], transposed)
        before, flat = (
            x.transpose(0, 1).reshape(directions, steps * lines, -1) for x in (h[:-1], dz)
        )
        dr = torch.bmm(before.transpose(1, 2), flat)
        seen = torch.stack((c[:-1], c[:-1], c[1:]), dim=3)
        dp = (views[:, :, :, [0, 1, 3]] * seen).sum(dim=(0, 2))
        return dz, dr, dp


class Reader(nn.Module):
    """Columns [T, B, pixels], 0 is paper and 1 ink -> logits [T, B, symbols]."""

    def __init__(self, pixels: int, cells: int, symbols: int) -> None:
        super().__init__()
        self.cells = cells
        self.w = nn.Parameter(torch.empty(2, pixels, 4 * cells).uniform_(-1, 1) * pixels**-0.5)
        self.r = nn.Parameter(torch.empty(2, cells, 4 * cells).uniform_(-1, 1) * cells**-0.5)
        self.b = nn.Parameter(torch.zeros(2, 1, 4 * cells))
        self.p = nn.Parameter(torch.zeros(2, 3, cells))
        with torch.no_grad():
            self.b[:, :, cells : 2 * cells] = 1  # cells remember at first
        self.output = nn.Linear(2 * cells, symbols)

    def forward(self, columns: Tensor) -> Tensor:
        """Logits of all columns."""
        steps, lines, pixels = columns.shape
        both = torch.stack((columns, columns.flip(0))).reshape(2, steps * lines, pixels)
        z = torch.baddbmm(self.b, both, self.w).view(2, steps, lines, -1).transpose(0, 1)
        h = _Recurrence.apply(z.contiguous(), self.r, self.p)
        features = torch.cat((h[:, 0], h[:, 1].flip(0)), dim=2)
        return self.output(features)  # type: ignore[no-any-return]


def _reordered(parts: np.ndarray[Any, np.dtype[Any]], order: Sequence[int], cells: int) -> Any:
    """[D, ..., gates * H] with other gates first, as ONNX has them: [D, gates * H, ...]."""
    gates = parts.reshape(*parts.shape[:-1], -1, cells)[..., order, :]
    return np.ascontiguousarray(np.moveaxis(gates.reshape(parts.shape), -1, 1))


def _constants(reader: Reader) -> dict[str, np.ndarray[Any, np.dtype[Any]]]:
    """The initialisers of the ONNX file."""
    values = {name: value.detach().numpy() for name, value in reader.named_parameters()}
    ours = (0, 3, 1, 2)  # input, output, forget, cell
    bias = _reordered(values["b"][:, 0], ours, reader.cells)
    peepholes = values["p"].reshape(2, 3 * reader.cells)
    return {
        "W": _reordered(values["w"], ours, reader.cells),
        "R": _reordered(values["r"], ours, reader.cells),
        "B": np.concatenate([bias, np.zeros_like(bias)], axis=1),
        "P": _reordered(peepholes, (0, 2, 1), reader.cells),
        "second": np.array([1], np.int64),
        "joined": np.array([-1, 2 * reader.cells], np.int64),
        "kernel": np.ascontiguousarray(values["output.weight"].T),
        "bias": values["output.bias"],
    }


def write_onnx(reader: Reader, file: Path) -> None:
    """Write the network as ONNX: columns [length, pixels] -> symbols [length, symbols],
    probabilities. The length is open.
    """
    model = _model(_constants(reader))
    onnx.checker.check_model(model)
    file.write_bytes(model.SerializeToString())


def _model(constants: Mapping[str, np.ndarray[Any, np.dtype[Any]]]) -> onnx.ModelProto:
    cells, (_, _, pixels), symbols = (
        constants["R"].shape[2], constants["W"].shape, len(constants["bias"])
    )  # fmt: skip
    lstm = ["lines", "W", "R", "B", "", "", "", "P"]
    nodes = [
        helper.make_node("Unsqueeze", ["columns", "second"], ["lines"]),
        helper.make_node("LSTM", lstm, ["by_direction"], hidden_size=cells,
                         direction="bidirectional"),
        helper.make_node("Transpose", ["by_direction"], ["by_line"], perm=[0, 2, 1, 3]),
        helper.make_node("Reshape", ["by_line", "joined"], ["features"]),
        helper.make_node("Gemm", ["features", "kernel", "bias"], ["logits"]),
        helper.make_node("Softmax", ["logits"], ["symbols"], axis=-1),
    ]  # fmt: skip
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes, "ocr",
        [value("columns", TensorProto.FLOAT, ["length", pixels])],
        [value("symbols", TensorProto.FLOAT, ["length", symbols])],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
