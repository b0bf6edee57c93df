"""What a tuning record says about the device on which its times were taken."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from cannery.target.device import Device, same_clock


class RecordedDevice(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A `Device` without the parts that change on their own.

    `mhz` is rounded to two digits, and 0 for an emulator; `emulated` says how that was recognised,
    and is empty for a processor.
    """

    cpu: str
    part: str
    features: str
    system: str
    mhz: Annotated[int, Meta(ge=0)]
    emulated: str = ""

    def is_like(self, other: RecordedDevice) -> bool:
        """Whether both are the same kind of processor, at about the same clock."""
        return same_clock(self.mhz, other.mhz) and (
            (self.cpu, self.part, self.features, self.emulated)
            == (other.cpu, other.part, other.features, other.emulated)
        )


def recorded_device(device: Device, old: RecordedDevice | None) -> RecordedDevice:
    """The device as it is recorded: the old one if that is similar."""
    mhz = 0 if device.emulated else round(float(f"{device.mhz:.2g}"))
    system = ", ".join(filter(None, (device.kernel, device.virtual)))
    now = RecordedDevice(
        device.title, device.part, device.features, system, mhz, device.emulated
    )  # fmt: skip
    return old if old is not None and old.is_like(now) else now
