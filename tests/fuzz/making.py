"""Cases from a source of chance: the same numbers make the same case."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pytest

from fuzz import (
    audio_files,
    keras_networks,
    onnx_changes,
    onnx_networks,
    records,
    tflite_networks,
    tree_networks,
)
from fuzz.cases import Case
from fuzz.settings import calibration, fitting_options, random_options

onnx = pytest.importorskip("onnx")

#: Models that once broke something, which may be next to the checkout.
TRIALS = Path(__file__).resolve().parents[3] / "shared" / "trials"


#: Operators that draw random numbers, or may.
_DRAWING = {"Multinomial", "Bernoulli", "Dropout", "RandomNormalLike", "RandomUniformLike"}


def make_case(random: Random, kind: str = "") -> Case:
    """A case of a kind: onnx, node, keras, audio, tflite, trees or record; by default any."""
    kind = kind or random.choices(list(KINDS), weights=[10, 3, 7, 3, 3, 4, 3])[0]
    return KINDS[kind](random)


def _onnx(random: Random) -> Case:
    """A random network, or one that broke something, changed."""
    trials = sorted(TRIALS.glob("*.onnx"))
    if trials and random.random() < 0.05:
        model = onnx.load(random.choice(trials))
    else:
        model = onnx_networks.random_network(random)
    return _of_model(random, model, "onnx")


def _node(random: Random) -> Case:
    """A node test of the onnx package, changed."""
    model = onnx.ModelProto()
    model.CopyFrom(random.choice(_node_models()))
    return _of_model(random, model, "node")


@cache
def _node_models() -> tuple[Any, ...]:
    from frontends.onnx_cases import cases, with_initializers

    return tuple(with_initializers(case, weights=True)[0] for case in cases())


def _of_model(random: Random, model: Any, kind: str) -> Case:
    inputs = [i for i in model.graph.input if i.type.tensor_type.elem_type == 1]
    shapes = {i.name: tuple(d.dim_value for d in i.type.tensor_type.shape.dim) for i in inputs}
    data, made = onnx_changes.changed(random, model)
    case = Case(
        "net.onnx", {"net.onnx": data}, random_options(random), f"{kind}: {', '.join(made)}"
    )
    case = _with_noise(random, case, {node.op_type for node in model.graph.node})
    if len(shapes) != 1:
        return case
    ((name, dims),) = shapes.items()
    recurrent = any(node.op_type in ("LSTM", "GRU", "RNN") for node in model.graph.node)
    return _quantised(random, _fitted(random, case, name, dims, recurrent), name, dims)


def _with_noise(random: Random, case: Case, kinds: set[str]) -> Case:
    """Most networks that draw random numbers are told where these come from."""
    if not kinds & _DRAWING:
        return case
    if random.random() < 0.15:
        return case
    return replace(
        case, options={**case.options, "noise": random.choice(["seed", "input", "mean"])}
    )


def _fitted(random: Random, case: Case, name: str, dims: tuple[int, ...], recurrent: bool) -> Case:
    """Half of the cases get options for what the network is."""
    if not dims or random.random() < 0.5:
        return case
    more = fitting_options(random, name, dims, recurrent=recurrent)
    return replace(case, options={**case.options, **more})


def _quantised(random: Random, case: Case, name: str, dims: tuple[int, ...]) -> Case:
    """Now and then a network is quantised."""
    if random.random() > 0.12 or not dims or min(dims) < 1:
        return case
    data = calibration(random, name, dims)
    options = {
        **case.options, "quantize": random.choice(["int8", "int16"]), "calibration": "x.npz",
        "max_loss": random.choice(["1", "1e6"]),
    }  # fmt: skip
    if random.random() < 0.3:
        options["io_type"] = "raw"
    return replace(case, files={**case.files, "x.npz": data}, options=options)


def _keras(random: Random) -> Case:
    model = keras_networks.random_network(random)
    dims = tuple(int(d) for d in model.layers[0].config["shape"][1:])
    suffix, data, made = keras_networks.changed(random, model)
    name = f"net{suffix}"
    case = Case(name, {name: data}, random_options(random), f"keras: {', '.join(made)}")
    recurrent = any(layer.class_name in ("LSTM", "GRU", "SimpleRNN") for layer in model.layers)
    case = _fitted(random, case, "x", (1, *dims), recurrent)
    return _quantised(random, case, "x", (1, *dims))


def _record(random: Random) -> Case:
    """A network with its own record, changed."""
    data = onnx_networks.random_network(random).SerializeToString()
    options = {k: v for k, v in random_options(random).items() if k in ("isa", "many", "io_layout")}
    case = Case("net.onnx", {"net.onnx": data}, {**options, "isa": options["isa"][:1]}, "record")
    text = records.record_of(random, case)
    if not text:
        return case
    record, made = records.changed(random, text)
    return replace(
        case, files={**case.files, records.NAME: record},
        options={**case.options, "tuning": records.NAME}, origin=f"record: {', '.join(made)}",
    )  # fmt: skip


def _audio(random: Random) -> Case:
    """A network over samples, most often step by step."""
    data, made = audio_files.changed(random)
    options = random_options(random)
    if random.random() < 0.7:
        options |= {"streaming": True, "block": random.choice(["1", "2", "8"])}
    elif random.random() < 0.9:
        options["dims"] = (f"input.1={random.choice([1, 2, 17])}",)
    return Case("net.nam", {"net.nam": data}, options, f"audio: {', '.join(made)}")


def _tflite(random: Random) -> Case:
    """Operators of TensorFlow Lite."""
    data, made, name, dims = tflite_networks.changed(random)
    case = Case(
        "net.tflite", {"net.tflite": data}, random_options(random), f"tflite: {', '.join(made)}"
    )
    return _fitted(random, case, name, dims, recurrent=False) if name else case


def _trees(random: Random) -> Case:
    """An ensemble of trees, changed."""
    return _of_model(random, tree_networks.random_forest(random), "trees")


KINDS = {
    "onnx": _onnx, "node": _node, "keras": _keras, "record": _record, "audio": _audio,
    "tflite": _tflite, "trees": _trees,
}  # fmt: skip
