"""Counts what a serialised message holds before it is parsed: small files can stand for much.

A protobuf message is a sequence of fields; one of two bytes can become an object of hundreds, and
packed numbers of one byte become eight. https://protobuf.dev/programming-guides/encoding
"""

from __future__ import annotations

from typing import Any

from cannery.errors import ModelError

#: Fields of a model, all messages within it included: real networks have some ten thousand.
MAX_FIELDS = 1_000_000
#: Bytes of numbers in lists that are not stored as raw data.
MAX_PACKED = 2**29
#: Messages within messages, as protobuf itself limits them.
MAX_DEPTH = 100

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_GROUPS = (3, 4)


def check_message(data: bytes, descriptor: Any) -> None:
    """Raises ModelError if parsing `data` as a message of that type would take too much memory.

    What is malformed is left to the parser.
    """
    fields, packed = 0, 0
    view = memoryview(data)
    stack = [(0, len(data), descriptor)]
    while stack:
        at, end, message = stack.pop()
        while at < end:
            fields += 1
            if fields > MAX_FIELDS or packed > MAX_PACKED or len(stack) > MAX_DEPTH:
                raise ModelError("the file holds too much for a network: it is damaged, or a trap")
            tag, at = _varint(view, at, end)
            wire = tag & 7
            if wire == _VARINT:
                at = _varint(view, at, end)[1]
            elif wire in (_FIXED64, _FIXED32):
                at += 8 if wire == _FIXED64 else 4
            elif wire == _BYTES:
                size, at = _varint(view, at, end)
                inner = message.fields_by_number.get(tag >> 3)
                if at + size > end:
                    return
                if inner is not None and inner.message_type is not None:
                    stack.append((at + size, end, message))
                    end, message = at + size, inner.message_type
                    continue
                if inner is not None and inner.type == inner.TYPE_STRING:
                    _check_text(view[at : at + size], inner.name)
                if inner is not None and inner.type not in (inner.TYPE_BYTES, inner.TYPE_STRING):
                    packed += 8 * size
                at += size
            elif wire in _GROUPS:
                raise ModelError("damaged ONNX file: it holds groups")
            else:
                return


def _check_text(data: memoryview, field: str) -> None:
    """ModelError for a name that is no text, which the parser would take for bytes."""
    try:
        if field != "doc_string":
            str(data, "utf-8")
    except UnicodeDecodeError:
        raise ModelError(f"damaged ONNX file: its {field} is no text") from None


def _varint(data: memoryview, at: int, end: int) -> tuple[int, int]:
    """A number and where it ends; malformed ones end with the data."""
    value, shift = 0, 0
    while at < end and shift < 70:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    return value, end
