"""Targets, compilers and runners: tables agree, and failures give clear errors."""

from __future__ import annotations

import platform
import sys
from pathlib import Path

import pytest

from cannery.errors import OptionError, ToolchainError
from cannery.options import Options, make_options
from cannery.target import compiler as compiler_module
from cannery.target import runner as runner_module
from cannery.target.choice import check_isas
from cannery.target.compiler import (
    PRIVATE_FLAGS,
    Compiler,
    first_error,
    private_flags,
    probe_compiler,
)
from cannery.target.isa import ISAS
from cannery.target.runner import Origin, Runner, find_runner, parse_json_lines, why_not_here
from cannery.target.targets import TARGETS, find_target, isa_from_macros, parse_isa
from cannery.target.toolchain import find_toolchain, resolve_target, toolchain_for
from needs import need_runner, need_toolchain

PROGRAM = """
#include <stdio.h>
int main(void)
{
    volatile float x = 1.5f;
    printf("{\\"x\\": %d}\\n", (int)(x * 2.0f));
    return 0;
}
"""

X86_64 = {"__x86_64__": "1", "__SSE2__": "1", "__SIZEOF_POINTER__": "8"}


@pytest.mark.parametrize("name", ["native", *TARGETS])
def test_programs_build_run_and_prove_their_isa(name: str, tmp_path: Path) -> None:
    toolchain = need_toolchain(name)
    isa = isa_from_macros(toolchain.compiler.macros(toolchain.cflags))
    if name != "generic":
        assert (isa.name, isa.bits) == (toolchain.target.isa.name, toolchain.target.isa.bits)
    source = tmp_path / "program.c"
    source.write_text(PROGRAM)
    toolchain.build([source], tmp_path / "program")
    for strict in (False, True):
        runner = need_runner(toolchain, strict=strict)
        assert runner.run(tmp_path / "program") == [{"x": 3}]


#: What says that a processor is of a family; `any` may be any.
MACHINES = {"any": "__x86_64__", "x86": "__x86_64__", "riscv": "__riscv"}


@pytest.mark.parametrize(
    ("machine", "joins"),
    [("__x86_64__", True), ("__aarch64__", True), ("__riscv", False), ("__mips__", False)],
)
def test_scalars_are_joined_where_every_processor_has_vectors(machine: str, joins: bool) -> None:
    assert isa_from_macros({machine: "1", "__SIZEOF_POINTER__": "8"}).joins_scalars == joins
    assert not isa_from_macros({machine: "1", "__SIZEOF_POINTER__": "4"}).joins_scalars


def test_macros_name_the_machine() -> None:
    macros = dict.fromkeys([*X86_64, *ISAS["avx512"].macros], "1") | {"__SIZEOF_POINTER__": "8"}
    assert isa_from_macros(macros).core.name == "x86-512"
    assert isa_from_macros({**macros, "__znver4__": "1"}).core.name == "zen4"
    assert isa_from_macros({**macros, "__znver3__": "1"}).core.name == "zen4"
    assert isa_from_macros({**X86_64, "__znver3__": "1"}).core.name == "x86-128"
    assert isa_from_macros({**X86_64, "__atom__": "1"}).core.name == "bonnell"
    assert isa_from_macros({**X86_64, "__slm__": "1"}).core.name == "silvermont"


def test_only_native_means_a_processor_that_was_not_named(monkeypatch: pytest.MonkeyPatch) -> None:
    named = dict.fromkeys([*X86_64, *ISAS["avx512"].macros, "__znver4__"], "1")
    compiler = need_toolchain("native").compiler
    monkeypatch.setattr(type(compiler), "macros", lambda *_: {**named, "__SIZEOF_POINTER__": "8"})
    model = Path("model.h5")
    assert resolve_target(make_options(model, {})).isa.core.name == "zen4"
    assert resolve_target(make_options(model, {"isa": ("avx512",)})).isa.core.name == "x86-512"


