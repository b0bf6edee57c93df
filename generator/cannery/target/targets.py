"""Targets: instruction set, processor, compiler flags and a way to run programs; one row each.

`native` (what the compiler makes of this machine) and `any` (what a listing of its macros proves)
are not rows, see `toolchain.py`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from cannery.errors import OptionError, one_of
from cannery.target.boards import NAMED
from cannery.target.device import Device
from cannery.target.isa import ISAS, Isa
from cannery.target.isa import isa as isa_row
from cannery.target.parts import Processor, amd, apple, arm, intel

NATIVE = "native"
ANY = "any"


@dataclass(frozen=True)
class Target:
    """What code is generated for.

    `triple` names the GNU toolchain ("" : the host's own). `flags` select the processor, `ldflags`
    make a self-contained executable. `emulator` is the strictest emulation available: a CPU without
    the instructions that the target lacks. `cpu_flags` are the words of /proc/cpuinfo that a host
    needs to run such programs itself. `board` names files in toolchains/ that every program links.
    `clang` is the oldest version of clang that must replace Debian's GNU compiler if that does not
    know the instructions (0: it does). `pipeline` is LLVM's name of the processor ("": none in
    particular), `mhz` a typical clock, which turns estimated cycles into microseconds. `processors`
    is how it identifies itself; empty: any will do.
    """

    name: str
    cpu: str
    isa: Isa
    triple: str
    flags: tuple[str, ...] = ()
    ldflags: tuple[str, ...] = ("-static",)
    emulator: tuple[str, ...] = ()
    cpu_flags: tuple[str, ...] = ()
    board: tuple[str, ...] = ()
    clang: int = 0
    pipeline: str = ""
    mhz: int = 0
    processors: tuple[Processor, ...] = ()


_X86, _I686 = "x86_64-linux-gnu", "i686-linux-gnu"
_ARM, _AARCH64, _BARE = "arm-linux-gnueabihf", "aarch64-linux-gnu", "arm-none-eabi"
_RISCV, _BARE_RISCV = "riscv64-linux-gnu", "riscv64-unknown-elf"
_FPMATH = "-mfpmath=sse"
_A76 = "qemu-aarch64 -cpu cortex-a76"

#: What /proc/cpuinfo must list; it does not say how long RISC-V's registers are.
_CPU_FLAGS = {
    "generic": "",
    "sse2": "sse2",
    "ssse3": "ssse3",
    "sse42": "sse4_2 popcnt",
    "avx2": "avx2 fma",
    "avx512": "avx2 fma avx512f avx512vl avx512bw avx512dq",
    "avx512vnni": "avx2 fma avx512f avx512vl avx512bw avx512dq avx512_vnni",
    "thumbdsp": "thumb edsp",
    "helium": "none",
    "neon32": "neon",
    "neon64": "asimd",
    "neon64dot": "asimd asimddp",
    "neon64half": "asimd asimdhp asimddp",
    "neon64i8mm": "asimd asimdhp asimddp i8mm",
    "neon64bf16": "asimd asimdhp asimddp i8mm bf16",
    "riscv64v128": "rvv128",
    "riscv64v256": "rvv256",
}

#: Emulated CPUs that have only the instruction set; none has AVX-512.
_EMULATORS = {
    "sse2": "qemu-x86_64 -cpu qemu64",
    "ssse3": "qemu-x86_64 -cpu Conroe",
    "sse42": "qemu-x86_64 -cpu Nehalem",
    "avx2": "qemu-x86_64 -cpu Haswell",
    "thumbdsp": "qemu-arm -cpu cortex-a9",
    "neon32": "qemu-arm -cpu cortex-a9",
    "neon64": "qemu-aarch64 -cpu cortex-a53",
    "neon64dot": "qemu-aarch64 -cpu cortex-a76",
    "neon64half": "qemu-aarch64 -cpu cortex-a76",
    "neon64i8mm": "qemu-aarch64 -cpu max",
    "neon64bf16": "qemu-aarch64 -cpu max",
    "riscv64v128": "qemu-riscv64 -cpu rv64,v=true,vlen=128,vext_spec=v1.0",
    "riscv64v256": "qemu-riscv64 -cpu rv64,v=true,vlen=256,vext_spec=v1.0",
}
_EMULATOR_32 = "qemu-i386 -cpu n270"


def _triple(isa: Isa) -> str:
    if isa.family == "arm":
        return _ARM if isa.bits == 32 else _AARCH64
    if isa.family == "x86":
        return _I686 if isa.bits == 32 else _X86
    return _RISCV if isa.family == "riscv" else ""


def _cpu(
    name: str, cpu: str, isa: str, bits: int, flags: str, emulator: str,
    pipeline: str, mhz: int, processor: Processor, cpu_flags: str = "", machine: str = "",
) -> Target:  # fmt: skip
    row = isa_row(isa).with_bits(bits)
    row = row.meant_for(machine or row.machine)
    needed = tuple(f"{_CPU_FLAGS[isa]} {cpu_flags}".split())
    return Target(
        name, cpu, row, _triple(row), tuple(flags.split()),
        emulator=tuple(emulator.split()), cpu_flags=needed, pipeline=pipeline, mhz=mhz,
        processors=(processor,),
    )  # fmt: skip


#: QEMU's boards of Arm without an operating system: mps2.ld says what their memory maps define.
_SECURE = "vectors_start=0x10000000 code_start=0x10000400 data_start=0x38000000"
_M55_MAP = "vectors_start=0 code_start=0x01000000 code_bytes=0x200000 data_start=0x21000000"
#: The same board with code and data in its external memory, which has room for whole test suites.
_M55_EXTERNAL = (
    "vectors_start=0 code_start=0x60000000 code_bytes=0x8000000 data_start=0x70000000 "
    "data_bytes=0x8000000"
)


#: Integer registers of Thumb, of which the first has instructions for eight only, and of RISC-V.
_THUMB1, _THUMB2, _RV32 = 8, 13, 28

#: How QEMU runs a program on a board without an operating system.
_BOARD = "-display none -monitor none -serial none -semihosting-config enable=on,target=native"


def _bare(isa: str, registers: int, *, soft_float: bool) -> Isa:
    """An instruction set of 32 bits as small cores have it, with so many integer registers."""
    row = replace(isa_row(isa).with_bits(32).without("slp"), integer_registers=registers)
    return row.having("soft_float") if soft_float else row


def _defined(symbols: str) -> tuple[str, ...]:
    """The linker's flags that define these symbols."""
    return tuple(f"-Wl,--defsym={symbol}" for symbol in symbols.split())


