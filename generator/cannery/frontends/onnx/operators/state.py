"""What all nodes of an ONNX model share while it is imported."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from cannery.frontends.noise import Noise
from cannery.frontends.onnx.operators.values import Computed, Constant, Perm, Value
from cannery.ir.graph import Array, GraphBuilder
from cannery.ops.quantize.linear import DequantizeLinear


@dataclass
class ImportState:
    """What all nodes of a model share: the graph being built, and what was built already.

    `meets_channels_first` says whether a tensor of the model is read as images; `wholes` has the
    sources of reshaped tensors; `dequantised` names the operands of DequantizeLinear for constants
    stored as integers. `noise` draws random numbers. `class_names` has the names of each
    classifier's classes. `rows` are values that depend on rows of which only some count.
    """

    builder: GraphBuilder
    opsets: Callable[[str], int]
    meets_channels_first: Callable[[str], bool]
    noise: Noise
    constants: dict[tuple[int, Perm], str] = field(default_factory=dict)
    kept: list[Array] = field(default_factory=list)
    moved: dict[tuple[str, Perm], str] = field(default_factory=dict)
    wholes: dict[Computed, Computed] = field(default_factory=dict)
    dequantised: dict[str, tuple[str, ...]] = field(default_factory=dict)
    class_names: set[tuple[str, ...]] = field(default_factory=set)
    rows: set[str] = field(default_factory=set)

    def follow_rows(self, inputs: Sequence[str], outputs: Sequence[str]) -> None:
        """Adds outputs of a node to `rows` if it reads any."""
        if not self.rows.isdisjoint(inputs):
            self.rows.update(outputs)

    def floats(self, value: Value | None) -> Value | None:
        """Turns constants stored as integers into the floats that they mean."""
        if not isinstance(value, Computed) or value.name not in self.dequantised:
            return value
        arrays = (self.builder.constants[name] for name in self.dequantised[value.name])
        (result,) = DequantizeLinear().reference(*arrays)
        array = np.asarray(result, np.float32).transpose(np.argsort(value.perm))
        return Constant(np.ascontiguousarray(array).reshape(value.shape), f"{value.name}/floats")

    def known(self, value: Value) -> Value:
        """Declares a value of the graph that turned out to be constant as a constant."""
        if isinstance(value, Constant) or value.name not in self.builder.constants:
            return value
        array = self.builder.constants[value.name]
        order = np.argsort(value.perm) if value.perm else None
        return Constant(
            np.ascontiguousarray(array.transpose(order)).reshape(value.shape), value.name
        )
