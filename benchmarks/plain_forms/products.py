"""Convolutions and matrix products."""

from __future__ import annotations

from math import prod

import numpy as np

from cannery.ops.conv.op import Conv
from cannery.ops.conv_transpose.op import ConvTranspose
from cannery.ops.matmul.op import MatMul
from plain_forms.form import Form, loops, row_of_sums, window, write


@write.register
def _(op: Conv, form: Form) -> list[str]:
    _, _, w, ic = form.shape()
    _, oh, ow, oc = form.output
    kh, kw, taken, _ = form.shape(1)
    weight, bias = form.weight(), form.bias(oc)
    taps = window(op, form.shape(), (kh, kw))
    source, kernel = f"x + (ih * {w} + iw) * {ic}", f"{weight} + (kh * {kw} + kw) * {taken * oc}"
    at, per_group = f"const int at = (oh * {ow} + ow) * {oc} + oc;", oc // op.group
    if form.inner:
        return [
            *loops(["oh", "ow", "oc"], [oh, ow, oc]), f"float a = {bias}[oc];", *taps,
            f"const float *p = {source} + oc / {per_group} * {taken}, *q = {kernel} + oc;",
            f"for (int ic = 0; ic < {taken}; ++ic) a += p[ic] * q[ic * {oc}];",
            "}}}", at, "FINISH", "y[at] = a;", "}}}",
        ]  # fmt: skip
    read = f"p[oc / {per_group} * {taken} + ic]" if op.group > 1 else "p[ic]"
    return [
        *loops(["oh", "ow"], [oh, ow]), *row_of_sums(oc, bias), *taps,
        f"const float *p = {source}, *q = {kernel};",
        f"for (int ic = 0; ic < {taken}; ++ic) for (int oc = 0; oc < {oc}; ++oc)",
        f"sum[oc] += {read} * q[ic * {oc} + oc];", "}}}",
        *loops(["oc"], [oc]), at, "float a = sum[oc];", "FINISH", "y[at] = a;", "}}}",
    ]  # fmt: skip


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
        *head, *row_of_sums(oc, bias),
        f"for (int k = 0; k < {k}; ++k) for (int oc = 0; oc < {oc}; ++oc)",
        f"sum[oc] += p[k] * {element};",
        *loops(["oc"], [oc]), at, "float a = sum[oc];", "FINISH", "y[at] = a;", "}}",
    ]  # fmt: skip
