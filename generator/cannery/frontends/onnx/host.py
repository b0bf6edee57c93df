"""What unrolling branches, loops and lists needs from the importer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from cannery.frontends.onnx.model import OnnxNode
from cannery.frontends.onnx.operators.values import Constant, Value
from cannery.frontends.onnx.unfinished import Unfinished
from cannery.ir.graph import Array


@dataclass(frozen=True)
class NodePlace:
    """Where a node is, for messages, and how many calls enclose it."""

    where: str
    depth: int


class Host(Protocol):
    """What unrolling needs from the importer."""

    def value(self, name: str, where: str) -> Value | None:
        """A tensor by its name."""

    def define(self, name: str, value: Constant) -> None:
        """A known tensor."""

    def add_weights(self, weights: Mapping[str, Callable[[], Array]]) -> None:
        """Initializers by name."""

    def prefix(self, label: str) -> str:
        """The prefix of a body's names."""

    def inline(
        self,
        node: OnnxNode,
        nodes: Sequence[OnnxNode],
        place: NodePlace,
        wanted: Sequence[str] = (),
    ) -> None:
        """Compute the outputs of a node with other nodes."""

    def give_up(self, node: OnnxNode, needed: Sequence[str]) -> bool:
        """Whether an input of a node is unsupported."""

    def is_read(self, name: str) -> bool:
        """Whether a node or the network needs a tensor."""

    def is_known(self, name: str) -> bool:
        """Whether a tensor is computed already."""

    @property
    def max_trips(self) -> int | None:
        """The option MAX_TRIPS."""

    @property
    def unfinished(self) -> Unfinished:
        """Loops that the option ends."""