def _on_board(
    name: str, cpu: str, isa: Isa, board: str, memory: str, part: int | None = None
) -> Target:
    """An instruction set without an operating system, run on a board of QEMU with Arm's processors;
    `isa.flags` are what makes a compiler produce code for it.
    """
    emulator = f"qemu-system-arm -M {board} {_BOARD} -kernel"
    return Target(
        name, cpu, isa, _BARE, isa.flags, ("-specs=rdimon.specs", *_defined(memory)),
        tuple(emulator.split()), ("none",), ("mps2.ld", "mps2.S"),
        processors=() if part is None else (arm(part),),
    )  # fmt: skip


def _cortex_m(name: str, isa: str, flags: str, board: str, part: int, memory: str = "") -> Target:
    """A core without an operating system, run on a board of QEMU."""
    registers = _THUMB1 if name == "M0+" else _THUMB2
    row = _bare(isa, registers, soft_float="hard" not in flags)
    found = _on_board("", f"Arm Cortex-{name}, bare metal", row, board, memory, part)
    plus = name.lower().replace("+", "plus")
    return replace(found, name=f"cortex-{plus}", flags=("-mthumb", *flags.split()))


_CORTEX_M = (
    _cortex_m("M0+", "generic", "-mcpu=cortex-m0plus", "mps2-an385", 0xC60),
    _cortex_m("M3", "generic", "-mcpu=cortex-m3", "mps2-an385", 0xC23),
    _cortex_m("M4", "thumbdsp", "-mcpu=cortex-m4 -mfpu=fpv4-sp-d16 -mfloat-abi=hard",
              "mps2-an386", 0xC24),
    _cortex_m("M7", "thumbdsp", "-mcpu=cortex-m7 -mfpu=fpv5-sp-d16 -mfloat-abi=hard",
              "mps2-an500", 0xC27),
    _cortex_m("M33", "thumbdsp", "-mcpu=cortex-m33 -mfpu=fpv5-sp-d16 -mfloat-abi=hard",
              "mps2-an505", 0xD21, _SECURE),
    _cortex_m("M55", "helium", "-mcpu=cortex-m55 -mfloat-abi=hard", "mps3-an547",
              0xD22, _M55_MAP),
)  # fmt: skip

