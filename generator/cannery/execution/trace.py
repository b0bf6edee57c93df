"""Runs of a network as a trace for Perfetto and chrome://tracing.

The format is Google's "Trace Event Format": complete events (`X`) with microseconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cannery.emit.source import Source
from cannery.emit.steps import Call
from cannery.execution.program import TracedRun

#: Runs that a trace shows.
TRACED_RUNS = 20

_PROCESS = 1
_THREAD = 1


def trace_json(
    source: Source, runs: Sequence[TracedRun], machine: str, about: dict[str, str]
) -> dict[str, Any]:
    """The trace of `runs` on `machine`; `about` is further information."""
    events = [_name("process_name", f"{source.name} on {machine}"), _name("thread_name", "runs")]
    arguments = [_arguments(source, call) for call in source.calls]
    for number, run in enumerate(runs):
        events.append(_slice(f"run {number}", "network", run.start, run.end - run.start, {}))
        at = run.start
        for call, us, told in zip(source.calls, run.laps, arguments, strict=True):
            step = call.planned.step
            if call.kernel.code.strip():
                events.append(_slice(step.name, step.kind, at, us, told))
            at += us
    clock = f"{max((run.clock for run in runs), default=0.0):.4g} us"
    other = {"cannery": source.version, "read_of_the_clock_in_each_step": clock, **about}
    return {"traceEvents": events, "displayTimeUnit": "ns", "otherData": other}


def _arguments(source: Source, call: Call) -> dict[str, Any]:
    """What a step's slice says when you select it."""
    planned, graph = call.planned, source.graph
    return {
        "symbol": call.symbol,
        "nodes": ", ".join(node.name for node in planned.step.nodes),
        "schedule": str(planned.choice),
        "outputs": ", ".join(str(graph.types[value]) for value in planned.step.outputs),
        "macs": planned.step.macs(graph),
    }


def _name(what: str, name: str) -> dict[str, Any]:
    place = {"pid": _PROCESS, "tid": _THREAD}
    return {"name": what, "ph": "M", **place, "args": {"name": name}}


def _slice(
    name: str, kind: str, start: float, us: float, arguments: dict[str, Any]
) -> dict[str, Any]:
    times = {"ts": round(start, 4), "dur": round(us, 4)}
    place = {"pid": _PROCESS, "tid": _THREAD}
    return {"name": name, "cat": kind, "ph": "X", **times, **place, "args": arguments}
