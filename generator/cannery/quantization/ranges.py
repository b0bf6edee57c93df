"""Bound and unit of each value that becomes integers: found now, or those of an earlier network.

Scales are part of the code. So code whose weights are apart stays the same after training again
only if the new network takes over the scales of the first one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cannery.errors import OptionError


class Ranges:
    """`found` are the ranges so far, in the order in which they were asked for.

    That order follows from the layers, so it serves as their name. `steepest`: functions of one
    value with a larger sensitivity stay floats; None: all become tables. It is kept as a range
    before the others, whose bound is 0.
    """

    def __init__(
        self, known: Sequence[tuple[int, float]] | None = None, steepest: float | None = None
    ) -> None:
        self._known = known
        if known and not known[0][0]:
            steepest = known[0][1]
        self.steepest = steepest
        self.found: list[tuple[int, float]] = [] if steepest is None else [(0, steepest)]

    def next(self, find: Callable[[], tuple[int, float]]) -> tuple[int, float]:
        """The range of the next value; `find` is asked where none is known. Raises OptionError."""
        if self._known is None:
            self.found.append(find())
        elif len(self.found) < len(self._known):
            self.found.append(self._known[len(self.found)])
        else:
            raise self._other_layers()
        return self.found[-1]

    def finish(self) -> tuple[tuple[int, float], ...]:
        """All of them. Raises OptionError if there were more in the earlier network."""
        if self._known is not None and len(self.found) < len(self._known):
            raise self._other_layers()
        return tuple(self.found)

    def _other_layers(self) -> OptionError:
        count = len(self._known or ())
        return OptionError(
            f"the library has scales of {count} values, those of other layers", where="--quantize",
            cure="compile it again: this network is no other training of the same layers",
        )  # fmt: skip
