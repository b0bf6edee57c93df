"""Networks as Python callables: the code that `compile` makes, in a shared library.

net = cannery.load("ball.h5")
scores = net(image)
"""

from __future__ import annotations

import os
import warnings
from dataclasses import replace
from typing import TYPE_CHECKING

from cannery.api.kept import (
    Entry,
    digests,
    find_entry,
    keep_entry,
    key_of,
    program_stamp,
    read_files,
)
from cannery.api.model import GivenModel, given_model
from cannery.api.net import Net
from cannery.api.store import kept_library, platform_name
from cannery.api.threads import MAX_THREADS
from cannery.errors import CanneryWarning, OptionError, ToolchainError
from cannery.target.targets import NATIVE

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from cannery.api.options import ModelOptions
    from cannery.target.toolchain import Toolchain


def load(
    model: str | os.PathLike[str] | bytes, *, threads: int = 1, **options: Unpack[ModelOptions]
) -> Net:
    """The network in a model file, compiled for this machine and ready to be called.

    `model` is a path, or the content of a model file. Options are those of the command line, by
    name: `batch=2`, `quantize="int8"`, `input_dtype={"image": "uint8"}`. Where several are allowed,
    one text is a list of one: `input_view="image"`. By default, `target` and `isa` mean everything
    that this machine has. A tuning record next to the model is used. With `threads`, each call may
    use that many: they divide up the samples, and large layers of a single one.

    A network that was loaded before is found again within milliseconds, unless the model, its
    record, the options, the compiler or Cannery have changed. Raises CanneryError.
    """
    if type(threads) is not int or not 1 <= threads <= MAX_THREADS:
        raise OptionError(
            f"{threads!r:.20} is not a number from 1 to {MAX_THREADS}", where="threads"
        )
    given = given_model(model, {"target": NATIVE, **options}, "load")
    given = replace(given, options=replace(given.options, weights=None))  # they are in the library
    if threads > 1 and not given.options.openmp:
        given = replace(given, options=replace(given.options, parallel=True))
    key = key_of(given)  # empty if there is no model: reading it says why
    entry = find_entry(key) if key else None
    if entry is not None:
        for text in entry.warnings:
            warnings.warn(text, CanneryWarning, stacklevel=2)
        return Net(entry.library, entry.interface, threads)
    return _made(given, key, threads)


def _made(given: GivenModel, key: str, threads: int) -> Net:
    """The compiled network, which is kept for the next time."""
    from cannery.api.interface import interface_of
    from cannery.api.library import make_library, needed_flags
    from cannery.choose.lookup import record_places
    from cannery.pipeline import compile_model
    from cannery.target.toolchain import find_toolchain

    toolchain = find_toolchain(given.options)
    _check_runs_here(toolchain)
    with given.as_file() as options, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        compiled = compile_model(options)
        read = [*compiled.dependencies[1:], *read_files(options)]
        recorded = given.data is None or options.tuning is not None
        files = digests([*read, *(record_places(options) if recorded else [])])
    interface = interface_of(
        compiled.source, options.batch, platform_name(), needed_flags(toolchain)
    )
    library = make_library(options, toolchain, compiled.files)
    texts = [str(w.message) for w in caught if issubclass(w.category, CanneryWarning)]
    folder = library.parent.name
    if key and library == kept_library(folder, interface.name):
        command = toolchain.compiler.command[0]
        programs = {command: program_stamp(command)}
        keep_entry(key, Entry(folder, interface, files, programs, tuple(texts)))
    for warning in caught:
        warnings.warn(str(warning.message), warning.category, stacklevel=3)
    return Net(library, interface, threads)


def _check_runs_here(toolchain: Toolchain) -> None:
    """Raise ToolchainError if this process cannot run the code."""
    import ctypes

    from cannery.target.runner import why_not_here

    bits, here = toolchain.target.isa.bits, 8 * ctypes.sizeof(ctypes.c_void_p)
    other = "" if bits == here else f"its code has {bits} bits, this Python {here}"
    reason = why_not_here(toolchain.target) or other
    if reason:
        raise ToolchainError(
            f"cannot be loaded: {reason}", where=f"target {toolchain.target.name}",
            cure="take another target, or use cannery run",
        )  # fmt: skip
