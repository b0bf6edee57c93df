"""The layers and parameters that `compare_with_keras.py` compares; needs Keras only when made."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Case:
    """One layer with its parameters; shapes of its inputs are without the batch."""

    layer: str
    shapes: tuple[tuple[int, ...], ...]
    options: Mapping[str, Any]

    def __str__(self) -> str:
        options = ",".join(f"{k}={_name(v)}" for k, v in self.options.items())
        return f"{self.layer}({options})-{'-'.join('x'.join(map(str, s)) for s in self.shapes)}"


def _name(value: Any) -> str:
    return str(value).replace(" ", "")


def grid(layer: str, *shapes: Any, **options: list[Any]) -> Iterator[Case]:
    """Every combination of the options; a shape may be a list of the shapes of several inputs."""
    for shape, values in product(shapes, product(*options.values())):
        inputs = tuple(shape) if isinstance(shape, list) else (shape,)
        yield Case(layer, inputs, dict(zip(options, values, strict=True)))


class LayerAsActivation:
    """A layer to be made as another one's activation."""

    def __init__(self, name: str, **options: Any) -> None:
        self.name = name
        self.options = options

    def __str__(self) -> str:
        return self.name


FUNCTIONS = (
    "relu relu6 leaky_relu elu selu celu gelu silu swish mish softplus softsign tanh sigmoid "
    "hard_sigmoid hard_silu hard_swish hard_tanh exponential softmax log_softmax linear "
    "log_sigmoid tanh_shrink soft_shrink hard_shrink squareplus sparse_plus sparse_sigmoid"
).split()


def _convolutions() -> Iterator[Case]:
    image, line = (9, 8, 6), (11, 6)
    both, same = ["valid", "same"], ["valid", "same", "causal"]
    yield from grid(
        "Conv2D",
        image,
        filters=[4],
        kernel_size=[(3, 2), 4],
        strides=[1, (2, 3)],
        padding=both,
        use_bias=[True, False],
    )
    yield from grid(
        "Conv2D",
        image,
        filters=[6],
        kernel_size=[3],
        groups=[1, 2, 3, 6],
        dilation_rate=[1, (2, 3)],
        padding=both,
    )
    yield from grid(
        "Conv2D",
        image,
        filters=[5],
        kernel_size=[(2, 3)],
        padding=both,
        strides=[1, 2],
        data_format=["channels_first"],
        activation=["relu", "softmax"],
    )
    yield from grid(
        "Conv2D",
        image,
        filters=[5],
        kernel_size=[1],
        activation=[
            *FUNCTIONS,
            LayerAsActivation("LeakyReLU"),
            LayerAsActivation("PReLU"),
            LayerAsActivation("ReLU", max_value=0.5, negative_slope=0.1),
            LayerAsActivation("ELU"),
            LayerAsActivation("Softmax", axis=1),
        ],
    )
    yield from grid("Conv1D", line, filters=[4], kernel_size=[2, 5], strides=[1, 3], padding=same)
    yield from grid(
        "Conv1D",
        line,
        filters=[4],
        kernel_size=[3],
        dilation_rate=[2, 3],
        groups=[1, 2],
        padding=same,
    )
    yield from grid(
        "Conv1D",
        line,
        filters=[4],
        kernel_size=[3],
        padding=["same"],
        data_format=["channels_first"],
    )
    yield from grid(
        "SeparableConv2D",
        image,
        filters=[5],
        kernel_size=[3, (2, 4)],
        depth_multiplier=[1, 3],
        strides=[1, 2],
        padding=both,
        activation=["relu"],
    )
    yield from grid(
        "SeparableConv2D",
        image,
        filters=[5],
        kernel_size=[3],
        dilation_rate=[2],
        padding=both,
        use_bias=[True, False],
    )
    yield from grid(
        "SeparableConv1D",
        line,
        filters=[5],
        kernel_size=[3, 4],
        strides=[1, 2],
        depth_multiplier=[1, 2],
        padding=same,
    )
    yield from grid(
        "SeparableConv1D", line, filters=[5], kernel_size=[3], dilation_rate=[2], padding=same
    )
    yield from grid(
        "DepthwiseConv2D",
        image,
        kernel_size=[3, (2, 4)],
        depth_multiplier=[1, 3],
        strides=[1, 2],
        padding=both,
    )
    yield from grid(
        "DepthwiseConv2D",
        image,
        kernel_size=[3],
        dilation_rate=[2],
        padding=both,
        use_bias=[True, False],
        activation=["tanh"],
    )
    yield from grid(
        "DepthwiseConv1D",
        line,
        kernel_size=[3, 4],
        depth_multiplier=[1, 2],
        strides=[1, 2],
        padding=both,
    )
    yield from grid("DepthwiseConv1D", line, kernel_size=[3], dilation_rate=[2], padding=both)


