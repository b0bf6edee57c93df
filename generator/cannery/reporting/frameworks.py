"""What a framework computes for every layer of a model: ONNX Runtime, or Keras."""

from __future__ import annotations

import importlib.util
import os
import shutil
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cannery.atomic import temporary_folder
from cannery.errors import CanneryError, OptionError
from cannery.execution.program import Sample
from cannery.ir.evaluate import evaluate_all
from cannery.ir.graph import Graph
from cannery.ir.orders import to_model
from cannery.ir.registry import RefArray

#: Backends of Keras, the first that is installed; numpy's needs nothing else.
_BACKENDS = ("tensorflow", "jax", "torch")

_HDF5 = b"\x89HDF\r\n\x1a\n"
_ZIP = b"PK\x03\x04"


def framework_values(
    name: str, path: Path, graph: Graph, samples: Sequence[Sample]
) -> list[dict[str, RefArray]]:
    """Values of each sample by their names in `graph`, the model as it was read, in its order.

    Raises OptionError where the framework is not installed or does not read such a file, and
    CanneryError where it fails.
    """
    if importlib.util.find_spec(name) is None:
        raise OptionError(
            f"the {name} package is not installed", where=f"--with {name}",
            cure=f"pip install {name}",
        )  # fmt: skip
    with path.open("rb") as file:
        keras = file.read(len(_HDF5)).startswith((_HDF5, _ZIP))
    if keras is not (name == "keras"):
        raise OptionError(
            f"{path.name} is not a file that it reads", where=f"--with {name}",
            cure=f"take --with {'keras' if keras else 'onnxruntime'}",
        )  # fmt: skip
    found = []
    try:
        run = _FRAMEWORKS[name](path, graph)
        for sample in samples:
            values = run(to_model(graph, sample))
            found.append(_fitted(values, evaluate_all(graph, sample)))
    except CanneryError:
        raise
    except Exception as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise CanneryError(
            f"{name} fails: {lines[0]}", where=path.name, cure="take --with reference"
        ) from error
    return found


def _fitted(
    values: Mapping[str, RefArray], references: Mapping[str, RefArray]
) -> dict[str, RefArray]:
    """Values in the graph's order of axes, which is channels last; others are left out."""
    found = {}
    for name, array in values.items():
        fitting = _fit(np.asarray(array), references[name])
        if fitting is not None:
            found[name] = fitting
    return found


def _fit(array: RefArray, reference: RefArray) -> RefArray | None:
    """The order of axes in which an array has the reference's shape, and is closest to it."""
    if array.dtype.kind != reference.dtype.kind:
        return None
    orders = [array] if array.ndim < 3 else [array, np.moveaxis(array, 1, -1)]
    fitting = [a for a in orders if a.shape == reference.shape]
    if not fitting:
        squeezed = [a for a in orders if np.squeeze(a).shape == np.squeeze(reference).shape]
        fitting = [a.reshape(reference.shape) for a in squeezed]

    def distance(a: RefArray) -> float:
        with np.errstate(all="ignore"):
            off = np.abs(a.astype(np.float64) - reference.astype(np.float64))
        return float(np.nansum(off))

    return min(fitting, key=distance) if fitting else None


#: Runs one sample, whose inputs are in the model's order.
_Run = Callable[[Mapping[str, RefArray]], Mapping[str, RefArray]]


def _onnxruntime(path: Path, graph: Graph) -> _Run:
    import onnx
    import onnxruntime

    model = onnx.load(path)
    known = {output.name for output in model.graph.output}
    for node in model.graph.node:
        for value in node.output:
            if value in graph.types and value not in known:
                known.add(value)
                model.graph.output.append(onnx.ValueInfoProto(name=value))
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    names = [output.name for output in session.get_outputs() if output.name in graph.types]

    def run(inputs: Mapping[str, RefArray]) -> Mapping[str, RefArray]:
        fed = {node.name: inputs[node.name] for node in session.get_inputs()}
        return dict(zip(names, session.run(names, fed), strict=True))

    return run


def _keras(path: Path, graph: Graph) -> _Run:
    backend = next((name for name in _BACKENDS if importlib.util.find_spec(name)), "numpy")
    os.environ.setdefault("KERAS_BACKEND", backend)
    import keras

    with temporary_folder() as folder:
        suffix = ".keras" if path.read_bytes()[:4] == _ZIP else ".h5"
        copy = folder / f"model{suffix}"
        shutil.copyfile(path, copy)
        model = keras.models.load_model(copy, compile=False)
    layers = {layer.name: layer for layer in model.layers if _has_one_output(layer)}
    values = _last_values(graph, [*layers])
    probe = keras.Model(model.inputs, [layers[name].output for name in values])

    def run(inputs: Mapping[str, RefArray]) -> Mapping[str, RefArray]:
        fed = [inputs[_input_name(tensor.name, inputs)] for tensor in model.inputs]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of inputs that are not named
            results = probe(fed if len(fed) > 1 else fed[0], training=False)
        results = results if isinstance(results, (list, tuple)) else [results]
        arrays = [keras.ops.convert_to_numpy(result) for result in results]
        return dict(zip(values.values(), arrays, strict=True))

    return run


def _has_one_output(layer: Any) -> bool:
    """Whether a layer has one tensor as its output; shared ones and inputs have not."""
    try:
        return hasattr(layer.output, "shape") and type(layer).__name__ != "InputLayer"
    except (AttributeError, ValueError, RuntimeError):
        return False


def _input_name(name: str, inputs: Mapping[str, RefArray]) -> str:
    """The input that Keras calls so, maybe with a number after a colon."""
    return name if name in inputs else name.split(":")[0]


def _last_values(graph: Graph, layers: Sequence[str]) -> dict[str, str]:
    """The value that each layer ends in: what it is made of is called `layer/part`."""
    found: dict[str, str] = {}
    known = set(layers)
    for node in graph.nodes:
        name = node.outputs[0]
        while name not in known and "/" in name:
            name = name.rpartition("/")[0]
        if name in known:
            found[name] = node.outputs[0]
    return found


_FRAMEWORKS: Mapping[str, Callable[[Path, Graph], _Run]] = {
    "onnxruntime": _onnxruntime, "keras": _keras,
}  # fmt: skip
