"""The WaveNet of Neural Amp Modeler: arrays of layers, and what is between them and the output.

    array    x -> rechannel -> layers -> next array; what the layers give to the head is added up,
             beginning with the head's value of the array before, and goes through its convolution
    head     the last array's value * head_scale, then activations and convolutions, if any

The condition of the layers is the input of the network, or what another network makes of it.
Weights come in the order in which they are read here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from cannery.errors import ModelError, UnsupportedError
from cannery.frontends.audio.nam_activations import read_activation
from cannery.frontends.audio.nam_layer import (
    FILMS,
    Film,
    Gate,
    LayerPlan,
    read_layer,
    read_product,
)
from cannery.frontends.audio.samples import SampleNet, Weights
from cannery.frontends.json_values import Fields, mapping, shown, whole_numbers
from cannery.ops.elementwise.binary import Add, Mul

#: The only way of training several sizes in one; all channels together are the full size.
_SLIMMABLE = "slice_channels_uniform"

#: The trainer takes head_scale of the configuration where the last weight is as near.
_SAME_SCALE = 1e-5

#: Adds another network of the file: its description, its input, the beginning of its layers' names.
Nested = Callable[[object, str, str], str]


def input_channels(fields: Fields) -> int:
    """The channels of the input."""
    first = mapping((fields.items("layers") or [{}])[0], f"{fields.where}, the first of its layers")
    size = Fields(first, fields.where).integer("input_size", 1)
    return fields.integer("in_channels", size)


def build_wavenet(
    net: SampleNet, x: str, fields: Fields, weights: Weights, prefix: str, nested: Nested
) -> str:
    """Add the network of a `config`; `prefix` begins the names of its layers."""
    condition = x
    if fields.raw("condition_dsp") is not None:
        condition = nested(fields.raw("condition_dsp"), x, f"{prefix}condition/")
    head = ""
    for k, values in enumerate(fields.items("layers")):
        where = f"{fields.where}, layer array {k}"
        try:
            array = Fields(mapping(values, where), where)
            x, head = _array(net, array, weights, (x, condition, head), f"{prefix}array{k}")
        except ModelError as error:
            error.where = error.where or where
            raise
    if not head:
        raise ModelError("it has no layers", where=fields.where)
    return _head(net, fields, weights, head, prefix)


def _array(
    net: SampleNet, fields: Fields, weights: Weights, inputs: tuple[str, str, str], name: str
) -> tuple[str, str]:
    """What goes to the next array, and to the head; from the same and the condition."""
    x, condition, head = inputs
    channels, given = fields.integer("channels"), fields.integer("input_size")
    plan = _plan(fields, channels)
    dilations = fields.shape("dilations", minimum=1)
    if not dilations:
        raise ModelError("it has no layers", where=fields.where)
    taps = _kernel_sizes(fields, len(dilations))
    activations = [read_activation(v, fields.where) for v in _each(fields, "activation", dilations)]
    gates = _gates(fields, dilations)
    outputs, size, bias = _head_rechannel(fields)
    _check_slimmable(fields)
    fields.check_all_read()
    x = read_product(weights, given, channels, bias=False).build(net, x, f"{name}/rechannel")
    for k, parts in enumerate(zip(taps, dilations, activations, gates, strict=True)):
        layer = read_layer(plan, weights, *parts)
        x, own = layer.build(net, x, condition, f"{name}/layer{k}")
        head = _added(net, head, own, f"{name}/layer{k}/to_head")
    rechannel = read_product(weights, net.channels(head), outputs, size, bias=bias)
    return x, rechannel.build(net, head, f"{name}/head")


def _added(net: SampleNet, head: str, own: str, name: str) -> str:
    if not head:
        return own
    if net.channels(head) != net.channels(own):
        have, get = net.channels(own), net.channels(head)
        raise ModelError(f"its layers give {have} channels to the head, the array before {get}")
    return net.node(Add(), [head, own], name)


def _plan(fields: Fields, channels: int) -> LayerPlan:
    bottleneck = fields.integer("bottleneck", channels)
    layer1x1, outputs = _one_by_one(fields, "layer1x1", channels, active=True)
    if outputs != channels:
        what = f"layer1x1 has {outputs} outputs, which are added to {channels} channels"
        raise ModelError(what, where=fields.where)
    head1x1, to_head = _one_by_one(fields, "head1x1", bottleneck, active=False)
    films = {place: film for place in FILMS if (film := _film(fields, place))}
    return LayerPlan(
        channels, fields.integer("condition_size"), bottleneck, fields.integer("groups_input", 1),
        fields.integer("groups_input_mixin", 1), layer1x1, head1x1, to_head, films,
    )  # fmt: skip


def _one_by_one(fields: Fields, key: str, usual: int, *, active: bool) -> tuple[int, int]:
    """The groups of an optional convolution, 0 if it is not there, and its channels."""
    if fields.raw(key) is None:
        return int(active), usual
    inner = fields.inner(key)
    outputs, groups = inner.integer("out_channels", usual), inner.integer("groups", 1)
    there = inner.flag("active", active)
    inner.check_all_read()
    return (groups, outputs) if there else (0, usual)


def _film(fields: Fields, key: str) -> Film | None:
    if fields.raw(key) in (None, False):
        return None
    inner = fields.inner(key)
    active = inner.flag("active", True)
    film = Film(inner.flag("shift", True), inner.integer("groups", 1))
    inner.check_all_read()
    return film if active else None


def _kernel_sizes(fields: Fields, count: int) -> Sequence[int]:
    """The taps of each layer: one number for all, or one for each."""
    both = [key for key in ("kernel_size", "kernel_sizes") if fields.raw(key) is not None]
    if len(both) != 1:
        raise ModelError("needs either kernel_size or kernel_sizes", where=fields.where)
    value = fields.raw(both[0])
    found = whole_numbers(value, None if isinstance(value, list) else count, 1)
    if found is None or len(found) != count:
        what = f"{both[0]} is {shown(value)}, expected a whole number for each of {count} layers"
        raise ModelError(what, where=fields.where)
    return found


def _each(fields: Fields, key: str, layers: Sequence[object]) -> Sequence[object]:
    """A value for each layer, of which one may be for all."""
    value = fields.raw(key)
    found = value if isinstance(value, list) else [value] * len(layers)
    if len(found) != len(layers):
        what = f"{key} has {len(found)} entries for {len(layers)} layers"
        raise ModelError(what, where=fields.where)
    return found


def _gates(fields: Fields, layers: Sequence[object]) -> list[Gate | None]:
    """By `gating_mode` and `secondary_activation`, or the older `gated`."""
    gated = fields.flag("gated", False)
    modes: Sequence[object] = ["gated" if gated else "none"] * len(layers)
    if fields.raw("gating_mode") is not None:
        modes = _each(fields, "gating_mode", layers)
        if gated and set(map(str, modes)) != {"gated"}:
            what = f"gated is true, but gating_mode is {shown(fields.raw('gating_mode'))}"
            raise ModelError(what, where=fields.where)
    seconds = _each(fields, "secondary_activation", layers)
    found: list[Gate | None] = []
    for mode, second in zip(modes, seconds, strict=True):
        if mode not in ("none", "gated", "blended"):
            cure = "one of: none, gated, blended"
            raise UnsupportedError(f"gating_mode {shown(mode)}", where=fields.where, cure=cure)
        usual = "Sigmoid" if second is None else second
        gate = Gate(read_activation(usual, fields.where), mode == "blended")
        found.append(None if mode == "none" else gate)
    return found


def _head_rechannel(fields: Fields) -> tuple[int, int, bool]:
    """Channels, taps and bias of an array's own convolution to the head."""
    if fields.raw("head") is None:
        return fields.integer("head_size"), 1, fields.flag("head_bias")
    inner = fields.inner("head")
    found = inner.integer("out_channels"), inner.integer("kernel_size"), inner.flag("bias")
    inner.check_all_read()
    return found


