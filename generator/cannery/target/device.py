"""What programs run on, according to themselves: a processor, its kernel, emulated or not.

`measure/device.h` prints the line that this module reads. Devices are not trusted: anything they
print becomes a `Device`, or one error.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from cannery.errors import ToolchainError
from cannery.target.parts import ARM_PARTS, Processor

#: How much longer than an addition other operations take, in the geometric mean: on processors 3 to
#: 9 (with slow floats), under QEMU 18 to 45, because it calls a function for each.
EMULATED_RATIO = 12.0

#: The least cycles of its own clock that a processor takes for one addition in a chain.
LEAST_CYCLES = 0.2

#: MHz that no microcontroller reaches; only their programs count the processor's cycles.
MOST_MHZ = 1500.0

#: Factor between two clocks that count as the same: clocks rise and fall with load and heat.
SAME_CLOCK = 1.5

#: What a hypervisor's CPUID leaf says if instructions are translated.
_TRANSLATORS = {"TCGTCGTCGTCG": "QEMU", "FEXIFEXIEMU": "FEX", "VirtualApple": "Rosetta"}

_HYPERVISORS = {
    "KVMKVMKVM": "KVM", "Microsoft Hv": "Hyper-V", "VMwareVMware": "VMware", "XenVMMXenVMM": "Xen"
}  # fmt: skip

_EMULATOR = re.compile(r"qemu-(i386|x86_64|arm|aarch64|riscv|mips|ppc|s390x|loongarch|sparc)")

Text = Annotated[str, Meta(max_length=160, pattern=r"^[ -~]*\Z")]
Number = Annotated[int, Meta(ge=0, lt=2**32)]
Time = Annotated[float, Meta(ge=0)]


class Device(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The line of a program.

    `vendor`, `family`, `model`, `revision` are CPUID's, or on Arm the implementer, 0, the part, and
    variant and patch as hexadecimal digits; `vendor` is empty if unknown. `kernel_says` is the
    processor that the kernel names if it differs, `boot` a number drawn at each boot, `core` where
    the program stays (-1: unknown). Times of one operation are in `unit`s, 0 if not measured: an
    integer addition, `multiply` and addition of floats, `convert` between both, a `call`. `mhz` is
    the clock at which the processor adds.
    """

    arch: Literal["x86", "arm", "other"]
    vendor: Text
    family: Number
    model: Number
    revision: Number
    name: Text
    features: Text
    hypervisor: Text
    system: Text
    release: Text
    machine: Text
    process: Text
    kernel_says: Text
    boot: Text
    unit: Literal["ns", "cycle"]
    core: Annotated[int, Meta(ge=-1, lt=2**16)]
    add: Time
    multiply: Time
    convert: Time
    call: Time
    mhz: Annotated[float, Meta(ge=0, lt=1e6)]

    @property
    def title(self) -> str:
        """The processor, for people."""
        part = ARM_PARTS.get((self.vendor, self.model), "") if self.arch == "arm" else ""
        return " ".join(self.name.split()) or part or self.part

    @property
    def part(self) -> str:
        """The processor's own identification."""
        if not self.vendor:
            return f"unknown {self.arch} processor"
        if self.arch == "arm":
            variant, patch = divmod(self.revision, 16)
            return f"{self.vendor} part {self.model:#05x} r{variant}p{patch}"
        return f"{self.vendor} family {self.family} model {self.model} stepping {self.revision}"

    @property
    def kernel(self) -> str:
        """The system, its version without patches, and its machine; empty if there is none."""
        version = re.match(r"\d+(\.\d+)?", self.release)
        return " ".join(filter(None, (self.system, version[0] if version else "", self.machine)))

    @property
    def virtual(self) -> str:
        """The hypervisor's name; empty if the processor reports none."""
        if self.emulated:
            return ""
        return _HYPERVISORS.get(self.hypervisor, self.hypervisor)

    @property
    def emulated(self) -> str:
        """How a program knows that its instructions are translated; empty if they are not."""
        for text in (self.hypervisor, self.vendor):
            if text in _TRANSLATORS:
                return f"its CPUID names {_TRANSLATORS[text]}"
        if self.kernel_says:
            return f"its kernel runs on {self.kernel_says}"
        if found := _EMULATOR.match(self.process):
            return f"it runs within {found[0]}"
        return "simple instructions take as long as function calls" if self.translates else ""

    @property
    def translates(self) -> bool:
        """Whether times are those of a translator: additions are free, everything else is slow."""
        if self.unit == "cycle":
            return (self.call > 0 and self.add < LEAST_CYCLES) or self.mhz > MOST_MHZ
        slow = [t / self.add for t in (self.multiply, self.convert, self.call) if t and self.add]
        return bool(slow) and math.prod(slow) ** (1 / len(slow)) >= EMULATED_RATIO

    def as_dict(self) -> dict[str, object]:
        """For users; an emulator has no clock."""
        return {
            "cpu": self.title, "part": self.part, "features": self.features.split(),
            "system": self.kernel, "hypervisor": self.virtual,
            "mhz": 0.0 if self.emulated else self.mhz, "emulated": self.emulated,
        }  # fmt: skip

    @property
    def processor(self) -> tuple[object, ...]:
        """What similar devices have in common."""
        return self.arch, self.vendor, self.family, self.model, self.name, self.features

    @property
    def key(self) -> str:
        """What times depend on, as text that is the same in every run."""
        where = (self.part, self.name, self.features, self.virtual, self.kernel)
        return " / ".join((*where, "emulated" if self.emulated else ""))

    @property
    def lock(self) -> str:
        """The core of one machine, however it is reached; empty if unknown."""
        return f"{self.boot} {self.core}" if self.boot and not self.emulated else ""

    def is_one_of(self, processors: Iterable[Processor]) -> bool:
        """Whether the device is one of these processors."""
        return any(
            (self.vendor, self.family) == (p.vendor, p.family) and self.model in p.models
            for p in processors
        )


def same_clock(one: float, other: float) -> bool:
    """Whether two measured clocks may be the same; an unknown one (0) matches any."""
    return not one or not other or 1 / SAME_CLOCK <= one / other <= SAME_CLOCK


def read_device(lines: Iterable[Mapping[str, Any]], *, where: str, cure: str) -> Device:
    """The device among the lines of a program; raises ToolchainError for anything else."""
    found = [line["device"] for line in lines if "device" in line]
    if len(found) != 1:
        times = "twice or more" if found else "not"
        raise ToolchainError(
            f"the program did {times} report what it runs on", where=where,
            cure=f"{cure}; an older program of the same name reports nothing",
        )  # fmt: skip
    try:
        device = msgspec.convert(found[0], Device)
    except (msgspec.ValidationError, ValueError) as error:
        what = f"damaged report of what the program runs on: {printable(str(error))}"
        raise ToolchainError(what, where=where, cure=cure) from None
    numbers = (device.add, device.multiply, device.convert, device.call, device.mhz)
    if not all(math.isfinite(n) for n in numbers):
        what = "damaged report of what the program runs on: a time that is not a number"
        raise ToolchainError(what, where=where, cure=cure)
    return device


def printable(text: str) -> str:
    """What a device sent, for a message: at most 200 characters, none that moves the cursor."""
    return "".join(c if c.isprintable() else "?" for c in text)[:200]
