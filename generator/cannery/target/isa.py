"""Instruction sets: what compiler macros prove, one row each.

A row says which vector widths, headers and capabilities generated code may use. Kernels see only an
`Isa`; which CPU, compiler and flags it belongs to is the business of `targets.py`. Only the cost
model asks which processor is meant: `Isa.core`.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, field, replace
from functools import cache, cached_property

from cannery.errors import OptionError, one_of
from cannery.target.machine import Machine, Rates, find_machine


@dataclass(frozen=True)
class Isa:
    """One instruction set.

    `lanes` are the float32 vector widths, ascending, always including 1. `registers` counts the
    architectural vector registers. `macros` must all be defined by the compiler; `flags` make gcc
    and clang define them. `capabilities`: fma, lane_fma, ordered (words that compilers keep in
    order), rotate, pairs (broadcast2 and add_pairs of the widths over four), masks, gather,
    dot2_s16, dot4_u8s8, mmla (products of matrices of bytes), byte_table (looks up any of 256
    bytes), slp (compilers make vectors of neighbouring scalars), dsp (Thumb's instructions for
    pairs of int16), mve (sums of products of 16 bytes), half (arithmetic in half precision),
    bfloat (sums of products of bfloat16), wide_lane_fma (see `in_half`), soft_float (no FPU:
    functions compute with floats). `machine` (or its name) is the processor for which costs are
    estimated; it does not change the instruction set.
    `integer_registers` are those that code without vectors may use for numbers and addresses.
    """

    name: str
    family: str
    bits: int
    lanes: tuple[int, ...]
    registers: int
    header: str
    macros: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    capabilities: frozenset[str] = frozenset()
    machine: str | Machine = field(default="scalar", compare=False)
    integer_registers: int = 16

    def has(self, *capabilities: str) -> bool:
        """Whether it has all the named capabilities."""
        return self.capabilities.issuperset(capabilities)

    @property
    def widest(self) -> int:
        return self.lanes[-1]

    @property
    def joins_scalars(self) -> bool:
        """Whether making vectors is left to compilers: 64-bit x86 and Arm always have some."""
        return self.widest == 1 and self.bits == 64 and self.has("slp")

    @property
    def is_microcontroller(self) -> bool:
        """Whether it is that of microcontrollers, whose flash is scarce."""
        return self.is_small or self.has("mve")

    @property
    def is_small(self) -> bool:
        """Whether it is that of small cores: 32 bits, no vectors."""
        return self.widest == 1 and self.bits == 32

    @cached_property
    def core(self) -> Machine:
        """The processor for which costs are estimated."""
        return self.machine if isinstance(self.machine, Machine) else find_machine(self.machine)

    def rates(self, lanes: int = 0) -> Rates:
        """What that processor does per cycle with vectors of this width (0: the widest)."""
        return self.core.rates(lanes or self.widest)

    def vec(self, lanes: int) -> str:
        """The vocabulary's prefix and type for a width: `f32x8`."""
        return f"f32x{lanes}"

    def multiplies_by_lane(self, lanes: int) -> bool:
        """Whether a vector of this width can be multiplied by any lane of one of four."""
        return self.has("lane_fma") and (lanes == 4 or (lanes > 4 and self.has("wide_lane_fma")))

    @property
    def in_half(self) -> Isa:
        """The same instruction set as kernels in half precision see it: twice as many lanes, all
        of which `lane_fma` multiplies.
        """
        return _in_half(self)

    def meant_for(self, machine: str | Machine) -> Isa:
        """The same instruction set with the costs of a processor."""
        return replace(self, machine=machine)

    def without(self, capability: str) -> Isa:
        """The same instruction set without a capability."""
        return replace(self, capabilities=self.capabilities - {capability})

    def having(self, capability: str) -> Isa:
        """The same instruction set with one more capability."""
        return replace(self, capabilities=self.capabilities | {capability})

    def with_bits(self, bits: int) -> Isa:
        """The same instruction set with another pointer width; 32-bit x86 has 8 registers."""
        registers = 8 if self.family == "x86" and bits == 32 and self.widest > 1 else self.registers
        return replace(self, bits=bits, registers=registers)


@cache
def _in_half(isa: Isa) -> Isa:
    capabilities = (isa.capabilities & {"fma", "lane_fma"}) | {"wide_lane_fma"}
    return replace(isa, lanes=(*isa.lanes, 2 * isa.widest), capabilities=capabilities)


def _x86(
    name: str, lanes: tuple[int, ...], header: str, macros: str, flags: str, caps: Set[str]
) -> Isa:
    registers = 32 if 16 in lanes else 16
    return Isa(
        name, "x86", 64, lanes, registers, header,
        tuple(f"__{m}__" for m in macros.split()), tuple(flags.split()), frozenset(caps),
        f"x86-{32 * lanes[-1]}",
    )  # fmt: skip


_512 = "AVX2 FMA AVX512F AVX512VL AVX512BW AVX512DQ"
_512_FLAGS = "-mavx2 -mfma -mavx512f -mavx512vl -mavx512bw -mavx512dq"
_512_CAPS = {"fma", "rotate", "pairs", "masks", "gather", "dot2_s16"}

