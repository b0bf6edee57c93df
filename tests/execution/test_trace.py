"""The trace of a network's runs, in the form that Perfetto reads."""

from __future__ import annotations

import json

from cannery.execution.program import TracedRun
from cannery.execution.trace import trace_json
from cannery.passes import run_passes
from cannery.target.isa import isa
from emit.c_programs import network
from nets.net_bench import make_net_source

SOURCE = make_net_source(run_passes(network()), isa("generic"), "net")
COUNT = len(SOURCE.calls)


def test_steps_lie_within_their_run_one_after_the_other() -> None:
    laps = tuple(1.0 + k for k in range(COUNT))
    runs = [TracedRun(start, start + sum(laps) + 0.5, laps, 0.02) for start in (0.0, 100.0)]
    trace = trace_json(SOURCE, runs, "a </script> processor", {"isa": "generic"})
    events = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    assert len(events) == 2 * (1 + COUNT) and json.loads(json.dumps(trace)) == trace
    for number, run in enumerate(runs):
        whole, *steps = events[number * (1 + COUNT) : (number + 1) * (1 + COUNT)]
        assert (whole["name"], whole["ts"], whole["dur"]) == (
            f"run {number}", run.start, run.end - run.start,
        )  # fmt: skip
        assert [step["dur"] for step in steps] == list(laps)
        ends = [whole["ts"], *(step["ts"] + step["dur"] for step in steps)]
        assert [step["ts"] for step in steps] == ends[:-1]
        assert ends[-1] <= whole["ts"] + whole["dur"]
    assert steps[0]["name"] == SOURCE.calls[0].planned.step.name
    assert steps[0]["args"]["schedule"] == str(SOURCE.calls[0].planned.choice)
    assert trace["otherData"]["read_of_the_clock_in_each_step"] == "0.02 us"
