"""The runners of devices, which are asked at once whether they run a target's programs at all."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Sequence

from cannery.devices import Place
from cannery.errors import ToolchainError
from cannery.target.link import Greeting
from cannery.target.remote import Remote
from cannery.target.runner import Origin, Runner, find_runner, host_cpu_flags
from cannery.target.targets import NATIVE, Target

#: What `uname -m` says where programs of a toolchain run.
_MACHINES = {
    "x86_64-linux-gnu": ("x86_64",),
    "i686-linux-gnu": ("x86_64", "i686", "i586", "i486", "i386"),
    "aarch64-linux-gnu": ("aarch64",),
    "arm-linux-gnueabihf": ("armv7l", "armv8l", "aarch64"),
    "riscv64-linux-gnu": ("riscv64",),
}


def device_runners(target: Target, places: Sequence[Place]) -> tuple[Runner, ...]:
    """A runner for each core of each device.

    Raises ToolchainError where one cannot be reached, or is of another kind than the target's.
    """
    return tuple(runner for place in places for runner in _runners(target, place))


def _runners(target: Target, place: Place) -> Iterator[Runner]:
    if place.row.command:
        yield find_runner(target, place.row.command)
        return
    remote = Remote(place)
    greeting = remote.greeting()
    reason = _why_not_there(target, greeting)
    if reason:
        raise ToolchainError(
            f"{reason}, so programs for {target.name} do not run there", where=remote.where,
            cure="--target names the device's processor: see cannery targets",
        )  # fmt: skip
    cores = place.row.cores or (None,)
    if cores != (None,) and "taskset" not in greeting.tools:
        raise ToolchainError(
            "there is no program taskset, which keeps programs on a core", where=remote.where,
            cure="leave out cores: then each program chooses its own core",
        )  # fmt: skip
    for core in cores:
        if core is not None and not greeting.has_core(core):
            raise ToolchainError(
                f"there is no core {core} for programs, only {greeting.cores}", where=remote.where,
                cure="change cores in devices.toml",
            )  # fmt: skip
        yield Runner((), Origin.DEVICE, remote=remote, core=core)


def _why_not_there(target: Target, greeting: Greeting) -> str:
    """Why a device cannot run the target's programs; empty if it may."""
    machine, flags = greeting.machine, greeting.flags
    if target.name == NATIVE and machine != platform.machine():
        return f"it is {machine or 'unknown'}, this machine {platform.machine()}"
    machines = _MACHINES.get(target.triple)
    if target.triple and (machines is None or machine not in machines):
        return f"it is {machine or 'unknown'}"
    needed = host_cpu_flags() if target.name == NATIVE else frozenset(target.cpu_flags)
    # A 64-bit kernel calls what 32-bit programs find there by other names.
    renamed = machine == "aarch64" and target.isa.bits == 32
    missing = [] if renamed or not flags else sorted(needed - flags)
    if not missing:
        return ""
    return f"its processor does not have {', '.join(missing[:5])}{' ...' if missing[5:] else ''}"
