"""Whether a processor computes in half precision or bfloat16, where layers do."""

from __future__ import annotations

from cannery.errors import OptionError
from cannery.ir.graph import Graph
from cannery.target.targets import Target


def check_half(graph: Graph, target: Target) -> None:
    """Raise OptionError for layers in a precision in which a processor does not compute."""
    if graph.half_layers is None:
        return
    if graph.half_layers.type == "bfloat16" and not target.isa.has("bfloat"):
        raise OptionError(
            f"{target.name} ({target.isa.name}) does not multiply bfloat16",
            where="--compute-as",
            cure="take a target that does, such as neoverse-v1; elsewhere --weights-as float16 "
            "stores weights in half of the memory",
        )
    if graph.half_layers.type == "float16" and not target.isa.has("half"):
        raise OptionError(
            f"{target.name} ({target.isa.name}) does not compute in half precision",
            where="--compute-as",
            cure="take a target that does, such as aarch64-a76; elsewhere --weights-as float16 "
            "stores weights so",
        )
