"""Operators of TensorFlow Lite that move elements, or say where they go."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from frontends.tflite_case import IMAGE, ROWS, Case, i32, normal, scalar


def resized(x: NDArray[Any], size: Sequence[int], mode: str, linear: bool) -> NDArray[Any]:
    """Axis by axis, from the formulas of positions."""
    for axis, out in ((1, size[0]), (2, size[1])):
        n = x.shape[axis]
        scale = (n - 1) / (out - 1) if mode == "corners" and out > 1 else n / out
        o = np.arange(out)
        at = (o + 0.5) * scale - (0.5 if linear else 0) if mode == "centres" else o * scale
        if not linear:
            at = np.floor(at + 0.5) if mode == "corners" else np.floor(at)
            x = np.take(x, np.clip(at, 0, n - 1).astype(int), axis)
            continue
        low = np.floor(at)
        weight = (at - low).reshape([-1 if a == axis else 1 for a in range(x.ndim)])
        below = np.take(x, np.clip(low, 0, n - 1).astype(int), axis)
        above = np.take(x, np.clip(low + 1, 0, n - 1).astype(int), axis)
        x = below * (1 - weight) + above * weight
    return x


def blocks(x: NDArray[Any], b: int) -> NDArray[Any]:
    """SPACE_TO_DEPTH."""
    n, h, w, c = x.shape
    y = x.reshape(n, h // b, b, w // b, b, c).transpose(0, 1, 3, 2, 4, 5)
    return y.reshape(n, h // b, w // b, b * b * c)


def space_to_batch(x: NDArray[Any], block: Sequence[int], pads: NDArray[Any]) -> NDArray[Any]:
    """The phases of an image as samples."""
    x = np.pad(x, ((0, 0), *map(tuple, pads), (0, 0)))
    parts = [x[:, i :: block[0], j :: block[1]] for i in range(block[0]) for j in range(block[1])]
    return np.concatenate(parts)


def batch_to_space(x: NDArray[Any], block: Sequence[int], crops: NDArray[Any]) -> NDArray[Any]:
    """The inverse."""
    n, h, w, c = x.shape
    count = n // (block[0] * block[1])
    y = np.zeros((count, h * block[0], w * block[1], c), x.dtype)
    for k in range(block[0] * block[1]):
        i, j = divmod(k, block[1])
        y[:, i :: block[0], j :: block[1]] = x[k * count : (k + 1) * count]
    (top, bottom), (left, right) = crops
    return y[:, top : y.shape[1] - bottom, left : y.shape[2] - right]


def scattered(places: NDArray[Any], updates: NDArray[Any], shape: NDArray[Any]) -> NDArray[Any]:
    """Zeros, to which rows are added."""
    y = np.zeros(shape, np.float32)
    np.add.at(y, places[:, 0], updates)
    return y


MOVES: dict[str, Case] = {
    "reshape": Case("RESHAPE", [ROWS, i32(-1, 9)], lambda x, s: x.reshape(s), "ReshapeOptions",
                    {"NewShape": [-1, 9]}),
    "reshape_by_option": Case("RESHAPE", [ROWS], lambda x: x.reshape(4, 9), "ReshapeOptions",
                              {"NewShape": [4, 9]}),
    "squeeze": Case("SQUEEZE", [(1, 3, 1, 2)], np.squeeze, "SqueezeOptions"),
    "squeeze_some": Case("SQUEEZE", [(1, 3, 1, 2)], lambda x: x[:, :, 0], "SqueezeOptions",
                         {"SqueezeDims": [-2]}),
    "expand_dims": Case("EXPAND_DIMS", [ROWS, scalar(-2)], lambda x, a: np.expand_dims(x, -2),
                        "ExpandDimsOptions"),
    "transpose": Case("TRANSPOSE", [ROWS, i32(2, 0, 1)], np.transpose, "TransposeOptions"),
    "concatenation": Case("CONCATENATION", [ROWS, (2, 2, 6), normal(2, 1, 6)],
                          lambda *a: np.concatenate(a, -2), "ConcatenationOptions", {"Axis": -2}),
    "pack": Case("PACK", [ROWS, ROWS], lambda a, b: np.stack([a, b], 1), "PackOptions",
                 {"Axis": 1, "ValuesCount": 2}),
    "unpack": Case("UNPACK", [ROWS], lambda x: list(np.moveaxis(x, 1, 0)), "UnpackOptions",
                   {"Axis": 1, "Num": 3}),
    "split": Case("SPLIT", [scalar(-1), ROWS], lambda a, x: np.split(x, 3, -1), "SplitOptions",
                  {"NumSplits": 3}),
    "split_v": Case("SPLIT_V", [ROWS, i32(1, -1, 3), scalar(2)],
                    lambda x, s, a: np.split(x, [1, 3], 2), "SplitVOptions", {"NumSplits": 3}),
    "slice": Case("SLICE", [ROWS, i32(0, 1, 2), i32(2, -1, 3)], lambda x, b, s: x[:, 1:, 2:5],
                  "SliceOptions"),
    "strided_slice": Case("STRIDED_SLICE", [ROWS, i32(0, 2, -9), i32(0, 9, 5), i32(1, -1, 2)],
                          lambda x, b, e, s: x[:, ::-1, :5:2], "StridedSliceOptions",
                          {"BeginMask": 3, "EndMask": 3}),
    "strided_slice_shrinks": Case(
        "STRIDED_SLICE", [ROWS, i32(0, -1), i32(1, 0), i32(1, 1)], lambda x, b, e, s: x[:1, -1],
        "StridedSliceOptions", {"ShrinkAxisMask": 2}),
    "pad": Case("PAD", [ROWS, i32([0, 0], [1, 2], [3, 0])], lambda x, p: np.pad(x, p),
                "PadOptions"),
    "pad_v2": Case("PADV2", [ROWS, i32([0, 0], [1, 2], [3, 0]), np.float32(2.5).reshape(())],
                   lambda x, p, v: np.pad(x, p, constant_values=2.5), "PadV2Options"),
    "mirror_pad": Case("MIRROR_PAD", [ROWS, i32([0, 0], [1, 2], [3, 0])],
                       lambda x, p: np.pad(x, p, "reflect"), "MirrorPadOptions", {"Mode": 0}),
    "mirror_pad_edge": Case("MIRROR_PAD", [ROWS, i32([1, 2], [1, 2], [3, 0])],
                            lambda x, p: np.pad(x, p, "symmetric"),
                            "MirrorPadOptions", {"Mode": 1}),
    "reverse": Case("REVERSE_V2", [ROWS, i32(1)], lambda x, a: x[:, ::-1], "ReverseV2Options"),
    "tile": Case("TILE", [ROWS, i32(1, 3, 2)], np.tile, "TileOptions"),
    "broadcast_to": Case("BROADCAST_TO", [(3, 1), i32(2, 3, 4)],
                         lambda x, s: np.broadcast_to(x, s), "BroadcastToOptions"),
    "fill": Case("FILL", [i32(2, 3), ()], lambda s, v: np.full((2, 3), v), "FillOptions"),
    "zeros_like": Case("ZEROS_LIKE", [ROWS], np.zeros_like, "ZerosLikeOptions"),
    "space_to_depth": Case("SPACE_TO_DEPTH", [(1, 4, 6, 3)], lambda x: blocks(x, 2),
                           "SpaceToDepthOptions", {"BlockSize": 2}),
    "depth_to_space": Case(
        "DEPTH_TO_SPACE", [(1, 2, 3, 12)],
        lambda x: x.reshape(1, 2, 3, 2, 2, 3).transpose(0, 1, 3, 2, 4, 5).reshape(1, 4, 6, 3),
        "DepthToSpaceOptions", {"BlockSize": 2}),
    "space_to_batch": Case("SPACE_TO_BATCH_ND", [IMAGE, i32(2, 3), i32([1, 2], [2, 1])],
                           space_to_batch, "SpaceToBatchNDOptions"),
    "batch_to_space": Case("BATCH_TO_SPACE_ND", [(6, 2, 3, 4), i32(2, 3), i32([1, 0], [0, 2])],
                           batch_to_space, "BatchToSpaceNDOptions"),
    "gather": Case("GATHER", [ROWS, i32([2, 0], [1, 1])], lambda x, i: np.take(x, i, 1),
                   "GatherOptions", {"Axis": 1}),
    "gather_batch": Case(
        "GATHER", [ROWS, i32([2, 0, 1, 1], [1, 1, 0, 2])],
        lambda x, i: np.take_along_axis(x, i[..., None], 1), "GatherOptions",
        {"Axis": 1, "BatchDims": 1},
    ),
    "gather_batch_later": Case(
        "GATHER", [ROWS, i32([5, 0], [1, 3])],
        lambda x, i: np.stack([x[k][:, i[k]] for k in range(2)]), "GatherOptions",
        {"Axis": 2, "BatchDims": 1},
    ),
    "gather_nd": Case("GATHER_ND", [ROWS, i32([1, 2], [0, 1])], lambda x, i: x[tuple(i.T)],
                      "GatherNdOptions"),
    "scatter_nd": Case(
        "SCATTER_ND", [i32([4], [1], [4]), (3, 6), i32(6, 6)], scattered, "ScatterNdOptions"
    ),
    "embedding": Case("EMBEDDING_LOOKUP", [(3,), normal(4, 5)], lambda i, t: t[i], dtype="int32"),
    "one_hot": Case(
        "ONE_HOT", [(2, 3), scalar(4), np.float32(5).reshape(()), np.float32(-1).reshape(())],
        lambda i, d, on, off: np.where(i[:, None] == np.arange(4)[:, None], on, off),
        "OneHotOptions", {"Axis": 1}, "int32"),
    "arg_max": Case("ARG_MAX", [ROWS, scalar(1)], lambda x, a: x.argmax(1), "ArgMaxOptions",
                    {"OutputType": 4}),
    "arg_min": Case("ARG_MIN", [ROWS, scalar(-1)], lambda x, a: x.argmin(-1).astype(np.int32),
                    "ArgMinOptions", {"OutputType": 2}),
    "top_k": Case(
        "TOPK_V2", [ROWS, scalar(2)],
        lambda x, k: [-np.sort(-x)[..., :2], np.argsort(-x)[..., :2].astype(np.int32)],
        "TopKV2Options"),
    "cumsum": Case("CUMSUM", [ROWS, scalar(1)],
                   lambda x, a: np.cumsum(x[:, ::-1], 1)[:, ::-1],
                   "CumsumOptions", {"Reverse": True}),
    "reverse_sequence": Case(
        "REVERSE_SEQUENCE", [(2, 4, 3), i32(3, 1)],
        lambda x, lengths: np.stack(
            [np.concatenate([s[:n][::-1], s[n:]]) for s, n in zip(x, lengths, strict=True)]),
        "ReverseSequenceOptions", {"SeqDim": 1, "BatchDim": 0}),
}  # fmt: skip


def _resize(kind: str, size: Sequence[int], mode: str, shape: tuple[int, ...]) -> Case:
    fields = {"corners": {"AlignCorners": True}, "centres": {"HalfPixelCenters": True}}
    linear = kind == "RESIZE_BILINEAR"
    options = "ResizeBilinearOptions" if linear else "ResizeNearestNeighborOptions"
    return Case(
        kind, [shape, i32(*size)], lambda x, s: resized(x, s, mode, linear), options,
        fields.get(mode, {}),
    )  # fmt: skip


RESIZES: dict[str, Case] = {
    f"{kind.lower()}_{mode}_{size[0]}": _resize(kind, size, mode, (1, 4, 6, 3))
    for kind in ("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR")
    for mode in ("legacy", "corners", "centres")
    for size in ((8, 12), (3, 4), (9, 1))
}
