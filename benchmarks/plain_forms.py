"""The loops that a person would write for a layer, as a schedule, to measure others against.

Scalar C over dense channels-last tensors with literal sizes. Sums have two forms, of which the
faster counts: `inner` accumulates one output at a time, `outer` adds each input to a row of
outputs, which compilers can vectorise without reordering sums.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import singledispatch
from math import prod

import numpy as np
from numpy.typing import NDArray

from cannery.emit.environment import input_name
from cannery.emit.literals import c_float
from cannery.ir.graph import Graph
from cannery.ir.tensor import DType
from cannery.layouts import Want, nhwc
from cannery.ops.average_pool.op import AveragePool
from cannery.ops.conv.op import Conv
from cannery.ops.conv_transpose.op import ConvTranspose
from cannery.ops.matmul.op import MatMul
from cannery.ops.max_pool.op import MaxPool
from cannery.ops.movement.op import Cast, Pad, Slice, Transpose
from cannery.ops.normalization.op import LayerNormalization
from cannery.ops.reduce.op import ReduceMax, ReduceMean, ReduceSum
from cannery.ops.registry import Elementwise, Op
from cannery.ops.resize.op import Resize
from cannery.ops.shared import epilogue as epilogues
from cannery.ops.shared.function import parameter_names, signature
from cannery.ops.shared.lanes import Vec
from cannery.ops.softmax.op import Softmax
from cannery.schedule.program import Step
from cannery.schedule.schedule import ConstArray, Estimate, Job, Kernel, Params, Schedule
from cannery.target.isa import Isa

_SCALAR = Vec(0, 1, 1, 0)


@dataclass
class Form:
    """The loops of one step under construction. `lines` hold FINISH where the epilogue goes.

    It turns `a`, the value of output `at` in channel `oc`, into the final value.
    """

    job: Job
    constants: list[ConstArray]

    def array(self, suffix: str, values: NDArray[np.generic]) -> str:
        """The name of a constant array."""
        name = f"{self.job.symbol}_{suffix}"
        self.constants.append(ConstArray(name, np.ascontiguousarray(values)))
        return name

    def weight(self) -> str:
        """The anchor's second input."""
        return self.array("w", self.job.constant(self.job.step.anchor.inputs[1]))

    def bias(self, channels: int) -> str:
        """The anchor's third input, or zeros."""
        inputs = self.job.step.anchor.inputs
        if len(inputs) > 2 and inputs[2]:
            return self.array("b", self.job.constant(inputs[2]))
        return self.array("b", np.zeros(channels, np.float32))

    @property
    def inner(self) -> bool:
        """Which of the two forms."""
        return self.job.params["form"] == "inner"

    def shape(self, number: int = 0) -> tuple[int, ...]:
        """The shape of an input of the anchor."""
        return self.job.type(self.job.step.anchor.inputs[number]).shape

    @property
    def output(self) -> tuple[int, ...]:
        """The shape of the output."""
        return self.job.type(self.job.step.output).shape


def loops(names: Sequence[str], sizes: Sequence[int]) -> list[str]:
    """Heads of nested loops, each with its brace."""
    return [f"for (int {n} = 0; {n} < {s}; ++{n}) {{" for n, s in zip(names, sizes, strict=True)]


def index(names: Sequence[str], strides: Sequence[int]) -> str:
    """`i * 12 + j`."""
    terms = [f"{n} * {s}" for n, s in zip(names, strides, strict=True) if s]
    return " + ".join(terms) or "0"


def strides_of(shape: Sequence[int]) -> list[int]:
    """Elements from one index to the next, row-major."""
    return [prod(shape[k + 1 :]) for k in range(len(shape))]


def names_of(shape: Sequence[int], letter: str = "i") -> list[str]:
    """One loop variable per axis."""
    return [f"{letter}{k}" for k in range(len(shape))]


def place(names: Sequence[str], shape: Sequence[int]) -> list[str]:
    """Definitions of `at` and `oc` for an output index."""
    return [
        f"const int at = {index(names, strides_of(shape))};",
        f"const int oc = {names[-1]}; (void)oc;",
    ]


