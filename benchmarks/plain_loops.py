"""Every layer of a model against plain C loops: the least that generated code has to beat.

    python benchmarks/plain_loops.py MODEL [--isa NAME] [--json]

For each step, Cannery's choice and the loops that a person would write for the same nodes are
timed against each other in one program, interleaved, with the same compiler and flags; the loops
are compiled with -O3. There are two ways to write them, and the faster one counts: `inner`
accumulates an output over the window, `outer` adds each input to a row of outputs (which compilers
can vectorise without reordering sums).
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from cannery.errors import CanneryError
from cannery.ir.graph import Graph, Node
from cannery.layouts import Want, image_dims
from cannery.ops.average_pool.op import AveragePool
from cannery.ops.conv.op import Conv
from cannery.ops.matmul.op import MatMul
from cannery.ops.max_pool.op import MaxPool
from cannery.ops.shared import epilogue as epilogues
from cannery.ops.shared.function import parameter_names, signature
from cannery.ops.shared.lanes import Vec
from cannery.ops.softmax.op import Softmax
from cannery.options import make_options
from cannery.pipeline import choose, import_graph
from cannery.schedule.program import Choice, Step
from cannery.schedule.schedule import ConstArray, Estimate, Job, Kernel, Params, Schedule
from cannery.target.isa import Isa
from cannery.target.toolchain import find_toolchain
from cannery.tune.build import build
from cannery.tune.harness import Candidate, Harness, make_candidate
from cannery.tune.measure import Protocol, check, measure
from cannery.tune.trial import all_data, make_trial, random_inputs

_SCALAR = Vec(0, 1, 1, 0)
_WINDOWS = (Conv, MaxPool, AveragePool)


@dataclass(frozen=True)
class PlainLoops(Schedule):
    """Scalar loops over dense channels-last tensors; `form` is inner or outer."""

    id = "plain.loops"

    def why_not(self, graph: Graph, step: Step, isa: Isa) -> str:
        op = step.anchor.op
        if len(step.anchors) != 1 or not epilogues.step_supports(step):
            return "no plain form"
        if isinstance(op, _WINDOWS):
            return "" if len(op.strides) == 2 else "not two-dimensional"
        if isinstance(op, MatMul):
            return "" if step.anchor.inputs[1] in graph.constants else "two activations"
        if isinstance(op, Softmax):
            last = op.axis == graph.types[step.anchor.output].rank - 1
            return "" if last else "not over the last axis"
        return "no plain form"

    def candidates(self, graph: Graph, step: Step, isa: Isa) -> Sequence[Params]:
        reorders = isinstance(step.anchor.op, (Conv, MatMul))
        return [{"form": "inner"}, *([{"form": "outer"}] if reorders else [])]

    def reads(self, graph: Graph, step: Step, params: Params, isa: Isa) -> tuple[Want, ...]:
        return tuple(Want(dense=True) for _ in step.inputs)

    def writes(self, graph: Graph, step: Step, params: Params, isa: Isa) -> tuple[Want, ...]:
        return (Want(dense=True),)

    def cost(self, graph: Graph, step: Step, params: Params, isa: Isa) -> Estimate:
        return Estimate(float(step.macs(graph)))

    def kernel(self, job: Job) -> Kernel:
        ep = epilogues.build(job, job.step.anchor.output)
        body, constants = _body(job)
        finish = ep.apply(_SCALAR, "a", "oc", lambda k: f"{parameter_names(job)[k]} + at")
        code = "\n".join(
            [
                "#pragma GCC push_options",
                '#pragma GCC optimize ("O3")',
                signature(job),
                "{",
                *(line.replace("FINISH", " ".join(finish)) for line in body),
                "}",
                "#pragma GCC pop_options",
            ]
        )
        return Kernel(code, (*constants, *ep.constants), needs_math=True)


def _array(job: Job, suffix: str, name: str) -> ConstArray:
    return ConstArray(f"{job.symbol}_{suffix}", np.ascontiguousarray(job.constant(name)))


def _bias(job: Job, channels: int) -> ConstArray:
    inputs = job.step.anchor.inputs
    if len(inputs) > 2 and inputs[2]:
        return _array(job, "b", inputs[2])
    return ConstArray(f"{job.symbol}_b", np.zeros(channels, np.float32))


def _body(job: Job) -> tuple[list[str], list[ConstArray]]:
    op = job.step.anchor.op
    if isinstance(op, Conv):
        weight, bias = _array(job, "w", job.step.anchor.inputs[1]), _bias(job, job.output.shape[2])
        return _conv(job, op, weight, bias), [weight, bias]
    if isinstance(op, MatMul):
        weight, bias = _array(job, "w", job.step.anchor.inputs[1]), _bias(job, job.output.shape[2])
        return _matmul(job, op, weight, bias), [weight, bias]
    if isinstance(op, (MaxPool, AveragePool)):
        return _pool(job, op), []
    return _softmax(job), []


def _window_loops(job: Job, node: Node, kernel: Sequence[int]) -> list[str]:
    """The loops over taps, with the test that the tap lies within the input."""
    op = node.op
    assert isinstance(op, _WINDOWS)
    h, w, _ = job.inputs[0].shape
    (sh, sw), (dh, dw) = op.strides, op.dilations
    return [
        f"for (int kh = 0; kh < {kernel[0]}; ++kh) for (int kw = 0; kw < {kernel[1]}; ++kw) {{",
        f"const int ih = oh * {sh} + kh * {dh} - {op.pads[0][0]};",
        f"const int iw = ow * {sw} + kw * {dw} - {op.pads[1][0]};",
        f"if (ih < 0 || ih >= {h} || iw < 0 || iw >= {w}) continue;",
    ]


def _pixels(job: Job) -> list[str]:
    oh, ow, _ = job.output.shape
    return [f"for (int oh = 0; oh < {oh}; ++oh) for (int ow = 0; ow < {ow}; ++ow) {{"]


def _conv(job: Job, op: Conv, weight: ConstArray, bias: ConstArray) -> list[str]:
    _, w, ic = job.inputs[0].shape
    _, ow, oc = job.output.shape
    kh, kw, taken, _ = weight.values.shape
    taps = _window_loops(job, job.step.anchor, (kh, kw))
    window = f"x + (ih * {w} + iw) * {ic}"
    kernel = f"{weight.name} + (kh * {kw} + kw) * {taken * oc}"
    place = f"const int at = (oh * {ow} + ow) * {oc} + oc;"
    per_group = oc // op.group
    if job.params["form"] == "inner":
        return [
            *_pixels(job),
            f"for (int oc = 0; oc < {oc}; ++oc) {{",
            f"float a = {bias.name}[oc];",
            *taps,
            f"const float *p = {window} + oc / {per_group} * {taken}, *q = {kernel} + oc;",
            f"for (int ic = 0; ic < {taken}; ++ic) a += p[ic] * q[ic * {oc}];",
            "}", place, "FINISH", "y[at] = a;", "}", "}",
        ]  # fmt: skip
    return [
        *_pixels(job),
        f"float sum[{oc}];",
        f"for (int oc = 0; oc < {oc}; ++oc) sum[oc] = {bias.name}[oc];",
        *taps,
        f"const float *p = {window}, *q = {kernel};",
        f"for (int ic = 0; ic < {taken}; ++ic)",
        f"for (int oc = 0; oc < {oc}; ++oc)",
        f"sum[oc] += p[oc / {per_group} * {taken} + ic] * q[ic * {oc} + oc];"
        if op.group > 1
        else f"sum[oc] += p[ic] * q[ic * {oc} + oc];",
        "}",
        f"for (int oc = 0; oc < {oc}; ++oc) {{",
        place, "float a = sum[oc];", "FINISH", "y[at] = a;", "}", "}",
    ]  # fmt: skip


def _matmul(job: Job, op: MatMul, weight: ConstArray, bias: ConstArray) -> list[str]:
    h, w, k = job.inputs[0].shape
    oc = job.output.shape[2]
    along, across = (1, k) if op.transpose_b else (oc, 1)
    element = f"{weight.name}[k * {along} + oc * {across}]"
    rows = f"for (int r = 0; r < {h * w}; ++r) {{ const float *p = x + r * {k};"
    place = f"const int at = r * {oc} + oc;"
    if job.params["form"] == "inner":
        return [
            rows, f"for (int oc = 0; oc < {oc}; ++oc) {{", f"float a = {bias.name}[oc];",
            f"for (int k = 0; k < {k}; ++k) a += p[k] * {element};",
            place, "FINISH", "y[at] = a;", "}", "}",
        ]  # fmt: skip
    return [
        rows, f"float sum[{oc}];",
        f"for (int oc = 0; oc < {oc}; ++oc) sum[oc] = {bias.name}[oc];",
        f"for (int k = 0; k < {k}; ++k) for (int oc = 0; oc < {oc}; ++oc)",
        f"sum[oc] += p[k] * {element};",
        f"for (int oc = 0; oc < {oc}; ++oc) {{",
        place, "float a = sum[oc];", "FINISH", "y[at] = a;", "}", "}",
    ]  # fmt: skip


def _pool(job: Job, op: MaxPool | AveragePool) -> list[str]:
    _, w, c = job.inputs[0].shape
    _, ow, oc = job.output.shape
    is_max = isinstance(op, MaxPool)
    update = "if (v > a) a = v;" if is_max else "a += v; ++count;"
    counted = isinstance(op, AveragePool) and op.count_include_pad
    divisor = str(op.kernel[0] * op.kernel[1]) if counted else "(float)count"
    return [
        *_pixels(job),
        f"for (int oc = 0; oc < {oc}; ++oc) {{",
        f"float a = {'-3.4e38f' if is_max else '0.0f'};",
        *([] if is_max else ["int count = 0;"]),
        *_window_loops(job, job.step.anchor, op.kernel),
        f"const float v = x[(ih * {w} + iw) * {c} + oc];", update, "}",
        *([] if is_max else [f"(void)count; a /= {divisor};"]),
        f"const int at = (oh * {ow} + ow) * {oc} + oc;", "FINISH", "y[at] = a;", "}", "}",
    ]  # fmt: skip


def _softmax(job: Job) -> list[str]:
    h, w, c = job.output.shape
    return [
        f"for (int r = 0; r < {h * w}; ++r) {{",
        f"const float *p = x + r * {c};",
        "float top = p[0], sum = 0.0f;",
        f"for (int oc = 1; oc < {c}; ++oc) if (p[oc] > top) top = p[oc];",
        f"float e[{c}];",
        f"for (int oc = 0; oc < {c}; ++oc) {{ e[oc] = f32x1_exp(p[oc] - top); sum += e[oc]; }}",
        f"for (int oc = 0; oc < {c}; ++oc) {{",
        f"const int at = r * {c} + oc;", "float a = e[oc] / sum;", "FINISH", "y[at] = a;", "}", "}",
    ]  # fmt: skip


@dataclass(frozen=True)
class Row:
    """One step: microseconds of Cannery's choice and of the better plain form."""

    layer: str
    op: str
    macs: int
    choice: str
    us: float
    plain: str
    plain_us: float

    @property
    def ratio(self) -> float:
        """How many times faster than the loops."""
        return self.plain_us / self.us


