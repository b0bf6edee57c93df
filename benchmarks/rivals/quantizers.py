"""int8 forms of rivals' files, made by the rivals' own quantisers from samples.

ONNX Runtime: static quantisation to QDQ, weights by channel, int8 for both weights and
activations, which its documentation advises for Arm. LiteRT: static quantisation to int8 by AI Edge
Quantizer, which is its own. Inputs and outputs stay floats, as Cannery's `QUANTIZE int8` has them.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cannery.errors import ToolchainError
from rivals.convert import Prepared

F32 = NDArray[np.float32]

#: Inputs by the names of a file.
Sample = Mapping[str, F32]

#: Rivals without an int8 form here, and why.
NO_INT8 = {
    "ncnn": "quantises with tools that its wheel does not have (ncnn2table, ncnn2int8)",
    "mnn": "quantises networks of images from folders of pictures (mnnquant), not from tensors",
}


def quantized(rival: str, made: Prepared, samples: Sequence[Sample], folder: Path) -> Prepared:
    """The int8 form of a rival's file. Raises ToolchainError if it has none."""
    if rival in NO_INT8:
        raise ToolchainError(NO_INT8[rival], where=rival, cure="leave this rival out")
    file = folder / f"int8{made.file.suffix}"
    try:
        with redirect_stdout(io.StringIO()):  # quantisers print what they do
            _QUANTIZERS[rival](made.file, samples, file)
    except Exception as error:  # whatever a quantiser raises
        said = str(error).strip().splitlines()
        raise ToolchainError(
            f"cannot be quantised: {said[0] if said else type(error).__name__}",
            where=rival, cure="leave this rival out",
        ) from error  # fmt: skip
    return replace(made, file=file)


def _by_onnxruntime(source: Path, samples: Sequence[Sample], file: Path) -> None:
    from onnxruntime import quantization
    from onnxruntime.quantization.shape_inference import quant_pre_process

    class Reader(quantization.CalibrationDataReader):  # type: ignore[misc, unused-ignore]
        def __init__(self) -> None:
            self.left: Iterator[Sample] = iter(samples)

        def get_next(self) -> dict[str, F32] | None:
            sample = next(self.left, None)
            return None if sample is None else dict(sample)

    prepared = file.with_name("prepared.onnx")
    quant_pre_process(str(source), str(prepared))
    quantization.quantize_static(
        str(prepared), str(file), Reader(), quant_format=quantization.QuantFormat.QDQ,
        per_channel=True, activation_type=quantization.QuantType.QInt8,
        weight_type=quantization.QuantType.QInt8,
    )  # fmt: skip


def _by_litert(source: Path, samples: Sequence[Sample], file: Path) -> None:
    from ai_edge_quantizer import qtyping, quantizer, recipe

    maker = quantizer.Quantizer(str(source), recipe.static_wi8_ai8())
    for end in (qtyping.TFLOperationName.INPUT, qtyping.TFLOperationName.OUTPUT):
        maker.update_quantization_recipe(".*", end, algorithm_key="no_quantize")
    ranges = maker.calibrate({"serving_default": [dict(sample) for sample in samples]})
    maker.quantize(ranges).export_model(str(file), overwrite=True)


_QUANTIZERS: Mapping[str, Callable[[Path, Sequence[Sample], Path], None]] = {
    "onnxruntime": _by_onnxruntime,
    "litert": _by_litert,
}
