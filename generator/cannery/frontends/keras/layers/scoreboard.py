"""What becomes of each class of keras.layers, as the documentation lists it."""

from __future__ import annotations

from cannery.frontends.keras.layers.base import is_inert, layer_names
from cannery.frontends.keras.layers.refused import PARTS, REFUSED

#: Names in files that keras.layers does not have: layers of Keras 2, and a class by its own name.
_ELSEWHERE = frozenset(
    """
    BatchNormalizationV1 BatchNormalizationV2 GroupedQueryAttention RandomHeight RandomWidth
    ThresholdedReLU
    """.split()
)


def scoreboard() -> dict[str, str]:
    """The state of every class of keras.layers of Keras 3.15, by name, sorted."""
    found = {name: _state(name) for name in layer_names() if name not in _ELSEWHERE}
    found |= dict.fromkeys(PARTS, "part of other layers")
    found |= {name: f"refused: {refused.reason}" for name, refused in REFUSED.items()}
    return dict(sorted(found.items()))


def _state(class_name: str) -> str:
    if is_inert(class_name):
        return "no effect when a network runs"
    return _LIMITS.get(class_name, "exact")


#: What of a class is not read.
_LIMITS = {
    "Bidirectional": "exact for LSTM, GRU, SimpleRNN, RNN and, up to 64 steps, ConvLSTM1D to 3D",
    "ConvLSTM1D": "exact, up to 64 steps",
    "ConvLSTM2D": "exact, up to 64 steps",
    "ConvLSTM3D": "exact, up to 64 steps",
    "MultiHeadAttention": "exact; its scores over one axis",
    "RandomCrop": "exact for images of its size",
    "Resizing": (
        "exact, without antialias where it shrinks; area as in TensorFlow's backend, which alone "
        "has it; gaussian and mitchellcubic are refused"
    ),
}