@singledispatch
def write(op: Op, form: Form) -> list[str] | None:
    """The body of a step's function; None for an operator without a form."""
    return None


@write.register
def _(op: Conv, form: Form) -> list[str]:
    _, _, w, ic = form.shape()
    _, oh, ow, oc = form.output
    kh, kw, taken, _ = form.shape(1)
    weight, bias = form.weight(), form.bias(oc)
    taps = _window(op, form.shape(), (kh, kw))
    window, kernel = f"x + (ih * {w} + iw) * {ic}", f"{weight} + (kh * {kw} + kw) * {taken * oc}"
    at, per_group = f"const int at = (oh * {ow} + ow) * {oc} + oc;", oc // op.group
    if form.inner:
        return [
            *loops(["oh", "ow", "oc"], [oh, ow, oc]), f"float a = {bias}[oc];", *taps,
            f"const float *p = {window} + oc / {per_group} * {taken}, *q = {kernel} + oc;",
            f"for (int ic = 0; ic < {taken}; ++ic) a += p[ic] * q[ic * {oc}];",
            "}}}", at, "FINISH", "y[at] = a;", "}}}",
        ]  # fmt: skip
    read = f"p[oc / {per_group} * {taken} + ic]" if op.group > 1 else "p[ic]"
    return [
        *loops(["oh", "ow"], [oh, ow]), *_row(oc, bias), *taps,
        f"const float *p = {window}, *q = {kernel};",
        f"for (int ic = 0; ic < {taken}; ++ic) for (int oc = 0; oc < {oc}; ++oc)",
        f"sum[oc] += {read} * q[ic * {oc} + oc];", "}}}",
        *loops(["oc"], [oc]), at, "float a = sum[oc];", "FINISH", "y[at] = a;", "}}}",
    ]  # fmt: skip


def _row(count: int, start: str) -> list[str]:
    """A row of sums that begins with the elements of an array, or with a number."""
    value = start if start[0].isdigit() else f"{start}[oc]"
    return [f"float sum[{count}];", f"for (int oc = 0; oc < {count}; ++oc) sum[oc] = {value};"]


def _window(
    op: Conv | MaxPool | AveragePool, shape: Sequence[int], kernel: Sequence[int]
) -> list[str]:
    """Three braces: the loops over taps, and the test that the tap lies within the input."""
    _, h, w, _ = shape
    (sh, sw), (dh, dw) = op.strides, op.dilations
    return [
        *loops(["kh", "kw"], kernel),
        f"const int ih = oh * {sh} + kh * {dh} - {op.pads[0][0]};",
        f"const int iw = ow * {sw} + kw * {dw} - {op.pads[1][0]};",
        f"if (ih >= 0 && ih < {h} && iw >= 0 && iw < {w}) {{",
    ]


@write.register
def _(op: ConvTranspose, form: Form) -> list[str] | None:
    """Scattered into the output, which the epilogue then passes over."""
    if op.group > 1:
        return None
    _, h, w, ic = form.shape()
    _, oh, ow, oc = form.output
    kernel = form.shape(1)[:2]
    weight = form.array("w", np.swapaxes(form.job.constant(form.job.step.anchor.inputs[1]), 2, 3))
    bias = form.bias(oc)
    (sh, sw), (dh, dw) = op.strides, op.dilations
    return [
        *loops(["r", "oc"], [oh * ow, oc]), f"y[r * {oc} + oc] = {bias}[oc];", "}}",
        *loops(["ih", "iw", "kh", "kw"], [h, w, *kernel]),
        f"const int oh = ih * {sh} + kh * {dh} - {op.pads[0][0]};",
        f"const int ow = iw * {sw} + kw * {dw} - {op.pads[1][0]};",
        f"if (oh >= 0 && oh < {oh} && ow >= 0 && ow < {ow})",
        f"for (int ic = 0; ic < {ic}; ++ic) for (int oc = 0; oc < {oc}; ++oc)",
        f"y[(oh * {ow} + ow) * {oc} + oc] += x[(ih * {w} + iw) * {ic} + ic]"
        f" * {weight}[((kh * {kernel[1]} + kw) * {ic} + ic) * {oc} + oc];",
        "}}}}",
        *loops(["r", "oc"], [oh * ow, oc]), f"const int at = r * {oc} + oc;",
        "float a = y[at];", "FINISH", "y[at] = a;", "}}",
    ]  # fmt: skip


