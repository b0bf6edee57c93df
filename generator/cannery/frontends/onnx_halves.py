"""float16 and bfloat16 in an ONNX file: read as float32, which holds each of their numbers.

What the file computes with them is computed with float32: finer, and without their overflow. A Cast
to them changes nothing, as if there were no rounding to fewer bits.
"""

from __future__ import annotations

from collections.abc import Collection

from cannery.frontends.onnx_model import HALVES, OnnxModel, OnnxNode


def half_notes(model: OnnxModel, ports: Collection[str]) -> tuple[str, ...]:
    """What to say of a network with the inputs and outputs `ports`; nothing without such floats.

    Weights that are stored so, and cast to float32 before they are used, are not worth a word.
    """
    named = [f"{name!r} ({model.halves[name]})" for name in ports if name in model.halves]
    if named:
        listed = ", ".join(dict.fromkeys(named))
        return (f"{listed}: float32 here, as is all that the model computes with such floats",)
    if any(_computes(node, model.halves) for node in model.nodes):
        return ("what the model computes with float16 or bfloat16 is computed with float32",)
    return ()


def _computes(node: OnnxNode, halves: Collection[str]) -> bool:
    """Whether a node makes such floats, as far as it shows."""
    if node.kind == "Cast":
        return node.attributes.get("to") in HALVES
    return any(name in halves for name in node.inputs)
