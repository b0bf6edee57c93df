"""Generated code against the float64 reference."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cannery.api.model import given_arrays, given_model
from cannery.errors import OptionError
from cannery.execution.layers import LayerCheck, check_layers
from cannery.execution.program import Sample, in_parts, network_program
from cannery.execution.samples import (
    Samples,
    Worst,
    add_errors,
    reference_outputs,
    seeded_samples,
)
from cannery.execution.sequences import each_sample, input_steps, join_calls, output_samples
from cannery.ir.graph import Graph
from cannery.measure.identify import ask
from cannery.options import Options
from cannery.pipeline import compile_graph, import_graph, judge_graph
from cannery.target.toolchain import find_toolchain

if TYPE_CHECKING:
    from numpy.typing import ArrayLike
    from typing_extensions import Unpack

    from cannery.api.options import ModelOptions


#: What results say of a sequence that begins with `prewarm`.
_AFTER_SILENCE = " after silence"


@dataclass(frozen=True)
class VerifyResult:
    """How far generated code is off: max|y - ref| / max|ref| by output, at most `max_error`.

    `passed`: no error is larger, and no step is faulty. `origin` is what ran the code: this
    machine, a device, an emulator. `layers` are the steps, each on its own, if requested.
    `compared` says by output what its errors were computed from: a file or the reference, and how
    many samples or calls.
    """

    passed: bool
    errors: Mapping[str, float]
    max_error: float
    samples: int
    target: str
    origin: str
    layers: tuple[LayerCheck, ...] = ()
    compared: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class _Given:
    """What a network is judged on: its samples, and what is expected of them; if that is empty, the
    references compute it. `what` is both in words. Samples can be read once: those of a sequence
    have the states before each call, which the references compute on the way. With `prewarm`, it
    begins after silence.
    """

    samples: Iterable[Sample]
    count: int
    expected: Sequence[Sample]
    what: str
    prewarm: bool = False


def verify(
    model: str | os.PathLike[str] | bytes,
    *,
    inputs: str | os.PathLike[str] | Mapping[str, ArrayLike] | None = None,
    against: str | os.PathLike[str] | Mapping[str, ArrayLike] | None = None,
    layers: bool = False,
    prewarm: bool = False,
    **options: Unpack[ModelOptions],
) -> VerifyResult:
    """Compare what a model's generated code computes with the reference.

    `inputs` has an array for each input by its name in the model, or is a .npz file of them; the
    first axis counts samples (default: 16 random samples). Without arrays for the states of a
    network that runs step by step, they hold one sequence. `against` are the expected outputs
    (default: computed in float64). `layers`: also check every step on its own. `prewarm`: the
    sequence begins after silence, as many calls with zeros as `<NAME>_PREWARM_CALLS` says. Options
    are those of `load`; `target` and `runner` verify for another machine. Raises CanneryError.
    """
    given = given_model(model, options, "verify")
    with given.as_file() as chosen:
        samples, expected = _arrays(inputs, "inputs"), _arrays(against, "against")
        return verify_network(
            chosen, samples, expected, layers=layers, prewarm=prewarm, device=True
        )


def _arrays(given: Any, option: str) -> Samples | None:
    cure = f"give a .npz file, or {option}={{name: array}}"
    return None if given is None else given_arrays(given, option, cure)


def verify_network(
    options: Options, inputs: Samples | None = None, against: Samples | None = None,
    *, layers: bool = False, prewarm: bool = False, device: bool = False,
    tell: Callable[[str], object] = str,
) -> VerifyResult:  # fmt: skip
    """The same for checked options; `device`: the program reports what it runs on.

    Calls of further sizes are judged on the same sequence, cut into such calls; on samples of their
    own where the inputs include states.
    """
    if against is not None and inputs is None:
        raise OptionError(
            "no inputs that belong to these outputs", where=_where(against),
            cure="name them with --inputs",
        )  # fmt: skip
    first, *others = options.each_block
    graph = import_graph(first)
    if prewarm:
        _check_prewarm(graph, inputs)
    given = _given(graph, inputs, against, prewarm=prewarm)
    found = _verified(first, graph, given, layers=layers, device=device, tell=tell)
    for options in others:
        larger = import_graph(options)
        cut = _cut(graph, larger, given, inputs, against)
        more = _verified(options, larger, cut, layers=layers, device=device, tell=tell)
        found = _joined(found, more, options.block[0])
    return found


def _check_prewarm(graph: Graph, inputs: Samples | None) -> None:
    """Raises OptionError unless there is a sequence that can begin after silence."""
    if not graph.states:
        raise OptionError(
            "the network keeps no state", where="--prewarm",
            cure="leave it out, or run the network step by step with --streaming",
        )  # fmt: skip
    if inputs is None:
        raise OptionError(
            "samples that are drawn include states of their own", where="--prewarm",
            cure="give a sequence with --inputs",
        )  # fmt: skip
    steps = input_steps(graph, inputs)
    if any(state.input in sample for sample in steps[:1] for state in graph.states):
        raise OptionError(
            "the inputs include states", where="--prewarm",
            cure="leave it out, or these arrays: the rest is one sequence",
        )  # fmt: skip


def _joined(found: VerifyResult, more: VerifyResult, steps: int) -> VerifyResult:
    """Both; the outputs of `more` are those of calls of so many steps."""
    names = {name: f"{name}, {steps} steps" for name in more.errors}
    return replace(
        found, passed=found.passed and more.passed,
        errors={**found.errors, **{names[n]: error for n, error in more.errors.items()}},
        compared={**found.compared, **{names[n]: what for n, what in more.compared.items()}},
        layers=(*found.layers, *more.layers),
    )  # fmt: skip


def _verified(
    options: Options, graph: Graph, given: _Given,
    *, layers: bool, device: bool, tell: Callable[[str], object],
) -> VerifyResult:  # fmt: skip
    toolchain = find_toolchain(options)
    runner = toolchain.runner()
    compiled = compile_graph(graph, options)
    source = compiled.source
    tell(f"building {options.name} for {toolchain.target.name}")
    parts = in_parts(source, given.samples)
    first = next(parts)
    with network_program(source, compiled.files, toolchain, first) as program:
        outputs = program.run_in_parts(runner, chain([first], parts))
        errors = _errors(outputs, given.expected, judge_graph(options))
        if device:
            runner = ask(toolchain, runner, program.executable)
    most = source.max_error
    steps = tuple(check_layers(source, toolchain, runner, first[0])) if layers else ()
    passed = all(error <= most for error in errors.values())
    passed &= not any(step.fault for step in steps)
    return VerifyResult(
        passed, errors, most, given.count, toolchain.target.name, runner.origin.value, steps,
        dict.fromkeys(errors, given.what),
    )  # fmt: skip


def _errors(
    parts: Iterable[tuple[Sequence[Sample], Sequence[Sample]]], given: Sequence[Sample],
    judge: Graph,
) -> dict[str, float]:  # fmt: skip
    """The error of each output over all parts of samples, of which only one is kept at a time."""
    rest = iter(given)
    worst: dict[str, Worst] = {}
    for samples, outputs in parts:
        expected = [*islice(rest, len(outputs))] if given else reference_outputs(judge, samples)
        add_errors(worst, outputs, expected)
    return {name: each.error for name, each in worst.items()}


def _given(
    graph: Graph, inputs: Samples | None, against: Samples | None, *, prewarm: bool = False
) -> _Given:
    """The samples of a network, and the outputs given for them, if any."""
    steps = seeded_samples(graph) if inputs is None else input_steps(graph, inputs)
    count = len(steps)
    samples, begin = each_sample(graph, steps, prewarm=prewarm), _AFTER_SILENCE if prewarm else ""
    if against is None:
        return _Given(samples, count, [], f"reference, {_counted(count)}{begin}", prewarm)
    if graph.calls is not None and graph.calls.latency:
        raise OptionError(
            f"outputs are late by {_counted(graph.calls.latency, 'step')}", where=_where(against),
            cure="leave it out, or compare in Python with what cannery.load(...).step returns",
        )  # fmt: skip
    if graph.calls is not None and graph.calls.every > 1:
        raise OptionError(
            f"there are outputs in one of {graph.calls.every} calls", where=_where(against),
            cure=f"--block {graph.calls.steps * graph.calls.every} has outputs in each",
        )  # fmt: skip
    given = output_samples(graph, against)
    if len(given) != count:
        raise OptionError(
            f"it has {_counted(len(given))}, the inputs have {_counted(count)}",
            where=_where(against), cure="both need the same number",
        )  # fmt: skip
    what = f"{_name(against)}, {_counted(count)}{begin}"
    return _Given(samples, count, given, what, prewarm)


def _cut(
    graph: Graph, larger: Graph, given: _Given, inputs: Samples | None, against: Samples | None
) -> _Given:
    """The same sequence for the network of `larger` calls; samples of its own without inputs, or if
    these include states, as each of them is a call alone.
    """
    states = {state.input for state in graph.states}
    steps = [] if inputs is None else input_steps(graph, inputs)
    if not steps or not states.isdisjoint(steps[0]):
        return _given(larger, None, None)
    calls = join_calls(steps, graph, larger)
    expected = join_calls(given.expected, graph, larger) if given.expected else []
    judge = _name(against) if against is not None else "reference"
    what = f"{judge}, {_counted(len(calls), 'call')}{_AFTER_SILENCE if given.prewarm else ''}"
    samples = each_sample(larger, calls, prewarm=given.prewarm)
    return _Given(samples, len(calls), expected, what, given.prewarm)


def _counted(number: int, what: str = "sample") -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _where(against: Samples) -> str:
    return f"--against {against}" if isinstance(against, Path) else "against"


def _name(against: Samples) -> str:
    return against.name if isinstance(against, Path) else "against"
