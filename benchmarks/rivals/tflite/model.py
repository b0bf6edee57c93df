"""A graph as a TensorFlow Lite model."""

from __future__ import annotations

from cannery.ir.graph import Graph
from rivals.tflite import elements, movement, products, recurrent, windows
from rivals.tflite.writer import packed

#: Modules whose functions are entered under the operators that they write.
FORMS = (elements, movement, products, recurrent, windows)


def tflite_model(graph: Graph) -> bytes:
    """The file; raises UnsupportedError for operators that have no form here."""
    return packed(graph)