def _transposed() -> Iterator[Case]:
    both = ["valid", "same"]
    image, line = (4, 5, 3), (6, 3)
    yield from grid(
        "Conv2DTranspose",
        image,
        filters=[4],
        kernel_size=[1, 2, 3, (4, 5)],
        strides=[1, 2, (3, 2)],
        padding=both,
        use_bias=[True],
    )
    yield from grid(
        "Conv2DTranspose",
        image,
        filters=[4],
        kernel_size=[2, 3, (4, 5)],
        strides=[2, (3, 4)],
        padding=both,
        output_padding=[0, 1, (1, 0)],
    )
    yield from grid(
        "Conv2DTranspose",
        image,
        filters=[4],
        kernel_size=[2, 3],
        dilation_rate=[2, (2, 3)],
        padding=both,
        activation=["relu"],
    )
    yield from grid(
        "Conv2DTranspose",
        image,
        filters=[4],
        kernel_size=[3],
        strides=[2],
        padding=["same"],
        data_format=["channels_first"],
        use_bias=[False, True],
    )
    yield from grid(
        "Conv1DTranspose",
        line,
        filters=[4],
        kernel_size=[1, 2, 3, 4],
        strides=[1, 2, 3],
        padding=both,
    )
    yield from grid(
        "Conv1DTranspose",
        line,
        filters=[4],
        kernel_size=[3, 4],
        strides=[3],
        padding=both,
        output_padding=[0, 1, 2],
    )


def _pools() -> Iterator[Case]:
    image, line = (9, 8, 3), (11, 3)
    both = ["valid", "same"]
    formats = ["channels_last", "channels_first"]
    for kind in ("Max", "Average"):
        yield from grid(
            f"{kind}Pooling2D",
            image,
            pool_size=[2, (3, 2)],
            strides=[None, 1, (2, 3)],
            padding=both,
            data_format=formats,
        )
        yield from grid(
            f"{kind}Pooling1D",
            line,
            pool_size=[2, 3],
            strides=[None, 1, 4],
            padding=both,
            data_format=formats,
        )
        yield from grid(
            f"Global{kind}Pooling2D", image, keepdims=[False, True], data_format=formats
        )
        yield from grid(f"Global{kind}Pooling1D", line, keepdims=[False, True], data_format=formats)


def _normalizations() -> Iterator[Case]:
    onoff = [True, False]
    image = (5, 4, 6)
    yield from grid(
        "BatchNormalization", image, axis=[-1, 1, 2], scale=onoff, center=onoff, epsilon=[1e-3, 0.1]
    )
    yield from grid("BatchNormalization", (7,), (5, 6), axis=[-1, 1])
    yield from grid("BatchNormalization", image, renorm=[True])
    yield from grid("BatchNormalization", image, axis=[[1, 3], [2, 1]])
    yield from grid(
        "LayerNormalization",
        image,
        axis=[-1, 2, [1, 2], [3, 1], [-1, -2, -3]],
        scale=onoff,
        center=onoff,
        epsilon=[1e-3],
    )
    yield from grid("LayerNormalization", image, (6,), axis=[-1], rms_scaling=[True])
    yield from grid("LayerNormalization", image, axis=[[1, 3]], rms_scaling=[True])
    yield from grid(
        "GroupNormalization",
        image,
        groups=[1, 2, 6, -1],
        axis=[-1],
        scale=onoff,
        center=onoff,
        epsilon=[0.01],
    )
    yield from grid("GroupNormalization", image, groups=[5, 1], axis=[1])
    yield from grid("GroupNormalization", image, groups=[2], axis=[-2])
    yield from grid("GroupNormalization", (8,), groups=[2])


