"""Finds out which devices a toolchain's runners reach, and what times taken there are worth.

A device is identified by what its processor and kernel say, never by the command that reaches it:
two projects may each have an `./on-robot`, and any script may hide an emulator.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from cannery.atomic import temporary_folder
from cannery.deadline import OutOfTimeError, check_time, now
from cannery.errors import ToolchainError
from cannery.target.device import Device, read_device
from cannery.target.runner import Origin, Runner
from cannery.target.targets import NATIVE, Target, fitting_target
from cannery.target.toolchain import Toolchain

#: What measuring programs include, and the argument that makes them report their device.
DEVICE_FILE = "device.h"
ASK = "--device"

#: Seconds in which a device must answer, including a copy over a slow line or writing to flash.
ANSWER_SECONDS = 60.0

_PROBE = "device.c"
_HEADERS = (DEVICE_FILE, "machine.h")


def device_sources() -> dict[str, bytes]:
    """The headers of programs that report their device, by name."""
    return {name: Path(__file__).with_name(name).read_bytes() for name in _HEADERS}


def identify(toolchain: Toolchain, runners: Sequence[Runner]) -> tuple[Runner, ...]:
    """The runners with the devices that they reach, and the origin of times taken there.

    Raises ToolchainError if nothing runs, or a device does not say what it is.
    """
    with temporary_folder() as folder:
        for name in (_PROBE, *_HEADERS):
            shutil.copyfile(Path(__file__).with_name(name), folder / name)
        silent = replace(toolchain, cflags=(*toolchain.cflags, *toolchain.warnings))
        silent.build([folder / _PROBE], folder / "device")
        return tuple(ask(toolchain, runner, folder / "device") for runner in runners)


def ask(toolchain: Toolchain, runner: Runner, executable: Path) -> Runner:
    """The runner with the device that `executable` reports.

    Raises ToolchainError, also if a given runner has not answered when the time is up.
    """
    check_time()
    began = now()
    try:
        brief = runner.with_timeout(min(runner.timeout, ANSWER_SECONDS))
        lines = brief.run(executable, [ASK])
    except OutOfTimeError:
        if not toolchain.given:
            raise
        raise ToolchainError(
            f"no answer within {now() - began:.1f} s, and the time is up",
            where=runner.where(executable), cure=runner.cure,
        ) from None  # fmt: skip
    device = read_device(lines, where=runner.where(executable), cure=runner.cure)
    origin = origin_of(toolchain, runner, device)
    return replace(runner, device=device, origin=origin)


def origin_of(toolchain: Toolchain, runner: Runner, device: Device) -> Origin:
    """What times of a device are worth for the target.

    A target that is not a particular processor accepts a given runner's times as its own.
    """
    target = toolchain.target
    if device.emulated or runner.command == target.emulator != ():
        return Origin.EMULATED
    if target.processors:
        return Origin.DEVICE if device.is_one_of(target.processors) else Origin.HOST
    return Origin.DEVICE if runner.given or target.name == NATIVE else Origin.HOST


def check_devices(toolchain: Toolchain, runners: Sequence[Runner]) -> None:
    """Raise ToolchainError if the times of identified runners are not the requested ones.

    A given runner must reach the target's processor (unless `toolchain.stand_in`), and all of them
    the same one.
    """
    for runner in runners:
        _check_processor(toolchain, runner)
    _check_alike(runners)


def _check_processor(toolchain: Toolchain, runner: Runner) -> None:
    # One that does not say what it is may be the target's.
    device, target = runner.device, toolchain.target
    if (
        device is None
        or not toolchain.given
        or toolchain.stand_in
        or runner.origin is not Origin.HOST
    ):
        return
    if device.vendor:
        raise ToolchainError(
            f"the runner reaches {device.title} ({device.part}), and {target.name} is "
            f"{target.cpu}",
            where=runner.name, cure=_way_out(device, target),
        )  # fmt: skip


def _way_out(device: Device, target: Target) -> str:
    fitting = fitting_target(device, target.isa)
    another = f"--target {fitting.name} is for that processor; " if fitting else ""
    stand_in = "--stand-in, in CMake STAND_IN, accepts its times as those of another one: host"
    return f"{another}{stand_in}"


def _check_alike(runners: Sequence[Runner]) -> None:
    first, *others = (r.device for r in runners if r.device is not None)
    for other in others:
        if other.processor != first.processor or bool(other.emulated) != bool(first.emulated):
            raise ToolchainError(
                f"one reaches {first.title} ({first.part}), another {other.title} ({other.part})",
                where=runners[0].name.partition(" ")[0],
                cure="several devices share the work only if they are of one kind; tune others "
                "with one command each",
            )  # fmt: skip


def remark_of(runner: Runner) -> str:
    """The note about the device of a given runner; empty if there is none."""
    device = runner.device
    if device is None or not runner.given:
        return ""
    name = runner.command[0] if runner.command else runner.name
    if device.emulated:
        return f"{name} is an emulator: {device.emulated}"
    if runner.origin is Origin.HOST and not device.vendor:
        return f"{name} does not say which processor it reaches: its times are host's"
    return ""
