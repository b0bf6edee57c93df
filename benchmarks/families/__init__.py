"""Networks that people run, one module for each kind, written from their papers.

As their exporters write them: those of `onnx_builder.py` as PyTorch does, with activations spelled
out, channels first and batch normalisation folded. Weights are random and the same every time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from families.classifiers import (
    efficientnet_b0,
    mobilenet_v3_small,
    resnet_50,
    shufflenet_v2,
    squeezenet,
)
from families.detectors import blazeface, unet, yolov8n
from families.mobilenet import mobilenet_v1
from families.sequences import gru_denoiser, lstm_128, pointnet, wave_tcn
from families.transformers import deit_tiny, keyword_transformer, text_transformer

#: By name.
FAMILIES: dict[str, Callable[[], Any]] = {
    make.__name__: make
    for make in (
        blazeface, pointnet, wave_tcn, keyword_transformer, text_transformer, unet, mobilenet_v1,
        mobilenet_v3_small, yolov8n, shufflenet_v2, squeezenet, resnet_50, efficientnet_b0,
        deit_tiny, lstm_128, gru_denoiser,
    )
}  # fmt: skip
