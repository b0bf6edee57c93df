"""Options that a project repeats: `cannery.toml`, or `[tool.cannery]` in `pyproject.toml`.

The file lies beside a model or in a folder above it, at most that of the repository. `[defaults]`
is for all models, `[model."ball.h5"]` for one, by its name or its path from the file. What the
command line gives goes first. Nothing that is read here is ever executed: commands and flags of
compilers are refused, as a repository may come from anybody.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from cannery.errors import OptionError, one_of
from cannery.option_values import isas
from cannery.options import SPECS, Kind, Spec, check_option
from cannery.options_given import texts_of
from cannery.user_files import read_file

NAME, SHARED_NAME = "cannery.toml", "pyproject.toml"
#: What other tools have in common with this one in SHARED_NAME.
_TABLE = "tool.cannery"
_DEFAULTS, _MODEL = "defaults", "model"

#: Options whose paths are written to, not only read.
WRITTEN = ("tuning", "weights")

#: The options that may stand in a file, as the command line calls them.
#: Options that start programs, or run Python: those of tools, and references of operators.
_REFUSED = {s.flag.removeprefix("--") for s in SPECS if not s.cmake or s.name == "custom"}
_KNOWN = {s.flag.removeprefix("--"): s for s in SPECS if s.flag.removeprefix("--") not in _REFUSED}


@dataclass(frozen=True)
class ProjectOptions:
    """What a file says about one model: `raw` by field of Options, as `make_options` takes it."""

    path: Path
    raw: Mapping[str, Any]


def project_options(model: Path) -> ProjectOptions | None:
    """What is said about a model, None where there is no file. Raises OptionError."""
    for folder in _folders(model):
        for name, table in ((NAME, ""), (SHARED_NAME, _TABLE)):
            text = _read(folder / name)
            if text is not None and table in text:
                file = _File(folder / name, text, table)
                return ProjectOptions(file.path, file.options_of(model))
    return None


def merged_options(project: ProjectOptions, given: Mapping[str, Any]) -> dict[str, Any]:
    """Options of a file with those that are `given`, which go first.

    A processor that is given takes the place of whatever names one in the file, and what only
    quantised networks need is left out where nothing is quantised. (Samples also judge float16.)
    """
    present = {name: value for name, value in given.items() if value not in (None, ())}
    raw = dict(project.raw)
    if {"target", "isa"} & set(present):
        raw = {name: value for name, value in raw.items() if name not in ("target", "isa")}
    raw |= present
    if "quantize" not in raw:
        unused = (
            {"max_loss"} if {"weights_as", "compute_as"} & set(raw) else {"max_loss", "calibration"}
        )
        raw = {k: v for k, v in raw.items() if k in present or k not in unused}
    return raw


def _folders(model: Path) -> Iterator[Path]:
    """Where a file may lie: the nearest folder first, that of the repository last."""
    folder = _plain(model).parent
    for place in (folder, *folder.parents):
        yield place
        if os.path.lexists(place / ".git"):
            return


def _plain(path: Path) -> Path:
    """The full path as it is written, through links, without `..`."""
    return Path(os.path.normpath(path.absolute()))


def _read(path: Path) -> str | None:
    """The text of a file; None where there is none."""
    try:
        if not path.is_file():
            return None
        return read_file(path, where=str(path)).decode()
    except OSError as error:
        raise OptionError(
            f"cannot be read: {error.strerror}", where=str(path),
            cure="change its permissions, or give cannery --no-project COMMAND ...",
        ) from None  # fmt: skip
    except UnicodeDecodeError:
        raise OptionError("not text", where=str(path), cure="TOML is UTF-8") from None


@dataclass(frozen=True)
class _File:
    """A file with its text; what concerns Cannery is in `table`, or everywhere."""

    path: Path
    text: str
    table: str

    def options_of(self, model: Path) -> dict[str, Any]:
        """What counts for a model. All that the file says is checked. Raises OptionError."""
        content = self._content()
        for key in content:
            if key not in (_DEFAULTS, _MODEL):
                raise self._error(
                    f"unknown section {key!r}", one_of(key, (_DEFAULTS, f'{_MODEL}."NAME"')),
                    "", key,
                )  # fmt: skip
        found = self._section(content.get(_DEFAULTS, {}), _DEFAULTS)
        if "name" in found:
            raise self._error(
                "'name' belongs to one model", f'move it to [{self._title(_MODEL)}."ball.h5"]',
                _DEFAULTS, "name",
            )  # fmt: skip
        models = content.get(_MODEL, {})
        if not isinstance(models, dict):
            raise self._error(
                f"{_MODEL!r} is not a section", f'such as [{self._title(_MODEL)}."ball.h5"]',
                "", _MODEL,
            )  # fmt: skip
        own = {name: self._section(value, f"{_MODEL}.{name}") for name, value in models.items()}
        for name in (model.name, self._path_of(model)):
            chosen = own.get(name, {})
            if {"target", "isa"} & set(chosen):
                found = {k: v for k, v in found.items() if k not in ("target", "isa")}
            found |= chosen
        return found

    def _path_of(self, model: Path) -> str:
        """The path of a model from the file's folder."""
        return Path(os.path.relpath(_plain(model), self.path.parent)).as_posix()

    def _content(self) -> dict[str, Any]:
        try:
            content = msgspec.toml.decode(self.text)
        except msgspec.DecodeError as error:
            line = re.search(r"line (\d+)", str(error))
            where = f"{self.path}:{line[1]}" if line else str(self.path)
            raise OptionError(f"not TOML: {error}", where=where, cure="mend the file") from None
        for key in filter(None, self.table.split(".")):
            content = content.get(key, {})
        if not isinstance(content, dict):
            raise self._error(f"{self.table} is not a table", "it holds sections", "", "cannery")
        return content

    def _section(self, section: object, title: str) -> dict[str, Any]:
        """The options of a section by field. Raises OptionError."""
        if not isinstance(section, dict):
            raise self._error(f"{title!r} is not a section", "it holds options", title, "")
        found: dict[str, Any] = {}
        for key, value in section.items():
            spec = self._spec(key, title)
            if spec.name in found:
                raise self._error(f"{key!r} is given twice", "leave out one", title, key)
            found[spec.name] = self._value(spec, value, title, key)
        return found

    def _spec(self, key: str, title: str) -> Spec:
        plain = key.lower().replace("_", "-")
        if plain in _KNOWN:
            return _KNOWN[plain]
        if plain in _REFUSED:
            raise self._error(
                f"{key!r} is not read from files, so that no file of a project can start programs",
                "give it on the command line", title, key,
            )  # fmt: skip
        raise self._error(f"unknown option {key!r}", one_of(plain, _KNOWN), title, key)

    def _value(self, spec: Spec, value: object, title: str, key: str) -> object:
        """A value that `make_options` takes; paths are from the file's folder."""
        if spec.kind is Kind.FLAG and not isinstance(value, bool):
            raise self._error(f"{key} = {value!r:.40}", "true or false", title, key)
        try:
            if spec.is_path and isinstance(value, str):
                value = str(self.path.parent / value)
                self._check_place(spec, Path(value))
            check_option(spec, value)
            if spec.name in ("isa", "target"):
                _check_processor(spec, value)
        except OptionError as error:
            raise self._error(f"{key}: {error.what}", error.cure, title, key) from None
        return value

    def _check_place(self, spec: Spec, path: Path) -> None:
        """Raise OptionError where a command would write outside of the project."""
        folder = self.path.parent
        if spec.name in WRITTEN and not path.resolve().is_relative_to(folder.resolve()):
            raise OptionError(
                f"commands write there, and {path} is not within {folder}",
                cure=f"name a place in the project, or give {spec.flag} on the command line",
            )  # fmt: skip

    def _title(self, section: str) -> str:
        return ".".join(filter(None, (self.table, section)))

    def _error(self, what: str, cure: str, title: str, key: str) -> OptionError:
        line = _line_of(self.text, self._title(title), key)
        return OptionError(what, where=f"{self.path}:{line}" if line else str(self.path), cure=cure)


def _check_processor(spec: Spec, value: object) -> None:
    """Raise OptionError for a target or an instruction set that nobody knows."""
    from cannery.target.targets import ANY, NATIVE, find_target, parse_isa

    if spec.name == "isa":
        for name in isas(texts_of(value)):
            parse_isa(name)
    elif value not in (NATIVE, ANY):
        find_target(str(value))


def _line_of(text: str, title: str, key: str) -> int:
    """The line where a key of a section, or the section of that name, stands; 0 if unknown."""
    section, near = "", 0
    whole = ".".join(filter(None, (title, key)))
    last = re.escape(key or title.rpartition(f"{_MODEL}.")[2])
    for number, line in enumerate(text.splitlines(), 1):
        header = re.match(r"\s*\[\s*([^\]]*?)\s*\]", line)
        if header:
            section = re.sub(r"[\"'\s]", "", header[1])
        if header and f"{section}.".startswith(f"{whole}."):
            return number
        if section == title and re.match(rf"\s*[\"']?{last}[\"']?\s*[=.]", line):
            return number
        if not near and re.search(rf"(^|[\s\"'{{,.]){last}[\"']?\s*=", line):
            near = number  # in a table that is written in one line
    return near
