"""What a node of ONNX asks for, and no operator computes, is an error that says why: a row each."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cannery.errors import ModelError, UnsupportedError
from frontends.onnx_models import load, model, node

ML = "ai.onnx.ml"

#: A shape is an input of the network, a list or an array a constant; None is absent.
Given = tuple[int, ...] | Sequence[Any] | np.ndarray[Any, Any] | None


def bad(
    kind: str, message: str, *inputs: Given, opset: int = 17, outputs: int = 1, dtype: int = 1,
    **attributes: Any,
) -> Any:  # fmt: skip
    """A model of one node, and what is wrong with it."""
    names = ["" if given is None else f"i{k}" for k, given in enumerate(inputs)]
    pairs = [(name, given) for name, given in zip(names, inputs, strict=True) if name]
    shapes = {name: given for name, given in pairs if isinstance(given, tuple)}
    arrays = {name: given for name, given in pairs if not isinstance(given, tuple)}
    results = [f"y{k}" for k in range(outputs)]
    made = node(kind, names, results, **attributes)
    proto = model([made], shapes, results[:1], arrays, opset=opset, dtype=dtype)
    if attributes.get("domain") == ML:
        proto.opset_import.add(domain=ML, version=3)
    return pytest.param(proto, message, id=f"{kind}: {message}")


def zeros(*shape: int, dtype: Any = np.float32) -> np.ndarray[Any, Any]:
    return np.zeros(shape, dtype)


SHAPES = [
    bad("Reshape", "input 1 is missing", (2, 3)),
    bad("Reshape", "keeps a dimension that", (2, 3), [2, 3, 0]),
    bad("Reshape", "is malformed", (2, 3), [-1, -1]),
    bad("Reshape", "is malformed", (2, 3), [-2, 3]),
    bad("Reshape", "is malformed", (2, 3), [0, -1], allowzero=1),
    bad("Reshape", "cannot become", (2, 3), [5]),
    bad("Reshape", "cannot become", (2, 3), [4, -1]),
    bad("Flatten", "axis 3 is outside", (2, 3), axis=3),
    bad("Flatten", "axis -3 is outside", (2, 3), axis=-3),
    bad("Squeeze", "are not all 1", (1, 3), [0, 1]),
    bad("Unsqueeze", "has no axes", (2, 3)),
    bad("Unsqueeze", "axis 4", (2, 3), [4]),
    bad("Transpose", "not a permutation", (2, 3), perm=[0, 0]),
    bad("Transpose", "not a permutation", (2, 3), perm=[0]),
    bad("Expand", "has no shape", (2, 3)),
    bad("Expand", "does not broadcast", (2, 3), [2, 4]),
    bad("Tile", "repeats None do not fit", (2, 3)),
    bad("Tile", "do not fit shape", (2, 3), [2]),
    bad("Tile", "do not fit shape", (2, 3), [0, 1]),
    bad("Concat", "joins shapes", (2, 3), (2, 3, 1), axis=0),
    bad("Concat", "axis 2", (2, 3), (2, 3), axis=2),
    bad("Split", "cannot split 5 into", (2, 5), [2, 2], axis=1, outputs=2),
    bad("Split", "cannot split 5 into", (2, 5), [6, -1], axis=1, outputs=2),
    bad("Split", "cannot split 5 into", (2, 5), [2, 3], axis=1, outputs=3),
    bad("Split", "cannot split 5 into", (2, 5), axis=1, split=[2, 2], outputs=2, opset=11),
    bad("Split", "splits into 0 parts", (2, 5), axis=1, num_outputs=0, outputs=2, opset=18),
    bad("Slice", "has no bounds", (2, 5), [0]),
    bad("Slice", "differ in number", (2, 5), [0, 0], [1]),
    bad("Slice", "differ in number", (2, 5), [0], [1], [0, 1]),
    bad("Slice", "a step of 0", (2, 5), [0], [1], [0], [0]),
    bad("Slice", "axis 2", (2, 5), [0], [1], [2]),
    bad("Pad", "do not fit shape", (2, 5), [1, 1, 1]),
    bad("Pad", "has no pads", (2, 5)),
    bad("Pad", "negative pads in mode 'edge'", (2, 5), [0, -1, 0, 0], mode="edge"),
    bad("Pad", "leave nothing of shape", (2, 5), [0, -3, 0, -3]),
    bad("Pad", "nothing to repeat", (2, 0), [0, 1, 0, 0], mode="wrap", opset=19),
    bad("DepthToSpace", "expected 4 dimensions", (4, 2, 2), blocksize=2),
    bad("DepthToSpace", "blocksize 2 does not fit", (1, 6, 2, 2), blocksize=2),
    bad("SpaceToDepth", "blocksize 2 does not fit", (1, 4, 3, 2), blocksize=2),
    bad("SpaceToDepth", "blocksize 2 does not fit", (1, 4, 2, 3), blocksize=2),
    bad("SpaceToDepth", "blocksize 0 does not fit", (1, 4, 2, 2), blocksize=0),
    bad("ConstantOfShape", "which is too large", [-1]),
]

PLACES = [
    bad("Gather", "not integers", (2, 5), zeros(2)),
    bad("Gather", "outside of an axis of 5", (2, 5), [5, 0], axis=1),
    bad("Gather", "outside of an axis of 5", (2, 5), [-6, 0], axis=1),
    bad("GatherElements", "outside of an axis of 2", (2, 5), [[2]]),
    bad("GatherND", "outside of an axis of 5", (2, 5), [[0, 5]]),
    bad("GatherND", "outside of an axis of 2", (2, 5), [[-3, 0]]),
    bad("ScatterElements", "outside of an axis of 2", (2, 5), [[2]], zeros(1, 1)),
    bad("ScatterElements", "indices and updates differ", (2, 5), [[1]], zeros(1, 2)),
    bad("ScatterND", "outside of an axis of 5", (2, 5), [[0, 5]], zeros(1)),
    bad("OneHot", "has no depth", (2, 5), None, [0.0, 1.0]),
    bad("Compress", "has no list of conditions", (2, 5)),
    bad("Compress", "has no list of conditions", (2, 5), zeros(1, 2, dtype=bool)),
    bad("Compress", "nothing is left", (2, 5), zeros(2, dtype=bool), axis=0),
    bad("EyeLike", "expected a matrix", (2, 5, 1)),
    bad("TopK", "has no count", (2, 5), outputs=2),
    bad("CumSum", "has no axis", (2, 5)),
    bad("CumSum", "axis 2", (2, 5), [2]),
]  # fmt: skip

WINDOWS = [
    bad("Conv", "expected batch, channels and space", (2, 5), zeros(4, 5)),
    bad("Conv", "4 spatial axes", (1, 2, 3, 3, 3, 3), zeros(4, 2, 1, 1, 1, 1)),
    bad("Conv", "expected 2 spatial axes", (1, 2, 3, 3), zeros(4, 2, 1)),
    bad("Conv", "not that of the weight", (1, 2, 3, 3), zeros(4, 2, 1, 1), kernel_shape=[1, 2]),
    bad("Conv", "strides .* must be positive", (1, 2, 3, 3), zeros(4, 2, 1, 1), strides=[0, 1]),
    bad("Conv", "dilations .* positive", (1, 2, 3, 3), zeros(4, 2, 1, 1), dilations=[1, -1]),
    bad("Conv", "are negative", (1, 2, 3, 3), zeros(4, 2, 1, 1), pads=[0, 0, -1, 0]),
    bad("Conv", "auto_pad 'ALL' is not one", (1, 2, 3, 3), zeros(4, 2, 1, 1), auto_pad="ALL"),
    bad("ConvTranspose", "for 2 spatial axes", (1, 2, 3, 3), zeros(2, 4, 2, 2), output_shape=[7]),
    bad("MaxPool", "must be positive", (1, 2, 3, 3), kernel_shape=[0, 1]),
    bad("MaxPool", "must be positive", (1, 2, 3, 3), kernel_shape=[1, 1], strides=[1, 0]),
    bad("MaxPool", "MaxPool of int32 is not", (1, 2, 3, 3), kernel_shape=[1, 1], dtype=6),
    bad(
        "MaxUnpool", "cannot be unpooled to", (1, 1, 2, 2), zeros(1, 1, 2, 2, dtype=np.int64),
        kernel_shape=[2, 2], pads=[2, 0, 2, 0],
    ),
    bad(
        "MaxUnpool", "cannot be unpooled to", (1, 1, 2, 2), zeros(1, 1, 2, 2, dtype=np.int64),
        [1, 1, 2, 2], kernel_shape=[2, 2], strides=[2, 2],
    ),
    bad("LpPool", "p is 0", (1, 2, 3, 3), kernel_shape=[1, 1], p=0),
    bad("GlobalLpPool", "p is -1", (1, 2, 3, 3), p=-1),
    bad("GlobalAveragePool", "expected batch, channels and space", (2, 5)),
    bad("LRN", "expected batch, channels and space", (2, 5), size=1),
    bad("DeformConv", "1 spatial axes; 2", (1, 2, 3), zeros(4, 2, 1), (1, 1, 3), opset=19),
    bad("Col2Im", "cannot become an image", (1, 4, 4), [3, 3], [0, 1], opset=18),
    bad("Col2Im", "cannot become an image", (4, 4), [3, 3], [2, 2], opset=18),
    bad("Col2Im", "do not fit shape", (1, 5, 4), [3, 3], [2, 2], opset=18),
    bad("Col2Im", "do not fit shape", (1, 4, 4), [3, 3], [4], opset=18),
    bad("Upsample", "do not fit shape", (1, 2, 3, 3), [1.0, 1.0, 2.0], opset=9),
    bad("Upsample", "do not fit shape", (1, 2, 3, 3), [1.0, 1.0, 2.0, -2.0], opset=9),
    bad("Upsample", "neither sizes nor scales", (1, 2, 3, 3), opset=9),
    bad("Resize", "neither sizes nor scales", (1, 2, 3, 3)),
    bad("Resize", "do not fit shape", (1, 2, 3, 3), None, [1.0, 1.0, 2.0, 0.0]),
    bad("Resize", "1 scales for 2 axes", (1, 2, 3, 3), None, [2.0], axes=[2, 3], opset=18),
    bad("Resize", "1 sizes for 2 axes", (1, 2, 3, 3), None, None, [4], axes=[2, 3], opset=18),
    bad(
        "Resize", "has no region", (1, 2, 3, 3), None, [1.0, 1.0, 2.0, 2.0],
        coordinate_transformation_mode="tf_crop_and_resize",
    ),
    bad(
        "Resize", "has no region", (1, 2, 3, 3), [0.0, 0.0, 1.0, 1.0], [1.0, 1.0, 2.0, 2.0],
        coordinate_transformation_mode="tf_crop_and_resize",
    ),
]  # fmt: skip

ARITHMETIC = [
    bad("MatMul", "a scalar is not a matrix", (2, 5), np.float32(2)),
    bad("Gemm", "input 0 has shape .* expected a matrix", (1, 2, 5), zeros(5, 3)),
    bad("Gemm", "input 1 has shape .* expected a matrix", (2, 5), zeros(5)),
    bad("Clip", "bounds are not scalars", (2, 5), zeros(2), zeros(1)),
    bad("Dropout", "in training mode", (2, 5), np.float32(0.5), np.asarray(True)),
    bad("Einsum", "has 1 terms for 2 inputs", (2, 5), (5, 2), equation="ij->ij"),
    bad("Einsum", "does not fit an input", (2, 5), (5, 2), equation="ijk,kl->il"),
    bad("Einsum", "stands for 5 and for 4", (2, 5), (4, 2), equation="ij,jk->ik"),
    bad("ReduceMean", "mean of no elements", (2, 0), axes=[1]),
    bad("BatchNormalization", "no channels", (5,), *(zeros(1) for _ in range(4))),
    bad(
        "BatchNormalization", "in training mode", (2, 5), *(zeros(5) for _ in range(4)),
        training_mode=1,
    ),
    bad(
        "BatchNormalization", "finite and >= 0", (2, 5), *(zeros(5) for _ in range(4)),
        epsilon=-1.0,
    ),
    bad("BatchNormalization", "do not fit the 5 channels", (2, 5), (4,), (5,), (5,), (5,)),
    bad("GroupNormalization", "3 groups do not", (1, 4, 2), zeros(3), zeros(3), num_groups=3,
        opset=18),
    bad("GroupNormalization", "0 groups do not", (1, 4, 2), zeros(4), zeros(4), num_groups=0,
        opset=18),
    bad("LayerNormalization", "does not broadcast", (2, 5), zeros(4)),
    bad("LayerNormalization", "stash_type other", (2, 5), zeros(5), stash_type=11),
    bad("LpNormalization", "p 3; 1 and 2", (2, 5), p=3),
    bad("RNN", "expected steps, batch, features", (2, 5), zeros(1, 3, 5), zeros(1, 3, 3)),
    bad("RNN", "no recurrent weights", (4, 2, 5), zeros(1, 3, 5), zeros(3, 3)),
    bad("RNN", "clip -1.0 is negative", (4, 2, 5), zeros(1, 3, 5), zeros(1, 3, 3), clip=-1.0),
    bad("RNN", "do not fit 2 x 4", (4, 2, 5), zeros(1, 3, 5), zeros(1, 3, 3), None, [5, 1]),
    bad("RNN", "do not fit 2 x 4", (4, 2, 5), zeros(1, 3, 5), zeros(1, 3, 3), None, [1]),
    bad("RNN", "do not fit 2 x 4", (4, 2, 5), zeros(1, 3, 5), zeros(1, 3, 3), None, [-1, 1]),
]  # fmt: skip

QUANTISED = [
    bad("QuantizeLinear", "precision other", (2, 5), np.float32(1), precision=11, opset=23),
    bad(
        "QuantizeLinear", "output is int8, its zero point uint8", (2, 5), np.float32(1),
        np.uint8(0), output_dtype=3, opset=21,
    ),
    bad("QuantizeLinear", "its scale is 0", (2, 5), np.float32(0)),
    bad("QuantizeLinear", "its scale is inf at", (2, 5), np.float32([1, 1, np.inf, 1, 1])),
    bad("QuantizeLinear", "4 scales or zero points for an axis of 5", (2, 5), zeros(4) + 1),
    bad("QuantizeLinear", "for a tensor of shape", (2, 5), zeros(1, 1, 5) + 1),
    bad(
        "QuantizeLinear", "in blocks of 2", (2, 6), zeros(2, 4) + 1, zeros(2, 4, dtype=np.uint8),
        block_size=2, opset=21,
    ),
    bad(
        "QuantizeLinear", "in blocks of 2", (2, 6), zeros(1, 3) + 1, zeros(1, 3, dtype=np.uint8),
        block_size=2, opset=21,
    ),
    bad(
        "QuantizeLinear", "do not divide", (2, 5), zeros(2, 3) + 1, zeros(2, 3, dtype=np.uint8),
        block_size=2, opset=21,
    ),
    bad("DequantizeLinear", "other than float32", zeros(2, 5, dtype=np.int8), np.float32(1),
        output_dtype=11, opset=23),
    bad("DequantizeLinear", "its scale is -1", zeros(2, 5, dtype=np.int8), np.float32(-1)),
    bad("MatMulInteger", "with a vector", zeros(2, 5, dtype=np.uint8), zeros(5, dtype=np.uint8)),
]  # fmt: skip

SIGNALS = [
    bad("DFT", "cannot transform axis 2", (1, 4, 1), axis=2),
    bad("DFT", "cannot transform axis 1", (1, 4, 3)),
    bad("DFT", "a transform of 0 numbers", (1, 4, 1), np.int64(0)),
    bad("STFT", "expected batch, length", (4,), np.int64(1), zeros(4)),
    bad("STFT", "frames of 5, each 1", (1, 4, 1), np.int64(1), zeros(5)),
    bad("STFT", "frames of 2, each 0", (1, 4, 1), np.int64(0), zeros(2)),
    bad("MelWeightMatrix", "input 1 is not a number", np.int64(2), np.int64([4, 4]),
        np.int64(8), np.float32(0), np.float32(4)),
    bad("MelWeightMatrix", "make no filters", np.int64(2), np.int64(4), np.int64(0),
        np.float32(0), np.float32(4)),
    bad("MelWeightMatrix", "0 filters of 4", np.int64(0), np.int64(4), np.int64(8),
        np.float32(0), np.float32(4)),
    bad("MelWeightMatrix", "its filters reach", np.int64(2), np.int64(4), np.int64(8),
        np.float32(0), np.float32(99)),
]  # fmt: skip

CLASSIC = [
    bad("FeatureVectorizer", "not matrices", (2, 3), inputdimensions=[4], domain=ML),
    bad("ArrayFeatureExtractor", "is a scalar", (), [0], domain=ML),
    bad("LinearRegressor", "rows of features", (1, 2, 3), coefficients=[1.0] * 3, domain=ML),
    bad("LinearRegressor", "2 coefficients for 1 x 3", (2, 3), coefficients=[1.0] * 2, domain=ML),
    bad("LinearRegressor", "2 intercepts for 1", (2, 3), coefficients=[1.0] * 3,
        intercepts=[1.0, 1.0], domain=ML),
    bad("LinearClassifier", "3 classes for 1", (2, 3), coefficients=[1.0] * 3,
        intercepts=[1.0], classlabels_ints=[0, 1, 2], domain=ML, outputs=2),
    bad("LinearClassifier", "PROBIT of a single row", (2, 3), coefficients=[1.0] * 3,
        intercepts=[1.0], classlabels_ints=[0, 1], post_transform="PROBIT", domain=ML, outputs=2),
    bad("LinearClassifier", "one of classlabels_strings and", (2, 3), coefficients=[1.0] * 3,
        intercepts=[1.0], domain=ML, outputs=2),
]  # fmt: skip


@pytest.mark.parametrize(
    ("proto", "message"),
    [*SHAPES, *PLACES, *WINDOWS, *ARITHMETIC, *QUANTISED, *SIGNALS, *CLASSIC],
)
def test_what_is_wrong_is_said(tmp_path: Path, proto: Any, message: str) -> None:
    with pytest.raises((ModelError, UnsupportedError), match=message) as caught:
        load(tmp_path, proto)
    assert "y0" in str(caught.value)
