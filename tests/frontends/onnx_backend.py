"""The node tests that come inside the onnx package, run on Cannery's reader and references.

`python tests/frontends/onnx_backend.py` prints the scoreboard by operator and why others are
refused; with `--write` it writes the list of what passes, which `test_onnx_backend.py` checks.
"""

from __future__ import annotations

import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

PASSED = Path(__file__).with_name("onnx_backend_passed.txt")

#: Inputs that have to be known when a model is read.
_KNOWN = {
    "Reshape": (1,), "Expand": (1,), "Tile": (1,), "Squeeze": (1,), "Unsqueeze": (1,),
    "Split": (1,), "Slice": (1, 2, 3, 4), "Pad": (1, 2, 3), "Resize": (1, 2, 3), "Upsample": (1,),
    "TopK": (1,), "CumSum": (1,), "CumProd": (1,), "Trilu": (1,), "OneHot": (1,), "Compress": (1,),
    "Dropout": (1, 2), "Range": (0, 1, 2), "ConstantOfShape": (0,), "CenterCropPad": (1,),
    "LSTM": (1, 2, 3, 4, 7), "GRU": (1, 2, 3, 4), "RNN": (1, 2, 3, 4), "If": (0,), "Loop": (0, 1),
    "Col2Im": (1, 2), "DFT": (1, 2), "STFT": (1, 3), "AffineGrid": (1,), "MaxUnpool": (2,),
    "HannWindow": (0,), "HammingWindow": (0,), "BlackmanWindow": (0,),
    "MelWeightMatrix": (0, 1, 2, 3, 4),
    **{f"Reduce{k}": (1,) for k in (
        "Max", "Min", "Mean", "Sum", "Prod", "L1", "L2", "SumSquare", "LogSum", "LogSumExp"
    )},
}  # fmt: skip

#: Operators that are about element types: their cases in double are not run in float instead.
_CONVERSIONS = ("Cast", "CastLike", "BitCast", "EyeLike")

#: Operators whose results are known although their inputs are not.
_KNOWING = ("Shape", "Size")


@dataclass(frozen=True)
class Outcome:
    """How a case went: "passed", "refused" with the reason, or what is wrong."""

    name: str
    operator: str
    status: str
    reason: str = ""


@cache
def cases() -> tuple[Any, ...]:
    """All cases of single nodes and of the functions that define them."""
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return tuple(collect_testcases(None))


def operator_of(case: Any) -> str:
    """The operator that a case is about, after which its generator is called."""
    nodes = case.model.graph.node
    return str(nodes[0].op_type) if len(nodes) == 1 else "(several nodes)"


def _known(model: Any) -> set[str]:
    """The values that have to be known when a model is read."""
    known: set[str] = set()
    for node in reversed(model.graph.node):
        if known & set(node.output) and node.op_type not in _KNOWING:
            known |= set(node.input)
        known |= {node.input[k] for k in _KNOWN.get(node.op_type, ()) if k < len(node.input)}
    return known


def _is_double(array: Any) -> bool:
    return isinstance(array, np.ndarray | np.generic) and array.dtype == np.float64


def _as_float(model: Any) -> None:
    """Every double of a model as a float: cases whose operator is not about doubles."""
    from onnx import TensorProto, numpy_helper

    for value in (*model.graph.input, *model.graph.output):
        if value.type.tensor_type.elem_type == TensorProto.DOUBLE:
            value.type.tensor_type.elem_type = TensorProto.FLOAT
    for node in model.graph.node:
        for attribute in node.attribute:
            if attribute.name in ("to", "dtype") and attribute.i == TensorProto.DOUBLE:
                attribute.i = TensorProto.FLOAT
            if attribute.t.data_type == TensorProto.DOUBLE:
                array = numpy_helper.to_array(attribute.t).astype(np.float32)
                attribute.t.CopyFrom(numpy_helper.from_array(array))


def _with_initializers(case: Any, weights: bool) -> tuple[Any, list[Any]]:
    """The model with inputs turned into initializers, and the inputs that stay.

    `weights` turns all but the first, else only those that have to be known.
    """
    import onnx
    from onnx import numpy_helper

    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    inputs, _ = case.data_sets[0]
    if operator_of(case) not in _CONVERSIONS and not case.name.startswith("test_cast"):
        _as_float(model)
        inputs = [a.astype(np.float32) if _is_double(a) else a for a in inputs]
    given = list(zip([i.name for i in model.graph.input], inputs, strict=True))
    known = _known(model)
    if weights:
        known |= {name for name, _ in given[1:]}
    kept = []
    for name, array in given:
        if name in known and isinstance(array, np.ndarray | np.generic):
            tensor = numpy_helper.from_array(np.asarray(array), name)
            model.graph.initializer.append(tensor)
        else:
            kept.append(array)
    return model, kept


