"""The fit of a processor's table: written and read again, and better than where it began."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from msgspec.structs import asdict

from cannery.analysis.disassembly import Machine
from cannery.choose.plan import make_segments
from cannery.schedule.program import Choice
from cannery.schedule.schedule import Estimate, Params
from cannery.target.isa import ISAS, Isa
from cannery.target.machine import FOLDER, parse_machine
from fitting import (
    Figures,
    Layer,
    badness,
    cache_sizes,
    estimated_figures,
    fitted,
    listing,
    machine_of,
    quality,
    rank_correlation,
    registers,
    table,
    written_by_hand,
)
from needs import need_program
from ops.cases import Net
from tuning.toy import Toy

PARTS = ("core", "caches", "code")


def figures() -> Figures:
    """Those of a table that there is, as a fit has them."""
    machine = parse_machine((FOLDER / "x86-256.toml").read_text(), "x", "x")
    caches = {f"caches.{name}": value for name, value in asdict(machine.caches).items()}
    code = {f"code.{name}": value for name, value in asdict(machine.code).items()}
    rates = asdict(machine.rates(8))
    names = ("macs", "arithmetic", "loads", "stores", "latency")
    vectors = {f"vectors.f32x8.{name}": rates[name] for name in names}
    known = asdict(machine)
    core = {f"core.{n}": known[n] for n in ("issue", "window", "chain_gap", "spill_latency")}
    return {path: (value, "hand") for path, value in {**core, **vectors, **caches, **code}.items()}


@dataclass(frozen=True)
class Fetching(Toy):
    """What it costs are bytes of code, or cycles."""

    def cost(self, graph: object, step: object, params: Params, isa: Isa) -> Estimate:
        return Estimate(float(params["cycles"]), float(params["code"]))


def layer() -> Layer:
    """Of two candidates the one with much code is faster: fetching costs less than assumed."""
    net = Net()
    graph = net.graph(net.node(*_relu(net)))
    step = make_segments(graph)[0].step
    choices = tuple(
        Choice(Fetching(), {"cycles": cycles, "code": code})
        for cycles, code in ((100, 12000), (700, 0), (900, 0))
    )
    return Layer("net", ISAS["avx2"], graph, step, choices, (0.4, 0.7, 0.9))


def _relu(net: Net) -> tuple[object, list[str]]:
    from cannery.ops.elementwise import Relu

    return Relu(), [net.input("x", (1, 4, 4, 8))]


def test_a_table_is_read_as_it_was_written() -> None:
    text = table(figures(), "A machine", {"hand": "by hand", "other": "not used"})
    assert "other" not in text
    machine = parse_machine(text, "x", "x")
    assert machine.title == "A machine"
    assert machine.code.fetched == figures()["code.fetched"][0]
    assert list(machine.vectors) == [8]


def test_a_fit_changes_what_makes_choices_better_and_nothing_else() -> None:
    before = figures()
    after = fitted([layer()], before, "x", ["code.decoded", "core.window"])
    changed = {path for path in before if before[path] != after[path]}
    assert changed == {"code.decoded"}
    assert after["code.decoded"][0] > before["code.decoded"][0]
    assert after["code.decoded"][1] == "fit"
    machines = [machine_of(each, "x") for each in (before, after)]
    assert badness([layer()], machines[1]) < badness([layer()], machines[0])
    assert [quality([layer()], m).loss for m in machines] == [pytest.approx(0.7 / 0.4), 1.0]


def test_figures_that_no_fit_wrote_are_kept(tmp_path: Path) -> None:
    mixed = {**figures(), "core.window": (7.0, "fit"), "caches.l2_rate": (9.0, "measured")}
    place = tmp_path / "x.toml"
    place.write_text(table(mixed, "x", dict.fromkeys(("hand", "fit", "measured"), "somehow")))
    kept, said = written_by_hand(place)
    assert kept == {path: figure for path, figure in mixed.items() if figure[1] == "hand"}
    assert said == {"hand": "somehow"}
    assert written_by_hand(tmp_path / "none.toml") == ({}, {})


@pytest.mark.parametrize("machine", [Machine.I386, Machine.X86_64, Machine.AARCH64])
def test_listings_have_each_kind_once_for_each_register(machine: Machine) -> None:
    code = listing(machine, "macs", "loads")
    apart = listing(machine, "macs", "loads", apart=True)
    assert len(code) == 2 * len(registers(machine))
    assert sorted(map(str, code)) == sorted(map(str, apart))
    assert code[0].mnemonic != code[1].mnemonic
    assert apart[0].mnemonic == apart[1].mnemonic


def test_estimates_of_a_processor_are_its_rates() -> None:
    """Haswell's, as everybody publishes them: two pipelines for arithmetic, two for loads."""
    need_program("llvm-mca", "llvm-mca-14")
    found = estimated_figures(Machine.X86_64, "haswell")
    values = {name.rpartition(".")[2]: value for name, (value, _) in found.items()}
    assert values["latency"] == pytest.approx(3.0, rel=0.05)
    assert values["macs"] == pytest.approx(1.0, rel=0.05)
    assert values["arithmetic"] == pytest.approx(2.0, rel=0.05)
    assert values["loads"] == pytest.approx(2.0, rel=0.05)
    assert values["issue"] == pytest.approx(4.0, rel=0.05)


def test_rank_correlation() -> None:
    assert rank_correlation([1, 2, 3], [10, 20, 30]) == pytest.approx(1.0)
    assert rank_correlation([1, 2, 3], [30, 20, 10]) == pytest.approx(-1.0)
    assert rank_correlation([1, 2], [2, 1]) == 1.0


def test_sizes_of_caches(tmp_path: Path) -> None:
    rows = (("Data", 1, "48K", 12), ("Instruction", 1, "64K", 4), ("Unified", 2, "2048K", 16))
    for number, row in enumerate(rows):
        folder = tmp_path / f"index{number}"
        folder.mkdir()
        for name, value in zip(
            ("type", "level", "size", "ways_of_associativity"), row, strict=True
        ):
            (folder / name).write_text(f"{value}\n")
    assert cache_sizes(tmp_path) == (48 * 1024, 12, 2048 * 1024)
    assert cache_sizes(tmp_path / "none") == (32 * 1024, 8, 512 * 1024)
