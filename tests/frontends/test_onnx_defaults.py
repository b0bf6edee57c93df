"""An attribute that is left out means what the operator's schema says, in every version of it.

The node tests of the onnx package are read twice: with every default stated, and with none. Both
have to become the same graph.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")

from cannery.errors import CanneryError
from cannery.frontends import load_graph
from cannery.ir.graph import Graph
from cannery.ir.printer import format_graph
from frontends.onnx_cases import cases, with_initializers

#: Cases of an operator that are tried: what differs between more of them is not its attributes.
MOST = 6

#: Models that are compared, at least; each is read twice.
LEAST = 1000

#: What is not a default: the largest float is not a bound, and these activations are for two
#: directions.
_NOT_MEANT = {("Clip", "min"), ("Clip", "max"), ("RNN", "activations")}

#: Numbers of a graph's text, of which models store fewer digits than schemas state.
_NUMBER = re.compile(r"\d+\.\d+(e-?\d+)?|\d+e-\d+")


@cache
def versions(kind: str, domain: str) -> dict[int, Any]:
    """The schemas of an operator by the version that brought them."""
    import onnx

    found = onnx.defs.get_all_schemas_with_history()
    return {s.since_version: s for s in found if (s.name, s.domain) == (kind, domain)}


def defaults(schema: Any) -> dict[str, Any]:
    """The attributes that have a default, with it."""
    return {a.name: a.default_value for a in schema.attributes.values() if a.default_value.name}


def in_version(model: Any, version: int, *, stated: bool) -> Any:
    """The model of one node in another version; None unless it is one of that."""
    import onnx

    other = onnx.ModelProto()
    other.CopyFrom(model)
    (node,) = other.graph.node
    schema = versions(node.op_type, node.domain)[version]
    given = {a.name: a for a in node.attribute}
    if not set(given) <= set(schema.attributes):
        return None
    usual = {k: v for k, v in defaults(schema).items() if (node.op_type, k) not in _NOT_MEANT}
    kept = [a for name, a in given.items() if name not in usual or a != usual[name]]
    missing = [v for name, v in usual.items() if name not in {a.name for a in kept}]
    if not missing:
        return None
    del node.attribute[:]
    node.attribute.extend([*kept, *(missing if stated else [])])
    for each in other.opset_import:
        if each.domain == node.domain:
            each.version = version
    return other


def models() -> Iterator[tuple[str, Any, Any]]:
    """A name, a model without defaults, and the same with all of them, in all versions."""
    counts: dict[tuple[str, tuple[str, ...]], int] = {}
    for case in cases():
        if len(case.model.graph.node) != 1:
            continue
        node = case.model.graph.node[0]
        kind = (node.op_type, tuple(sorted(a.name for a in node.attribute)))
        counts[kind] = counts.get(kind, 0) + 1
        if counts[kind] > MOST:
            continue
        model, _ = with_initializers(case, weights=True)
        for version in versions(node.op_type, node.domain):
            plain = in_version(model, version, stated=False)
            if plain is not None:
                yield f"{case.name} in {version}", plain, in_version(model, version, stated=True)


def read(model: Any, path: Path) -> Graph | str:
    """The graph, or why there is none."""
    path.write_bytes(model.SerializeToString())
    try:
        return load_graph(path)
    except CanneryError as error:
        return error.what


def _text(graph: Graph) -> str:
    return _NUMBER.sub(lambda found: f"{float(found[0]):.6g}", format_graph(graph))


def same(a: Graph | str, b: Graph | str) -> bool:
    """Whether two graphs compute the same, constant by constant."""
    if isinstance(a, str) or isinstance(b, str):
        return isinstance(a, str) and isinstance(b, str)
    return _text(a) == _text(b) and all(
        np.array_equal(value, b.constants[name], equal_nan=value.dtype.kind == "f")
        for name, value in a.constants.items()
    )


def test_what_is_left_out_is_the_default(tmp_path: Path) -> None:
    path, different, compared = tmp_path / "model.onnx", [], 0
    for name, plain, stated in models():
        left_out, given = (read(model, path) for model in (plain, stated))
        compared += isinstance(left_out, Graph)
        if not same(left_out, given):
            different.append((name, *(g for g in (left_out, given) if isinstance(g, str))))
    assert not different
    assert compared >= LEAST
