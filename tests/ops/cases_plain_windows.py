"""Plain C of windows and samples: computed weights, quantised numbers, positions, resampling."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cannery.ir.tensor import DType
from cannery.ops.conv.deform import DeformConv
from cannery.ops.conv.op import Conv
from cannery.ops.conv_transpose.col2im import Col2Im
from cannery.ops.conv_transpose.op import ConvTranspose
from cannery.ops.indexing.scatter import TensorScatter
from cannery.ops.logic import bits
from cannery.ops.matmul.det import Det
from cannery.ops.ordering.pool_places import PoolPlaces
from cannery.ops.quantize.linear import DequantizeLinear, QuantizeLinear, Requantize
from cannery.ops.quantize.products import ConvInteger, MatMulInteger
from cannery.ops.quantize.transposed import ConvTransposeInteger
from cannery.ops.resize.grid_sample import MODES, PADDINGS, GridSample
from cannery.ops.resize.interpolate import Interpolate
from cannery.ops.resize.roi_align import RoiAlign
from ops.cases_scalar import F32, INT8, INT16, INT32, INT64, UINT8, plain

_PADS = ((1, 0), (2, 1))
for _group in (1, 2):
    _conv = Conv((2, 1), _PADS, (1, 2), _group)
    plain(f"conv_{_group}", _conv, ((2, 5, 6, 4), F32), ((3, 2, 4 // _group, 6), F32), ((6,), F32))
    _transposed = ConvTranspose((2, 1), ((1, 0), (0, 1)), (1, 2), (1, 0), _group)
    plain(f"conv_transpose_{_group}", _transposed, ((2, 3, 4, 4), F32), ((3, 2, 3, 4), F32))
_weight_steps = np.linspace(-1, 1, 3 * 2 * 2 * 2, dtype=np.float32).reshape(3, 2, 2, 2)
plain(
    "conv_one_pixel", Conv((1, 1), ((0, 0),) * 2, (1, 1)), ((1, 1, 1, 3), F32), ((1, 1, 3, 2), F32)
)
# More phases than kernels have code for; also where a single input has no next one.
for _steps, _rest in (((40, 30), ((11, 3), (0, 5))), ((2**26, 2000), ((0, 0), (0, 0)))):
    _wide = ConvTranspose(_steps, _rest, (1, 3), (0, 1))
    _size = (1, 2, 2, 2) if _steps[0] < 99 else (1, 1, 2, 2)
    plain(
        f"conv_transpose_steps_{_steps[0]}",
        _wide,
        (_size, F32),
        _weight_steps,
        np.ones(2, np.float32),
    )
_cube = ConvTranspose((2, 1, 2), ((0, 1), (1, 0), (0, 0)), (1, 1, 1), (0, 0, 1))
_weight = np.linspace(-1, 1, 2 * 3 * 2 * 2 * 3, dtype=np.float32).reshape(2, 3, 2, 2, 3)
plain("conv_transpose_3d", _cube, ((1, 2, 3, 3, 3), F32), _weight, np.ones(2, np.float32))
for _columns in (False, True):
    _pool = PoolPlaces((2, 3), (1, 2), ((1, 0), (1, 1)), (2, 1), _columns)
    plain(f"pool_places_{_columns:d}", _pool, ((2, 3, 4, 5), F32))
plain(
    "pool_places_3d",
    PoolPlaces((2,) * 3, (2,) * 3, ((0, 0),) * 3, (1,) * 3),
    ((1, 2, 4, 4, 4), F32),
)

_scale, _scales = np.float32(0.037), np.array([0.02, 0.3, 4.0], np.float32)
_ties = np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 1e9, -1e9, np.inf, 127.5], np.float32)
for _dtype in (UINT8, INT8, DType.UINT16, DType.INT16):
    _zero = np.asarray(7, _dtype.numpy)
    plain(f"quantize_{_dtype.value}", QuantizeLinear(), ((4, 3), F32), _scales, _zero)
    plain(f"quantize_ties_{_dtype.value}", QuantizeLinear(), _ties, np.float32([1]), _zero)
    plain(f"dequantize_{_dtype.value}", DequantizeLinear(), ((4, 3), _dtype), _scales, _zero)
plain("quantize_any", QuantizeLinear(), ((4, 3), INT32), np.float32([1e7]), ((4, 1), UINT8))
plain("dequantize_int32", DequantizeLinear(), ((4, 3), INT32), _scales, np.asarray(0, np.int32))
plain(
    "requantize", Requantize(), ((2, 5, 3), INT32), np.float32([1e-7]), _scales, np.float32([0.3]),
    np.asarray(-5, np.int8),
)  # fmt: skip
plain(
    "matmul_integer", MatMulInteger(), ((2, 3, 5), UINT8), ((5, 4), INT8), ((3, 1), UINT8),
    ((4,), INT8),
)  # fmt: skip
plain(
    "matmul_integer_batch", MatMulInteger(), ((3, 5), INT8), ((2, 5, 4), UINT8),
    np.asarray(3, np.int8), np.asarray(250, np.uint8),
)  # fmt: skip
for _group in (1, 2):
    _kernel = np.arange(3 * 2 * (4 // _group) * 6).astype(np.int8).reshape(3, 2, 4 // _group, 6)
    plain(
        f"conv_integer_{_group}", ConvInteger((2, 1), _PADS, (1, 2), _group),
        ((2, 5, 6, 4), UINT8), _kernel, np.uint8([128]), np.arange(6).astype(np.int8),
    )  # fmt: skip
plain(
    "conv_integer_computed", ConvInteger((1,), ((1, 1),), (1,)), ((1, 5, 2), INT8),
    ((3, 2, 3), INT8), ((1,), INT8), ((1,), INT8),
)  # fmt: skip
plain(
    "matmul_integer_wide", MatMulInteger(wide=True), ((2, 3, 5), INT16), ((5, 4), INT16),
    ((1,), INT16), np.int16([-32768]),
)  # fmt: skip
plain(
    "conv_integer_wide", ConvInteger((2, 1), _PADS, (1, 2), wide=True), ((2, 5, 6, 4), INT16),
    np.arange(3 * 2 * 4 * 6).astype(np.int8).reshape(3, 2, 4, 6), np.int16([0]), np.int8([0]),
)  # fmt: skip
for _wide_sums, _dtype in ((False, UINT8), (True, INT16)):
    _op = ConvTransposeInteger((2, 1), ((1, 0), (0, 1)), (1, 2), (1, 0), 2, wide=_wide_sums)
    _kernel = np.arange(-72, 72).astype(np.int8).reshape(3, 2, 4, 6)[..., :4]
    plain(
        f"conv_transpose_integer_{_dtype.value}", _op, ((2, 3, 4, 4), _dtype), _kernel,
        np.asarray([7], _dtype.numpy), np.int8([-3]),
    )  # fmt: skip

_places = np.array([[0, 1], [1, 3], [3, 3]], np.int32)
_weights = np.array([[0.5, 0.5], [1.25, -0.25], [1, 0]], np.float32)
for _axis in range(3):
    _shape = tuple(4 if a == _axis else 3 for a in range(3))
    plain(f"interpolate_{_axis}", Interpolate(_axis), (_shape, F32), _places, _weights)
plain("interpolate_one", Interpolate(0), ((1, 5), F32), _places * 0, _weights)

for _mode in MODES:
    for _padding in PADDINGS:
        for _align in (False, True):
            plain(
                f"grid_{_mode}_{_padding}_{_align:d}", GridSample(_mode, _padding, _align),
                ((2, 4, 5, 3), F32), ((2, 3, 4, 2), F32),
            )  # fmt: skip
# Places on elements, between two, and on the edges: of four elements and two, where all is exact.
_on_y, _on_x = ((np.arange(-3, 2 * n + 2, dtype=np.float32) + 1) / n - 1 for n in (4, 2))
_on = np.stack(np.meshgrid(_on_x, _on_y), -1)[None]
for _mode in MODES:
    for _padding in PADDINGS:
        plain(
            f"grid_edges_{_mode}_{_padding}", GridSample(_mode, _padding), ((1, 4, 2, 2), F32), _on
        )
plain("grid_3d", GridSample(), ((1, 3, 4, 5, 2), F32), ((1, 2, 3, 2, 3), F32))
_far = np.array([1e30, -1e30, np.inf, -np.inf, 2, 0], np.float32).reshape(1, 3, 2)
plain("grid_far", GridSample("linear", "reflection"), ((1, 4, 1), F32), _far[..., :1])

for _tag, _group, _deformed in (("", 1, 1), ("_grouped", 2, 2)):
    _offsets, _masks = ((2, _deformed * 12, 3, 5), F32), ((2, _deformed * 6, 3, 5), F32)
    plain(
        f"deform_conv{_tag}", DeformConv((2, 1), ((1, 1), (0, 1)), (1, 2), _group, _deformed),
        ((2, 6, 6, 4), F32), ((3, 2, 4 // _group, 6), F32), _offsets, ((6,), F32), _masks,
    )  # fmt: skip
plain(
    "deform_conv_one", DeformConv((1, 1), ((0, 0),) * 2, (1, 1)), ((1, 4, 4, 1), F32),
    ((2, 2, 1, 1), F32), np.linspace(-9, 9, 72, dtype=np.float32).reshape(1, 8, 3, 3),
)  # fmt: skip
plain("col2im", Col2Im((5, 6), (2, 3), (2, 1), ((1, 0), (0, 2)), (1, 2)), ((2, 3, 6, 12), F32))
_rois = np.array([[0, 0, 9, 7], [2.5, -3, 5, 20], [4, 4, 4, 4]], np.float32)
for _samples in (0, 2):
    for _most in (False, True):
        plain(
            f"roi_align_{_samples}_{_most:d}", RoiAlign((2, 3), 0.5, _samples, not _most, _most),
            ((2, 5, 6, 3), F32), _rois, np.array([1, 0, 1], np.int64),
        )  # fmt: skip


def _border_points(size: int) -> NDArray[np.float32]:
    """Places on the borders of an axis, a little inside and outside, and half an element away."""
    borders = np.array([-1, 0, size - 1, size], np.float32)
    little = np.float32(2.0**-20)
    near = [borders, borders - little, borders + little, [-1.5, -0.5, size - 0.5, size + 0.5]]
    return np.concatenate(near).astype(np.float32)


# A sample at each pair of places: regions without extent have the one sample where they start, or
# half an element after it, as the older ones are at least one element large. All is exact.
_ys, _xs = (a.reshape(-1) for a in np.meshgrid(_border_points(5), _border_points(6), indexing="ij"))
for _half in (False, True):
    _starts = np.stack([_xs, _ys, _xs, _ys], 1) + np.float32(0.5 if _half else -0.5)
    for _most in (False, True):
        plain(
            f"roi_align_borders_{_half:d}_{_most:d}", RoiAlign((1, 1), 1.0, 1, _half, _most),
            ((2, 5, 6, 2), F32), _starts, (np.arange(len(_starts)) % 2).astype(np.int64),
        )  # fmt: skip
# Bins of whole elements, and a little more or less: as many samples as they have, rounded up.
_ends = np.array([n + little for n in (0, 2, 4) for little in (-(2**-10), 0, 2**-10)], np.float32)
_bins = np.stack([_ends * 0, _ends * 0, _ends, _ends[::-1]], 1)
plain(
    "roi_align_whole_bins", RoiAlign((2, 2), 1.0), ((1, 5, 6, 2), F32), _bins,
    np.zeros(len(_bins), np.int64),
)  # fmt: skip
plain("roi_align_any", RoiAlign((2, 2), 1.0), ((1, 4, 4, 1), F32), ((2, 4), F32), ((2,), INT64))
for _around in (False, True):
    _starts = np.array([3, -1], np.int64)
    plain(
        f"tensor_scatter_{_around:d}", TensorScatter(2, _around), ((2, 3, 5, 2), F32),
        ((2, 3, 3, 2), F32), _starts,
    )  # fmt: skip
    plain(
        f"tensor_scatter_any_{_around:d}", TensorScatter(1, _around), ((2, 5), INT8),
        ((2, 3), INT8), ((2,), INT64),
    )  # fmt: skip
plain("det", Det(), ((2, 3, 4, 4), F32))
plain("det_one", Det(), ((1, 1), F32))
plain("det_singular", Det(), np.array([[0, 2, 1], [0, 1, 5], [0, 3, 2]], np.float32))
plain("bit_cast", bits.BitCast(INT32), ((3, 4), F32))
plain("bit_cast_bytes", bits.BitCast(UINT8), ((3, 4), INT8))
plain("bit_cast_to_bytes", bits.BitCast(INT8), ((3, 4), F32))
plain("bit_cast_of_bytes", bits.BitCast(INT32), ((3, 4), INT8))
