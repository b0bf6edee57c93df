"""Einsum: equations compared with numpy.einsum."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cannery.errors import CanneryError
from cannery.ir.evaluate import evaluate
from cannery.ir.orders import from_model, to_model
from frontends.onnx_models import floats, load, model, node

EQUATIONS: list[tuple[str, list[tuple[int, ...]]]] = [
    ("ij,jk->ik", [(2, 3), (3, 4)]),
    ("ij,jk", [(2, 3), (3, 4)]),
    ("ba,ab", [(2, 3), (3, 2)]),
    ("bhid,bhjd->bhij", [(2, 3, 4, 5), (2, 3, 6, 5)]),
    ("bhij,bhjd->bihd", [(2, 3, 4, 6), (2, 3, 6, 5)]),
    ("ii->i", [(3, 3)]),
    ("ii", [(3, 3)]),
    ("iji->j", [(3, 2, 3)]),
    ("iij,jk->ik", [(2, 2, 3), (3, 4)]),
    ("i,j->ji", [(3,), (4,)]),
    ("i,i", [(5,), (5,)]),
    ("ij->", [(3, 4)]),
    ("...ij,...jk->...ik", [(2, 1, 3, 4), (5, 4, 2)]),
    ("...ij->...ji", [(2, 3, 4)]),
    ("i...->...", [(4, 2, 3)]),
    ("b...d,de", [(2, 3, 5, 4), (4, 6)]),
    ("ij,jk,kl->il", [(2, 3), (3, 4), (4, 5)]),
    ("ij,ik,il->jkl", [(2, 3), (2, 4), (2, 5)]),
    ("ab,cd->bd", [(2, 3), (4, 5)]),
    ("ij,ij->ij", [(3, 4), (1, 4)]),
    (" i j , j k -> k i ", [(2, 3), (3, 4)]),
]


@pytest.mark.parametrize(("equation", "shapes"), EQUATIONS, ids=[e for e, _ in EQUATIONS])
def test_equations(tmp_path: Path, equation: str, shapes: list[tuple[int, ...]]) -> None:
    names = [f"x{k}" for k in range(len(shapes))]
    inputs = {n: floats(*s, seed=k) for k, (n, s) in enumerate(zip(names, shapes, strict=True))}
    proto = model(
        [node("Einsum", names, ["y"], equation=equation)], dict(zip(names, shapes, strict=True))
    )
    graph = load(tmp_path, proto)
    (found,) = to_model(graph, evaluate(graph, from_model(graph, inputs))).values()
    wide = [a.astype(np.float64) for a in inputs.values()]
    np.testing.assert_allclose(found, np.einsum(equation, *wide), rtol=1e-6, atol=1e-6)


def test_integers(tmp_path: Path) -> None:
    shapes = {"a": [2, 3], "b": [3, 4]}
    proto = model([node("Einsum", ["a", "b"], ["y"], equation="ij,jk->ki")], shapes, dtype=6)
    a, b = np.arange(6, dtype=np.int32).reshape(2, 3), np.arange(12, dtype=np.int32).reshape(3, 4)
    (found,) = evaluate(load(tmp_path, proto), {"a": a, "b": b}).values()
    assert found.dtype == np.int32
    assert found.tolist() == (a @ b).T.tolist()


@pytest.mark.parametrize(
    ("equation", "message"),
    [
        ("ij,jk", "has 2 terms for 1 inputs"),
        ("ijk", "term 'ijk' does not fit"),
        ("i1", "term 'i1' does not fit"),
        ("ij->k", "an output that does not fit"),
        ("ij->ii", "an output that does not fit"),
        ("ii->i", "has 2 and 3 elements"),
    ],
)
def test_equations_that_do_not_fit(tmp_path: Path, equation: str, message: str) -> None:
    proto = model([node("Einsum", ["x"], ["y"], equation=equation)], {"x": [2, 3]})
    with pytest.raises(CanneryError, match=message):
        load(tmp_path, proto)
