"""Writes model files as Keras does, without Keras: HDF5 and archives, of Keras 2 and of Keras 3.

A model is described once, by `Model` and `LayerSpec`; the writers turn it into what a version of
Keras writes: names of attributes, `inbound_nodes`, dtype policies, names and order of weights.
"""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import h5py
from numpy.typing import NDArray

Weights = Mapping[str, NDArray[Any]]

#: Layer, call, output; or just the layer's name for (name, 0, 0).
Ref = str | tuple[str, int, int]

#: Variables that are not trained.
_STATE = ("moving_mean", "moving_variance", "mean", "variance", "count", "vector_u")


@dataclass(frozen=True)
class LayerSpec:
    """A layer: `calls` lists the inputs of each of its calls; `model` makes it a nested model.

    A call with initial states is a mapping of `inputs` and `initial_state` to lists, one with other
    arguments a mapping of `inputs` and `kwargs`.

    Weights of layers that it holds are called after the attributes: `cell/kernel`.
    """

    class_name: str
    name: str
    calls: Sequence[Any] = ()
    config: Mapping[str, Any] = field(default_factory=dict)
    weights: Weights = field(default_factory=dict)
    model: Model | None = None
    trainable: bool = True


@dataclass(frozen=True)
class Model:
    """A functional model, or a sequential one if it has no `outputs`."""

    name: str
    layers: Sequence[LayerSpec]
    inputs: Any = ()
    outputs: Any = ()
    class_name: str = ""

    @property
    def sequential(self) -> bool:
        """Whether this is a chain."""
        return not self.outputs


def layer(class_name: str, name: str, *inputs: Any, **config: Any) -> LayerSpec:
    """A layer without weights, called once with these inputs."""
    return LayerSpec(class_name, name, [list(inputs)] if inputs else [], config)


def image(name: str, *shape: int | None, **config: Any) -> LayerSpec:
    """An InputLayer of float32, of this shape after the open batch."""
    values = {"shape": [None, *shape], "dtype": "float32", **config}
    return LayerSpec("InputLayer", name, (), values)


def chain(*layers: LayerSpec, name: str = "net") -> Model:
    """A functional model whose layers follow each other; the first one is its input."""
    linked = [layers[0]]
    for spec in layers[1:]:
        linked.append(replace(spec, calls=[[linked[-1].name]]))
    return Model(name, linked, [layers[0].name], [layers[-1].name])


def _ref(ref: Ref) -> list[Any]:
    return [ref, 0, 0] if isinstance(ref, str) else list(ref)


def _refs(structure: Any) -> Any:
    if isinstance(structure, dict):
        return {k: _refs(v) for k, v in structure.items()}
    if isinstance(structure, list):
        return [_refs(v) for v in structure]
    return _ref(structure)


def _call_2(inputs: Any) -> Any:
    if isinstance(inputs, dict) and "kwargs" in inputs:
        return [[*_ref(ref), inputs["kwargs"]] for ref in inputs["inputs"]]
    if isinstance(inputs, dict):
        inputs = [*inputs["inputs"], *inputs["initial_state"]]
    return [[*_ref(ref), {}] for ref in inputs]


def _tensor_3(ref: Any) -> Any:
    if isinstance(ref, list):
        return [_tensor_3(r) for r in ref]
    config = {"dtype": "float32", "keras_history": _ref(ref)}  # and the shape, as far as known
    return {"class_name": "__keras_tensor__", "config": config}


def _call_3(inputs: Any) -> Any:
    if isinstance(inputs, dict) and "kwargs" in inputs:
        return {**_call_3(inputs["inputs"]), "kwargs": inputs["kwargs"]}
    if isinstance(inputs, dict):
        states = {"initial_state": _tensor_3(list(inputs["initial_state"])), "mask": None}
        return {**_call_3(inputs["inputs"]), "kwargs": states}
    argument = _tensor_3(inputs[0] if len(inputs) == 1 else list(inputs))
    return {"args": [argument], "kwargs": {}}


def _is_3(version: str) -> bool:
    return version.startswith("3")


def _layer_config(spec: LayerSpec, version: str, archive: bool) -> dict[str, Any]:
    config: dict[str, Any] = {"name": spec.name, "trainable": spec.trainable, **spec.config}
    if spec.class_name == "InputLayer":
        config["batch_shape" if _is_3(version) else "batch_input_shape"] = config.pop("shape")
        del config["trainable"]
    elif _is_3(version):
        policy = {"module": "keras", "class_name": "DTypePolicy", "registered_name": None}
        config.setdefault("dtype", {**policy, "config": {"name": "float32"}})
    else:
        config.setdefault("dtype", "float32")
    entry: dict[str, Any] = {"class_name": spec.class_name, "config": config}
    if archive:
        entry |= {"module": "keras.layers", "registered_name": None}
    return entry


