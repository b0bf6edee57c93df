"""Single operators of TensorFlow Lite on floats, and what they compute, by numpy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import erf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from frontends.tflite_files import TYPES, TfliteFile

Arrays = Sequence[NDArray[Any]]

_RANDOM = np.random.default_rng(5)


def normal(*shape: int) -> NDArray[np.float32]:
    """A constant of random numbers."""
    return _RANDOM.standard_normal(shape, np.float32)


@dataclass(frozen=True)
class Case:
    """An operator: shapes are inputs, arrays constants; `expected` takes all of them."""

    kind: str
    given: Sequence[tuple[int, ...] | NDArray[Any]]
    expected: Callable[..., Any]
    options: str = ""
    fields: Mapping[str, Any] = field(default_factory=dict)
    dtype: str = "float32"
    #: Random inputs are above this number.
    least: float | None = None

    def inputs(self) -> dict[str, NDArray[Any]]:
        """Random inputs, by name."""
        random = np.random.default_rng(3)
        shapes = [g for g in self.given if isinstance(g, tuple)]
        return {f"x{k}": self._random(random, shape) for k, shape in enumerate(shapes)}

    def _random(self, random: np.random.Generator, shape: tuple[int, ...]) -> NDArray[Any]:
        if self.dtype == "bool":
            return random.random(shape) < 0.5
        if self.dtype != "float32":
            return random.integers(0, 4, shape).astype(self.dtype)
        x = 2 * random.standard_normal(shape, np.float32)
        return x if self.least is None else np.abs(x) + np.float32(self.least)

    def results(self, inputs: Mapping[str, NDArray[Any]]) -> list[NDArray[Any]]:
        """What numpy makes of them."""
        waiting = iter(inputs.values())
        arrays = [next(waiting) if isinstance(g, tuple) else g for g in self.given]
        made = self.expected(*arrays)
        every = made if isinstance(made, list) else [made]
        return [np.asarray(y, np.float32) if y.dtype == np.float64 else y for y in every]

    def file(self) -> TfliteFile:
        """The file, which may be changed."""
        file = TfliteFile()
        graph, dtype = file.main, TYPES[self.dtype]
        inputs = [
            graph.input(g, dtype) if isinstance(g, tuple) else graph.constant(g) for g in self.given
        ]
        results = self.results(self.inputs())
        graph.outputs = [graph.tensor(y.shape, TYPES[y.dtype.name]) for y in results]
        graph.add(self.kind, inputs, *graph.outputs, options=self.options, **self.fields)
        return file

    def data(self) -> bytes:
        """Its bytes."""
        return self.file().data()


def i32(*values: Any) -> NDArray[np.int32]:
    """A constant of whole numbers."""
    return np.asarray(values, np.int32)


def scalar(value: Any) -> NDArray[np.int32]:
    """One whole number without axes."""
    return np.asarray(value, np.int32).reshape(())


def conv(
    x: NDArray[Any], w: NDArray[Any], bias: NDArray[Any], *, strides: tuple[int, int] = (1, 1),
    same: bool = True, dilations: tuple[int, int] = (1, 1), depthwise: bool = False,
) -> NDArray[Any]:  # fmt: skip
    """x[N,H,W,C], w[OC,H,W,C/groups] or, `depthwise`, w[1,H,W,C*m], tap by tap."""
    kernel = w.shape[1:3]
    spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    if same:
        sizes = [-(-n // s) for n, s in zip(x.shape[1:3], strides, strict=True)]
        total = [
            max((o - 1) * s + e - n, 0)
            for o, s, e, n in zip(sizes, strides, spans, x.shape[1:3], strict=True)
        ]
        x = np.pad(x, ((0, 0), *((t // 2, t - t // 2) for t in total), (0, 0)))
    sizes = [(n - e) // s + 1 for n, e, s in zip(x.shape[1:3], spans, strides, strict=True)]
    channels = w.shape[3] if depthwise else w.shape[0]
    y = np.zeros((x.shape[0], *sizes, channels))
    for i in range(kernel[0]):
        for j in range(kernel[1]):
            rows = slice(
                i * dilations[0], i * dilations[0] + (sizes[0] - 1) * strides[0] + 1, strides[0]
            )
            cols = slice(
                j * dilations[1], j * dilations[1] + (sizes[1] - 1) * strides[1] + 1, strides[1]
            )
            part = x[:, rows, cols]
            if depthwise:
                y += np.repeat(part, channels // x.shape[3], axis=3) * w[0, i, j]
                continue
            groups = x.shape[3] // w.shape[3]
            for g in range(groups):
                outs = slice(g * channels // groups, (g + 1) * channels // groups)
                ins = slice(g * w.shape[3], (g + 1) * w.shape[3])
                y[..., outs] += part[..., ins] @ w[outs, i, j].T
    return y + bias


def transposed(
    shape: NDArray[Any], w: NDArray[Any], x: NDArray[Any], *, strides: tuple[int, int], same: bool
) -> NDArray[Any]:
    """Each input adds its taps w[OC,H,W,IC] to an image, which is then cropped."""
    _, kh, kw, _ = w.shape
    n, h, width, _ = x.shape
    full = np.zeros((n, max((h - 1) * strides[0] + kh, shape[1]) + 9,
                     max((width - 1) * strides[1] + kw, shape[2]) + 9, w.shape[0]))  # fmt: skip
    for i in range(h):
        for j in range(width):
            taps = np.einsum("nc,ohwc->nhwo", x[:, i, j], w)
            full[:, i * strides[0] : i * strides[0] + kh, j * strides[1] : j * strides[1] + kw] += (
                taps
            )
    starts = [0, 0]
    if same:
        sizes = [-(-o // s) for o, s in zip(shape[1:3], strides, strict=True)]
        pads = [
            (o - 1) * s + k - d
            for o, s, k, d in zip(sizes, strides, (kh, kw), shape[1:3], strict=True)
        ]
        starts = [max(p, 0) // 2 for p in pads]
    return full[:, starts[0] : starts[0] + shape[1], starts[1] : starts[1] + shape[2]]


def pool(x: NDArray[Any], kernel: tuple[int, int], stride: int, same: bool, kind: str) -> Any:
    """Windows over what is inside the image."""
    sizes = [
        -(-n // stride) if same else (n - k) // stride + 1
        for n, k in zip(x.shape[1:3], kernel, strict=True)
    ]
    total = [max((o - 1) * stride + k - n, 0) if same else 0
             for o, k, n in zip(sizes, kernel, x.shape[1:3], strict=True)]  # fmt: skip
    y = np.zeros((x.shape[0], *sizes, x.shape[3]))
    for i in range(sizes[0]):
        for j in range(sizes[1]):
            top, left = i * stride - total[0] // 2, j * stride - total[1] // 2
            window = x[:, max(top, 0) : top + kernel[0], max(left, 0) : left + kernel[1]]
            window = window.reshape(x.shape[0], -1, x.shape[3]).astype(np.float64)
            found = {"max": window.max(1), "mean": window.mean(1), "l2": (window**2).mean(1) ** 0.5}
            y[:, i, j] = found[kind]
    return y


def softmax(x: NDArray[Any]) -> NDArray[Any]:
    """Along the last axis."""
    e = np.exp(x.astype(np.float64) - x.max(-1, keepdims=True))
    return np.asarray(e / e.sum(-1, keepdims=True))


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


def lrn(x: NDArray[Any], radius: int, bias: float, alpha: float, beta: float) -> NDArray[Any]:
    """Channels around each one."""
    squares = np.pad(x.astype(np.float64) ** 2, ((0, 0),) * 3 + ((radius, radius),))
    total = sum(squares[..., k : k + x.shape[3]] for k in range(2 * radius + 1))
    return np.asarray(x / (bias + alpha * total) ** beta)


def gelu(x: NDArray[Any], approximate: bool) -> NDArray[Any]:
    """By the error function, or by a hyperbolic tangent."""
    if approximate:
        return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    return 0.5 * x * (1 + np.vectorize(erf)(x / np.sqrt(2)))


_IMAGE = (2, 7, 6, 4)
_CONV = {"Padding": 0, "StrideH": 1, "StrideW": 1, "DilationHFactor": 1, "DilationWFactor": 1}
_W, _B, _DW = normal(5, 3, 2, 4), normal(5), normal(1, 3, 2, 8)

_WINDOWS: dict[str, Case] = {
    "conv": Case("CONV_2D", [_IMAGE, _W, _B], conv, "Conv2DOptions", _CONV),
    "conv_valid": Case(
        "CONV_2D", [_IMAGE, _W, _B],
        lambda x, w, b: np.maximum(conv(x, w, b, strides=(2, 1), same=False), 0),
        "Conv2DOptions", {**_CONV, "Padding": 1, "StrideH": 2, "FusedActivationFunction": 1},
    ),
    "conv_strides": Case(
        "CONV_2D", [_IMAGE, _W, _B],
        lambda x, w, b: np.clip(conv(x, w, b, strides=(2, 3)), 0, 6),
        "Conv2DOptions", {**_CONV, "StrideH": 2, "StrideW": 3, "FusedActivationFunction": 3},
    ),
    "conv_dilated": Case(
        "CONV_2D", [_IMAGE, _W, _B],
        lambda x, w, b: np.clip(conv(x, w, b, dilations=(2, 3)), -1, 1),
        "Conv2DOptions",
        {**_CONV, "DilationHFactor": 2, "DilationWFactor": 3, "FusedActivationFunction": 2},
    ),
    "conv_groups": Case(
        "CONV_2D", [_IMAGE, normal(6, 3, 2, 2), normal(6)], conv, "Conv2DOptions", _CONV
    ),
    "depthwise": Case(
        "DEPTHWISE_CONV_2D", [_IMAGE, _DW, normal(8)],
        lambda x, w, b: conv(x, w, b, strides=(2, 2), depthwise=True),
        "DepthwiseConv2DOptions", {**_CONV, "StrideH": 2, "StrideW": 2, "DepthMultiplier": 2},
    ),
    "depthwise_of_one": Case(
        "DEPTHWISE_CONV_2D", [(1, 5, 5, 1), normal(1, 3, 3, 3), normal(3)],
        lambda x, w, b: conv(x, w, b, depthwise=True),
        "DepthwiseConv2DOptions", {**_CONV, "DepthMultiplier": 3},
    ),
    "transposed": Case(
        "TRANSPOSE_CONV", [i32(1, 9, 8, 3), normal(3, 3, 2, 4), (1, 4, 4, 4)],
        lambda s, w, x: transposed(s, w, x, strides=(2, 2), same=False),
        "TransposeConvOptions", {"Padding": 1, "StrideH": 2, "StrideW": 2},
    ),
    "transposed_same": Case(
        "TRANSPOSE_CONV", [i32(1, 7, 9, 3), normal(3, 3, 4, 4), (1, 4, 3, 4)],
        lambda s, w, x: transposed(s, w, x, strides=(2, 3), same=True),
        "TransposeConvOptions", {"Padding": 0, "StrideH": 2, "StrideW": 3},
    ),
    "max_pool": Case(
        "MAX_POOL_2D", [_IMAGE], lambda x: pool(x, (3, 2), 2, True, "max"), "Pool2DOptions",
        {"Padding": 0, "StrideH": 2, "StrideW": 2, "FilterHeight": 3, "FilterWidth": 2},
    ),
    "average_pool": Case(
        "AVERAGE_POOL_2D", [_IMAGE], lambda x: pool(x, (3, 3), 1, True, "mean"), "Pool2DOptions",
        {"Padding": 0, "StrideH": 1, "StrideW": 1, "FilterHeight": 3, "FilterWidth": 3},
    ),
    "average_pool_valid": Case(
        "AVERAGE_POOL_2D", [_IMAGE], lambda x: pool(x, (2, 2), 2, False, "mean"), "Pool2DOptions",
        {"Padding": 1, "StrideH": 2, "StrideW": 2, "FilterHeight": 2, "FilterWidth": 2},
    ),
    "l2_pool": Case(
        "L2_POOL_2D", [_IMAGE], lambda x: pool(x, (2, 3), 2, True, "l2"), "Pool2DOptions",
        {"Padding": 0, "StrideH": 2, "StrideW": 2, "FilterHeight": 2, "FilterWidth": 3},
    ),
}  # fmt: skip

_ROWS = (2, 3, 6)


def _unary(kind: str, function: Callable[..., Any], options: str = "", **more: Any) -> Case:
    return Case(kind, [_ROWS], function, options, **more)


def _binary(
    kind: str, function: Callable[..., Any], options: str = "", dtype: str = "float32",
    least: float | None = None,
) -> Case:  # fmt: skip
    fields = {"FusedActivationFunction": 0} if kind in ("ADD", "SUB", "MUL", "DIV") else {}
    return Case(kind, [_ROWS, (3, 1)], function, options, fields, dtype, least)


_ELEMENTS: dict[str, Case] = {
    "abs": _unary("ABS", np.abs, "AbsOptions"), "ceil": _unary("CEIL", np.ceil),
    "cos": _unary("COS", np.cos, "CosOptions"), "exp": _unary("EXP", np.exp, "ExpOptions"),
    "floor": _unary("FLOOR", np.floor), "log": _unary("LOG", np.log, least=0.1),
    "hard_swish": _unary(
        "HARD_SWISH", lambda x: x * np.clip(x + 3, 0, 6) / 6, "HardSwishOptions"
    ),
    "logistic": _unary("LOGISTIC", lambda x: 1 / (1 + np.exp(-x))),
    "neg": _unary("NEG", np.negative, "NegOptions"),
    "relu": _unary("RELU", lambda x: np.maximum(x, 0)),
    "elu": _unary("ELU", lambda x: np.where(x < 0, np.expm1(x), x)),
    "relu6": _unary("RELU6", lambda x: np.clip(x, 0, 6)),
    "relu_n1_to_1": _unary("RELU_N1_TO_1", lambda x: np.clip(x, -1, 1)),
    "round": _unary("ROUND", np.rint), "sign": _unary("SIGN", np.sign),
    "sin": _unary("SIN", np.sin), "sqrt": _unary("SQRT", np.sqrt, least=0.0),
    "square": _unary("SQUARE", np.square, "SquareOptions"), "tanh": _unary("TANH", np.tanh),
    "rsqrt": _unary("RSQRT", lambda x: x**-0.5, least=0.1),
    "leaky_relu": _unary(
        "LEAKY_RELU", lambda x: np.where(x < 0, 0.3 * x, x), "LeakyReluOptions",
        fields={"Alpha": 0.3},
    ),
    "gelu": _unary("GELU", lambda x: gelu(x, False), "GeluOptions"),
    "gelu_tanh": _unary(
        "GELU", lambda x: gelu(x, True), "GeluOptions", fields={"Approximate": True}
    ),
    "prelu": Case("PRELU", [_IMAGE, normal(1, 1, 4)], lambda x, a: np.where(x < 0, x * a, x)),
    "not": _unary("LOGICAL_NOT", np.logical_not, "LogicalNotOptions", dtype="bool"),
    "add": _binary("ADD", np.add, "AddOptions"), "sub": _binary("SUB", np.subtract, "SubOptions"),
    "mul": _binary("MUL", np.multiply, "MulOptions"),
    "div": _binary("DIV", np.divide, "DivOptions", least=0.5),
    "add_relu6": Case(
        "ADD", [_ROWS, normal(6)], lambda a, b: np.clip(a + b, 0, 6), "AddOptions",
        {"FusedActivationFunction": 3},
    ),
    "add_n": Case("ADD_N", [_ROWS, _ROWS, _ROWS], lambda *a: sum(a), "AddNOptions"),
    "maximum": _binary("MAXIMUM", np.maximum, "MaximumMinimumOptions"),
    "minimum": _binary("MINIMUM", np.minimum, "MaximumMinimumOptions"),
    "squared_difference": _binary(
        "SQUARED_DIFFERENCE", lambda a, b: (a - b) ** 2, "SquaredDifferenceOptions"
    ),
    "pow": _binary("POW", np.power, "PowOptions", least=0.3),
    "floor_div": _binary("FLOOR_DIV", lambda a, b: np.floor(a / b), "FloorDivOptions", least=0.3),
    "floor_mod": _binary("FLOOR_MOD", np.mod, "FloorModOptions"),
    "equal": _binary("EQUAL", np.equal, "EqualOptions", "int32"),
    "not_equal": _binary("NOT_EQUAL", np.not_equal, "NotEqualOptions", "int32"),
    "less": _binary("LESS", np.less, "LessOptions"),
    "less_equal": _binary("LESS_EQUAL", np.less_equal, "LessEqualOptions", "int32"),
    "greater": _binary("GREATER", np.greater, "GreaterOptions"),
    "greater_equal": _binary("GREATER_EQUAL", np.greater_equal, "GreaterEqualOptions", "int32"),
    "and": _binary("LOGICAL_AND", np.logical_and, "LogicalAndOptions", "bool"),
    "or": _binary("LOGICAL_OR", np.logical_or, "LogicalOrOptions", "bool"),
    "select": Case(
        "SELECT_V2", [(3, 1), normal(1, 6), normal(3, 6)], np.where, "SelectV2Options", dtype="bool"
    ),
    "select_samples": Case(
        "SELECT", [(3,), normal(3, 6), normal(3, 6)],
        lambda c, a, b: np.where(c[:, None], a, b), "SelectOptions", dtype="bool",
    ),
    "cast": Case("CAST", [_ROWS], lambda x: x.astype(np.int32), "CastOptions",
                 {"InDataType": 0, "OutDataType": 2}),
    "cast_back": Case("CAST", [_ROWS], lambda x: x.astype(np.float32), "CastOptions",
                      {"InDataType": 2, "OutDataType": 0}, "int32"),
}  # fmt: skip

_MOVES: dict[str, Case] = {
    "reshape": Case("RESHAPE", [_ROWS, i32(-1, 9)], lambda x, s: x.reshape(s), "ReshapeOptions",
                    {"NewShape": [-1, 9]}),
    "reshape_by_option": Case("RESHAPE", [_ROWS], lambda x: x.reshape(4, 9), "ReshapeOptions",
                              {"NewShape": [4, 9]}),
    "squeeze": Case("SQUEEZE", [(1, 3, 1, 2)], np.squeeze, "SqueezeOptions"),
    "squeeze_some": Case("SQUEEZE", [(1, 3, 1, 2)], lambda x: x[:, :, 0], "SqueezeOptions",
                         {"SqueezeDims": [-2]}),
    "expand_dims": Case("EXPAND_DIMS", [_ROWS, scalar(-2)], lambda x, a: np.expand_dims(x, -2),
                        "ExpandDimsOptions"),
    "transpose": Case("TRANSPOSE", [_ROWS, i32(2, 0, 1)], np.transpose, "TransposeOptions"),
    "concatenation": Case("CONCATENATION", [_ROWS, (2, 2, 6), normal(2, 1, 6)],
                          lambda *a: np.concatenate(a, -2), "ConcatenationOptions", {"Axis": -2}),
    "pack": Case("PACK", [_ROWS, _ROWS], lambda a, b: np.stack([a, b], 1), "PackOptions",
                 {"Axis": 1, "ValuesCount": 2}),
    "unpack": Case("UNPACK", [_ROWS], lambda x: list(np.moveaxis(x, 1, 0)), "UnpackOptions",
                   {"Axis": 1, "Num": 3}),
    "split": Case("SPLIT", [scalar(-1), _ROWS], lambda a, x: np.split(x, 3, -1), "SplitOptions",
                  {"NumSplits": 3}),
    "split_v": Case("SPLIT_V", [_ROWS, i32(1, -1, 3), scalar(2)],
                    lambda x, s, a: np.split(x, [1, 3], 2), "SplitVOptions", {"NumSplits": 3}),
    "slice": Case("SLICE", [_ROWS, i32(0, 1, 2), i32(2, -1, 3)], lambda x, b, s: x[:, 1:, 2:5],
                  "SliceOptions"),
    "strided_slice": Case("STRIDED_SLICE", [_ROWS, i32(0, 2, -9), i32(0, 9, 5), i32(1, -1, 2)],
                          lambda x, b, e, s: x[:, ::-1, :5:2], "StridedSliceOptions",
                          {"BeginMask": 3, "EndMask": 3}),
    "strided_slice_shrinks": Case(
        "STRIDED_SLICE", [_ROWS, i32(0, -1), i32(1, 0), i32(1, 1)], lambda x, b, e, s: x[:1, -1],
        "StridedSliceOptions", {"ShrinkAxisMask": 2}),
    "pad": Case("PAD", [_ROWS, i32([0, 0], [1, 2], [3, 0])], lambda x, p: np.pad(x, p),
                "PadOptions"),
    "pad_v2": Case("PADV2", [_ROWS, i32([0, 0], [1, 2], [3, 0]), np.float32(2.5).reshape(())],
                   lambda x, p, v: np.pad(x, p, constant_values=2.5), "PadV2Options"),
    "mirror_pad": Case("MIRROR_PAD", [_ROWS, i32([0, 0], [1, 2], [3, 0])],
                       lambda x, p: np.pad(x, p, "reflect"), "MirrorPadOptions", {"Mode": 0}),
    "mirror_pad_edge": Case("MIRROR_PAD", [_ROWS, i32([1, 2], [1, 2], [3, 0])],
                            lambda x, p: np.pad(x, p, "symmetric"),
                            "MirrorPadOptions", {"Mode": 1}),
    "reverse": Case("REVERSE_V2", [_ROWS, i32(1)], lambda x, a: x[:, ::-1], "ReverseV2Options"),
    "tile": Case("TILE", [_ROWS, i32(1, 3, 2)], np.tile, "TileOptions"),
    "broadcast_to": Case("BROADCAST_TO", [(3, 1), i32(2, 3, 4)],
                         lambda x, s: np.broadcast_to(x, s), "BroadcastToOptions"),
    "fill": Case("FILL", [i32(2, 3), ()], lambda s, v: np.full((2, 3), v), "FillOptions"),
    "zeros_like": Case("ZEROS_LIKE", [_ROWS], np.zeros_like, "ZerosLikeOptions"),
    "space_to_depth": Case("SPACE_TO_DEPTH", [(1, 4, 6, 3)], lambda x: blocks(x, 2),
                           "SpaceToDepthOptions", {"BlockSize": 2}),
    "depth_to_space": Case(
        "DEPTH_TO_SPACE", [(1, 2, 3, 12)],
        lambda x: x.reshape(1, 2, 3, 2, 2, 3).transpose(0, 1, 3, 2, 4, 5).reshape(1, 4, 6, 3),
        "DepthToSpaceOptions", {"BlockSize": 2}),
    "space_to_batch": Case("SPACE_TO_BATCH_ND", [_IMAGE, i32(2, 3), i32([1, 2], [2, 1])],
                           space_to_batch, "SpaceToBatchNDOptions"),
    "batch_to_space": Case("BATCH_TO_SPACE_ND", [(6, 2, 3, 4), i32(2, 3), i32([1, 0], [0, 2])],
                           batch_to_space, "BatchToSpaceNDOptions"),
    "gather": Case("GATHER", [_ROWS, i32([2, 0], [1, 1])], lambda x, i: np.take(x, i, 1),
                   "GatherOptions", {"Axis": 1}),
    "gather_nd": Case("GATHER_ND", [_ROWS, i32([1, 2], [0, 1])], lambda x, i: x[tuple(i.T)],
                      "GatherNdOptions"),
    "embedding": Case("EMBEDDING_LOOKUP", [(3,), normal(4, 5)], lambda i, t: t[i], dtype="int32"),
    "one_hot": Case(
        "ONE_HOT", [(2, 3), scalar(4), np.float32(5).reshape(()), np.float32(-1).reshape(())],
        lambda i, d, on, off: np.where(i[:, None] == np.arange(4)[:, None], on, off),
        "OneHotOptions", {"Axis": 1}, "int32"),
    "arg_max": Case("ARG_MAX", [_ROWS, scalar(1)], lambda x, a: x.argmax(1), "ArgMaxOptions",
                    {"OutputType": 4}),
    "arg_min": Case("ARG_MIN", [_ROWS, scalar(-1)], lambda x, a: x.argmin(-1).astype(np.int32),
                    "ArgMinOptions", {"OutputType": 2}),
    "top_k": Case(
        "TOPK_V2", [_ROWS, scalar(2)],
        lambda x, k: [-np.sort(-x)[..., :2], np.argsort(-x)[..., :2].astype(np.int32)],
        "TopKV2Options"),
    "cumsum": Case("CUMSUM", [_ROWS, scalar(1)],
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


_RESIZES: dict[str, Case] = {
    f"{kind.lower()}_{mode}_{size[0]}": _resize(kind, size, mode, (1, 4, 6, 3))
    for kind in ("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR")
    for mode in ("legacy", "corners", "centres")
    for size in ((8, 12), (3, 4), (9, 1))
}

_SUMS: dict[str, Case] = {
    "dense": Case("FULLY_CONNECTED", [(3, 6), normal(5, 6), normal(5)],
                  lambda x, w, b: np.maximum(x @ w.T + b, 0), "FullyConnectedOptions",
                  {"FusedActivationFunction": 1}),
    "dense_flat": Case("FULLY_CONNECTED", [_IMAGE, normal(5, 168)],
                       lambda x, w: x.reshape(2, 168) @ w.T, "FullyConnectedOptions"),
    "dense_rows": Case("FULLY_CONNECTED", [_ROWS, normal(5, 6), normal(5)],
                       lambda x, w, b: x @ w.T + b, "FullyConnectedOptions", {"KeepNumDims": True}),
    "batch_matmul": Case("BATCH_MATMUL", [_ROWS, (2, 4, 6)], lambda a, b: a @ b.swapaxes(1, 2),
                         "BatchMatMulOptions", {"AdjY": True}),
    "mean": Case("MEAN", [_IMAGE, i32(2, 1)], lambda x, a: x.mean((1, 2)), "ReducerOptions"),
    "sum": Case("SUM", [_IMAGE, i32(-1)], lambda x, a: x.sum(-1, keepdims=True), "ReducerOptions",
                {"KeepDims": True}),
    "reduce_max": Case("REDUCE_MAX", [_ROWS, i32(1)], lambda x, a: x.max(1), "ReducerOptions"),
    "reduce_min": Case("REDUCE_MIN", [_ROWS, i32(0, 2)], lambda x, a: x.min((0, 2)),
                       "ReducerOptions"),
    "reduce_prod": Case("REDUCE_PROD", [_ROWS, i32(1)], lambda x, a: x.prod(1), "ReducerOptions"),
    "reduce_any": Case("REDUCE_ANY", [_ROWS, i32(1)], lambda x, a: x.any(1), "ReducerOptions",
                       dtype="bool"),
    "reduce_all": Case("REDUCE_ALL", [_ROWS, i32(1)], lambda x, a: x.all(1), "ReducerOptions",
                       dtype="bool"),
    "softmax": Case("SOFTMAX", [_ROWS], softmax, "SoftmaxOptions", {"Beta": 1.0}),
    "softmax_beta": Case("SOFTMAX", [(3, 6)], lambda x: softmax(0.5 * x), "SoftmaxOptions",
                         {"Beta": 0.5}),
    "log_softmax": Case("LOG_SOFTMAX", [(3, 6)], lambda x: np.log(softmax(x)), "LogSoftmaxOptions"),
    "l2_normalization": Case(
        "L2_NORMALIZATION", [(3, 6)], lambda x: x / np.sqrt((x**2).sum(-1, keepdims=True)),
        "L2NormOptions"),
    "lrn": Case("LOCAL_RESPONSE_NORMALIZATION", [_IMAGE], lambda x: lrn(x, 2, 1.5, 0.2, 0.75),
                "LocalResponseNormalizationOptions",
                {"Radius": 2, "Bias": 1.5, "Alpha": 0.2, "Beta": 0.75}),
    "lrn_of_all": Case("LOCAL_RESPONSE_NORMALIZATION", [_IMAGE], lambda x: lrn(x, 9, 1.5, 0.2, 0.5),
                       "LocalResponseNormalizationOptions",
                       {"Radius": 9, "Bias": 1.5, "Alpha": 0.2, "Beta": 0.5}),
}  # fmt: skip

CASES = {**_WINDOWS, **_ELEMENTS, **_MOVES, **_RESIZES, **_SUMS}
