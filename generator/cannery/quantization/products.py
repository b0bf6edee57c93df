"""Integer products with zero points, as nodes: proven sums, and padding that holds zero points."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cannery.ir.graph import Array, Node
from cannery.ir.registry import Op
from cannery.ir.rewrite import Rewriter
from cannery.ir.tensor import DType, TensorType
from cannery.ops.conv.op import Conv
from cannery.ops.elementwise import Sub
from cannery.ops.movement.op import Cast, Pad
from cannery.ops.quantize.products import ConvInteger
from cannery.ops.quantized.arithmetic import (
    EXACT_SUM,
    F32,
    LARGEST_SUM,
    STORED,
    Activation,
    largest_of,
)
from cannery.ops.quantized.conv import QuantizedConv
from cannery.ops.quantized.matmul import QuantizedMatMul, QuantizedProduct

#: Sums and results in fixed point are smaller.
LARGEST_FIXED = 2**30

#: Axes of the convolutions that have kernels.
_AXES = 2


@dataclass(frozen=True)
class Result:
    """What follows sums: scale[N], bias[N]?, activations; type and zero point, None: floats."""

    scale: F32
    bias: F32 | None
    activation: Activation
    target: tuple[DType, int] | None


@dataclass(frozen=True)
class FixedResult:
    """What follows sums in fixed point: see `QuantizedProduct`. factor[N] and shift[N]? as there;
    type, zero point and bounds.
    """

    factor: Array
    shift: NDArray[np.int32] | None
    dtype: DType
    zero: int
    held: tuple[int, int]

    @property
    def target(self) -> tuple[DType, int]:
        """The type and the zero point."""
        return self.dtype, self.zero

    def why_not(self, largest: NDArray[np.int64]) -> str:
        """Why no kernel computes it for sums within +-largest[N]; empty if one does."""
        if self.shift is None:
            results = np.abs(self.factor.view(np.float64)) * largest
            return "" if (results < LARGEST_FIXED).all() else "results are too large"
        if (self.shift < 1).any():
            return "factors of 1/2 or more"
        half = (np.int64(1) << (self.shift.astype(np.int64) - 1)) * (1 + 2 * abs(self.zero))
        fits = (largest < LARGEST_FIXED).all() and (half + largest < LARGEST_SUM).all()
        return "" if fits else "sums are too large"


@dataclass(frozen=True)
class Product:
    """A node's product: integers `x` with their zero point, weights w[..., N], and the initial
    sums.

    Without a result, the sums are the result.
    """

    node: Node
    x: str
    zero: int
    w: NDArray[np.int64]
    start: NDArray[np.int64]
    result: Result | FixedResult | None


def made_of(rewriter: Rewriter, product: Product, output: str) -> list[Node]:
    """Nodes that compute `output`; none if no integer layer can."""
    x, y = (rewriter.types[name] for name in (product.x, product.node.output))
    target = product.result.target if product.result else None
    if x.dtype not in STORED or not x.elements or not y.elements or not product.w.size:
        return []
    if (target and target[0] not in STORED) or not _fits(product, x, y):
        return []
    w = product.w if _is_window(product) else product.w.reshape(product.w.shape[-2:])
    matrix = w.reshape(-1, w.shape[-1])
    start = product.start - product.zero * matrix.sum(axis=0)
    spread = np.abs(matrix).sum(axis=0) * largest_of(x.dtype)
    largest = spread + np.maximum(np.abs(start), np.abs(product.start))
    in_floats = _groups(product) > 1 and x.dtype is not DType.INT16
    if largest.max() > (EXACT_SUM if in_floats else LARGEST_SUM):
        return []
    if isinstance(product.result, FixedResult) and product.result.why_not(largest):
        return []
    return _nodes(rewriter, product, w, start, output)


def _is_window(product: Product) -> bool:
    return isinstance(product.node.op, Conv | ConvInteger)


def _groups(product: Product) -> int:
    op = product.node.op
    return op.group if isinstance(op, Conv | ConvInteger) else 1


def _fits(product: Product, x: TensorType, y: TensorType) -> bool:
    """Whether there are kernels for such shapes and weights."""
    w = product.w
    if not _within(w, DType.INT16):
        return False
    if not _is_window(product):
        return x.rank >= 2 and x.rank == y.rank and not set(w.shape[:-2]) - {1}
    if x.rank != _AXES + 2 or w.ndim != _AXES + 2:
        return False
    alone = _groups(product) == x.shape[-1] == w.shape[-1]
    narrow = DType.INT16 if x.dtype is DType.INT16 else DType.INT8
    return _groups(product) == 1 or (alone and _within(w, narrow))


def _within(w: NDArray[np.int64], dtype: DType) -> bool:
    info = np.iinfo(dtype.value)
    return bool(info.min <= w.min() and w.max() <= info.max)


def _nodes(
    rewriter: Rewriter, product: Product, w: NDArray[Any], start: NDArray[np.int64], output: str
) -> list[Node]:
    new, name = list[Node](), product.node.name
    x, zero = product.x, product.zero
    dtype = DType.INT16 if rewriter.types[x].dtype is DType.INT16 else DType.INT8
    if not _within(w, dtype):
        # Bytes minus a zero point that no longer fit a byte: both become int16.
        dtype, start = DType.INT16, product.start
        x = append(rewriter, new, Cast(dtype), f"{name}/wide", [x])
        if zero:
            constant = rewriter.constant(f"{name}/zero", np.asarray(zero, dtype.numpy))
            x = append(rewriter, new, Sub(), f"{name}/less", [x, constant])
        zero = 0
    op, pads = _operator(product)
    if zero and any(map(any, pads)):
        around = Pad(((0, 0), *pads, (0, 0)), float(zero))
        x = append(rewriter, new, around, f"{name}/padded", [x])
        assert isinstance(op, QuantizedConv)
        op = replace(op, pads=((0, 0),) * len(pads))
    inputs = [x, rewriter.constant(f"{name}/{dtype.value}", w.astype(dtype.numpy))]
    result = product.result
    floats = result if isinstance(result, Result) else None
    fixed = result if isinstance(result, FixedResult) else None
    following: tuple[tuple[str, Array | None], ...] = (
        ("scale", floats.scale if floats else None), ("bias", floats.bias if floats else None),
        ("gain", None), ("start", start.astype(np.int32) if start.any() else None),
        ("factor", fixed.factor if fixed else None), ("shift", fixed.shift if fixed else None),
    )  # fmt: skip
    for label, array in following:
        inputs.append("" if array is None else rewriter.constant(f"{name}/{label}", array))
    while not inputs[-1]:
        inputs.pop()
    new.append(Node(op, name, tuple(inputs), (output,)))
    return new


def _operator(product: Product) -> tuple[QuantizedProduct, tuple[tuple[int, int], ...]]:
    """The operator, and the padding that it does."""
    result, op = product.result, product.node.op
    common: dict[str, Any] = {"dtype": DType.INT32}
    if isinstance(result, FixedResult):
        common = {"dtype": result.dtype, "zero": result.zero, "held": result.held}
    elif result is not None:
        dtype, zero = result.target or (DType.INT16, None)
        common = {"activation": result.activation, "dtype": dtype, "zero": zero}
    if isinstance(op, Conv | ConvInteger):
        shape: dict[str, Any] = {
            "strides": op.strides, "pads": op.pads, "dilations": op.dilations,
            "depthwise": op.group != 1,
        }  # fmt: skip
        return QuantizedConv(**common, **shape), op.pads
    return QuantizedMatMul(**common), ()


def append(rewriter: Rewriter, new: list[Node], op: Op, name: str, inputs: list[str]) -> str:
    """Append a node with one output; returns the output."""
    (type_,) = op.infer(*(rewriter.types[i] for i in inputs))
    value = rewriter.value(name, TensorType(type_.shape, type_.dtype))
    new.append(Node(op, name, tuple(inputs), (value,)))
    return value
