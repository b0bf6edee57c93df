"""Boards, robots and chips by name, and the target for each.

Patterns match the beginning of a name in lower case, the first that fits; CMake understands them.
"""

#: What a name means: a target, and where one name has several boards, which is for which.
NAMED = (
    (r"zen-?4|znver4|genoa|bergamo", "zen4"),
    (r"ryzen|epyc|threadripper|zen|znver",
     "zen4 for a Ryzen 7000 or 8000 and an EPYC 9004, avx2 for those before"),
    (r"nao", "silvermont for a NAO V6, atom32 for a V5"),
    (r"ras[pb]|raps|rpi|pi-?[2345]",
     "aarch64-a53 for a Raspberry Pi 3 or Zero 2, aarch64-a72 for a 4, aarch64-a76 for a 5, "
     "armv7-a7 for a 2"),
    (r"(jetson-?)?((agx|nx)-?)?xavier|carmel", "neon64"),
    (r"jetson-?(agx-?)?orin|orin|booster|unitree", "aarch64-a78"),
    (r"jetson-?(nano|tx)", "aarch64-a57"),
    (r"jetson|tegra",
     "aarch64-a78 for an Orin, neon64 for a Xavier, aarch64-a57 for a Nano, TX1 or TX2"),
    (r"rk3588|orange-?pi-?5|rock-?5", "aarch64-a76"),
    (r"rk356|rock-?3|quartz64", "aarch64-a55"),
    (r"rk3399|rock-?(pi-?)?4|rockpro", "aarch64-a72"),
    (r"odroid",
     "armv7-a15 for an XU4, aarch64-a53 for a C2, aarch64-a55 for a C4, HC4 or M1, aarch64-a72 "
     "for an N2"),
    (r"beagle-?bone-?ai-?64|tda4", "aarch64-a72"),
    (r"beagle-?bone-?ai|am57", "armv7-a15"),
    (r"beagle-?play|am6[24]", "aarch64-a53"),
    (r"beagle|am335", "armv7-a8"),
    (r"coral|edge-?tpu", "aarch64-a53"),
    (r"i?[.]?mx-?6", "armv7-a9"),
    (r"i?[.]?mx-?7|stm32mp1", "armv7-a7"),
    (r"i?[.]?mx-?8", "aarch64-a53"),
    (r"i?[.]?mx-?9", "aarch64-a55"),
    (r"zynq-?(ultra|mp)|zcu|kria|kv260", "aarch64-a53"),
    (r"zynq|zedboard|pynq|cyclone-?v|de10", "armv7-a9"),
    (r"graviton|aws|altra|ampere",
     "neoverse-n1 for a Graviton 2 or an Altra, neoverse-v1 for a Graviton 3 or later, "
     "aarch64-a72 for the first"),
    (r"neoverse-?n", "neoverse-n1"),
    (r"neoverse", "neoverse-v1"),
    (r"apple|mac|m[1-5]$", "apple-m1"),
    (r"(aarch64|arm64|armv8)(-?a)?$", "neon64, which every Arm v8-A runs"),
    (r"armv7(-?a|l|hf)?$|armhf|armel",
     "neon32, which every Arm v7-A with NEON runs"),
    (r"bonnell|atom|i[3-6]86", "atom32, or sse2-32, which every 32-bit PC runs"),
    (r"(x86|amd64|x64)([-_]64)?$", "sse2, which every PC runs, or native for this one"),
    (r"stm32[fh]7|teensy-?4|(arm-?)?cortex-?m7", "cortex-m7"),
    (r"stm32[fgl]4|nrf52|(arm-?)?cortex-?m4", "cortex-m4"),
    (r"esp32-?p4|ch32v30|(risc-?v|rv)-?32-?(g|i?ma?f)", "riscv32imafc"),
    (r"esp32-?[ch][1-9]|ch32v[12]|gd32v|hazard3|rp2350-?(riscv|hazard)|(risc-?v|rv)-?32-?i?m",
     "riscv32imc"),
    (r"(risc-?v|rv)-?32$", "riscv32imc, or riscv32imafc if it has an FPU"),
    (r"stm32[ul]5|nrf(53|91)|rp2350|pico-?2|(arm-?)?cortex-?m33", "cortex-m33"),
    (r"(arm-?)?cortex-?m(55|85)", "cortex-m55"),
    (r"stm32[fl]1|(arm-?)?cortex-?m3$", "cortex-m3"),
    (r"rp2|pico|stm32[flg]0|(arm-?)?cortex-?m0", "cortex-m0plus"),
    (r"spacemit|banana-?pi-?f3", "riscv64v256"),
    (r"(risc-?v|rv)-?64|risc-?v$|sifive|visionfive",
     "riscv64, or riscv64v128 or riscv64v256 if it has the V extension, by the width of its "
     "registers"),
    (r"esp|rp2|stm32|nrf|avr|arduino|teensy|xtensa|risc|rv(32|64)|cortex-?m|mips|power|wasm",
     "any, with the chip's compiler and flags by --cc, or in CMake by your toolchain file"),
)  # fmt: skip