def compare(model: Path, raw: dict[str, object], protocol: Protocol) -> list[Row]:
    """Times every step that has a plain form; raises CanneryError as the tool does."""
    options = make_options(model, raw)
    graph = import_graph(options)
    toolchain = find_toolchain(options)
    isa = toolchain.target.isa
    chosen = choose(graph, toolchain.target, options)
    steps, choices = chosen.steps, chosen.choices
    data = all_data(graph, steps, random_inputs(graph))
    plain = PlainLoops()
    harness = Harness(isa)
    candidates: list[Candidate] = []
    contests: list[tuple[Step, Choice]] = []
    for step, choice, known in zip(steps, choices, data, strict=True):
        if plain.why_not(graph, step, isa) or image_dims(graph.types[step.output])[0] != 1:
            continue
        entries = [(choice.schedule, choice.params)]
        entries += [(plain, params) for params in plain.candidates(graph, step, isa)]
        for schedule, params in entries:
            trial = make_trial(graph, step, schedule, params, isa, known)
            if trial is not None:
                number = len(candidates)
                candidates.append(make_candidate(trial, number, len(contests)))
        contests.append((step, choice))
    with tempfile.TemporaryDirectory(prefix="cannery-plain-") as folder:
        built = build(Path(folder), harness, candidates, toolchain)
        runner = toolchain.runners()[0]
        for symbol, verdict in check(built, runner).items():
            if verdict.fault or verdict.error > 1e-3:
                print(f"{symbol}: {verdict.fault or verdict.error}", file=sys.stderr)
        times = measure(built, runner, protocol)
    rows = []
    for number, (step, choice) in enumerate(contests):
        group = [c for c in candidates if c.contest == number and c.symbol in times]
        ours = [c for c in group if c.trial.choice.schedule.id != plain.id]
        loops = [c for c in group if c.trial.choice.schedule.id == plain.id]
        if not ours or not loops:
            continue
        best = min(loops, key=lambda c: times[c.symbol].us)
        rows.append(
            Row(
                step.name, step.kind, step.macs(graph), str(choice), times[ours[0].symbol].us,
                str(best.trial.choice.params["form"]), times[best.symbol].us,
            )
        )  # fmt: skip
    return rows


