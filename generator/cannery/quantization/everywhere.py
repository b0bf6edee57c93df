"""Checks what `--same-everywhere` requires: every processor computes the same bits."""

from __future__ import annotations

from collections.abc import Sequence

from cannery.errors import OptionError
from cannery.ir.graph import FloatLayer, Graph
from cannery.ops.same_bits import differing_layers

#: How many layers are named for each reason.
_NAMED = 8


def require_same_everywhere(graph: Graph) -> None:
    """Raise OptionError if processors may disagree about a bit of an output.

    Names the layers and why they compute with floats.
    """
    layers = differing_layers(graph)
    if not layers:
        return
    if graph.quantization or graph.integer_layers:
        cure = "end the network before them with --outputs, or leave it out"
    else:
        cure = "quantise the network: --quantize int16 or int8; or leave it out"
    raise OptionError(
        f"last bits may differ between processors: {describe(layers, _NAMED)}",
        where="--same-everywhere", cure=cure,
    )  # fmt: skip


def describe(layers: Sequence[FloatLayer], most: int | None = None) -> str:
    """Layers by the reason for which they compute with floats: 'a', 'b' (why); 'c' (why).

    At most `most` are named for each reason, if given.
    """
    by_reason: dict[str, list[str]] = {}
    for layer in layers:
        by_reason.setdefault(layer.reason, []).append(repr(layer.name))
    parts = []
    for reason, names in by_reason.items():
        more = len(names[most:]) if most else 0
        rest = [f"{more} more"] if more else []
        parts.append(f"{', '.join([*names[:most], *rest])} ({reason})")
    return "; ".join(parts)
