"""What `--device` names: an address, such as ssh:nao@10.0.0.5, or a row of a file devices.toml.

A file beside a model may come from anybody: only the user's own may name what is run here.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from cannery.errors import OptionError, one_of
from cannery.user_files import read_file
from cannery.user_folders import user_config

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

#: The file that names devices, and its largest size in bytes.
DEVICES_FILE = "devices.toml"
_MAX_BYTES = 2**20

#: A serial number, or the address of a device on the network.
_ADB = re.compile(r"adb:(?P<serial>[A-Za-z0-9][A-Za-z0-9._:-]*)")

#: user@host:port; a host that began with a dash would be an option of ssh.
_SSH = re.compile(
    r"ssh:(?P<login>(?:[\w.][\w.+-]*@)?(?:[\w.][\w.-]*|\[[0-9A-Fa-f:.]+(?:%\w+)?\]))"
    r"(?::(?P<port>\d{1,5}))?"
)

Name = Annotated[str, Meta(min_length=1, max_length=200, pattern=r"^[^\0\n]*\Z")]
Core = Annotated[int, Meta(ge=0, lt=2**16)]


class Row(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One table of devices.toml: one of `address`, `command` and `devices`, and what belongs to it.

    `cores` are those that programs run on, as many at once (none: the program chooses one).
    `environment` is set for programs, `folder` is where there is room for them on the device, `ssh`
    are further options of that command.
    """

    address: Name = ""
    command: Name = ""
    devices: tuple[Name, ...] = ()
    target: Name = ""
    cores: tuple[Core, ...] = ()
    environment: Mapping[Annotated[str, Meta(pattern=r"^[A-Za-z_]\w*\Z")], Name] = {}
    folder: Name = ""
    ssh: tuple[Name, ...] = ()


#: A value of each key, for messages.
_EXAMPLES = {
    "address": '"ssh:nao@10.0.0.5"', "command": '"./on-robot"', "devices": '["nao1", "nao2"]',
    "target": '"silvermont"', "cores": "[2, 3]", "environment": '{ OMP_NUM_THREADS = "1" }',
    "folder": '"/data"', "ssh": '["-i", "key"]',
}  # fmt: skip


@dataclass(frozen=True)
class Place:
    """A device by its `name` for people, and how it is reached: its row, and what its address says.

    `login` is ssh's user and host, or adb's serial number (`is_android`); it is empty for a device
    that a `command` of its row reaches.
    """

    name: str
    row: Row
    login: str = ""
    port: int = 0
    is_android: bool = False


def find_places(names: Sequence[str], model: Path) -> tuple[Place, ...]:
    """The devices that `--device` means, those of a group one by one. Raises OptionError.

    Names are looked up in the devices.toml beside the model or in the nearest folder above it, then
    of the working directory, then in the user's configuration folder.
    """
    found = [place for name in names for place in _places(name, model)]
    for number, place in enumerate(found):
        if place in found[:number]:
            raise _error("is given twice", place.name, "leave one out")
    return tuple(found)


def devices_target(names: Sequence[str], model: Path) -> str:
    """The target that the rows of devices agree on; empty if they name none. Raises OptionError."""
    targets = {place.row.target: place.name for place in find_places(names, model)}
    if len(targets) > 1:
        told = ", ".join(
            f"{name} is {target or 'of no target'}" for target, name in targets.items()
        )
        cure = "devices that share a tuning must be of one kind; for others, run one command each"
        raise OptionError(told, where="--device", cure=cure)
    return next(iter(targets), "")


def _places(name: str, model: Path) -> Iterator[Place]:
    if ":" in name:
        yield _by_address(name, name, Row(address=name))
        return
    path, row = _find_row(name, model)
    ways = [key for key in ("address", "command", "devices") if getattr(row, key)]
    if len(ways) != 1:
        what = f"{name} has {' and '.join(ways) or 'no address'}"
        raise OptionError(what, where=str(path), cure="give an address, a command or devices")
    for member in row.devices:
        _, inner = _find_row(member, model) if ":" not in member else (path, Row(address=member))
        if inner.devices:
            raise OptionError(f"{name} has a group in it: {member}", where=str(path))
        yield from _places(member, model)
    if not row.devices:
        yield _by_address(name, row.address, row) if row.address else Place(name, row)


