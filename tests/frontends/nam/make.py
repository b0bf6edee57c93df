"""Makes the .nam files of this folder, with what the trainer computes: needs neural-amp-modeler.

    python make.py FOLDER

`expected.npz` has an input and, by file, the output for it, after silence.
"""

from __future__ import annotations

import copy
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from nam.models.base import BaseNet
from nam.models.conv_net import ConvNet
from nam.models.linear import Linear
from nam.models.recurrent import LSTM
from nam.models.wavenet import PackedWaveNet, WaveNet

RATE = 48000
STEPS = 96

Config = dict[str, Any]


def array(**changes: Any) -> Config:
    """A layer array of a WaveNet."""
    plain = {
        "input_size": 1, "condition_size": 1, "channels": 4, "kernel_size": 3,
        "dilations": [1, 2, 4], "activation": "Tanh",
        "head": {"out_channels": 2, "kernel_size": 1, "bias": False},
    }  # fmt: skip
    return plain | changes


def wavenet(*arrays: Config, **changes: Any) -> WaveNet:
    config = {"layers_configs": list(arrays), "head_scale": 0.5, "sample_rate": RATE} | changes
    return WaveNet.init_from_config(config)


def last(inputs: int, **changes: Any) -> Config:
    """A second array, to one output."""
    head = {"out_channels": 1, "kernel_size": 1, "bias": True}
    return array(input_size=inputs, dilations=[8, 1], head=head) | {"channels": 2} | changes


GATE = {"name": "PairMultiply", "primary": "Tanh", "secondary": "Sigmoid"}
BLEND = {"name": "PairBlend", "primary": "ReLU", "secondary": "Hardsigmoid"}


def everything() -> WaveNet:
    """All that an array may have, and a condition that a network makes."""
    films = {
        name: {"active": True, "shift": k % 2 == 0, "groups": 1}
        for k, name in enumerate((
            "conv_pre_film", "conv_post_film", "input_mixin_pre_film", "input_mixin_post_film",
            "activation_pre_film", "activation_post_film", "layer1x1_post_film",
            "head1x1_post_film",
        ))
    }  # fmt: skip
    first = array(
        condition_size=2, activation=[GATE, BLEND, "Tanh"], kernel_sizes=[2, 3, 4],
        bottleneck=2, head_1x1_config={"active": True, "out_channels": 2, "groups": 1},
        layer_1x1_config={"active": True, "groups": 2}, groups_input=2, groups_input_mixin=2,
        film_params=films, head={"out_channels": 2, "kernel_size": 3, "bias": True},
    )  # fmt: skip
    del first["kernel_size"]
    second = last(4, condition_size=2, head={"out_channels": 2, "kernel_size": 1, "bias": False})
    maker = array(dilations=[1, 3], head={"out_channels": 2, "kernel_size": 2, "bias": True})
    condition = {"name": "WaveNet", "config": {"layers_configs": [maker], "head_scale": 0.7}}
    head = {"channels": 3, "activation": "ReLU", "out_channels": 1, "kernel_sizes": [2, 3]}
    return wavenet(first, second, condition_dsp=condition, head=head)


def activations() -> WaveNet:
    """Each activation in a layer."""
    kinds = [
        "ReLU", "Sigmoid", "SiLU", "Hardswish", "Softsign", "Softsigmoid", "ELU", "GELU", "Mish",
        "SELU", "CELU", "Softplus", "ReLU6", "Hardsigmoid", "Identity",
        {"name": "LeakyReLU", "negative_slope": 0.3}, {"name": "PReLU", "init": 0.2},
        {"name": "Hardtanh", "min_val": -0.1, "max_val": 0.2},
        {"name": "LeakyHardtanh", "min_val": -0.1, "max_val": 0.2, "min_slope": 0.05,
         "max_slope": 0.1},
    ]  # fmt: skip
    head = {"out_channels": 1, "kernel_size": 1, "bias": True}
    return wavenet(array(activation=kinds, dilations=[1] * len(kinds), head=head, kernel_size=2))


def packed() -> PackedWaveNet:
    """Networks of two sizes in one file."""
    sizes = [
        {"name": str(n), "config": {
            "layers_configs": [last(1, channels=n)], "head_scale": 0.3,
        }} for n in (2, 3)
    ]  # fmt: skip
    return PackedWaveNet.init_from_config({"submodels": sizes, "sample_rate": RATE})


