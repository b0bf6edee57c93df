"""What estimates the cycles of code on a processor, from a model of its pipeline."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from cannery.analysis.disassembly import Instruction

#: Iterations of a loop, by its number of instructions: enough for its steady state.
_PASSES = ((30, 100), (100, 24), (400, 8))
_FEWEST_PASSES = 4

#: Names of the same processor.
_SAME = {
    "bonnell": ("bonnell", "atom"), "zen4": ("znver4",), "zen5": ("znver5",)
}  # fmt: skip


@dataclass(frozen=True)
class Task:
    """A piece of code: a loop, of which one iteration in the steady state counts, or code that runs
    once.
    """

    code: tuple[Instruction, ...]
    loop: bool

    @property
    def passes(self) -> int:
        """How many are simulated."""
        if not self.loop:
            return 1
        size = len(self.code)
        return next((passes for most, passes in _PASSES if size <= most), _FEWEST_PASSES)


@dataclass(frozen=True)
class Estimator(ABC):
    """Estimates cycles on the processor `wanted`.

    `cpu` is what it is called, and `model` the processor whose model that is: another one if there
    is nothing better.
    """

    cpu: str
    model: str
    wanted: str

    @property
    def is_approximate(self) -> bool:
        """Whether the model is that of another processor."""
        return self.model not in _SAME.get(self.wanted, (self.wanted,))

    @property
    def note(self) -> str:
        """The model's processor, if it is a different one."""
        return f"by the model of {self.model}" if self.is_approximate else ""

    @property
    def remark(self) -> str:
        """What estimated cycles are, for people."""
        about = f"; {self.note}" if self.note else ""
        return f"cycles are estimated by {self.by} for {self.cpu}{about}"

    @property
    @abstractmethod
    def by(self) -> str:
        """What estimates, for people: `llvm-mca`."""

    @property
    @abstractmethod
    def version(self) -> str:
        """What estimates, and its version."""

    @abstractmethod
    def cycles(self, code: Sequence[Instruction], *, loop: bool) -> float:
        """Cycles of one pass: for a loop, in its steady state; for other code, once from start to
        end.

        Raises ToolchainError for instructions that are unknown for this processor.
        """

    @abstractmethod
    def batch(self, tasks: Sequence[Task]) -> list[float | None]:
        """Cycles of many pieces, see `cycles`; None if an instruction is unknown.

        Raises ToolchainError if a program that is needed cannot be run.
        """
