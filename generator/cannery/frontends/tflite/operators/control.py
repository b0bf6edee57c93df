"""Branches and loops: unrolled.

Where their course is known only while the network runs, both branches are computed, and as many
steps as the option MAX_TRIPS says; conditions choose.
"""

from __future__ import annotations

from collections.abc import Sequence

from cannery.errors import ModelError, UnsupportedError
from cannery.frontends.tflite.scope import Scope, operator
from cannery.ir.tensor import DType
from cannery.ops.logic.compare import And, Not, Where

#: Most steps of a loop.
_MOST_STEPS = 4096


@operator("IF", moves=True)
def if_(scope: Scope) -> list[str]:
    """A condition, and the inputs of both branches."""
    condition, values = _condition(scope, scope.input(0)), scope.inputs()[1:]
    branches = scope.integer("ThenSubgraphIndex"), scope.integer("ElseSubgraphIndex")
    if not isinstance(condition, str):
        return scope.call(branches[0] if condition else branches[1], values)
    results = []
    for branch, holds in zip(branches, (True, False), strict=True):
        with scope.unfinished.within(condition, holds):
            results.append(_call(scope, branch, values))
    if len(results[0]) != len(results[1]):
        raise ModelError(f"its branches have {len(results[0])} and {len(results[1])} outputs")
    return _chosen(scope, condition, *results)


@operator("WHILE", moves=True)
def while_(scope: Scope) -> list[str]:
    """The body again and again, as long as the condition is true."""
    values, guard, limit = scope.inputs(), "", scope.max_trips
    first, body = scope.integer("CondSubgraphIndex"), scope.integer("BodySubgraphIndex")
    for step in range(_MOST_STEPS):
        (found, *more) = scope.call(first, values) or [""]
        if more or not found:
            raise ModelError("its condition is not one value")
        goes_on = _condition(scope, found)
        if goes_on is False:
            return values
        if isinstance(goes_on, str):
            guard = scope.node(And(), [guard, goes_on], f"goes_on{step}") if guard else goes_on
        if guard and limit is None:
            raise UnsupportedError(
                "how often it runs is known only while the network runs",
                cure="say how often at most: --max-trips N",
            )
        if guard and limit == step:
            _record(scope, guard)
            return values
        with scope.unfinished.within(guard):
            after = _call(scope, body, values) if guard else scope.call(body, values)
        values = _chosen(scope, guard, after, values) if guard else after
    raise UnsupportedError(f"it takes more than {_MOST_STEPS} steps")


def _condition(scope: Scope, value: str) -> str | bool:
    """A condition as a scalar, or what it is if that is known. ModelError unless it is one bool."""
    type_ = scope.type(value)
    if type_.elements != 1 or type_.dtype is not DType.BOOL:
        raise ModelError(f"its condition is {type_}, not one bool")
    array = scope.array(value)
    return scope.reshaped(value, (), "condition") if array is None else bool(array.item())


def _call(scope: Scope, index: int, values: Sequence[str]) -> list[str]:
    """What a graph computes that may be taken or not: it changes no variable."""
    before = scope.kept()
    found = scope.call(index, values)
    if scope.kept() != before:
        raise UnsupportedError(
            "it changes a variable where a condition says so, which is known only while the "
            "network runs"
        )
    return found


def _chosen(scope: Scope, condition: str, first: Sequence[str], second: Sequence[str]) -> list[str]:
    """The first values if a condition holds, else the second. UnsupportedError for other types."""
    for a, b in zip(first, second, strict=True):
        if a != b and (scope.is_special(a) or scope.is_special(b)):
            raise UnsupportedError("it chooses between variables, or complex numbers")
        if a != b and scope.type(a) != scope.type(b):
            raise UnsupportedError(
                f"what it computes is {scope.type(a)} or {scope.type(b)}, which is decided while "
                "the network runs"
            )
    return [
        a if a == b else scope.node(Where(), [condition, a, b], f"chosen{k}")
        for k, (a, b) in enumerate(zip(first, second, strict=True))
    ]


def _record(scope: Scope, guard: str) -> None:
    """A loop may be cut short, where `guard` and all conditions around it hold."""
    for condition, holds in scope.unfinished.taken:
        other = condition if holds else scope.node(Not(), [condition], "not_taken")
        guard = scope.node(And(), [guard, other], "unfinished")
    scope.unfinished.loops.append(guard)
