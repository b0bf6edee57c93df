"""Random networks of Neural Amp Modeler's trainer, where it is installed, beside what is read.

The files of `test_nam.py` need no trainer.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from cannery.frontends import load_graph
from cannery.frontends.options import ImportOptions
from cannery.ir.evaluate import evaluate

torch = pytest.importorskip("torch")
pytest.importorskip("nam")

STEPS = 40

_ACTIVATIONS: list[Any] = [
    "Tanh", "ReLU", "Sigmoid", "SiLU", "Softsign", {"name": "LeakyReLU", "negative_slope": 0.2},
    {"name": "LeakyHardtanh", "min_val": -0.3, "max_val": 0.2, "min_slope": 0.1, "max_slope": 0.3},
]  # fmt: skip


def _array(random: Random, inputs: int, condition: int, head: int) -> dict[str, Any]:
    layers, channels = random.randint(1, 3), random.choice([2, 4])
    kind = random.choice(["", "PairMultiply", "PairBlend"])
    activation = random.choice(_ACTIVATIONS)
    if kind:
        activation = {"name": kind, "primary": "Tanh", "secondary": "Sigmoid"}
    films = {
        name: {"active": random.random() < 0.5, "shift": random.random() < 0.5}
        for name in ("conv_pre_film", "conv_post_film", "activation_post_film",
                     "input_mixin_pre_film", "layer1x1_post_film")
    }  # fmt: skip
    return {
        "input_size": inputs, "condition_size": condition, "channels": channels,
        "kernel_sizes": [random.randint(1, 4) for _ in range(layers)],
        "dilations": [random.choice([1, 2, 5]) for _ in range(layers)],
        "activation": activation, "film_params": films if random.random() < 0.4 else {},
        "groups_input": random.choice([1, 2]), "bottleneck": 2,
        "head_1x1_config": {"active": True, "out_channels": 2, "groups": random.choice([1, 2])},
        "layer_1x1_config": {"active": True, "groups": random.choice([1, 2])},
        "head": {"out_channels": head, "kernel_size": random.randint(1, 3),
                 "bias": random.random() < 0.5},
    }  # fmt: skip


def _random_wavenet(random: Random) -> Any:
    from nam.models.wavenet import WaveNet

    condition = random.choice([1, 2])
    config: dict[str, Any] = {"head_scale": random.choice([0.02, 1.0]), "layers_configs": []}
    inputs, count = 1, random.randint(1, 3)
    ends_with_head = random.random() < 0.4
    for number in range(count):
        head = 1 if number == count - 1 and not ends_with_head else 2
        array = _array(random, inputs, condition, head)
        config["layers_configs"].append(array)
        inputs = array["channels"]
    if condition > 1:
        maker = {"layers_configs": [_array(random, 1, 1, 2)], "head_scale": 0.5}
        config["condition_dsp"] = {"name": "WaveNet", "config": maker}
    if ends_with_head:
        config["head"] = {"channels": 3, "activation": random.choice(_ACTIVATIONS),
                          "out_channels": 1, "kernel_sizes": [2, 1]}  # fmt: skip
    return WaveNet.init_from_config({**config, "sample_rate": 44100})


@pytest.mark.parametrize("seed", range(40))
def test_a_random_wavenet(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from nam.models.base import BaseNet

    monkeypatch.setattr(BaseNet, "_get_non_user_metadata", lambda self: {})
    torch.manual_seed(seed)
    net = _random_wavenet(Random(seed)).eval()
    path = tmp_path / "m.nam"
    path.write_text(json.dumps(net._get_export_dict()))
    x, silence = torch.randn(STEPS), net.receptive_field - 1
    padded = np.pad(x.numpy(), (silence, 0)).reshape(1, -1, 1)
    graph = load_graph(path, ImportOptions(dims={"input.1": padded.shape[1]}))
    (y,) = evaluate(graph, {"input": padded}).values()
    right = net(x).detach().numpy()
    np.testing.assert_allclose(np.asarray(y)[0, silence:, 0], right, rtol=1e-4, atol=2e-6)
    (told,) = re.findall(r"last (\d+) samples", " ".join(graph.notes))
    assert int(told) <= net.receptive_field  # which adds up windows that are not in a row
