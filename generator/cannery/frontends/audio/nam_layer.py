"""One layer of Neural Amp Modeler's WaveNet.

    z = conv(x) + mixin(condition);  a = activation(z), or of both halves of z
    next = x + layer1x1(a);  to the head: a, or head1x1(a)

FiLM scales and shifts a value, at any of eight places, by products of the condition.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from cannery.errors import ModelError
from cannery.frontends.audio.nam_activations import Activation
from cannery.frontends.audio.samples import F32, SampleNet, Weights
from cannery.ops.elementwise.binary import Add, Mul, Sub

#: The places of FiLM in a layer, in the order of their weights.
FILMS = (
    "conv_pre_film", "conv_post_film", "input_mixin_pre_film", "input_mixin_post_film",
    "activation_pre_film", "activation_post_film", "layer1x1_post_film", "head1x1_post_film",
)  # fmt: skip


@dataclass(frozen=True)
class Film:
    """Whether it also shifts, and its groups."""

    shift: bool
    groups: int


@dataclass(frozen=True)
class Gate:
    """How both halves of z become one: a = f(u) * g(v), or g(v) * f(u) + (1 - g(v)) * u."""

    second: Activation
    blends: bool


@dataclass(frozen=True)
class LayerPlan:
    """What the layers of an array have in common. `layer1x1` and `head1x1` are groups, 0: none."""

    channels: int
    condition: int
    bottleneck: int
    groups: int
    mixin_groups: int
    layer1x1: int
    head1x1: int
    head_channels: int
    films: Mapping[str, Film]

    def __post_init__(self) -> None:
        if not self.layer1x1 and self.bottleneck != self.channels:
            raise ModelError(
                f"without layer1x1, its bottleneck of {self.bottleneck} would have to be its "
                f"{self.channels} channels"
            )
        for place, active in (("layer1x1", self.layer1x1), ("head1x1", self.head1x1)):
            if not active and f"{place}_post_film" in self.films:
                raise ModelError(f"{place}_post_film is active, but not {place}")


@dataclass(frozen=True)
class Product:
    """A convolution as stored: weight[K,IC/group,OC], and maybe a bias."""

    weight: F32
    bias: F32 | None
    group: int = 1

    def build(self, net: SampleNet, x: str, name: str, dilation: int = 1) -> str:
        """Add it to a network."""
        return net.conv(x, self.weight, self.bias, name, dilation, self.group)


def read_product(
    weights: Weights, inputs: int, outputs: int, size: int = 1, group: int = 1, *, bias: bool = True
) -> Product:
    """The next weights as a convolution: PyTorch's [OC,IC/group,K], then the bias."""
    if inputs % group or outputs % group:
        raise ModelError(f"{group} groups do not divide {inputs} and {outputs} channels")
    weight = weights.take(outputs, inputs // group, size)
    return Product(
        np.ascontiguousarray(weight.transpose(2, 1, 0)), weights.take(outputs) if bias else None,
        group,
    )  # fmt: skip


@dataclass(frozen=True)
class Layer:
    """A layer with its weights."""

    plan: LayerPlan
    dilation: int
    activation: Activation
    gate: Gate | None
    conv: Product
    mixin: Product
    layer1x1: Product | None
    head1x1: Product | None
    films: Mapping[str, Product]

    def build(self, net: SampleNet, x: str, condition: str, name: str) -> tuple[str, str]:
        """What goes to the next layer, and to the head."""
        filmed = _Films(self, net, condition, name)
        z = self.conv.build(net, filmed.at("conv_pre", x), f"{name}/conv", self.dilation)
        z = filmed.at("conv_post", z)
        mixed = filmed.at("input_mixin_pre", condition)
        mixed = filmed.at("input_mixin_post", self.mixin.build(net, mixed, f"{name}/mixin"))
        z = filmed.at("activation_pre", net.node(Add(), [z, mixed], f"{name}/sum"))
        a = filmed.at("activation_post", self._activated(net, z, name))
        own = to_head = a
        if self.layer1x1 is not None:
            own = filmed.at("layer1x1_post", self.layer1x1.build(net, a, f"{name}/layer1x1"))
        if self.head1x1 is not None:
            to_head = filmed.at("head1x1_post", self.head1x1.build(net, a, f"{name}/head1x1"))
        return net.node(Add(), [x, own], name), to_head

    def _activated(self, net: SampleNet, z: str, name: str) -> str:
        if self.gate is None:
            return self.activation(net, z, f"{name}/activation")
        size = self.plan.bottleneck
        u = net.part(z, 0, size, f"{name}/first")
        v = net.part(z, size, 2 * size, f"{name}/second")
        f = self.activation(net, u, f"{name}/activation")
        g = self.gate.second(net, v, f"{name}/gate")
        if not self.gate.blends:
            return net.node(Mul(), [f, g], f"{name}/gated")
        change = net.node(Sub(), [f, u], f"{name}/change")
        return net.node(
            Add(), [u, net.node(Mul(), [g, change], f"{name}/share")], f"{name}/blended"
        )


@dataclass(frozen=True)
class _Films:
    """The FiLMs of a layer, where it has them."""

    layer: Layer
    net: SampleNet
    condition: str
    name: str

    def at(self, place: str, x: str) -> str:
        """The value at a place, scaled and shifted if there is a FiLM."""
        key, net = f"{place}_film", self.net
        product = self.layer.films.get(key)
        if product is None:
            return x
        name = f"{self.name}/{key}"
        both = product.build(net, self.condition, f"{name}/conv")
        if not self.layer.plan.films[key].shift:
            return net.node(Mul(), [both, x], name)
        size = net.channels(x)
        scale = net.part(both, 0, size, f"{name}/scale")
        shift = net.part(both, size, 2 * size, f"{name}/shift")
        return net.node(Add(), [net.node(Mul(), [scale, x], f"{name}/scaled"), shift], name)


def read_layer(
    plan: LayerPlan, weights: Weights, size: int, dilation: int, activation: Activation,
    gate: Gate | None,
) -> Layer:  # fmt: skip
    """A layer with the next weights; `size` are the taps of its convolution."""
    inner = plan.bottleneck * (2 if gate else 1)
    conv = read_product(weights, plan.channels, inner, size, plan.groups)
    mixin = read_product(weights, plan.condition, inner, group=plan.mixin_groups, bias=False)
    layer1x1 = head1x1 = None
    if plan.layer1x1:
        layer1x1 = read_product(weights, plan.bottleneck, plan.channels, group=plan.layer1x1)
    if plan.head1x1:
        head1x1 = read_product(weights, plan.bottleneck, plan.head_channels, group=plan.head1x1)
    widths = (
        plan.channels, inner, plan.condition, inner, inner, plan.bottleneck, plan.channels,
        plan.head_channels,
    )  # fmt: skip
    films = {}
    for place, width in zip(FILMS, widths, strict=True):
        if place in plan.films:
            film = plan.films[place]
            outputs = width * (2 if film.shift else 1)
            films[place] = read_product(weights, plan.condition, outputs, group=film.groups)
    return Layer(plan, dilation, activation, gate, conv, mixin, layer1x1, head1x1, films)
