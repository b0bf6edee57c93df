"""Operators and layers that the user computes: `CUSTOM MyOp=my_op.c`, with `my_op.py` beside it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from cannery.errors import OptionError, UnsupportedError, one_of
from cannery.frontends.json_values import shown
from cannery.ops.custom.op import Attribute, Custom, Source
from cannery.user_files import read_file

#: What errors about unknown operators and layers say in addition.
OWN = "or compute it yourself: --custom {}=my_op.c"

_MACRO = re.compile(r"\w+", re.ASCII)
#: Texts that are the same in C and in JSON.
_TEXT = re.compile(r"[\w ./:;,+-]*", re.ASCII)


def files_of(custom: Mapping[str, Path]) -> tuple[Path, ...]:
    """All files that the option names."""
    return tuple(p for path in custom.values() for p in (path, path.with_suffix(".py")))


def check_all_used(custom: Mapping[str, Path], used: set[str]) -> None:
    """Raises OptionError for an operator that the model does not have."""
    for name in custom:
        if name not in used:
            raise OptionError(
                f"the model has no operator or layer {name!r}", where="--custom",
                cure=one_of(name, used, "it has") if used else "leave it out",
            )  # fmt: skip


def custom_op(name: str, path: Path, attributes: Mapping[str, object]) -> Custom:
    """The operator of a node or layer. Raises CanneryError for what does not fit."""
    if path.suffix != ".c":
        raise OptionError("is not a C file", where=str(path), cure=f"such as {name}=my_op.c")
    texts = [_text(p) for p in (path, path.with_suffix(".py"))]
    found = [(key, _attribute(key, value)) for key, value in sorted(attributes.items())]
    return Custom(name, tuple(found), Source(path.name, texts[0], texts[1]))


def _text(path: Path) -> str:
    try:
        return read_file(path, error=OptionError).decode()
    except OSError as error:
        raise OptionError(
            f"cannot be read: {error.strerror}", where=str(path),
            cure="CUSTOM needs a C file and a Python file of the same name beside it",
        ) from None  # fmt: skip
    except UnicodeDecodeError:
        raise OptionError(
            "is not a text in UTF-8", where=str(path), cure="save it as such"
        ) from None


def _attribute(key: str, value: object) -> Attribute:
    if not _MACRO.fullmatch(key):
        raise UnsupportedError(f"attribute {key!r:.60} cannot be the name of a macro")
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, str) and _TEXT.fullmatch(value):
        return value
    if isinstance(value, int | float):
        return value
    if isinstance(value, list | tuple) and all(type(v) in (int, float) for v in value):
        return tuple(value)
    raise UnsupportedError(f"attribute {key} is {shown(value)}, expected numbers or a text")
