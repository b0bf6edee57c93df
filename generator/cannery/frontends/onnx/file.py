"""ONNX files: recognised by the fields of their outermost message, then read and imported."""

from __future__ import annotations

from pathlib import Path

from cannery.frontends.onnx.build import build_graph
from cannery.frontends.onnx.guard import TooLargeError
from cannery.frontends.onnx.model import OnnxNode, read_onnx
from cannery.frontends.onnx.ways import require_operator
from cannery.frontends.options import ImportOptions
from cannery.ir.graph import Graph

FORMAT = "ONNX (.onnx)"

_VARINT, _BYTES = 0, 2
#: Fields of a ModelProto (onnx.proto) and how they are encoded.
_FIELDS = {
    1: _VARINT, 2: _BYTES, 3: _BYTES, 4: _BYTES, 5: _VARINT, 6: _BYTES, 7: _BYTES, 8: _BYTES,
    14: _BYTES, 20: _BYTES, 25: _BYTES, 26: _BYTES,
}  # fmt: skip
_IR_VERSION, _PRODUCER, _GRAPH = 1, 2, 7


def recognises(head: bytes) -> bool:
    """Whether all fields at the beginning are those of a model, at least one of them
    distinctive.
    """
    at, seen = 0, set()
    while at < len(head):
        tag, at = _varint(head, at)
        field, encoding = tag >> 3, tag & 7
        if _FIELDS.get(field) != encoding:
            return False
        size, at = _varint(head, at)
        if field == _IR_VERSION and not 1 <= size < 1000:
            return False
        # Messages of TensorFlow and Core ML have another message there.
        if field == _PRODUCER and any(byte < 32 for byte in head[at : at + size]):
            return False
        seen.add(field)
        at += size if encoding == _BYTES else 0
    return bool(seen & {_IR_VERSION, _GRAPH})


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A number and where it ends; bytes beyond the end of `data` read as zeros."""
    value, shift = 0, 0
    while at < len(data) and shift < 64:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if not byte & 0x80:
            break
    return value, at


def load(path: Path, options: ImportOptions) -> Graph:
    """The graph of a model; see `cannery.frontends.load_graph`."""
    try:
        model = read_onnx(path)
    except TooLargeError as error:
        if error.kind:
            require_operator(OnnxNode(error.kind, error.domain, "", (), (error.label,), {}))
        raise
    return build_graph(model, options)
