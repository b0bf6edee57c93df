"""Layers in half precision: cases of other modules again, with every layer that can in it.

The code differs from that of float32 by the words, so some of each kind suffice.
"""

from __future__ import annotations

import importlib
from functools import partial

from cannery.ir.graph import Graph
from cannery.quantization.half_layers import able_steps, in_half
from ops.cases import Case, add_case, case_named

#: By module.
AGAIN = {
    "cases_matmul": (
        "matmul_dense", "matmul_dense_wide", "matmul_dense_batch", "matmul_dense_image",
        "matmul_dense_long_sums",
    ),
    "cases_conv": (
        "conv_3x3_same_relu", "conv_3x3_odd_channels", "conv_3x3_wide", "conv_5x5_stride",
        "conv_1x1", "conv_scale_residual", "conv_3x3_valid_deep", "conv_dilated_padded",
    ),
    "cases_conv_gemm": (
        "conv_deep_3x3", "conv_deep_1x1", "conv_1x1_batch", "conv_group", "conv_dilated",
    ),
    "cases_pool": (
        "max_pool_3x3_same", "max_pool_many_channels", "average_pool_3x3_same",
        "average_pool_one_pixel", "average_pool_2x2_wide",
    ),
    "cases_general": ("move_transpose_image", "move_pad_edge"),
    "cases_movement": ("add_relu", "gated_odd", "reorder_wide", "scale_shift_tanh"),
    "cases_concat": ("concat_batches",),
    "cases_resize": ("resize_twice", "resize_down_nearest"),
    "cases_depthwise": ("conv_depthwise_3x3", "conv_depthwise_odd", "conv_depthwise_stride_2"),
    "cases_reduce": (
        "ReduceMean_pool", "ReduceMean_channels", "ReduceMax_pool", "ReduceMean_rank_5_last",
    ),
    "cases_normalization": (
        "normalization_layer", "normalization_layer_image", "normalization_group_instance",
        "normalization_batch",
    ),
    "cases_recurrent": (
        "recurrent_lstm", "recurrent_lstm_one_step_state", "recurrent_lstm_states",
        "recurrent_lstm_coupled", "recurrent_lstm_lengths", "recurrent_lstm_functions",
        "recurrent_gru_large", "recurrent_gru_after_both", "recurrent_gru_after_functions",
        "recurrent_rnn_relu", "recurrent_rnn_both",
    ),
}  # fmt: skip

#: max|y - r| / max|r|: sums of up to a few hundred products, each rounded to 11 bits.
TOLERANCE = 8e-3

#: The same by module: recurrent layers amplify what they rounded in the steps before.
AMPLIFIED = {"cases_recurrent": 3e-2}

#: The same for schedules that are inexact.
INEXACT = 2e-2


def in_half_precision(case: Case) -> Graph:
    """The graph of a case in half precision, as far as that is possible."""
    graph = case.make()
    return in_half(graph, able_steps(graph))


for _module, _names in AGAIN.items():
    importlib.import_module(f"ops.{_module}")
    for _name in _names:
        _case = case_named(_name)
        _make = partial(in_half_precision, _case)
        _most = AMPLIFIED.get(_module, TOLERANCE)
        add_case(f"half_{_name}", _make, tolerance=_most, inexact=INEXACT, far=_case.far)
