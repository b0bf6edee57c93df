"""Branches and loops whose course is known in advance: they are unrolled."""

from __future__ import annotations

from cannery.errors import ModelError, UnsupportedError
from cannery.frontends.tflite.scope import Scope, operator
from cannery.ir.tensor import DType

#: Most steps of a loop.
_MOST_STEPS = 4096


@operator("IF", moves=True)
def if_(scope: Scope) -> list[str]:
    """A condition, which is known, and the inputs of both branches."""
    chosen = _is_true(scope, scope.input(0), "its condition")
    index = scope.integer("ThenSubgraphIndex"), scope.integer("ElseSubgraphIndex")
    return scope.call(index[0] if chosen else index[1], scope.inputs()[1:])


@operator("WHILE", moves=True)
def while_(scope: Scope) -> list[str]:
    """The body again and again, as long as the condition, which is known, is true."""
    values = scope.inputs()
    condition, body = scope.integer("CondSubgraphIndex"), scope.integer("BodySubgraphIndex")
    for _ in range(_MOST_STEPS):
        (goes_on, *more) = scope.call(condition, values) or [""]
        if more or not goes_on:
            raise ModelError("its condition is not one value")
        if not _is_true(scope, goes_on, "how often it runs"):
            return values
        values = scope.call(body, values)
    raise UnsupportedError(f"it takes more than {_MOST_STEPS} steps")


def _is_true(scope: Scope, value: str, what: str) -> bool:
    array = scope.array(value)
    if array is None:
        raise UnsupportedError(f"{what} is known only while the network runs")
    if array.size != 1 or scope.dtype(value) is not DType.BOOL:
        raise ModelError(f"{what} is {array.dtype.name}{list(array.shape)}, not one bool")
    return bool(array.item())
