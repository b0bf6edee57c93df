"""Devices over ssh: programs sent once, connections that break, devices that are not alike."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from cannery.devices import find_places
from cannery.errors import CanneryWarning, ToolchainError
from cannery.target import link
from cannery.target import remote as remote_module
from cannery.target.adb import Adb
from cannery.target.reach import device_runners
from cannery.target.remote import Remote
from cannery.target.runner import Origin, Runner
from cannery.target.targets import find_target
from devices import CORTEX_A72, device
from needs import need_toolchain
from ssh_server import Server, ssh_device, write_devices

PROGRAM = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    const char *word = getenv("WORD");
    if (argc > 1 && !strcmp(argv[1], "crash")) abort();
    if (argc > 1 && !strcmp(argv[1], "fail")) { fprintf(stderr, "no such layer\n"); return 255; }
    if (argc > 1 && !strcmp(argv[1], "sleep")) { printf("{}\n"); fflush(stdout); sleep(600); }
    printf("a line for people\n{\"args\": %d, \"last\": \"%s\", \"word\": \"%s\"}\n",
           argc - 1, argv[argc - 1], word ? word : "");
    return 0;
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("program")
    (folder / "program.c").write_text(PROGRAM)
    need_toolchain("native").build([folder / "program.c"], folder / "program")
    return folder / "program"


@dataclass
class Servers:
    """Starts devices of a test, each as `nao`."""

    stack: ExitStack
    patch: pytest.MonkeyPatch


@pytest.fixture
def servers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Servers]:
    with ExitStack() as stack:
        yield Servers(stack, monkeypatch)


def start(
    servers: Servers, folder: Path, *, wrapper: str = "", extra: str = "", config: str = ""
) -> Server:
    made = ssh_device(folder, "nao", wrapper=wrapper, extra=extra, config=config)
    server = servers.stack.enter_context(made)
    write_devices(folder, servers.patch, server)
    return server


def reach(folder: Path) -> Remote:
    (place,) = find_places(["nao"], folder / "model.h5")
    return Remote(place)


def runner_of(remote: Remote) -> Runner:
    return Runner((), Origin.DEVICE, remote=remote, timeout=60.0)


def test_programs_run_there_and_nothing_is_left(
    servers: Servers, tmp_path: Path, program: Path
) -> None:
    banner = "echo Welcome to the folder of NAO; echo Do not tickle >&2"
    extra = 'environment = { WORD = "it\'s $HOME" }'
    server = start(servers, tmp_path, wrapper=banner, extra=extra)
    remote = reach(tmp_path)
    runner = runner_of(remote)
    (line,) = runner.run(program, ["a b", 'it\'s "$HOME" *'][:1])
    assert line == {"args": 1, "last": "a b", "word": "it's $HOME"}
    (line,) = runner.run(program, ["", "'$HOME' * ; true"])
    assert line["last"] == "'$HOME' * ; true"
    with pytest.raises(ToolchainError, match=r"program on nao: crashed \(SIGABRT\)"):
        runner.run(program, ["crash"])
    with pytest.raises(ToolchainError, match="failed with exit code 254: no such layer"):
        runner.run(program, ["fail"])
    assert server.line.connections == 1
    (folder,) = server.room.iterdir()
    assert len(list(folder.iterdir())) == 1
    del remote, runner
    assert server.left == []


def test_a_program_is_sent_once_by_its_content(
    servers: Servers, tmp_path: Path, program: Path
) -> None:
    server = start(servers, tmp_path)
    runner = runner_of(reach(tmp_path))
    runner.run(program)
    once, size = server.line.sent, program.stat().st_size
    (copy := tmp_path / "copy").write_bytes(program.read_bytes())
    copy.chmod(0o644)
    for _ in range(5):
        runner.run(copy)
    assert server.line.sent - once < 5 * 2000
    assert size > 10_000
    other = tmp_path / "gone" / "other"
    other.parent.mkdir()
    other.write_bytes(program.read_bytes() + b"other")
    runner.run(other)
    (folder,) = server.room.iterdir()
    assert len(list(folder.iterdir())) == 2
    shutil.rmtree(other.parent)
    third = tmp_path / "third"
    third.write_bytes(program.read_bytes() + b"third")
    runner.run(third)
    assert len(list(folder.iterdir())) == 2, "what is gone here is not needed there"


def test_what_takes_too_long_is_ended_there(
    servers: Servers, tmp_path: Path, program: Path
) -> None:
    start(servers, tmp_path)
    runner = runner_of(reach(tmp_path))
    runner.run(program)
    with pytest.raises(ToolchainError, match="it did not end within 1 s"):
        runner.with_timeout(1.0).run(program, ["sleep"])
    assert gone(f"{tmp_path}/nao/room")


def gone(part: str) -> bool:
    """Whether no program of a folder runs any more, soon."""
    for _ in range(100):
        if not runs(part):
            return True
        time.sleep(0.1)
    return False


def runs(part: str) -> bool:
    """Whether a program of a folder runs now."""
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if part in str((process / "exe").readlink()):
                return True
    return False


def test_a_lost_connection_is_made_again(servers: Servers, tmp_path: Path, program: Path) -> None:
    server = start(servers, tmp_path)
    server.line.cuts = [5000, 6000]  # one within the greeting's reply, one while sending
    runner = runner_of(reach(tmp_path))
    (line,) = runner.run(program, ["x"])
    assert line["last"] == "x"
    assert server.line.connections == 3
    server.line.cut()
    assert runner.run(program, ["y"])[0]["last"] == "y"
    assert server.line.connections == 4
    del runner
    assert server.left == [], "folders of connections that broke down are removed, too"


def test_a_device_that_is_gone_is_one_error(
    servers: Servers, tmp_path: Path, program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_module, "PAUSES", (0.1, 0.1, 0.1))
    server = start(servers, tmp_path)
    runner = runner_of(reach(tmp_path))
    runner.run(program)
    server.line.refuses = True
    server.line.cut()
    for _ in range(2):  # the second finds no connection, as other threads may
        with pytest.raises(ToolchainError) as caught:
            runner.run(program)
        assert "--device nao: the connection was lost, and 3 attempts to continue failed" in str(
            caught.value
        )
        assert "the same command continues" in caught.value.cure
    server.line.refuses = False
    runner.run(program)
    assert server.line.connections == 2


def test_too_many_sessions_are_no_lost_connection(
    servers: Servers, tmp_path: Path, program: Path
) -> None:
    server = start(servers, tmp_path, config="MaxSessions 1\n")
    with pytest.raises(ToolchainError, match="--device nao: a session failed: "):
        runner_of(reach(tmp_path)).run(program)
    assert server.line.connections == 1


def test_a_slow_line_takes_time_and_works(servers: Servers, tmp_path: Path, program: Path) -> None:
    server = start(servers, tmp_path)
    server.line.rate = 20_000.0
    assert runner_of(reach(tmp_path)).run(program, ["x"])[0]["last"] == "x"
    assert server.line.connections == 1


KILLED = """
import signal, sys
from pathlib import Path
from cannery.devices import find_places
from cannery.target.remote import Remote
from cannery.target.runner import Origin, Runner
(place,) = find_places(["nao"], Path(sys.argv[1]) / "model.h5")
runner = Runner((), Origin.DEVICE, remote=Remote(place))
runner.run(Path(sys.argv[2]))
# Shells let programs in the background ignore it, and what they start.
signal.signal(signal.SIGINT, signal.default_int_handler)
print("ready", flush=True)
runner.run(Path(sys.argv[2]), ["sleep"])
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_a_killed_process_leaves_nothing_on_the_device(
    number: signal.Signals, servers: Servers, tmp_path: Path, program: Path
) -> None:
    server = start(servers, tmp_path)
    words = [sys.executable, "-c", KILLED, str(tmp_path), str(program)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        while not runs(str(server.room)):
            time.sleep(0.05)
        process.send_signal(number)
    assert gone(str(server.room))
    assert server.left == []


# ---- Devices that are not as they should be ----


def problem(folder: Path, target: str = "generic") -> str:
    with pytest.raises(ToolchainError) as caught:
        device_runners(find_target(target), find_places(["nao"], folder / "model.h5"))
    text = str(caught.value)
    assert text.startswith("--device nao: ")
    assert "\n" not in text
    return text


FAKE = "PATH={folder}:$PATH; export PATH"


def fake(folder: Path, name: str, text: str) -> str:
    """A wrapper of a server on which a program is another one."""
    (place := folder / "fake").mkdir(exist_ok=True)
    (place / name).write_text(f"#!/bin/sh\n{text}\n")
    (place / name).chmod(0o755)
    return FAKE.format(folder=place)


def test_another_family_is_told_before_anything_is_built(servers: Servers, tmp_path: Path) -> None:
    wrapper = fake(tmp_path, "uname", "echo armv7l")
    fake(tmp_path, "grep", 'echo "Features : half thumb neon vfpv3"')
    start(servers, tmp_path, wrapper=wrapper)
    assert "it is armv7l, so programs for silvermont do not run there" in problem(
        tmp_path, "silvermont"
    )
    (runner,) = device_runners(find_target("armv7-a9"), find_places(["nao"], tmp_path / "model.h5"))
    assert runner.remote is not None


def test_missing_instructions_are_told(servers: Servers, tmp_path: Path) -> None:
    wrapper = fake(tmp_path, "grep", 'echo "flags : sse2 fma"')
    fake(tmp_path, "uname", "echo x86_64")
    start(servers, tmp_path, wrapper=wrapper)
    assert "its processor does not have avx2, so programs for avx2 do not run there" in problem(
        tmp_path, "avx2"
    )
    device_runners(find_target("sse2"), find_places(["nao"], tmp_path / "model.h5"))


def test_refusals_are_one_line_each(servers: Servers, tmp_path: Path) -> None:
    start(servers, tmp_path)
    home = tmp_path / "nao"
    known = (home / "known").read_text()
    (home / "known").write_text("")
    assert "its host key is not known (connect once by hand" in problem(tmp_path)
    (home / "known").write_text(f"{' '.join(known.split()[:2])} {other_key(tmp_path)}\n")
    assert "its host key is not the known one" in problem(tmp_path)
    (home / "known").write_text(known)
    (home / "user").write_text((tmp_path / "key").read_text())
    assert "the login was refused (ssh-copy-id" in problem(tmp_path)


def other_key(folder: Path) -> str:
    words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / "key")]
    subprocess.run(words, check=True)
    return (folder / "key.pub").read_text().split()[1]


