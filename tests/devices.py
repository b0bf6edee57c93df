"""What programs say of devices, for tests: lines as `device.h` prints them."""

from __future__ import annotations

from typing import Any

import msgspec

from cannery.target.device import Device

#: A server, seen by the guest of a hypervisor.
EPYC: dict[str, Any] = {
    "arch": "x86", "vendor": "AuthenticAMD", "family": 25, "model": 17, "revision": 1,
    "name": "AMD EPYC", "hypervisor": "KVMKVMKVM",
    "features": "sse2 ssse3 sse4_2 movbe popcnt rdrand 3dnowprefetch avx fma avx2",
    "system": "Linux", "release": "6.18.44-fc", "machine": "x86_64", "process": "harness",
    "kernel_says": "", "boot": "945ef879", "unit": "ns", "core": 3,
    "add": 0.27, "multiply": 0.81, "convert": 0.81, "call": 1.1, "mhz": 3700.0,
}  # fmt: skip

#: A robot's processor: Atom E3845.
SILVERMONT = EPYC | {
    "vendor": "GenuineIntel", "family": 6, "model": 0x37, "revision": 9, "hypervisor": "",
    "name": "Intel(R) Atom(TM) CPU  E3845  @ 1.91GHz", "release": "4.4.86-rt99",
    "features": "sse2 ssse3 sse4_2 movbe popcnt rdrand 3dnowprefetch",
    "add": 0.53, "multiply": 2.4, "convert": 2.2, "call": 3.1, "mhz": 1900.0,
}  # fmt: skip

CORTEX_A72 = EPYC | {
    "arch": "arm", "vendor": "0x41", "family": 0, "model": 0xD08, "revision": 3, "name": "",
    "hypervisor": "", "features": "asimd", "release": "6.1.21-v8+", "machine": "aarch64",
    "add": 0.67, "multiply": 2.4, "convert": 2.1, "call": 2.0, "mhz": 1500.0,
}  # fmt: skip

CORTEX_M7 = CORTEX_A72 | {
    "model": 0xC27, "revision": 0x12, "features": "", "system": "", "release": "", "machine": "",
    "process": "", "boot": "", "core": -1, "unit": "cycle",
    "add": 1.01, "multiply": 3.0, "convert": 3.0, "call": 5.2, "mhz": 400.0,
}  # fmt: skip


def device(line: dict[str, Any], **changes: Any) -> Device:
    """What is read from a line."""
    return msgspec.convert({**line, **changes}, Device)
