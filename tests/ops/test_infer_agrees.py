"""What operators accept can be computed, and becomes what they say: wrong inputs, too.

Each operator of the cases gets inputs that are spoilt in one place: an axis is missing or one too
many, longer, of length one or none; the element type is another one; an input is absent. Or a
number of its attributes is another one. Then `infer` raises an error, or the reference computes
what `infer` promises.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from functools import cache

import numpy as np
import pytest

from cannery.errors import CanneryError
from cannery.ir.registry import Op, RefArray, all_ops
from cannery.ir.tensor import DType, TensorType
from ops.cases import all_cases

Types = tuple[TensorType | None, ...]

OTHERS = (DType.FLOAT32, DType.INT64, DType.INT8, DType.UINT8, DType.BOOL)

#: Elements of all inputs and outputs, at most.
LARGEST = 5_000

#: The input of a TreeEnsemble that says where each tree begins.
_ROOTS = 5


@cache
def uses() -> dict[str, list[tuple[Op, Types]]]:
    """By kind, the different operators of the cases, each with the types of its inputs."""
    found: dict[str, dict[Op, Types]] = {}
    for case in all_cases():
        graph = case.make()
        for node in graph.nodes:
            types = tuple(graph.types[v] if v else None for v in node.inputs)
            if any(t and t.dtype is DType.HALF for t in (*types, graph.types[node.outputs[0]])):
                continue  # what a pass makes of layers that were inferred as float32
            if elements(types) <= LARGEST:
                found.setdefault(node.op.kind, {}).setdefault(node.op, types)
    return {kind: list(each.items()) for kind, each in found.items()}


def elements(types: Types) -> int:
    return sum(t.elements for t in types if t)


def spoilt(types: Types) -> Iterator[Types]:
    """The types with one mistake."""
    for k, t in enumerate(types):
        if t is None:
            continue
        shapes = [(*t.shape, 1), (1, *t.shape), (*t.shape, 2)]
        for axis, length in enumerate(t.shape):
            before, after = t.shape[:axis], t.shape[axis + 1 :]
            shapes += [(*before, *new, *after) for new in ((), (length + 1,), (1,), (0,))]
        others = [replace(t, shape=shape) for shape in shapes]
        others += [replace(t, dtype=dtype) for dtype in OTHERS if dtype is not t.dtype]
        yield from ((*types[:k], new, *types[k + 1 :]) for new in (*others, None))
    yield (*types, types[0])
    yield types[:-1]


def other_numbers(value: object) -> Iterator[object]:
    """An attribute with one whole number changed, or one too few or too many."""
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int):
        yield from (0, -1, value + 1, value - 1, 10**6)
    elif isinstance(value, tuple):
        yield from (value[:-1], value + value[-1:])
        for k, each in enumerate(value):
            yield from ((*value[:k], new, *value[k + 1 :]) for new in other_numbers(each))


def values(t: TensorType | None) -> RefArray | None:
    """Ones as floats, and zeros as integers, which are places or numbers of steps."""
    if t is None:
        return None
    return np.ones(t.shape) if t.dtype is DType.FLOAT32 else np.zeros(t.shape, t.dtype.numpy)


def contents(op: Op, types: Types) -> list[RefArray | None]:
    """Values of these types; trees are leaves, because links of zeros would form a cycle."""
    found = [values(t) for t in types]
    if op.kind == "TreeEnsemble" and (roots := found[_ROOTS]) is not None:
        found[_ROOTS] = roots - 1
    return found


def fault(op: Op, types: Types) -> str:
    """What is wrong with an operator where its inputs have these types; empty if nothing."""
    try:
        promised = op.infer(*types)
    except CanneryError:
        return ""
    if elements((*types, *promised)) > LARGEST:
        return ""
    with np.errstate(all="ignore"):
        made = op.reference(*contents(op, types))
    wanted = [(t.shape, "f" if t.dtype is DType.FLOAT32 else t.dtype.value) for t in promised]
    found = [(a.shape, "f" if a.dtype.kind == "f" else a.dtype.name) for a in made]
    return "" if found == wanted else f"{op} of {types}: {found}, not {wanted}"


@pytest.mark.parametrize(
    "kind",
    ["Conv", "ConvInteger", "ConvTranspose", "ConvTransposeInteger", "MatMul", "MatMulInteger"],
)
def test_macs_are_the_products_of_ones(kind: str) -> None:
    """All of them, unless some are with padding."""
    for op, types in uses()[kind]:
        one, two, *others = (np.zeros(t.shape, t.dtype.numpy) if t else None for t in types)
        assert one is not None
        assert two is not None
        (y,) = op.reference(one + one.dtype.type(1), two + two.dtype.type(1), *others)
        macs = op.macs(types, op.infer(*types))
        padded = np.any(getattr(op, "pads", 0))
        assert y.sum() < macs if padded else y.sum() == macs, op


@pytest.mark.parametrize("kind", all_ops())
def test_what_is_accepted_can_be_computed(kind: str) -> None:
    for op, types in uses().get(kind, ()):
        op.infer(*types)
        for given in (types, *spoilt(types)):
            assert not fault(op, given)


@pytest.mark.parametrize("kind", all_ops())
def test_what_has_other_attributes_is_refused_or_computed(kind: str) -> None:
    for op, types in uses().get(kind, ()):
        for each in (field.name for field in fields(op) if field.init):
            for new in other_numbers(getattr(op, each)):
                try:
                    made = replace(op, **{each: new})
                except CanneryError:
                    continue
                assert not fault(made, types)
