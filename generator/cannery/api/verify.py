"""Generated code against the float64 reference."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cannery.api.model import given_model
from cannery.errors import OptionError
from cannery.execution.layers import LayerCheck, check_layers
from cannery.execution.program import Sample, network_program
from cannery.execution.samples import (
    Samples,
    errors_by_output,
    model_samples,
    reference_outputs,
    seeded_samples,
)
from cannery.ir.graph import Graph
from cannery.measure.identify import ask
from cannery.options import Options
from cannery.pipeline import compile_graph, import_graph, judge_graph
from cannery.target.toolchain import find_toolchain

if TYPE_CHECKING:
    from numpy.typing import ArrayLike
    from typing_extensions import Unpack

    from cannery.api.options import ModelOptions


@dataclass(frozen=True)
class VerifyResult:
    """How far generated code is off: max|y - ref| / max|ref| by output, at most `max_error`.

    `passed`: no error is larger, and no step is faulty. `origin` is what ran the code: this
    machine, a device, an emulator. `layers` are the steps, each on its own, if requested.
    """

    passed: bool
    errors: Mapping[str, float]
    max_error: float
    samples: int
    target: str
    origin: str
    layers: tuple[LayerCheck, ...] = ()


def verify(
    model: str | os.PathLike[str] | bytes,
    *,
    inputs: str | os.PathLike[str] | Mapping[str, ArrayLike] | None = None,
    against: str | os.PathLike[str] | Mapping[str, ArrayLike] | None = None,
    layers: bool = False,
    **options: Unpack[ModelOptions],
) -> VerifyResult:
    """Compare what a model's generated code computes with the reference.

    `inputs` has an array for each input by its name in the model, or is a .npz file of them; the
    first axis counts samples (default: 16 random samples). `against` are the expected outputs
    (default: computed in float64). `layers`: also check every step on its own. Options are those of
    `load`; `target` and `runner` verify for another machine. Raises CanneryError.
    """
    given = given_model(model, options, "verify")
    with given.as_file() as chosen:
        return verify_network(chosen, _arrays(inputs), _arrays(against), layers=layers, device=True)


def _arrays(given: Any) -> Samples | None:
    if given is None:
        return None
    if isinstance(given, Mapping):
        return {name: np.asarray(array) for name, array in given.items()}
    return Path(os.fsdecode(given))


def verify_network(
    options: Options, inputs: Samples | None = None, against: Samples | None = None,
    *, layers: bool = False, device: bool = False, tell: Callable[[str], object] = str,
) -> VerifyResult:  # fmt: skip
    """The same for checked options; `device`: the program reports what it runs on."""
    if against is not None and inputs is None:
        raise OptionError(
            "no inputs that belong to these outputs", where=f"--against {_where(against)}",
            cure="name them with --inputs",
        )  # fmt: skip
    toolchain = find_toolchain(options)
    runner = toolchain.runner()
    graph = import_graph(options)
    samples, given = _samples(graph, inputs, against)
    compiled = compile_graph(graph, options)
    source = compiled.source
    tell(f"building {options.name} for {toolchain.target.name}")
    with network_program(source, compiled.files, toolchain, samples) as program:
        found = program.run(runner)
        if device:
            runner = ask(toolchain, runner, program.executable)
    expected = given or reference_outputs(judge_graph(options), samples)
    errors, most = errors_by_output(found, expected), source.max_error
    steps = tuple(check_layers(source, toolchain, runner, samples[0])) if layers else ()
    passed = all(error <= most for error in errors.values())
    passed &= not any(step.fault for step in steps)
    return VerifyResult(
        passed, errors, most, len(samples), toolchain.target.name, runner.origin.value, steps
    )


def _samples(
    graph: Graph, inputs: Samples | None, against: Samples | None
) -> tuple[Sequence[Sample], Sequence[Sample]]:
    """The inputs, and the expected outputs given for them, if any."""
    read = None if inputs is None else model_samples(graph, inputs, graph.inputs)
    samples = seeded_samples(graph) if read is None else read
    given = [] if against is None else model_samples(graph, against, graph.outputs)
    if against is not None and len(given) != len(samples):
        raise OptionError(
            f"{len(given)} samples, --inputs has {len(samples)}", where=_where(against),
            cure="both need the same number",
        )  # fmt: skip
    return samples, given


def _where(against: Samples) -> str:
    return str(against) if isinstance(against, Path) else "against"
