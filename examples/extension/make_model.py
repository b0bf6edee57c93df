"""Writes detector.onnx: a convolution along 32 samples, then the operator Peaks of `com.acme`."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

rng = np.random.default_rng(1)
kernel = rng.standard_normal((4, 1, 5)).astype(np.float32)
nodes = [
    helper.make_node("Conv", ["signal", "kernel"], ["filtered"], pads=[2, 2]),
    helper.make_node("Reshape", ["filtered", "rows"], ["flat"]),
    helper.make_node("Peaks", ["flat"], ["peaks"], domain="com.acme", least=0.25),
]
graph = helper.make_graph(
    nodes,
    "detector",
    [helper.make_tensor_value_info("signal", TensorProto.FLOAT, [1, 1, 32])],
    [helper.make_tensor_value_info("peaks", TensorProto.FLOAT, [4, 32])],
    [
        numpy_helper.from_array(kernel, "kernel"),
        numpy_helper.from_array(np.asarray([4, 32]), "rows"),
    ],
)
opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.acme", 1)]
onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), "detector.onnx")