def settle(net: BaseNet) -> None:
    """Statistics that matter, as after training, and numbers of few digits."""
    with torch.no_grad():
        for name, value in [*net.named_parameters(), *net.named_buffers()]:
            if "running_var" in name:
                value.uniform_(0.5, 2.0)
            elif "running_mean" in name:
                value.uniform_(-0.2, 0.2)
            if value.is_floating_point() and value.ndim:
                value.copy_(torch.round(value, decimals=4))
    net.eval()


def short(value: Any) -> Any:
    """Numbers as float32 has them, in few digits."""
    if isinstance(value, dict):
        return {key: short(each) for key, each in value.items()}
    if isinstance(value, list):
        return [short(each) for each in value]
    return float(str(np.float32(value))) if isinstance(value, float) else value


def old_form(model: Config) -> Config:
    """The same network as files of version 0.5 have it."""
    model = copy.deepcopy(model)
    model["version"] = "0.5.4"
    for layer in model["config"]["layers"]:
        head = layer.pop("head")
        gated = {mode == "gated" for mode in layer.pop("gating_mode")}
        activation = {a["type"] for a in layer.pop("activation")}
        layer |= {
            "head_size": head["out_channels"], "head_bias": head["bias"], "gated": gated.pop(),
            "activation": activation.pop(), "kernel_size": layer.pop("kernel_sizes")[0],
        }  # fmt: skip
        kept = (
            "input_size", "condition_size", "head_size", "head_bias", "channels", "kernel_size",
            "dilations", "activation", "gated",
        )  # fmt: skip
        for key in set(layer) - set(kept):
            del layer[key]
    return model


def main(folder: Path) -> None:
    torch.manual_seed(16)
    BaseNet._get_non_user_metadata = lambda self: {}  # which takes long
    x = torch.randn(STEPS) * 0.7
    expected = {"input": x.numpy()}

    def save(name: str, model: Config, y: torch.Tensor) -> Config:
        model["metadata"] = {"name": f"a {name}", "date": {"year": 2026}, "gain": 0.5}
        (folder / f"{name}.nam").write_text(json.dumps(short(model)) + "\n")
        expected[name] = y.detach().numpy()
        return model

    def keep(name: str, net: BaseNet) -> Config:
        settle(net)
        return save(name, net._get_export_dict(), net(x))

    two = wavenet(array(), last(4))
    plain = keep("wavenet", two)
    save("wavenet_old", old_form(plain), two(x))
    gated = wavenet(array(activation=GATE), last(4, activation=GATE))
    save("wavenet_old_gated", old_form(keep("wavenet_gated", gated)), gated(x))
    keep("wavenet_everything", everything())
    keep("wavenet_activations", activations())
    alone = array(layer_1x1_config={"active": False}, head=last(4)["head"], slimmable={
        "method": "slice_channels_uniform", "kwargs": {"allowed_channels": [2, 4]}
    })  # fmt: skip
    keep("wavenet_slimmable", wavenet(alone | {"layer_1x1_config": {"active": True}}))
    del alone["slimmable"]
    keep("wavenet_without_1x1", wavenet(alone))
    lstm = LSTM(hidden_size=5, num_layers=2, sample_rate=RATE)
    settle(lstm)
    model = lstm._get_export_dict()  # with the state after silence, which then counts
    lstm.import_weights(np.array(short(model["weights"]), np.float32))
    save("lstm", model, lstm(x))
    keep("conv_net", ConvNet(channels=3, dilations=[1, 2, 4], batchnorm=True, activation="ReLU",
                             sample_rate=RATE))  # fmt: skip
    keep("conv_net_bias", ConvNet(channels=3, dilations=[4, 1], sample_rate=RATE))
    linear = Linear(5, bias=True, sample_rate=RATE)
    settle(linear)
    model = linear._get_export_dict()
    model["weights"][:5] = model["weights"][4::-1]  # see build_linear
    save("linear", model, linear(x))
    container = packed()
    settle(container)
    model = container.export_container(folder, basename="container")
    save("container", model, container.extract_submodel(1)(x))
    chain = {"version": "0.7.0", "architecture": "Sequential", "weights": [], "sample_rate": RATE}
    parts = [json.loads((folder / f"{name}.nam").read_text()) for name in ("linear", "wavenet")]
    pad = torch.zeros(two.receptive_field - 1)
    y = two(linear(torch.cat((pad, x))), pad_start=False)
    save("sequential", chain | {"config": {"models": parts}}, y)
    np.savez_compressed(folder / "expected.npz", **expected)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
