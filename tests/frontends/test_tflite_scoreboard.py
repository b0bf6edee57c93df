"""The scoreboard has every operator of the schema, and says what is true."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
import tflite

from cannery.errors import UnsupportedError
from cannery.frontends import load_graph
from cannery.frontends.tflite.refused import REFUSED, why_not_read
from cannery.frontends.tflite.scope import operator_names
from cannery.frontends.tflite.scoreboard import scoreboard
from frontends.tflite_files import Graph, tflite_file

SCHEMA = {name for name in vars(tflite.BuiltinOperator) if not name.startswith("_")}


def test_every_operator_of_the_schema_has_a_state() -> None:
    unknown = [kind for kind, state in scoreboard(SCHEMA).items() if not state]
    assert not unknown, "read them, or say in refused.py why not"


def test_no_operator_is_both_read_and_refused() -> None:
    assert not {kind for kind in operator_names() if why_not_read(kind)}
    builtin = {kind for kind in operator_names() if " " not in kind}
    assert builtin <= SCHEMA
    assert set(REFUSED) <= SCHEMA


@pytest.mark.parametrize("kind", ["HASHTABLE_FIND", "STABLEHLO_SORT", "STABLEHLO_GATHER"])
def test_errors_say_the_reason(kind: str, tmp_path: Path) -> None:
    def fill(g: Graph) -> Sequence[int]:
        return [g.add(kind, [g.input((2, 2))], g.tensor((2, 2)))]

    file = tmp_path / "net.tflite"
    file.write_bytes(tflite_file(fill))
    with pytest.raises(UnsupportedError, match=why_not_read(kind)):
        load_graph(file)
