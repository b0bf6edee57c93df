"""Products of bytes in orders for processors that issue up to two instructions at once, in order.

See `cannery.ctext.in_order`, and `cannery.ops.shared.dual` for the two orders.
"""

from __future__ import annotations

from cannery.ctext.in_order import in_order
from cannery.ir.tensor import DType
from cannery.ops.shared.dual import BESIDE, ORDERS
from cannery.target.isa import Isa


def orders(isa: Isa, dtype: DType, lanes: int) -> tuple[str, ...]:
    """The orders that there are for products of a type in so many lanes."""
    able = isa.has("ordered") and not isa.has("mmla") and dtype is DType.INT8 and lanes == 4
    return ORDERS if able else ()


def put_in_order(code: str, isa: Isa, order: str) -> str:
    """The code of a kernel in such an order; if there is none, as it is."""
    if order not in ORDERS:
        return code
    return in_order(code, isa.registers, beside=order == BESIDE, dots=isa.has("dot4_u8s8"))
