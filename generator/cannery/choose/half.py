"""Whether a processor computes in half precision, where layers do."""

from __future__ import annotations

from cannery.errors import OptionError
from cannery.ir.graph import Graph
from cannery.target.targets import Target


def check_half(graph: Graph, target: Target) -> None:
    """Raise OptionError for layers in half precision on a processor that does not compute so."""
    if graph.half_layers and not target.isa.has("half"):
        raise OptionError(
            f"{target.name} ({target.isa.name}) does not compute in half precision",
            where="--compute-as",
            cure="take a target that does, such as aarch64-a76; elsewhere --weights-as float16 "
            "stores weights so",
        )
