"""What candidates are tried on: data of the right types, inputs and outputs in one place."""

from __future__ import annotations

import numpy as np
import pytest

from cannery.ir.graph import Graph
from cannery.ir.tensor import DType
from cannery.lowering.lower import cut
from cannery.measure.trial import Placing, all_data, make_trial, random_inputs
from cannery.ops.elementwise import Relu
from cannery.ops.movement.op import Cast
from cannery.schedule.schedule import all_schedules
from cannery.target.isa import isa
from ops.cases import Net


def relu() -> Graph:
    net = Net()
    return net.graph(net.node(Relu(), [net.input("x", (1, 4, 5, 3))]))


@pytest.mark.parametrize("dtype", [DType.FLOAT32, DType.UINT8, DType.INT16, DType.INT64])
def test_data_has_the_types_of_the_values(dtype: DType) -> None:
    net = Net()
    x = net.input("x", (1, 3, 4, 2), dtype)
    graph = net.graph(net.node(Relu(), [net.node(Cast(DType.FLOAT32), [x])]))
    steps = cut(graph)
    for step, data in zip(steps, all_data(graph, steps, random_inputs(graph)), strict=True):
        for values, arrays in ((step.inputs, data.inputs), (step.outputs, data.outputs)):
            for value, array in zip(values, arrays, strict=True):
                assert array.dtype == graph.types[value].dtype.numpy
                assert array.flags.c_contiguous


def test_inputs_are_what_kernels_get() -> None:
    """Outputs are those of the rounded inputs, not of the exact ones."""
    graph = relu()
    steps = cut(graph)
    third = {"x": np.full((1, 4, 5, 3), 1 / 3)}
    (data,) = all_data(graph, steps, third)
    assert np.array_equal(data.inputs[0], np.full((1, 4, 5, 3), np.float32(1 / 3)))
    assert np.array_equal(data.outputs[0], data.inputs[0])


@pytest.mark.parametrize("source", ["nhwc", "planar"])
@pytest.mark.parametrize("target", ["nhwc", "planar"])
def test_in_place_only_where_layouts_are_the_same(source: str, target: str) -> None:
    graph = relu()
    steps = cut(graph)
    (data,) = all_data(graph, steps, random_inputs(graph))
    schedule = all_schedules()["movement.strided"]
    params = {"from": source, "to": target}
    trial = make_trial(
        graph, steps[0], schedule, params, isa("sse2"), data, placing=Placing.IN_PLACE
    )
    assert (trial is not None) is (source == target)
    if trial is not None:
        assert trial.in_place == 0
        assert trial.job("f").in_place == {0}
