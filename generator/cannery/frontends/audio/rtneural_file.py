"""RTNeural's JSON: a list of layers with weights in the order of Keras, from which it is exported.

RTNeural computes one step after the other: recurrent layers and convolutions along time look back
alone, and everything before the first step is zero. AIDA-X adds gains, and the input to the output.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from cannery.errors import ModelError
from cannery.frontends.audio.rtneural_layers import add_layer, needs_time
from cannery.frontends.audio.samples import SampleNet
from cannery.frontends.json_values import (
    OBJECT_START,
    Fields,
    finite_number,
    mapping,
    read_object,
    shown,
)
from cannery.frontends.metadata import make_metadata
from cannery.frontends.options import ImportOptions
from cannery.ir.graph import Graph
from cannery.ops.elementwise.binary import Add, Mul

FORMAT = "RTNeural (.json)"

_KEY = re.compile(rb'"in_shape"\s*:\s*\[')

#: Gains in dB: from where on players take one for silence, and the largest that is read.
_SILENT, _LOUDEST = -90.0, 200.0

#: What players of AIDA-X read beside the network, or test it with.
_IGNORED = ("samplerate", "metadata", "input_batch", "output_batch")


def recognises(head: bytes) -> bool:
    """Whether a file that begins with `head` is JSON with the shape of an input."""
    return bool(re.match(OBJECT_START, head) and _KEY.search(head))


def load(path: Path, options: ImportOptions) -> Graph:
    """The graph of a model; see `cannery.frontends.load_graph`."""
    fields = Fields(read_object(path), "")
    shape = _step_shape(fields)
    layers = [
        Fields(mapping(value, f"layer {k}"), f"layer {k}")
        for k, value in enumerate(fields.items("layers"))
    ]
    if not layers:
        raise ModelError("it has no layers")
    timeless = len(fields.items("in_shape")) == 2
    if timeless and (kinds := [k for k in map(needs_time, layers) if k]):
        what = f"in_shape is {shown(fields.raw('in_shape'))}, without time, but it has {kinds[0]}"
        raise ModelError(what, cure="export the model with the input [None, None, channels]")
    net = SampleNet("RTNeural", options, shape, steps=1 if timeless else None)
    x = y = _scaled(net, net.x, fields, "in_gain", first_alone=True)
    for k, layer in enumerate(layers):
        y = add_layer(net, y, layer, f"layer{k}")
    y = _scaled(net, _skipped(net, x, y, fields), fields, "out_gain", first_alone=False)
    metadata, rates = _told(fields)
    fields.check_all_read()
    return replace(net.finish(y, rates), metadata=metadata)


def _step_shape(fields: Fields) -> tuple[int, ...]:
    """The shape of one step: channels, or features and channels; time and batch do not matter."""
    given = fields.items("in_shape")
    inner = Fields({"sizes": list(given[2:] if len(given) > 2 else given[1:])}, "in_shape")
    if not 2 <= len(given) <= 4:
        what = f"in_shape is {shown(given)}, expected batch, time and channels"
        raise ModelError(what)
    return inner.shape("sizes", minimum=1)


def _scaled(net: SampleNet, x: str, fields: Fields, key: str, *, first_alone: bool) -> str:
    """Times a gain in dB; of the inputs, only the first is sound."""
    if fields.raw(key) is None:
        return x
    decibels = fields.number(key)
    if decibels > _LOUDEST:
        raise ModelError(f"{key} of {decibels:g} dB is too large")
    factors = np.ones(net.channels(x) if first_alone else 1, np.float32)
    factors[0] = 10.0 ** (decibels / 20) if decibels > _SILENT else 0.0
    constant = net.constant(f"{key}/factor", factors)
    return net.node(Mul(), [x, constant], key)


def _skipped(net: SampleNet, x: str, y: str, fields: Fields) -> str:
    """The network's value, and the input itself."""
    skip = 0 if fields.raw("in_skip") is None else fields.integer("in_skip", minimum=0)
    if skip > 1:
        raise ModelError(f"in_skip is {skip}, expected 0 or 1")
    if not skip:
        return y
    if len(net.shape(y)) != 3 or net.channels(y) != 1:
        raise ModelError("in_skip adds the input to an output that is not one channel")
    first = net.part(x, 0, 1, "in_skip/first") if net.channels(x) > 1 else x
    return net.node(Add(), [y, first], "in_skip")


def _told(fields: Fields) -> tuple[Mapping[str, str], tuple[float, ...]]:
    """Texts and numbers that describe the model, and its sample rate, if it is known."""
    told = fields.raw("metadata")
    own = dict(told) if isinstance(told, dict) else {}
    rate = own.get("samplerate", fields.raw("samplerate"))
    fields.ignore(*_IGNORED)
    entries = ((f"rtneural.{k}", v) for k, v in own.items() if isinstance(v, str | float | int))
    metadata = make_metadata([("format", "RTNeural"), *entries])
    known = finite_number(rate)
    return metadata, () if known is None else (known,)
