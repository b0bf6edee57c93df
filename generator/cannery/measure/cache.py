"""All measurements ever made by a user, so that resuming and retuning are quick.

One JSON file per environment (compiler, flags, device, origin) in the user's cache folder, each
under a lock and replaced as a whole. A damaged file counts as empty, because it is only a cache; so
does one with times taken at another clock.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from cannery import __version__
from cannery.atomic import replace_file
from cannery.target.device import same_clock
from cannery.user_files import unusual
from cannery.user_folders import user_cache


@dataclass(frozen=True)
class Measurement:
    """What is known about a candidate: error against the reference, fault if any, microseconds of
    one call (None: not timed), bytes of machine code, and the microseconds estimated without
    running it (None: not estimated).
    """

    error: float
    fault: str = ""
    us: float | None = None
    code_bytes: int = 0
    estimated_us: float | None = None


@dataclass(frozen=True)
class Environment:
    """What a time depends on besides the code; `device` is `Device.key`."""

    compiler: str
    flags: str
    device: str
    origin: str

    @property
    def key(self) -> str:
        """Sixteen hex digits."""
        return hashlib.sha256(json.dumps(asdict(self)).encode()).hexdigest()[:16]


@dataclass
class MeasurementCache:
    """Measurements of one environment by the candidates' `code_key`.

    `mhz` is the clock at which the device runs now (0: unknown).
    """

    environment: Environment
    folder: Path = field(default_factory=lambda: Path(user_cache(), "measurements"))
    known: dict[str, Measurement] = field(default_factory=dict)
    peak_gflops: float = 0.0
    mhz: float = 0.0

    @property
    def path(self) -> Path:
        return self.folder / f"{self.environment.key}.json"

    def load(self) -> None:
        """Read what is stored."""
        known, peak, mhz = self._read()
        self.known = {**known, **self.known}
        self.peak_gflops = self.peak_gflops or peak
        self.mhz = mhz or self.mhz

    def get(self, key: str) -> Measurement | None:
        """A measurement, if it was ever made."""
        return self.known.get(key)

    def add(self, found: Mapping[str, Measurement]) -> None:
        """Remember measurements, here and on disk; a disk error is ignored."""
        from filelock import FileLock  # `compile` needs none, and would import it for nothing

        self.known.update(found)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with FileLock(str(self.path) + ".lock"):
                self.load()
                content = {
                    "environment": asdict(self.environment),
                    "mhz": self.mhz,
                    "peak_gflops": self.peak_gflops,
                    "measurements": {key: asdict(m) for key, m in sorted(self.known.items())},
                }
                replace_file(self.path, (json.dumps(content, indent=0) + "\n").encode())
        except OSError:
            return

    def _read(self) -> tuple[dict[str, Measurement], float, float]:
        """Measurements, peak, and clock of the file; nothing if the clock differs."""
        if unusual(self.path):  # reading a pipe would never end
            return {}, 0.0, 0.0
        try:
            content: Any = json.loads(self.path.read_bytes())
            mhz = float(content["mhz"])
            if not same_clock(self.mhz, mhz):
                return {}, 0.0, 0.0
            return _known(content["measurements"]), float(content["peak_gflops"]), mhz
        except _DAMAGE:
            return {}, 0.0, 0.0


#: What a damaged file raises.
_DAMAGE = (
    OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError,
    msgspec.ValidationError,
)  # fmt: skip


def _known(rows: object) -> dict[str, Measurement]:
    """The measurements in a file; msgspec.ValidationError if it holds anything else."""
    known = msgspec.convert(rows, dict[str, Measurement])
    return {key: m for key, m in known.items() if _is_time(m.us) and _is_time(m.estimated_us)}


def _is_time(us: float | None) -> bool:
    return us is None or 0.0 <= us < math.inf


def environment_text() -> str:
    """Part of every environment: measurements of other versions do not count."""
    return f"cannery {__version__}"
