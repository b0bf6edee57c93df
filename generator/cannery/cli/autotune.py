"""`cannery autotune`: builds and times variants of every layer; the best become the record."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cannery.cli.arguments import FILE, budget_option, generating_options, options_of
from cannery.cli.blocks import print_block, with_blocks
from cannery.cli.files import depfile_text, own_files
from cannery.cli.help import Command
from cannery.cli.output import json_option, note, print_json, remark
from cannery.cli.tuning_progress import live_progress
from cannery.cli.tuning_report import as_dict, print_report
from cannery.measure.identify import identify
from cannery.measure.measure import Context
from cannery.options import Options
from cannery.output_files import check_output_file, write_files
from cannery.target.runner import Origin
from cannery.target.toolchain import find_toolchain

if TYPE_CHECKING:
    from cannery.tuning.outcome import Outcome


@click.command(
    "autotune",
    cls=Command,
    examples=(
        "cannery autotune ball.h5",
        "cannery autotune ball.h5 --target atom32 --device ssh:nao@nao1 --budget 60",
    ),
)
@generating_options()
@budget_option()
@click.option(
    "--exhaustive", is_flag=True, help="Measure every candidate, not just the likely ones."
)
@click.option(
    "--context",
    type=click.Choice([c.value for c in Context]),
    help="Time calls with warm caches, or with cold ones, as when called once per frame "
    "(default: as in the existing record, else warm).",
)
@click.option(
    "--if-needed",
    is_flag=True,
    hidden=True,
    help="Do nothing if the record covers every layer, or if only an emulator runs programs.",
)
@click.option(
    "--depfile",
    type=FILE,
    metavar="FILE",
    hidden=True,
    help="Write what FILE without .d depends on, as a Make rule.",
)
@click.option("--all-layers", is_flag=True, help="Also show layers without arithmetic.")
@json_option
def command(
    model: Path,
    budget: float | None,
    exhaustive: bool,
    context: str | None,
    if_needed: bool,
    depfile: Path | None,
    all_layers: bool,
    as_json: bool,
    **raw: Any,
) -> int:
    """Measure variants of every layer of MODEL, and write the best plan as its tuning record.

    The record is next to the model unless --tuning says otherwise. Exit code 1 if the network's
    error exceeds --max-error, or --budget was too short to measure anything and there is no earlier
    record; no record is written then.
    """
    from cannery.tuning.outcome import Settings
    from cannery.tuning.place import check_place
    from cannery.tuning.tuner import tune, usable_record

    options = options_of(model, raw)
    wanted = Context(context) if context else None
    if depfile is not None:
        check_output_file(depfile, "--depfile")
    known = [usable_record(each, wanted) if if_needed else None for each in options.each_block]
    if all(known) or (if_needed and _is_emulated(options)):
        _write_depfile(depfile, options, known)
        if as_json:
            records = [{"record": str(r) if r else None, "changed": False} for r in known]
            print_json(with_blocks(options.each_block, records))
        return 0
    check_place(options)
    started = click.get_current_context().find_root().obj
    outcomes = []
    missing = [each for each, r in zip(options.each_block, known, strict=True) if not r]
    for k, each in enumerate(missing):
        share = budget and budget / len(missing)
        settings = Settings(share, exhaustive, wanted, None if k else started)
        try:
            with live_progress() as progress:
                outcomes.append(tune(each, settings, progress))
        except KeyboardInterrupt:
            remark("what was measured is kept: the same command continues")
            raise
        if not as_json:
            print_block(each)
            _print(outcomes[-1], all_layers=all_layers)
    places = [*known, *(o.path if o.path.exists() else None for o in outcomes)]
    _write_depfile(depfile, options, places)
    if as_json:
        print_json(with_blocks(missing, list(map(as_dict, outcomes))))
    return int(not all(outcome.served for outcome in outcomes))


def _print(outcome: Outcome, *, all_layers: bool) -> None:
    print_report(outcome, all_layers=all_layers)
    if not outcome.broken and not outcome.idle:
        state = "written" if outcome.changed else "confirmed, not a byte changed"
        note(f"{outcome.path}: {state}")


def _is_emulated(options: Options) -> bool:
    """Whether only an emulator runs the programs; says so, because its times decide nothing."""
    toolchain = find_toolchain(options)
    (runner,) = identify(toolchain, [toolchain.runner()])
    emulated = runner.origin is Origin.EMULATED
    if emulated:
        remark(
            f"{options.model.name} is not tuned for {toolchain.target.name}: times under "
            "an emulator mean nothing, so the cost model chooses; cannery autotune --device "
            "measures on the device"
        )
    return emulated


def _write_depfile(depfile: Path | None, options: Options, records: Iterable[Path | None]) -> None:
    if depfile is not None:
        read = [options.model, *filter(None, records), *own_files()]
        write_files({depfile: depfile_text(depfile.with_suffix(""), read).encode()})
