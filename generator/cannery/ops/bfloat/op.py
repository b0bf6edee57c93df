"""Convolutions and matrix products whose operands are rounded to bfloat16; sums are float32.

Values around them are float32: a layer rounds what it reads. The references do the same, so what
is left between them and the code is the rounding of sums.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from cannery.ir.bfloat import rounded_to_bfloat
from cannery.ir.registry import Op, RefArray, register
from cannery.ops.conv.op import Conv
from cannery.ops.matmul.op import MatMul


@register
@dataclass(frozen=True)
class BfloatConv(Conv):
    """Conv of x and w as bfloat16; the bias is float32."""

    of_bfloat = True

    def reference(self, *inputs: RefArray | None) -> tuple[RefArray, ...]:
        """That of Conv."""
        return super().reference(*_rounded(inputs))


@register
@dataclass(frozen=True)
class BfloatMatMul(MatMul):
    """MatMul of a and b as bfloat16; the bias is float32."""

    of_bfloat = True

    def reference(self, *inputs: RefArray | None) -> tuple[RefArray, ...]:
        """That of MatMul."""
        return super().reference(*_rounded(inputs))


#: What becomes of the operators of float32.
FORMS: dict[type[Op], type[Op]] = {Conv: BfloatConv, MatMul: BfloatMatMul}


def bfloat_form(op: Op) -> Op | None:
    """The same operator with products of bfloat16; None if there is none."""
    form = FORMS.get(type(op))
    if form is None:
        return None
    return form(**{field.name: getattr(op, field.name) for field in fields(op)})


def _rounded(inputs: tuple[RefArray | None, ...]) -> tuple[RefArray | None, ...]:
    """The first two operands as bfloat16."""
    pair = (None if x is None else rounded_to_bfloat(x) for x in inputs[:2])
    return (*pair, *inputs[2:])
