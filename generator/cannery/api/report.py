"""Everything known about a generated network, as one HTML file."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from cannery.api.model import given_model, is_seconds
from cannery.errors import OptionError, ToolchainError, warn
from cannery.execution.guarantees import SAMPLES, Guarantees, guarantees
from cannery.measure.measure import Context, refuse_emulated
from cannery.options import Options
from cannery.output_files import check_output_file, write_files
from cannery.pipeline import ram_curve
from cannery.reporting.measuring import DEFAULT_SECONDS, Subject, make_subject, measure_all
from cannery.reporting.onnx_picture import onnx_picture, require_onnx
from cannery.reporting.page import Side, render_page
from cannery.reporting.plotly_bundle import plotly_text
from cannery.reporting.tried import read_tried, tried_of_record

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from cannery.api.options import ModelOptions


def report(
    model: str | os.PathLike[str] | bytes,
    output: str | os.PathLike[str],
    *,
    candidates: str | os.PathLike[str] | None = None,
    onnx: str | os.PathLike[str] | None = None,
    seconds: float = DEFAULT_SECONDS,
    context: Literal["warm", "cold"] = "warm",
    **options: Unpack[ModelOptions],
) -> None:
    """Build a model's generated code, measure it, and write everything known about it as a page.

    `candidates` is a file with the output of `cannery autotune --json`; without it, the page shows
    the candidates in the tuning record. `onnx` is a file to write for Netron, with the choices as
    metadata. `seconds` is how long to time the network, `context` what a call finds in the caches.
    Other options are those of `load`. Needs the plotly package. Raises CanneryError.
    """
    if not is_seconds(seconds) or not seconds:
        raise OptionError(f"{seconds!r:.20} is not a number of seconds", where="seconds")
    if context not in ("warm", "cold"):
        raise OptionError(f"{context!r:.20} is neither 'warm' nor 'cold'", where="context")
    given = given_model(model, options, "report")
    tried, picture = (Path(os.fsdecode(p)) if p is not None else None for p in (candidates, onnx))
    with given.as_file() as chosen:
        page = Path(os.fsdecode(output))
        report_network(chosen, page, tried, picture, seconds, Context(context))


def report_network(
    options: Options, output: Path, candidates: Path | None = None, onnx: Path | None = None,
    seconds: float = DEFAULT_SECONDS, context: Context = Context.WARM,
    *, where: str = "output", tell: Callable[[str], object] = str,
) -> Side:  # fmt: skip
    """The same for checked options; `where` is the output's name in errors.

    Returns what is known about the network.
    """
    plotly_text()  # its absence is an error before anything is built
    check_output_file(output, where)
    if onnx is not None:
        require_onnx()
        check_output_file(onnx, where.replace("output", "onnx"))
    subject = make_subject(options)
    refuse_emulated(context, subject.runner)
    facts = subject.facts
    tried = read_tried(candidates, facts) if candidates else tried_of_record(options, facts)
    tell(f"building {options.name} for {subject.toolchain.target.name}")
    (measured,), _ = measure_all([subject], seconds, context)
    certain = _guarantees(subject)
    small = subject.source.isa.is_microcontroller
    curve = ram_curve(options) if small else None
    side = Side("A", options.model.name, facts, measured, tried, certain, curve)
    files = {output: render_page([side]).encode("utf-8", "replace")}
    if onnx is not None:
        files[onnx] = onnx_picture(subject.source, facts, measured)
    write_files(files)
    return side


def _guarantees(subject: Subject) -> Guarantees | None:
    """The sheet of guarantees of a microcontroller's code; None, with a warning, if nothing here
    can make it.
    """
    source, toolchain = subject.source, subject.toolchain
    if not source.isa.is_microcontroller:
        return None
    try:
        return guarantees(
            source, subject.compiled.files, toolchain, toolchain.emulator(), SAMPLES
        )  # fmt: skip
    except ToolchainError as error:
        warn(f"the report has no guarantees: {error}")
        return None
