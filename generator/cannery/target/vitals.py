"""How a device is: clock, governor, load and temperature, and whether it slowed itself down.

Read from /sys and /proc by a few words of shell around each program. Many devices have none of it;
then nothing is known.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

#: Words of shell that print one line per file, `@before PATH TEXT`; the moment is their argument.
READ_VITALS = (
    "for f in /proc/loadavg /sys/devices/system/cpu/cpu{core}/cpufreq/scaling_*_freq "
    "/sys/devices/system/cpu/cpu{core}/cpufreq/scaling_governor "
    "/sys/devices/system/cpu/cpu{core}/thermal_throttle/*_throttle_count "
    "/sys/class/thermal/thermal_zone*/temp /sys/class/thermal/thermal_zone*/trip_point_*_t*; "
    'do [ -r "$f" ] && read -r x 2>/dev/null <"$f" && echo "@$1 $f $x"; done'
)

_LINE = re.compile(r"@(before|after) (/\S{1,200}) (.{0,100})")
_TRIP = re.compile(r"(.*)/trip_point_(\d+)_type")

#: Most files of a device that are looked at.
_MAX_FILES = 1000


@dataclass(frozen=True)
class Vitals:
    """What the files of a device said, by path."""

    files: Mapping[str, str] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """For people, `at most 1900 MHz, governor powersave, load 0.42, 61 degrees`."""
        load = self.files.get("/proc/loadavg", "").partition(" ")[0]
        governor = self._named("scaling_governor")
        hottest = max((t for _, t in self._temperatures()), default=None)
        words = [
            f"at most {self.most_khz / 1000:.0f} MHz" if self.most_khz else "",
            f"governor {governor}" if governor.isalnum() else "",
            f"load {load}" if re.fullmatch(r"\d+\.\d+", load) else "",
            f"{hottest:.0f} degrees" if hottest is not None else "",
        ]
        return ", ".join(filter(None, words))

    @property
    def most_khz(self) -> int:
        """The clock that the processor may have now; 0 if unknown."""
        return _number(self._named("scaling_max_freq"))

    @property
    def throttles(self) -> int:
        """How often the processor was slowed down since it booted, as far as it counts that."""
        return sum(_number(v) for p, v in self.files.items() if p.endswith("_throttle_count"))

    @property
    def tripped(self) -> str:
        """A sensor as hot as where its processor is slowed down; empty if there is none."""
        sensors = dict(self._temperatures())
        for path, kind in self.files.items():
            trip = _TRIP.fullmatch(path)
            if trip and kind in ("passive", "hot"):
                limit = _number(self.files.get(f"{trip[1]}/trip_point_{trip[2]}_temp", "")) / 1000
                if limit and sensors.get(trip[1], 0.0) >= limit:
                    return f"{sensors[trip[1]]:.0f} degrees, and slows down from {limit:.0f}"
        return ""

    def _named(self, name: str) -> str:
        return next((v for p, v in self.files.items() if p.endswith(f"/{name}")), "")

    def _temperatures(self) -> list[tuple[str, float]]:
        """Degrees by sensor; what no processor has, a sensor out of order, is left out."""
        found = [
            (path.removesuffix("/temp"), _number(text) / 1000)
            for path, text in self.files.items() if path.endswith("/temp")
        ]  # fmt: skip
        return [(path, degrees) for path, degrees in found if 0 < degrees < 150]


def read_vitals(text: str) -> tuple[Vitals, Vitals]:
    """How the device was before and after a program, from what it printed."""
    found: dict[str, dict[str, str]] = {"before": {}, "after": {}}
    for line in text.splitlines():
        match = _LINE.fullmatch(line) if line.startswith("@") else None
        if match and len(found[match[1]]) < _MAX_FILES:
            found[match[1]][match[2]] = match[3]
    return Vitals(found["before"]), Vitals(found["after"])


def throttled(before: Vitals, after: Vitals) -> str:
    """Why times taken in between are not those of the processor; empty if nothing is known."""
    if 0 < after.most_khz < before.most_khz:
        least, most = (v.most_khz / 1000 for v in (after, before))
        return f"its clock may be {least:.0f} MHz now, and was {most:.0f}"
    if after.throttles > before.throttles:
        return "it got too hot, and was slowed down"
    if after.tripped and not before.tripped:
        return f"it has {after.tripped}"
    return ""


def _number(text: str) -> int:
    return int(text) if re.fullmatch(r"\d{1,12}", text) else 0
