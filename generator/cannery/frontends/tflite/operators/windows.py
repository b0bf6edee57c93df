"""Convolutions, pools and other windows, channels last."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cannery.errors import ModelError, UnsupportedError
from cannery.frontends.tflite.scope import Scope, operator
from cannery.ops.average_pool.op import AveragePool
from cannery.ops.conv.op import Conv
from cannery.ops.conv_transpose.op import ConvTranspose
from cannery.ops.elementwise import Sqrt, Square
from cannery.ops.max_pool.op import MaxPool
from cannery.ops.movement.op import Reshape, Transpose
from cannery.ops.window import Pads, extent, same_pads

_SAME, _VALID = 0, 1


@dataclass(frozen=True)
class Window:
    """Strides, dilations and pads of an operator on an image."""

    strides: tuple[int, int]
    dilations: tuple[int, int]
    pads: Pads


def check_image(scope: Scope, x: str) -> tuple[int, int]:
    """The size of an image; ModelError for anything else."""
    shape = scope.shape(x)
    if len(shape) != 4:
        raise ModelError(f"its input has the shape {shape}, expected an image")
    return shape[1], shape[2]


def read_window(
    scope: Scope, size: tuple[int, int], kernel: tuple[int, int], *, dilates: bool = True
) -> Window:
    """The window of an operator with the usual options; ModelError for impossible ones."""
    strides = scope.integer("StrideH"), scope.integer("StrideW")
    dilations = (1, 1)
    if dilates:
        dilations = scope.integer("DilationHFactor", 1), scope.integer("DilationWFactor", 1)
    if min(*strides, *dilations, *kernel) < 1:
        raise ModelError(f"kernel {kernel}, strides {strides}, dilations {dilations}")
    return Window(strides, dilations, _pads(scope, size, kernel, strides, dilations))


def _pads(
    scope: Scope, size: tuple[int, int], kernel: tuple[int, int], strides: tuple[int, int],
    dilations: tuple[int, int],
) -> Pads:  # fmt: skip
    if same(scope):
        return same_pads(size, kernel, strides, dilations)
    return ((0, 0), (0, 0))


def same(scope: Scope) -> bool:
    """Whether the padding is SAME, and not VALID."""
    number = scope.integer("Padding")
    if number not in (_SAME, _VALID):
        raise UnsupportedError(f"its padding {number} is not supported")
    return number == _SAME


def rearranged(scope: Scope, weight: str, perm: tuple[int, ...]) -> str:
    """Weights in Cannery's order."""
    return scope.node(Transpose(perm), [weight], "weight")


def depthwise_weight(scope: Scope, weight: str) -> str:
    """Weights [1,H,W,C*m] as [H,W,1,C*m]."""
    one, height, width, channels = scope.shape(weight)
    if one != 1:
        raise ModelError(f"its weights have the shape {scope.shape(weight)}")
    return scope.node(Reshape((height, width, 1, channels)), [weight], "weight")


def check_kernel(scope: Scope, weight: str) -> tuple[int, int]:
    """Height and width of weights with four axes."""
    shape = scope.shape(weight)
    if len(shape) != 4:
        raise ModelError(f"its weights have the shape {shape}, expected four axes")
    return shape[1], shape[2]


def groups(scope: Scope, x: str, taken: int) -> int:
    """Groups of channels of which each weight reads as many as it has."""
    channels = scope.shape(x)[-1]
    if not taken or channels % taken:
        raise ModelError(f"weights of {taken} channels for an input of {channels}")
    return channels // taken


def _biased(scope: Scope, operands: Sequence[str], index: int) -> list[str]:
    return [*operands, scope.input(index)] if scope.has(index) else list(operands)