def config_of(model: Model, version: str, archive: bool = False) -> dict[str, Any]:
    """The configuration of a model."""
    entries = []
    for spec in model.layers:
        if spec.model is not None:
            entry = config_of(spec.model, version, archive)
        else:
            entry = _layer_config(spec, version, archive)
        if not model.sequential:
            make = _call_3 if _is_3(version) else _call_2
            entry |= {"name": spec.name, "inbound_nodes": [make(c) for c in spec.calls]}
        entries.append(entry)
    config: dict[str, Any] = {"name": model.name, "layers": entries}
    if not model.sequential:
        config |= {"input_layers": _refs(model.inputs), "output_layers": _refs(model.outputs)}
    return {"class_name": _class_name(model, version), "config": config}


def _class_name(model: Model, version: str) -> str:
    functional = "Model" if version.startswith("2.2") else "Functional"
    return model.class_name or ("Sequential" if model.sequential else functional)


def _stored(spec: LayerSpec, prefix: str) -> Iterator[tuple[str, NDArray[Any], bool]]:
    """Name, value, and whether it is trained."""
    if spec.model is not None:
        for inner in spec.model.layers:
            yield from _stored(inner, prefix)
        return
    for name, value in spec.weights.items():
        yield f"{prefix}{spec.name}/{name}", value, spec.trainable and name not in _STATE


def write_h5(path: Path, model: Model, version: str = "2.15.0", **changes: Any) -> Path:
    """An HDF5 file as `model.save` of this version writes it; `changes` replace attributes."""
    with h5py.File(path, "w") as file:
        attributes = {
            "keras_version": version,
            "backend": "tensorflow",
            "model_config": json.dumps(config_of(model, version)),
            **changes,
        }
        for key, value in attributes.items():
            if value is not None:
                file.attrs[key] = value
        weights = file.create_group("model_weights")
        weights.attrs["layer_names"] = [spec.name.encode() for spec in model.layers]
        for spec in model.layers:
            _write_group(weights.create_group(spec.name), spec, version)
    return path


def _write_group(group: h5py.Group, spec: LayerSpec, version: str) -> None:
    stored = list(_stored(spec, ""))
    ordered = [s for s in stored if s[2]] + [s for s in stored if not s[2]]
    names = [name if _is_3(version) else f"{name}:0" for name, _, _ in ordered]
    group.attrs["weight_names"] = [n.encode() for n in names]
    for name, (_, value, _) in zip(names, ordered, strict=True):
        group.create_dataset(name, data=value)


def snake_case(class_name: str) -> str:
    """Conv2D: conv2d."""
    name = re.sub("(.)([A-Z][a-z]+)", r"\1_\2", class_name)
    return re.sub("([a-z])([A-Z])", r"\1_\2", name).lower()


def write_keras(path: Path, model: Model, version: str = "3.8.0", **members: bytes | None) -> Path:
    """An archive as `model.save` of this version writes it; `members` replace its files."""
    weights = io.BytesIO()
    with h5py.File(weights, "w") as file:
        _write_vars(file, model)
    config = json.dumps(config_of(model, version, archive=True)).encode()
    metadata = json.dumps({"keras_version": version, "date_saved": "2024-01-01@00:00:00"}).encode()
    contents = {"metadata": metadata, "config": config, "weights": weights.getvalue(), **members}
    names = {"metadata": "metadata.json", "config": "config.json", "weights": "model.weights.h5"}
    with zipfile.ZipFile(path, "w") as archive:
        for key, content in contents.items():
            if content is not None:
                archive.writestr(names[key], content)
    return path


def _write_vars(group: h5py.Group, model: Model) -> None:
    container = group.create_group("layers")
    counts: dict[str, int] = {}
    for spec in model.layers:
        class_name = _class_name(spec.model, "3") if spec.model else spec.class_name
        stem = snake_case(class_name)
        count = counts.get(stem, 0)
        counts[stem] = count + 1
        inner = container.create_group(f"{stem}_{count}" if count else stem)
        inner.create_group("vars")
        if spec.model is not None:
            _write_vars(inner, spec.model)
        for name, value in spec.weights.items():
            owner = inner.require_group(f"{name.rpartition('/')[0]}/vars".lstrip("/"))
            owner.create_dataset(str(len(owner)), data=value)
