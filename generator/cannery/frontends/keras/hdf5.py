"""Keras models in one HDF5 file (.h5, .hdf5): `model_config`, and weights in `model_weights`.

Every top-level layer has a group whose attribute `weight_names` lists its weights. Those of a
nested model come together: first the trainable ones, then the others, each in the order of the
layers. Keras goes by that order, because names are historical accidents. So does this reader, but
it insists that names and order do not contradict each other.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from cannery.errors import ModelError, UnsupportedError
from cannery.frontends.keras.build import build_graph
from cannery.frontends.keras.config import parse_json
from cannery.frontends.keras.custom import with_custom
from cannery.frontends.keras.hdf5_heap import check_heaps
from cannery.frontends.keras.hdf5_reader import MAGIC, Hdf5Reader, open_hdf5
from cannery.frontends.keras.layers.base import KerasLayer, LayerPath
from cannery.frontends.keras.model import ModelConfig, Target, read_model
from cannery.frontends.keras.version import parse_version
from cannery.frontends.metadata import keras_metadata
from cannery.frontends.options import ImportOptions
from cannery.frontends.unsupported import Problem
from cannery.ir.graph import Array, Graph

FORMAT = "Keras HDF5 (.h5)"

_WEIGHTS = "model_weights"

#: Keras 3's name for the kernel of a depthwise convolution.
_ALIASES = {"depthwise_kernel": "kernel"}


def recognises(head: bytes) -> bool:
    """Whether a file that begins with `head` is HDF5."""
    return head.startswith(MAGIC)


def load(path: Path, options: ImportOptions) -> Graph:
    """The graph of a model saved by Keras 2.2 to 3 as HDF5; see `cannery.frontends.load_graph`."""
    check_heaps(path)
    with open_hdf5(path, str(path)) as file:
        config = file.text("", "model_config")
        if config is None:
            raise ModelError(
                "holds weights only, not the network",
                where=str(path),
                cure="save the whole model: model.save(...) instead of model.save_weights(...)",
            )
        version = file.text("", "keras_version") or file.text(_WEIGHTS, "keras_version")
        _check_backend(file)
        writer = parse_version(version)
        model = read_model(parse_json(config, "model_config"), writer)
        model = with_custom(model, options.custom)
        graph = build_graph(model, Hdf5Weights(file, model), options)
    return replace(graph, metadata=keras_metadata(model.name, writer.text))


def _check_backend(file: Hdf5Reader) -> None:
    backend = file.text("", "backend") or file.text(_WEIGHTS, "backend")
    if backend in ("theano", "cntk"):
        raise UnsupportedError(
            f"weights in the layout of {backend}", cure="load and save the model with TensorFlow"
        )


class _Variable(NamedTuple):
    """One weight that the model expects."""

    path: LayerPath
    name: str
    trainable: bool


class Hdf5Weights:
    """The weights of a model; locates them when the first one of a group is read."""

    def __init__(self, file: Hdf5Reader, model: ModelConfig) -> None:
        self._file = file
        self._model = model
        self._found: dict[str, Mapping[tuple[LayerPath, str], str]] = {}

    def read(self, path: LayerPath, variable: str, shapes: Sequence[tuple[int, ...]]) -> Array:
        """See WeightStore."""
        top = path[0]
        if top not in self._found:
            self._found[top] = self._locate(top)
        stored = self._found[top].get((path, variable))
        if stored is None:
            raise ModelError(
                f"weight {variable!r} is not stored", where=f"layer {'/'.join(path)!r}"
            )
        try:
            return self._file.array(stored, shapes)
        except ModelError as error:
            error.where = f"layer {'/'.join(path)!r}, weight {variable!r}"
            raise

    def count(self, path: LayerPath) -> int:
        """See WeightStore; for layers in nested models, the weights there that no layer expects."""
        group = f"{_WEIGHTS}/{path[0]}" if self._file.has_group(_WEIGHTS) else path[0]
        children = self._file.children(group)
        if len(path) == 1 or not children:
            return len(children)
        target = next(e.target for e in self._model.entries if e.name == path[0])
        expected = sum(1 for _ in _variables(path[:1], target))
        return max(len(self._file.texts(group, "weight_names") or ()) - expected, 0)

    def _locate(self, top: str) -> dict[tuple[LayerPath, str], str]:
        """Where the variables of a top-level layer are stored."""
        group = f"{_WEIGHTS}/{top}" if self._file.has_group(_WEIGHTS) else top
        names = self._file.texts(group, "weight_names")
        if names is None:
            raise ModelError("its weights are missing", where=f"layer {top!r}")
        target = next(e.target for e in self._model.entries if e.name == top)
        expected = list(_stored_order(list(_variables((top,), target))))
        matched = _match(expected, names, complete=_is_known(target))
        if matched is None:
            wanted = ", ".join(f"{'/'.join(v.path)}/{v.name}" for v in expected)
            raise ModelError(
                f"stores the weights {', '.join(names)}, expected {wanted}", where=f"layer {top!r}"
            )
        return {key: f"{group}/{name}" for key, name in matched.items()}


def _is_known(target: Target) -> bool:
    """Whether all layers inside are supported, so that all their weights are known."""
    if isinstance(target, ModelConfig):
        return all(_is_known(e.target) for e in target.entries)
    return not isinstance(target, Problem)


def _variables(path: LayerPath, target: Target) -> Iterator[_Variable]:
    """Everything that a layer stores, in the order in which Keras created it."""
    if isinstance(target, ModelConfig):
        for entry in target.entries:
            yield from _variables((*path, entry.name), entry.target)
    elif isinstance(target, KerasLayer):
        yield from (_Variable(path, name, target.trainable) for name in target.plan.weights)
        yield from (_Variable(path, name, False) for name in target.plan.state)
        for attribute, child in target.children.items():
            yield from _variables((*path, attribute), child)


def _stored_order(variables: Sequence[_Variable]) -> Iterator[_Variable]:
    """First what is trainable, then the rest."""
    yield from (v for v in variables if v.trainable)
    yield from (v for v in variables if not v.trainable)


def _match(
    expected: Sequence[_Variable], names: Sequence[str], *, complete: bool
) -> dict[tuple[LayerPath, str], str] | None:
    """The stored name of each variable: by order if the names agree, else by unambiguous names."""
    keys = [(v.path, v.name) for v in expected]
    agree = all(_may_be(v, n) for v, n in zip(expected, names, strict=False))
    if complete and len(names) == len(expected) and agree:
        return dict(zip(keys, names, strict=True))
    found = {
        (v.path, v.name): [n for n in names if _owner(n) == v.path[-1] and _may_be(v, n)]
        for v in expected
    }
    if any(len(matches) != 1 for matches in found.values()):
        return None
    return {key: matches[0] for key, matches in found.items()}


_COUNTER = re.compile(r"(_\d+)?(:\d+)?$", re.ASCII)

_KNOWN = frozenset(
    """
    kernel recurrent_kernel bias depthwise_kernel pointwise_kernel gamma beta
    moving_mean moving_variance moving_stddev renorm_mean renorm_stddev alpha mean variance count
    """.split()
)


def _tail(name: str) -> str:
    """The variable that a stored name such as `conv2d_1/kernel_2:0` refers to; "" if unknown."""
    variable = _COUNTER.sub("", name.rsplit("/", 1)[-1])
    return variable if variable in _KNOWN else ""


def _may_be(variable: _Variable, name: str) -> bool:
    """Whether a stored name can mean a variable: it refers to it, or to nothing known."""
    return _tail(name) in ("", variable.name, _ALIASES.get(variable.name))


def _owner(name: str) -> str:
    """The layer that a stored name refers to."""
    return name.rsplit("/", 2)[-2] if "/" in name else ""
