"""Nodes of the standard domain that one node of another domain expands to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from cannery.frontends.onnx.functions import local_name
from cannery.frontends.onnx.model import OnnxNode


@dataclass
class Expansion:
    """The nodes so far, in place of the node `of`; tensors between them are `<prefix>/<name>`."""

    of: OnnxNode
    prefix: str
    nodes: list[OnnxNode] = field(default_factory=list)

    def input(self, index: int) -> str:
        """The name of an input of the node, "" if it is absent."""
        return self.of.inputs[index] if index < len(self.of.inputs) else ""

    def node(
        self, kind: str, inputs: Sequence[str], attributes: Mapping[str, object] | None = None,
        name: str = "", version: int = 0,
    ) -> str:  # fmt: skip
        """Append a node of a version, by default that of the model; returns its output."""
        output = local_name(self.prefix, name or kind.lower())
        self._append(kind, inputs, attributes, (output,), version)
        return output

    def parts(
        self, kind: str, inputs: Sequence[str], count: int, version: int,
        attributes: Mapping[str, object],
    ) -> tuple[str, ...]:  # fmt: skip
        """The same with several outputs."""
        outputs = tuple(local_name(self.prefix, f"{kind.lower()}{k}") for k in range(count))
        self._append(kind, inputs, attributes, outputs, version)
        return outputs

    def output(
        self, kind: str, inputs: Sequence[str], attributes: Mapping[str, object] | None = None,
        index: int = 0, version: int = 0,
    ) -> None:  # fmt: skip
        """Append the node that makes a result, unless nothing reads it."""
        if index < len(self.of.outputs) and self.of.outputs[index]:
            self._append(kind, inputs, attributes, (self.of.outputs[index],), version)

    def _append(
        self, kind: str, inputs: Sequence[str], attributes: Mapping[str, object] | None,
        outputs: tuple[str, ...], version: int,
    ) -> None:  # fmt: skip
        made = OnnxNode(kind, "", outputs[0], tuple(inputs), outputs, attributes or {}, version)
        self.nodes.append(made)