@write.register
def _(op: MatMul, form: Form) -> list[str] | None:
    if op.transpose_a or len(form.shape(1)) != 2:
        return None
    k, oc = form.shape()[-1], form.output[-1]
    rows = prod(form.output) // oc
    weight, bias = form.weight(), form.bias(oc)
    along, across = (1, k) if op.transpose_b else (oc, 1)
    element = f"{weight}[k * {along} + oc * {across}]"
    head = [*loops(["r"], [rows]), f"const float *p = x + r * {k};"]
    at = f"const int at = r * {oc} + oc;"
    if form.inner:
        return [
            *head, *loops(["oc"], [oc]), f"float a = {bias}[oc];",
            f"for (int k = 0; k < {k}; ++k) a += p[k] * {element};",
            at, "FINISH", "y[at] = a;", "}}",
        ]  # fmt: skip
    return [
        *head, *_row(oc, bias),
        f"for (int k = 0; k < {k}; ++k) for (int oc = 0; oc < {oc}; ++oc)",
        f"sum[oc] += p[k] * {element};",
        *loops(["oc"], [oc]), at, "float a = sum[oc];", "FINISH", "y[at] = a;", "}}",
    ]  # fmt: skip


@write.register
def _(op: MaxPool, form: Form) -> list[str]:
    return _pool(op, form, "-3.4e38f", "a = v > a ? v : a;", "")


@write.register
def _(op: AveragePool, form: Form) -> list[str]:
    divisor = str(prod(op.kernel)) if op.count_include_pad else "(float)count"
    return _pool(op, form, "0.0f", "a += v; ++count;", f"(void)count; a /= {divisor};")


def _pool(op: MaxPool | AveragePool, form: Form, start: str, update: str, last: str) -> list[str]:
    _, _, w, c = form.shape()
    _, oh, ow, oc = form.output
    count = ["int count = 0;"] if last else []
    return [
        *loops(["oh", "ow", "oc"], [oh, ow, oc]), f"float a = {start};", *count,
        *_window(op, form.shape(), op.kernel), f"const float v = x[(ih * {w} + iw) * {c} + oc];",
        update, "}}}", last, f"const int at = (oh * {ow} + ow) * {oc} + oc;",
        "FINISH", "y[at] = a;", "}}}",
    ]  # fmt: skip


