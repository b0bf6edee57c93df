"""Tuning on devices over ssh: several share it, and connections break and are slow."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

import cannery
from cannery.choose.record import read_record
from cannery.cli import invoke
from cannery.errors import CanneryWarning, ToolchainError
from cannery.measure.build import Built
from cannery.measure.cache import Measurement
from cannery.measure.measure import Protocol, Timing
from cannery.options import make_options
from cannery.target import remote as remote_module
from cannery.target.runner import Origin, Runner
from cannery.tuning import alike
from cannery.tuning.alike import time_scales
from cannery.tuning.contests import Contest
from cannery.tuning.outcome import Outcome, Settings
from cannery.tuning.search import Quiet
from cannery.tuning.tuner import tune
from needs import need_toolchain
from ssh_server import Server, ssh_device, write_devices
from tiny_models import write_tiny_dense, write_tiny_model


@pytest.fixture
def devices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ExitStack]:
    """A folder with a model and a cache of its own, where devices can be started."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    write_tiny_dense(tmp_path / "tiny.h5")
    with ExitStack() as stack:
        yield stack


def tuned(folder: Path, name: str, progress: Quiet | None = None) -> Outcome:
    options = make_options(folder / "tiny.h5", {"device": name})
    return tune(options, Settings(), progress)


def test_two_devices_share_a_tuning(
    devices: ExitStack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    servers = [devices.enter_context(ssh_device(tmp_path, name)) for name in ("nao1", "nao2")]
    write_devices(tmp_path, monkeypatch, *servers, extra='[naos]\ndevices = ["nao1", "nao2"]\n')
    write_tiny_model(tmp_path / "tiny.h5")
    outcome = tuned(tmp_path, "naos")
    assert outcome.served
    record = read_record(outcome.path)
    assert record is not None
    one, other = (server.line for server in servers)
    assert one.connections == other.connections == 1
    assert other.sent > 50_000, "it measured, too"
    assert [server.left for server in servers] == [[], []]


def test_times_of_devices_are_made_comparable(monkeypatch: pytest.MonkeyPatch) -> None:
    times = {"a": 2.0, "b": 4.0, "c": 2.1}
    asked: list[list[str]] = []

    def measure(
        built: Built, runner: Runner, protocol: Protocol, where: list[str]
    ) -> Mapping[str, Timing]:
        asked.append(where)
        return {"candidate": Timing(times[runner.command[0]], 0.0, 1)}

    monkeypatch.setattr(alike, "measure", measure)
    runners = [Runner((name,), Origin.DEVICE) for name in times]
    built: Built = None  # type: ignore[assignment]  # what it would be is not looked at
    with pytest.warns(CanneryWarning, match="--runner b takes 2.00 times as long as --runner a"):
        scales = time_scales(built, runners, Protocol(), 7)
    assert scales == pytest.approx([1.0, 0.5, 2.0 / 2.1])
    assert asked == [["--from", "7", "--to", "8"]] * 3


class _Breaks(Quiet):
    """Cuts the line when the first contest is decided."""

    def __init__(self, server: Server) -> None:
        self.server = server

    def decided(self, contest: Contest, found: Mapping[str, Measurement]) -> None:
        self.server.line.refuses = True
        self.server.line.cut()


def known(folder: Path) -> int:
    """How many candidates the cache knows of the device; another file is of rounding."""
    files = map(Path.read_text, folder.glob("cache/cannery/measurements/*.json"))
    (found,) = (c["measurements"] for c in map(json.loads, files) if c["environment"]["device"])
    return len(found)


def test_what_was_measured_outlives_a_lost_connection(
    devices: ExitStack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_module, "PAUSES", (0.1, 0.1, 0.1))
    server = devices.enter_context(ssh_device(tmp_path, "nao"))
    write_devices(tmp_path, monkeypatch, server)
    with pytest.raises(ToolchainError, match="the connection was lost") as caught:
        tuned(tmp_path, "nao", _Breaks(server))
    assert "the same command continues" in caught.value.cure
    assert not list(tmp_path.glob("*.tuning.json"))
    server.line.refuses = False
    kept = known(tmp_path)
    rest = tuned(tmp_path, "nao").measured
    assert kept > 0
    assert 0 < rest <= known(tmp_path) - kept
    del caught
    assert server.left == []


def test_a_line_that_breaks_now_and_then_and_is_slow(
    devices: ExitStack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = devices.enter_context(ssh_device(tmp_path, "nao"))
    write_devices(tmp_path, monkeypatch, server)
    server.line.cuts = [20_000, 30_000]
    server.line.rate = 500_000.0
    outcome = tuned(tmp_path, "nao")
    assert outcome.served
    assert any(note.startswith("--device nao: ") and "load" in note for note in outcome.notes)
    assert server.line.connections == 3
    assert server.left == []


def test_another_family_is_an_error_before_anything_is_built(
    devices: ExitStack,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    need_toolchain("aarch64-a53")
    fake = tmp_path / "fake"
    fake.mkdir()
    (fake / "uname").write_text("#!/bin/sh\necho riscv64\n")
    (fake / "uname").chmod(0o755)
    wrapper = f"PATH={fake}:$PATH; export PATH"
    server = devices.enter_context(
        ssh_device(tmp_path, "board", wrapper=wrapper, extra='target = "aarch64-a53"')
    )
    write_devices(tmp_path, monkeypatch, server)
    assert invoke(["autotune", str(tmp_path / "tiny.h5"), "--device", "board"]) == 2
    told = capsys.readouterr().err
    assert "it is riscv64, so programs for aarch64-a53 do not run there" in told
    assert server.line.sent < 20_000, "no program was sent"


def test_other_commands_run_there(
    devices: ExitStack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = devices.enter_context(ssh_device(tmp_path, "nao"))
    write_devices(tmp_path, monkeypatch, server)
    model = str(tmp_path / "tiny.h5")
    found = cannery.verify(model, device="nao", layers=True)
    assert found.passed
    assert found.origin == "device"
    np.savez(tmp_path / "in.npz", image=np.ones((1, 8), np.float32))
    inputs = ["--inputs", str(tmp_path / "in.npz"), "-o", str(tmp_path / "out.npz")]
    assert invoke(["run", model, *inputs, "--device", "nao"]) == 0
    assert np.load(tmp_path / "out.npz")["scores"].shape == (1, 4)
    assert invoke(["bench", model, "--seconds", "0.05", "--device", "nao"]) == 0
    assert server.line.connections == 3
    off = '[off]\naddress = "ssh:nobody@127.0.0.1:1"\n[both]\ndevices = ["nao", "off"]\n'
    write_devices(tmp_path, monkeypatch, server, extra=off)
    assert cannery.verify(model, device="both").passed, "only the first is connected to"
    assert server.left == []
