"""Each pass on graphs that can be read: `texts/<pass>/*.txt` hold one before it and after it.

A text ends in `=>` and the graph that the pass makes of it, or in `=> unchanged`. How graphs are
written: `cannery/ir/parser.py`; what stands after the arrow lists constants of up to 16 elements.
`pytest tests/passes/test_texts.py --update-golden` writes what stands there: read it as a diff.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

from cannery.ir.evaluate import evaluate
from cannery.ir.graph import Graph
from cannery.ir.parser import parse_graph
from cannery.ir.printer import write_graph
from cannery.ir.registry import RefArray
from cannery.ir.tensor import DType, TensorType
from cannery.ir.verify import verify
from cannery.passes import PASSES

TEXTS = Path(__file__).with_name("texts")
FILES = sorted(path.relative_to(TEXTS).as_posix() for path in TEXTS.glob("*/*.txt"))
ARROW = "=>"
SAME = " unchanged\n"
LISTED = 16


def numbers(type_: TensorType) -> RefArray:
    """Any input of a type."""
    rng = np.random.default_rng(type_.elements)
    if type_.dtype is DType.FLOAT32:
        return rng.standard_normal(type_.shape)
    return rng.integers(0, 100, type_.shape).astype(type_.dtype.numpy)


def check_meaning(before: Graph, after: Graph) -> None:
    """Both compute the same, except for the rounding of constants to float32."""
    inputs = {name: numbers(before.types[name]) for name in before.inputs}
    expected, found = evaluate(before, inputs), evaluate(after, inputs)
    assert list(expected) == list(found)
    for name, wanted in expected.items():
        wide = wanted.astype(np.float64)
        scale = float(np.abs(wide).max(initial=0.0)) or 1.0
        assert np.abs(found[name].astype(np.float64) - wide).max(initial=0.0) <= 2e-6 * scale


@pytest.mark.parametrize("file", FILES)
def test_pass(file: str, update_golden: bool) -> None:
    path = TEXTS / file
    text = path.read_text()
    written, arrow, expected = text.partition(ARROW)
    assert arrow, f"{path} has no {ARROW}"
    before = parse_graph(written, str(path))
    after = dict(PASSES)[path.parent.name](before)
    verify(after, after=path.parent.name)
    check_meaning(before, after)
    found = SAME if after is before else "\n" + write_graph(after, most=LISTED)
    if update_golden:
        path.write_text(f"{written}{ARROW}{found}")
    else:
        assert found == expected
    if after is not before:
        parse_graph(found)


def test_every_pass_is_shown_where_it_acts_and_where_it_must_not() -> None:
    ends = defaultdict(set)
    for file in FILES:
        path = TEXTS / file
        ends[path.parent.name].add(path.read_text().endswith(f"{ARROW}{SAME}"))
    assert dict(ends) == {name: {True, False} for name, _ in PASSES}
