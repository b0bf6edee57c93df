"""float16 and bfloat16 in an ONNX file: read as float32, which holds each of their numbers.

Computations with them use float32: finer, and without their overflow. A Cast to them changes
nothing, as if there were no rounding to fewer bits.
"""

from __future__ import annotations

from collections.abc import Collection

from cannery.frontends.onnx.model import HALVES, OnnxModel, OnnxNode


def half_notes(model: OnnxModel, ports: Collection[str]) -> tuple[str, ...]:
    """The note for a network with the inputs and outputs `ports`; empty without such floats.

    Weights stored this way, and cast to float32 before use, do not need a note.
    """
    named = [f"{name!r} ({model.halves[name]})" for name in ports if name in model.halves]
    if named:
        listed = ", ".join(dict.fromkeys(named))
        return (
            f"{listed}: float32 here, and so is everything that the model computes with such "
            "floats",
        )
    if any(_computes(node, model.halves) for node in model.nodes):
        return ("the model's float16 and bfloat16 computations use float32",)
    return ()


def _computes(node: OnnxNode, halves: Collection[str]) -> bool:
    """Whether a node visibly makes such floats."""
    if node.kind == "Cast":
        return node.attributes.get("to") in HALVES
    return any(name in halves for name in node.inputs)
