"""Means over windows and whole images, and sums of two values, as operators of integers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from cannery.ir.graph import Graph, Node
from cannery.ir.registry import Elementwise
from cannery.ir.tensor import DType, TensorType
from cannery.ops.average_pool.op import AveragePool
from cannery.ops.elementwise import Add, Clip, Max, Min, Mul, Sub
from cannery.ops.movement.op import Reshape
from cannery.ops.quantized.arithmetic import EXACT_SUM, Activation
from cannery.ops.quantized.average_pool import QuantizedAveragePool
from cannery.ops.quantized.elementwise import QuantizedElementwise, Scaled
from cannery.ops.reduce.op import ReduceMean

if TYPE_CHECKING:  # they import code that runs samples, which the passes do not need
    from cannery.quantization.calibration import Observed
    from cannery.quantization.draft import Draft

#: Operators of two values that float32 rounds at most once.
PAIRS = (Add, Sub, Mul, Max, Min)

#: Why layers with integer forms may stay float.
READS_FLOATS = "its input is floats"

#: The smallest worthwhile bound.
LEAST_BOUND = 127


@dataclass(frozen=True)
class Mean:
    """A mean as a pooling of images of this shape."""

    pool: AveragePool
    image: tuple[int, ...]

    def on_integers(
        self, dtype: DType, scale: float, x_zero: int = 0, bound: int = 0, zero: int | None = None
    ) -> QuantizedAveragePool:
        """The operator for integers, see there."""
        p = self.pool
        return QuantizedAveragePool(
            p.kernel, p.strides, p.pads, p.dilations, p.count_include_pad, scale, dtype, x_zero,
            bound, zero,
        )  # fmt: skip


def mean_of(types: Mapping[str, TensorType], node: Node) -> Mean | None:
    """A mean over windows of an image, or over all of its pixels, or all steps of a sequence."""
    op = node.op
    if isinstance(op, AveragePool):
        return Mean(op, types[node.inputs[0]].shape) if len(op.kernel) == 2 else None
    if not isinstance(op, ReduceMean) or op.axes not in ((1,), (1, 2)):
        return None
    shape = types[node.inputs[0]].shape
    if len(shape) != len(op.axes) + 2:
        return None
    image = (*shape[:-1], 1, shape[-1]) if len(op.axes) == 1 else shape
    return Mean(AveragePool(image[1:-1], (1, 1), ((0, 0), (0, 0)), (1, 1)), image)


def mean_limit(graph: Graph, seen: Observed, node: Node) -> int:
    """The bound of integers whose mean a node takes; 0 if it is not a mean, or of too many."""
    mean = mean_of(graph.types, node)
    if mean is None or node.inputs[0] in graph.constants or not seen.is_finite(node.inputs[0]):
        return 0
    limit = EXACT_SUM // prod(mean.pool.kernel)
    return limit if limit >= LEAST_BOUND else 0


def why_no_mean(graph: Graph, seen: Observed, node: Node) -> str:
    """Why a mean computes with floats, empty for other nodes."""
    mean = mean_of(graph.types, node)
    if mean is None:
        return ""
    if not seen.is_finite(node.inputs[0]):
        return "its input was not finite on the samples"
    return READS_FLOATS if mean_limit(graph, seen, node) else "it has too many terms"


def rewrite_mean(draft: Draft, node: Node) -> None:
    """A mean of integers, to integers or floats; a mean of floats stays."""
    if not draft.exists(node.inputs[0]):
        return
    mean, new = mean_of(draft.graph.types, node), list[Node]()
    assert mean is not None
    x = draft.as_integers(node.inputs[0], new)
    image, types = x.name, draft.graph.types
    if mean.image != types[node.inputs[0]].shape:
        image = draft.add(Reshape(mean.image), f"{node.name}/image", [image], new)
    bound, unit = draft.scale_of(node.output)
    op = mean.on_integers(draft.dtype, x.unit / unit, bound=bound)
    if isinstance(node.op, AveragePool):
        draft.finish(node, op, [image], (bound, unit), new)
        return
    means = draft.add(op, f"{node.name}/means", [image], new)
    draft.finish(node, Reshape(types[node.output].shape), [means], (bound, unit), new)


def is_sum(graph: Graph, seen: Observed, node: Node) -> bool:
    """Whether a node combines two values of the same shape that were finite on all samples."""
    if not isinstance(node.op, PAIRS) or len(node.inputs) != 2:
        return False
    shapes = {graph.types[v].shape for v in (*node.inputs, node.output)}
    known = any(v in graph.constants or not seen.is_finite(v) for v in node.inputs)
    return len(shapes) == 1 and not known and seen.is_finite(node.output)


def why_no_sum(graph: Graph, seen: Observed, node: Node) -> str:
    """Why a combination of two values computes with floats, empty for other nodes."""
    if not isinstance(node.op, PAIRS) or len(node.inputs) != 2:
        return ""
    if is_sum(graph, seen, node):
        return "its operands or result are needed as floats"
    if any(v in graph.constants for v in node.inputs):
        return "one of its operands is constant"
    return "its operands differ in shape"


def rewrite_sum(draft: Draft, node: Node) -> None:
    """A sum, product or extremum that nothing needs as floats, with the activation after it."""
    fused = draft.fused[node.output]
    value = (node, *fused)[-1].output
    if not draft.flow.only_integers(value) or not any(map(draft.exists, node.inputs)):
        return
    new: list[Node] = []
    assert isinstance(node.op, PAIRS)
    a, b = (draft.as_integers(i, new) for i in node.inputs)
    bound, unit = draft.bound_of(value)
    scales = (a.unit / unit, b.unit / unit)
    if isinstance(node.op, Mul):
        scales = (a.unit * b.unit / unit, 1.0)
    op = QuantizedElementwise(
        node.op, Scaled(scales[0], 0), Scaled(scales[1], 0), Scaled(1.0, 0), draft.dtype,
        _in_units(fused, unit), bound,
    )  # fmt: skip
    draft.finish(node, op, [a.name, b.name], (bound, unit), new)


def _in_units(fused: tuple[Node, ...], unit: float) -> Activation:
    """Activations of numbers in units."""
    ops = [n.op for n in fused if isinstance(n.op, Elementwise)]
    return tuple(
        Clip(o.minimum / unit, o.maximum / unit) if isinstance(o, Clip) else o for o in ops
    )
