"""What has to hold of any case: one clear error, or a network that computes what the model says."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, replace
from io import StringIO
from pathlib import Path

import numpy as np
from numpy.random import PCG64, Generator
from numpy.typing import NDArray

from cannery.cli import invoke
from cannery.errors import CanneryError
from cannery.execution.program import network_program
from cannery.ir.evaluate import evaluate, widen
from cannery.ir.graph import Graph, Node
from cannery.ir.registry import RefArray
from cannery.ir.tensor import DType
from cannery.ir.verify import verify
from cannery.layouts import nhwc
from cannery.measure.trial import random_inputs
from cannery.options import Options
from cannery.options_text import option_words
from cannery.pipeline import Compiled, compile_model, judge_graph
from cannery.schedule.program import VIEW
from cannery.target.runner import Origin
from cannery.target.toolchain import Toolchain, find_toolchain
from fuzz.cases import Case
from lowering.interpreter import check_program

#: Error of float32, relative to the largest output, that no network is free of.
ROUNDING = 1e-4

#: What the order of a sum's terms changes, of the largest result; how often that is tried.
SUMS, NOISY = 5e-7, 3

#: Of larger results partial sums may have overflowed float32.
OVERFLOW = 1e36

#: Sums of products of factors whose magnitudes multiply to less never overflow, in any order.
PRODUCTS = 1e34

#: Operators that add terms in their own order, but count no multiply-accumulates.
ADDING = frozenset(
    "AveragePool CumSum Det GridSample GroupNormalization Interpolate LayerNormalization "
    "LogSoftmax ReduceL1 ReduceL2 ReduceLogSumExp ReduceMean ReduceSum ReduceSumSquare Resize "
    "RoiAlign Softmax".split()
)

#: How much farther off than the references in float32 the kernels may be.
KERNELS = 64.0

#: The same of integers.
STEPS = 8.0

#: Bytes of the largest workspace whose plan is run on labels.
LABELLED = 2**18

#: What sorts, where docs/reference/semantics.md leaves open what NaN is greater than.
ORDERING = frozenset({"ArgMax", "ArgMin", "Hardmax", "TopK"})

#: Samples that a network runs on.
SAMPLES = 2


@dataclass(frozen=True)
class Outcome:
    """How far a case came: options, import, compile, accepted or run; and what was said."""

    stage: str
    message: str = ""


class Finding(Exception):  # noqa: N818 - it is a result
    """A property that does not hold."""


def try_case(case: Case, folder: Path, *, run: bool = False) -> Outcome:
    """Compile a case in an empty folder, and with `run` also run what was made.

    Raises Finding where a property does not hold; any other exception is a finding, too.
    """
    case.write(folder)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            options = case.options_in(folder)
        except CanneryError as error:
            return Outcome("options", _one_line(error))
        try:
            compiled = compile_model(options)
        except CanneryError as error:
            stage = "import" if _raised_by(error, "frontends") else "compile"
            return Outcome(stage, _one_line(error))
        _check(compiled)
        if not run or not _run(options, compiled):
            return Outcome("accepted")
    return Outcome("run")


def try_command(case: Case, folder: Path) -> None:
    """`cannery compile`: exit code 0 and files, or 2, one line, and not a file."""
    case.write(folder)
    try:
        words = option_words(case.options_in(folder))
    except CanneryError:
        return
    out, said = folder / "out", StringIO()
    with redirect_stderr(said), redirect_stdout(StringIO()):
        code = invoke(["compile", str(folder / case.model), "-o", str(out), *words])
    errors = [line for line in said.getvalue().splitlines() if "error:" in line[:20]]
    if code not in (0, 2) or len(errors) != (code == 2):
        raise Finding(f"exit code {code}, {len(errors)} lines of errors")
    left = [path.name for path in out.rglob("*")] if out.exists() else []
    if (code == 0) != bool(left) or any(name.endswith(".tmp") for name in left):
        raise Finding(f"exit code {code}, and the folder holds {left}")


def _one_line(error: CanneryError) -> str:
    """The message, which has to be one line that says what and where."""
    text = str(error)
    if "\n" in text or not error.what or not error.where or len(text) > 4000:
        raise Finding(f"not a line with what and where: {text[:300]!r}") from error
    return text


def _raised_by(error: BaseException, package: str) -> bool:
    traceback, files = error.__traceback__, []
    while traceback is not None:
        files.append(traceback.tb_frame.f_code.co_filename)
        traceback = traceback.tb_next
    return any(f"/{package}/" in file for file in files)


def _check(compiled: Compiled) -> None:
    """What can be seen without running anything."""
    source = compiled.source
    verify(source.graph, after="compile")
    # A view of one channel may have either order; the interpreter takes the name at its word.
    buffers = source.program.buffers.values()
    named = all(b.layout.order == nhwc.ORDER for b in buffers if b.storage == VIEW)
    if named and source.workspace.bytes <= LABELLED:
        scratch = [call.kernel.scratch_bytes for call in source.calls]
        check_program(source.program, source.isa, source.workspace, scratch)
    for name, data in compiled.files.items():
        place = Path(name)
        if place.is_absolute() or ".." in place.parts or not data:
            raise Finding(f"file {name!r} of {len(data)} bytes")


def _run(options: Options, compiled: Compiled) -> bool:
    """Build and run a network, if this machine can, and compare; whether it ran."""
    if len(options.isa) > 1:
        return False
    try:
        toolchain = find_toolchain(options)
        (runner, *_) = toolchain.runners()
    except CanneryError:
        return False
    if runner.origin is Origin.EMULATED:
        return False
    judge = judge_graph(options)
    samples = [random_inputs(compiled.source.graph, seed) for seed in range(SAMPLES)]
    try:
        with network_program(
            compiled.source, compiled.files, _quickly_built(toolchain), samples
        ) as program:
            found = program.run(runner)
    except CanneryError as error:
        raise Finding(f"the code does not build or run: {error}") from error
    for sample, outputs in zip(samples, found, strict=True):
        _compare(judge, sample, outputs, compiled.source.max_error)
    return True


def _quickly_built(toolchain: Toolchain) -> Toolchain:
    flags = tuple("-O0" if flag == "-O2" else flag for flag in toolchain.cflags)
    return replace(toolchain, cflags=flags)


def _compare(
    judge: Graph, sample: Mapping[str, RefArray], found: Mapping[str, RefArray], bound: float
) -> None:
    """Raise Finding where outputs are off by more than rounding may explain.

    How sensitive a network is shows in what the references compute with every result rounded to
    float32, of inputs that are a little different, and where sums err by a part of the largest: a
    minimum may pick a value that is nearly 0 compared with that.
    """
    with np.errstate(all="ignore"):
        exact = evaluate(judge, sample)
        others = [_rounded(judge, sample), _rounded(judge, _nudged(sample))]
        others += [_rounded(judge, sample, noise=Generator(PCG64(k))) for k in range(NOISY)]
    # Nothing says where NaN is among other numbers.
    ordered = not any(np.isnan(a).any() for a in others[0].values() if a.dtype.kind == "f")
    for name, expected in exact.items():
        rivals = [other[name] for other in others]
        if expected.dtype.kind == "f":
            if ordered or not any(node.op.kind in ORDERING for node in judge.nodes):
                _compare_floats(name, expected, rivals, found[name], bound)
            continue
        sure = np.logical_and.reduce([rival == expected for rival in rivals])
        spread = max(np.abs(_float(rival) - _float(expected)).max(initial=0) for rival in rivals)
        off = np.abs(_float(found[name]) - _float(expected)) > STEPS * spread
        wrong = int((off & sure).sum())
        if wrong and ordered:
            raise Finding(f"output {name!r}: {wrong} of {expected.size} elements are wrong")


def _compare_floats(
    name: str, expected: RefArray, rivals: Sequence[RefArray], found: RefArray, bound: float
) -> None:
    y, r = widen(found), widen(expected)
    both = np.logical_and.reduce([np.isfinite(a) for a in (r, *rivals)])
    if not both.any():
        return
    largest = float(np.abs(_float(r)[both]).max())
    spread = max(float(np.abs(_float(r)[both] - _float(a)[both]).max()) for a in rivals)
    allowed = max(bound, ROUNDING) * largest + KERNELS * spread + 1e-37
    error = float(np.abs(_float(y)[both] - _float(r)[both]).max())
    if not error <= allowed:
        raise Finding(
            f"output {name!r} is off by {error:.3g} of {largest:.3g}: {allowed:.3g} is allowed"
        )


def _float(array: RefArray) -> NDArray[np.float64]:
    return np.asarray(array, np.float64)


def _nudged(sample: Mapping[str, RefArray]) -> dict[str, RefArray]:
    return {
        name: (array * np.float32(1 + 2e-7)).astype(array.dtype)
        if array.dtype.kind == "f"
        else array
        for name, array in sample.items()
    }


def _rounded(
    graph: Graph, sample: Mapping[str, RefArray], noise: Generator | None = None
) -> dict[str, RefArray]:
    """All values where each result is rounded to float32, sums of products also by `noise`.

    Partial sums of results near the end of the range may have overflowed: they count as infinite.
    Sums of products with infinities or NaN (docs/reference/semantics.md), and of products that
    may overflow before they cancel, are NaN, all of them.
    """
    values: dict[str, RefArray] = {name: widen(sample[name]) for name in graph.inputs}
    values.update({name: widen(array) for name, array in graph.constants.items()})
    for node in graph.nodes:
        results = node.op.reference(*(values[i] if i else None for i in node.inputs))
        if _multiplies(graph, node) and not _bounded(values, node.inputs):
            results = tuple(np.full(result.shape, np.nan) for result in results)
        elif noise and (_multiplies(graph, node) or node.op.kind in ADDING):
            results = tuple(_noisy(r, noise) if r.dtype.kind == "f" else r for r in results)
        for output, result in zip(node.outputs, results, strict=True):
            single = result
            if result.dtype.kind == "f":
                single = result.astype(np.float32)
                single = np.where(np.abs(single) > OVERFLOW, np.copysign(np.inf, single), single)
            values[output] = widen(single)
    return values


def _noisy(result: RefArray, noise: Generator) -> RefArray:
    """Sums whose terms were added in another order."""
    values = _float(result)
    return values + noise.uniform(-SUMS, SUMS, values.shape) * np.abs(values).max(initial=0)


def _multiplies(graph: Graph, node: Node) -> bool:
    """Whether a node is sums of products, of floats."""
    inputs = tuple(graph.types[i] if i else None for i in node.inputs)
    outputs = tuple(graph.types[o] for o in node.outputs)
    return all(t.dtype == DType.FLOAT32 for t in outputs) and node.op.macs(inputs, outputs) > 0


def _bounded(values: Mapping[str, RefArray], names: Iterable[str]) -> bool:
    """Whether no sum of products of these values overflows on the way, in any order."""
    largest = [np.abs(_float(values[name])).max(initial=1.0) for name in names if name]
    return bool(np.prod(largest) < PRODUCTS)
