"""Writes any network of the benchmarks as a file, with random weights and without Keras.

    python benchmarks/networks.py NAME... -o DIR      (no NAME: lists them)

The first three are tables I to III of Urbann et al., "A C Code Generator for Fast Inference and
Simple Deployment of Convolutional Neural Networks on Resource Constrained Systems" (NNCG, 2020);
the next two follow their papers; the segmenter is an encoder and decoder made up for this purpose.
Weights are scaled so that activations keep their size from layer to layer. The others are in
`onnx_networks.py`, `held_out.py` and `families/`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from families import FAMILIES
from frontends.keras_files import Model, write_h5
from held_out import HELD_OUT
from keras_builder import Builder
from onnx_networks import ONNX_NETWORKS


def ball() -> Model:
    """NNCG's table I: is it a ball? 16x16x1, 16 kMAC."""
    b = Builder(1)
    b.input(16, 16, 1)
    b.conv("conv_1", 8, (5, 5), stride=2, activation="relu")
    b.pool("pool_1")
    b.conv("conv_2", 12, padding="valid", activation="relu")
    b.conv("scores", 2, (2, 2), padding="valid", activation="softmax")
    return b.model("ball")


def pedestrian() -> Model:
    """NNCG's table II: is it a pedestrian? 36x18x1, 1.3 MMAC."""
    b = Builder(2)
    b.input(36, 18, 1)
    b.conv("conv_1", 12, activation="relu")
    b.pool("pool_1")
    for number, filters in ((2, 32), (3, 64)):
        b.conv(f"conv_{number}", filters)
        b.plain("LeakyReLU", f"leaky_{number}", alpha=0.1)
        b.pool(f"pool_{number}")
    b.plain("Dropout", "dropout", rate=0.3)
    b.conv("scores", 2, (4, 2), padding="valid", activation="softmax")
    return b.model("pedestrian")


def robot_detector() -> Model:
    """NNCG's table III: where are robots? 60x80x3, 4.3 MMAC."""
    b = Builder(3)
    b.input(60, 80, 3)
    for number, filters in enumerate((8, 12, 8, 16, 20), 1):
        b.conv(f"conv_{number}", filters)
        b.norm(f"bn_{number}")
        b.plain("LeakyReLU", f"leaky_{number}", alpha=0.1)
        if number in (1, 3):
            b.pool(f"pool_{number}")
    return b.model("robot_detector")


def segmenter() -> Model:
    """An encoder and decoder with two skips: 80x80x3 to four classes per pixel, 24 MMAC."""
    b = Builder(4)
    b.input(80, 80, 3)
    b.conv("stem", 16, stride=2, bias=False)
    b.norm("stem_bn")
    b.plain("ReLU", "stem_relu")
    skip_40 = b.separable("encode_1", 32)
    b.separable("encode_2", 64, stride=2)
    skip_20 = b.separable("encode_3", 64)
    b.separable("encode_4", 128, stride=2)
    b.separable("middle_1", 128)
    b.separable("middle_2", 128)
    b.plain("Concatenate", "skip_20", b.upsample("up_20"), skip_20, axis=-1)
    b.separable("decode_1", 64)
    b.plain("Concatenate", "skip_40", b.upsample("up_40"), skip_40, axis=-1)
    b.separable("decode_2", 32)
    b.upsample("up_80")
    b.separable("decode_3", 8)
    b.conv("classes", 4, (1, 1), activation="softmax")
    return b.model("segmenter")


#: Expansion, output channels, repeats, first stride: table 2 of the paper.
_INVERTED = (
    (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2),
    (6, 320, 1, 1),
)  # fmt: skip


def mobilenetv2() -> Model:
    """Sandler et al., "MobileNetV2", 2018; alpha 1, 224x224x3, without top, 299 MMAC."""
    b = Builder(5)
    b.input(224, 224, 3)
    _normed(b, b.conv("Conv1", 32, stride=2, bias=False), relu=True)
    number = 0
    for expansion, filters, repeats, first_stride in _INVERTED:
        for repeat in range(repeats):
            _inverted_residual(
                b, f"block_{number}", expansion, filters, first_stride if repeat == 0 else 1
            )
            number += 1
    _normed(b, b.conv("Conv_1", 1280, (1, 1), bias=False), relu=True)
    return b.model("mobilenetv2")


def _normed(b: Builder, name: str, relu: bool) -> None:
    b.norm(f"{name}_BN")
    if relu:
        b.plain("ReLU", f"{name}_relu", max_value=6.0)


def _inverted_residual(b: Builder, name: str, expansion: int, filters: int, stride: int) -> None:
    """Expand 1x1, depthwise 3x3, project 1x1; with a shortcut where the shape stays."""
    source, taken = b.last, b.channels[b.last]
    if expansion > 1:
        _normed(b, b.conv(f"{name}_expand", taken * expansion, (1, 1), bias=False), relu=True)
    if stride == 2:
        b.plain(
            "ZeroPadding2D", f"{name}_pad", padding=[[0, 1], [0, 1]], data_format="channels_last"
        )
    padding = "valid" if stride == 2 else "same"
    _normed(b, b.depthwise(f"{name}_depthwise", stride, padding), relu=True)
    _normed(b, b.conv(f"{name}_project", filters, (1, 1), bias=False), relu=False)
    if stride == 1 and taken == filters:
        b.plain("Add", f"{name}_add", source, b.last)


def vgg19() -> Model:
    """Simonyan & Zisserman, 2014, configuration E: 224x224x3, 19.6 GMAC, 575 MB of weights."""
    b = Builder(6)
    b.input(224, 224, 3)
    for block, (filters, count) in enumerate(((64, 2), (128, 2), (256, 4), (512, 4), (512, 4)), 1):
        for number in range(1, count + 1):
            b.conv(f"block{block}_conv{number}", filters, activation="relu")
        b.pool(f"block{block}_pool")
    b.plain("Flatten", "flatten", data_format="channels_last")
    b.dense("fc1", 7 * 7 * 512, 4096, "relu")
    b.dense("fc2", 4096, 4096, "relu")
    b.dense("predictions", 4096, 1000, "softmax")
    return b.model("vgg19")


#: By name; of what they make, `write_network` writes a file.
NETWORKS: dict[str, Callable[[], Any]] = {
    make.__name__: make
    for make in (
        ball, pedestrian, robot_detector, segmenter, mobilenetv2, vgg19, *ONNX_NETWORKS.values(),
        *HELD_OUT.values(), *FAMILIES.values(),
    )
}  # fmt: skip


def write_network(name: str, folder: Path) -> Path:
    """Write `folder/name.h5` or `.onnx`; the same bytes of weights every time."""
    folder.mkdir(parents=True, exist_ok=True)
    made = NETWORKS[name]()
    if isinstance(made, Model):
        return write_h5(folder / f"{name}.h5", made)
    file = folder / f"{name}.onnx"
    file.write_bytes(made.SerializeToString(deterministic=True))
    return file


def main() -> int:
    """Writes the named networks; lists all without names."""
    parser = argparse.ArgumentParser(description="Write the networks of the benchmarks.")
    parser.add_argument("names", nargs="*", metavar="NAME", choices=[*NETWORKS, []])
    parser.add_argument("-o", "--output", type=Path, default=Path(), metavar="DIR")
    arguments = parser.parse_args()
    for name in arguments.names or []:
        print(write_network(name, arguments.output))
    if not arguments.names:
        for name, make in NETWORKS.items():
            print(f"{name:20} {(make.__doc__ or '').splitlines()[0]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