def _activations() -> Iterator[Case]:
    image = (3, 4, 5)
    yield from grid("Activation", image, (6,), activation=FUNCTIONS)
    yield from grid(
        "ReLU", image, max_value=[None, 0.5, 6.0], negative_slope=[0.0, 0.2], threshold=[0.0, 0.25]
    )
    yield from grid("LeakyReLU", image)
    yield from grid("LeakyReLU", image, negative_slope=[0.0, 0.1, 1.5])  # Keras 3
    yield from grid("LeakyReLU", image, alpha=[0.0, 0.1, 1.5])  # Keras 2; Keras 3 still takes it
    yield from grid("PReLU", image, shared_axes=[None, [1, 2], [3]])
    yield from grid("ELU", image, alpha=[1.0, 0.3])
    yield from grid("ThresholdedReLU", image, theta=[0.5])
    yield from grid("Softmax", image, axis=[-1, 1, 2, [1, 2], [-1], [1, 3], [1, 2, 3]])


def _shapes() -> Iterator[Case]:
    image, line = (6, 5, 4), (6, 4)
    formats = ["channels_last", "channels_first"]
    yield from grid("Flatten", image, line, (4,), data_format=formats)
    yield from grid("Reshape", image, target_shape=[(30, 4), (-1,), (2, -1, 3), (120,), (5, 6, 4)])
    yield from grid("Permute", image, dims=[(1, 2, 3), (3, 1, 2), (2, 1, 3)])
    yield from grid("RepeatVector", (5,), n=[1, 3])
    yield from grid(
        "ZeroPadding2D", image, padding=[1, (2, 0), ((1, 2), (3, 0))], data_format=formats
    )
    yield from grid("ZeroPadding1D", line, padding=[1, (2, 0)])
    yield from grid(
        "Cropping2D", image, cropping=[1, (2, 0), ((1, 2), (2, 0))], data_format=["channels_last"]
    )
    yield from grid(
        "Cropping2D", image, cropping=[1, ((1, 2), (2, 0))], data_format=["channels_first"]
    )
    yield from grid("Cropping1D", line, cropping=[1, (2, 0)])
    yield from grid(
        "UpSampling2D",
        image,
        size=[2, (1, 3)],
        data_format=formats,
        interpolation=["nearest", "bilinear", "bicubic", "lanczos3", "lanczos5"],
    )
    yield from grid(
        "UpSampling2D", (1, 3, 2), size=[(4, 5)], interpolation=["bilinear", "bicubic", "lanczos3"]
    )
    yield from grid("UpSampling1D", line, size=[2, 3])
    for name in "Dropout GaussianDropout GaussianNoise AlphaDropout".split():
        yield from grid(name, image, **{"stddev" if name == "GaussianNoise" else "rate": [0.3]})
    yield from grid("SpatialDropout1D", line, rate=[0.3])
    yield from grid("SpatialDropout2D", image, rate=[0.3])
    yield from grid("ActivityRegularization", image, l1=[0.1])
    yield from grid("Identity", image)