def test_every_isa_is_a_target_and_is_proven_by_its_own_macros() -> None:
    for isa in ISAS.values():
        assert TARGETS[isa.name].isa == isa
        pointer = {"__SIZEOF_POINTER__": str(isa.bits // 8)}
        machine = {} if isa.family == "arm" else {MACHINES[isa.family]: "1"}
        proofs = {macro: "3" if macro == "__ARM_FEATURE_MVE" else "1" for macro in isa.macros}
        assert isa_from_macros({**machine, **pointer, **proofs}) == isa


def test_helium_without_floats_is_the_dsp_extension() -> None:
    macros = dict.fromkeys(ISAS["thumbdsp"].macros, "1") | {"__SIZEOF_POINTER__": "4"}
    assert isa_from_macros({**macros, "__ARM_FEATURE_MVE": "3"}).name == "helium"
    assert isa_from_macros({**macros, "__ARM_FEATURE_MVE": "1"}).name == "thumbdsp"


def test_32_bit_x86_has_8_registers() -> None:
    assert find_target("atom32").isa.registers == parse_isa("ssse3-32").registers == 8
    assert parse_isa("ssse3").registers == 16
    macros = {"__i386__": "1", "__SSE2__": "1", "__SIZEOF_POINTER__": "4"}
    assert isa_from_macros(macros) == parse_isa("sse2-32")


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("AVX2", "did you mean 'avx2'"), ("a72", "did you mean 'aarch64-a72'"),
        ("cortex-a53", "take aarch64-a53"),
        ("esp32", "take any"), ("STM32F4", "take cortex-m4"), ("stm32h743", "take cortex-m7"),
        ("nRF52840", "take cortex-m4"), ("rp2040", "take cortex-m0plus"),
        ("pico2", "take cortex-m33"), ("cortex-m85", "take cortex-m55"),
        ("nrf5340", "take cortex-m33"), ("stm32f103", "take cortex-m3"),
        ("Zen4", "take zen4"), ("ryzen-9", "zen4 for a Ryzen 7000"),
        ("nao", "take silvermont"), ("Raspberry-Pi-4", "aarch64-a72 for a 4"),
        ("rv64gc", "take riscv64, or riscv64v128"), ("riscv32", "take riscv32imc, or riscv32imafc"),
        ("i686", "take atom32, or sse2-32"),
        ("esp32-c3", "take riscv32imc"), ("ESP32C6", "take riscv32imc"),
        ("gd32vf103", "take riscv32imc"), ("rp2350-hazard3", "take riscv32imc"),
        ("ch32v203", "take riscv32imc"), ("ch32v307", "take riscv32imafc"),
        ("rv32imafc", "take riscv32imafc"), ("esp32-p4", "take riscv32imafc"),
        ("rv32imac", "take riscv32imc"), ("esp32-s3", "take any"), ("rv32ec", "take any"),
        ("VisionFive2", "take riscv64, or"), ("spacemit-k1", "take riscv64v256"),
        ("raspi4", "aarch64-a72 for a 4"), ("rasberry-pi4", "aarch64-a72 for a 4"),
        ("raspi5", "aarch64-a76 for a 5"), ("rk3588", "take aarch64-a76"),
        ("RISC-V", "take riscv64, or"), ("x86_64", "take sse2"), ("arm64", "take neon64,"),
        ("raspberry-pi2", "armv7-a7 for a 2"), ("cortex-a15", "take armv7-a15"),
        ("cortex-x1", "take aarch64-x1"), ("jetson-orin-nano", "take aarch64-a78"),
        ("jetson-nano", "take aarch64-a57"), ("jetson-agx-xavier", "take neon64"),
        ("jetson", "aarch64-a57 for a Nano"), ("odroid-xu4", "armv7-a15 for an XU4"),
        ("rock-3a", "take aarch64-a55"), ("rock-5b", "take aarch64-a76"),
        ("RockPro64", "take aarch64-a72"), ("beaglebone-black", "take armv7-a8"),
        ("BeagleBone-AI", "take armv7-a15"), ("beaglebone-ai-64", "take aarch64-a72"),
        ("coral", "take aarch64-a53"), ("imx6q", "take armv7-a9"), ("i.MX8M", "take aarch64-a53"),
        ("stm32mp157", "take armv7-a7"), ("zynq-7020", "take armv7-a9"),
        ("zynqmp", "take aarch64-a53"), ("graviton3", "neoverse-v1 for a Graviton 3"),
        ("Neoverse-N1", "take neoverse-n1"), ("neoverse-v2", "take neoverse-v1"),
        ("macbook", "take apple-m1"), ("M2", "take apple-m1"), ("armhf", "take neon32"),
        ("zz", r"\(one of: native"),
    ],
)  # fmt: skip
def test_what_an_unknown_target_may_mean(name: str, meant: str) -> None:
    with pytest.raises(OptionError, match=meant):
        find_target(name)


