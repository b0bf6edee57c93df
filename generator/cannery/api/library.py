"""Shared libraries of generated code."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from cannery.api.store import store
from cannery.contents import Content, pieces
from cannery.emit.files import OPENMP_SOURCE
from cannery.execution.shared_library import build_library
from cannery.options import Options
from cannery.target.runner import host_cpu_flags
from cannery.target.targets import NATIVE
from cannery.target.toolchain import Toolchain

#: The pool of threads, for networks that may use several cores.
_THREADS = Path(__file__).with_name("threads.c")


def needed_flags(toolchain: Toolchain) -> tuple[str, ...]:
    """What /proc/cpuinfo must list where the code runs: for `native`, everything that it lists
    here.
    """
    if toolchain.target.name == NATIVE:
        return tuple(sorted(host_cpu_flags()))
    return toolchain.target.cpu_flags


def make_library(options: Options, toolchain: Toolchain, files: Mapping[str, Content]) -> Path:
    """The shared library of generated files, built unless it exists for these files and this
    compiler.
    """
    if options.parallel or options.openmp:
        files = {**files, _THREADS.name: _THREADS.read_bytes()}
    digest = hashlib.sha256(toolchain.compiler.version.encode())
    for text in (*toolchain.compiler.command, *toolchain.cflags):
        digest.update(text.encode() + b"\0")
    for name in sorted(files):
        digest.update(name.encode() + b"\0")
        for piece in pieces(files[name]):
            digest.update(piece)
    build = partial(_build, options, toolchain, files)
    return store(digest.hexdigest()[:24], options.name, build)


def _build(options: Options, toolchain: Toolchain, files: Mapping[str, Content]) -> bytes:
    """The library's content."""
    unused = {f"{options.name}{suffix}" for suffix in ("_static.c", OPENMP_SOURCE)}
    units = sorted(name for name in files if name.endswith(".c") and name not in unused)
    threads = ["-pthread"] if _THREADS.name in files else []
    return build_library(
        options.name, files, dict.fromkeys(units, toolchain), link_flags=["-shared", *threads]
    )
