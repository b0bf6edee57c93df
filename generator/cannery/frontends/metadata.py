"""What model files say of themselves, made harmless: of whatever bytes, only short, sound text."""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Iterable, Mapping
from typing import Any

#: Entries that are kept, and characters of each key and value.
MAX_ENTRIES = 64
MAX_KEY = 100
MAX_VALUE = 1000


def sound(text: str, limit: int) -> str:
    """A text of at most so many characters, in one line, that every encoding of Unicode has."""
    whole = text[: 4 * limit].encode("utf-8", "replace").decode()
    line = " ".join("".join(map(_printable, whole)).split())
    return line if len(line) <= limit else f"{line[: limit - 3]}..."


def _printable(character: str) -> str:
    """The character, or what stands for it: nothing that moves a cursor, or no one knows."""
    category = unicodedata.category(character)
    if category in ("Cc", "Cf", "Zl", "Zp"):
        return " "
    return "?" if category in ("Cs", "Co", "Cn") else character


def make_metadata(items: Iterable[tuple[str, object]]) -> dict[str, str]:
    """The entries that have a value, the first of each key."""
    found: dict[str, str] = {}
    for key, value in items:
        name, text = sound(key, MAX_KEY), sound(str(value), MAX_VALUE)
        if name and text and name not in found and len(found) < MAX_ENTRIES:
            found[name] = text
    return found


def sound_names(found: Collection[tuple[str, ...]]) -> tuple[str, ...]:
    """The names of the classes, if there is one list of them; a nameless one gets its number."""
    if len(found) != 1:
        return ()
    (names,) = found
    return tuple(sound(name, MAX_KEY) or str(k) for k, name in enumerate(names))


def keras_metadata(name: str, version: str) -> dict[str, str]:
    """Of a model of Keras."""
    return make_metadata([("format", "Keras"), ("keras.version", version), ("name", name)])


def onnx_metadata(proto: Any, opsets: Mapping[str, int]) -> dict[str, str]:
    """Of a ModelProto; `metadata_props` are listed by their own keys, after what ONNX defines."""
    imports = ", ".join(f"{domain} {version}".strip() for domain, version in sorted(opsets.items()))
    graph = proto.graph
    described = [
        ("format", "ONNX"), ("onnx.opset", imports), ("onnx.ir_version", proto.ir_version),
        ("onnx.producer_name", proto.producer_name),
        ("onnx.producer_version", proto.producer_version), ("onnx.domain", proto.domain),
        ("onnx.model_version", proto.model_version or ""), ("name", graph.name),
        ("onnx.doc_string", proto.doc_string), ("onnx.graph_doc_string", graph.doc_string),
    ]  # fmt: skip
    return make_metadata([*described, *((p.key, p.value) for p in proto.metadata_props)])
