"""What runners reach, by the word of programs that run there: never by the command."""

from __future__ import annotations

import os
import shlex
import stat
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cannery.choose.record import Record, read_record
from cannery.cli import invoke
from cannery.deadline import OutOfTimeError, now, until
from cannery.errors import ToolchainError
from cannery.measure import identify as identify_module
from cannery.measure.identify import ask, check_devices, identify, origin_of, remark_of
from cannery.measure.measure import Context, Protocol, alone
from cannery.options import Options, make_options
from cannery.target.compiler import Compiler
from cannery.target.runner import Origin, Runner, host_cpu_name
from cannery.target.targets import find_target
from cannery.target.toolchain import Toolchain, find_toolchain, toolchain_for
from cannery.tuning import tuner
from cannery.tuning.confirm import Judge
from cannery.tuning.estimates import Pipeline
from cannery.tuning.outcome import Outcome, Settings
from cannery.tuning.search import Bench, Quiet, Search
from cannery.tuning.tuner import tune
from devices import CORTEX_A72, EPYC, SILVERMONT, device
from needs import need_program, need_runner, need_toolchain
from tiny_models import write_tiny_model


def script(path: Path, text: str) -> str:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


# ---- Programs ----


def test_this_machine_says_what_it_is() -> None:
    toolchain = need_toolchain("native")
    (runner,) = identify(toolchain, [Runner((), Origin.HOST)])
    assert runner.device is not None
    assert runner.origin is Origin.DEVICE
    assert runner.device.emulated == ""
    assert runner.device.mhz > 100
    if runner.device.arch == "x86":
        assert runner.device.title == " ".join(host_cpu_name().split())


@pytest.mark.parametrize(
    "name", ["ssse3", "silvermont", "atom32", "armv7-a9", "aarch64-a53", "neon64dot", "cortex-m7"]
)
def test_a_script_around_an_emulator_is_one(name: str, tmp_path: Path) -> None:
    toolchain = need_toolchain(name)
    emulator = need_runner(toolchain, strict=True)
    if emulator.origin is not Origin.EMULATED:
        pytest.skip("this machine runs the target itself")
    command = script(tmp_path / "on-robot", f'exec {shlex.join(emulator.command)} "$1"')
    given = replace(toolchain, runner_commands=(command,))
    (runner,) = found = identify(given, [Runner((command,), Origin.DEVICE)])
    assert runner.device is not None
    assert runner.origin is Origin.EMULATED
    assert remark_of(runner).startswith(f"{command} is an emulator: ")
    assert runner.device.translates, "its times show it, even if nothing else did"
    check_devices(given, found)


def test_a_runner_that_never_answers_is_the_reason(tmp_path: Path) -> None:
    toolchain = need_toolchain("native")
    command = script(tmp_path / "on-robot", "sleep 600")
    given = replace(toolchain, runner_commands=(command,))
    with until(now() + 5.0), pytest.raises(ToolchainError) as caught:
        ask(given, Runner((command,), Origin.DEVICE), tmp_path / "device")
    assert "no answer within" in str(caught.value)
    assert command in str(caught.value)
    with until(now()), pytest.raises(OutOfTimeError):  # it was not asked
        ask(given, Runner((command,), Origin.DEVICE), tmp_path / "device")


CPUINFO = {
    "by core": "".join(
        f"processor\t: {k}\nCPU implementer\t: 0x41\nCPU variant\t: 0x{k}\nCPU part\t: {part}\n"
        f"CPU revision\t: 4\n\n"
        for k, part in enumerate(("0xd08", "0xd03", "0xd03", "0xd03"))
    ),
    "what cores share comes last": (
        "Processor\t: ARMv7 Processor rev 0 (v7l)\nprocessor\t: 0\nBogoMIPS\t: 1\n\n"
        "processor\t: 1\nBogoMIPS\t: 1\n\nCPU implementer\t: 0x41\nCPU variant\t: 0x0\n"
        "CPU part\t: 0xd08\nCPU revision\t: 4\n"
    ),
}


