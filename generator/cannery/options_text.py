"""Options in the form that a user gives: the inverse of `make_options`."""

from __future__ import annotations

import dataclasses
import re
import shlex
from collections.abc import Collection, Mapping
from enum import Enum
from pathlib import Path
from typing import Any

from cannery.names import make_identifier
from cannery.options import SPECS, Group, Options, Spec

#: Options that are kept as words but given as one text.
_WORDS = ("cflags", "ldflags")


def option_words(options: Options, leave_out: Collection[str] = ()) -> list[str]:
    """Words of the command line for every option that is not at its default.

    `leave_out` names fields of Options. The words are not quoted for a shell.
    """
    words: list[str] = []
    for spec in SPECS:
        value, default = getattr(options, spec.name), _DEFAULTS.get(spec.name)
        if spec.name in leave_out or value == default:
            continue
        words += [spec.flag] if value is True else _valued(spec, value)
    return words


def compile_command(options: Options, leave_out: Collection[str] = ()) -> str:
    """The command that makes the same code again, with files named without their folders.

    Records, compilers and devices are left out, and what `leave_out` names: fields of Options.
    """
    files: dict[str, Any] = {
        spec.name: Path(getattr(options, spec.name).name)
        for spec in SPECS
        if isinstance(getattr(options, spec.name), Path)
    }
    custom = {name: Path(path.name) for name, path in options.custom.items()}
    named = dataclasses.replace(options, **files, custom=custom)
    left_out = {s.name for s in SPECS if s.group in (Group.TUNING, Group.TOOLS)} | {*leave_out}
    if "model" in leave_out or options.name == make_identifier(options.model.stem):
        left_out.add("name")
    model = [] if "model" in leave_out else [options.model.name]
    return shlex.join(["cannery", "compile", *model, *option_words(named, left_out)])


def cmake_words(options: Options, leave_out: Collection[str] = ()) -> list[str]:
    """Words of `add_nn_model` for every option that is not at its default; see `option_words`.

    They are quoted where CMake needs it.
    """
    words: list[str] = []
    for spec in SPECS:
        value = getattr(options, spec.name)
        if not spec.cmake or spec.name in leave_out or value == _DEFAULTS.get(spec.name):
            continue
        texts = [] if value is True else _texts(spec, value)
        words += [spec.cmake_keyword, *map(_cmake_argument, texts)]
    return words


def _cmake_argument(text: str) -> str:
    if re.fullmatch(r"[\w./:=,+@-]+", text):
        return text
    return '"' + re.sub(r'([\\"$])', r"\\\1", text) + '"'


def _default(item: dataclasses.Field[Any]) -> object:
    if item.default_factory is not dataclasses.MISSING:
        return item.default_factory()
    return item.default


_DEFAULTS = {item.name: _default(item) for item in dataclasses.fields(Options)}


def _texts(spec: Spec, value: object) -> list[str]:
    if spec.name in _WORDS and isinstance(value, tuple):
        return [shlex.join(value)]
    if isinstance(value, Mapping):
        return [f"{key}={_text(item)}" for key, item in value.items()]
    return [_text(item) for item in (value if isinstance(value, tuple) else (value,))]


def _valued(spec: Spec, value: object) -> list[str]:
    words: list[str] = []
    for text in _texts(spec, value):
        # One word, so that a value that begins with a dash stays a value.
        words += [f"{spec.flag}={text}"] if text.startswith("-") else [spec.flag, text]
    return words


def _text(value: object) -> str:
    return str(value.value if isinstance(value, Enum) else value)
