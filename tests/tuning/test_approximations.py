"""Approximate activations: candidates where MAX_ERROR may allow them, and only there."""

from __future__ import annotations

import numpy as np
import pytest

from cannery.choose.defaults import estimated_options
from cannery.choose.plan import make_segments
from cannery.choose.record import resolve
from cannery.emit.making import make_source
from cannery.ir.graph import Graph, GraphBuilder
from cannery.lowering.assign import assign
from cannery.ops.conv.op import Conv
from cannery.ops.elementwise import Relu, Tanh
from cannery.ops.shared import epilogue
from cannery.schedule.program import Choice
from cannery.schedule.schedule import MATH, all_schedules
from cannery.target.isa import isa
from cannery.tuning.contests import rank

AVX2 = isa("avx2")
FORMS = ("lut1024", "lut256", "lut64", "rational", "table")


def tanh_net() -> Graph:
    builder = GraphBuilder("net")
    x = builder.input("x", (1, 4, 4, 3))
    weight = builder.constant("w", np.ones((1, 1, 3, 8), np.float32))
    y = builder.node(Conv((1, 1), ((0, 0), (0, 0)), (1, 1)), [x, weight], name="conv")
    builder.output(builder.node(Tanh(), [builder.node(Relu(), [y], name="relu")], name="tanh"))
    return builder.build()


def test_forms_are_those_of_the_activations() -> None:
    (segment,) = make_segments(tanh_net())
    assert epilogue.approximations(segment.step) == FORMS


def test_approximate_candidates_need_leave() -> None:
    graph = tanh_net()
    (segment,) = make_segments(graph)
    forms = {r.choice.params.get(MATH) for r in rank(graph, segment.step, AVX2, inexact=True)}
    assert forms == {None, *FORMS}
    assert not any(r.choice.inexact for r in rank(graph, segment.step, AVX2, inexact=False))
    options = estimated_options(graph, segment.step, AVX2, inexact=True)
    assert not any(option.choice.inexact for option in options)


def test_a_form_changes_that_activation_only() -> None:
    graph = tanh_net()
    (segment,) = make_segments(graph)
    schedule = all_schedules()["conv.direct_oc"]
    params = schedule.candidates(graph, segment.step, AVX2)[0]
    code = []
    for choice in (Choice(schedule, params), Choice(schedule, {**params, MATH: "rational"})):
        program = assign(graph, (segment.step,), (choice,), AVX2)
        code.append(make_source(program, AVX2, "net", {}).calls[-1].kernel.code)
    assert "_tanh(" in code[0]
    assert "_tanh_rational(" in code[1]
    assert code[0].count("_max(") == code[1].count("_max(")


@pytest.mark.parametrize(("form", "by_table"), [("", False), ("rational", False), ("lut256", True)])
def test_kernels_by_table_need_its_header(form: str, by_table: bool) -> None:
    graph = tanh_net()
    (segment,) = make_segments(graph)
    schedule = all_schedules()["conv.direct_oc"]
    params = {**schedule.candidates(graph, segment.step, AVX2)[0], MATH: form}
    program = assign(graph, (segment.step,), (Choice(schedule, params),), AVX2)
    kernel = make_source(program, AVX2, "net", {}).calls[-1].kernel
    assert kernel.needs_table == by_table
    assert ("_by_table(" in kernel.code) == by_table


def test_a_record_may_name_a_form_that_the_step_has() -> None:
    graph = tanh_net()
    (segment,) = make_segments(graph)
    schedule = all_schedules()["conv.direct_oc"]
    params = {**schedule.candidates(graph, segment.step, AVX2)[0], MATH: "rational"}
    found = resolve(graph, segment.step, AVX2, schedule.id, schedule.version, params)
    assert found == (schedule, params)
    wrong = resolve(
        graph, segment.step, AVX2, schedule.id, schedule.version, {**params, MATH: "schraudolph"}
    )
    assert wrong == "no activation of the step has a form 'schraudolph'"
