"""What goes along an axis: softmax, normalisation, reductions."""

from __future__ import annotations

from math import prod

from cannery.ctext.literals import c_float
from cannery.ops.normalization.op import LayerNormalization
from cannery.ops.reduce.op import ReduceMax, ReduceMean, ReduceSum
from cannery.ops.softmax.op import Softmax
from plain_forms.form import Form, index, loops, names_of, row_of_sums, strides_of, write


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
        *row_of_sums(prod(sizes), start),
        *loops(*reduced), *loops(outer, sizes), update.replace("SUM", sums), "}" * len(outer),
        close, *loops(outer, sizes), *at, "float a = sum[at];", last, "FINISH", "y[at] = a;",
        "}" * len(outer),
    ]  # fmt: skip
