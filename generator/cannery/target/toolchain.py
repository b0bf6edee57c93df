"""From options to the tools that generate, build and run: Target, Compiler and Runner."""

from __future__ import annotations

import platform
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from cannery.devices import Place, find_places
from cannery.errors import OptionError, ToolchainError
from cannery.options import Options
from cannery.resources import toolchains_dir
from cannery.target.choice import check_isas
from cannery.target.compiler import (
    Compiler,
    find_clang,
    find_compiler,
    parse_macros,
    private_flags,
    probe_compiler,
)
from cannery.target.reach import device_runners
from cannery.target.runner import Runner, find_emulator, find_runner, is_qemu
from cannery.target.targets import (
    ANY,
    NATIVE,
    Target,
    find_target,
    isa_from_macros,
    parse_isa,
    plain_target,
)
from cannery.user_files import read_file


def native_flags() -> tuple[str, ...]:
    """The flag that makes compilers use everything that this machine has."""
    x86 = platform.machine() in ("x86_64", "i686", "i386", "AMD64")
    return ("-march=native",) if x86 else ("-mcpu=native",)


def _compiler(options: Options, triple: str, clang: int = 0) -> Compiler:
    if options.cc:
        return probe_compiler(tuple(shlex.split(options.cc)))
    return find_clang(triple, clang) if clang else find_compiler(triple)


def check_processor(options: Options) -> None:
    """Raise OptionError for unknown names of a target and of instruction sets."""
    for name in options.isa:
        parse_isa(name)
    if options.target not in (NATIVE, ANY):
        find_target(options.target)


def resolve_target(options: Options) -> Target:
    """The target to generate for. Only `native` without an ISA and a listing must ask a compiler.

    With `options.macros` the ISA is what the listing proves (targets `native` and `any`), or it is
    checked against the listing; `any` without it takes the macros of `options.cc`. Raises
    OptionError for unknown names, ToolchainError if the compiler is missing, fails, or does not
    provide what the target needs.
    """
    if len(options.isa) > 1:
        raise OptionError(
            "only one instruction set at a time can be run or tuned",
            where="--isa",
            cure="give one of them",
        )
    listing = _listing(options)
    if options.isa and options.target in (NATIVE, ANY):
        target = plain_target(parse_isa(options.isa[0]))
    elif options.target == ANY:
        return plain_target(isa_from_macros(listing))
    elif options.target == NATIVE:
        macros = listing or _compiler(options, "").macros([*native_flags(), *options.cflags])
        isa = isa_from_macros(macros)
        return Target(NATIVE, "this machine", isa, "", native_flags(), ldflags=())
    else:
        target = find_target(options.target)
        if options.isa:
            target = replace(target, isa=parse_isa(options.isa[0]))
    if not listing:
        return target
    _check(target, listing, where=str(options.macros))
    return replace(target, isa=target.isa.with_bits(isa_from_macros(listing).bits))


def resolve_targets(options: Options) -> tuple[Target, ...]:
    """The targets of several instruction sets, the richest first, with the listing's pointer width.

    Raises OptionError for unknown names and for sets between which a program cannot choose at run
    time.
    """
    isas = [parse_isa(name) for name in options.isa]
    if options.macros is not None:
        bits = isa_from_macros(_listing(options)).bits
        isas = [isa.with_bits(bits) for isa in isas]
    return tuple(map(plain_target, check_isas(isas)))


def _listing(options: Options) -> dict[str, str]:
    if options.macros is None:
        if options.target != ANY or options.isa:
            return {}
        if not options.cc:
            cure = "give it with its flags: --cc 'arm-none-eabi-gcc -mcpu=cortex-m4'"
            raise OptionError("any means what a compiler allows", where="--target", cure=cure)
        return _compiler(options, "").macros(options.cflags)
    try:
        text = read_file(options.macros, where=f"--macros {options.macros}").decode(
            errors="replace"
        )
    except OSError as error:
        raise OptionError(f"{options.macros}: {error.strerror}", where="--macros") from None
    return parse_macros(text, where=str(options.macros))


