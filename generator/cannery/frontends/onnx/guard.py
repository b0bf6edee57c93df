"""Counts what a serialised message holds before it is parsed: small files can expand to a lot.

A protobuf message is a sequence of fields; one of two bytes can become an object of hundreds, and
packed numbers of one byte become eight. https://protobuf.dev/programming-guides/encoding
"""

from __future__ import annotations

from typing import Any

from cannery.errors import ModelError

#: Most messages and texts of a model: real networks have some ten thousand.
MAX_PARTS = 1_000_000
#: Most numbers that are separate fields, like those of attributes.
MAX_NUMBERS = 4_000_000
#: Most bytes of packed numbers that the file holds in fewer bytes.
MAX_PACKED = 2**29
#: Most nested messages; protobuf has the same limit.
MAX_DEPTH = 100

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_GROUPS = (3, 4)

_TOO_MUCH = "the file holds too much for a network"

#: Fields of a NodeProto (onnx.proto): its first output, its operator, and the operator's domain.
_OUTPUT, _KIND, _DOMAIN = 2, 4, 7


class TooLargeError(ModelError):
    """A file that holds too much; `label`, `kind` and `domain` are those of the node responsible,
    if any.
    """

    def __init__(self, what: str, label: str = "", kind: str = "", domain: str = "") -> None:
        self.label, self.kind, self.domain = label, kind, domain
        super().__init__(what, where=f"node {label!r} ({kind})" if kind else "")


def check_message(data: bytes, descriptor: Any) -> None:
    """Raises ModelError if parsing `data` as a message of that type would take too much memory.

    It is a TooLargeError if the message is otherwise sound. Malformed data is left to the parser.
    """
    parts, numbers, packed = 0, 0, 0
    node, before = (0, 0), (0, 0, 0)  # the outermost node, and what was counted before it
    view = memoryview(data)
    stack = [(0, len(data), descriptor)]
    while stack:
        at, end, message = stack.pop()
        while at < end:
            if parts > MAX_PARTS or numbers > MAX_NUMBERS or packed > MAX_PACKED:
                raise _too_large((parts, numbers, packed), before, view[slice(*node)])
            if len(stack) > MAX_DEPTH:
                raise ModelError(f"{_TOO_MUCH}: more than {MAX_DEPTH} nested messages")
            tag, at = _varint(view, at, end)
            wire = tag & 7
            if wire == _VARINT:
                at = _varint(view, at, end)[1]
                numbers += 1
            elif wire in (_FIXED64, _FIXED32):
                at += 8 if wire == _FIXED64 else 4
                numbers += 1
            elif wire == _BYTES:
                size, at = _varint(view, at, end)
                inner = message.fields_by_number.get(tag >> 3)
                if at + size > end:
                    return
                if inner is not None and inner.message_type is not None:
                    parts += 1
                    stack.append((at + size, end, message))
                    end, message = at + size, inner.message_type
                    if message.name == "NodeProto" and at >= node[1]:
                        node, before = (at, end), (parts, numbers, packed)
                    continue
                width = _width(inner)
                packed += size * width
                parts += not width
                if inner is not None and inner.type == inner.TYPE_STRING:
                    _check_text(view[at : at + size], inner.name)
                at += size
            elif wire in _GROUPS:
                raise ModelError("damaged ONNX file: it holds groups")
            else:
                return


def _width(inner: Any) -> int:
    """How many more bytes a byte of packed numbers may become; 0 for text and other bytes."""
    if inner is None or inner.type in (inner.TYPE_BYTES, inner.TYPE_STRING):
        return 0
    return {inner.TYPE_FLOAT: 1, inner.TYPE_DOUBLE: 1, inner.TYPE_INT32: 4}.get(inner.type, 8)


def _too_large(counts: tuple[int, ...], before: tuple[int, ...], node: memoryview) -> TooLargeError:
    """What there is too much of, and in which node, if one node has most of it."""
    limits = {
        MAX_PARTS: f"more than {MAX_PARTS} nodes, names and the like",
        MAX_NUMBERS: f"more than {MAX_NUMBERS} numbers that are not weights",
        MAX_PACKED: f"lists of more than {MAX_PACKED >> 20} MB that are not stored as raw data",
    }
    for (limit, what), now, then in zip(limits.items(), counts, before, strict=True):
        if now > limit:
            names = _names(node) if 2 * (now - then) > now else ()
            return TooLargeError(f"{_TOO_MUCH}: {what}", *names)
    raise AssertionError("nothing is too large")


def _names(node: memoryview) -> tuple[str, str, str]:
    """Label, operator and domain of a NodeProto."""
    found: dict[int, str] = {}
    at = 0
    while at < len(node):
        tag, at = _varint(node, at, len(node))
        if tag & 7 != _BYTES:
            break
        size, at = _varint(node, at, len(node))
        if tag >> 3 in (_OUTPUT, _KIND, _DOMAIN):
            found.setdefault(tag >> 3, bytes(node[at : at + size]).decode("utf-8", "replace"))
        at += size
    return found.get(_OUTPUT, ""), found.get(_KIND, ""), found.get(_DOMAIN, "")


def _check_text(data: memoryview, field: str) -> None:
    """ModelError for a name that is not text, which the parser would take for bytes."""
    try:
        if field != "doc_string":
            str(data, "utf-8")
    except UnicodeDecodeError:
        raise ModelError(f"damaged ONNX file: its {field} is not a text") from None


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
