"""Runtimes from the Python package index, each with the same few calls.

A runtime holds one network. Its inputs are set once, so that `call` is inference alone: no rival
pays for copies that its users could avoid. All compute in float32.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

F32 = NDArray[np.float32]


class Runtime(ABC):
    """One network in one rival; constructors raise whatever the rival raises."""

    def __init__(self, file: Path, threads: int) -> None:
        self.file, self.threads = file, threads

    @abstractmethod
    def set(self, inputs: Mapping[str, F32]) -> None:
        """Inputs by name, in the order of the file."""

    @abstractmethod
    def call(self) -> None:
        """One inference."""

    @abstractmethod
    def outputs(self) -> dict[str, F32]:
        """The outputs of the last call by name; their order is the file's, or names identify
        them.
        """

    def remark(self) -> str:
        """What has to be known of how it runs; empty: nothing."""
        return ""


#: Elements of outputs, as ONNX Runtime names them; others are floats.
_ORT_TYPES: dict[str, type[np.generic]] = {
    "tensor(int64)": np.int64, "tensor(int32)": np.int32, "tensor(uint8)": np.uint8,
    "tensor(bool)": np.bool_,
}  # fmt: skip


class OnnxRuntime(Runtime):
    """ONNX Runtime's CPU provider, inputs and outputs bound."""

    def __init__(self, file: Path, threads: int) -> None:
        super().__init__(file, threads)
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
        options.log_severity_level = 3
        self.session = onnxruntime.InferenceSession(
            file, options, providers=["CPUExecutionProvider"]
        )
        self.binding = self.session.io_binding()

    def set(self, inputs: Mapping[str, F32]) -> None:
        """See the base."""
        import onnxruntime

        for tensor, array in zip(self.session.get_inputs(), inputs.values(), strict=True):
            value = onnxruntime.OrtValue.ortvalue_from_numpy(array)
            self.binding.bind_ortvalue_input(tensor.name, value)
        for tensor in self.session.get_outputs():
            kind = _ORT_TYPES.get(tensor.type, np.float32)
            value = onnxruntime.OrtValue.ortvalue_from_shape_and_type(tensor.shape, kind)
            self.binding.bind_ortvalue_output(tensor.name, value)

    def call(self) -> None:
        """See the base."""
        self.session.run_with_iobinding(self.binding)

    def outputs(self) -> dict[str, F32]:
        """See the base."""
        names = [tensor.name for tensor in self.session.get_outputs()]
        return dict(zip(names, map(np.array, self.binding.copy_outputs_to_cpu()), strict=True))


class LiteRt(Runtime):
    """LiteRT with its XNNPACK delegate, which it uses on its own."""

    def __init__(self, file: Path, threads: int) -> None:
        super().__init__(file, threads)
        from ai_edge_litert.interpreter import Interpreter

        self.interpreter = Interpreter(str(file), num_threads=threads)
        self.interpreter.allocate_tensors()
        self.stateful = any(
            "LSTM" in operator["op_name"] for operator in self.interpreter._get_ops_details()
        )

    def set(self, inputs: Mapping[str, F32]) -> None:
        """See the base."""
        for tensor, array in zip(
            self.interpreter.get_input_details(), inputs.values(), strict=True
        ):
            self.interpreter.set_tensor(tensor["index"], array)

    def call(self) -> None:
        """See the base."""
        if self.stateful:  # each sequence begins at zero
            self.interpreter.reset_all_variables()
        self.interpreter.invoke()

    def outputs(self) -> dict[str, F32]:
        """See the base."""
        details = self.interpreter.get_output_details()
        return {t["name"]: self.interpreter.get_tensor(t["index"]) for t in details}

    def remark(self) -> str:
        """Which operators XNNPACK does not compute."""
        names = [operator["op_name"] for operator in self.interpreter._get_ops_details()]
        # The list keeps the operators that a delegate has replaced, ahead of the delegate's own.
        if "DELEGATE" not in names:
            return "without XNNPACK"
        return "" if names.count("DELEGATE") == 1 else f"{names.count('DELEGATE')} XNNPACK parts"


class PyTorch(Runtime):
    """PyTorch on a TorchScript module, frozen and optimised for inference."""

    def __init__(self, file: Path, threads: int) -> None:
        super().__init__(file, threads)
        import torch

        torch.set_num_threads(threads)
        self.torch = torch
        module = torch.jit.freeze(torch.jit.load(str(file)).eval())
        self.module = torch.jit.optimize_for_inference(module)
        self.inputs: tuple[Any, ...] = ()
        self.found: tuple[Any, ...] = ()

    def set(self, inputs: Mapping[str, F32]) -> None:
        """See the base."""
        self.inputs = tuple(map(self.torch.from_numpy, inputs.values()))

    def call(self) -> None:
        """See the base."""
        with self.torch.inference_mode():
            self.found = self.module(*self.inputs)

    def outputs(self) -> dict[str, F32]:
        """See the base."""
        return {str(k): np.array(value.numpy()) for k, value in enumerate(self.found)}