#: Where code and data lie on QEMU's board `virt`, for picolibc's linker script.
_VIRT_MAP = "__flash=0x80000000 __flash_size=16M __ram=0x81000000 __ram_size=16M __stack_size=1M"


def _riscv32(extensions: str, abi: str, cpu: str) -> Target:
    """A 32-bit core without an operating system, run on a board of QEMU."""
    emulator = (
        f"qemu-system-riscv32 -M virt -cpu rv32 -bios none -chardev stdio,id=out {_BOARD},"
        "chardev=out -kernel"
    )
    start = ("--oslib=semihost", "--crt0=semihost", "-Wl,--wrap=main")
    return Target(
        f"riscv32{extensions}", f"{cpu}, bare metal",
        _bare("generic", _RV32, soft_float=abi == "ilp32"), _BARE_RISCV,
        (f"-march=rv32{extensions}", f"-mabi={abi}"),
        (*start, *_defined(_VIRT_MAP)),
        tuple(emulator.split()),
        ("none",), ("riscv32-virt.S",),
    )  # fmt: skip


_RISCV32 = (
    _riscv32("imc", "ilp32", "RISC-V RV32IMC without FPU"),
    _riscv32("imafc", "ilp32f", "RISC-V RV32IMAFC with FPU"),
)

_RISCV64 = Target(
    "riscv64", "any RISC-V with 64 bits and Linux", isa_row("generic").without("slp"), _RISCV,
    emulator=("qemu-riscv64",),
)  # fmt: skip

#: Arm's A cores and their like, with clocks of: Raspberry Pi 2, BeagleBone Black, Zynq-7000, Odroid
#: XU4; Raspberry Pi 3, RK3588, Jetson Nano, Raspberry Pi 4 and 5, Jetson Orin, Snapdragon 888;
#: Graviton 2 and 3; MacBook Air. QEMU 7.2 has no A55, A78, X1; its A76 has their instructions.
_ARM_CPUS = (
    _cpu("armv7-a7", "Arm Cortex-A7", "neon32", 32, "-mcpu=cortex-a7 -mfpu=neon-vfpv4",
         "qemu-arm -cpu cortex-a7", "cortex-a7", 900, arm(0xC07), "vfpv4"),
    _cpu("armv7-a8", "Arm Cortex-A8", "neon32", 32, "-mcpu=cortex-a8 -mfpu=neon",
         "qemu-arm -cpu cortex-a8", "cortex-a8", 1000, arm(0xC08)),
    _cpu("armv7-a9", "Arm Cortex-A9 with NEON", "neon32", 32, "-mcpu=cortex-a9 -mfpu=neon",
         "qemu-arm -cpu cortex-a9", "cortex-a9", 1000, arm(0xC09)),
    _cpu("armv7-a15", "Arm Cortex-A15", "neon32", 32, "-mcpu=cortex-a15 -mfpu=neon-vfpv4",
         "qemu-arm -cpu cortex-a15", "cortex-a15", 2000, arm(0xC0F), "vfpv4"),
    _cpu("aarch64-a53", "Arm Cortex-A53", "neon64", 64, "-mcpu=cortex-a53",
         "qemu-aarch64 -cpu cortex-a53", "cortex-a53", 1200, arm(0xD03), machine="cortex-a53"),
    _cpu("aarch64-a55", "Arm Cortex-A55", "neon64half", 64, "-mcpu=cortex-a55",
         _A76, "cortex-a55", 1800, arm(0xD05), machine="cortex-a55"),
    _cpu("aarch64-a57", "Arm Cortex-A57", "neon64", 64, "-mcpu=cortex-a57",
         "qemu-aarch64 -cpu cortex-a57", "cortex-a57", 1430, arm(0xD07)),
    _cpu("aarch64-a72", "Arm Cortex-A72", "neon64", 64, "-mcpu=cortex-a72",
         "qemu-aarch64 -cpu cortex-a72", "cortex-a72", 1500, arm(0xD08)),
    _cpu("aarch64-a76", "Arm Cortex-A76 (Raspberry Pi 5)", "neon64half", 64, "-mcpu=cortex-a76",
         _A76, "cortex-a76", 2400, arm(0xD0B, 0xD0E)),
    _cpu("aarch64-a78", "Arm Cortex-A78, A78AE (Jetson Orin)", "neon64half", 64,
         "-mcpu=cortex-a78", _A76, "cortex-a78", 2000, arm(0xD41, 0xD42, 0xD4B)),
    _cpu("aarch64-x1", "Arm Cortex-X1", "neon64half", 64, "-mcpu=cortex-x1", _A76, "cortex-x1",
         2840, arm(0xD44, 0xD4C)),
    _cpu("neoverse-n1", "Arm Neoverse-N1 (Graviton 2, Altra)", "neon64half", 64,
         "-mcpu=neoverse-n1", "qemu-aarch64 -cpu neoverse-n1", "neoverse-n1", 2500, arm(0xD0C)),
    _cpu("neoverse-v1", "Arm Neoverse-V1 (Graviton 3), without SVE", "neon64bf16", 64,
         "-mcpu=neoverse-v1+nosve", "qemu-aarch64 -cpu max", "neoverse-v1", 2600, arm(0xD40),
         "i8mm bf16"),
    replace(
        _cpu("apple-m1", "Apple M1 and later", "neon64half", 64, "-mcpu=apple-m1",
             "qemu-aarch64 -cpu max", "apple-m1", 3200,
             apple(*range(0x22, 0x26), 0x28, 0x29, *range(0x32, 0x36), 0x38, 0x39)),
        clang=14,
    ),
)  # fmt: skip

