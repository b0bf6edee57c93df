"""Classifiers of images, as torchvision has them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from families.onnx_builder import OnnxBuilder

#: Makes one value of another.
Layer = Callable[[str], str]


def _image(name: str, seed: int, size: int) -> tuple[OnnxBuilder, str]:
    b = OnnxBuilder(name, seed)
    return b, b.input("image", 1, 3, size, size)


def _scores(b: OnnxBuilder, x: str) -> Any:
    """A thousand classes of the mean of the image."""
    return b.model(scores=b.linear(b.flatten(b.mean(x)), 1000))


def _squeeze_excite(b: OnnxBuilder, x: str, inner: int, act: Layer, gate: Layer) -> str:
    """The channels of x times gates that the means of all of them give."""
    gates = b.conv(act(b.conv(b.mean(x), inner, 1)), b.shapes[x][1], 1, gain=1.0)
    return b.plain("Mul", x, gate(gates))


#: Kernel, expanded channels, output channels, squeeze-excite, hard swish, stride: table 2.
_V3_SMALL = (
    (3, 16, 16, True, False, 2), (3, 72, 24, False, False, 2), (3, 88, 24, False, False, 1),
    (5, 96, 40, True, True, 2), (5, 240, 40, True, True, 1), (5, 240, 40, True, True, 1),
    (5, 120, 48, True, True, 1), (5, 144, 48, True, True, 1), (5, 288, 96, True, True, 2),
    (5, 576, 96, True, True, 1), (5, 576, 96, True, True, 1),
)  # fmt: skip


def mobilenet_v3_small() -> Any:
    """Howard et al., "Searching for MobileNetV3", 2019; 224x224x3, 57 MMAC."""
    b, x = _image("mobilenet_v3_small", 41, 224)

    def swish(x: str) -> str:
        return b.plain("HardSwish", x)

    def gate(x: str) -> str:
        return b.plain("HardSigmoid", x, alpha=1 / 6)

    x = swish(b.conv(x, 16, stride=2))
    for kernel, wide, filters, excite, hard, stride in _V3_SMALL:
        act, source, taken = swish if hard else b.relu, x, b.shapes[x][1]
        if wide != taken:
            x = act(b.conv(x, wide, 1))
        x = act(b.conv(x, wide, kernel, stride, groups=wide))
        if excite:
            x = _squeeze_excite(b, x, -(-wide // 32) * 8, b.relu, gate)
        x = b.conv(x, filters, 1, gain=1.0)
        x = b.add(x, source) if stride == 1 and taken == filters else x
    x = swish(b.conv(x, 576, 1))
    x = swish(b.linear(b.flatten(b.mean(x)), 1024))
    return b.model(scores=b.linear(x, 1000))


#: Expansion, kernel, stride, output channels, repeats: table 1.
_B0 = (
    (1, 3, 1, 16, 1), (6, 3, 2, 24, 2), (6, 5, 2, 40, 2), (6, 3, 2, 80, 3), (6, 5, 1, 112, 3),
    (6, 5, 2, 192, 4), (6, 3, 1, 320, 1),
)  # fmt: skip


def efficientnet_b0() -> Any:
    """Tan & Le, "EfficientNet", 2019; 224x224x3, 386 MMAC."""
    b, x = _image("efficientnet_b0", 42, 224)
    x = b.silu(b.conv(x, 32, stride=2))
    for expansion, kernel, first, filters, repeats in _B0:
        for repeat in range(repeats):
            stride, source, taken = first if repeat == 0 else 1, x, b.shapes[x][1]
            wide = taken * expansion
            if expansion > 1:
                x = b.silu(b.conv(x, wide, 1))
            x = b.silu(b.conv(x, wide, kernel, stride, groups=wide))
            x = _squeeze_excite(b, x, taken // 4, b.silu, lambda v: b.plain("Sigmoid", v))
            x = b.conv(x, filters, 1, gain=2.0)
            x = b.add(x, source) if stride == 1 and taken == filters else x
    return _scores(b, b.silu(b.conv(x, 1280, 1)))


def _shuffle(b: OnnxBuilder, x: str) -> str:
    """Channels of two groups, in turn."""
    _, c, h, w = b.shapes[x]
    apart = b.transpose(b.reshape(x, 1, 2, c // 2, h, w), 0, 2, 1, 3, 4)
    return b.reshape(apart, 1, c, h, w)


def _shuffle_branch(b: OnnxBuilder, x: str, filters: int, stride: int) -> str:
    x = b.relu(b.conv(x, filters, 1))
    x = b.conv(x, filters, stride=stride, groups=filters, gain=1.0)
    return b.relu(b.conv(x, filters, 1))


def shufflenet_v2() -> Any:
    """Ma et al., "ShuffleNet V2", 2018; 1.0x, 224x224x3, 145 MMAC."""
    b, x = _image("shufflenet_v2", 43, 224)
    x = b.pool(b.relu(b.conv(x, 24, stride=2)), 3, 2, 1)
    for filters, repeats in ((116, 4), (232, 8), (464, 4)):
        half, taken = filters // 2, b.shapes[x][1]
        left = b.conv(x, taken, stride=2, groups=taken, gain=1.0)
        left = b.relu(b.conv(left, half, 1))
        x = _shuffle(b, b.concat([left, _shuffle_branch(b, x, half, 2)]))
        for _ in range(repeats - 1):
            left, right = b.split(x, half, half)
            x = _shuffle(b, b.concat([left, _shuffle_branch(b, right, half, 1)]))
    return _scores(b, b.relu(b.conv(x, 1024, 1)))


def _fire(b: OnnxBuilder, x: str, squeeze: int, expand: int) -> str:
    x = b.relu(b.conv(x, squeeze, 1))
    return b.concat([b.relu(b.conv(x, expand, 1)), b.relu(b.conv(x, expand, 3))])


def squeezenet() -> Any:
    """Iandola et al., "SqueezeNet", 2016; version 1.1, 224x224x3, 349 MMAC."""
    b, x = _image("squeezenet", 44, 224)
    x = b.relu(b.conv(x, 64, stride=2, pad=0))
    for group in (((16, 64),) * 2, ((32, 128),) * 2, ((48, 192),) * 2 + ((64, 256),) * 2):
        x = b.pool(x, 3, 2, ceil=True)
        for squeeze, expand in group:
            x = _fire(b, x, squeeze, expand)
    return b.model(scores=b.flatten(b.mean(b.relu(b.conv(x, 1000, 1)))))


def resnet_50() -> Any:
    """He et al., "Deep Residual Learning", 2016; 96x96x3, 753 MMAC, 102 MB of weights."""
    b, x = _image("resnet_50", 45, 96)
    x = b.pool(b.relu(b.conv(x, 64, 7, 2)), 3, 2, 1)
    for stage, (filters, repeats) in enumerate(((64, 3), (128, 4), (256, 6), (512, 3))):
        for repeat in range(repeats):
            stride, source = 2 if stage and not repeat else 1, x
            x = b.relu(b.conv(x, filters, 1))
            x = b.relu(b.conv(x, filters, stride=stride))
            x = b.conv(x, 4 * filters, 1, gain=0.5)
            if not repeat:
                source = b.conv(source, 4 * filters, 1, stride, gain=1.0)
            x = b.relu(b.add(x, source))
    return _scores(b, x)
