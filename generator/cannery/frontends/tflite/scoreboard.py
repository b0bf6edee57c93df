"""What becomes of each operator of TensorFlow Lite's schema, as the documentation lists it."""

from __future__ import annotations

from collections.abc import Iterable

from cannery.frontends.tflite.refused import why_not_read
from cannery.frontends.tflite.scope import kinds_of_tensors


def scoreboard(operators: Iterable[str]) -> dict[str, str]:
    """The state of operators, by name, sorted; empty for one that nothing is known of."""
    return {kind: _state(kind) for kind in sorted(operators)}


def _state(kind: str) -> str:
    reason = why_not_read(kind)
    if reason:
        return f"refused: {reason}"
    return ", ".join(kinds_of_tensors(kind)) + _LIMITS.get(kind, "")


#: What of an operator is not read.
_LIMITS = {
    "NON_MAX_SUPPRESSION_V5": "; sigma, which lets scores sink with the overlap, is refused",
    **dict.fromkeys(
        ("BIDIRECTIONAL_SEQUENCE_LSTM", "LSTM", "UNIDIRECTIONAL_SEQUENCE_LSTM"),
        "; of these, weights of int8 alone, beside floats",
    ),
}
