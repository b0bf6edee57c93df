"""Convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cannery.errors import ModelError
from cannery.frontends.keras.config import LayerConfig
from cannery.frontends.keras.layers.base import Build, LayerPlan, Scope, layer_by_rank
from cannery.frontends.keras.layers.functions import (
    Activation,
    apply_activation,
    children_of,
    read_activation,
)
from cannery.frontends.keras.layers.window import transpose_geometry, window_pads
from cannery.frontends.volumes import conv_3d, conv_transpose_3d
from cannery.ops.conv.op import Conv
from cannery.ops.conv_transpose.op import ConvTranspose


@dataclass(frozen=True)
class _Window:
    """What all convolutions have in common."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    padding: str
    channels_first: bool
    bias: bool
    activation: Activation | None

    @property
    def ones(self) -> tuple[int, ...]:
        """A 1 per spatial axis."""
        return (1,) * len(self.kernel)


def _read_window(config: LayerConfig, rank: int, paddings: Sequence[str]) -> _Window:
    return _Window(
        kernel=config.integers("kernel_size", rank),
        strides=config.integers("strides", rank, (1,) * rank),
        dilations=config.integers("dilation_rate", rank, (1,) * rank),
        padding=config.choice("padding", "valid", paddings),
        channels_first=config.channels_first(),
        bias=config.flag("use_bias", True),
        activation=read_activation(config),
    )


def _paddings(rank: int) -> tuple[str, ...]:
    return ("valid", "same", "causal") if rank == 1 else ("valid", "same")


def _enter(scope: Scope, inputs: Sequence[str], window: _Window) -> str:
    """The input as float32 with its channels last."""
    x = scope.to_float(scope.single(inputs))
    if scope.rank(x) != len(window.kernel) + 2:
        raise ModelError(
            f"its input has shape {scope.shape(x)}, expected {len(window.kernel)} spatial axes"
        )
    return scope.channels_last(x, window.channels_first)


def _leave(scope: Scope, y: str, window: _Window) -> str:
    """The activation, then the channels in the layer's place."""
    activation = window.activation
    if activation is not None and not activation.pointwise:
        y = scope.channels_back(y, window.channels_first)
        return apply_activation(scope, y, activation)
    return scope.channels_back(apply_activation(scope, y, activation), window.channels_first)


def _biased(scope: Scope, operands: list[str], window: _Window, channels: int) -> list[str]:
    return [*operands, scope.stored("bias", (channels,))] if window.bias else operands


def _plan(window: _Window, build: Build, *kernels: str) -> LayerPlan:
    weights = (*kernels, "bias") if window.bias else kernels
    return LayerPlan(build, weights, children=children_of(window.activation))


def _conv(window: _Window, scope: Scope, x: str, group: int) -> Conv:
    spatial = scope.shape(x)[1:-1]
    pads = window_pads(window.padding, spatial, window.kernel, window.strides, window.dilations)
    return Conv(window.strides, pads, window.dilations, group)


