"""Element by element: arithmetic, conversion, movement."""

from __future__ import annotations

from cannery.ctext.environment import input_name
from cannery.ctext.literals import c_float
from cannery.ir.registry import Elementwise
from cannery.ops.movement.op import Cast, Pad, Slice, Transpose
from plain_forms.form import Form, index, loops, names_of, place, strides_of, write


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