#: The V extension, with registers of a length that the compiler knows. Clang must not vectorise
#: loops on its own: it would convert floats with an instruction that crashes QEMU before 8.0.
_RVV = ("__riscv_v", "__riscv_v_fixed_vlen")
_RVV_FLAGS = ("-mrvv-vector-bits=zvl", "-mllvm", "-force-vector-width=1")
_RVV_CAPS = frozenset({"fma", "rotate", "masks", "gather"})

#: Arm's arithmetic in half precision; all cores with I8MM have it.
_HALF = "__ARM_FEATURE_FP16_VECTOR_ARITHMETIC"

_ROWS = (
    Isa("generic", "any", 64, (1,), 16, "vec_scalar.h", capabilities=frozenset({"slp"})),
    _x86("sse2", (1, 4), "vec_x86_128.h", "SSE2", "-msse2", {"rotate"}),
    _x86("ssse3", (1, 4), "vec_x86_128.h", "SSSE3", "-mssse3", {"rotate", "dot2_s16"}),
    _x86("sse42", (1, 4), "vec_x86_128.h", "SSE4_2", "-msse4.2", {"rotate", "dot2_s16"}),
    _x86("avx2", (1, 4, 8), "vec_x86_256.h", "AVX2 FMA", "-mavx2 -mfma",
         {"fma", "rotate", "pairs", "gather", "dot2_s16"}),
    _x86("avx512", (1, 4, 8, 16), "vec_x86_512.h", _512, _512_FLAGS, _512_CAPS),
    _x86("avx512vnni", (1, 4, 8, 16), "vec_x86_512.h", _512 + " AVX512VNNI",
         _512_FLAGS + " -mavx512vnni", {*_512_CAPS, "dot4_u8s8"}),
    Isa("thumbdsp", "arm", 32, (1,), 16, "vec_dsp.h", ("__ARM_FEATURE_DSP", "__thumb2__"),
        ("-mthumb",), frozenset({"dsp"}), integer_registers=13),
    Isa("helium", "arm", 32, (1, 4), 8, "vec_mve.h", ("__ARM_FEATURE_MVE",),
        ("-mthumb", "-march=armv8.1-m.main+mve.fp", "-mfloat-abi=hard"),
        frozenset({"fma", "gather", "mve"}), "arm-mve", integer_registers=13),
    Isa("neon32", "arm", 32, (1, 4), 16, "vec_neon.h", ("__ARM_NEON",),
        ("-mfpu=neon",), frozenset({"lane_fma"}), "arm-128"),
    Isa("neon64", "arm", 64, (1, 4), 32, "vec_neon.h", ("__ARM_NEON", "__aarch64__"), (),
        frozenset({"fma", "lane_fma", "ordered", "byte_table"}), "arm-128"),
    Isa("neon64dot", "arm", 64, (1, 4), 32, "vec_neon.h",
        ("__ARM_NEON", "__aarch64__", "__ARM_FEATURE_DOTPROD"), ("-march=armv8.2-a+dotprod",),
        frozenset({"fma", "lane_fma", "ordered", "dot4_u8s8", "byte_table"}), "arm-128"),
    Isa("neon64half", "arm", 64, (1, 4), 32, "vec_neon.h",
        ("__ARM_NEON", "__aarch64__", "__ARM_FEATURE_DOTPROD", _HALF),
        ("-march=armv8.2-a+dotprod+fp16",),
        frozenset({"fma", "lane_fma", "ordered", "dot4_u8s8", "half", "byte_table"}), "arm-128"),
    Isa("neon64i8mm", "arm", 64, (1, 4), 32, "vec_neon.h",
        ("__ARM_NEON", "__aarch64__", "__ARM_FEATURE_DOTPROD", _HALF, "__ARM_FEATURE_MATMUL_INT8"),
        ("-march=armv8.2-a+dotprod+fp16+i8mm",),
        frozenset({"fma", "lane_fma", "ordered", "dot4_u8s8", "mmla", "half", "byte_table"}),
        "arm-128"),
    Isa("neon64bf16", "arm", 64, (1, 4), 32, "vec_neon.h",
        ("__ARM_NEON", "__aarch64__", "__ARM_FEATURE_DOTPROD", _HALF, "__ARM_FEATURE_MATMUL_INT8",
         "__ARM_FEATURE_BF16_VECTOR_ARITHMETIC"),
        ("-march=armv8.2-a+dotprod+fp16+i8mm+bf16",),
        frozenset({"fma", "lane_fma", "ordered", "dot4_u8s8", "mmla", "half", "bfloat",
                   "byte_table"}), "arm-128"),
    Isa("riscv64v128", "riscv", 64, (1, 4), 32, "vec_rvv.h", _RVV,
        ("-march=rv64gcv", *_RVV_FLAGS), _RVV_CAPS, "riscv-v"),
    Isa("riscv64v256", "riscv", 64, (1, 4, 8), 32, "vec_rvv.h", (*_RVV, "__riscv_zvl256b"),
        ("-march=rv64gcv_zvl256b", *_RVV_FLAGS), _RVV_CAPS | {"pairs"}, "riscv-v"),
)  # fmt: skip

#: Every instruction set by name, from the plainest to the richest within a family.
ISAS = {row.name: row for row in _ROWS}


def isa(name: str) -> Isa:
    """The row called `name`; raises OptionError for an unknown one."""
    try:
        return ISAS[name]
    except KeyError:
        what = f"unknown instruction set {name!r}"
        raise OptionError(what, where="--isa", cure=one_of(name, ISAS)) from None