def _augmentation() -> Iterator[Case]:
    image = (7, 8, 3)
    for name in (
        "AugMix CutMix Equalization MixUp RandAugment RandomElasticTransform RandomErasing "
        "RandomFlip RandomGaussianBlur RandomGrayscale RandomInvert RandomPerspective RandomShear "
        "Solarization"
    ).split():
        yield from grid(name, image)
    for name in (
        "RandomBrightness RandomColorDegeneration RandomContrast RandomHeight RandomHue "
        "RandomRotation RandomSaturation RandomSharpness RandomWidth"
    ).split():
        yield from grid(name, image, factor=[0.3])
    yield from grid("RandomPosterization", image, factor=[4])
    yield from grid("RandomColorJitter", image, brightness_factor=[0.3])
    yield from grid("RandomZoom", image, height_factor=[0.2])
    yield from grid("RandomTranslation", image, height_factor=[0.2], width_factor=[0.2])
    yield from grid("RandomCrop", image, height=[7], width=[8])
    yield from grid("Resizing", image, height=[7], width=[8], interpolation=["bilinear", "bicubic"])
    yield from grid("CenterCrop", image, height=[1, 4, 7, 9, 20], width=[1, 5, 8, 11])
    yield from grid(
        "CenterCrop", (3, 7, 8), height=[4, 9], width=[5], data_format=["channels_first"]
    )


def _merges() -> Iterator[Case]:
    image = (3, 4, 5)
    for name in "Add Multiply Average Maximum Minimum".split():
        yield from grid(name, [image] * 2, [image] * 3, [image, (5,)], [(1, 5), image, (1, 4, 1)])
    yield from grid("Subtract", [image, image], [(5,), image])
    yield from grid("Concatenate", [image, (3, 4, 2), (3, 4, 1)], axis=[-1, 3])
    yield from grid("Concatenate", [image, (3, 2, 5)], axis=[2])
    yield from grid("Dot", [(6,), (6,)], axes=[1, -1, (1, 1)], normalize=[False, True])
    yield from grid("Dot", [(3, 6), (4, 6)], axes=[2, -1, (2, 2)], normalize=[False, True])
    yield from grid("Dot", [(6, 3), (4, 6)], axes=[(1, 2)], normalize=[False, True])
    yield from grid("Dot", [(6,), (4, 6)], [(4, 6), (6,)], [(2, 3, 6), (6,)], axes=[-1])
    yield from grid("Dot", [(2, 6, 3), (6, 4, 5)], axes=[(2, 1)], normalize=[False, True])


def _preprocessing() -> Iterator[Case]:
    image = (3, 4, 5)
    vector = [0.5, 1.0, -2.0, 0.1, 4.0]
    yield from grid(
        "Rescaling",
        image,
        scale=[1 / 127.5, 1.0, np.array(vector)],
        offset=[-1.0, 0.0, np.array(vector)],
    )
    yield from grid(
        "Normalization", image, axis=[-1, 1, (1, 3), None, (3, 1)], invert=[False, True]
    )
    yield from grid(
        "Normalization",
        image,
        axis=[-1],
        mean=[vector],
        invert=[False, True],
        variance=[[0.5, 1.0, 2.0, 0.0, 4.0]],
    )
    yield from grid("Normalization", image, axis=[None], mean=[3.0], variance=[0.25])
    yield from grid("Dense", (7,), (3, 7), image, (2, 3, 4, 7), units=[4], use_bias=[True, False])
    yield from grid("Dense", (7,), (3, 7), units=[4], activation=FUNCTIONS)


def _recurrent() -> Iterator[Case]:
    line, flags = (4, 3), [False, True]
    common: dict[str, list[Any]] = {"units": [5], "return_sequences": flags}
    for name in ("LSTM", "GRU", "SimpleRNN"):
        yield from grid(name, line, **common, return_state=flags, go_backwards=flags)
        yield from grid(name, line, **common, use_bias=flags, activation=["relu", "hard_sigmoid"])
    gates = ["hard_sigmoid", "linear", "relu6", "softsign"]
    yield from grid("LSTM", line, **common, recurrent_activation=gates, unit_forget_bias=[False])
    yield from grid(
        "GRU", line, **common, recurrent_activation=gates, reset_after=flags, use_bias=flags
    )


CASES = [
    *_convolutions(), *_transposed(), *_pools(), *_normalizations(), *_activations(), *_shapes(),
    *_merges(), *_preprocessing(), *_augmentation(), *_recurrent(),
]  # fmt: skip