@pytest.mark.parametrize("name", ["esp32", "atom32", "native", "NAO"])
def test_processors_are_no_instruction_sets(name: str) -> None:
    with pytest.raises(OptionError, match=f"{name}' .name a processor with --target: "):
        parse_isa(name)


def test_any_is_what_a_named_compiler_allows() -> None:
    gcc = need_toolchain("cortex-m7").compiler.command[0]
    model = Path("model.h5")
    for flags, isa in (("-mcpu=cortex-m4 -mthumb", "thumbdsp"), ("-mcpu=cortex-m0plus", "generic")):
        target = resolve_target(make_options(model, {"target": "any", "cc": f"{gcc} {flags}"}))
        assert (target.isa.name, target.isa.bits) == (isa, 32)
        assert not target.isa.joins_scalars
    avx2 = {
        "target": "any",
        "cc": need_toolchain("avx2").compiler.command[0],
        "cflags": "-mavx2 -mfma",
    }
    assert resolve_target(make_options(model, avx2)).isa.name == "avx2"
    with pytest.raises(OptionError, match=r"any means what a compiler allows \(give it with"):
        resolve_target(make_options(model, {"target": "any"}))


def test_unknown_names() -> None:
    with pytest.raises(OptionError, match=r"unknown target 'pentium'.*native.*atom32"):
        find_target("pentium")
    with pytest.raises(OptionError, match="unknown instruction set 'sse9'"):
        parse_isa("sse9")


def _listing(folder: Path, macros: dict[str, str]) -> Path:
    path = folder / "macros.txt"
    path.write_text("".join(f"#define {name} {value}\n" for name, value in macros.items()))
    return path


def _options(**raw: object) -> Options:
    return make_options(Path("net.h5"), {key: str(value) for key, value in raw.items()})


def test_a_listing_chooses_the_isa(tmp_path: Path) -> None:
    listing = _listing(tmp_path, {**X86_64, "__SSSE3__": "1"})
    assert resolve_target(_options(macros=listing)).name == "ssse3"
    assert resolve_target(_options(macros=listing, target="native")).isa == ISAS["ssse3"]


def test_a_target_must_fit_the_listing(tmp_path: Path) -> None:
    listing = _listing(tmp_path, X86_64)
    with pytest.raises(ToolchainError, match=r"target silvermont.*sse42 needs __SSE4_2__"):
        resolve_target(_options(macros=listing, target="silvermont"))
    assert resolve_target(_options(macros=listing, target="generic")).isa == ISAS["generic"]


def test_a_damaged_listing(tmp_path: Path) -> None:
    (tmp_path / "macros.txt").write_bytes(b"\x7fELF")
    with pytest.raises(ToolchainError, match="no predefined macros"):
        resolve_target(_options(macros=tmp_path / "macros.txt"))


