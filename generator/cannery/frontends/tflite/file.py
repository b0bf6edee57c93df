"""TensorFlow Lite files: recognised by the identifier of their schema, then read and imported."""

from __future__ import annotations

from pathlib import Path

from cannery.frontends.options import ImportOptions
from cannery.frontends.tflite.build import build_graph
from cannery.frontends.tflite.model import read_tflite
from cannery.ir.graph import Graph

FORMAT = "TensorFlow Lite (.tflite)"

#: Where flatbuffers have the identifier of the schema, and that of the third version.
_AT, _IDENTIFIER = 4, b"TFL3"


def recognises(head: bytes) -> bool:
    """Whether the file says that it has the schema."""
    return head[_AT : _AT + len(_IDENTIFIER)] == _IDENTIFIER


def load(path: Path, options: ImportOptions) -> Graph:
    """The graph of a model; see `cannery.frontends.load_graph`."""
    return build_graph(read_tflite(path), options)