class OpenVino(Runtime):
    """OpenVINO's CPU plugin, for latency, in float32 where the processor would offer less."""

    def __init__(self, file: Path, threads: int) -> None:
        super().__init__(file, threads)
        import openvino

        settings = {
            "INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1, "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_PRECISION_HINT": "f32", "ENABLE_CPU_PINNING": False,
        }  # fmt: skip
        core = openvino.Core()
        self.compiled = core.compile_model(core.read_model(file), "CPU", settings)
        self.request = self.compiled.create_infer_request()

    def set(self, inputs: Mapping[str, F32]) -> None:
        """See the base."""
        for number, array in enumerate(inputs.values()):
            self.request.get_input_tensor(number).data[...] = array

    def call(self) -> None:
        """See the base; in Python this is cheaper than `infer`."""
        self.request.start_async()
        self.request.wait()

    def outputs(self) -> dict[str, F32]:
        """See the base."""
        count = len(self.compiled.outputs)
        return {str(k): np.array(self.request.get_output_tensor(k).data) for k in range(count)}


class Ncnn(Runtime):
    """ncnn, on a network from pnnx."""

    half = False

    def __init__(self, file: Path, threads: int) -> None:
        super().__init__(file, threads)
        import ncnn

        self.ncnn = ncnn
        self.net = ncnn.Net()
        options = self.net.opt
        options.num_threads = threads
        options.use_vulkan_compute = False
        options.use_fp16_packed = options.use_fp16_storage = self.half
        options.use_fp16_arithmetic = self.half
        options.use_bf16_storage = False
        if self.net.load_param(str(file)) or self.net.load_model(str(file.with_suffix(".bin"))):
            raise RuntimeError(f"ncnn does not load {file.name}")
        self.inputs: list[tuple[str, Any]] = []
        self.found: list[Any] = []

    def set(self, inputs: Mapping[str, F32]) -> None:
        """See the base. The batch has no axis; a Mat refers to its array, but a clone owns."""
        names = self.net.input_names()
        self.inputs = [
            (name, self.ncnn.Mat(_narrow(array[0])).clone())
            for name, array in zip(names, inputs.values(), strict=True)
        ]

    def call(self) -> None:
        """See the base."""
        extractor = self.net.create_extractor()
        for name, mat in self.inputs:
            extractor.input(name, mat)
        found = []
        for name in self.net.output_names():
            code, mat = extractor.extract(name)
            if code:
                raise RuntimeError(f"ncnn: extract returns {code}")
            found.append(mat)
        self.found = found

    def outputs(self) -> dict[str, F32]:
        """See the base."""
        return {str(k): np.array(mat)[np.newaxis] for k, mat in enumerate(self.found)}


class NcnnHalf(Ncnn):
    """The same in half precision."""

    half = True


def _narrow(array: NDArray[Any]) -> NDArray[Any]:
    """Row-major; ncnn and MNN know integers of 32 bits alone."""
    wide = array.dtype.kind in "iu" and array.dtype.itemsize == 8
    return np.ascontiguousarray(array, np.int32 if wide else array.dtype)


class Mnn(Runtime):
    """MNN's CPU backend by its session interface; precision "high" is float32."""

    precision = "high"

    def __init__(self, file: Path, threads: int) -> None:
        super().__init__(file, threads)
        import MNN

        self.mnn = MNN
        self.interpreter = MNN.Interpreter(str(file))
        self.session = self.interpreter.createSession(
            {"numThread": threads, "backend": "CPU", "precision": self.precision}
        )

    def set(self, inputs: Mapping[str, F32]) -> None:
        """See the base."""
        for name, array in inputs.items():
            tensor = self.interpreter.getSessionInput(self.session, name)
            tensor.copyFrom(self._tensor(array))

    def call(self) -> None:
        """See the base."""
        self.interpreter.runSession(self.session)

    def outputs(self) -> dict[str, F32]:
        """See the base; MNN keeps no order."""
        found = {}
        for name, tensor in self.interpreter.getSessionOutputAll(self.session).items():
            host = self._tensor(np.zeros(tensor.getShape(), np.float32))
            tensor.copyToHostTensor(host)
            found[name] = np.array(host.getNumpyData()).reshape(tensor.getShape())
        return found

    def _tensor(self, array: NDArray[Any]) -> Any:
        mnn, found = self.mnn, _narrow(array)
        kind = mnn.Halide_Type_Int if found.dtype == np.int32 else mnn.Halide_Type_Float
        return mnn.Tensor(array.shape, kind, found, mnn.Tensor_DimensionType_Caffe)


class MnnHalf(Mnn):
    """The same in half precision, where the processor has it."""

    precision = "low"
