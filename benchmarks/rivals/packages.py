"""The rivals, all from the Python package index: packages, file formats, orders of images."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from rivals.compilers import Iree, Tvm
from rivals.runtimes import (
    LiteRt,
    Mnn,
    MnnHalf,
    Ncnn,
    NcnnHalf,
    OnnxRuntime,
    OpenVino,
    PyTorch,
    Runtime,
)


@dataclass(frozen=True)
class Rival:
    """A runtime: its name for people, its package, its file format and its image orders.

    `compiles`: it makes code for a given processor, so that limits need no more.
    """

    title: str
    package: str
    format: str
    orders: tuple[str, ...]
    load: Callable[[Path, int], Runtime]
    compiles: bool = False

    @property
    def version(self) -> str:
        """The installed version, empty if it is absent."""
        try:
            return metadata.version(self.package)
        except metadata.PackageNotFoundError:
            return ""

    def library_bytes(self) -> int:
        """The shared libraries of its package; several programs could share them."""
        files = metadata.files(self.package) or []
        paths = {Path(str(f.locate())).resolve() for f in files if _is_library(f.name)}
        return sum(path.stat().st_size for path in paths if path.is_file())


def _is_library(name: str) -> bool:
    return name.endswith(".so") or ".so." in name


#: All rivals by name. Orders are those of images at the interface.
RIVALS: dict[str, Rival] = {
    "onnxruntime": Rival(
        "ONNX Runtime", "onnxruntime", "onnx", ("nchw", "nhwc"), OnnxRuntime
    ),
    "litert": Rival("LiteRT", "ai-edge-litert", "tflite", ("nhwc",), LiteRt),
    "pytorch": Rival("PyTorch", "torch", "torch", ("nhwc",), PyTorch),
    "openvino": Rival("OpenVINO", "openvino", "onnx", ("nchw", "nhwc"), OpenVino),
    "ncnn": Rival("ncnn", "ncnn", "ncnn", ("nchw",), Ncnn),
    "mnn": Rival("MNN", "MNN", "mnn", ("nchw", "nhwc"), Mnn),
    "iree": Rival("IREE", "iree-base-runtime", "onnx", ("nchw",), Iree, True),
    "tvm": Rival("TVM", "apache-tvm", "onnx", ("nchw",), Tvm, True),
}  # fmt: skip

#: Those that compute in half precision on Arm processors that can.
HALF_RIVALS: dict[str, Rival] = {
    "ncnn-half": Rival("ncnn half", "ncnn", "ncnn", ("nchw",), NcnnHalf),
    "mnn-half": Rival("MNN half", "MNN", "mnn", ("nchw", "nhwc"), MnnHalf),
}
