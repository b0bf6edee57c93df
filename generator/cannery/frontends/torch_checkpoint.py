"""What a PyTorch checkpoint (torch.save) holds, from the names in it. Nothing is unpickled.

A pickle is a program. Its instructions are listed, by the standard library's `pickletools`, and not
executed; only the texts and names of classes in them count.
"""

from __future__ import annotations

import io
import pickletools
import re
import zipfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from cannery.frontends.archive_errors import ZIP_ERRORS

_MOST_BYTES = 1 << 24
_MOST_INSTRUCTIONS = 1 << 16
_PICKLE = re.compile(r"(^|/)data\.pkl$")
#: The old form has three pickles before the object: a number, a version and facts of the system.
_BEFORE = 3
_MAGIC = b"\x80\x02\x8a\nl\xfc"

#: Texts of a file that may stand in a line for people to copy.
_WORD = re.compile(r"[\w./-]{0,99}", re.ASCII)

#: The old form has this, a class and its source as one object's reference.
_MODULE = "module"
_DICT = "collections OrderedDict"
_STORES = frozenset({"BINPUT", "LONG_BINPUT", "PUT"})
_LOADS = frozenset({"BINGET", "LONG_BINGET", "GET"})
#: Classes of plain data, which `weights_only=True` loads, too.
_PLAIN = re.compile(
    r"(torch\._utils|torch\.serialization|collections|numpy(\.\w+)*|_codecs) .*"
    r"|torch (\w+Storage|Size|device|\w*(int|float|bool|complex)\w*)"
    r"|torch\.(_tensor|nn\.parameter|storage) \w+|(__builtin__|builtins) (set|frozenset|slice)"
)


class Contents(NamedTuple):
    """What a checkpoint holds: weights, or a whole module; maybe in a dictionary, at a key."""

    module: str = ""
    """The class of a whole module, such as "nets.Detector"; "" for weights."""
    key: str = ""
    """Where in a dictionary the weights or the module are; "" where they are all there is."""
    plain: bool = True
    """Whether `weights_only=True` loads it."""


def contents(path: Path) -> Contents | None:
    """What the checkpoint at `path` holds, as far as its beginning shows; None if unknown."""
    try:
        found = _found(_instructions(_pickle(path)))
    except (*ZIP_ERRORS, StopIteration):
        return None
    return found if found and all(map(_WORD.fullmatch, found[:2])) else None


def _pickle(path: Path) -> io.BytesIO:
    """The pickle of the object, read to its beginning."""
    with path.open("rb") as file:
        head = file.read(_MOST_BYTES)
    if head.startswith(_MAGIC):
        stream = io.BytesIO(head)
        for _ in range(_BEFORE):
            for _instruction in pickletools.genops(stream):
                pass
        return stream
    with zipfile.ZipFile(path) as archive:
        name = next(name for name in archive.namelist() if _PICKLE.search(name))
        with archive.open(name) as member:
            return io.BytesIO(member.read(_MOST_BYTES))


def _instructions(stream: io.BytesIO) -> Iterator[tuple[str, str]]:
    """Instructions and their texts; all that bring a class are called GLOBAL.

    They are those of protocol 2, which torch.save writes unless it is asked for another one.
    """
    classes: dict[str, str] = {}
    last = ""
    for code, value, _ in islice(pickletools.genops(stream), _MOST_INSTRUCTIONS):
        name, text = code.name, str(value)
        if name in _STORES:
            classes[text] = last
        else:
            if name in _LOADS and classes.get(text):
                name, text = "GLOBAL", classes[text]
            last = text if name == "GLOBAL" else ""
            yield name, text


def _found(instructions: Iterator[tuple[str, str]]) -> Contents | None:
    """Where the weights are: in the first ordered dictionary, if that is no part of a module."""
    next(instructions)  # the protocol
    start, key, weights, owner, marked = "", "", "", ("", ""), ""
    is_module = False
    for name, text in instructions:
        start = start or (text if name == "GLOBAL" else name)
        if name == "GLOBAL" and text == _DICT and not key.startswith("_"):
            weights = weights or key
        elif name == "GLOBAL" and not _PLAIN.fullmatch(text):
            owner = owner if owner[0] else (text.replace(" ", "."), key)
        if name == "BINUNICODE":
            key = marked if text == _MODULE and marked else text
            is_module |= key == "_modules"
        else:
            marked, key = key if name == "MARK" else "", ""
    plain = not owner[0]
    if start == _DICT or (start == "EMPTY_DICT" and weights):
        return Contents(key="" if start == _DICT else weights, plain=plain)
    if is_module:
        return Contents(owner[0], owner[1] if start == "EMPTY_DICT" else "", plain=False)
    return Contents(plain=plain) if start == "EMPTY_DICT" else None