def _by_address(name: str, address: str, row: Row) -> Place:
    if android := _ADB.fullmatch(address):
        return Place(name, row, android["serial"], is_android=True)
    found = _SSH.fullmatch(address)
    port = int(found["port"] or 0) if found else 0
    if found is None or port >= 2**16 or (found["port"] and not port):
        raise OptionError(
            f"{address!r} is not an address",
            where="--device" if name == address else f"--device {name}",
            cure="such as ssh:nao@10.0.0.5, or ssh:nao@nao1:2222",
        )
    return Place(name, row, found["login"].translate({ord("["): None, ord("]"): None}), port)


def _find_row(name: str, model: Path) -> tuple[Path, Row]:
    """The row of a name, and the file that has it."""
    known: set[str] = set()
    for path, own in _files(model):
        rows = _read(path)
        if name in rows:
            _check_harmless(rows[name], path, own)
            return path, rows[name]
        known.update(rows)
    cure = f"{one_of(name, known, 'devices')}; or an address, ssh:nao@10.0.0.5"
    if not known:
        cure = f"give an address, such as ssh:nao@10.0.0.5, or name it in a file {DEVICES_FILE}"
    raise _error("is not known", name, cure)


def _check_harmless(row: Row, path: Path, own: Path | None) -> None:
    """Raise OptionError where a file that is not the user's `own` says what is run here."""
    for key in ("command", "ssh"):
        if getattr(row, key) and path != own:
            where = own or "the user's configuration folder"
            raise OptionError(
                f"{key} is refused, because its text would run on this machine", where=str(path),
                cure=f"put it into {where}; options of ssh also in ~/.ssh/config",
            )  # fmt: skip


def _files(model: Path) -> Iterator[tuple[Path, Path | None]]:
    """The files that count, the most particular first, each with the user's own."""
    folder = user_config()
    own = Path(folder, DEVICES_FILE) if folder else None
    seen = set()
    for start in (model.absolute().parent, Path.cwd()):
        nearest = (folder / DEVICES_FILE for folder in (start, *start.parents))
        found = next(filter(Path.is_file, nearest), None)
        if found and found not in seen:
            seen.add(found)
            yield found, own
    if own is not None and own.is_file():
        yield own, own


def _read(path: Path) -> dict[str, Row]:
    try:
        text = read_file(path, _MAX_BYTES).decode()
        content = tomllib.loads(text)
        return {name: _row(name, table, path, text) for name, table in content.items()}
    except OSError as error:
        raise OptionError(f"{error.strerror}", where=str(path)) from None
    except UnicodeDecodeError:
        raise OptionError("not UTF-8", where=str(path)) from None
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        cure = 'a table for each device: [nao], address = "ssh:nao@10.0.0.5"'
        raise OptionError(str(error), where=str(path), cure=cure) from None


def _row(name: str, table: object, path: Path, text: str) -> Row:
    """One table, checked. Raises OptionError, with the line of the key that is wrong."""
    if not isinstance(table, dict):
        cure = f"a table for each device: [{name}], address = {_EXAMPLES['address']}"
        raise OptionError(f"{name!r} is not a table", where=str(path), cure=cure)
    for key in table:
        if key not in _EXAMPLES:
            cure = one_of(key, _EXAMPLES, "keys")
            where = _where(text, name, key, path)
            raise OptionError(f"{name}: unknown key {key!r}", where=where, cure=cure)
    try:
        return msgspec.convert(table, Row)
    except msgspec.ValidationError as error:
        what, _, at = str(error).partition(" - at ")
        key = next(key for key in _EXAMPLES if at.startswith((f"`$.{key}", f"`key` in `$.{key}")))
        where, cure = _where(text, name, key, path), f"{key} = {_EXAMPLES[key]}"
        raise OptionError(f"{name}: {key}: {what}", where=where, cure=cure) from None


def _where(text: str, table: str, key: str, path: Path) -> str:
    line = _line_of(text, table, key)
    return f"{path}:{line}" if line else str(path)


def _line_of(text: str, table: str, key: str) -> int:
    """The line where a key of a table stands; 0 if unknown."""
    section, name, near = "", re.escape(table), 0
    for number, line in enumerate(text.splitlines(), 1):
        if header := re.match(r"\s*\[\s*[\"']?(.*?)[\"']?\s*\]", line):
            section = header[1]
        if section == table and re.match(rf"\s*[\"']?{re.escape(key)}[\"']?\s*[.=]", line):
            return number
        if not near and re.match(rf"\s*[\"']?{name}[\"']?\s*[.=].*\b{re.escape(key)}\b", line):
            near = number  # nao.core = 1, or nao = { core = 1 }
    return near


def _error(what: str, name: str, cure: str) -> OptionError:
    return OptionError(f"{name!r} {what}", where="--device", cure=cure)
