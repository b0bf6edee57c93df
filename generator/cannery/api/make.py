"""Makes the library that `load` opens, where none was made before."""

from __future__ import annotations

import ctypes
import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from cannery import pipeline
from cannery.api.interface import Interface, interface_of
from cannery.api.kept import Entry, digests, keep_entry, kept_library
from cannery.api.library import make_library, needed_flags
from cannery.api.model import GivenModel, given_model
from cannery.api.stamps import program_stamp
from cannery.api.store import platform_name
from cannery.choose.lookup import record_places
from cannery.errors import CanneryWarning, ToolchainError
from cannery.options import Options
from cannery.plugins import plugin_files
from cannery.target.runner import why_not_here
from cannery.target.targets import NATIVE
from cannery.target.toolchain import Toolchain, find_toolchain


@dataclass(frozen=True)
class Made:
    """A library, and what was warned of on the way."""

    library: str
    interface: Interface
    warnings: list[warnings.WarningMessage]


def make(model: Any, options: Mapping[str, Any], key: str, *, several_threads: bool) -> Made:
    """The compiled network, kept under `key` for the next time unless that is empty.

    Raises CanneryError.
    """
    given = _given(model, options, several_threads=several_threads)
    toolchain = find_toolchain(given.options)
    _check_runs_here(toolchain)
    with given.as_file() as read, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        compiled = pipeline.compile_model(read)
        files = [*compiled.dependencies[1:], *_named_files(read), *plugin_files()]
        if given.data is None or read.tuning is not None:
            files += record_places(read)
        digested = digests(files)
    interface = interface_of(compiled.source, read.batch, platform_name(), needed_flags(toolchain))
    library = make_library(read, toolchain, compiled.files)
    folder = library.parent.name
    if key and str(library) == kept_library(folder, interface.name):
        command = toolchain.compiler.command[0]
        texts = tuple(str(w.message) for w in caught if issubclass(w.category, CanneryWarning))
        keep_entry(
            key, Entry(folder, interface, digested, {command: program_stamp(command)}, texts)
        )
    return Made(str(library), interface, caught)


def _given(model: Any, options: Mapping[str, Any], *, several_threads: bool) -> GivenModel:
    """The model for this machine. Raises OptionError."""
    given = given_model(model, {"target": NATIVE, **options}, "load")
    parsed = replace(given.options, weights=None, fast_ram=None)  # a library has one memory
    if several_threads and not parsed.openmp:
        parsed = replace(parsed, parallel=True)
    return replace(given, options=parsed)


def _named_files(options: Options) -> list[os.PathLike[str]]:
    """The files that options name; those that compiling reports come in addition."""
    named = (options.peepholes, options.calibration, options.macros, options.class_names)
    return [path for path in named if path is not None]


def _check_runs_here(toolchain: Toolchain) -> None:
    """Raise ToolchainError if this process cannot run the code."""
    bits, here = toolchain.target.isa.bits, 8 * ctypes.sizeof(ctypes.c_void_p)
    other = "" if bits == here else f"its code has {bits} bits, this Python {here}"
    reason = why_not_here(toolchain.target) or other
    if reason:
        raise ToolchainError(
            f"cannot be loaded: {reason}", where=f"target {toolchain.target.name}",
            cure="take another target, or use cannery run",
        )  # fmt: skip
