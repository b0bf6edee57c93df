"""Graph passes: graph in, graph out, verified after each. The order below is the order they run."""

from __future__ import annotations

from collections.abc import Callable

from cannery.ir.eliminate_dead import eliminate_dead
from cannery.ir.graph import Graph
from cannery.ir.printer import format_graph
from cannery.ir.verify import verify
from cannery.passes.channels_into_conv import channels_into_conv
from cannery.passes.conv_to_matmul import conv_to_matmul
from cannery.passes.eliminate_common import eliminate_common
from cannery.passes.fixed_means import fixed_means
from cannery.passes.fold_constants import fold_constants
from cannery.passes.fold_scale_shift import fold_scale_shift
from cannery.passes.fuse_activations import fuse_activations, fuse_erf
from cannery.passes.fuse_attention import fuse_attention
from cannery.passes.fuse_folded_norm import fuse_folded_norm
from cannery.passes.fuse_layer_norm import fuse_layer_norm
from cannery.passes.fuse_prelu import fuse_prelu
from cannery.passes.last_of_one_step import last_of_one_step
from cannery.passes.lift_1d import lift_1d, lift_quantised
from cannery.passes.lower_batch_norm import lower_batch_norm
from cannery.passes.nest_concats import nest_concats
from cannery.passes.order_channels import order_channels
from cannery.passes.pad_channels import pad_channels
from cannery.passes.pad_into_window import pad_into_window
from cannery.passes.place_constants import place_constants
from cannery.passes.plain_indices import plain_indices
from cannery.passes.prune_channels import prune_channels
from cannery.passes.quantised_layers import quantised_layers
from cannery.passes.quantised_values import quantised_values
from cannery.passes.repeats_to_resize import repeats_to_resize
from cannery.passes.simplify_movement import simplify_movement
from cannery.passes.simplify_recurrent import simplify_recurrent
from cannery.passes.sink_upsampling import sink_upsampling
from cannery.passes.slice_into_conv import slice_into_conv
from cannery.passes.transpose_into_matmul import transpose_into_matmul
from cannery.passes.upsample_into_conv import upsample_into_conv
from cannery.passes.whole_first import whole_first

#: (name, pass), in order.
PASSES: tuple[tuple[str, Callable[[Graph], Graph]], ...] = (
    ("eliminate_dead", eliminate_dead),
    ("lift_quantised", lift_quantised),
    ("quantised_values", quantised_values),
    ("quantised_layers", quantised_layers),
    ("fixed_means", fixed_means),
    ("fold_constants", fold_constants),
    ("lower_batch_norm", lower_batch_norm),
    ("simplify_movement", simplify_movement),
    ("simplify_recurrent", simplify_recurrent),
    ("last_of_one_step", last_of_one_step),
    ("fuse_layer_norm", fuse_layer_norm),
    ("fuse_folded_norm", fuse_folded_norm),
    ("repeats_to_resize", repeats_to_resize),
    ("plain_indices", plain_indices),
    ("fuse_prelu", fuse_prelu),
    ("fuse_erf", fuse_erf),
    ("fuse_activations", fuse_activations),
    ("fuse_attention", fuse_attention),
    ("transpose_into_matmul", transpose_into_matmul),
    ("pad_into_window", pad_into_window),
    ("slice_into_conv", slice_into_conv),
    ("sink_upsampling", sink_upsampling),
    ("channels_into_conv", channels_into_conv),
    ("fold_scale_shift", fold_scale_shift),
    ("prune_channels", prune_channels),
    ("order_channels", order_channels),
    ("upsample_into_conv", upsample_into_conv),
    ("conv_to_matmul", conv_to_matmul),
    ("lift_1d", lift_1d),
    ("simplify_movement", simplify_movement),
    ("whole_first", whole_first),
    ("eliminate_common", eliminate_common),
    ("nest_concats", nest_concats),
    ("fold_constants", fold_constants),
    ("pad_channels", pad_channels),
    ("place_constants", place_constants),
)


#: Passes that turn layers with an integer form into layers without one, or into views of floats.
FLOATS_ONLY = frozenset(
    {
        "fuse_activations",
        "fuse_layer_norm",
        "fuse_folded_norm",
        "fuse_prelu",
        "last_of_one_step",
        "order_channels",
        "upsample_into_conv",
        "pad_channels",
    }
)


#: Those that look at the numbers of weights: what they do does not hold for other ones.
FIXED_WEIGHTS_ONLY = frozenset({"prune_channels"})


def run_passes(
    graph: Graph, dump: Callable[[str, str], None] | None = None, *, integers: bool = False,
    weights_vary: bool = False,
) -> Graph:  # fmt: skip
    """Runs all passes in order; `dump` gets the name and text of every graph on the way.

    `integers`: the graph will be quantised. `weights_vary`: the result has to serve other weights.
    """
    for name, run in PASSES:
        if (integers and name in FLOATS_ONLY) or (weights_vary and name in FIXED_WEIGHTS_ONLY):
            continue
        before, graph = graph, run(graph)
        if graph is not before:
            verify(graph, after=name)
        if dump:
            dump(name, format_graph(graph, weights=True))
    return graph
