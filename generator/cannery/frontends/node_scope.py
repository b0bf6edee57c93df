"""What code that serves several frontends needs to make nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from cannery.ir.registry import Op
from cannery.ir.tensor import TensorType


class NodeScope(Protocol):
    """Makes the nodes of one layer or operator."""

    def node(self, op: Op, inputs: Sequence[str], label: str = "") -> str:
        """Append a node named like the layer, or `<layer>/<label>`; returns its output."""

    def type(self, value: str, /) -> TensorType:
        """The type of a value."""
