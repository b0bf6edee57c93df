"""Files that build a library without CMake, beside its sources: a Makefile, or a meson.build."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cannery import __version__
from cannery.contents import Content
from cannery.ctext.environment import render
from cannery.emit.files import OPENMP_FLAG, OPENMP_SOURCE, SOURCES
from cannery.target.compiler import PRIVATE_FLAGS, private_flags
from cannery.target.targets import NATIVE, TARGETS, parse_isa

#: What can be written, and the file's name.
BUILD_FILES = {"make": "Makefile", "meson": "meson.build"}

#: Headers that sources alone include.
_PRIVATE_HEADERS = ("cannery/vec_", "cannery/scalar_math.h", "cannery/trace_clock.h")

_WEIGHTS = "_weights.c"
_COMPILERS = ("gcc", "clang")


@dataclass(frozen=True)
class Unit:
    """C files that are compiled with the same flags, by the kind of the compiler."""

    name: str
    sources: tuple[str, ...]
    flags: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class Weights:
    """A file of large weights, and the macro that says where it is."""

    source: str
    macro: str
    file: str


def build_file(
    kind: str, name: str, files: Mapping[str, Content], cc: str = ""
) -> tuple[str, bytes]:
    """Name and content of the file that builds the generated `files` of a network.

    `cc` is the compiler for a Makefile that is used without naming one, if the user gave it.
    """
    manifest = json.loads(files[f"{name}.json"][:])
    parts = [manifest] if "sources" in manifest else [*manifest.values()]
    units = [Unit(f"{name}_{k}", tuple(p["sources"]), _flags(p)) for k, p in enumerate(parts)]
    if len(parts) > 1:
        plain = dict.fromkeys(_COMPILERS, PRIVATE_FLAGS["all"])
        units.append(Unit(f"{name}_choice", tuple(f"{name}{suffix}" for suffix in SOURCES), plain))
    openmp = f"{name}{OPENMP_SOURCE}"
    if openmp in files:
        flags = {compiler: (*f, OPENMP_FLAG) for compiler, f in units[-1].flags.items()}
        units.append(Unit(f"{name}_openmp", (openmp,), flags))
    path = BUILD_FILES[kind]
    weights = large_weights([source for unit in units for source in unit.sources], files)
    text = render(
        f"emit/{path}.j2", name=name, version=__version__, units=units,
        cc=cc.replace("$", "$$") or _compiler(parts),
        weights=weights, apart={weight.source for weight in weights},
        headers=_headers(name, files),
        openmp=OPENMP_FLAG if openmp in files else "", compilers=_COMPILERS,
        hash=parts[0]["model_hash"],
    )  # fmt: skip
    return path, text.encode()


def _flags(part: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """What one instruction set is compiled with: the processor's flags, or those of the set."""
    target, isa = TARGETS.get(part["target"]), parse_isa(part["isa"])
    own = target.flags if target and target.name != NATIVE else isa.flags
    return {kind: (*own, *private_flags(kind, isa)) for kind in _COMPILERS}


def _compiler(parts: Sequence[Mapping[str, Any]]) -> str:
    """The compiler to take if none is named; empty: the host's."""
    target = TARGETS.get(parts[0]["target"])
    triple = target.triple if target else ""
    return f"{triple}-gcc" if triple and not triple.startswith("x86_64-") else ""


def large_weights(sources: Sequence[str], files: Mapping[str, Content]) -> list[Weights]:
    """The files of large weights that some sources read."""
    found = []
    for source in sources:
        binary = f"{source.removesuffix('.c')}.bin"
        if source.endswith(_WEIGHTS) and binary in files:
            macro = f"{source.removesuffix('.c').upper()}_FILE"
            found.append(Weights(source, macro, binary))
    return found


def _headers(name: str, files: Mapping[str, Content]) -> dict[str, list[str]]:
    """What programs include, by folder."""
    shared = [path for path in files if path.startswith("cannery/")]
    more = [f"{name}_compiled_nn.h", f"{name}_loader.h"]
    return {
        "": [f"{name}.h", f"{name}.hpp", *(path for path in more if path in files)],
        "cannery": sorted(path for path in shared if not path.startswith(_PRIVATE_HEADERS)),
    }
