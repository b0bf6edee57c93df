"""The network as an ONNX file that viewers read."""

from __future__ import annotations

import sys

import pytest

from cannery.emit.source import Source
from cannery.errors import CanneryError
from cannery.reporting.facts import network_facts
from cannery.reporting.onnx_picture import DOMAIN, onnx_picture
from reporting.examples import measured, source
from reporting.test_facts import random_source

onnx = pytest.importorskip("onnx")


def picture(net: Source, *, timed: bool = True) -> onnx.ModelProto:
    """The file as it is read again, and found to be sound."""
    facts = network_facts(net)
    model = onnx.load_from_string(onnx_picture(net, facts, measured(facts, timed=timed)))
    onnx.checker.check_model(model, full_check=True)
    return model


def test_choices_are_metadata() -> None:
    net = source()
    facts, model = network_facts(net), picture(net)
    assert [node.op_type for node in model.graph.node] == [layer.kind for layer in facts.layers]
    assert {node.domain for node in model.graph.node} == {DOMAIN}
    for node, layer in zip(model.graph.node, facts.layers, strict=True):
        found = {entry.key: entry.value for entry in node.metadata_props}
        assert found["schedule"] == layer.schedule and found["computes"] == ", ".join(layer.nodes)
        assert found["time"].endswith(" us") and found["error"] == "1e-07"
        assert found["writes as"] == "; ".join(layer.writes)
    about = {entry.key: entry.value for entry in model.metadata_props}
    assert about["workspace"] == f"{facts.workspace_bytes:,} bytes"
    (scores,) = model.graph.output
    assert [d.dim_value for d in scores.type.tensor_type.shape.dim] == [1, 3]


def test_what_is_unknown_is_left_out() -> None:
    for node in picture(source(), timed=False).graph.node:
        assert not {"time", "roofline"} & {entry.key for entry in node.metadata_props}


@pytest.mark.parametrize("seed", range(40))
def test_random_networks_are_sound(seed: int) -> None:
    """The checker sees that each value is made once, and before it is read."""
    net = random_source(seed)
    graph = picture(net).graph
    read = {name for node in graph.node for name in node.input}
    made = {name for node in graph.node for name in node.output}
    assert read <= made | {value.name for value in graph.input}
    assert {value.name for value in graph.output} <= made
    assert len(graph.node) >= len(net.calls)


def test_a_package_that_is_too_old_or_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    net = source()
    facts = network_facts(net)

    class Old:
        """A message without metadata."""

        class DESCRIPTOR:
            fields_by_name = ()

    monkeypatch.setattr(onnx, "NodeProto", Old)
    with pytest.raises(
        CanneryError, match=r"does not support metadata of nodes \(pip install 'onnx>=1.16'\)"
    ):
        onnx_picture(net, facts, measured(facts))
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(CanneryError, match="pip install"):
        onnx_picture(net, facts, measured(facts))
