"""What a tuning record was made with, and how that differs from here: for information only."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from cannery.choose.lookup import find_record, record_targets
from cannery.choose.record import Record
from cannery.errors import CanneryError
from cannery.options import Options
from cannery.target.compiler import PRIVATE_FLAGS, parse_macros, private_flags, version_text
from cannery.target.runner import host_cpu_name, why_not_here
from cannery.target.targets import NATIVE, Target, plain_target
from cannery.target.toolchain import find_toolchain
from cannery.user_files import read_file

#: Flags that do not change loops.
_IRRELEVANT = re.compile(
    r"-f(no-)?(PIC|pic|PIE|pie|diagnostics|color|visibility|plt|asynchronous|macro-prefix|file-pre"
    r"fix|debug|exceptions|rtti|message|use-linker|ident)"
)


def code_flags(words: Sequence[str]) -> str:
    """The compiler flags that change code, without repeats and paths."""
    wanted = [w for w in words if w.startswith(("-m", "-O", "-f")) and "/" not in w]
    return " ".join(dict.fromkeys(wanted))


def served_records(options: Options) -> list[tuple[Target, Path, Record]]:
    """The records that `options` find for their targets, and where."""
    found = [(target, *find_record(options, target)) for target in record_targets(options)]
    return [
        (target, path, record)
        for target, path, record in found
        if record is not None and (record.isa, record.bits) == (target.isa.name, target.isa.bits)
    ]


def provenance_notes(options: Options) -> list[str]:
    """What `provenance_note` says about the records that `options` find, one for each target."""
    notes = [provenance_note(options, *found) for found in served_records(options)]
    return [text for text in notes if text]


def provenance_note(options: Options, target: Target, path: Path, record: Record) -> str:
    """How the machine, compiler and flags differ from those of a record; empty if they do not.

    It compares only what is known here and matters: the machine if that is the tuning target, the
    compiler's major version, the flags that change loops.
    """
    was, now = dict(record.provenance), _here(options, target)
    if was.get("cpu") == target.cpu:  # nothing was measured: the target's own words
        del was["cpu"]
    differing = [
        f"{key} {was[key] or 'none'} (here: {now[key] or 'none'})"
        for key in ("cpu", "compiler", "flags")
        if key in was and key in now and _essence(key, was[key]) != _essence(key, now[key])
    ]
    if not differing:
        return ""
    return f"{path} was made with another {', '.join(differing)}; its choices are kept"


def _here(options: Options, target: Target) -> dict[str, str]:
    """What is known, under the names of a record's provenance."""
    found: dict[str, str] = {}
    if target.name in (NATIVE, plain_target(target.isa).name) and not why_not_here(target):
        found["cpu"] = host_cpu_name()
    try:
        if options.macros is not None:
            found.update(_of_build(options, target, options.macros))
        elif options.cc or options.target == NATIVE:
            toolchain = find_toolchain(options)
            found["compiler"] = toolchain.compiler.version
            found["flags"] = code_flags((*toolchain.compiler.command[1:], *toolchain.cflags))
    except (CanneryError, OSError):
        # Generating does not need a working compiler.
        return found
    return found


def _of_build(options: Options, target: Target, listing: Path) -> Mapping[str, str]:
    """The compiler whose macros are listed, and its flags if the command is known too."""
    macros = parse_macros(read_file(listing).decode(errors="replace"), where=str(listing))
    found = {"compiler": version_text(macros)}
    if options.cc:
        kind = "clang" if "__clang__" in macros else "gcc"
        own = (*target.flags, *options.cflags, *private_flags(kind, target.isa))
        found["flags"] = code_flags((*shlex.split(options.cc)[1:], *own))
    return found


def _essence(key: str, text: str) -> object:
    """The part of a text that must be equal."""
    if key == "compiler":
        number = re.search(r"\d+", text)
        return "clang" in text.lower(), number and number[0]
    if key == "flags":
        return _last_flags(text.split())
    return " ".join(text.split())


def _last_flags(words: Sequence[str]) -> dict[str, str]:
    """The flags that count, by what they set; Cannery's own always come last."""
    private = {_setting(flag) for flags in PRIVATE_FLAGS.values() for flag in flags}
    flags = {_setting(w): w for w in words if not _IRRELEVANT.match(w)}
    return {key: flag for key, flag in flags.items() if key not in private}


def _setting(flag: str) -> str:
    """What a flag sets: `-march` of `-march=native`, `-funroll-loops` also for its negation."""
    name = re.sub(r"^-([fm])no-", r"-\1", flag.partition("=")[0])
    return "-O" if name.startswith("-O") else name
