"""Pooling and resizing."""

from __future__ import annotations

from math import prod

import numpy as np

from cannery.ops.average_pool.op import AveragePool
from cannery.ops.max_pool.op import MaxPool
from cannery.ops.resize.op import Resize
from plain_forms.form import Form, loops, window, write


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
        *window(op, form.shape(), op.kernel), f"const float v = x[(ih * {w} + iw) * {c} + oc];",
        update, "}}}", last, f"const int at = (oh * {ow} + ow) * {oc} + oc;",
        "FINISH", "y[at] = a;", "}}}",
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
