"""What is killed besides commands: functions of texts, called by `killer.py`."""

from __future__ import annotations

from pathlib import Path

from cannery.choose.record import FORMAT, Record, write_record
from cannery.measure.cache import Environment, Measurement, MeasurementCache

HERE = Environment("gcc 12", "-O2", "a cpu", "device")


def measured(folder: str, *keys: str) -> None:
    """Measurements in a cache, one after the other."""
    for key in keys:
        cache = MeasurementCache(HERE, Path(folder))
        cache.add({key: Measurement(0.0, "", 1.5)})


def recorded(path: str, model: str) -> None:
    """A record without steps."""
    record = Record(FORMAT, "0.1.0", model, "generic", "generic", 64, "k", {}, [])
    write_record(Path(path), record)