@write.register
def _(op: Softmax, form: Form) -> list[str] | None:
    c = form.output[-1]
    if op.axis != len(form.output) - 1:
        return None
    return [
        *loops(["r"], [prod(form.output) // c]), f"const float *p = x + r * {c};",
        "float top = p[0], sum = 0.0f;",
        f"for (int oc = 1; oc < {c}; ++oc) top = p[oc] > top ? p[oc] : top;", f"float e[{c}];",
        f"for (int oc = 0; oc < {c}; ++oc) {{ e[oc] = f32x1_exp(p[oc] - top); sum += e[oc]; }}",
        *loops(["oc"], [c]), f"const int at = r * {c} + oc;", "float a = e[oc] / sum;",
        "FINISH", "y[at] = a;", "}}",
    ]  # fmt: skip


@write.register
def _(op: LayerNormalization, form: Form) -> list[str] | None:
    c = form.output[-1]
    if op.axes != (len(form.output) - 1,):
        return None
    factors = []
    for suffix, name in zip(("w", "b"), form.job.step.anchor.inputs[1:], strict=False):
        if name:
            array = form.array(suffix, form.job.constant(name))
            factors.append(f"a {'*' if suffix == 'w' else '+'}= {array}[oc];")
    return [
        *loops(["r"], [prod(form.output) // c]), f"const float *p = x + r * {c};",
        "float mean = 0.0f, var = 0.0f;",
        f"for (int k = 0; k < {c}; ++k) mean += p[k];", f"mean /= {c};",
        f"for (int k = 0; k < {c}; ++k) var += (p[k] - mean) * (p[k] - mean);",
        f"const float scale = 1.0f / f32x1_sqrt(var / {c} + {c_float(op.epsilon)});",
        *loops(["oc"], [c]), f"const int at = r * {c} + oc;", "float a = (p[oc] - mean) * scale;",
        *factors, "FINISH", "y[at] = a;", "}}",
    ]  # fmt: skip


@write.register
def _(op: Resize, form: Form) -> list[str] | None:
    """Rows, columns and weights from tables."""
    _, h, w, c = form.shape()
    _, oh, ow, _ = form.output
    tables = []
    for axis, size in ((0, h), (1, w)):
        samples = op.samples(axis, size)
        tables.append(
            [
                form.array(f"low{axis}", np.array([s.low for s in samples], np.int32)),
                form.array(f"high{axis}", np.array([s.high for s in samples], np.int32)),
                form.array(f"weight{axis}", np.array([s.weight for s in samples], np.float32)),
            ]
        )
    (low, high, weight), (left, right, part) = tables

    def at(row: str, column: str) -> str:
        return f"x[({row}[oh] * {w} + {column}[ow]) * {c} + oc]"

    value = [f"float a = {at(low, left)};"]
    if op.mode == "linear":
        value = [
            f"const float u = {part}[ow], v = {weight}[oh];",
            f"const float s = {at(low, left)} * (1.0f - u) + {at(low, right)} * u;",
            f"const float t = {at(high, left)} * (1.0f - u) + {at(high, right)} * u;",
            "float a = s * (1.0f - v) + t * v;",
        ]
    return [
        *loops(["oh", "ow", "oc"], [oh, ow, c]), *value,
        f"const int at = (oh * {ow} + ow) * {c} + oc;", "FINISH", "y[at] = a;", "}}}",
    ]  # fmt: skip


@write.register(ReduceMean)
@write.register(ReduceSum)
@write.register(ReduceMax)
def _(op: ReduceMean | ReduceSum | ReduceMax, form: Form) -> list[str] | None:
    shape = form.shape()
    steps, names = strides_of(shape), names_of(shape)
    kept = [k for k in range(len(shape)) if k not in op.axes]
    sizes = [shape[k] for k in kept] or [1]
    outer = [names[k] for k in kept] or ["one"]
    reduced = [names[k] for k in op.axes], [shape[k] for k in op.axes]
    top = isinstance(op, ReduceMax)
    start = "-3.4e38f" if top else "0.0f"
    element = f"x[{index(names, steps)}]"
    update = "SUM = ELEMENT > SUM ? ELEMENT : SUM;" if top else "SUM += ELEMENT;"
    update = update.replace("ELEMENT", element)
    count = prod(reduced[1])
    last = f"a /= {count};" if isinstance(op, ReduceMean) else ""
    # The epilogue counts channels of the output, where reduced axes may be ones.
    at = [f"const int at = {index(outer, strides_of(sizes))};",
          f"const int oc = at % {form.output[-1]}; (void)oc;"]  # fmt: skip
    close = "}" * len(reduced[0])
    if form.inner:
        return [
            *loops(outer, sizes), f"float a = {start};", *loops(*reduced),
            update.replace("SUM", "a"), close, last, *at, "FINISH", "y[at] = a;", "}" * len(outer),
        ]  # fmt: skip
    sums = f"sum[{index(outer, strides_of(sizes))}]"
    return [
        *_row(prod(sizes), start),
        *loops(*reduced), *loops(outer, sizes), update.replace("SUM", sums), "}" * len(outer),
        close, *loops(outer, sizes), *at, "float a = sum[at];", last, "FINISH", "y[at] = a;",
        "}" * len(outer),
    ]  # fmt: skip


@write.register
def _(op: Elementwise, form: Form) -> list[str] | None:
    shape, node = form.output, form.job.step.anchor
    names = names_of(shape)
    arguments = []
    for number, value in enumerate(node.inputs):
        own = form.job.type(value).shape
        padded = (1,) * (len(shape) - len(own)) + own
        steps = [0 if d == 1 else s for d, s in zip(padded, strides_of(padded), strict=True)]
        if value in form.job.graph.constants:
            pointer = form.array(f"c{number}", form.job.constant(value).reshape(-1))
        else:
            pointer = input_name(form.job.step.inputs.index(value))
        arguments.append(f"const float v{number} = {pointer}[{index(names, steps)}];")
    result = op.c("f32x1", *(f"v{k}" for k in range(len(arguments))))
    return [
        *loops(names, shape), *place(names, shape), *arguments, f"float a = {result};",
        "FINISH", "y[at] = a;", "}" * len(shape),
    ]  # fmt: skip


@write.register
def _(op: Cast, form: Form) -> list[str] | None:
    shape = form.output
    names = names_of(shape)
    source = f"(float)x[{index(names, strides_of(shape))}]"
    return [
        *loops(names, shape), *place(names, shape), f"float a = {source};", "FINISH",
        "y[at] = a;", "}" * len(shape),
    ]  # fmt: skip


@write.register
def _(op: Transpose, form: Form) -> list[str] | None:
    steps = strides_of(form.shape())
    return _copy(form, index(names_of(form.output), [steps[p] for p in op.perm]))


@write.register
def _(op: Slice, form: Form) -> list[str] | None:
    steps = strides_of(form.shape())
    first = sum(start * step for start, step in zip(op.starts, steps, strict=True))
    strides = [step * s for step, s in zip(steps, op.steps, strict=True)]
    return _copy(form, f"{first} + {index(names_of(form.output), strides)}")


@write.register
def _(op: Pad, form: Form) -> list[str] | None:
    if op.mode != "constant" or any(p < 0 for pair in op.pads for p in pair):
        return None
    names, steps = names_of(form.output), strides_of(form.shape())
    tests = [
        f"{n} >= {a} && {n} < {a + d}"
        for n, (a, b), d in zip(names, op.pads, form.shape(), strict=True)
        if a or b
    ]
    first = sum(a * step for (a, _), step in zip(op.pads, steps, strict=True))
    element = f"x[{index(names, steps)} - {first}]"
    return _copy(form, "", f"{' && '.join(tests)} ? {element} : {c_float(op.value)}")


def _copy(form: Form, source: str, value: str = "") -> list[str]:
    shape = form.output
    names = names_of(shape)
    return [
        *loops(names, shape), *place(names, shape), f"float a = {value or f'x[{source}]'};",
        "FINISH", "y[at] = a;", "}" * len(shape),
    ]  # fmt: skip


#: Operators whose sums have both forms.
_SUMS = (Conv, MatMul, ReduceMean, ReduceSum, ReduceMax)
_WINDOWS = (Conv, ConvTranspose, MaxPool, AveragePool, Resize)


@dataclass(frozen=True)
class PlainLoops(Schedule):
    """See the module's text; a chain is its parts, one after the other."""

    id = "plain.loops"

    def why_not(self, graph: Graph, step: Step, isa: Isa) -> str:
        """Whether all parts have a form."""
        reasons = (self._why_not(graph, part, isa) for part in step.parts or (step,))
        return next(filter(None, reasons), "")

    def _why_not(self, graph: Graph, step: Step, isa: Isa) -> str:
        op = step.anchor.op
        if len(step.outputs) != 1 or not epilogues.step_supports(step):
            return "no plain form"
        if isinstance(op, _WINDOWS) and graph.types[step.output].rank != 4:
            return "not two-dimensional"
        floats = all(graph.types[v].dtype is DType.FLOAT32 for v in (*step.inputs, step.output))
        if not floats and not isinstance(op, Cast):
            return "not of floats"
        if isinstance(op, (Conv, ConvTranspose, MatMul)):
            constants = all(i in graph.constants for i in step.anchor.inputs[1:] if i)
            if not constants:
                return "weights are not constant"
        types = tuple(self.reads(graph, step, {}, isa)) + tuple(self.writes(graph, step, {}, isa))
        layouts = (nhwc.make((1, 1, 1)),) * len(types)
        inputs = len(step.inputs)
        params = {"form": "inner"}
        job = Job(graph, step, isa, params, "probe", layouts[:inputs], layouts[inputs:])
        return "" if write(op, Form(job, [])) is not None else "no plain form"

    def candidates(self, graph: Graph, step: Step, isa: Isa) -> Sequence[Params]:
        """One form, or both."""
        both = any(isinstance(node.op, _SUMS) for node in step.anchors)
        return [{"form": "inner"}, *([{"form": "outer"}] if both else [])]

    def reads(self, graph: Graph, step: Step, params: Params, isa: Isa) -> tuple[Want, ...]:
        """Dense inputs."""
        return tuple(Want(dense=True) for _ in step.inputs)

    def writes(self, graph: Graph, step: Step, params: Params, isa: Isa) -> tuple[Want, ...]:
        """Dense outputs."""
        return (Want(dense=True),)

    def cost(self, graph: Graph, step: Step, params: Params, isa: Isa) -> Estimate:
        """Nothing is chosen by it."""
        return Estimate(float(step.macs(graph)))

    def kernel(self, job: Job) -> Kernel:
        """The loops, compiled with -O3 whatever the rest is compiled with.

        The compiler may make vectors of them wherever the flags of the target let it, as it may of
        generated code: also for the instruction set `generic`, on a processor that has vectors.
        """
        code, constants = self._step(job)
        scratch = 0
        if job.step.parts:
            code, constants, scratch = self._chain(job)
        text = '#pragma GCC push_options\n#pragma GCC optimize ("O3")\n'
        text += f"{code}\n#pragma GCC pop_options\n"
        return Kernel(text, constants, scratch, needs_math=True)

    def _step(self, job: Job) -> tuple[str, tuple[ConstArray, ...]]:
        if job.step.parts:
            return "", ()
        form = Form(job, [])
        lines = write(job.step.anchor.op, form)
        assert lines is not None
        ep = epilogues.build(job, job.step.anchor.output)
        finish = " ".join(ep.apply(_SCALAR, "a", "oc", _tensor(job)))
        body = "\n".join(line.replace("FINISH", finish) for line in lines)
        return f"{signature(job)}\n{{\n{body}\n}}", (*form.constants, *ep.constants)

    def _chain(self, job: Job) -> tuple[str, tuple[ConstArray, ...], int]:
        """A function per part, and one that calls them; values between them in scratch memory."""
        known = dict(zip(job.step.inputs, parameter_names(job), strict=False))
        texts: list[str] = []
        constants: list[ConstArray] = []
        calls: list[str] = []
        used = 0
        for number, part in enumerate(job.step.parts):
            symbol = f"{job.symbol}_{number}"
            shapes = [job.type(v).shape for v in (*part.inputs, part.output)]
            layouts = [nhwc.make((1, 1, prod(s))) for s in shapes]
            own = replace(
                job, step=part, symbol=symbol, inputs=tuple(layouts[:-1]),
                outputs=(layouts[-1],),
            )  # fmt: skip
            code, arrays = self._step(own)
            texts.append(code)
            constants += arrays
            if part.output == job.step.output:
                known[part.output] = "y"
            else:
                known[part.output] = f"scratch + {used}"
                used += job.type(part.output).elements
            arguments = ", ".join(known[v] for v in (*part.inputs, part.output))
            calls.append(f"{symbol}({arguments});")
        head = signature(job, scratch=True)
        return "\n".join([*texts, head, "{", *calls, "}"]), tuple(constants), 4 * used


def _tensor(job: Job) -> Callable[[int], str]:
    """The pointer into an input that the epilogue reads."""
    return lambda k: f"{parameter_names(job)[k]} + at"
