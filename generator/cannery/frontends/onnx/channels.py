"""Which tensors of an ONNX model are images with channels first: their readers say so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cannery.frontends.onnx.model import OnnxNode

#: Operators that see channels in axis 1, of their first input.
_CHANNELS_FIRST = frozenset(
    "Conv ConvTranspose MaxPool AveragePool GlobalMaxPool GlobalAveragePool BatchNormalization"
    " InstanceNormalization GroupNormalization Resize Upsample DepthToSpace SpaceToDepth"
    " LpPool GlobalLpPool LRN GridSample ConvInteger QLinearConv".split()
)
#: Operators that keep the order of axes.
_TRANSPARENT = frozenset(
    "Add Sub Mul Div Cast Clip Identity Dropout Pad Relu LeakyRelu Concat Slice Neg Sigmoid"
    " HardSwish Elu Split Tanh QuantizeLinear DequantizeLinear".split()
)


def meets_channels_first(readers: Mapping[str, Sequence[OnnxNode]], name: str) -> bool:
    """Whether a tensor is read, perhaps after elementwise nodes, with channels in axis 1."""
    waiting, seen = [name], {name}
    while waiting:
        value = waiting.pop()
        for node in readers.get(value, ()):
            if node.kind in _CHANNELS_FIRST and node.inputs[0] == value:
                return True
            if node.kind in _TRANSPARENT:
                fresh = set(node.outputs) - seen
                seen |= fresh
                waiting += sorted(fresh)
    return False
