"""A WaveNet in ONNX Runtime, with its pasts as inputs and outputs."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from rivals.wavenet import F32, Conv, WaveNet, compute

_OPSET, _IR_VERSION = 17, 8


class _Nodes:
    """Operations that add nodes; values are their names."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[TensorProto] = []

    def conv(self, x: str, conv: Conv) -> str:
        """See Operations."""
        bias = [] if conv.bias is None else [self._constant(conv.bias)]
        inputs = [x, self._constant(conv.weight), *bias]
        return self._node("Conv", inputs, dilations=[conv.dilation])

    def join(self, past: str, x: str) -> str:
        """See Operations."""
        return self._node("Concat", [past, x], axis=2)

    def last(self, x: str, steps: int) -> str:
        """See Operations."""
        ends = (-steps, np.iinfo(np.int64).max, 2)
        return self._node("Slice", [x, *(self._constant(np.array([end])) for end in ends)])

    def add(self, a: str, b: str) -> str:
        """See Operations."""
        return self._node("Add", [a, b])

    def tanh(self, x: str) -> str:
        """See Operations."""
        return self._node("Tanh", [x])

    def scale(self, x: str, factor: float) -> str:
        """See Operations."""
        return self._node("Mul", [x, self._constant(np.float32(factor))])

    def _node(self, kind: str, inputs: list[str], **attributes: Any) -> str:
        output = f"{kind.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [output], **attributes))
        return output

    def _constant(self, value: Any) -> str:
        name = f"constant_{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name


def onnx_model(net: WaveNet, steps: int) -> onnx.ModelProto:
    """Inputs x[1,1,steps] and the pasts, outputs y[1,1,steps] and the pasts of the next call."""
    nodes, shapes = _Nodes(), [(1, 1, steps), *net.pasts()]
    inputs = ["x", *(f"past_{k}" for k in range(len(shapes) - 1))]
    y, later = compute(net, nodes, "x", inputs[1:])
    given, found = (
        [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
            for name, shape in zip(names, shapes, strict=True)
        ]
        for names in (inputs, [y, *later])
    )
    graph = helper.make_graph(nodes.nodes, "wavenet", given, found, nodes.constants)
    opset = helper.make_opsetid("", _OPSET)
    return helper.make_model(graph, opset_imports=[opset], ir_version=_IR_VERSION)


class OnnxRuntime:
    """Two sets of pasts, of which each call reads one and writes the other: nothing is copied."""

    def __init__(self, net: WaveNet, steps: int) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
        options.log_severity_level = 3
        model = onnx_model(net, steps).SerializeToString()
        self._session = onnxruntime.InferenceSession(
            model, options, providers=["CPUExecutionProvider"]
        )
        shapes = [(1, 1, steps), *net.pasts()]
        self._x, self._y = (self._value(shapes[0]) for _ in range(2))
        pasts = [[self._value(shape) for shape in shapes[1:]] for _ in range(2)]
        self._bindings = [self._bound(*pasts), self._bound(*reversed(pasts))]

    def set(self, x: F32) -> None:
        """The samples of the next calls, x[1,1,steps]."""
        self._x.update_inplace(x)

    def call(self) -> None:
        """The next call."""
        self._session.run_with_iobinding(self._bindings[0])
        self._bindings.reverse()

    def output(self) -> F32:
        """Of the last call, y[1,1,steps]."""
        return np.array(self._y.numpy(), np.float32)

    def _value(self, shape: tuple[int, ...]) -> Any:
        return onnxruntime.OrtValue.ortvalue_from_numpy(np.zeros(shape, np.float32))

    def _bound(self, pasts: list[Any], later: list[Any]) -> Any:
        binding, session = self._session.io_binding(), self._session
        for tensor, value in zip(session.get_inputs(), [self._x, *pasts], strict=True):
            binding.bind_ortvalue_input(tensor.name, value)
        for tensor, value in zip(session.get_outputs(), [self._y, *later], strict=True):
            binding.bind_ortvalue_output(tensor.name, value)
        return binding
