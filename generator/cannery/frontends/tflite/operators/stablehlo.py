"""Operators of the StableHLO dialect that LiteRT has kernels of."""

from __future__ import annotations

from collections.abc import Mapping

from cannery.errors import ModelError
from cannery.frontends.tflite.scope import Scope, operator, quantised
from cannery.ir.registry import Op
from cannery.ir.tensor import DType
from cannery.ops import elementwise as ops
from cannery.ops.logic import bits, compare

_BINARY: Mapping[str, Op] = {
    "STABLEHLO_ADD": ops.Add(), "STABLEHLO_MULTIPLY": ops.Mul(), "STABLEHLO_MAXIMUM": ops.Max(),
    "STABLEHLO_MINIMUM": ops.Min(), "STABLEHLO_AND": bits.BitwiseAnd(),
    "STABLEHLO_SHIFT_LEFT": bits.BitShift(),
}  # fmt: skip


@operator(*_BINARY)
def binary(scope: Scope) -> str:
    """Two inputs of one shape."""
    a, b = scope.input(0), scope.input(1)
    if scope.shape(a) != scope.shape(b):
        raise ModelError(f"inputs of the shapes {scope.shape(a)} and {scope.shape(b)}")
    is_logic = scope.kind == "STABLEHLO_AND" and scope.dtype(a) is DType.BOOL
    return scope.node(compare.And() if is_logic else _BINARY[scope.kind], [a, b])


@operator("STABLEHLO_COMPOSITE")
def composite(scope: Scope) -> list[str]:
    """Operators that converters know by a name, as the graph of the file that computes the same."""
    scope.ignore("Name", "CompositeAttributes", "CompositeAttributesFormat", "Version")
    return scope.call(scope.integer("DecompositionSubgraphIndex"), scope.inputs())


quantised("STABLEHLO_COMPOSITE")(composite)
