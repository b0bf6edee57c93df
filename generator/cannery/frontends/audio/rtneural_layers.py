"""The layers of RTNeural's JSON, with the layouts of weights that Keras has."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod

import numpy as np

from cannery.errors import ModelError, UnsupportedError, one_of
from cannery.frontends.audio.samples import F32, SampleNet, float_numbers
from cannery.frontends.json_values import Fields, shown, whole_number
from cannery.ir.numeric import f64
from cannery.ir.registry import Op
from cannery.ops.conv.op import Conv
from cannery.ops.elementwise.activations import Elu, PRelu, Relu, Sigmoid, Tanh
from cannery.ops.movement.op import Reshape
from cannery.ops.normalization.op import BatchNormalization
from cannery.ops.softmax.op import Softmax
from cannery.ops.window import same_pads

#: Adds a layer: the value that it reads, its description, its name.
Layer = Callable[[SampleNet, str, Fields, str], str]

_ACTIVATIONS: Mapping[str, Callable[[], Op]] = {
    "tanh": Tanh, "relu": Relu, "sigmoid": Sigmoid, "elu": Elu, "softmax": lambda: Softmax(2),
}  # fmt: skip


def add_layer(net: SampleNet, x: str, fields: Fields, name: str) -> str:
    """Add a layer and its activation. Raises UnsupportedError for an unknown one."""
    kind = fields.word("type")
    fields.where += f" ({kind})"
    if kind not in LAYERS:
        what = f"the type {kind!r} is not supported"
        raise UnsupportedError(what, where=fields.where, cure=one_of(kind, LAYERS))
    y = LAYERS[kind](net, x, fields, name)
    _check_shape(net, y, fields)
    fields.check_all_read()
    return y


def needs_time(fields: Fields) -> str:
    """The type of a layer that looks back, else ""."""
    kind = fields.raw("type")
    return kind if isinstance(kind, str) and kind in ("conv1d", "conv2d", "gru", "lstm") else ""


def _check_shape(net: SampleNet, y: str, fields: Fields) -> None:
    """Raises ModelError unless a layer has as many numbers for a step as it says."""
    told = fields.items("shape")
    sizes = [whole_number(v, 1) for v in (told[2:] if len(told) == 4 else told[-1:])]
    made = prod(net.shape(y)[2:])
    if not sizes or None in sizes or prod(s or 1 for s in sizes) != made:
        what = f"shape is {shown(told)}, but its weights make {made} numbers for each step"
        raise ModelError(what, where=fields.where)


def _arrays(fields: Fields, *counts: int) -> list[F32]:
    """The weights."""
    given = fields.items("weights")
    if len(given) not in counts:
        expected = " or ".join(map(str, counts))
        what = f"weights has {len(given)} arrays, expected {expected}"
        raise ModelError(what, where=fields.where)
    return [float_numbers(v, f"{fields.where}, weights {k}") for k, v in enumerate(given)]


def _require(fields: Fields, what: str, array: F32, shape: Sequence[int]) -> None:
    if array.shape != tuple(shape):
        said = f"its {what} has the shape {list(array.shape)}, expected {list(shape)}"
        raise ModelError(said, where=fields.where)


def _require_rank(fields: Fields, what: str, array: F32, rank: int) -> None:
    if array.ndim != rank or not array.size:
        said = f"its {what} has the shape {list(array.shape)}, expected {rank} dimensions"
        raise ModelError(said, where=fields.where)


def _one(fields: Fields, key: str) -> int:
    """A number, which may be in a list, also several times."""
    value = fields.raw(key)
    if not isinstance(value, list):
        return fields.integer(key)
    if not value or any(v != value[0] for v in value):
        raise ModelError(f"{key} is {shown(value)}, expected one number", where=fields.where)
    return Fields({key: value[0]}, fields.where).integer(key)


def _no_activation(fields: Fields) -> None:
    """Raises UnsupportedError for a function after a layer which RTNeural leaves out."""
    if kind := fields.word("activation", ""):
        cure = "make it a layer of its own, of the type activation"
        raise UnsupportedError(f"activation {kind!r}", where=fields.where, cure=cure)


def _activated(net: SampleNet, y: str, fields: Fields, name: str) -> str:
    kind = fields.word("activation", "")
    if not kind:
        return y
    if kind not in _ACTIVATIONS:
        what = f"activation {kind!r} is not supported"
        raise UnsupportedError(what, where=fields.where, cure=one_of(kind, _ACTIVATIONS))
    if kind == "softmax" and len(net.shape(y)) != 3:
        what = "softmax of features and channels, which Keras and RTNeural compute differently"
        raise UnsupportedError(what, where=fields.where)
    return net.node(_ACTIVATIONS[kind](), [y], f"{name}/{kind}")


def _flat(net: SampleNet, x: str, name: str) -> str:
    """Features and channels as one axis."""
    n, steps, *rest = net.shape(x)
    if len(rest) == 1:
        return x
    return net.node(Reshape((n, steps, prod(rest))), [x], f"{name}/flat")


def dense(net: SampleNet, x: str, fields: Fields, name: str) -> str:
    """kernel[IC,OC], bias[OC]."""
    x = _flat(net, x, name)
    kernel, bias = _arrays(fields, 2)
    _require_rank(fields, "kernel", kernel, 2)
    _require(fields, "kernel", kernel, (net.channels(x), kernel.shape[1]))
    _require(fields, "bias", bias, kernel.shape[1:])
    return _activated(net, net.dense(x, kernel, bias, name), fields, name)


def conv1d(net: SampleNet, x: str, fields: Fields, name: str) -> str:
    """kernel[K,IC/groups,OC], bias[OC]."""
    x = _flat(net, x, name)
    kernel, bias = _arrays(fields, 2)
    size, dilation = _one(fields, "kernel_size"), _one(fields, "dilation")
    groups = fields.integer("groups", 1)
    if net.channels(x) % groups:
        raise ModelError(f"{groups} groups of {net.channels(x)} channels", where=fields.where)
    _require_rank(fields, "kernel", kernel, 3)
    _require(fields, "kernel", kernel, (size, net.channels(x) // groups, kernel.shape[2]))
    _require(fields, "bias", bias, kernel.shape[2:])
    return _activated(net, net.conv(x, kernel, bias, name, dilation, groups), fields, name)


def conv2d(net: SampleNet, x: str, fields: Fields, name: str) -> str:
    """kernel[KT,KF,IC,OC], bias[OC]: dilated along time, with strides along features."""
    _require_features(net, x, fields)
    kernel, bias = _arrays(fields, 2)
    sizes = _one(fields, "kernel_size_time"), _one(fields, "kernel_size_feature")
    dilation, stride = _one(fields, "dilation"), _one(fields, "strides")
    _, _, features, channels = net.shape(x)
    padding = fields.word("padding")
    if padding not in ("valid", "same"):
        cure = "one of: valid, same"
        raise UnsupportedError(f"padding {padding!r}", where=fields.where, cure=cure)
    _require(fields, "kernel", kernel, (*sizes, channels, _one(fields, "num_filters_out")))
    _require(fields, "bias", bias, kernel.shape[3:])
    before = (sizes[0] - 1) * dilation
    (along,) = (
        same_pads((features,), sizes[1:], (stride,), (1,)) if padding == "same" else ((0, 0),)
    )
    op = Conv((1, stride), ((before, 0), along), (dilation, 1))
    weights = [net.constant(f"{name}/{k}", v) for k, v in (("weight", kernel), ("bias", bias))]
    return _activated(net, net.node(op, [x, *weights], name, before), fields, name)


def lstm(net: SampleNet, x: str, fields: Fields, name: str) -> str:
    """kernel[IC,4H], recurrent[H,4H], bias[4H], of the gates i, f, c, o."""
    x = _flat(net, x, name)
    _check_cell(fields)
    kernel, recurrent, bias = _arrays(fields, 3)
    cells = _check_recurrent(net, x, fields, kernel, recurrent, 4)
    _require(fields, "bias", bias, (4 * cells,))
    order = np.arange(4 * cells).reshape(4, cells)[[0, 3, 1, 2]].reshape(-1)
    known = {"w": kernel[:, order], "r": recurrent[:, order], "b": bias[order]}
    return net.lstm(x, {k: f64(v) for k, v in known.items()}, name)


def gru(net: SampleNet, x: str, fields: Fields, name: str) -> str:
    """kernel[IC,3H], recurrent[H,3H], bias[2,3H], of the gates z, r, h; the second row is added
    to the recurrent product.
    """
    x = _flat(net, x, name)
    _check_cell(fields)
    kernel, recurrent, bias = _arrays(fields, 3)
    cells = _check_recurrent(net, x, fields, kernel, recurrent, 3)
    _require(fields, "bias", bias, (2, 3 * cells))
    inner = f64(bias)
    both = inner[0] + np.concatenate([inner[1, : 2 * cells], np.zeros(cells)])
    known = {"w": f64(kernel), "r": f64(recurrent), "b": both, "q": inner[1, 2 * cells :]}
    return net.gru(x, known, name)


def _check_cell(fields: Fields) -> None:
    """Raises UnsupportedError for another activation than the one that RTNeural computes."""
    kind = fields.word("activation", "")
    if kind not in ("", "tanh"):
        raise UnsupportedError(f"activation {kind!r}", where=fields.where, cure="use tanh")


def _check_recurrent(
    net: SampleNet, x: str, fields: Fields, kernel: F32, recurrent: F32, gates: int
) -> int:
    """The number of cells."""
    _require_rank(fields, "recurrent kernel", recurrent, 2)
    cells = int(recurrent.shape[0])
    _require(fields, "recurrent kernel", recurrent, (cells, gates * cells))
    _require(fields, "kernel", kernel, (net.channels(x), gates * cells))
    return cells


def prelu(net: SampleNet, x: str, fields: Fields, name: str) -> str:
    """Slopes [[C]], or [[1]] for all channels; of features and filters, one for each of both."""
    (slopes,) = _arrays(fields, 1)
    _no_activation(fields)
    if slopes.shape != (1, 1):
        x = _flat(net, x, name)
        _require(fields, "slopes", slopes, (1, net.channels(x)))
    return net.node(PRelu(), [x, net.constant(f"{name}/slopes", slopes[0])], name)


def batch_norm(net: SampleNet, x: str, fields: Fields, name: str) -> str:
    """gamma[C], beta[C], mean[C], variance[C]; or the last two."""
    return _normalised(net, _flat(net, x, name), fields, name)


def batch_norm2d(net: SampleNet, x: str, fields: Fields, name: str) -> str:
    """The same for each filter."""
    _require_features(net, x, fields)
    return _normalised(net, x, fields, name)


def _normalised(net: SampleNet, x: str, fields: Fields, name: str) -> str:
    """By the numbers of each element of the last axis."""
    size, rank = net.channels(x), len(net.shape(x))
    _no_activation(fields)
    arrays = _arrays(fields, 2, 4)
    if len(arrays) == 2:
        arrays = [np.ones(size, np.float32), np.zeros(size, np.float32), *arrays]
    for what, array in zip(("gamma", "beta", "mean", "variance"), arrays, strict=True):
        _require(fields, what, array, (size,))
    inputs = [net.constant(f"{name}/{k}", array) for k, array in enumerate(arrays)]
    op = BatchNormalization(rank - 1, fields.number("epsilon"))
    return net.node(op, [x, *inputs], name)


def _require_features(net: SampleNet, x: str, fields: Fields) -> None:
    """Raises ModelError if what is told of the input is not so."""
    if len(net.shape(x)) != 4:
        raise ModelError("its input has no axis of features", where=fields.where)
    for key, size in zip(("num_features_in", "num_filters_in"), net.shape(x)[2:], strict=True):
        if _one(fields, key) != size:
            what = f"{key} is {shown(fields.raw(key))}, but there are {size}"
            raise ModelError(what, where=fields.where)


def activation(net: SampleNet, x: str, fields: Fields, name: str) -> str:
    """A function alone."""
    _arrays(fields, 0)
    return _activated(net, x, fields, name)


LAYERS: Mapping[str, Layer] = {
    "dense": dense,
    "time-distributed-dense": dense,
    "conv1d": conv1d,
    "conv2d": conv2d,
    "lstm": lstm,
    "gru": gru,
    "prelu": prelu,
    "batchnorm": batch_norm,
    "batchnorm2d": batch_norm2d,
    "activation": activation,
}
