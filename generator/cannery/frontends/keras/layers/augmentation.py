"""Layers that change images at random in training, and those that cut them."""

from __future__ import annotations

from collections.abc import Sequence

from cannery.errors import ModelError, UnsupportedError
from cannery.frontends.keras.config import LayerConfig
from cannery.frontends.keras.layers.base import LayerPlan, Scope, layer
from cannery.frontends.keras.layers.window import check_rank
from cannery.ops.movement.op import Slice
from cannery.ops.resize.op import Resize


@layer(
    "AugMix",
    "CutMix",
    "Equalization",
    "MixUp",
    "RandAugment",
    "RandomBrightness",
    "RandomColorDegeneration",
    "RandomColorJitter",
    "RandomContrast",
    "RandomElasticTransform",
    "RandomErasing",
    "RandomFlip",
    "RandomGaussianBlur",
    "RandomGrayscale",
    "RandomHeight",
    "RandomHue",
    "RandomInvert",
    "RandomPerspective",
    "RandomPosterization",
    "RandomRotation",
    "RandomSaturation",
    "RandomSharpness",
    "RandomShear",
    "RandomTranslation",
    "RandomWidth",
    "RandomZoom",
    "Solarization",
    inert=True,
)
def augmentation(config: LayerConfig) -> LayerPlan:
    """Returns its input, as floats.

    Equalization and Solarization are not random, but as far as Keras has them (3.8 to 3.15) they,
    too, do nothing unless they are called with training=True.
    """
    config.ignore_all()

    def build(scope: Scope, inputs: Sequence[str]) -> str:
        return scope.to_float(scope.single(inputs))

    return LayerPlan(build, trains_by_default=True)


@layer("CenterCrop")
def center_crop(config: LayerConfig) -> LayerPlan:
    """The middle of an image, as floats; a smaller image is cut to the shape, then resized.

    keras/src/layers/preprocessing/image_preprocessing/center_crop.py, and smart_resize in
    keras/src/utils/image_utils.py.
    """
    height, width = config.integer("height"), config.integer("width")
    first = config.channels_first()

    def build(scope: Scope, inputs: Sequence[str]) -> str:
        x = scope.channels_last(scope.to_float(scope.single(inputs)), first)
        check_rank(scope.shape(x)[1:-1], 2)
        _, h, w, _ = scope.shape(x)
        if h >= height and w >= width:
            y = _middle(scope, x, height, width)
        else:
            across, along = int(float(w * height) / width), int(float(h * width) / height)
            y = _middle(scope, x, max(min(h, across), 1), max(min(w, along), 1))
            y = scope.node(Resize("linear", (height, width), "half_pixel", "floor"), [y], "resized")
        return scope.channels_back(y, first)

    return LayerPlan(build, trains_by_default=True)


def _middle(scope: Scope, x: str, height: int, width: int) -> str:
    n, h, w, c = scope.shape(x)
    if (h, w) == (height, width):
        return x
    top, left = (h - height) // 2, (w - width) // 2
    ends = (n, top + height, left + width, c)
    return scope.node(Slice((0, top, left, 0), ends, (1, 1, 1, 1)), [x], "middle")


@layer("RandomCrop")
def random_crop(config: LayerConfig) -> LayerPlan:
    """Returns images that have its size; what becomes of others depends on the version of Keras."""
    size = (config.integer("height"), config.integer("width"))
    first = config.channels_first()
    config.ignore("seed")

    def build(scope: Scope, inputs: Sequence[str]) -> str:
        x = scope.to_float(scope.single(inputs))
        found = _height_and_width(scope, x, first)
        if found != size:
            raise UnsupportedError(
                f"it crops {found} to {size} in training; without, Keras resizes or does nothing, "
                "depending on its version",
                cure="use CenterCrop, or an input of its size",
            )
        return x

    return LayerPlan(build, trains_by_default=True)


def _height_and_width(scope: Scope, x: str, first: bool) -> tuple[int, ...]:
    shape = scope.shape(x)
    if len(shape) != 4:
        raise ModelError(f"its input has shape {shape}, expected images")
    return shape[2:] if first else shape[1:3]
