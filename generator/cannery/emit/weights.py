"""Weights that lie apart from the code: their file, and the hash of the code that reads them.

The hash is of all the text that is generated, so a file serves exactly the code that it was made
with, byte for byte. That is how a network which was trained again gets along without relinking: the
same text comes out, and another file.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cannery.contents import Content
from cannery.emit.source import LAYOUT_HASH, Source, model_hash

#: The head as `cannery/weights.h` describes it.
HEAD_BYTES = 128
_MAGIC = b"CNWEIGHT"
_ORDER = 0x01020304
_VERSION = 1
#: Words that are summed at a time.
_PIECE = 2**20


def with_layout(files: Mapping[str, Content]) -> tuple[dict[str, Content], str]:
    """Generated files with the hash of their code in its place, and the hash."""
    digest = hashlib.sha256()
    for path in sorted(files):
        if path.endswith((".c", ".h", ".hpp")):
            digest.update(f"{path}\n{len(files[path])}\n".encode() + files[path][:])
    layout = digest.hexdigest()[:16]
    place = LAYOUT_HASH.encode()
    return {path: data[:].replace(place, layout.encode()) for path, data in files.items()}, layout


def code_hash(code: str) -> str:
    """Eight hex digits of a step's code."""
    return hashlib.sha256(code.encode()).hexdigest()[:8]


def why_other_code(expected: Mapping[str, Any], found: Mapping[str, Any]) -> str:
    """In what code differs, by two manifests: the first layer, or that it is no layer.

    A layer whose work differs comes first: how those before it write depends on it.
    """
    here, there = found["steps"], expected["steps"]
    for step, other in zip(_working(here), _working(there), strict=False):
        if step["macs"] != other["macs"]:
            same = _operator(step) == _operator(other)
            return _other_shape(step) if same else _other_schedule(step, other)
    if len(here) != len(there):
        return f"the library has {len(there)} steps, the model {len(here)}"
    for step, other in zip(here, there, strict=True):
        if step["schedule"] != other["schedule"]:
            return _other_schedule(step, other)
        if any(step[key] != other[key] for key in ("reads", "writes", "constant_bytes")):
            return _other_shape(step)
        codes = (each["weights"]["code"].get(step["symbol"]) for each in (found, expected))
        if len({*codes}) > 1:
            scales = ", such as scales of values" if _is_integer(found, step) else ""
            return f"{_layer(step)} has numbers in its code that are others in the library{scales}"
    if expected["cannery"] != found["cannery"]:
        return f"the library was made by Cannery {expected['cannery']}"
    return "its interface or its memory differs"


def _is_integer(manifest: Mapping[str, Any], step: Mapping[str, Any]) -> bool:
    """Whether a step may read or write integers with a scale."""
    whole = "integer_layers" in manifest or "quantization" in manifest
    return whole and step["schedule"].startswith("quant")


def _working(steps: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [step for step in steps if step["macs"]]


def _layer(step: Mapping[str, Any]) -> str:
    return f"layer {step['nodes'][0]!r}"


def _operator(step: Mapping[str, Any]) -> str:
    return str(step["schedule"].partition(".")[0])


def _other_shape(step: Mapping[str, Any]) -> str:
    return f"{_layer(step)} has another shape than in the library"


def _other_schedule(step: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    return (
        f"{_layer(step)} is computed by {step['schedule']}, in the library by {other['schedule']}"
    )


def weights_file(source: Source, layout: str) -> bytes:
    """The file for the code with this hash."""
    assert source.test is not None
    data = source.test.data
    names = layout.encode() + model_hash(source.graph).encode()
    rest = struct.pack("<Q", len(data)) + names
    rest = rest.ljust(HEAD_BYTES - 24, b"\0") + data
    return _MAGIC + struct.pack("<IIQ", _ORDER, _VERSION, checksum(rest)) + rest


def checksum(data: bytes) -> int:
    """The sum of all words of 8 bytes, each mixed with its place: `cannery_weights_sum`."""
    words, total = np.frombuffer(data, "<u8"), 0
    for first in range(0, len(words), _PIECE):
        z = words[first : first + _PIECE].astype(np.uint64)
        places = np.arange(first + 1, first + 1 + len(z), dtype=np.uint64)
        z += places * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ z >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ z >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
        total += int(z.sum(dtype=np.uint64))
    return total % 2**64