@layer_by_rank("Conv{}D", "Convolution{}D")
def conv(config: LayerConfig, rank: int) -> LayerPlan:
    """x[N,*S,IC], kernel[*K,IC/groups,OC]; the padding of one spatial axis may be causal."""
    window = _read_window(config, rank, _paddings(rank))
    filters, groups = config.integer("filters"), config.integer("groups", 1)

    def build(scope: Scope, inputs: Sequence[str]) -> str:
        x = _enter(scope, inputs, window)
        channels = scope.shape(x)[-1]
        if channels % groups or filters % groups:
            raise ModelError(f"{groups} groups do not divide {channels} inputs, {filters} filters")
        kernel = scope.stored("kernel", (*window.kernel, channels // groups, filters))
        op = _conv(window, scope, x, groups)
        if rank == 3:
            bias = _biased(scope, [], window, filters)
            return _leave(scope, conv_3d(scope, op, x, kernel, bias), window)
        operands = _biased(scope, [x, kernel], window, filters)
        return _leave(scope, scope.node(op, operands), window)

    return _plan(window, build, "kernel")


def _depthwise_kernel(scope: Scope, kernel: tuple[int, ...], channels: int, multiplier: int) -> str:
    """Keras [*K,C,m] as [*K,1,C*m]: output channel c*m+j reads input channel c."""
    stored, wanted = (*kernel, channels, multiplier), (*kernel, 1, channels * multiplier)
    label = "depthwise_kernel"
    return scope.constant(label, lambda: scope.weight(label, stored).reshape(wanted))


@layer_by_rank("DepthwiseConv{}D", ranks=(1, 2))
def depthwise_conv(config: LayerConfig, rank: int) -> LayerPlan:
    """x[N,*S,C], kernel[*K,C,m] -> y[N,*O,C*m]."""
    window = _read_window(config, rank, _paddings(rank))
    multiplier = config.integer("depth_multiplier", 1)
    config.ignore("filters", "groups")  # Keras 2 writes inherited attributes that it does not use

    def build(scope: Scope, inputs: Sequence[str]) -> str:
        x = _enter(scope, inputs, window)
        channels = scope.shape(x)[-1]
        kernel = _depthwise_kernel(scope, window.kernel, channels, multiplier)
        operands = _biased(scope, [x, kernel], window, channels * multiplier)
        return _leave(scope, scope.node(_conv(window, scope, x, channels), operands), window)

    return _plan(window, build, "depthwise_kernel")


@layer_by_rank("SeparableConv{}D", "SeparableConvolution{}D", ranks=(1, 2))
def separable_conv(config: LayerConfig, rank: int) -> LayerPlan:
    """A depthwise Conv `<layer>/depthwise`, then a pointwise one `<layer>/pointwise`."""
    window = _read_window(config, rank, _paddings(rank))
    filters, multiplier = config.integer("filters"), config.integer("depth_multiplier", 1)
    config.ignore("groups")  # Keras 2 writes inherited attributes that it does not use
    pointwise = Conv(window.ones, ((0, 0),) * rank, window.ones)

    def build(scope: Scope, inputs: Sequence[str]) -> str:
        x = _enter(scope, inputs, window)
        channels = scope.shape(x)[-1]
        kernel = _depthwise_kernel(scope, window.kernel, channels, multiplier)
        y = scope.node(_conv(window, scope, x, channels), [x, kernel], "depthwise")
        shape = (*window.ones, channels * multiplier, filters)
        operands = _biased(scope, [y, scope.stored("pointwise_kernel", shape)], window, filters)
        return _leave(scope, scope.node(pointwise, operands, "pointwise"), window)

    return _plan(window, build, "depthwise_kernel", "pointwise_kernel")


@layer_by_rank("Conv{}DTranspose", "Convolution{}DTranspose")
def conv_transpose(config: LayerConfig, rank: int) -> LayerPlan:
    """x[N,*S,IC], kernel[*K,OC,IC]."""
    window = _read_window(config, rank, ("valid", "same"))
    filters = config.integer("filters")
    given = config.raw("output_padding") is not None
    extra = config.integers("output_padding", rank, minimum=0) if given else None
    config.ignore("groups")  # Keras 2 writes an attribute that it inherits; it has no grouped form
    if extra is not None and any(e >= s for e, s in zip(extra, window.strides, strict=True)):
        raise ModelError(f"output_padding {extra} must be less than strides {window.strides}")

    def build(scope: Scope, inputs: Sequence[str]) -> str:
        x = _enter(scope, inputs, window)
        *spatial, channels = scope.shape(x)[1:]
        pads, extras = transpose_geometry(
            window.padding, tuple(spatial), window.kernel, window.strides, window.dilations, extra
        )
        kernel = scope.stored("kernel", (*window.kernel, filters, channels))
        op = ConvTranspose(window.strides, pads, window.dilations, extras)
        if rank == 3:
            bias = _biased(scope, [], window, filters)
            return _leave(scope, conv_transpose_3d(scope, op, x, kernel, bias), window)
        operands = _biased(scope, [x, kernel], window, filters)
        return _leave(scope, scope.node(op, operands), window)

    return _plan(window, build, "kernel")
