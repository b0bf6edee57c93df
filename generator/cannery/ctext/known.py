"""Constants that several functions of one file read, and the file has once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from cannery.contents import array_digest
from cannery.schedule.schedule import ConstArray, Kernel

#: Names of constants that are others: (name, same as).
Aliases = tuple[tuple[str, str], ...]


@dataclass
class KnownConstants:
    """The names of constants by their content.

    With `vary`, other numbers may come: then none are the same.
    """

    vary: bool
    _names: dict[tuple[str, bytes], str] = field(default_factory=dict)

    def noting(self, kernels: Iterable[Kernel]) -> Iterator[Kernel]:
        """The same kernels; remembers their constants."""
        for kernel in kernels:
            for constant in () if self.vary else kernel.constants:
                self._names.setdefault(_key(constant), constant.name)
            yield kernel

    def taken_from(self, kernel: Kernel) -> tuple[Kernel, Aliases]:
        """The kernel with the constants that are new, and what the others are."""
        kept, aliases = [], []
        for constant in kernel.constants:
            first = constant.name
            if not self.vary:
                first = self._names.setdefault(_key(constant), first)
            if first == constant.name:
                kept.append(constant)
            else:
                aliases.append((constant.name, first))
        return replace(kernel, constants=tuple(kept)), tuple(aliases)


def _key(constant: ConstArray) -> tuple[str, bytes]:
    """The type of its elements in C, and its content."""
    return constant.values.dtype.name, array_digest(constant.values)
