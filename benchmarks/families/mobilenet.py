"""MobileNetV1, as Keras has it."""

from __future__ import annotations

from frontends.keras_files import Model
from keras_builder import Builder

#: Filters and stride of each depthwise separable layer, at full width.
BLOCKS = (
    (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *((512, 1),) * 5, (1024, 2),
    (1024, 1),
)  # fmt: skip


def _normed(b: Builder, name: str) -> None:
    b.norm(f"{name}_bn")
    b.plain("ReLU", f"{name}_relu", max_value=6.0)


def mobilenet_v1() -> Model:
    """Howard et al., "MobileNets", 2017; 1.0, 224x224x3, 569 MMAC."""
    b = Builder(46)
    b.input(224, 224, 3)
    b.conv("conv1", 32, stride=2, bias=False)
    _normed(b, "conv1")
    for number, (filters, stride) in enumerate(BLOCKS, 1):
        if stride == 2:
            b.plain("ZeroPadding2D", f"pad_{number}", padding=[[0, 1], [0, 1]],
                    data_format="channels_last")  # fmt: skip
        b.depthwise(f"conv_dw_{number}", stride, "valid" if stride == 2 else "same")
        _normed(b, f"conv_dw_{number}")
        b.conv(f"conv_pw_{number}", filters, (1, 1), bias=False)
        _normed(b, f"conv_pw_{number}")
    b.plain("GlobalAveragePooling2D", "mean", data_format="channels_last")
    b.dense("predictions", 1024, 1000, "softmax")
    return b.model("mobilenet_v1")
