"""The node tests that come inside the onnx package, and how Cannery does on them.

`python tests/frontends/onnx_backend.py [TARGET ...]` prints the scoreboard by operator: passed,
refused and why, or wrong; with weights as inputs and as initializers. It runs the references, and
for each target (generic, avx2, neon64 ...) generated C, fifty networks in a program. With `--write`
it writes the list of what passes the references, which `test_onnx_backend.py` checks.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

if __name__ == "__main__":  # what pytest gets from pyproject.toml
    sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2] / "generator")]

from cannery.errors import CanneryError
from cannery.frontends import load_graph
from cannery.ir.evaluate import evaluate
from cannery.ir.graph import Graph
from cannery.ir.orders import from_model, to_model
from cannery.ir.registry import RefArray
from cannery.ir.tensor import DType, TensorType
from cannery.target.runner import find_runner
from cannery.target.toolchain import toolchain_for
from frontends.onnx_cases import HALVES, as_array, cases, operator_of, type_of, with_initializers
from frontends.onnx_programs import Program, run_programs

PASSED = Path(__file__).with_name("onnx_backend_passed.txt")

#: Cases whose expected values hold roundings of float32 that are more than the suite allows.
_ROUGH = {"test_dft_inverse": 1e-6, "test_dft_inverse_opset19": 1e-6}

#: Cases whose expected values are against the operator's text, which ONNX Runtime leaves out, too:
#: see Resize in `docs/reference/semantics.md`.
_AGAINST_THE_TEXT = {
    "test_resize_downsample_scales_linear_align_corners",
    "test_resize_downsample_scales_cubic_align_corners",
}


@dataclass(frozen=True)
class Outcome:
    """How a case went: "passed", "refused" with the reason, or what is wrong."""

    name: str
    operator: str
    status: str
    reason: str = ""


def _compare(found: NDArray[Any], expected: Any, case: Any) -> str:
    """What differs, empty if nothing does."""
    expected, rounding = as_array(expected), HALVES.get(type_of(expected), 0.0)
    if found.shape != expected.shape:
        return f"shape {found.shape}, expected {expected.shape}"
    if found.dtype.kind != expected.dtype.kind:
        return f"elements of {found.dtype}, expected {expected.dtype}"
    wide = [a.astype(np.float64) if a.dtype.kind == "f" else a for a in (found, expected)]
    atol = _ROUGH.get(case.name, case.atol)
    if rounding:  # of what is between, too
        atol = max(atol, rounding * float(np.abs(wide[1][np.isfinite(wide[1])]).max(initial=0)))
    close = np.allclose(*wide, rtol=max(case.rtol, rounding), atol=atol, equal_nan=True)
    return "" if close else "other values"


@dataclass(frozen=True)
class Imported:
    """A case as a graph with its inputs."""

    case: Any
    graph: Graph
    inputs: Mapping[str, RefArray]

    def judge(self, outputs: Mapping[str, RefArray]) -> Outcome:
        """Compares outputs of the graph with those of the case."""
        name, operator = self.case.name, operator_of(self.case)
        results = to_model(self.graph, outputs)
        counts = {k: int(v) for k, v in results.items() if k.endswith(".count")}
        values = {k: v for k, v in results.items() if k not in counts}
        given = self.case.data_sets[0][1]
        wanted = [y for each in given for y in (each if isinstance(each, list) else [each])]
        for (output, found), expected in zip(values.items(), wanted, strict=True):
            if counts:  # outputs of one operator share a count, which is named after the first
                count = counts.get(f"{output}.count", next(iter(counts.values())))
                found = _counted(found, count, expected.shape)
            difference = _compare(found, expected, self.case)
            if difference:
                return Outcome(name, operator, "wrong", difference)
        return Outcome(name, operator, "passed")


def _counted(array: RefArray, count: int, shape: tuple[int, ...]) -> RefArray:
    """The rows that count, along the axis in which the shape differs."""
    axes = [k for k, (a, b) in enumerate(zip(array.shape, shape, strict=True)) if a != b]
    return np.take(array, range(count), axes[0]) if axes else array


def _imported(case: Any, folder: Path, weights: bool) -> Imported | Outcome:
    """A case as Cannery reads it, from a file."""
    model, arrays = with_initializers(case, weights)
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    try:
        graph = load_graph(path)
        return Imported(
            case, graph, from_model(graph, dict(zip(graph.inputs, arrays, strict=True)))
        )
    except CanneryError as error:
        return Outcome(case.name, operator_of(case), "refused", error.what)
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        return Outcome(case.name, operator_of(case), "wrong", reason)


def run_all(
    *, weights: bool, part: slice = slice(None), target: str = "", level: str = ""
) -> list[Outcome]:
    """Some of the cases, or all: by the references, or as generated C for a target.

    `level` is the compiler's optimisation level instead of Cannery's.
    """
    chosen = [case for case in cases()[part] if case.name not in _AGAINST_THE_TEXT]
    with tempfile.TemporaryDirectory() as folder, np.errstate(all="ignore"):
        found = [_imported(case, Path(folder), weights) for case in chosen]
        refused = [o for o in found if isinstance(o, Outcome)]
        read = [i for i in found if isinstance(i, Imported)]
        judged = _run_compiled(read, target, level) if target else map(_referred, read)
        return [*refused, *judged]


def _referred(imported: Imported) -> Outcome:
    """A case evaluated by the references."""
    try:
        return imported.judge(evaluate(imported.graph, imported.inputs))
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        return Outcome(imported.case.name, operator_of(imported.case), "wrong", reason)


def inferred_types() -> Iterator[tuple[str, TensorType, TensorType]]:
    """Values of all cases that Cannery computes: name, type, and the type that onnx infers.

    Shapes are sorted: values may lie in another order.
    """
    import onnx

    with tempfile.TemporaryDirectory() as folder:
        for case in cases():
            read = _imported(case, Path(folder), weights=False)
            if not isinstance(read, Imported):
                continue
            if any(name.endswith(".count") for name in read.graph.outputs):
                continue  # there is room for more rows than count
            model = onnx.shape_inference.infer_shapes(onnx.load(Path(folder) / "model.onnx"))
            for value in (*model.graph.value_info, *model.graph.output):
                type_ = value.type.tensor_type
                dims = [d.dim_value for d in type_.shape.dim if d.HasField("dim_value")]
                own = read.graph.types.get(value.name)
                known = type_.HasField("shape") and len(dims) == len(type_.shape.dim)
                if own is None or value.name in read.graph.constants or not known:
                    continue
                dtype = onnx.helper.tensor_dtype_to_np_dtype(type_.elem_type).name
                dtype = "float32" if dtype in (*HALVES, "float64") else dtype
                inferred = TensorType(tuple(sorted(dims)), DType(dtype))
                yield value.name, replace(own, shape=tuple(sorted(own.shape))), inferred


def _run_compiled(read: Sequence[Imported], target: str, level: str) -> Iterator[Outcome]:
    """Cases as generated C; what is read must be generated."""
    toolchain = toolchain_for(target)
    runner = find_runner(toolchain.target)
    programs = [Program(i.case.name, i.graph, i.inputs) for i in read]
    results = run_programs(programs, toolchain, runner, level)
    for imported, result in zip(read, results, strict=True):
        if result.fault:
            yield Outcome(result.name, operator_of(imported.case), "wrong", result.fault)
        else:
            yield imported.judge(dict(zip(imported.graph.outputs, result.outputs, strict=True)))


def read_passed() -> dict[str, list[str]]:
    """The names of the cases that passed when the list was written, by operator."""
    lines = PASSED.read_text().splitlines()
    return {line.split(": ")[0]: line.split(": ")[1].split() for line in lines}


def _by_operator(outcomes: Sequence[Outcome]) -> Mapping[str, list[Outcome]]:
    found: dict[str, list[Outcome]] = {}
    for outcome in sorted(outcomes, key=lambda o: (o.operator, o.name)):
        found.setdefault(outcome.operator, []).append(outcome)
    return found


def _scoreboard(runs: Sequence[Sequence[Outcome]]) -> dict[str, list[str]]:
    """Prints what became of the cases of each operator; returns those that passed in every run."""
    passed: dict[str, list[str]] = {}
    for operator, outcomes in _by_operator([o for run in runs for o in run]).items():
        counts = Counter(o.status for o in outcomes)
        reasons = Counter(o.reason for o in outcomes if o.status == "refused")
        told = "; ".join(f"{n}x {r[:110]}" for r, n in reasons.most_common(2))
        line = " ".join(f"{counts[s]:4}" for s in ("passed", "refused", "wrong"))
        print(f"{operator:28}{line}  {told}")
        names = Counter(o.name for o in outcomes if o.status == "passed")
        always = sorted(name for name, n in names.items() if n == len(runs))
        if always:
            passed[operator] = always
    return passed


def _main() -> None:
    targets = [a for a in sys.argv[1:] if not a.startswith("-")]
    for target in ("", *targets):
        runs = [run_all(weights=w, target=target) for w in (False, True)]
        print(f"\n{target or 'references':28}pass refu wrong")
        passed = _scoreboard(runs)
        for run, what in zip(runs, ("inputs", "weights"), strict=True):
            total = Counter(o.status for o in run)
            print(f"{target or 'references'}, {what}: {dict(total)} of {len(run)}")
            for outcome in run:
                if outcome.status == "wrong":
                    print(f"  wrong: {outcome.name} ({outcome.operator}): {outcome.reason[:200]}")
        if not target and "--write" in sys.argv:
            PASSED.write_text("".join(f"{k}: {' '.join(v)}\n" for k, v in passed.items()))


if __name__ == "__main__":
    _main()
