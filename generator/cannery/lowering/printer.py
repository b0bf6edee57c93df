"""The stable text forms of steps, programs and workspaces, for dumps and reviews."""

from __future__ import annotations

from collections.abc import Sequence

from cannery.ir.graph import Graph
from cannery.lowering.lifetimes import Workspace, buffer_bytes
from cannery.schedule.program import Choice, Program, Step


def format_steps(graph: Graph, steps: Sequence[Step], choices: Sequence[Choice]) -> str:
    """One line per step: its nodes, what it reads and writes, and the schedule chosen."""
    lines = []
    for number, (step, choice) in enumerate(zip(steps, choices, strict=True)):
        nodes = " + ".join(f"{node.op.kind} {node.name!r}" for node in step.nodes)
        values = f"{', '.join(step.inputs)} -> {', '.join(step.outputs)}"
        lines.append(f"{number:02d} {nodes}: {values}  {choice}  {step.macs(graph)} MAC")
    return "\n".join(lines) + "\n"


def format_program(program: Program) -> str:
    """Every buffer with its layout, then every call."""
    lines = []
    for name, buffer in program.buffers.items():
        place = buffer.storage if buffer.root == name else f"in {buffer.root}"
        lines.append(f"buffer {name}: {buffer.value} {buffer.layout}  {place}")
    for number, planned in enumerate(program.steps):
        values = f"{', '.join(planned.reads)} -> {', '.join(planned.writes)}"
        lines.append(f"{number:02d} {planned.step.name}: {values}  {planned.choice}")
    return "\n".join(lines) + "\n"


def format_workspace(program: Program, workspace: Workspace) -> str:
    """Every root buffer in the workspace by offset, then the total and its lower bound."""
    lines = []
    for name, at in sorted(workspace.offsets.items(), key=lambda item: (item[1], item[0])):
        if name in program.buffers:
            note = "  pinned" if name in workspace.pinned else ""
            lines.append(f"{at:10d} {buffer_bytes(program, name):10d} {name}{note}")
        else:
            lines.append(f"{at:10d} {'':>10} {name}")
    lines.append(f"{workspace.bytes} bytes, lower bound {workspace.lower_bound}")
    return "\n".join(lines) + "\n"
