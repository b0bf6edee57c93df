"""Which model estimates cycles: Cannery's own for small Arm processors, else llvm-mca's.

llvm-mca (14 and 19) is wrong about these: 24 multiply-adds of four floats with six loads of general
registers between them take 54 cycles on its Cortex-A53 and 15 on its Cortex-A55, which take 24.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cannery.analysis.arm_pipeline import operation
from cannery.analysis.disassembly import Instruction, Machine
from cannery.analysis.estimator import Estimator, Task
from cannery.analysis.inorder import CORES, VERSION, Core, cycles_of_loop, cycles_once
from cannery.analysis.mca import find_mca


@dataclass(frozen=True)
class InOrder(Estimator):
    """A processor that issues at most two instructions at once, in order."""

    core: Core

    @property
    def by(self) -> str:
        """See the base."""
        return "Cannery's model"

    @property
    def version(self) -> str:
        """See the base."""
        return f"{self.by} {VERSION}"

    def cycles(self, code: Sequence[Instruction], *, loop: bool) -> float:
        """See the base; no instruction is unknown."""
        operations = [operation(instruction, self.core) for instruction in code]
        return (cycles_of_loop if loop else cycles_once)(operations, self.core)

    def batch(self, tasks: Sequence[Task]) -> list[float | None]:
        """See the base."""
        # The same code at other addresses takes as long.
        found: dict[tuple[object, ...], float] = {}
        cycles: list[float | None] = []
        for task in tasks:
            key = (task.loop, tuple((i.mnemonic, i.operands) for i in task.code))
            if key not in found:
                found[key] = self.cycles(task.code, loop=task.loop)
            cycles.append(found[key])
        return cycles


def find_estimator(cpu: str, machine: Machine) -> Estimator:
    """The model of a processor by LLVM's name or a common one.

    Raises ToolchainError for an unknown processor, or if llvm-mca is needed but not installed.
    """
    if machine is Machine.AARCH64 and cpu in CORES:
        return InOrder(cpu, cpu, cpu, CORES[cpu])
    return find_mca(cpu, machine)
