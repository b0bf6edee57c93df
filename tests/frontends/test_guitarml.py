"""GuitarML's JSON: what PyTorch computed (`guitarml/make.py`), and what is refused."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cannery.errors import ModelError
from cannery.frontends import load_graph
from cannery.frontends.options import ImportOptions
from cannery.frontends.streaming import to_streaming
from cannery.ir.evaluate import evaluate
from frontends.causal_nets import call_by_call

FOLDER = Path(__file__).with_name("guitarml")
NAMES = sorted(path.stem for path in FOLDER.glob("*.json"))
EXPECTED = np.load(FOLDER / "expected.npz")


@pytest.mark.parametrize("name", NAMES)
def test_outputs_are_those_of_pytorch(name: str) -> None:
    x = EXPECTED[f"{name}_x"][None]
    graph = load_graph(FOLDER / f"{name}.json", ImportOptions(dims={"input.1": x.shape[1]}))
    (y,) = evaluate(graph, {"input": x}).values()
    np.testing.assert_allclose(np.asarray(y)[0], EXPECTED[name], atol=2e-6)
    assert graph.metadata == {"format": "GuitarML"} and not graph.notes
    options = ImportOptions(streaming=True, rename={"input": "x"})
    calls = to_streaming(load_graph(FOLDER / f"{name}.json", options), 8)
    (results,) = call_by_call(calls, x, 8)[:1]
    np.testing.assert_allclose(np.concatenate(results, 1)[0], EXPECTED[name], atol=2e-6)


Change = Callable[[dict[str, Any]], Any]


def sizes(**changes: Any) -> Change:
    return lambda m: m["model_data"].update(changes)


def state(**changes: Any) -> Change:
    return lambda m: m["state_dict"].update({k.replace("__", "."): v for k, v in changes.items()})


REFUSED: list[tuple[Change, str]] = [
    (lambda m: m.update(more=1), "field more=1 is unknown"),
    (lambda m: m.pop("state_dict"), "state_dict is missing, expected an object"),
    (sizes(model="RecNet"), "the model 'RecNet' is not supported"),
    (sizes(unit_type="RNN"), "unit_type 'RNN' is not supported .*LSTM, GRU"),
    (sizes(more=1), "model_data: field more=1 is unknown"),
    (sizes(bidirectional=False), "model_data: field bidirectional=False is unknown"),
    (sizes(hidden_size=5), r"rec.weight_ih_l0 has the shape \[12, 2\], expected \[15, 2\]"),
    (sizes(hidden_size=2**31 - 1), "rec.weight_ih_l0 has the shape"),
    (sizes(num_layers=3), "rec.weight_ih_l2 is missing"),
    (sizes(num_layers=1), "field rec.*_l1=.* is unknown"),
    (sizes(skip=2), "skip is 2, with 2 inputs and 1 outputs"),
    (sizes(skip=-1), "skip is -1"),
    (sizes(bias_fl=False), "field lin.bias=.* is unknown"),
    (sizes(bias_fl="yes"), "bias_fl is 'yes', expected true or false"),
    (state(lin__bias=[float("nan")]), "lin.bias: number 0 is nan"),
    (state(lin__bias="0"), "lin.bias is '0', expected a list"),
]


@pytest.mark.parametrize(("change", "message"), REFUSED)
def test_what_is_refused(change: Change, message: str, tmp_path: Path) -> None:
    model = json.loads((FOLDER / "gru.json").read_text())
    change(model)
    path = tmp_path / "m.json"
    path.write_text(json.dumps(model))
    with pytest.raises(ModelError) as caught:
        load_graph(path, ImportOptions(streaming=True))
    assert re.search(message, str(caught.value)), caught.value
