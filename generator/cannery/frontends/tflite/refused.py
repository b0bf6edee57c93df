"""Operators of TensorFlow Lite's schema that are not read, and why."""

from __future__ import annotations

from collections.abc import Mapping

_COMPLEX = "it computes complex numbers"
_HASHES = "hash tables, hashes and texts are no numbers"
_RANDOM = "it draws random numbers"
_SIZES = "the size of its result depends on what it finds"
_SPARSE = "it reads sparse lists of rows"
_STABLEHLO = "the StableHLO dialect is not read"
_NOT_YET = "nothing reads it so far"

_BY_REASON: Mapping[str, str] = {
    _COMPLEX: "COMPLEX_ABS IMAG REAL RFFT2D",
    _HASHES: """
        CONCAT_EMBEDDINGS HASHTABLE HASHTABLE_FIND HASHTABLE_IMPORT HASHTABLE_LOOKUP HASHTABLE_SIZE
        LSH_PROJECTION SKIP_GRAM
    """,
    _RANDOM: "MULTINOMIAL RANDOM_STANDARD_NORMAL RANDOM_UNIFORM",
    _SIZES: "UNIQUE WHERE",
    _SPARSE: "EMBEDDING_LOOKUP_SPARSE",
    "converters write UNIDIRECTIONAL_SEQUENCE_LSTM in its place": "LSTM",
    "it is a number of the schema, not an operator": """
        CUSTOM DELEGATE PLACEHOLDER_FOR_GREATER_OP_CODES
    """,
    "no kernel of LiteRT computes it": "CALL",
    _NOT_YET: """
        ATAN2 BIDIRECTIONAL_SEQUENCE_RNN BITCAST BUCKETIZE DILATE FAKE_QUANT REDUCE_WINDOW
        RIGHT_SHIFT
    """,
}

#: The reason for each of them.
REFUSED: Mapping[str, str] = {
    kind: reason for reason, kinds in _BY_REASON.items() for kind in kinds.split()
}


def why_not_read(kind: str) -> str:
    """Why an operator is not read; empty if this is not known."""
    return _STABLEHLO if kind.startswith("STABLEHLO_") else REFUSED.get(kind, "")
