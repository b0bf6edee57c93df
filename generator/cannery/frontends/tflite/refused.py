"""Operators of TensorFlow Lite's schema that are not read, and why."""

from __future__ import annotations

from collections.abc import Mapping

_HASHES = "hash tables, hashes and texts are no numbers"
_NO_KERNEL = "no kernel of LiteRT computes it"
_NOT_YET = "nothing reads it so far"

_BY_REASON: Mapping[str, str] = {
    _HASHES: """
        CONCAT_EMBEDDINGS HASHTABLE HASHTABLE_FIND HASHTABLE_IMPORT HASHTABLE_LOOKUP HASHTABLE_SIZE
        LSH_PROJECTION SKIP_GRAM
    """,
    "it is a number of the schema, not an operator": """
        CUSTOM DELEGATE PLACEHOLDER_FOR_GREATER_OP_CODES
    """,
    _NO_KERNEL: """
        CALL STABLEHLO_ABS STABLEHLO_BROADCAST_IN_DIM STABLEHLO_CBRT STABLEHLO_CLAMP
        STABLEHLO_COMPARE STABLEHLO_CONCATENATE STABLEHLO_CONVERT STABLEHLO_CONVOLUTION
        STABLEHLO_COSINE STABLEHLO_CUSTOM_CALL STABLEHLO_DIVIDE STABLEHLO_DOT_GENERAL
        STABLEHLO_DYNAMIC_SLICE STABLEHLO_DYNAMIC_UPDATE_SLICE STABLEHLO_EXPONENTIAL
        STABLEHLO_FLOOR STABLEHLO_IOTA STABLEHLO_LOG STABLEHLO_LOGISTIC STABLEHLO_NEGATE
        STABLEHLO_OR STABLEHLO_POWER STABLEHLO_REDUCE STABLEHLO_REMAINDER STABLEHLO_RESHAPE
        STABLEHLO_RSQRT STABLEHLO_SELECT STABLEHLO_SLICE STABLEHLO_SORT STABLEHLO_SUBTRACT
        STABLEHLO_TANH STABLEHLO_TRANSPOSE STABLEHLO_WHILE
    """,
    _NOT_YET: """
        STABLEHLO_GATHER STABLEHLO_REDUCE_WINDOW STABLEHLO_RNG_BIT_GENERATOR STABLEHLO_SCATTER
    """,
}

#: The reason for each of them.
REFUSED: Mapping[str, str] = {
    kind: reason for reason, kinds in _BY_REASON.items() for kind in kinds.split()
}


def why_not_read(kind: str) -> str:
    """Why an operator is not read; empty if this is not known."""
    return REFUSED.get(kind, "")
