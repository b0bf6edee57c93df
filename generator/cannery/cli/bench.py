"""`cannery bench`: how long the generated network takes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from cannery.choose.lookup import find_record, untuned, untuned_note
from cannery.cli.arguments import FILE, Seconds, generating_options, options_of
from cannery.cli.blocks import calls_of_run, print_block, print_round, with_blocks
from cannery.cli.counted import show_counted
from cannery.cli.help import Command
from cannery.cli.output import json_option, note, print_json, print_table, remark, warn
from cannery.cli.peak import why_above_peak
from cannery.emit.source import Source
from cannery.errors import OptionError
from cannery.execution.layers import LayerTime, TimedLayers, time_layers
from cannery.execution.pace import Pace, Paced, make_pace
from cannery.execution.program import Latency, NetworkProgram, ThreadTimes, network_program
from cannery.execution.samples import seeded_samples
from cannery.execution.trace import TRACED_RUNS, trace_json
from cannery.measure.identify import identify
from cannery.measure.intervals import CONFIDENCE
from cannery.measure.measure import Context, refuse_emulated
from cannery.options import Options
from cannery.output_files import check_output_file, write_files
from cannery.pipeline import compile_model
from cannery.target.isa import Isa
from cannery.target.runner import Origin, Runner, origin_text
from cannery.target.targets import Target
from cannery.target.toolchain import Toolchain, find_toolchain

#: Runs at once for each thread, at most.
MAX_SHARED = 256

#: Default seconds for timing the network.
DEFAULT_SECONDS = 1.0


@click.command(
    "bench",
    cls=Command,
    examples=(
        "cannery bench ball.h5",
        "cannery bench ball.h5 --rate 30 --deadline 2000 --context cold",
        "cannery bench ball.h5 --threads 2 --trace trace.json",
        "cannery bench ball.h5 --from trace.bin",
    ),
)
@generating_options()
@click.option(
    "--seconds",
    type=Seconds(min=0.01),
    help="How long to time the whole network, then its steps (default: 1; 5 at a fixed rate).",
)
@click.option("--rate", type=float, metavar="HZ", help="Also run it this often per second.")
@click.option(
    "--deadline",
    type=float,
    metavar="US",
    help="With --rate: microseconds from when a call is due to its end (default: the period).",
)
@click.option(
    "--threads",
    type=click.IntRange(2, 32),
    metavar="N",
    help="Also time it on this many threads, which wait actively between steps.",
)
@click.option(
    "--context",
    type=click.Choice([c.value for c in Context]),
    default=Context.WARM.value,
    show_default=True,
    help="Time calls with warm caches, or with cold ones, as when called once per frame.",
)
@click.option(
    "--trace",
    type=FILE,
    metavar="FILE",
    help=f"Write {TRACED_RUNS} runs, by step, for https://ui.perfetto.dev.",
)
@click.option(
    "--from",
    "counted",
    type=FILE,
    metavar="FILE",
    help="Show times that a --trace-steps library counted.",
)
@json_option
def command(
    model: Path,
    seconds: float | None,
    rate: float | None,
    deadline: float | None,
    threads: int | None,
    context: str,
    trace: Path | None,
    counted: Path | None,
    as_json: bool,
    **raw: Any,
) -> None:
    """Time MODEL's generated code: the whole network, then every step within such runs.

    Steps find weights and values where the network leaves them, so their times add up to the
    network's. With --rate, it also runs at a fixed rate, with pauses between calls, such as once
    per frame: it shows latencies from when each call was due, and how many missed the deadline.
    """
    if counted is not None:
        show_counted(options_of(model, raw), counted, as_json=as_json)
        return
    caches = Context(context)
    if trace is not None:
        check_output_file(trace, "--trace")
    pace = _pace(rate, deadline, seconds, caches)
    limit = seconds or DEFAULT_SECONDS
    options = options_of(model, {**raw, **({"parallel": True} if threads else {})})
    toolchain = find_toolchain(options)
    runner = identify(toolchain, [toolchain.runner()])[0]
    if runner.state:
        remark(runner.state)
    _check_can_tell(toolchain, runner, pace, threads)
    refuse_emulated(caches, runner)
    _compare_context(options, toolchain.target, caches)
    note(f"building {options.name} for {toolchain.target.name}")
    measured = _Measured(toolchain, runner, caches, limit, pace, threads, trace)
    found = [measured.times(each) for each in options.each_block]
    never = untuned_note(options)
    if never:
        remark(never)
    if as_json:
        tuned = {"tuned": not untuned(options), "notes": [never] if never else []}
        print_json({**with_blocks(options.each_block, [each.as_dict() for each in found]), **tuned})
        return
    for each, times in zip(options.each_block, found, strict=True):
        print_block(each)
        times.print()


@dataclass(frozen=True)
class _Measured:
    """What is measured, and on what; the first network is traced into a file, if that is given."""

    toolchain: Toolchain
    runner: Runner
    caches: Context
    limit: float
    pace: Pace | None
    threads: int | None
    trace: Path | None

    def times(self, options: Options) -> _Times:
        """The times of a network."""
        toolchain, runner, caches, limit = self.toolchain, self.runner, self.caches, self.limit
        compiled, threads = compile_model(options), self.threads
        source, samples = compiled.source, seeded_samples(compiled.source.graph)
        trace = self.trace if options.block[0] == min(options.block) else None
        with network_program(
            source, compiled.files, toolchain, samples, threads=threads is not None
        ) as program:
            latency = program.time(runner, limit, caches)
            paced = program.keep_pace(runner, self.pace) if self.pace else None
            shared = (
                _time_threads(program, runner, limit, threads, latency, caches) if threads else None
            )
        layers = time_layers(
            source, compiled.files, toolchain, runner, samples, limit, caches,
            traced=TRACED_RUNS if trace is not None else 0,
        )  # fmt: skip
        found = _Times(source, toolchain, runner, caches, latency, layers, paced, shared)
        if trace is not None:
            write_files({trace: found.trace()})
            note(f"{trace}: open it in https://ui.perfetto.dev")
        return found


def _check_can_tell(
    toolchain: Toolchain, runner: Runner, pace: Pace | None, threads: int | None
) -> None:
    """Raises OptionError if nothing of what was asked could be measured."""
    if pace and runner.origin is Origin.EMULATED:
        raise OptionError(
            f"an emulator runs programs for {toolchain.target.name}, whose times mean nothing",
            where="--rate", cure="--device measures on a device",
        )  # fmt: skip
    if threads and toolchain.target.triple.endswith("-none-eabi"):
        raise OptionError(
            f"programs for {toolchain.target.name} have no threads to time", where="--threads",
            cure="leave it out",
        )  # fmt: skip


@dataclass(frozen=True)
class _Times:
    """What was measured."""

    source: Source
    toolchain: Toolchain
    runner: Runner
    caches: Context
    latency: Latency
    layers: TimedLayers
    paced: Paced | None
    shared: ThreadTimes | None

    @property
    def peak(self) -> float:
        """Of multiply-accumulates, 0 if unknown."""
        return self.layers.peak

    @property
    def macs(self) -> int:
        """Of what was timed."""
        return sum(self.source.round_macs)

    @property
    def gflops(self) -> float | None:
        """Of the whole network, if there is a peak for comparison."""
        known = self.latency.p50 and self.peak
        return 2e-3 * self.macs / self.latency.p50 if known else None

    @property
    def percent(self) -> float | None:
        """Of the peak."""
        return None if self.gflops is None else 100 * self.gflops / self.peak

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        device = self.runner.device
        return {
            "latency_us": vars(self.latency), "macs": self.macs, **calls_of_run(self.source),
            "percent_of_peak": self.percent, "gflops": self.gflops,
            "target": self.toolchain.target.name, "origin": self.runner.origin.value,
            "device": device.as_dict() if device else None,
            "context": self.caches.value, "isa": self.source.isa.name,
            "compiler": self.toolchain.compiler.version,
            "steps": [vars(step) for step in self.layers.steps],
            **({"rate": self.paced.as_dict()} if self.paced else {}),
            **({"threads": vars(self.shared)} if self.shared else {}),
        }  # fmt: skip

    def trace(self) -> bytes:
        """The traced runs, for Perfetto."""
        where = origin_text(self.runner.origin, self.runner.device)
        about = {
            "target": self.toolchain.target.name, "isa": self.source.isa.name, "times": where,
            "compiler": self.toolchain.compiler.version, "caches": self.caches.value,
        }  # fmt: skip
        found = trace_json(self.source, self.layers.runs, where, about)
        return json.dumps(found).encode() + b"\n"

    def print(self) -> None:
        """For people."""
        _print(self.latency, self.layers.steps, self.source.isa)
        print_round(self.source)
        runner, source = self.runner, self.source
        cold = ", caches cold" if self.caches is Context.COLD else ""
        emulated = ", which says nothing about speed" if runner.origin is Origin.EMULATED else ""
        gflops, percent = self.gflops, self.percent
        speed = "" if gflops is None else f", {gflops:.1f} GFLOP/s, {percent:.0f}% of the peak"
        click.echo(
            f"\n{self.macs:,} MACs{speed}; "
            f"{self.toolchain.target.name} ({source.isa.name}), "
            f"{origin_text(runner.origin, runner.device)}{cold}{emulated}"
        )
        if self.paced:
            _print_paced(self.paced)
        if self.shared:
            _print_threads(self.shared, source)


def _time_threads(
    program: NetworkProgram, runner: Runner, seconds: float, threads: int, latency: Latency,
    context: Context,
) -> ThreadTimes:  # fmt: skip
    """One run, and about a millisecond of runs for each thread."""
    each = max(1, min(MAX_SHARED, round(1000 / max(latency.p50, 0.1))))
    return program.time_threads(runner, seconds, threads, threads * each, context)


def _print_threads(found: ThreadTimes, source: Source) -> None:
    cut = len(source.parallel.steps) if source.parallel else 0
    rows = [
        [what, single, several, f"{single / several:.2f}" if several else ""]
        for what, single, several in (
            (f"one run, {cut} of {len(source.calls)} steps cut", found.single_us, found.threads_us),
            (f"{found.inputs} runs at once", found.many_single_us, found.many_threads_us),
        )
    ]
    click.echo()
    print_table(["us", "1 thread", f"{found.threads} threads", "times as fast"], rows)


def _compare_context(options: Options, target: Target, context: Context) -> None:
    """Warn if the code comes from a record that was made with other caches."""
    path, record = find_record(options, target)
    if record is not None and record.context != context.value:
        warn(
            f"{path} was made with {record.context} caches (cannery autotune --context "
            f"{context.value} tunes for {context.value} ones)"
        )


def _pace(
    rate: float | None, deadline: float | None, seconds: float | None, context: Context
) -> Pace | None:
    if rate is not None:
        return make_pace(rate, deadline, seconds, context)
    if deadline is not None:
        raise OptionError("needs a rate", where="--deadline", cure="give --rate HZ, too")
    return None


def _print_paced(paced: Paced) -> None:
    rows = [
        [what, found.p50, found.p99, found.p999, found.max]
        for what, found in (("from due time", paced.latency_us), ("the call", paced.run_us))
    ]
    slower = paced.hz < 0.99 * paced.pace.hz and paced.calls > 1
    why = ", because emptying the caches takes time" if paced.pace.context is Context.COLD else ""
    reached = f" ({paced.hz:.3g} reached{why})" if slower else ""
    click.echo(f"\n{paced.pace.hz:g} times per second{reached}, {paced.calls:,} calls:\n")
    print_table(["us", "p50", "p99", "p99.9", "maximum"], rows)
    unbegun = f", {paced.unbegun:,} of which never started" if paced.unbegun else ""
    click.echo(f"\n{paced.misses:,} misses of the deadline, {paced.pace.deadline_us:g} us{unbegun}")


def _print(latency: Latency, steps: tuple[LayerTime, ...], isa: Isa) -> None:
    rows = [
        [
            s.name, s.schedule, s.macs, _number(s.us), _between(s.low_us, s.high_us),
            _number(s.percent_of_peak),
        ]
        for s in steps
    ]  # fmt: skip
    sure = f"{CONFIDENCE:.0%} interval"
    print_table(["step", "schedule", "MACs", "us", sure, "% of peak"], rows)
    why = why_above_peak(((s.schedule, s.percent_of_peak) for s in steps), isa)
    if why:
        click.echo(f"\n{why}")
    together = sum(step.us or 0.0 for step in steps)
    p50, p25, p99, low, high = (
        f"{us:.2f}" if us >= 10 else f"{us:.3f}"
        for us in (latency.p50, latency.p25, latency.p99, latency.low, latency.high)
    )
    click.echo(
        f"\nwhole: {p50} us (median; {sure} {low} to {high}; p25 {p25}, p99 {p99}), "
        f"steps together {together:.2f} us"
    )


def _between(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f"{low:.3g} to {high:.3g}"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}"
