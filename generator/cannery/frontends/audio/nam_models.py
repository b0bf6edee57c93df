"""The small architectures of Neural Amp Modeler: Linear, ConvNet and LSTM."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from cannery.errors import ModelError
from cannery.frontends.audio.nam_activations import read_activation
from cannery.frontends.audio.nam_layer import read_product
from cannery.frontends.audio.samples import SampleNet, Weights
from cannery.frontends.json_values import Fields
from cannery.ir.numeric import f64
from cannery.ops.normalization.op import BatchNormalization

#: Adds a network of a `config`: its input, its weights, the beginning of its layers' names.
Model = Callable[[SampleNet, str, Fields, Weights, str], str]


def build_linear(net: SampleNet, x: str, fields: Fields, weights: Weights, prefix: str) -> str:
    """Impulse responses, the first tap for the step itself, as the player has them.

    As many outputs as inputs: one response for all. One input or one output: one for each of the
    others. (The trainer until 0.13.0 wrote the taps in the opposite order.)
    """
    taps, bias = fields.integer("receptive_field"), fields.flag("bias")
    inputs, outputs = fields.integer("in_channels", 1), fields.integer("out_channels", 1)
    if inputs != outputs and min(inputs, outputs) > 1:
        raise ModelError(f"{inputs} inputs and {outputs} outputs", where=fields.where)
    same = inputs == outputs
    responses = weights.take(1 if same else max(inputs, outputs), taps)
    biases = weights.take(1 if same else outputs) if bias else None
    kernel = responses.T[::-1].reshape(taps, *((1, 1) if same else (inputs, outputs)))
    if same:
        kernel = np.tile(kernel, (1, 1, outputs))
        biases = None if biases is None else np.tile(biases, outputs)
    return net.conv(x, kernel, biases, f"{prefix}response", group=inputs if same else 1)


def build_conv_net(net: SampleNet, x: str, fields: Fields, weights: Weights, prefix: str) -> str:
    """Dilated convolutions of two taps, each normalised or with a bias, and activated."""
    channels, dilations = fields.integer("channels"), fields.shape("dilations", minimum=1)
    normalised = fields.flag("batchnorm")
    activation = read_activation(fields.raw("activation"), fields.where)
    for k, dilation in enumerate(dilations):
        name = f"{prefix}block{k}"
        conv = read_product(weights, net.channels(x), channels, 2, bias=not normalised)
        x = conv.build(net, x, f"{name}/conv", dilation)
        x = _normalised(net, x, weights, f"{name}/batchnorm") if normalised else x
        x = activation(net, x, f"{name}/activation")
    return read_product(weights, net.channels(x), 1).build(net, x, f"{prefix}head")


def _normalised(net: SampleNet, x: str, weights: Weights, name: str) -> str:
    """Mean, variance, factor and shift of each channel, then epsilon."""
    size = net.channels(x)
    mean, variance, scale, shift = (weights.take(size) for _ in range(4))
    epsilon = float(weights.take(1)[0])
    known = {"scale": scale, "shift": shift, "mean": mean, "variance": variance}
    inputs = [net.constant(f"{name}/{what}", array) for what, array in known.items()]
    return net.node(BatchNormalization(2, epsilon), [x, *inputs], name)


def build_lstm(net: SampleNet, x: str, fields: Fields, weights: Weights, prefix: str) -> str:
    """Layers of PyTorch, each from its stored state on, and a dense layer."""
    cells, layers = fields.integer("hidden_size"), fields.integer("num_layers")
    size = fields.integer("input_size")
    if size != net.channels(x):
        raise ModelError(f"input_size is {size}, not {net.channels(x)}", where=fields.where)
    for k in range(layers):
        x = _lstm_layer(net, x, cells, weights, f"{prefix}lstm{k}")
    weight, bias = weights.take(cells, 1), weights.take(1)
    return net.dense(x, weight, bias, f"{prefix}head")


def _lstm_layer(net: SampleNet, x: str, cells: int, weights: Weights, name: str) -> str:
    """Rows i, f, g, o of [4H, inputs + H]; bias; initial output and cell."""
    inputs = net.channels(x)
    rows = f64(weights.take(4, cells, inputs + cells))[[0, 3, 1, 2]].reshape(4 * cells, -1)
    bias = f64(weights.take(4, cells))[[0, 3, 1, 2]].reshape(-1)
    initial = [weights.take(cells), weights.take(cells)]
    known = {
        "w": np.ascontiguousarray(rows[:, :inputs].T), "b": bias,
        "r": np.ascontiguousarray(rows[:, inputs:].T),
    }  # fmt: skip
    return net.lstm(x, known, name, initial)


#: By the name of the architecture.
SMALL: Mapping[str, Model] = {
    "Linear": build_linear,
    "ConvNet": build_conv_net,
    "LSTM": build_lstm,
}