def main() -> int:
    """Prints a table, slowest ratio first; exit code 1 if a layer is slower than its loops."""
    parser = argparse.ArgumentParser(description="Every layer against plain C loops.")
    parser.add_argument("model", type=Path)
    parser.add_argument("--isa")
    parser.add_argument("--target")
    parser.add_argument("--tuning", type=Path)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    raw = {
        "isa": (arguments.isa,) if arguments.isa else (),
        "target": arguments.target,
        "tuning": arguments.tuning,
    }
    try:
        rows = compare(arguments.model, raw, replace(Protocol(), limit=20.0))
    except CanneryError as error:
        print(f"plain_loops: error: {error}", file=sys.stderr)
        return 2
    rows.sort(key=lambda row: row.ratio)
    if arguments.json:
        print(json.dumps([{**row.__dict__, "ratio": row.ratio} for row in rows], indent=2))
    else:
        print(f"{'layer':32} {'op':10} {'MAC':>9} {'us':>9} {'plain us':>9} {'ratio':>6}  choice")
        for row in rows:
            print(
                f"{row.layer[:32]:32} {row.op[:10]:10} {row.macs:9d} {row.us:9.3f} "
                f"{row.plain_us:9.3f} {row.ratio:6.2f}  {row.choice} (plain: {row.plain})"
            )
    return 1 if any(row.ratio < 1.0 for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