def _check_slimmable(fields: Fields) -> None:
    """Raises UnsupportedError for another way of having several sizes in one."""
    if fields.raw("slimmable") is None:
        return
    inner = fields.inner("slimmable")
    if inner.raw("method") not in (None, _SLIMMABLE):
        what = f"method {shown(inner.raw('method'))} is not supported"
        raise UnsupportedError(what, where=inner.where, cure=f"method: {_SLIMMABLE}")
    inner.ignore("kwargs")  # the smaller sizes
    inner.check_all_read()


def _head(net: SampleNet, fields: Fields, weights: Weights, x: str, prefix: str) -> str:
    """From the last array to the output; the scale is also the last weight, which counts."""
    convs, activation = [], None
    if fields.raw("head") is not None:
        head = fields.inner("head")
        activation = read_activation(head.raw("activation"), head.where)
        sizes = [*_head_sizes(net, head, x)]
        convs = [read_product(weights, *shape) for shape in sizes]
        head.check_all_read()
    scale, stored = fields.number("head_scale"), weights.take(1)
    if abs(float(stored[0]) - scale) <= _SAME_SCALE:
        stored = np.array([scale], np.float32)
    name = f"{prefix}head_scale"
    x = net.node(Mul(), [x, net.constant(f"{name}/factor", stored)], name)
    for k, conv in enumerate(convs):
        assert activation is not None
        x = conv.build(net, activation(net, x, f"{prefix}head{k}/activation"), f"{prefix}head{k}")
    return x


def _head_sizes(net: SampleNet, head: Fields, x: str) -> list[tuple[int, int, int]]:
    """Inputs, outputs and taps of the head's convolutions."""
    channels, given = head.integer("channels"), net.channels(x)
    last, sizes = head.integer("out_channels"), head.shape("kernel_sizes", minimum=1)
    if head.integer("in_channels", given) != given:
        what = f"in_channels is {head.raw('in_channels')}, but the last array has {given}"
        raise ModelError(what, where=head.where)
    if not sizes:
        raise ModelError("kernel_sizes is empty", where=head.where)
    inner = [channels] * (len(sizes) - 1)
    return list(zip([given, *inner], [*inner, last], sizes, strict=True))
