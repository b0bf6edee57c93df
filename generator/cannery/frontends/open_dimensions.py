"""Dimensions that a model leaves open, and which of them are time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

from cannery.errors import CanneryError, OptionError, UnsupportedError, one_of
from cannery.frontends.options import ImportOptions
from cannery.ir.graph import Graph
from cannery.ops.recurrent.base import Recurrent

#: Reads the model with other options.
Build: TypeAlias = Callable[[ImportOptions], Graph]

#: Steps of a network that runs step by step, where their number does not matter.
ANY_STEPS = 2

#: Two sizes that reveal what a dimension is; size 1 has shortcuts.
TRIED = (2, 3)

#: The same after windows and strides, which need more.
_LARGE = (64, 96)

#: The text for a dimension that is time.
IS_TIME = ", and is the time of a recurrent network"


class OpenDimensionError(UnsupportedError):
    """An input has open dimensions: `left` are their axes and names on the command line."""

    def __init__(
        self, left: Sequence[tuple[int, str]], where: str, times: Sequence[str] = ()
    ) -> None:
        self.left = tuple(left)
        told = [
            f"dimension {axis} is open{IS_TIME if key in times else ''}"
            for k, (axis, key) in enumerate(self.left)
            if k == 0 or key in times
        ]
        keys = dict.fromkeys(key for _, key in self.left)
        cure = "fix it to n by " + " ".join(f"--dim {key}=n" for key in keys)
        super().__init__("; ".join(told), where=where, cure=cure)


def check_dims(options: ImportOptions, known: Sequence[str]) -> None:
    """Raises OptionError if an option sizes a dimension that is not one of the open ones."""
    for name in options.dims:
        if name not in known:
            cure = one_of(name, known, "open")
            raise OptionError(f"no open dimension is called {name!r}", where="--dim", cure=cure)


def with_time(
    error: OpenDimensionError, options: ImportOptions, build: Build, *, loops: bool
) -> OpenDimensionError:
    """The error, which says which of the dimensions are time; `loops`: also of unrolled loops."""
    times = [key for _, key in error.left if _is_time(key, options, build, loops)]
    return OpenDimensionError(error.left, error.where, times)


def _is_time(key: str, options: ImportOptions, build: Build, loops: bool) -> bool:
    """Whether the number of steps changes with a dimension."""
    for sizes in (TRIED, _LARGE):
        try:
            first, second = (walked(_sized(key, n, sizes[1], options, build)) for n in sizes)
        except CanneryError:  # impossible with other sizes
            continue
        return first != second if loops else first[1] != second[1]
    return False


def _sized(key: str, size: int, other: int, options: ImportOptions, build: Build) -> Graph:
    """The graph with a dimension of this size, and other sizes for the other open ones."""
    dims = {**options.dims, key: size}
    while True:
        try:
            return build(replace(options, dims=dims))
        except OpenDimensionError as error:
            dims |= {name: other for _, name in error.left if name not in dims}


def walked(graph: Graph) -> tuple[int, list[int]]:
    """What changes with time: steps of recurrent layers, or nodes if loops are unrolled."""
    steps = [graph.types[n.inputs[0]].shape[1] for n in graph.nodes if isinstance(n.op, Recurrent)]
    return len(graph.nodes), steps
