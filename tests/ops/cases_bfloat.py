"""Layers that multiply bfloat16: cases of other modules again, with every layer that can.

The references round as kernels do, so errors are those of sums in float32 and of what follows.
"""

from __future__ import annotations

import importlib
from functools import partial

from cannery.ir.graph import Graph
from cannery.quantization.bfloat_layers import able_bfloat_steps, in_bfloat
from ops.cases import Case, add_case, case_named

#: By module.
AGAIN = {
    "cases_matmul": (
        "matmul_dense", "matmul_dense_few_inputs", "matmul_dense_wide", "matmul_dense_batch",
        "matmul_dense_image", "matmul_dense_long_sums", "matmul_dense_transposed",
        "matmul_dense_two_outputs",
    ),
    "cases_conv": (
        "conv_3x3_same_relu", "conv_3x3_odd_channels", "conv_3x3_wide", "conv_5x5_stride",
        "conv_1x1", "conv_one_output_channel", "conv_scale_residual", "conv_3x3_valid_deep",
        "conv_dilated_padded",
    ),
    "cases_conv_gemm": ("conv_deep_3x3", "conv_deep_1x1", "conv_1x1_batch", "conv_dilated"),
}  # fmt: skip

#: max|y - r| / max|r|: processors round sums of two to float32 twice, to odd.
TOLERANCE = 2e-5


def of_bfloat(case: Case) -> Graph:
    """The graph of a case with products of bfloat16, as far as that is possible."""
    graph = case.make()
    return in_bfloat(graph, able_bfloat_steps(graph))


for _module, _names in AGAIN.items():
    importlib.import_module(f"ops.{_module}")
    for _name in _names:
        _case = case_named(_name)
        add_case(f"bfloat_{_name}", partial(of_bfloat, _case), tolerance=TOLERANCE, far=_case.far)
