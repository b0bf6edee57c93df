"""The file that a rival reads, made from a graph, or from an ONNX file as it is."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import onnx

from cannery.errors import ToolchainError
from cannery.ir.graph import Graph
from cannery.ir.orders import model_type
from rivals.onnx_writer import onnx_model
from rivals.served import rival_environment

_TIMEOUT = 1800.0


@dataclass(frozen=True)
class Prepared:
    """A file for a rival, the names of its inputs and outputs, the order of images at its ends.

    `order` is "nchw" or "nhwc", or "model" for a file that is the model itself.
    """

    file: Path
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    order: str

    @property
    def bytes(self) -> int:
        """Of all its files."""
        parts = [self.file, self.file.with_suffix(".bin")]
        return sum(part.stat().st_size for part in parts if part.is_file())


def prepare(graph: Graph, model: Path, form: str, order: str, folder: Path) -> Prepared:
    """Write the file in `form` ("onnx", "tflite", "torch", "ncnn", "mnn") for images in `order`.

    With order "model", `model` is an ONNX file that is taken as it is, except for dimensions that
    it leaves open. Raises CanneryError.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if form == "tflite":
        from rivals.tflite.model import tflite_model

        file = folder / "network.tflite"
        file.write_bytes(tflite_model(graph))
        return Prepared(file, graph.inputs, graph.outputs, "nhwc")
    if form == "torch":
        from rivals.torch_writer import write_torch

        file = folder / "network.pt"
        write_torch(graph, file)
        return Prepared(file, graph.inputs, graph.outputs, "nhwc")
    source = folder / f"network_{order}.onnx"
    onnx.save(_closed(model, graph) if order == "model" else onnx_model(graph, order), str(source))
    names = _interface(source)
    if form == "onnx":
        return Prepared(source, *names, order)
    converter = {"ncnn": _to_ncnn, "mnn": _to_mnn}[form]
    return Prepared(converter(source, folder), *names, order)


def _closed(model: Path, graph: Graph) -> onnx.ModelProto:
    """The model with the sizes of inputs and outputs that the graph was imported with."""
    found = onnx.load(str(model))
    weights = {tensor.name for tensor in found.graph.initializer}
    inputs = [value for value in found.graph.input if value.name not in weights]
    pairs = [*zip(inputs, graph.inputs, strict=True)]
    pairs += zip(found.graph.output, graph.outputs, strict=True)
    for value, name in pairs:
        dims = value.type.tensor_type.shape.dim
        for dim, size in zip(dims, model_type(graph, name).shape, strict=True):
            dim.Clear()
            dim.dim_value = size
    return found


def _interface(file: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    body = onnx.load(str(file), load_external_data=False).graph
    weights = {tensor.name for tensor in body.initializer}
    inputs = tuple(value.name for value in body.input if value.name not in weights)
    return inputs, tuple(value.name for value in body.output)


def _to_ncnn(source: Path, folder: Path) -> Path:
    own = folder / f"pnnx_{source.stem}"
    own.mkdir(exist_ok=True)
    copy = Path(shutil.copyfile(source, own / "network.onnx"))
    _run([_program("pnnx"), copy.name, "fp16=0"], own)
    return own / "network.ncnn.param"


def _to_mnn(source: Path, folder: Path) -> Path:
    """Recurrent layers as operators: loops that stand for them end in crashes or wrong shapes."""
    made = folder / f"{source.stem}.mnn"
    _run(
        [_program("mnnconvert"), "-f", "ONNX", "--modelFile", str(source.resolve()), "--MNNModel",
         str(made.resolve()), "--bizCode", "MNN", "--useOriginRNNImpl"],
        folder,
    )  # fmt: skip
    return made


def _program(name: str) -> str:
    beside = Path(sys.executable).parent / name
    found = shutil.which(name) or (str(beside) if beside.is_file() else "")
    if not found:
        raise ToolchainError(f"{name} not found", cure="pip install -r benchmarks/requirements.txt")
    return found


def _run(command: Sequence[str], folder: Path) -> None:
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, errors="replace", check=False,
        timeout=_TIMEOUT, stdin=subprocess.DEVNULL, env=rival_environment(),
    )  # fmt: skip
    if done.returncode:
        lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        # MNN's tools ask pip for a package that they do without.
        own = [line for line in lines if not re.search("aliyun|distribution", line)]
        said = next((line for line in own if re.search("error|fail", line, re.I)), "")
        if done.returncode < 0:
            said = f"ended by {signal.Signals(-done.returncode).name}"
        raise ToolchainError(
            said or (lines[-1] if lines else "failed"), where=Path(command[0]).name,
            cure="leave this rival out",
        )  # fmt: skip
