"""What a program says of the machine it runs on, and what that is taken for."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from cannery.choose.recorded_device import recorded_device
from cannery.errors import ToolchainError
from cannery.target.device import Device, read_device
from cannery.target.parts import ARM_PARTS
from cannery.target.runner import Origin, Runner, origin_text, parse_json_lines
from cannery.target.targets import TARGETS, find_target, fitting_target
from devices import CORTEX_A72, CORTEX_M7, EPYC, SILVERMONT, device

REAL = {
    "EPYC": EPYC,
    "Silvermont": SILVERMONT,
    "Cortex-A72": CORTEX_A72,
    "Cortex-M7": CORTEX_M7,
    # The slowest floats known: in units that are not pipelined.
    "Cortex-A8": CORTEX_A72 | {"model": 0xC08, "add": 1.0, "multiply": 10.0, "convert": 9.0},
    "two additions in a cycle": CORTEX_M7 | {"add": 0.5},
    "no unit for floats": CORTEX_A72 | {"multiply": 0, "convert": 0, "call": 6.0},
    "nothing measured": EPYC | {"add": 0, "multiply": 0, "convert": 0, "call": 0, "mhz": 0},
}

#: What qemu 7.2 said, without what betrays it otherwise.
TRANSLATED = {
    "i386": {"add": 0.281, "multiply": 3.98, "convert": 21.1, "call": 8.61},
    "avx2": {"add": 0.303, "multiply": 4.08, "convert": 19.6, "call": 5.74},
    "armv7": {"add": 0.303, "multiply": 2.85, "convert": 5.43, "call": 7.44},
    "aarch64": {"add": 0.297, "multiply": 2.81, "convert": 8.1, "call": 6.2},
    "no unit for floats": {"add": 0.303, "multiply": 0, "convert": 0, "call": 5.74},
    "on a slow machine": {"add": 3.0, "multiply": 28.0, "convert": 54.0, "call": 74.0},
}


def read(line: object, more: str = "") -> Device:
    """What comes of a line, as a runner reads it."""
    text = f"Welcome!\n{json.dumps({'device': line})}\n{more}"
    return read_device(parse_json_lines(text, where="./on-robot"), where="./on-robot", cure="look")


def test_a_line_is_read() -> None:
    found = read(EPYC)
    assert (found.title, found.part) == (
        "AMD EPYC",
        "AuthenticAMD family 25 model 17 stepping 1",
    )
    assert (found.kernel, found.virtual) == ("Linux 6.18 x86_64", "KVM")
    assert read(SILVERMONT).title == "Intel(R) Atom(TM) CPU E3845 @ 1.91GHz"
    assert (read(CORTEX_A72).title, read(CORTEX_A72).part) == (
        "Arm Cortex-A72",
        "0x41 part 0xd08 r0p3",
    )
    assert (read(CORTEX_M7).title, read(CORTEX_M7).kernel) == ("Arm Cortex-M7", "")
    assert read(CORTEX_A72 | {"vendor": "", "model": 0}).title == "unknown arm processor"
    assert origin_text(Origin.HOST, read(EPYC)) == "host: AMD EPYC"
    assert origin_text(Origin.EMULATED, read(EPYC)) == "emulated"


@pytest.mark.parametrize(
    "line",
    [
        {k: v for k, v in EPYC.items() if k != "vendor"},
        EPYC | {"firmware": "x"},
        EPYC | {"name": "AMD\x1b[2J EPYC"},
        EPYC | {"name": "AMD EPYC\n"},
        EPYC | {"name": "Prozessor für Roboter"},
        EPYC | {"name": "x" * 161},
        EPYC | {"name": 5},
        EPYC | {"model": -1},
        EPYC | {"model": 2**32},
        EPYC | {"model": 1.5},
        EPYC | {"core": -2},
        EPYC | {"mhz": float("nan")},
        EPYC | {"add": float("inf")},
        EPYC | {"add": -0.1},
        EPYC | {"arch": "x86\u0000"},
        EPYC | {"unit": "\x07"},
        {"\x1b[2J": 1},
        [EPYC],
        "AMD EPYC",
        None,
        {},
    ],
    ids=lambda line: repr(line)[-40:],
)
def test_a_line_that_is_damaged(line: object) -> None:
    with pytest.raises(ToolchainError, match="damaged report of what the program runs on") as told:
        read(line)
    assert str(told.value).isprintable()
    assert len(str(told.value)) < 400
    assert "./on-robot: " in str(told.value)


@pytest.mark.parametrize(
    "text",
    [
        '{"device": {"arch": "x86", "name": "\x1b"}}',
        '{"device": {"arch": "x86"',
        '{"device": ' + "[" * 200_000,
        '{"device": ' + "7" * 10_000 + "}",
        '{"device": "' + "x" * 1_000_000 + '"',
    ],
    ids=["control character", "cut off", "nested", "a number", "long"],
)
def test_a_line_that_is_no_json(text: str) -> None:
    with pytest.raises(ToolchainError, match="damaged output line") as told:
        parse_json_lines(text, where="./on-robot")
    assert str(told.value).isprintable()
    assert len(str(told.value)) < 400


def test_a_program_that_says_nothing_is_an_old_one() -> None:
    with pytest.raises(ToolchainError, match=r"did not report what it runs on.*an older program"):
        read_device([{"us": 1}], where="./on-robot", cure="look")
    with pytest.raises(ToolchainError, match="twice"):
        read(EPYC, json.dumps({"device": EPYC}))


@pytest.mark.parametrize("name", REAL)
def test_processors_are_no_emulators(name: str) -> None:
    assert device(REAL[name]).emulated == ""


@pytest.mark.parametrize("name", TRANSLATED)
def test_an_emulator_shows_by_its_times(name: str) -> None:
    found = device(EPYC, **TRANSLATED[name])
    assert found.emulated == "simple instructions take as long as function calls"


def test_additions_that_take_no_time_are_emulated() -> None:
    times: dict[str, Any] = {"add": 0.0069, "multiply": 0.0686, "convert": 0.14, "call": 0.63}
    assert device(CORTEX_M7, **times).emulated
    assert device(CORTEX_M7, **(times | {"add": 0.0})).emulated
    no_timer = dict.fromkeys(times, 0.0)
    assert not device(CORTEX_M7, **no_timer).emulated
    assert device(CORTEX_M7, **no_timer, mhz=3200.0).emulated


@pytest.mark.parametrize(
    ("changes", "evidence"),
    [
        ({"hypervisor": "TCGTCGTCGTCG"}, "its CPUID names QEMU"),
        ({"vendor": "VirtualApple"}, "its CPUID names Rosetta"),
        ({"kernel_says": "GenuineIntel family 6 model 85"}, "its kernel runs on GenuineIntel fam"),
        ({"process": "qemu-aarch64-st"}, "it runs within qemu-aarch64"),
    ],
)
def test_an_emulator_shows_by_what_it_says(changes: dict[str, Any], evidence: str) -> None:
    assert device(EPYC, **changes).emulated.startswith(evidence)


def test_a_program_of_any_name_is_no_emulator() -> None:
    assert device(EPYC, process="qemu-trial").emulated == ""


#: What is another device, and what is the same at another time.
OTHERS: list[dict[str, Any]] = [
    {"vendor": "GenuineIntel"}, {"family": 26}, {"model": 18}, {"revision": 2}, {"name": "EPYC 2"},
    {"features": "sse2"}, {"hypervisor": ""}, {"system": "FreeBSD"}, {"release": "6.19.1"},
    {"machine": "i686"}, {"process": "qemu-x86_64"},
]  # fmt: skip
SAME: list[dict[str, Any]] = [
    {"release": "6.18.45-fc"}, {"process": "driver"}, {"boot": "1234"}, {"core": 0},
    {"add": 0.31, "multiply": 0.9, "convert": 0.9, "call": 1.4, "mhz": 3200.0},
]  # fmt: skip


def test_a_key_is_of_one_device_and_of_every_run_there() -> None:
    keys = {device(EPYC, **changes).key for changes in OTHERS}
    assert len(keys) == len(OTHERS)
    assert device(EPYC).key not in keys
    assert {device(EPYC, **changes).key for changes in SAME} == {device(EPYC).key}


def test_every_processor_identifies_itself() -> None:
    for name, row in TARGETS.items():
        for processor, model in ((p, model) for p in row.processors for model in p.models):
            one = device(EPYC, vendor=processor.vendor, family=processor.family, model=model)
            assert [n for n, r in TARGETS.items() if one.is_one_of(r.processors)] == [name]
            if row.isa.family != "x86":
                core = " ".join(row.cpu.split()[:2]).rstrip(",")  # Arm Cortex-A78, of Cortex-A78AE
                cores = ("Apple M1", "Apple M2") if name == "apple-m1" else (core,)
                assert ARM_PARTS[processor.vendor, model].startswith(cores)


#: Of `arch/x86/include/asm/intel-family.h` in Linux.
ATOMS = {
    "atom32": {
        "BONNELL": 0x1C, "BONNELL_MID": 0x26, "SALTWELL": 0x36, "SALTWELL_MID": 0x27,
        "SALTWELL_TABLET": 0x35,
    },
    "silvermont": {
        "SILVERMONT": 0x37, "SILVERMONT_D": 0x4D, "SILVERMONT_MID": 0x4A, "SILVERMONT_MID2": 0x5A,
        "SOFIA": 0x5D, "AIRMONT": 0x4C, "AIRMONT_NP": 0x75,
    },
}  # fmt: skip


@pytest.mark.parametrize("name", ATOMS)
def test_atoms_identify_themselves(name: str) -> None:
    found = {model for p in TARGETS[name].processors for model in p.models}
    assert found == {*ATOMS[name].values()}
    for model in found:
        one = device(EPYC, vendor="GenuineIntel", family=6, model=model)
        assert one.is_one_of(TARGETS[name].processors)


#: What /proc/cpuinfo of a processor with AVX-512 and VNNI lists.
AVX512 = "avx2 fma avx512f avx512vl avx512bw avx512dq avx512_vnni"


@pytest.mark.parametrize(
    ("line", "target", "fitting"),
    [
        (CORTEX_A72, "aarch64-a53", "aarch64-a72"),
        (CORTEX_A72 | {"model": 0xD0C}, "aarch64-a53", "neoverse-n1"),
        (CORTEX_A72 | {"vendor": "0x61", "model": 0x33}, "aarch64-a53", "apple-m1"),
        (CORTEX_A72 | {"model": 0xD4F, "features": "asimd asimddp"}, "aarch64-a53", "neon64dot"),
        (
            CORTEX_A72 | {"model": 0xD4F, "features": "asimd asimdhp asimddp"},
            "aarch64-a53",
            "neon64half",
        ),
        (
            CORTEX_A72 | {"model": 0xD4F, "features": "asimd asimdhp asimddp i8mm"},
            "aarch64-a53",
            "neon64i8mm",
        ),
        (CORTEX_A72 | {"features": "neon vfpv4"}, "armv7-a9", "neon32"),
        (CORTEX_A72 | {"model": 0xC07, "features": "neon vfpv4"}, "armv7-a9", "armv7-a7"),
        (EPYC, "silvermont", "avx2"),  # a Zen 4 whose AVX-512 the virtual machine hides
        (EPYC | {"features": AVX512}, "silvermont", "zen4"),
        (EPYC | {"features": AVX512, "model": 0x21}, "silvermont", "avx512vnni"),
        (EPYC, "atom32", "avx2-32"),
        (SILVERMONT, "atom32", "sse42-32"),
        (CORTEX_M7 | {"model": 0xC24}, "cortex-m7", "cortex-m4"),
        (CORTEX_M7 | {"model": 0xC20}, "cortex-m7", None),
    ],
)
def test_the_target_that_fits(line: dict[str, Any], target: str, fitting: str | None) -> None:
    found = fitting_target(device(line), find_target(target).isa)
    assert (found.name if found else None) == fitting


def test_an_emulator_has_no_clock() -> None:
    assert device(EPYC).as_dict()["mhz"] == EPYC["mhz"] > 0
    emulated = device(EPYC, multiply=30.0, convert=30.0, call=30.0)
    assert emulated.emulated
    assert emulated.as_dict()["mhz"] == 0 == recorded_device(emulated, None).mhz


def test_every_program_of_a_runner_has_to_say_the_same(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    runner = Runner((sys.executable,), Origin.DEVICE, device=device(EPYC))

    def run(*lines: object) -> list[dict[str, Any]]:
        script.write_text("".join(f"print({json.dumps(line)!r})\n" for line in lines))
        return runner.run(script)

    later = EPYC | {"add": 0, "multiply": 0, "convert": 0, "call": 0, "mhz": 0, "process": "x"}
    assert run({"device": later}, {"us": 1})[-1] == {"us": 1}
    with pytest.raises(
        ToolchainError, match=r"ran on Arm Cortex-A72 .* earlier programs on AMD EPYC"
    ):
        run({"device": CORTEX_A72}, {"us": 1})
    with pytest.raises(ToolchainError, match="did not report what it runs on"):
        run({"us": 1})