@pytest.mark.parametrize("layout", CPUINFO)
def test_of_unlike_cores_it_is_the_one_that_measures(layout: str, tmp_path: Path) -> None:
    cores = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()
    if 0 not in cores:
        pytest.skip("this process may not use the first core")
    kernel = tmp_path / "kernel"
    (kernel / "proc").mkdir(parents=True)
    (kernel / "proc/cpuinfo").write_text(CPUINFO[layout])
    for core in cores:
        folder = kernel / f"sys/devices/system/cpu/cpu{core}"
        folder.mkdir(parents=True)
        (folder / "cpu_capacity").write_text("446\n" if core else "1024\n")
    # 32-bit programs have no instruction that says it.
    toolchain = need_toolchain("armv7-a9")
    toolchain = replace(toolchain, cflags=(*toolchain.cflags, f'-DKERNEL_FILES="{kernel}"'))
    runner = need_runner(toolchain, strict=True)
    (found,) = identify(toolchain, [runner])
    assert found.device is not None
    assert (found.device.core, found.device.title) == (0, "Arm Cortex-A72")
    assert found.device.part == "0x41 part 0xd08 r0p4"
    assert found.device.translates


def test_files_of_the_kernel_are_read_however_they_look(tmp_path: Path) -> None:
    cpuinfo = tmp_path / "proc/cpuinfo"
    cpuinfo.parent.mkdir()
    cpuinfo.write_text(
        "processor\t: 0\ncpu\t\t: A\ncpu family\t: 6\n\nprocessor\t: 1\ncpu\t: B\nempty\t:\n\n"
        "processor : 2\nno colon\nshared: " + 200 * "y" + "\ncpu: C"
    )
    files = {"": "", "\n": "", "no end": "no end", " \t a b \r\nc\n": "a b", 300 * "z": 159 * "z"}
    program = tmp_path / "program"
    here = Path(__file__)
    headers = Path(identify_module.__file__).parent
    flags = ["-O1", "-w", "-ftrapv", f"-I{headers}", f'-DKERNEL_FILES="{tmp_path}"']
    source = here.with_name("device_files.c")
    subprocess.run([need_program("gcc"), *flags, source, "-o", program], check=True)

    def said(name: str, *words: str) -> list[str]:
        command = [program, tmp_path / name, *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split(
            "\n"
        )

    for content, expected in files.items():
        (tmp_path / "file").write_text(content)
        assert said("file") == [expected, ""]
    asked = {
        ("0", "cpu"): "A", ("1", "cpu"): "B", ("2", "cpu"): "C", ("9", "cpu"): "C",
        ("0", "cpu family"): "6", ("2", "cpu family"): "6", ("1", "empty"): "", ("0", "no"): "",
        ("0", "colon"): "", ("0", "shared"): 158 * "y", ("0", "cp"): "", ("0", "none"): "",
    }  # fmt: skip
    words = [word for pair in asked for word in pair]
    assert said("missing", *words) == ["", *asked.values(), ""]
    cpuinfo.unlink()
    assert said("missing", "0", "cpu") == ["", "", ""]


# ---- Origins ----

GIVEN = ("./on-robot",)


def reaching(target: str, line: dict[str, Any], *, stand_in: bool = False) -> Runner:
    """A given runner that reaches a device, for a target."""
    toolchain = toolchain_of(target, stand_in=stand_in)
    found = device(line)
    runner = Runner(GIVEN, Origin.DEVICE, device=found)
    return replace(runner, origin=origin_of(toolchain, runner, found))


def toolchain_of(target: str, *, stand_in: bool = False) -> Toolchain:
    compiler = Compiler(("cc",), "gcc", "gcc 12.2.0")
    return Toolchain(find_target(target), compiler, ("-O2",), (), GIVEN, stand_in=stand_in)


EMULATED = EPYC | {"process": "qemu-i386"}


@pytest.mark.parametrize(
    ("target", "line", "origin"),
    [
        ("silvermont", SILVERMONT, Origin.DEVICE),
        ("silvermont", EPYC, Origin.HOST),
        ("silvermont", EMULATED, Origin.EMULATED),
        ("aarch64-a72", CORTEX_A72, Origin.DEVICE),
        ("aarch64-a53", CORTEX_A72, Origin.HOST),
        ("aarch64-a53", CORTEX_A72 | {"vendor": "", "model": 0}, Origin.HOST),
        ("avx2", EPYC, Origin.DEVICE),
        ("avx2", EMULATED, Origin.EMULATED),
        ("generic", CORTEX_A72, Origin.DEVICE),
    ],
)
def test_times_are_worth_what_the_device_is(
    target: str, line: dict[str, Any], origin: Origin
) -> None:
    assert reaching(target, line).origin is origin


def test_without_a_runner_this_machine_is_a_host_unless_it_is_the_processor() -> None:
    here = Runner((), Origin.HOST)
    for target, line, origin in (
        ("silvermont", EPYC, Origin.HOST),
        ("silvermont", SILVERMONT, Origin.DEVICE),
        ("avx2", EPYC, Origin.HOST),
        ("avx2", EMULATED, Origin.EMULATED),
    ):
        toolchain = replace(toolchain_of(target), runner_commands=())
        found = replace(here, origin=origin_of(toolchain, here, device(line)), device=device(line))
        assert found.origin is origin
        check_devices(toolchain, [found])


def test_the_emulator_of_a_target_is_one_whatever_it_says() -> None:
    toolchain = toolchain_of("aarch64-a53")
    runner = Runner(toolchain.target.emulator, Origin.EMULATED)
    assert origin_of(toolchain, runner, device(CORTEX_A72, model=0xD03)) is Origin.EMULATED


@pytest.mark.parametrize(
    ("target", "line", "told"),
    [
        ("silvermont", EPYC, "AMD EPYC .AuthenticAMD family 25 model 17 .* Silvermont .*avx2 is"),
        ("aarch64-a53", CORTEX_A72, "Arm Cortex-A72 .* Arm Cortex-A53 .*--target aarch64-a72 is"),
    ],
)
def test_another_processor_is_an_error_with_the_way_out(
    target: str, line: dict[str, Any], told: str
) -> None:
    runner = reaching(target, line)
    with pytest.raises(ToolchainError, match=f"^--runner ./on-robot: .*{told}.*--stand-in"):
        check_devices(toolchain_of(target), [runner])
    runner = reaching(target, line, stand_in=True)
    check_devices(toolchain_of(target, stand_in=True), [runner])
    assert runner.origin is Origin.HOST
    for fine in (line | {"process": "qemu-arm"}, line | {"vendor": "", "family": 0, "model": 0}):
        check_devices(toolchain_of(target), [reaching(target, fine)])
    unknown = reaching(target, line | {"vendor": "", "family": 0, "model": 0})
    assert "does not say which processor" in remark_of(unknown)


def test_there_is_nothing_to_say_of_this_machine() -> None:
    """Only what a given command reaches may be something else than it seems."""
    for line in (EPYC, EPYC | {"process": "qemu-arm"}):
        runner = reaching("avx2", line)
        assert remark_of(replace(runner, command=())) == ""
        assert remark_of(replace(runner, device=None)) == ""
        assert (remark_of(runner) == "") is (line is EPYC)


def test_several_runners_reach_devices_that_are_alike() -> None:
    one = reaching("avx2", EPYC)
    check_devices(toolchain_of("avx2"), [one, reaching("avx2", EPYC | {"boot": "2", "mhz": 3500})])
    other = reaching("avx2", EPYC | {"model": 1})
    with pytest.raises(ToolchainError, match=r"^--runner: one reaches .* model 17 .* model 1 "):
        check_devices(toolchain_of("avx2"), [one, other])
    with pytest.raises(ToolchainError, match="of one kind"):
        check_devices(toolchain_of("avx2"), [one, reaching("avx2", EMULATED)])


# ---- What times depend on ----


def bench(line: Mapping[str, Any] = EPYC, *, command: str = "./on-robot", **changes: Any) -> Bench:
    """A bench of the toolchain of a target, with fields of both changed."""
    toolchain = toolchain_of(changes.pop("target", "avx2"))
    fields = {k: changes.pop(k) for k in ("compiler", "cflags") if k in changes}
    toolchain = replace(toolchain, **fields)
    found = device(dict(line))
    runner = Runner((command,), Origin.DEVICE, device=found)
    origin = changes.pop("origin", origin_of(toolchain, runner, found))
    return Bench(toolchain, (replace(runner, origin=origin),), **changes)


def test_one_device_is_reached_in_many_ways() -> None:
    known = bench().environment().key
    assert bench(command="../on-robot").environment().key == known
    assert bench(EPYC | {"boot": "2", "core": 0, "mhz": 3100}).environment().key == known


GCC = Compiler(("cc",), "gcc", "gcc 12.2.0")
ESTIMATOR: Any = type("E", (), {"model": "x", "wanted": "x", "is_approximate": 0, "version": "1"})


@pytest.mark.parametrize(
    "other",
    [
        {"line": SILVERMONT},
        {"line": EPYC | {"model": 18}},
        {"line": EPYC | {"release": "7.0"}},
        {"compiler": replace(GCC, version="gcc 13.1.0")},
        {"compiler": replace(GCC, command=("cc", "-O3"))},
        {"cflags": ("-O3",)},
        {"cflags": ("-O2", "-funroll-loops")},
        {"cflags": ()},
        {"context": Context.COLD},
        {"origin": Origin.HOST},
        {"pipeline": Pipeline(ESTIMATOR, 1000)},
    ],
    ids=lambda other: next(iter(other)),
)
def test_all_that_times_depend_on_is_in_the_key(other: dict[str, Any]) -> None:
    assert bench(**other).environment().key != bench().environment().key


def test_the_cache_knows_the_clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert Search(bench(), 1e-4, Quiet()).cache.mhz == EPYC["mhz"]


def test_the_lock_is_the_machine_s(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    def lock(command: str, line: dict[str, Any]) -> str:
        before = set(tmp_path.rglob("locks/*"))
        with alone(Runner((command,), Origin.DEVICE, device=device(line))):
            made = set(tmp_path.rglob("locks/*")) - before
        for path in tmp_path.rglob("locks/*"):
            path.unlink()
        return made.pop().name

    one = lock("./on-robot", EPYC)
    assert lock("../on-robot", EPYC) == one
    assert lock("./on-robot", EPYC | {"boot": "2"}) != one
    assert lock("./on-robot", EPYC | {"core": 2}) != one
    # Where no machine is known it is the command's: emulators are not worth waiting for.
    assert lock("a", EMULATED) != lock("b", EMULATED)


# ---- Whole tunings ----


@pytest.fixture
def quick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few candidates, and an empty cache."""
    need_program("ninja", "ninja-build")
    need_toolchain("generic")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    # A busy machine may change its clock between two tunings.
    monkeypatch.setattr("cannery.target.device.SAME_CLOCK", 10.0)
    monkeypatch.setattr(tuner, "CONTEST_CANDIDATES", 2)
    monkeypatch.setattr(tuner, "CONFIRMED_PLANS", 1)
    fast = Protocol(first=2, more=1, sample_us=5.0, limit=5.0)
    monkeypatch.setattr("cannery.tuning.search.Protocol", lambda limit: fast)
    monkeypatch.setattr(Judge, "times", lambda _, programs: [1.0] * len(programs))


#: Another machine, as far as its programs say.
SED = 'sed \'s/"model": [0-9]*/"model": 7/; s/"name": "[^"]*"/"name": "Robot"/\''


def tuned_in(folder: Path, monkeypatch: pytest.MonkeyPatch, **more: object) -> Outcome:
    """Tune `net.h5` in a folder, by the runner that the README shows."""
    monkeypatch.chdir(folder)
    raw = {"target": "generic", "runner": ("./on-robot",), **more}
    return tune(make_options(Path("net.h5"), raw), Settings())


def project(folder: Path, text: str) -> Path:
    folder.mkdir()
    write_tiny_model(folder / "net.h5", size=1)
    script(folder / "on-robot", text)
    return folder


def the_record(folder: Path, target: str = "generic") -> Record:
    record = read_record(folder / f"net.{target}.tuning.json")
    assert record is not None
    return record


@pytest.mark.usefixtures("quick")
def test_two_projects_have_two_robots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = project(tmp_path / "one", 'exec "$@"')
    two = project(tmp_path / "two", f'"$@" | {SED}')
    first, second = (tuned_in(folder, monkeypatch) for folder in (one, two))
    assert first.measured > 0
    assert second.measured == first.measured
    devices = [the_record(folder).device for folder in (one, two)]
    assert devices[0] is not None
    assert devices[1] is not None
    assert devices[1].cpu == the_record(two).provenance["cpu"] == "Robot"
    assert devices[0].cpu != "Robot"
    assert {e.origin for e in the_record(two).steps} == {"device"}
    # The script reaches another machine now, and that one is known already.
    script(two / "on-robot", 'program=$1; shift; exec "$program" "$@"')
    again = tuned_in(two, monkeypatch)
    assert again.measured == 0
    assert the_record(two).provenance["cpu"] == devices[0].cpu
    assert the_record(two).steps == the_record(one).steps


def test_a_script_around_an_emulator_chooses_nothing(
    tmp_path: Path, quick: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    need_toolchain("neon64")
    emulator = need_program("qemu-aarch64")
    folder = project(tmp_path / "one", f'exec {emulator} "$@"')
    monkeypatch.chdir(folder)
    raw = {"target": "neon64", "runner": ("./on-robot",)}
    outcome = tune(make_options(Path("net.h5"), raw), Settings())
    assert outcome.origin is Origin.EMULATED
    assert any("./on-robot is an emulator: " in note for note in outcome.notes)
    record = the_record(folder, "neon64")
    assert {e.origin for e in record.steps} == {"estimated"}
    assert record.device is not None
    assert record.device.emulated
    assert record.device.mhz == 0


@pytest.mark.usefixtures("quick")
def test_a_target_that_the_robot_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    need_runner(need_toolchain("silvermont"))
    if toolchain_for("silvermont").runners()[0].origin is not Origin.HOST:
        pytest.skip("this machine does not run the target itself")
    folder = project(tmp_path / "one", f'"$@" | {SED}')
    monkeypatch.chdir(folder)
    words = ["autotune", "net.h5", "--target", "silvermont", "--runner", "./on-robot"]
    assert invoke(words) == 2
    told = capsys.readouterr()
    assert "the runner reaches Robot (" in told.err
    assert "Intel Atom Silvermont (NAO V6)" in told.err
    assert told.err.count("\n") == 1
    assert sorted(p.name for p in folder.iterdir()) == ["net.h5", "on-robot"]
    assert invoke([*words, "--stand-in"]) == 0
    record = the_record(folder, "silvermont")
    assert record.device is not None
    assert record.device.cpu == record.provenance["cpu"] == "Robot"


def test_options_lead_to_the_toolchain() -> None:
    need_toolchain("generic")
    options = Options(Path("net.h5"), "net", target="generic", stand_in=True)
    assert find_toolchain(options).stand_in
