"""Processors, by how they identify themselves."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Processor:
    """Similar cores: CPUID's vendor, family and models; on Arm the implementer, 0, and the
    parts.
    """

    vendor: str
    family: int
    models: tuple[int, ...]


def intel(*models: int) -> Processor:
    """Intel's cores of family 6."""
    return Processor("GenuineIntel", 6, models)


def amd(family: int, *models: int) -> Processor:
    """AMD's cores of a family."""
    return Processor("AuthenticAMD", family, models)


def arm(*parts: int) -> Processor:
    """Arm's own cores."""
    return Processor("0x41", 0, parts)


def apple(*parts: int) -> Processor:
    """Apple's cores."""
    return Processor("0x61", 0, parts)


#: Names of Arm's parts by implementer and part number (main identification register), from Arm's
#: technical reference manuals; Apple's from `arch/arm64/include/asm/cputype.h` in Linux.
ARM_PARTS = {
    **{("0x41", part): f"Arm {name}" for part, name in {
        0xB76: "ARM1176", 0xC05: "Cortex-A5", 0xC07: "Cortex-A7", 0xC08: "Cortex-A8",
        0xC09: "Cortex-A9", 0xC0E: "Cortex-A17", 0xC0F: "Cortex-A15", 0xC20: "Cortex-M0",
        0xC23: "Cortex-M3", 0xC24: "Cortex-M4", 0xC27: "Cortex-M7", 0xC60: "Cortex-M0+",
        0xD01: "Cortex-A32", 0xD03: "Cortex-A53", 0xD04: "Cortex-A35", 0xD05: "Cortex-A55",
        0xD06: "Cortex-A65", 0xD07: "Cortex-A57", 0xD08: "Cortex-A72", 0xD09: "Cortex-A73",
        0xD0A: "Cortex-A75", 0xD0B: "Cortex-A76", 0xD0C: "Neoverse-N1", 0xD0D: "Cortex-A77",
        0xD0E: "Cortex-A76AE", 0xD20: "Cortex-M23", 0xD21: "Cortex-M33", 0xD22: "Cortex-M55",
        0xD23: "Cortex-M85", 0xD40: "Neoverse-V1", 0xD41: "Cortex-A78", 0xD42: "Cortex-A78AE",
        0xD44: "Cortex-X1", 0xD46: "Cortex-A510", 0xD47: "Cortex-A710", 0xD48: "Cortex-X2",
        0xD49: "Neoverse-N2", 0xD4B: "Cortex-A78C", 0xD4C: "Cortex-X1C", 0xD4D: "Cortex-A715",
        0xD4E: "Cortex-X3", 0xD4F: "Neoverse-V2", 0xD80: "Cortex-A520", 0xD81: "Cortex-A720",
        0xD82: "Cortex-X4",
    }.items()},
    ("0x42", 0x00F): "Broadcom Brahma-B15", ("0x46", 0x001): "Fujitsu A64FX",
    ("0x48", 0xD01): "HiSilicon TaiShan v110", ("0x4e", 0x003): "NVIDIA Denver 2",
    ("0x4e", 0x004): "NVIDIA Carmel", ("0x51", 0x800): "Qualcomm Kryo 2xx Gold",
    ("0x51", 0x801): "Qualcomm Kryo 2xx Silver",
    **{("0x61", part): f"Apple {name}" for part, name in {
        0x022: "M1 Icestorm", 0x023: "M1 Firestorm", 0x024: "M1 Pro Icestorm",
        0x025: "M1 Pro Firestorm", 0x028: "M1 Max Icestorm", 0x029: "M1 Max Firestorm",
        0x032: "M2 Blizzard", 0x033: "M2 Avalanche", 0x034: "M2 Pro Blizzard",
        0x035: "M2 Pro Avalanche", 0x038: "M2 Max Blizzard", 0x039: "M2 Max Avalanche",
    }.items()},
}  # fmt: skip