def _compare(found: NDArray[Any], expected: Any, case: Any) -> str:
    """What differs, empty if nothing does."""
    if not isinstance(expected, np.ndarray | np.generic):
        from onnx import numpy_helper

        expected = numpy_helper.to_array(expected)
    if found.shape != expected.shape:
        return f"shape {found.shape}, expected {expected.shape}"
    if found.dtype.kind != expected.dtype.kind:
        return f"elements of {found.dtype}, expected {expected.dtype}"
    wide = [a.astype(np.float64) if a.dtype.kind == "f" else a for a in (found, expected)]
    close = np.allclose(*wide, rtol=case.rtol, atol=case.atol, equal_nan=True)
    return "" if close else "other values"


def run_case(case: Any, folder: Path, *, weights: bool) -> Outcome:
    """One case, read from a file and evaluated by the references."""
    from cannery.errors import CanneryError
    from cannery.frontends import load_graph
    from cannery.ir.evaluate import evaluate
    from cannery.ir.orders import from_model, to_model

    operator = operator_of(case)
    model, arrays = _with_initializers(case, weights)
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    try:
        graph = load_graph(path)
        named = dict(zip(graph.inputs, arrays, strict=True))
        results = to_model(graph, evaluate(graph, from_model(graph, named)))
    except CanneryError as error:
        return Outcome(case.name, operator, "refused", error.what)
    except Exception as error:
        return Outcome(case.name, operator, "wrong", f"{type(error).__name__}: {error}")
    expected = case.data_sets[0][1]
    for found, reference in zip(results.values(), expected, strict=True):
        difference = _compare(found, reference, case)
        if difference:
            return Outcome(case.name, operator, "wrong", difference)
    return Outcome(case.name, operator, "passed")


def run_all(*, weights: bool, names: Sequence[str] = ()) -> list[Outcome]:
    """All cases, or those called `names`."""
    wanted = set(names)
    with tempfile.TemporaryDirectory() as folder, np.errstate(all="ignore"):
        return [
            run_case(case, Path(folder), weights=weights)
            for case in cases()
            if not wanted or case.name in wanted
        ]


def read_passed() -> dict[str, list[str]]:
    """The names of the cases that passed when the list was written, by operator."""
    lines = PASSED.read_text().splitlines()
    return {line.split(": ")[0]: line.split(": ")[1].split() for line in lines}


def _by_operator(outcomes: Sequence[Outcome]) -> Mapping[str, list[Outcome]]:
    found: dict[str, list[Outcome]] = {}
    for outcome in sorted(outcomes, key=lambda o: (o.operator, o.name)):
        found.setdefault(outcome.operator, []).append(outcome)
    return found


def _main() -> None:
    runs = [run_all(weights=False), run_all(weights=True)]
    both: dict[str, list[str]] = {}
    for operator, outcomes in _by_operator([*runs[0], *runs[1]]).items():
        counts = Counter(o.status for o in outcomes)
        reasons = Counter(o.reason for o in outcomes if o.status == "refused")
        told = "; ".join(f"{n}x {r[:110]}" for r, n in reasons.most_common(2))
        line = " ".join(f"{counts[s]:4}" for s in ("passed", "refused", "wrong"))
        print(f"{operator:28}{line}  {told}")
        names = Counter(o.name for o in outcomes if o.status == "passed")
        if [name for name, n in names.items() if n == 2]:
            both[operator] = sorted(name for name, n in names.items() if n == 2)
    for run, what in zip(runs, ("inputs", "weights"), strict=True):
        total = Counter(o.status for o in run)
        print(f"{what}: {dict(total)} of {len(run)}")
        for outcome in run:
            if outcome.status == "wrong":
                print(f"  wrong: {outcome.name} ({outcome.operator}): {outcome.reason[:200]}")
    if "--write" in sys.argv:
        PASSED.write_text("".join(f"{k}: {' '.join(v)}\n" for k, v in both.items()))


if __name__ == "__main__":
    _main()