#: Models of family 0x19 that are no Zen 3: Storm Peak and Genoa, Raphael, Phoenix, Bergamo.
_ZEN4 = (*range(0x10, 0x20), *range(0x60, 0x80), *range(0xA0, 0xB0))

_CPUS = (
    _cpu("atom32", "Intel Atom Bonnell, 32 bit (NAO V5)", "ssse3", 32,
         f"-march=bonnell {_FPMATH}", _EMULATOR_32, "bonnell", 1600,
         intel(0x1C, 0x26, 0x27, 0x35, 0x36), "movbe", machine="bonnell"),
    _cpu("silvermont", "Intel Atom Silvermont (NAO V6)", "sse42", 64, "-march=silvermont",
         "qemu-x86_64 -cpu Westmere,+movbe,+rdrand,+3dnowprefetch", "silvermont", 1900,
         intel(0x37, 0x4A, 0x4C, 0x4D, 0x5A, 0x5D, 0x75), "movbe rdrand 3dnowprefetch",
         machine="silvermont"),
    _cpu("zen4", "AMD Zen 4 (Ryzen 7000 and 8000, EPYC 9004)", "avx512vnni", 64,
         " ".join(ISAS["avx512vnni"].flags), "", "znver4", 3700, amd(0x19, *_ZEN4),
         machine="zen4"),
    *_ARM_CPUS,
    *_CORTEX_M,
    *_RISCV32,
    _RISCV64,
)  # fmt: skip


def _plain(isa: Isa) -> Target:
    """The target that is only an instruction set, for tests and for --isa."""
    if isa.name == "helium":
        return _on_board(isa.name, f"any with {isa.name}", isa, "mps3-an547", _M55_EXTERNAL)
    flags = isa.flags
    x86_32 = isa.family == "x86" and isa.bits == 32
    emulator = _EMULATORS.get(isa.name, "")
    if x86_32:
        flags = (*flags, _FPMATH)
        emulator = _EMULATOR_32 if isa.name in ("sse2", "ssse3") else ""
    name = f"{isa.name}-32" if x86_32 else isa.name
    cpu = "any, in plain C" if isa.family == "any" else f"any with {isa.name}"
    return Target(
        name, cpu, isa, _triple(isa), flags,
        emulator=tuple(emulator.split()), cpu_flags=tuple(_CPU_FLAGS[isa.name].split()),
        clang=19 if isa.family == "riscv" else 0,
    )  # fmt: skip


_PLAIN = tuple(_plain(row) for row in ISAS.values())
_PLAIN_32 = tuple(_plain(row.with_bits(32)) for row in ISAS.values() if row.family == "x86")

#: Every target by name, except `native`.
TARGETS = {row.name: row for row in (*_CPUS, *_PLAIN, *_PLAIN_32)}


def target_names() -> tuple[str, ...]:
    """Every name of a target, `native` first."""
    return (NATIVE, *TARGETS)


#: Names without a target of their own, and the target for them, see `target/boards.py`.
BOARDS = (
    *((rf"(arm-?)?cortex-?{name.rpartition('-')[2]}$", name)
      for name in TARGETS if name.startswith(("armv7-", "aarch64-"))),
    *NAMED,
)  # fmt: skip