def test_neon_needs_a_convention_for_floats() -> None:
    given = {"target": "armv7-a9", "cc": need_toolchain("cortex-m7").compiler.command[0]}
    with pytest.raises(ToolchainError, match=r"needs __ARM_NEON.*-mfloat-abi=hard or softfp"):
        find_toolchain(make_options(Path("m.h5"), given))


def test_missing_and_foreign_compilers(tmp_path: Path) -> None:
    with pytest.raises(ToolchainError, match="'no-such-cc' not found"):
        probe_compiler(("no-such-cc",))
    script = tmp_path / "cc"
    script.write_text("#!/bin/sh\necho '#define __TINYC__ 1'\n")
    script.chmod(0o755)
    with pytest.raises(ToolchainError, match="neither gcc nor clang"):
        probe_compiler((str(script),))


def test_a_compiler_that_writes_nothing(tmp_path: Path) -> None:
    script = tmp_path / "cc"
    script.write_text("#!/bin/sh\nexit 0\n")
    script.chmod(0o755)
    compiler = Compiler((str(script),), "gcc", "12.0.0")
    with pytest.raises(ToolchainError, match=r"did not write a\.o"):
        compiler.compile(tmp_path / "a.c", tmp_path / "a.o")
    with pytest.raises(ToolchainError, match="did not write program"):
        compiler.link([tmp_path / "a.o"], tmp_path / "program")


def test_a_failing_compiler_is_quoted(tmp_path: Path) -> None:
    toolchain = need_toolchain("native")
    source = tmp_path / "bad.c"
    source.write_text("int main(void) { return nothing; }\n")
    with pytest.raises(ToolchainError, match=r"nothing.*undeclared"):
        toolchain.build([source], tmp_path / "bad")


def test_the_first_error_of_a_compiler() -> None:
    text = "In file included from x.c:1:\nx.h:2:1: error: no\nx.h:3:1: error: never\n"
    assert first_error(text) == "x.h:2:1: error: no"
    assert first_error("") == ""
    full = "ld: error: closing\nas: can't write a.o: No space left on device\n"
    assert first_error(full) == "as: can't write a.o: No space left on device"


@pytest.mark.parametrize(
    ("said", "cure"),
    [
        ("can't write a.o: No space left on device", "make room"),
        ("error: no", "check the compiler"),
    ],
)
def test_what_to_do_where_a_compiler_fails(tmp_path: Path, said: str, cure: str) -> None:
    program = tmp_path / "cc"
    program.write_text(f'#!/bin/sh\necho "{said}" >&2\nexit 1\n')
    program.chmod(0o755)
    with pytest.raises(ToolchainError) as caught:
        compiler_module._run([str(program)])
    assert str(caught.value.cure).startswith(cure)


def _python_runner(tmp_path: Path, code: str) -> tuple[Runner, Path]:
    script = tmp_path / "script.py"
    script.write_text(code)
    return Runner((sys.executable,), Origin.DEVICE), script


@pytest.mark.parametrize(
    ("code", "what"),
    [
        ("import os; os.kill(os.getpid(), 4)", r"crashed \(SIGILL\)"),
        ("import sys; sys.exit('out of memory')", "exit code 1: out of memory"),
        ("import sys; sys.exit(139)", r"crashed \(SIGSEGV\)"),
        ("import sys; sys.exit('\\x1b[2Jgone')", r"exit code 1: \?\[2Jgone"),
        ("print('{\"us\": 1')", "damaged output line"),
        ("import time; time.sleep(60)", "it did not end within"),
    ],
)
def test_failures_of_programs(tmp_path: Path, code: str, what: str) -> None:
    runner, script = _python_runner(tmp_path, code)
    with pytest.raises(ToolchainError, match=what):
        runner.with_timeout(0.5 if "sleep" in code else 60).run(script)


def test_other_lines_are_passed_over() -> None:
    text = 'Welcome to the robot\n{"us": 1}\n\n{"us": 2}\n'
    assert parse_json_lines(text, where="x") == [{"us": 1}, {"us": 2}]