@operator("CONV_2D")
def conv(scope: Scope) -> str:
    """x[N,H,W,IC], w[OC,H,W,IC/groups], bias[OC]?."""
    x, w = scope.input(0), scope.input(1)
    window = read_window(scope, check_image(scope, x), check_kernel(scope, w))
    group = groups(scope, x, scope.shape(w)[3])
    weight = rearranged(scope, w, (1, 2, 3, 0))
    op = Conv(window.strides, window.pads, window.dilations, group)
    scope.ignore("QuantizedBiasType")
    return scope.fused(scope.node(op, _biased(scope, [x, weight], 2)))


@operator("DEPTHWISE_CONV_2D")
def depthwise_conv(scope: Scope) -> str:
    """x[N,H,W,C], w[1,H,W,C*m], bias[C*m]?; the number m is known from the weights."""
    x, w = scope.input(0), scope.input(1)
    window = read_window(scope, check_image(scope, x), check_kernel(scope, w))
    scope.ignore("DepthMultiplier")
    op = Conv(window.strides, window.pads, window.dilations, scope.shape(x)[-1])
    operands = _biased(scope, [x, depthwise_weight(scope, w)], 2)
    return scope.fused(scope.node(op, operands))


@operator("TRANSPOSE_CONV")
def transpose_conv(scope: Scope) -> str:
    """shape[4], w[OC,H,W,IC], x[N,H,W,IC], bias[OC]? -> y of that shape."""
    strides, pads, more = read_transposed(scope)
    weight = rearranged(scope, scope.input(1), (1, 2, 0, 3))
    op = ConvTranspose(strides, pads, (1, 1), more)
    scope.ignore("QuantizedBiasType")
    return scope.fused(scope.node(op, _biased(scope, [scope.input(2), weight], 3)))


def read_transposed(scope: Scope) -> tuple[tuple[int, int], Pads, tuple[int, ...]]:
    """Strides, pads and the rest of the output of a transposed convolution."""
    size, kernel = check_image(scope, scope.input(2)), check_kernel(scope, scope.input(1))
    wanted = scope.known_integers(0, "its shape")
    if len(wanted) != 4 or min(wanted) < 1:
        raise ModelError(f"its shape {wanted} is not that of an image")
    strides = scope.integer("StrideH"), scope.integer("StrideW")
    if min(strides) < 1:
        raise ModelError(f"strides {strides}")
    begins = [0, 0]
    if same(scope):
        pads = same_pads((wanted[1], wanted[2]), kernel, strides, (1, 1))
        begins = [begin for begin, _ in pads]
    pairs, more = [], []
    for n, k, s, begin, out in zip(size, kernel, strides, begins, wanted[1:3], strict=True):
        missing = out - ((n - 1) * s + extent(k, 1) - begin)
        pairs.append((begin, max(-missing, 0)))
        more.append(max(missing, 0))
    return strides, tuple(pairs), tuple(more)


def read_pool(scope: Scope, x: str) -> tuple[tuple[int, int], Window]:
    """The kernel of a pool, and its window."""
    kernel = scope.integer("FilterHeight"), scope.integer("FilterWidth")
    return kernel, read_window(scope, check_image(scope, x), kernel, dilates=False)


@operator("MAX_POOL_2D")
def max_pool(scope: Scope) -> str:
    """Padding never wins."""
    kernel, window = read_pool(scope, scope.input(0))
    op = MaxPool(kernel, window.strides, window.pads, window.dilations)
    return scope.fused(scope.node(op, [scope.input(0)]))


@operator("AVERAGE_POOL_2D")
def average_pool(scope: Scope) -> str:
    """Padding does not count."""
    kernel, window = read_pool(scope, scope.input(0))
    op = AveragePool(kernel, window.strides, window.pads, window.dilations)
    return scope.fused(scope.node(op, [scope.input(0)]))


@operator("L2_POOL_2D")
def l2_pool(scope: Scope) -> str:
    """The root of the mean of squares."""
    kernel, window = read_pool(scope, scope.input(0))
    op = AveragePool(kernel, window.strides, window.pads, window.dilations)
    squares = scope.node(Square(), [scope.input(0)], "squares")
    return scope.fused(scope.node(Sqrt(), [scope.node(op, [squares], "means")]))