def _served_by(name: str) -> str:
    """The target for a processor or board of this name; empty if unknown."""
    fits = (cure for pattern, cure in BOARDS if re.match(pattern, name.casefold()))
    return next(fits, "")


def _meant(name: str) -> str:
    """Advice about an unknown target."""
    cure = _served_by(name)
    return f"take {cure}; `cannery targets` lists all" if cure else one_of(name, target_names())


def find_target(name: str) -> Target:
    """The row called `name`; raises OptionError for an unknown one."""
    try:
        return TARGETS[name]
    except KeyError:
        what = f"unknown target {name!r}"
        raise OptionError(what, where="--target", cure=_meant(name)) from None


def fitting_target(device: Device, isa: Isa) -> Target | None:
    """The row of a device's own processor, else the richest instruction set that it has.

    Only those of the family and pointer width of `isa`; None if there is none.
    """
    rows = [r for r in TARGETS.values() if (r.isa.family, r.isa.bits) == (isa.family, isa.bits)]
    has = set(device.features.split())
    own = [
        row for row in rows
        # Virtual machines on x86 may hide what a processor has.
        if device.is_one_of(row.processors) and (isa.family != "x86" or set(row.cpu_flags) <= has)
    ]  # fmt: skip
    plain = [row for row in rows if not row.processors and set(row.cpu_flags) <= has]
    return next(iter([*own, *reversed(plain)]), None)


def isa_names() -> tuple[str, ...]:
    """What `parse_isa` knows."""
    return tuple(row.name for row in (*_PLAIN, *_PLAIN_32))


def parse_isa(text: str) -> Isa:
    """The instruction set called `avx2`, or `ssse3-32` for 32-bit x86; OptionError if unknown."""
    names = isa_names()
    if text not in names:
        what = f"unknown instruction set {text!r}"
        target = text if text in target_names() else _served_by(text)
        cure = f"name a processor with --target: {target}" if target else one_of(text, names)
        raise OptionError(what, where="--isa", cure=cure)
    return TARGETS[text].isa


#: Macros by which compilers name the processor, and its table.
_MACHINES = (
    ({"__znver4__", "__AVX512F__"}, "zen4"),
    ({"__znver3__", "__AVX512F__"}, "zen4"),  # what gcc 12 makes of it
    ({"__atom__"}, "bonnell"),
    ({"__slm__"}, "silvermont"),
)


#: Integer registers by macro, the first that is defined.
_INTEGERS = (
    ("__ARM_ARCH_6M__", _THUMB1), ("__ARM_ARCH_8M_BASE__", _THUMB1), ("__thumb2__", _THUMB2),
    ("__riscv", _RV32),
)  # fmt: skip

#: The value of __ARM_FEATURE_MVE without vectors of floats, for which there is no instruction set.
_INTEGER_MVE = "1"

#: Macros of Arm and RISC-V where functions of the compiler's library compute with floats.
_SOFT_FLOATS = {"__SOFTFP__", "__riscv_float_abi_soft"}


def isa_from_macros(macros: Mapping[str, str]) -> Isa:
    """The richest instruction set whose macros a compiler all predefines.

    It is meant for the processor that the macros name, if that has a table.
    """
    if macros.get("__ARM_FEATURE_MVE") == _INTEGER_MVE:
        macros = {name: value for name, value in macros.items() if name != "__ARM_FEATURE_MVE"}
    family = "x86" if {"__x86_64__", "__i386__"} & set(macros) else "arm"
    family = "riscv" if "__riscv" in macros else family
    rows = [
        r for r in ISAS.values() if r.family in ("any", family) and set(r.macros) <= set(macros)
    ]
    row = rows[-1].with_bits(8 * int(macros.get("__SIZEOF_POINTER__", "8")))
    named = (machine for needed, machine in _MACHINES if needed <= set(macros))
    isa = row.meant_for(next(named, row.machine))
    if _SOFT_FLOATS & set(macros):
        isa = isa.having("soft_float")
    if isa.widest == 1 and isa.bits == 32:
        counts = (count for macro, count in _INTEGERS if macro in macros)
        isa = replace(isa, integer_registers=next(counts, isa.integer_registers))
    return isa if {"__x86_64__", "__aarch64__"} & set(macros) else isa.without("slp")


def plain_target(isa: Isa) -> Target:
    """The row that is only `isa`, with its pointer width."""
    suffix = "-32" if isa.family == "x86" and isa.bits == 32 else ""
    return replace(TARGETS[isa.name + suffix], isa=isa)