def test_a_missing_runner(tmp_path: Path) -> None:
    runner = find_runner(find_target("atom32"), "no-such-emulator -x")
    with pytest.raises(ToolchainError, match="cannot start"):
        runner.run(tmp_path)


def test_origins() -> None:
    target = find_target("atom32")
    assert find_runner(target, "ssh nao").origin is Origin.DEVICE
    assert find_runner(target, "/usr/bin/qemu-i386 -cpu n270").origin is Origin.EMULATED
    if platform.machine() == "x86_64":
        assert toolchain_for("native").runners()[0].origin is Origin.DEVICE


@pytest.mark.parametrize("kind", ["gcc", "clang"])
@pytest.mark.parametrize(
    "name", ["sse2", "silvermont", "avx2", "avx512", "sse2-32", "atom32", "neon32", "neon64"]
)
def test_private_flags_by_compiler_and_processor(kind: str, name: str) -> None:
    """The old unit of 32-bit x86 would round otherwise; clang knows no flags of gcc."""
    flags = private_flags(kind, find_target(name).isa)
    assert set(PRIVATE_FLAGS["all"]) <= set(flags)
    assert ("-mfpmath=sse" in flags) is (name in ("sse2-32", "atom32"))
    assert (set(PRIVATE_FLAGS["gcc"]) <= set(flags)) is (kind == "gcc")
    renames = kind == "gcc" and not name.startswith("avx")
    assert (set(PRIVATE_FLAGS["gcc_128"]) <= set(flags)) is renames


def test_targets_of_32_bit_x86_compute_with_sse() -> None:
    """In their own flags, too, which the compiler of a user's project gets."""
    for target in TARGETS.values():
        x86_32 = target.isa.family == "x86" and target.isa.bits == 32
        assert ("-mfpmath=sse" in target.flags) is x86_32, target.name


def test_own_flags_win_over_those_of_users() -> None:
    need_toolchain("sse2")
    given = ("-ffast-math", "-ffp-contract=fast", "-O0")
    found = find_toolchain(Options(Path("m.h5"), "m", target="sse2", cflags=given)).cflags
    own = private_flags("gcc", find_target("sse2").isa)
    assert [flag for flag in found if flag in given] == list(given)
    assert max(map(found.index, given)) < min(map(found.index, own[:3]))


def test_of_several_instruction_sets_the_richest_comes_first() -> None:
    names = ["sse2", "avx2", "ssse3", "avx512", "sse42"]
    for order in (names, names[::-1]):
        found = [isa.name for isa in check_isas([ISAS[name] for name in order])]
        assert found == ["avx512", "avx2", "sse42", "ssse3", "sse2"]
    with pytest.raises(OptionError, match="twice"):
        check_isas([ISAS["sse2"], ISAS["avx2"], ISAS["sse2"]])


@pytest.mark.parametrize(
    "names", [("neon64", "sse2"), ("neon64", "neon32"), ("riscv64v128", "riscv64v256"),
              ("generic", "thumbdsp"), ("helium", "neon32"), ("generic", "helium")],
)  # fmt: skip
def test_no_processor_can_be_asked_for_some(names: tuple[str, ...]) -> None:
    with pytest.raises(OptionError, match="no processor can be asked which of"):
        check_isas([ISAS[name] for name in names])


@pytest.mark.parametrize("lacking", ["avx2", "fma"])
def test_programs_do_not_run_where_anything_is_missing(
    lacking: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = find_target("avx2")
    assert len(target.cpu_flags) > 1
    monkeypatch.setattr(runner_module.platform, "machine", lambda: "x86_64")
    there = frozenset(target.cpu_flags) - {lacking}
    monkeypatch.setattr(runner_module, "host_cpu_flags", lambda: there)
    assert lacking in why_not_here(target)
    monkeypatch.setattr(runner_module, "host_cpu_flags", lambda: frozenset(target.cpu_flags))
    assert why_not_here(target) == ""