def test_no_room_is_one_line(servers: Servers, tmp_path: Path, program: Path) -> None:
    full = "echo gzip: stdout: No space left on device >&2; exit 1"
    start(servers, tmp_path, wrapper=fake(tmp_path, "gzip", full))
    with pytest.raises(ToolchainError) as caught:
        runner_of(reach(tmp_path)).run(program)
    assert "cannot be written: gzip: stdout: No space left on device" in str(caught.value)
    assert "folder = in devices.toml" in caught.value.cure
    shutil.rmtree(tmp_path / "nao" / "room")
    assert "there is no folder for programs: mktemp: " in problem(tmp_path)


def test_a_device_without_tools(servers: Servers, tmp_path: Path, program: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("sh", "mktemp", "cat", "chmod", "mv", "rm", "mkdir"):
        (tools / name).symlink_to(shutil.which(name) or "/bin/sh")
    server = start(servers, tmp_path, wrapper=f"PATH={tools}; export PATH")
    remote = reach(tmp_path)
    assert remote.greeting().tools == frozenset()
    assert runner_of(remote).run(program, ["x"])[0]["last"] == "x"
    del remote
    assert server.left == []
    (tools / "mktemp").unlink()
    assert "there is no folder for programs: " in problem(tmp_path)


def test_a_flood_or_silence_instead_of_a_greeting(
    servers: Servers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link, "_LEAVE_SECONDS", 0.2)
    start(servers, tmp_path, wrapper="head -c 1000000 /dev/zero; cat >/dev/null; exit 0")
    assert "connected, but its output is not an answer" in problem(tmp_path)
    monkeypatch.setattr(link, "_GREET_SECONDS", 2.0)
    (tmp_path / "nao/wrapper").write_text("#!/bin/sh\ncat >/dev/null\n")
    assert "connected, but there is no answer" in problem(tmp_path)


def test_a_flood_is_read_no_further_than_needed() -> None:
    with subprocess.Popen(["yes"], stdout=subprocess.PIPE) as process:
        found = link._read_until(process, b"\nready\n", 5.0)
        process.kill()
    assert 2**16 <= len(found) < 2**17


def test_the_folder_goes_away_where_nobody_reads_the_greeting(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    words = ["sh", "-c", link._KEEP.format(folder=tmp_path)]
    subprocess.run(
        words, stdin=subprocess.DEVNULL, stdout=writing, stderr=subprocess.DEVNULL, check=False
    )
    os.close(writing)
    assert list(tmp_path.iterdir()) == []


ADB = """
echo run >>{folder}/adb.log
[ "$1 $2 $3 $4" = "-s 0A1B shell -T" ] || exit 1
[ -e {folder}/unplugged ] && echo "adb: device '0A1B' not found" >&2 && exit 1
[ -e {folder}/locked ] && echo "adb: device unauthorized." >&2 && exit 1
exec sh -c "$5"
"""


def test_a_program_in_place_of_adb(
    tmp_path: Path, program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is no device with Android here: this is how adb is called, and what becomes of it."""
    monkeypatch.setattr(remote_module, "PAUSES", (0.1, 0.1))
    monkeypatch.setattr(Adb, "folder", str(tmp_path))
    path = fake(tmp_path, "adb", ADB.format(folder=tmp_path))
    monkeypatch.setenv("PATH", f"{tmp_path}/fake", prepend=os.pathsep)
    assert path.startswith(f"PATH={tmp_path}/fake:")
    (place,) = find_places(["adb:0A1B"], tmp_path / "model.h5")
    runner = runner_of(Remote(place))
    assert runner.run(program, ["it's a b"])[0]["last"] == "it's a b"
    with pytest.raises(ToolchainError, match="failed with exit code 254: no such layer"):
        runner.run(program, ["fail"])
    (tmp_path / "unplugged").touch()
    with pytest.raises(ToolchainError, match="failed with exit code 1: adb: device '0A1B' not"):
        runner.run(program)
    del runner
    assert not list(tmp_path.glob("cannery-*"))
    with pytest.raises(ToolchainError, match="cannot connect: adb: device '0A1B' not found"):
        Remote(place).greeting()
    (tmp_path / "unplugged").unlink()
    (tmp_path / "locked").touch()
    with pytest.raises(ToolchainError, match="it does not trust this computer"):
        Remote(place).greeting()


# ---- Cores ----


def test_a_runner_for_each_core(servers: Servers, tmp_path: Path, program: Path) -> None:
    core = max(os.sched_getaffinity(0))
    start(servers, tmp_path, extra=f"cores = [{core}, {core}]")
    runners = device_runners(
        need_toolchain("native").target, find_places(["nao"], tmp_path / "model.h5")
    )
    assert [r.core for r in runners] == [core, core]
    assert runners[0].remote is runners[1].remote
    assert runners[0].run(program, ["x"])[0]["last"] == "x"


def test_a_core_that_is_not_there_is_an_error(servers: Servers, tmp_path: Path) -> None:
    start(servers, tmp_path, extra=f"cores = [{min(os.sched_getaffinity(0))}, 9999]")
    target = need_toolchain("native").target
    with pytest.raises(ToolchainError, match=r"there is no core 9999 for programs, only [\d,-]+ "):
        device_runners(target, find_places(["nao"], tmp_path / "model.h5"))


@pytest.mark.parametrize(
    ("told", "there", "missing"), [("0-3,6", [0, 3, 6], [4, 5, 7]), ("2", [2], [0]), ("", [9], [])]
)
def test_cores_as_the_kernel_lists_them(told: str, there: list[int], missing: list[int]) -> None:
    greeting = link.Greeting("/tmp/x", "x86_64", frozenset(), frozenset(), told)
    assert all(map(greeting.has_core, there)) and not any(map(greeting.has_core, missing))


# ---- Slowed down ----


def test_a_measurement_is_repeated_once_where_the_device_was_slowed_down(
    servers: Servers, tmp_path: Path, program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (zone := tmp_path / "sys/class/thermal/thermal_zone0").mkdir(parents=True)
    (zone / "temp").write_text("50000\n")
    (zone / "trip_point_0_temp").write_text("85000\n")
    (zone / "trip_point_0_type").write_text("passive\n")
    text = remote_module.READ_VITALS.replace("/sys/", f"{tmp_path}/sys/")
    monkeypatch.setattr(remote_module, "READ_VITALS", text)
    server = start(servers, tmp_path)
    remote = reach(tmp_path)
    runner = runner_of(remote)
    runner.run(program)
    assert "50 degrees" in remote.vitals.text
    for core, governor in ((0, "powersave"), (CORTEX_A72["core"], "performance")):
        (folder := tmp_path / f"sys/devices/system/cpu/cpu{core}/cpufreq").mkdir(parents=True)
        (folder / "scaling_governor").write_text(f"{governor}\n")
    replace(runner, device=device(CORTEX_A72)).run_text(program)
    assert "governor performance" in remote.vitals.text, "it is the core that measures"
    heater = tmp_path / "heater"
    heater.write_text(
        f"#!/bin/sh\necho run >>{tmp_path}/runs\necho 90000 >{zone}/temp\necho '{{}}'\n"
    )
    with pytest.warns(CanneryWarning, match="nao: it has 90 degrees, and slows down from 85"):
        runner.run(heater)
    assert (tmp_path / "runs").read_text() == "run\nrun\n"
    assert server.line.connections == 1
