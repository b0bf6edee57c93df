"""Activations of Neural Amp Modeler's files: a name, or an object with `type` and parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from cannery.errors import ModelError, UnsupportedError, one_of
from cannery.frontends.audio.samples import SampleNet, float_numbers
from cannery.frontends.json_values import Fields, mapping
from cannery.ir.registry import Op
from cannery.ops.elementwise import activations as act
from cannery.ops.elementwise.binary import Add, Max, Min, Mul, Sub

#: Adds the nodes of an activation under a name; returns its value.
Activation = Callable[[SampleNet, str, str], str]

#: What PyTorch takes where a file says nothing.
_SLOPE = 0.01

_SIMPLE: Mapping[str, Callable[[], Op]] = {
    "Tanh": act.Tanh,
    "ReLU": act.Relu,
    "Sigmoid": act.Sigmoid,
    "SiLU": act.Silu,
    "Hardswish": act.HardSwish,
    "Softsign": act.Softsign,
    "ELU": act.Elu,
    "SELU": act.Selu,
    "CELU": act.Celu,
    "GELU": act.Gelu,
    "Mish": act.Mish,
    "Softplus": act.Softplus,
    "ReLU6": lambda: act.Clip(0.0, 6.0),
    "Hardsigmoid": lambda: act.HardSigmoid(1 / 6, 0.5),
}


def read_activation(value: object, where: str) -> Activation:
    """The activation that a file describes. Raises UnsupportedError for an unknown one."""
    given = {"type": value} if isinstance(value, str) else mapping(value, f"{where}: activation")
    fields = Fields(given, f"{where}, activation")
    key = "name" if "name" in given and "type" not in given else "type"  # heads: as configured
    name = fields.word(key).lstrip("_")  # the trainer writes names of classes
    if name in _SIMPLE:
        found = _one_node(_SIMPLE[name]())
    elif name in _READERS:
        found = _READERS[name](fields)
    else:
        cure = one_of(name, activation_names())
        raise UnsupportedError(f"{name!r} is not supported", where=fields.where, cure=cure)
    fields.check_all_read()
    return found


def activation_names() -> list[str]:
    """The names of all activations that are read, sorted."""
    return sorted((*_SIMPLE, *_READERS))


def _one_node(op: Op) -> Activation:
    return lambda net, x, name: net.node(op, [x], name)


def _identity(fields: Fields) -> Activation:
    return lambda net, x, name: x


def _leaky_relu(fields: Fields) -> Activation:
    return _one_node(act.LeakyRelu(fields.number("negative_slope", _SLOPE)))


def _prelu(fields: Fields) -> Activation:
    """One slope, or one for each channel: learned ones, which nothing stands for."""
    if not fields.has("negative_slopes"):
        return _one_node(act.LeakyRelu(fields.number("negative_slope")))
    slopes = float_numbers(fields.items("negative_slopes"), f"{fields.where}, negative_slopes")

    def apply(net: SampleNet, x: str, name: str) -> str:
        if slopes.shape != (net.channels(x),):
            what = f"{slopes.size} slopes for {net.channels(x)} channels"
            raise ModelError(what, where=fields.where)
        return net.node(act.PRelu(), [x, net.constant(f"{name}/slopes", slopes)], name)

    return apply


def _bounds(fields: Fields) -> tuple[float, float]:
    low, high = fields.number("min_val", -1.0), fields.number("max_val", 1.0)
    if low > high:
        raise ModelError(f"min_val {low:g} is above max_val {high:g}", where=fields.where)
    return low, high


def _hard_tanh(fields: Fields) -> Activation:
    return _one_node(act.Clip(*_bounds(fields)))


def _leaky_hard_tanh(fields: Fields) -> Activation:
    """clip(x) + below * (min(x, low) - low) + above * (max(x, high) - high)."""
    low, high = _bounds(fields)
    below, above = fields.number("min_slope", _SLOPE), fields.number("max_slope", _SLOPE)

    def beyond(net: SampleNet, x: str, name: str, op: Op, bound: float, slope: float) -> str:
        limit, factor = (net.constant(name, np.float32(v)) for v in (bound, slope))
        end = net.node(op, [x, limit], f"{name}/end")
        over = net.node(Sub(), [end, limit], f"{name}/over")
        return net.node(Mul(), [over, factor], f"{name}/share")

    def apply(net: SampleNet, x: str, name: str) -> str:
        inner = net.node(act.Clip(low, high), [x], f"{name}/clip")
        shares = [
            beyond(net, x, f"{name}/below", Min(), low, below),
            beyond(net, x, f"{name}/above", Max(), high, above),
        ]
        outer = net.node(Add(), shares, f"{name}/beyond")
        return net.node(Add(), [inner, outer], name)

    return apply


def _soft_sigmoid(fields: Fields) -> Activation:
    """(1 + softsign(x)) / 2."""

    def apply(net: SampleNet, x: str, name: str) -> str:
        half = net.constant(f"{name}/half", np.float32(0.5))
        soft = net.node(act.Softsign(), [x], f"{name}/softsign")
        return net.node(Add(), [net.node(Mul(), [soft, half], f"{name}/halved"), half], name)

    return apply


_READERS: Mapping[str, Callable[[Fields], Activation]] = {
    "Identity": _identity,
    "LeakyReLU": _leaky_relu,
    "PReLU": _prelu,
    "Hardtanh": _hard_tanh,
    "LeakyHardtanh": _leaky_hard_tanh,
    "LeakyHardTanh": _leaky_hard_tanh,
    "Softsigmoid": _soft_sigmoid,
}
