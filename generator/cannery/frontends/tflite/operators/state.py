"""Variables that are resources: named, read, assigned, initialised by a graph that runs once."""

from __future__ import annotations

from collections.abc import Sequence

from cannery.errors import UnsupportedError
from cannery.frontends.tflite.scope import Scope, operator


@operator("VAR_HANDLE", moves=True)
def var_handle(scope: Scope) -> str:
    """The name of a variable."""
    return scope.handle(scope.text("Container"), scope.text("SharedName"))


@operator("READ_VARIABLE", moves=True)
def read_variable(scope: Scope) -> str:
    """What a variable holds now, of the type and shape that the file declares."""
    return scope.read(scope.input(0))


@operator("ASSIGN_VARIABLE", moves=True)
def assign_variable(scope: Scope) -> Sequence[str]:
    """A variable holds this from here on."""
    scope.assign(scope.input(0), scope.input(1))
    return []


@operator("CALL_ONCE")
def call_once(scope: Scope) -> Sequence[str]:
    """Before the first run: constants that are assigned to variables."""
    index = scope.integer("InitSubgraphIndex")
    if scope.is_inner:
        raise UnsupportedError("within a graph that runs once it is not supported")
    scope.run_once(index)
    return []
