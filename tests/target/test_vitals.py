"""What devices say of their clock, load and temperature, and what of that makes times worthless."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from cannery.target.vitals import READ_VITALS, Vitals, read_vitals, throttled

CPU = "sys/devices/system/cpu/cpu2"
ZONE = "sys/class/thermal/thermal_zone1"
FILES = {
    "proc/loadavg": "0.42 0.30 0.10 1/200 1234\n",
    f"{CPU}/cpufreq/scaling_max_freq": "1900000\n",
    f"{CPU}/cpufreq/scaling_cur_freq": "500000\n",
    f"{CPU}/cpufreq/scaling_governor": "powersave\n",
    f"{CPU}/thermal_throttle/core_throttle_count": "7\n",
    f"{ZONE}/temp": "61000\n",
    f"{ZONE}/trip_point_0_type": "passive\n",
    f"{ZONE}/trip_point_0_temp": "85000\n",
    f"{ZONE}/trip_point_1_type": "critical\n",
    f"{ZONE}/trip_point_1_temp": "60000\n",
    "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "performance\n",
}


def seen(root: Path) -> Vitals:
    """What the words of shell find in a tree of files."""
    words = READ_VITALS.format(core=2).replace(" /", f" {root}/")
    done = subprocess.run(
        ["sh", "-c", f"v() {{ {words}; }}; v before; echo '{{}}'; v after; true"],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    assert done.stderr == ""
    before, after = read_vitals(done.stdout.replace(str(root), ""))
    assert before == after
    return before


def test_files_of_a_kernel_are_read(tmp_path: Path) -> None:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    found = seen(tmp_path)
    assert found.text == "at most 1900 MHz, governor powersave, load 0.42, 61 degrees"
    assert (found.throttles, found.tripped) == (7, "")


def test_where_there_are_none_nothing_is_said(tmp_path: Path) -> None:
    assert seen(tmp_path) == Vitals()
    assert Vitals().text == ""
    assert throttled(Vitals(), Vitals()) == ""


def vitals(**changed: str) -> Vitals:
    names = {name.rpartition("/")[2]: f"/{name}" for name in FILES if "cpu0" not in name}
    files = {f"/{name}": text.strip() for name, text in FILES.items()}
    return Vitals({**files, **{names[name]: text for name, text in changed.items()}})


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({}, ""),
        ({"scaling_cur_freq": "300000", "temp": "70000"}, ""),
        ({"scaling_max_freq": "1400000"}, "its clock may be 1400 MHz now, and was 1900"),
        ({"scaling_max_freq": "2000000"}, ""),
        ({"core_throttle_count": "8"}, "it got too hot, and was slowed down"),
        ({"temp": "85000"}, "it has 85 degrees, and slows down from 85"),
        ({"temp": "nan"}, ""),
    ],
)
def test_reasons_to_measure_again(changed: dict[str, str], reason: str) -> None:
    assert throttled(vitals(), vitals(**changed)) == reason


def test_damaged_lines_are_nothing() -> None:
    text = "@before x\n@after /proc/loadavg \x1b[2J\n@later /a b\n@before /proc/loadavg 1.5 2\n@\n"
    before, after = read_vitals(text)
    assert before.text == "load 1.5"
    assert after.text == ""
    flood = "".join(f"@after /f{k} 1\n" for k in range(5000))
    assert len(read_vitals(flood)[1].files) == 1000
