"""Layers whose weights are stored as float16: cases of other modules again, with rounded weights.

The code differs only where weights are loaded, so some of each kind suffice; the parameters that
choose other loads meet them all the same (`case_traits` in `kernel_bench.py`).
"""

from __future__ import annotations

import importlib
from functools import partial

from cannery.ir.graph import Graph
from cannery.quantization.halves import storable, with_halves
from ops.cases import Case, add_case, case_named

#: By module.
AGAIN = {
    "cases_matmul": (
        "matmul_dense", "matmul_dense_few_inputs", "matmul_dense_two_outputs", "matmul_dense_wide",
        "matmul_dense_far", "matmul_dense_rows_far", "matmul_dense_transposed",
        "matmul_dense_batch", "matmul_dense_image", "matmul_dense_long_sums",
    ),
    "cases_conv": (
        "conv_3x3_same_relu", "conv_3x3_odd_channels", "conv_3x3_wide", "conv_5x5_stride",
        "conv_1x1", "conv_one_output_channel", "conv_scale_residual", "conv_long_window",
        "conv_3x3_valid_deep", "conv_single_dilated", "conv_single_deep", "conv_dilated_padded",
    ),
    "cases_conv_gemm": (
        "conv_deep_3x3", "conv_deep_1x1", "conv_1x1_batch", "conv_group", "conv_dilated",
    ),
    "cases_depthwise": (
        "conv_depthwise_3x3", "conv_depthwise_odd", "conv_depthwise_stride_2",
        "conv_depthwise_times_3", "conv_depthwise_fours", "conv_depthwise_long_row",
        "conv_grouped_2",
    ),
    "cases_conv_transpose": (
        "conv_transpose_2x2_stride_2", "conv_transpose_4x4_stride_2", "conv_transpose_gaps",
        "conv_transpose_groups", "conv_transpose_depthwise", "conv_transpose_dilated_stride",
    ),
    "cases_recurrent": (
        "recurrent_lstm", "recurrent_lstm_large", "recurrent_lstm_both",
        "recurrent_lstm_peepholes", "recurrent_gru_large", "recurrent_gru_after",
        "recurrent_rnn_large",
    ),
    "cases_chains": (
        "chain_separable_plain", "chain_upsampled_twice", "chain_pooled_2x2",
        "chain_inverted_residual", "chain_convolutions_same",
    ),
}  # fmt: skip


def halved(case: Case) -> Graph:
    """The graph of a case, with all weights as float16 that can be."""
    graph = case.make()
    return with_halves(graph, set(storable(graph).values()))


for _module, _names in AGAIN.items():
    importlib.import_module(f"ops.{_module}")
    for _name in _names:
        _case = case_named(_name)
        add_case(f"halves_{_name}", partial(halved, _case), far=_case.far)
