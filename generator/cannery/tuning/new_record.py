"""The record that a tuning leaves: confirmed lines stay as they were."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from cannery import __version__
from cannery.choose.provenance import code_flags
from cannery.choose.record import (
    FORMAT,
    Entry,
    Many,
    Record,
    RunnerUp,
    confirmed,
    confirmed_error,
    make_entry,
    match,
    rounded,
)
from cannery.choose.recorded_device import RecordedDevice, recorded_device
from cannery.choose.signature import graph_key
from cannery.schedule.program import Choice
from cannery.target.runner import Origin, host_cpu_name
from cannery.tuning.finalists import Chosen
from cannery.tuning.optimize import Optimizer, Tried
from cannery.tuning.search import Bench


@dataclass(frozen=True)
class NewRecord:
    """Records what an optimizer knows about a plan; `old` is the record of an earlier tuning.

    There are no lines for the segments `untried`: nothing was measured that could decide.
    """

    model: str
    bench: Bench
    optimizer: Optimizer
    old: Record | None
    untried: Collection[int] = ()

    def make(self, net: Chosen, many: Many | None) -> Record:
        """The plan as recorded, and the error that it reached."""
        made = [self._entry(k, choice) for k, choice in net.plan.picks if k not in self.untried]
        device, known = self._device(), self.old.device if self.old else None
        entries = confirmed(made, self.old, same_device=device == known)
        toolchain, opt = self.bench.toolchain, self.optimizer
        target, isa = toolchain.target, opt.isa
        key = graph_key(opt.graph, target.name, isa.name, str(isa.bits), opt.io_order)
        provenance = {
            "compiler": toolchain.compiler.version,
            "cpu": self._cpu(),
            "flags": code_flags((*toolchain.compiler.command[1:], *toolchain.cflags)),
        }
        if self.bench.pipeline:
            provenance["estimated"] = self.bench.pipeline.text
        return Record(
            FORMAT, __version__, self.model, target.name, isa.name, isa.bits, key, provenance,
            entries, many, self.bench.context.value,
            confirmed_error(net.error, entries, self.old), known if self._keeps else device,
        )  # fmt: skip

    @property
    def _keeps(self) -> bool:
        """Whether lines stay because the old record's device is worth more than this one."""
        return self.old is not None and bool(self.optimizer.fixed)

    def _cpu(self) -> str:
        """The processor that the times belong to, or the target's if an emulator gives none."""
        runner = self.bench.runners[0]
        if runner.origin is Origin.EMULATED:
            return self.bench.toolchain.target.cpu
        device = runner.device
        return device.title if device and runner.given else host_cpu_name()

    def _device(self) -> RecordedDevice | None:
        """What ran the programs."""
        device = self.bench.runners[0].device
        return recorded_device(device, self.old.device if self.old else None) if device else None

    def _entry(self, index: int, choice: Choice) -> Entry:
        """The line of one segment."""
        opt = self.optimizer
        if index in opt.fixed and self.old is not None:
            kept = match(self.old, opt.graph, opt.segments)[index]
            if kept is not None:
                return kept
        found = opt.find(index, choice)
        others = opt.rivals(index, choice)
        if choice.inexact:
            others = [t for t in others if not t.ranked.choice.inexact]
        return make_entry(
            opt.graph, opt.segments[index].step, opt.isa, choice,
            error=found.error if found and found.measurement else None,
            runner_up=_runner_up(others[0]) if others else None,
        )  # fmt: skip


def _runner_up(tried: Tried) -> RunnerUp:
    schedule, params = tried.ranked.choice.schedule, tried.ranked.choice.params
    us, error = tried.option.choice.us, tried.error if tried.measurement else None
    return RunnerUp(schedule.id, schedule.version, dict(params), rounded(us, 3), rounded(error, 2))
