"""Classes of keras.layers that are not read as layers, and why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

_BEFORE = "do it before the network, in your program"


class Refused(NamedTuple):
    """Why a class is not read, and what to do about it."""

    reason: str
    cure: str


_CODE = "it holds Python code, which is never executed"
_OTHER = Refused(
    "its computation belongs to another framework and is not in the file",
    "export the model of that framework, as ONNX",
)
_HASH = Refused("it computes hashes of texts or numbers", _BEFORE)
_WORDS = Refused("it looks up words or numbers in a vocabulary", _BEFORE)

REFUSED: Mapping[str, Refused] = {
    "Lambda": Refused(
        _CODE,
        "use built-in layers, or functions of keras.ops without Lambda, or compute it yourself: "
        "--custom LAYER=my_op.c",
    ),
    "TFSMLayer": _OTHER,
    "TorchModuleWrapper": _OTHER,
    "FlaxLayer": _OTHER,
    "JaxLayer": _OTHER,
    "Hashing": _HASH,
    "HashedCrossing": _HASH,
    "IntegerLookup": _WORDS,
    "StringLookup": _WORDS,
    "TextVectorization": _WORDS,
    "ContrastLimitedAdaptiveHistogramEqualization": Refused(
        "histograms of images are not supported", _BEFORE
    ),
    "MaxNumBoundingBoxes": Refused("bounding boxes are labels, not images", "leave it away"),
}

#: Classes that are no layers of a network: bases, inputs, and cells, which recurrent layers hold.
PARTS = frozenset(
    """
    Layer Wrapper InputSpec InputLayer LSTMCell GRUCell SimpleRNNCell StackedRNNCells Pipeline
    """.split()
)
