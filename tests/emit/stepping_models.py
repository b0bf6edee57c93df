"""Models of Keras for tests of networks that run step by step: recurrent ones, and causal
convolutions.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from frontends.keras_files import LayerSpec, Model, chain, image
from frontends.test_keras_recurrent import weights

#: Steps, features, and cells of recurrent layers.
T, F, H = 6, 3, 4

#: Steps that are more than convolutions look back.
LONG = 48


def lstm(name: str = "one", **config: Any) -> LayerSpec:
    config = {"units": H, "return_sequences": True, **config}
    return LayerSpec("LSTM", name, (), config, weights("LSTM"))


def gru(**config: Any) -> LayerSpec:
    config = {"units": H, "reset_after": False, **config}
    return LayerSpec("GRU", "two", (), config, weights("GRU", features=H))


def dense(name: str = "scores") -> LayerSpec:
    kernel = np.random.default_rng(3).standard_normal((H, 5)).astype(np.float32)
    values = {"kernel": kernel, "bias": np.arange(5, dtype=np.float32)}
    return LayerSpec("Dense", name, (), {"units": 5, "activation": "softmax"}, values)


def stack(steps: int | None, *, sequences: bool = True, stateful: bool = False) -> Model:
    """`x` -> LSTM -> GRU -> Dense with softmax, for all steps or the last one."""
    last = gru(return_sequences=sequences)
    return chain(image("x", steps, F), lstm(stateful=stateful), last, dense())


def causal(steps: int) -> Model:
    """Dilated convolutions, an LSTM after them, a dense layer for each step."""
    rng = np.random.default_rng(9)

    def conv(name: str, channels: int, dilation: int) -> LayerSpec:
        values = {"kernel": rng.standard_normal((3, channels, F)).astype(np.float32),
                  "bias": rng.standard_normal(F).astype(np.float32)}  # fmt: skip
        config = {"filters": F, "kernel_size": 3, "padding": "causal", "dilation_rate": dilation,
                  "activation": "tanh"}  # fmt: skip
        return LayerSpec("Conv1D", name, (), config, values)

    return chain(image("x", steps, F), conv("a", F, 1), conv("b", F, 4), lstm(), dense())
