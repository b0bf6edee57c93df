"""Masks: which steps of a sequence count. Masking and Embedding make them; layers after them may
read them, pass them on, or drop them.

As in Keras 3. Keras 2 differs in classes that nobody masks.
"""

from __future__ import annotations

from collections.abc import Sequence

from cannery.errors import UnsupportedError
from cannery.frontends.keras.layers.base import Given, Mask

#: Layers whose result has the mask of their first input; what they compute does not depend on it.
_PASS = frozenset(
    """
    Activation ActivityRegularization AlphaDropout BatchNormalization Dense Dropout ELU
    GaussianDropout GaussianNoise GroupNormalization Identity LayerNormalization LeakyReLU
    Normalization PReLU ReLU Rescaling SpatialDropout1D SpatialDropout2D SpatialDropout3D
    UnitNormalization
    """.split()
)

#: Layers that read masks.
READERS = frozenset(
    """
    AdditiveAttention Attention Bidirectional ConvLSTM1D ConvLSTM2D ConvLSTM3D
    GlobalAveragePooling1D GlobalAvgPool1D GroupQueryAttention GRU LSTM MultiHeadAttention RNN
    SimpleRNN Softmax TimeDistributed
    """.split()
)

#: Layers whose result is masked if all inputs are, in ways that are not implemented.
_MERGE = frozenset("Add Average Concatenate Maximum Minimum Multiply Subtract".split())

#: Layers that Keras calls with the argument `mask`.
CALLED_WITH = frozenset({*READERS, "BatchNormalization"})


def result_mask(class_name: str, given: Given) -> Mask | None:
    """The mask of what an application returns, after it was built."""
    if given.result_mask is not None:
        return given.result_mask
    if class_name in _MERGE and given.masks and all(mask is not None for mask in given.masks):
        return _merged
    return given.masks[0] if class_name in _PASS and given.masks else None


def _merged() -> str:
    """Raises UnsupportedError: the mask of a merging layer was asked for."""
    raise UnsupportedError(
        "it reads a mask that comes through a layer with several inputs",
        cure="merge after the layer that reads the mask",
    )


def is_masked(masks: Sequence[Mask | None]) -> bool:
    """Whether any input has a mask."""
    return any(mask is not None for mask in masks)
