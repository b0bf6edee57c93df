"""The per-user cache of measurements."""

from __future__ import annotations

import multiprocessing
import os
from dataclasses import fields, replace
from pathlib import Path

import pytest

from cannery.atomic import replace_file
from cannery.measure.cache import Environment, Measurement, MeasurementCache
from cannery.user_folders import user_cache

HERE = Environment("gcc 12", "-O2", "a device", "device")


def cache(folder: Path, environment: Environment = HERE) -> MeasurementCache:
    made = MeasurementCache(environment, folder)
    made.load()
    return made


def test_remembers(tmp_path: Path) -> None:
    found = {"a": Measurement(1e-7, "", 1.25, 300), "b": Measurement(0.5, "wrote outside")}
    first = cache(tmp_path)
    first.peak_gflops = 99.0
    first.add(found)
    again = cache(tmp_path)
    assert again.known == found
    assert again.peak_gflops == 99.0
    assert again.get("c") is None


@pytest.mark.parametrize("name", [f.name for f in fields(Environment)])
def test_environments_are_apart(tmp_path: Path, name: str) -> None:
    cache(tmp_path).add({"a": Measurement(0.0, "", 1.0)})
    assert cache(tmp_path, replace(HERE, **{name: "another"})).known == {}
    assert set(cache(tmp_path).known) == {"a"}


def test_another_clock_is_another_device(tmp_path: Path) -> None:
    def at(mhz: float) -> MeasurementCache:
        made = MeasurementCache(HERE, tmp_path, mhz=mhz)
        made.load()
        return made

    at(1500).add({"a": Measurement(0.0, "", 1.0)})
    assert set(at(1800).known) == set(at(1200).known) == set(at(0).known) == {"a"}
    assert at(1800).mhz == 1500, "as it was first"
    throttled = at(600)
    assert throttled.known == {}
    throttled.add({"b": Measurement(0.0, "", 2.5)})
    assert set(at(600).known) == {"b"}
    assert at(1500).known == {}


def test_damage_is_forgotten(tmp_path: Path) -> None:
    one = cache(tmp_path)
    one.add({"a": Measurement(0.0, "", 1.0)})
    whole = one.path.read_bytes()
    garbage = (b"", b"{", whole[:-20], b"[]", b"\xff", bytes(range(256)), b"[" * 10**5)
    wrong = (b'{"bad": 1}', b'{"error": "0"}', b'{"error": 0, "us": "1"}',
             b'{"error": 0, "us": NaN}', b"null", b"[]", b'{"error": 0, "fault": 3}')  # fmt: skip
    rows = (b'{"mhz": 0, "peak_gflops": 1, "measurements": {"a": %s}}' % row for row in wrong)
    peaks = (whole.replace(b'"peak_gflops": 0.0', b'"peak_gflops": %s' % p)
             for p in (b"null", b"[]", b"1" * 400, b'"x"'))  # fmt: skip
    absent = (b"{}", b'{"mhz": 0}', b'{"mhz": 0, "peak_gflops": 0}', b'{"measurements": {}}')
    for text in (*garbage, *rows, *peaks, *absent):
        one.path.write_bytes(text)
        assert cache(tmp_path).known == {}
        cache(tmp_path).add({"b": Measurement(0.0, "", 2.0)})
        assert set(cache(tmp_path).known) == {"b"}


def _add(folder: Path, number: int) -> None:
    for k in range(5):
        cache(folder).add({f"{number}.{k}": Measurement(0.0, "", 1.0)})


def test_processes_lose_nothing_of_each_other(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_add, args=(tmp_path, k)) for k in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0
    assert len(cache(tmp_path).known) == 15


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    made = MeasurementCache(HERE, blocked / "inside")
    made.load()
    made.add({"a": Measurement(0.0, "", 1.0)})
    assert made.get("a") == Measurement(0.0, "", 1.0)


@pytest.mark.parametrize("suffix", ["", ".lock"])
def test_a_folder_in_the_way_is_no_error(tmp_path: Path, suffix: str) -> None:
    made = cache(tmp_path)
    made.path.with_name(made.path.name + suffix).mkdir()
    made.add({"a": Measurement(0.0, "", 1.0)})
    assert made.get("a") == Measurement(0.0, "", 1.0)
    assert cache(tmp_path).known == {}


def test_a_pipe_in_the_way_is_replaced(tmp_path: Path) -> None:
    """Nobody writes to it: whoever opened it to read would wait for ever."""
    first = cache(tmp_path)
    os.mkfifo(first.path)
    first.add({"a": Measurement(0.0, "", 1.0)})
    assert first.path.is_file()
    assert set(cache(tmp_path).known) == {"a"}


def test_replace_leaves_nothing_behind(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    for text in ("one", "two"):
        replace_file(path, text.encode())
        assert path.read_text() == text
    assert [p.name for p in tmp_path.iterdir()] == ["x.json"]


def test_a_user_without_a_home_has_no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """As one in a container whom the system does not know."""
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr("os.path.expanduser", lambda path: path)
    made = MeasurementCache(HERE)
    made.load()
    made.add({"k": Measurement(1e-7, "", 1.0)})
    again = MeasurementCache(HERE)
    again.load()
    assert again.known == {}
    with pytest.raises(OSError):
        Path(user_cache()).mkdir(parents=True)
