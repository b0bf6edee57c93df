"""How a library asks the processor for instruction sets, to choose one at its first call.

x86: gcc's and clang's `__builtin_cpu_supports`. Arm: the kernel's words for the processor, bits of
AT_HWCAP and AT_HWCAP2 (Linux, `Documentation/arch/arm64/elf_hwcaps.rst`), or macOS' `sysctlbyname`.
Elsewhere nobody can be asked, and the plainest instruction set is taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cannery.errors import OptionError
from cannery.target.isa import ISAS, Isa

#: The names in `__builtin_cpu_supports` for the macros of x86 instruction sets.
_X86 = {
    "__SSE2__": "sse2", "__SSSE3__": "ssse3", "__SSE4_2__": "sse4.2", "__AVX2__": "avx2",
    "__FMA__": "fma", "__AVX512F__": "avx512f", "__AVX512VL__": "avx512vl",
    "__AVX512BW__": "avx512bw", "__AVX512DQ__": "avx512dq", "__AVX512VNNI__": "avx512vnni",
}  # fmt: skip


@dataclass(frozen=True)
class ArmFeature:
    """Linux' `word` for what a processor has, its bit of `vector`, and macOS' name of it."""

    word: str
    vector: str
    bit: int
    apple: str = ""


#: By bits of pointers and macro; processors with 64 bits always have NEON.
_ARM = {
    (32, "__ARM_NEON"): ArmFeature("neon", "AT_HWCAP", 12),
    (64, "__ARM_FEATURE_FP16_VECTOR_ARITHMETIC"): ArmFeature(
        "asimdhp", "AT_HWCAP", 10, "hw.optional.arm.FEAT_FP16"
    ),
    (64, "__ARM_FEATURE_DOTPROD"): ArmFeature(
        "asimddp", "AT_HWCAP", 20, "hw.optional.arm.FEAT_DotProd"
    ),
    (64, "__ARM_FEATURE_MATMUL_INT8"): ArmFeature(
        "i8mm", "AT_HWCAP2", 13, "hw.optional.arm.FEAT_I8MM"
    ),
    (64, "__ARM_FEATURE_BF16_VECTOR_ARITHMETIC"): ArmFeature(
        "bf16", "AT_HWCAP2", 14, "hw.optional.arm.FEAT_BF16"
    ),
}


def arm_features(isas: Sequence[Isa]) -> list[ArmFeature]:
    """What Arm's processors must be asked for by a library for these instruction sets."""
    found = [_ARM.get((isa.bits, macro)) for isa in isas for macro in isa.macros]
    return [feature for feature in dict.fromkeys(found) if feature]


def conditions(isa: Isa) -> list[str]:
    """C expressions that are all true where the processor has the instruction set, see
    dispatch.c.j2.
    """
    if isa.family == "x86":
        return [f'__builtin_cpu_supports("{_X86[macro]}")' for macro in isa.macros]
    return [f"has_{feature.word}()" for feature in arm_features([isa])] or ["1"]


def check_isas(isas: Sequence[Isa]) -> tuple[Isa, ...]:
    """The instruction sets from the richest to the plainest.

    Raises OptionError if the processor cannot be asked for them, or one is given twice.
    """
    names = [isa.name for isa in isas]
    if len(set(names)) != len(names):
        raise OptionError(f"instruction set given twice: {', '.join(names)}", where="--isa")
    kinds = [_kind(isa) for isa in isas if isa.family != "any"]
    if not all(kinds) or len(set(kinds)) > 1:
        raise OptionError(
            f"no processor can be asked which of {', '.join(names)} it has",
            where="--isa",
            cure="give one, or several of x86, of 64-bit Arm, or of 32-bit Arm with NEON",
        )
    rank = {name: k for k, name in enumerate(ISAS)}
    return tuple(sorted(isas, key=lambda isa: -rank[isa.name]))


def _kind(isa: Isa) -> str:
    """The processors between whose instruction sets code can choose; empty: none."""
    if isa.family == "x86":
        return "x86"
    asked = isa.family == "arm" and (isa.bits == 64 or arm_features([isa]))
    return f"Arm {isa.bits}" if asked else ""
