"""A lost schedule makes nothing wrong, only slow: what is legal stays legal.

`legal.txt` lists for every step of the cases which schedules are legal, and on how many instruction
sets, `tunables.txt` for every schedule the values of its tunables among the candidates for these
steps. New ones, and steps that are not listed yet, are right, too: `--update-golden` lists them.
"""

from __future__ import annotations

from collections import Counter
from functools import cache
from itertools import product
from pathlib import Path

from cannery.schedule.program import Step
from cannery.schedule.schedule import all_schedules, legal
from cannery.target.isa import isa as isa_row
from cannery.target.targets import find_target
from cannery.tuning.contests import is_view
from ops.cases import all_cases
from ops.kernel_bench import TARGETS, case_steps

#: Instruction sets of the tests.
NAMES = {find_target(name).isa.name for name in TARGETS}

LISTED = Path(__file__).with_name("legal.txt")

#: Those whose candidates are asked for: without vectors, without FMA, with wide vectors, and with
#: many registers.
ASKED = ("generic", "ssse3", "avx512", "neon64")

TUNABLES = Path(__file__).with_name("tunables.txt")


@cache
def legal_schedules() -> dict[tuple[str, Step, str], list[str]]:
    """The schedules of every step of every case, on every instruction set."""
    isas = [find_target(name).isa for name in TARGETS]
    found = {}
    for case in all_cases():
        graph, steps = case_steps(case)
        with case.caches():
            for step, _ in steps:
                for isa in isas:
                    found[case.name, step, isa.name] = [s.id for s in legal(graph, step, isa)]
    return found


def counted() -> dict[str, Counter[str]]:
    """By step, on how many instruction sets each schedule is legal."""
    found: dict[str, Counter[str]] = {}
    for (case, step, _), ids in legal_schedules().items():
        name = "+".join(node.name for node in step.nodes)
        found.setdefault(f"{case}/{name}", Counter()).update(ids)
    return found


def read() -> dict[str, Counter[str]]:
    """What is listed."""
    found = {}
    for line in LISTED.read_text().splitlines():
        step, *ids = line.split()
        pairs = (entry.partition("*") for entry in ids)
        found[step] = Counter({name: int(times or len(NAMES)) for name, _, times in pairs})
    return found


def write(found: dict[str, Counter[str]]) -> None:
    """List it: `schedule*3` is legal on three instruction sets, `schedule` on all."""
    lines = []
    for step, counts in sorted(found.items()):
        ids = [f"{s}*{n}" if n < len(NAMES) else s for s, n in sorted(counts.items())]
        lines.append(" ".join((step, *ids)))
    LISTED.write_text("\n".join(lines) + "\n")


def tunables() -> dict[str, set[str]]:
    """The values that candidates have, by schedule and tunable, not of the parts of chains."""
    isas = [find_target(name).isa for name in ASKED]
    found: dict[str, set[str]] = {}
    for case in all_cases():
        graph, steps = case_steps(case)
        with case.caches():
            for step, isa in product((step for step, _ in steps), isas):
                for way in legal(graph, step, isa):
                    for params in way.candidates(graph, step, isa):
                        for key, value in params.items():
                            if not (step.parts and key[1:2] in ("", "_")):
                                found.setdefault(f"{way.id} {key}", set()).add(str(value))
    return found


def test_no_candidate_gets_lost(update_golden: bool) -> None:
    """No value of a tunable, that is; which go together is left to the schedules."""
    found = tunables()
    if update_golden:
        lines = (" ".join((name, *sorted(values))) for name, values in sorted(found.items()))
        TUNABLES.write_text("\n".join(lines) + "\n")
    listed = {" ".join(words[:2]): {*words[2:]} for words in map(str.split, TUNABLES.open())}
    assert len(listed) > 150
    lost = {name: sorted(values - found.get(name, set())) for name, values in listed.items()}
    assert not {name: values for name, values in lost.items() if values}, (
        "tunables.txt lists more: if that is meant, --update-golden"
    )


def test_every_schedule_has_a_case() -> None:
    views = {name for name, schedule in all_schedules().items() if is_view(schedule)}
    assert set(all_schedules()) <= views.union(*legal_schedules().values())


def test_every_step_has_a_schedule() -> None:
    missing = [
        f"{case}/{step.name} on {isa}"
        for (case, step, isa), found in legal_schedules().items()
        if not step.parts
        and not found
        and not (case.startswith("half_") and not isa_row(isa).has("half"))
        and not (case.startswith("bfloat_") and not isa_row(isa).has("bfloat"))
    ]
    assert not missing


def test_no_schedule_gets_lost(update_golden: bool) -> None:
    found = counted()
    if update_golden:
        write(found)
    listed = {step: counts for step, counts in read().items() if step in found}
    assert len(listed) > 900
    lost = {step: dict(counts - found[step]) for step, counts in listed.items()}
    assert not {step: counts for step, counts in lost.items() if counts}, (
        "legal.txt lists more: if that is meant, --update-golden"
    )
