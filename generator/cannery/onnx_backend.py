"""ONNX's backend interface: `prepare(model).run(inputs)`, as its scoreboard calls it.

    import cannery.onnx_backend as backend

    outputs = backend.prepare(onnx.load("net.onnx")).run([image])

It needs the onnx package.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

try:
    import onnx
    from onnx import helper
    from onnx.backend.base import Backend, BackendRep
except ImportError as error:
    raise ImportError(
        f"cannery.onnx_backend needs the Python package onnx ({error}): pip install 'cannery[onnx]'"
    ) from error

from cannery.api.load import load
from cannery.api.model import given_model
from cannery.api.net import Net
from cannery.errors import CanneryError, OptionError
from cannery.pipeline import load_model


class CanneryRep(BackendRep):
    """A model that is ready to run."""

    def __init__(self, net: Net, model: onnx.ModelProto) -> None:
        self.net = net
        weights = {weight.name for weight in model.graph.initializer}
        self._names = [value.name for value in model.graph.input]
        self._given = [name for name in self._names if name not in weights]
        elements = [value.type.tensor_type.elem_type for value in model.graph.output]
        self._dtypes = [helper.tensor_dtype_to_np_dtype(e) if e else None for e in elements]
        self._lists = {v.name for v in model.graph.output if v.type.HasField("sequence_type")}

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """The outputs of the model for its inputs, a sequence in their order or arrays by name."""
        if not isinstance(inputs, dict):
            arrays = list(inputs) if isinstance(inputs, list | tuple) else [inputs]
            names = self._names if len(arrays) == len(self._names) else self._given
            inputs = dict(zip(names, arrays, strict=True))
        found = self.net(*(inputs[port.name] for port in (*self.net.inputs, *self.net.states)))
        outputs = found if isinstance(found, tuple) else (found,)
        return tuple(map(_as_declared, self._with_lists(outputs), self._dtypes))

    def _with_lists(self, outputs: Sequence[Any]) -> list[Any]:
        """Outputs with the lists of the model, whose tensors `<name>.0`, `<name>.1` ... are."""
        results: dict[str, Any] = {}
        for port, array in zip(self.net.outputs, outputs, strict=False):
            name, _, _ = port.name.rpartition(".")
            if name in self._lists:
                results.setdefault(name, []).append(array)
            else:
                results[port.name] = array
        return list(results.values())


def _as_declared(array: Any, dtype: np.dtype[Any] | None) -> Any:
    """Floats of the model's width: Cannery computes with 32 bits."""
    return array if dtype is None or array.dtype.kind != "f" else array.astype(dtype, copy=False)


class CanneryBackend(Backend):
    """Cannery as a backend of ONNX; options of `cannery.load` are keyword arguments."""

    @classmethod
    def is_compatible(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> bool:
        """Whether Cannery reads the model."""
        try:
            with given_model(model, kwargs, "is_compatible").as_file() as options:
                load_model(options)
        except CanneryError:
            return False
        return cls.supports_device(device)

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> CanneryRep:
        """A model compiled for this machine. Raises CanneryError, also for another device."""
        if not cls.supports_device(device):
            raise OptionError(f"there is no device {device!r}", where="prepare", cure="take CPU")
        if not isinstance(model, onnx.ModelProto):
            what = f"{type(model).__name__} is not a model of the onnx package"
            raise OptionError(what, where="prepare", cure="give onnx.load(FILE)")
        return CanneryRep(load(model.SerializeToString(), **kwargs), model)

    @classmethod
    def run_node(
        cls,
        node: onnx.NodeProto,
        inputs: Any,
        device: str = "CPU",
        outputs_info: Sequence[tuple[Any, tuple[int, ...]]] | None = None,
        **kwargs: Any,
    ) -> tuple[Any, ...]:
        """The outputs of one node. Raises CanneryError."""
        opset = kwargs.pop("opset_version", onnx.defs.onnx_opset_version())
        arrays = [np.asarray(array) for array in inputs]
        values = [
            helper.make_tensor_value_info(
                name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
            )
            for name, array in zip(filter(None, node.input), arrays, strict=True)
        ]
        outputs = [helper.make_empty_tensor_value_info(name) for name in node.output if name]
        graph = helper.make_graph([node], "node", values, outputs)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid(node.domain, opset)])
        model = onnx.shape_inference.infer_shapes(model)  # the outputs get their types
        return cls.prepare(model, device, **kwargs).run(arrays)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Whether it is this machine's processor."""
        return device.partition(":")[0] == "CPU"


is_compatible = CanneryBackend.is_compatible
prepare = CanneryBackend.prepare
run_model = CanneryBackend.run_model
run_node = CanneryBackend.run_node
supports_device = CanneryBackend.supports_device
