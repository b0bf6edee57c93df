"""Steps are timed within the network: who calls the clock, and what a program reports."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cannery.emit.files import output_files
from cannery.emit.source import Source, render_model
from cannery.errors import ToolchainError
from cannery.execution.layers import check_layers, time_layers
from cannery.execution.program import NetworkProgram, network_program
from cannery.execution.samples import seeded_samples
from cannery.measure.measure import Context
from cannery.passes import run_passes
from cannery.target.isa import isa
from cannery.target.runner import Origin, Runner
from emit.c_programs import network
from needs import need_program, need_toolchain
from nets.net_bench import make_net_source


def small_network(name: str = "generic") -> Source:
    """A convolution, a pooling, a dense layer."""
    return make_net_source(run_passes(network()), isa(name), "net")


def test_laps_follow_each_step_and_change_nothing_else() -> None:
    source = small_network()
    text = render_model(source, "test", lap="net_lap")
    run = text[text.index("void net_run_in(") :]
    run = run[: run.index("\n}\n")]
    found = re.findall(r"net_(L\d\d|lap)\w*\((\d*)", run)
    expected = [
        pair for k in range(len(source.calls)) for pair in ((f"L{k:02}", ""), ("lap", f"{k}"))
    ]
    assert len(source.calls) > 2 and found == expected
    kept = [line for line in text.splitlines() if "net_lap" not in line and line]
    assert kept == [line for line in render_model(source, "test").splitlines() if line]


@pytest.mark.parametrize("context", Context)
def test_every_step_has_a_time(context: Context) -> None:
    need_program("ninja")
    toolchain = need_toolchain("generic")
    (runner, *_) = toolchain.runners()
    source = small_network()
    samples = seeded_samples(source.graph)
    files = output_files(source, "test")
    found = time_layers(source, files, toolchain, runner, samples, 0.02, context, traced=3)
    steps, peak = found.steps, found.peak
    assert [step.name for step in steps] == [c.planned.step.name for c in source.calls]
    conv = steps[0]
    assert conv.us and conv.macs and conv.percent_of_peak and peak > 0
    assert conv.percent_of_peak == pytest.approx(200e-3 * conv.macs / conv.us / peak)
    assert len(found.runs) == 3
    for before, run in zip((None, *found.runs), found.runs, strict=False):
        assert run.start >= (before.end if before else 0.0) and len(run.laps) == len(steps)
        # Times are printed with four digits; the last step ends where the network does, about.
        assert run.laps[0] > 0 and sum(run.laps) <= run.end - run.start + 1e-3


def test_a_report_of_other_steps_is_an_error(tmp_path: Path) -> None:
    source = small_network()
    program = NetworkProgram(tmp_path / "driver", source, 1, lambda _: program)
    for steps in ("[1.0]", "[]"):
        runner = Runner(("sh", "-c", f"echo '{{\"steps\": {steps}}}'"), Origin.DEVICE)
        with pytest.raises(ToolchainError, match="not all steps were timed"):
            program.time_steps(runner, 0.01)
    for laps in ("[1.0]", "[]"):
        line = f'{{"run": 0, "start": 0, "end": 1, "clock": 0, "laps": {laps}}}'
        runner = Runner(("sh", "-c", f"echo '{line}'"), Origin.DEVICE)
        with pytest.raises(ToolchainError, match="not all steps were traced"):
            program.trace(runner, 1)
    for line, what in (("{}", "no bandwidth was reported"), ('{"rate": -1}', "damaged")):
        runner = Runner(("sh", "-c", f"echo '{line}'"), Origin.DEVICE)
        with pytest.raises(ToolchainError, match=what):
            program.bandwidths(runner)


def test_what_is_timed_by_steps_computes_the_same() -> None:
    need_program("ninja")
    toolchain = need_toolchain("generic")
    (runner, *_) = toolchain.runners()
    source = small_network()
    samples = seeded_samples(source.graph)
    files = output_files(source, "test")
    with (
        network_program(source, files, toolchain, samples) as plain,
        network_program(source, files, toolchain, samples, laps=True) as timed,
    ):
        expected, found = plain.run(runner), timed.run(runner)
    assert [{k: v.tolist() for k, v in one.items()} for one in found] == [
        {k: v.tolist() for k, v in one.items()} for one in expected
    ]


def test_each_step_is_checked_also_those_that_read_an_image_of_the_caller() -> None:
    need_program("ninja")
    toolchain = need_toolchain("generic")
    (runner, *_) = toolchain.runners()
    for views in (False, True):
        source = make_net_source(run_passes(network()), isa("generic"), "net", views=views)
        (sample, *_) = seeded_samples(source.graph)
        found = check_layers(source, toolchain, runner, sample)
        steps = [c.planned.step.name for c in source.calls if c.kernel.code.strip()]
        assert [layer.name for layer in found] == steps
        assert all(layer.fault == "" and layer.error < 1e-5 for layer in found)