def _check(target: Target, macros: Mapping[str, str], *, where: str) -> None:
    missing = [macro for macro in target.isa.macros if macro not in macros]
    if missing:
        abi = "-mfloat-abi=hard or softfp, " if target.isa.name == "neon32" else ""
        raise ToolchainError(
            f"{target.isa.name} needs {' '.join(missing)}, which the compiler does not define",
            where=f"target {target.name}, {where}",
            cure=f"use {abi}the target's toolchain file or flags, or another target or ISA",
        )


@dataclass(frozen=True)
class Toolchain:
    """The tools that build and run programs for `target`; `cflags` include Cannery's private ones.

    `warnings`: flags for generated code, which show no warnings, as users did not write it.
    `stand_in` lets the runners reach a processor other than the target's.
    """

    target: Target
    compiler: Compiler
    cflags: tuple[str, ...]
    ldflags: tuple[str, ...]
    runner_commands: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ("-w",)
    stand_in: bool = False
    devices: tuple[Place, ...] = ()

    @property
    def given(self) -> bool:
        """Whether the runners are those that a user named."""
        return bool(self.runner_commands or self.devices)

    def runners(self) -> tuple[Runner, ...]:
        """The devices given, else the one way this machine has. Raises ToolchainError if none.

        Devices are connected to.
        """
        if self.devices:
            return device_runners(self.target, self.devices)
        if not self.runner_commands:
            return (find_runner(self.target),)
        return tuple(find_runner(self.target, command) for command in self.runner_commands)

    def runner(self) -> Runner:
        """The first of these; no other device is connected to."""
        alone = replace(self, runner_commands=self.runner_commands[:1], devices=self.devices[:1])
        return alone.runners()[0]

    def emulator(self) -> Runner:
        """The emulator of the target, even if this machine can run its programs itself.

        For a target that is not a particular processor, that of its instruction set; this machine
        if no emulator has that. A runner that is QEMU comes first. Raises ToolchainError if there
        is no way.
        """
        target = self.target if self.target.emulator else plain_target(self.target.isa)
        for command in self.runner_commands[:1]:
            runner = find_runner(target, command)
            if is_qemu(runner.command[0]):
                return runner
        return find_emulator(target) if target.emulator else find_runner(target)

    def build(self, sources: Sequence[Path], output: Path, includes: Sequence[Path] = ()) -> None:
        """Compile and link an executable; objects go next to the sources."""
        objects = []
        for source in sources:
            objects.append(source.with_suffix(".o"))
            self.compiler.compile(source, objects[-1], self.cflags, includes)
        self.compiler.link(objects, output, [*self.cflags, *self.ldflags, "-lm"])


def find_toolchain(options: Options) -> Toolchain:
    """The toolchain for `options`. Raises ToolchainError if the compiler is missing or unfit."""
    target = resolve_target(options)
    compiler = _compiler(options, target.triple, target.clang)
    cflags = (*target.flags, *options.cflags, *private_flags(compiler.kind, target.isa))
    _check(target, compiler.macros(cflags), where=compiler.version)
    return Toolchain(
        target, compiler, cflags, _ldflags(target, options), options.runner,
        stand_in=options.stand_in, devices=find_places(options.device, options.model),
    )  # fmt: skip


def _ldflags(target: Target, options: Options) -> tuple[str, ...]:
    if options.ldflags:
        return options.ldflags
    board = (toolchains_dir() / name for name in target.board)
    return (*target.ldflags, *(f"-T{p}" if p.suffix == ".ld" else str(p) for p in board))


def toolchain_for(name: str) -> Toolchain:
    """The toolchain of a target by name, with every default: for tests."""
    return find_toolchain(Options(model=Path(), name="net", target=name))
