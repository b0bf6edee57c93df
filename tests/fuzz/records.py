"""Tuning records as tuning leaves them, made of random candidates, and changes of them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

from cannery import __version__
from cannery.choose.record import FORMAT, Record, RunnerUp, format_record, make_entry
from cannery.choose.signature import graph_key
from cannery.errors import CanneryError
from cannery.options import make_options
from cannery.pipeline import choose, import_graph, io_order
from cannery.schedule.program import Choice
from cannery.schedule.schedule import legal
from cannery.target.toolchain import resolve_target
from fuzz.cases import Case

NAME = "net.tuning.json"

_VALUES: tuple[Any, ...] = (
    None, True, 0, 1, -1, 2, 3, 2**31, 10**30, 0.5, -1.5, 1e300, "", "generic", "nhwc", "planar",
    "host", "device", "ä\n", [], {}, [1], ["nhwc"], {"a": 1}, "conv.direct_oc",
)  # fmt: skip


def record_of(random: Random, case: Case) -> str:
    """A record of a case, with some of the choices another legal candidate. "" if it has none."""
    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        case.write(folder)
        try:
            options = make_options(folder / case.model, case.raw_in(folder))
            target, graph = resolve_target(options), import_graph(options)
            chosen = choose(graph, target, options)
        except CanneryError:
            return ""
    entries = []
    for step, choice in zip(chosen.steps, chosen.choices, strict=True):
        made = replace(choice, us=random.choice([None, 1.25, 300.0]))
        if random.random() < 0.5:
            schedule = random.choice(legal(graph, step, target.isa))
            params = random.choice(list(schedule.candidates(graph, step, target.isa)))
            made = Choice(schedule, params, "host", 2.5)
        other = RunnerUp(choice.schedule.id, choice.schedule.version, dict(choice.params), 3.5)
        runner_up = other if random.random() < 0.3 else None
        entries.append(make_entry(graph, step, target.isa, made, error=1e-7, runner_up=runner_up))
    isa = target.isa
    key = graph_key(graph, target.name, isa.name, str(isa.bits), io_order(options))
    record = Record(
        FORMAT, __version__, case.model, target.name, isa.name, isa.bits, key, {"cpu": "x"}, entries
    )
    return format_record(record)


def changed(random: Random, text: str) -> tuple[bytes, list[str]]:
    """The bytes of a changed record, and which changes were made."""
    content, made = json.loads(text), list[str]()
    for _ in range(random.choice([0, 1, 1, 2])):
        steps = content.get("steps")
        inside = isinstance(steps, list) and steps and random.random() < 0.8
        holder = random.choice(steps) if inside else content
        if not isinstance(holder, dict):
            continue
        if isinstance(holder.get("params"), dict) and holder["params"] and random.random() < 0.5:
            holder = holder["params"]
        key = random.choice(sorted(holder))
        made.append(key)
        if random.random() < 0.15:
            del holder[key]
        elif isinstance(holder[key], int) and random.random() < 0.5:
            holder[key] += random.choice([-1, 1, 4])
        else:
            holder[key] = random.choice(_VALUES)
    data = json.dumps(content).encode()
    if random.random() < 0.05:
        return data[: random.randrange(len(data))], [*made, "truncated"]
    return data, made
