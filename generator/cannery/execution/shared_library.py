"""Shared libraries of generated code."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from cannery.atomic import temporary_folder
from cannery.contents import Content
from cannery.emit.dispatch import part_name
from cannery.emit.files import OPENMP_FLAG, OPENMP_SOURCE
from cannery.errors import ToolchainError
from cannery.options import Options
from cannery.target.targets import parse_isa
from cannery.target.toolchain import Toolchain, find_toolchain, resolve_targets

_WEIGHTS = "_weights.c"


@dataclass(frozen=True)
class LibraryKind:
    """A system's names for shared libraries, and the linker's options for one, given its name."""

    suffix: str
    prefix: str
    flags: tuple[str, ...]

    def name(self, network: str) -> str:
        """The file's name."""
        return f"{self.prefix}{network}{self.suffix}"

    def link_flags(self, network: str) -> list[str]:
        """The options for a library that is found by its name."""
        return [flag.format(self.name(network)) for flag in self.flags]


_ELF = LibraryKind(".so", "lib", ("-shared", "-Wl,-soname,{}"))
_MACH_O = LibraryKind(".dylib", "lib", ("-dynamiclib", "-Wl,-install_name,@rpath/{}"))
_COFF = LibraryKind(".dll", "", ("-shared",))


def library_kind(toolchain: Toolchain) -> LibraryKind:
    """The naming of a compiler's target system."""
    macros = toolchain.compiler.macros(toolchain.cflags)
    if "_WIN32" in macros or "__CYGWIN__" in macros:
        return _COFF
    return _MACH_O if "__APPLE__" in macros else _ELF


def exported_library(options: Options, files: Mapping[str, Content]) -> tuple[str, bytes]:
    """Name and content of the library made from files generated with `shared`.

    Raises ToolchainError if it cannot be built.
    """
    isas = [parse_isa(name) for name in options.isa] if len(options.isa) > 1 else []
    parts = {
        part_name(options.name, isa): find_toolchain(replace(options, isa=(given,)))
        for given, isa in zip(options.isa, isas, strict=False)
    }
    plain = _plainest(parts, options) if parts else find_toolchain(options)
    if plain.target.board:
        raise ToolchainError(
            f"target {plain.target.name} has no shared libraries", where="--shared",
            cure="leave it out",
        )  # fmt: skip
    kind = library_kind(plain)
    hidden = ["-fvisibility=hidden", f"-D{options.name.upper()}_EXPORTS"]
    content = build_library(
        options.name, files, {name: _toolchain_of(name, parts, plain) for name in _units(files)},
        flags=hidden, link_flags=[*kind.link_flags(options.name), *options.ldflags],
    )  # fmt: skip
    return kind.name(options.name), content


def _plainest(parts: Mapping[str, Toolchain], options: Options) -> Toolchain:
    """The toolchain for the code that chooses between instruction sets."""
    last = resolve_targets(options)[-1]
    return parts[part_name(options.name, last.isa)]


def _toolchain_of(unit: str, parts: Mapping[str, Toolchain], plain: Toolchain) -> Toolchain:
    """The toolchain of the part with the longest name that a file's name begins with."""
    found = [part for part in parts if unit.startswith((f"{part}.", f"{part}_"))]
    return parts[max(found, key=len)] if found else plain


def _units(files: Mapping[str, Content]) -> list[str]:
    return sorted(name for name in files if name.endswith(".c"))


def build_library(
    name: str, files: Mapping[str, Content], units: Mapping[str, Toolchain], *,
    flags: Collection[str] = (), link_flags: Collection[str] = (),
) -> bytes:  # fmt: skip
    """The content of a library of the C files `units`, each compiled by its toolchain.

    Raises ToolchainError with the compiler's message.
    """
    with temporary_folder() as folder:
        for path, data in files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(data)
        objects = []
        for unit, toolchain in units.items():
            objects.append((folder / unit).with_suffix(".o"))
            own = [
                *toolchain.cflags,
                "-fPIC",
                *toolchain.warnings,
                *flags,
                *_own_flags(folder, unit),
            ]
            toolchain.compiler.compile(folder / unit, objects[-1], own, [folder])
        linking = next(iter(units.values()))
        openmp = [OPENMP_FLAG] if f"{name}{OPENMP_SOURCE}" in units else []
        built = folder / f"{name}.so"
        linking.compiler.link(objects, built, [*linking.cflags, *link_flags, *openmp, "-lm"])
        return built.read_bytes()


def _own_flags(folder: Path, unit: str) -> list[str]:
    """For the file of large weights, their place; for OpenMP's pool, OpenMP's flag."""
    if unit.endswith(OPENMP_SOURCE):
        return [OPENMP_FLAG]
    if unit.endswith(_WEIGHTS):
        stem = unit.removesuffix(_WEIGHTS)
        return [f'-D{stem.upper()}_WEIGHTS_FILE="{folder / stem}_weights.bin"']
    return []
