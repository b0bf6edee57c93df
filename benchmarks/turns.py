"""Networks as programs, timed in turn, so that all of them meet the same machine."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from cannery.execution.program import NetworkProgram, network_program
from cannery.execution.samples import seeded_samples
from cannery.ir.graph import Graph
from cannery.measure.measure import alone
from cannery.options import Options
from cannery.pipeline import compile_model
from cannery.target.runner import Runner
from cannery.target.toolchain import find_toolchain


@dataclass(frozen=True)
class Form:
    """A network in one form, ready to run."""

    program: NetworkProgram
    runner: Runner
    graph: Graph


def make_form(options: Options, stack: ExitStack) -> Form:
    """Generates and builds a form."""
    compiled = compile_model(options)
    toolchain = find_toolchain(options)
    graph = compiled.source.graph
    made = network_program(compiled.source, compiled.files, toolchain, seeded_samples(graph, 1))
    return Form(stack.enter_context(made), toolchain.runners()[0], graph)


def in_turn(forms: Sequence[Form], rounds: int, seconds: float) -> list[list[float]]:
    """Microseconds of each form: samples of this many seconds, in alternating order."""
    found: list[list[float]] = [[] for _ in forms]
    with alone(forms[0].runner):
        for number in range(rounds):
            order = range(len(forms)) if number % 2 else reversed(range(len(forms)))
            for k in order:
                found[k].append(forms[k].program.time(forms[k].runner, seconds).p25)
    return found
