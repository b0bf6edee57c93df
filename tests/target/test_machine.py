"""Tables of processors: all can be read, and bad ones give clear errors."""

from __future__ import annotations

import pytest

from cannery.errors import CanneryError, OptionError
from cannery.target.isa import ISAS
from cannery.target.machine import FOLDER, find_machine, machine_names, parse_machine
from cannery.target.targets import TARGETS

GOOD = (FOLDER / "x86-256.toml").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", machine_names())
def test_every_table_can_be_read(name: str) -> None:
    machine = find_machine(name)
    assert machine.name == name
    assert machine.caches.l1_bytes < machine.caches.l2_bytes <= machine.caches.far_bytes
    for rates in machine.vectors.values():
        assert rates.macs <= rates.arithmetic <= machine.issue


def test_every_target_and_instruction_set_names_a_machine() -> None:
    for isa in [*ISAS.values(), *(target.isa for target in TARGETS.values())]:
        assert isa.core.name in machine_names()
        assert set(isa.lanes) <= set(isa.core.vectors), isa.name


def test_a_machine_makes_no_other_instruction_set() -> None:
    isa = ISAS["avx2"]
    other = ISAS["avx2"].meant_for(find_machine("scalar"))
    assert other == isa
    assert hash(other) == hash(isa)
    assert other.core.name == "scalar"


def test_widths_that_are_not_in_the_table_take_the_next_wider_one() -> None:
    machine = find_machine("x86-256")
    assert machine.rates(2) == machine.vectors[4]
    assert machine.rates(16) == machine.vectors[8]


def test_a_core_without_a_window_runs_in_order() -> None:
    text = "".join(line for line in GOOD.splitlines(True) if not line.startswith("window"))
    assert parse_machine(text, "x", "x.toml").window == 0.0
    assert parse_machine(GOOD, "x", "x.toml").window == 96.0


BAD = {
    "no TOML": ("[core]", "[core", "Expected ']'"),
    "missing": ("[code]\nhot_bytes", "[code]\nsomething", "something"),
    "unknown": ("[core]\n", '[core]\npipes = { value = 3.0, source = "hand" }\n', "pipes"),
    "zero": ("issue = { value = 4.0", "issue = { value = 0.0", "core.issue: Expected"),
    "text": ("issue = { value = 4.0", 'issue = { value = "4"', "core.issue: Expected"),
    "no source": ('issue = { value = 4.0, source = "hand" }', "issue = { value = 4.0 }", "source"),
    "unexplained": ('4.0, source = "hand" }', '4.0, source = "guess" }', "'guess'"),
    "width": ("[vectors.f32x8]", "[vectors.f32x7]", "f32x7"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_tables_are_told(name: str) -> None:
    right, wrong, said = BAD[name]
    assert right in GOOD
    with pytest.raises(CanneryError) as caught:
        parse_machine(GOOD.replace(right, wrong, 1), "x", "x.toml")
    assert str(caught.value).startswith("x.toml: not the table of a machine: ")
    assert said in str(caught.value)


def test_unknown_machines_are_told() -> None:
    with pytest.raises(OptionError, match="did you mean 'x86-256'"):
        find_machine("x86_256")
