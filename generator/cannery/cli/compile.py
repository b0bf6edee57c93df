"""`cannery compile`: turns a model into C files and a manifest."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cannery.cli.arguments import FILE, generating_options, options_of
from cannery.cli.files import depfile_text, own_files
from cannery.cli.help import Command
from cannery.cli.output import json_option, note, print_json, remark
from cannery.contents import Content
from cannery.errors import OptionError
from cannery.ir.graph import HalfLayers, HalfWeights, Quantization, WeightCodes
from cannery.options import Options
from cannery.output_files import (
    check_output_file,
    check_output_folder,
    check_replaceable,
    write_files,
)
from cannery.target.targets import ANY

if TYPE_CHECKING:
    from cannery.emit.source import Source

#: Embedded frameworks whose packages `--emit` makes.
FRAMEWORKS = ("zephyr", "esp-idf", "platformio", "arduino", "cmsis-pack")


@click.command(
    "compile",
    cls=Command,
    examples=(
        "cannery compile ball.h5 -o out --target atom32",
        "cannery compile ball.onnx -o out --isa sse2 --isa avx2",
        "cannery compile ball.h5 -o out --input-dtype image=uint8 --scale 0.00392",
        "cannery compile ball.h5 -o out --isa avx2 --emit make",
    ),
)
@generating_options()
@click.option(
    "-o",
    "--output",
    "folder",
    type=FILE,
    required=True,
    metavar="DIR",
    help="Folder for the files; created if it does not exist.",
)
@click.option(
    "--depfile",
    type=FILE,
    metavar="FILE",
    hidden=True,
    help="Write what the result depends on, as a Make rule.",
)
@click.option(
    "--dump",
    type=FILE,
    metavar="DIR",
    help="Write the text form of every stage into DIR.",
)
@click.option(
    "--emit",
    type=click.Choice(["make", "meson", *FRAMEWORKS]),
    multiple=True,
    help="Also write a Makefile or a meson.build, which builds and installs the library, or make "
    "the folder a package of an embedded framework.",
)
@click.option(
    "--autotuned",
    is_flag=True,
    hidden=True,
    help="For builds that tune, which have already said why there is no record.",
)
@click.option(
    "--sources-only",
    is_flag=True,
    hidden=True,
    help="For builds that make the shared library themselves.",
)
@json_option
def command(
    model: Path,
    folder: Path,
    depfile: Path | None,
    dump: Path | None,
    emit: tuple[str, ...],
    autotuned: bool,
    sources_only: bool,
    as_json: bool,
    **raw: Any,
) -> None:
    """Turn MODEL into C files in DIR. Only files that change are written."""
    from cannery.api.compile import files_in, notes_of, with_library, within
    from cannery.choose.lookup import untuned
    from cannery.emit.build_files import build_file
    from cannery.emit.packages import package_files
    from cannery.pipeline import compile_model

    options = options_of(model, raw)
    check_output_folder(folder, "--output")
    if dump is not None:
        check_output_folder(dump, "--dump")
    if depfile is not None and folder.resolve() not in depfile.resolve().parents:
        check_output_file(depfile, "--depfile")
    stages: dict[str, Content] = {}

    def keep(stage: str, text: str) -> None:
        stages[f"{len(stages):02d}_{stage}.txt"] = text.encode()

    if emit and options.shared:
        raise OptionError(
            "makes a static library", where=f"--emit {emit[0]}", cure="leave out --shared"
        )
    compiled = compile_model(options, keep if dump is not None else None)
    for kind in emit:
        if kind in FRAMEWORKS:
            more = package_files(kind, options.name, compiled.files)
        else:
            more = dict([build_file(kind, options.name, compiled.files, options.cc or "")])
        check_replaceable(folder, more, f"--emit {kind}")
        compiled = replace(compiled, files={**compiled.files, **more})
    if not sources_only:
        compiled = with_library(options, compiled)
    results = files_in(folder, options, compiled.files)
    others = {dump / path: data for path, data in stages.items()} if dump is not None else {}
    if depfile is not None:
        project = [options.project] if options.project else []
        read = [*compiled.dependencies, *project, *own_files()]
        others[depfile] = depfile_text(folder / f"{options.name}.h", read).encode()
    changed = [path for path in write_files({**others, **results}) if path in results]
    _tell(options, compiled.source)
    notes = notes_of(options, compiled, untuned=not autotuned)
    for text in notes:
        remark(text)
    if as_json:
        names = {within(folder, path) for path in changed}
        print_json({
            "files": sorted(compiled.files), "changed": sorted(names),
            "tuned": not untuned(options), "notes": notes,
        })  # fmt: skip
    else:
        note(f"{folder}: {len(compiled.files)} files, {len(changed)} changed")


def _tell(options: Options, source: Source) -> None:
    """Notes on the code: its instruction set, its integers."""
    if options.target == ANY and not options.isa and source.isa.name == "sse2":
        remark(
            f"{options.name} is limited to SSE2, because the compiler's flags allow nothing more; "
            "-march=native, a toolchain file or TARGET make it faster"
        )
    halves = source.graph.half_weights
    if halves is not None:
        _tell_halves(halves)
    computed = source.graph.half_layers
    if computed is not None:
        _tell_half_layers(computed)
    facts = source.graph.quantization
    if facts is not None:
        losses = ", ".join(f"{name} {loss:.2g}" for name, loss in facts.losses)
        note(
            f"{len(facts.layers)} layers of {facts.dtype.value}, {facts.bytes} bytes of constants "
            f"instead of {facts.float_bytes}; loss: {losses}"
        )
        if facts.codes is not None:
            _tell_codes(facts.codes, stored=source.isa.is_microcontroller)
        if facts.floats:
            (remark if facts.differs else note)(_float_layers(facts))
    elif source.graph.integer_layers:
        layers = source.graph.integer_layers
        note(f"{len(layers)} layers compute with the integers of the model: {', '.join(layers)}")


def _tell_codes(facts: WeightCodes, *, stored: bool) -> None:
    """Notes on weights of few levels."""
    how = f"{facts.bytes} bytes of constants" if stored else "stored as bytes on this processor"
    note(f"weights of {len(facts.layers)} layers as {facts.form}, {how}")
    if facts.kept:
        kept = "; ".join(f"{name!r} ({reason})" for name, reason in facts.kept)
        remark(f"weights stay bytes in {kept}")


def _tell_halves(facts: HalfWeights) -> None:
    """Notes on weights as float16."""
    note(
        f"weights of {len(facts.layers)} layers as float16, {facts.bytes} bytes of constants "
        f"instead of {facts.float_bytes}; error: {facts.error:.2g}"
    )
    if facts.floats:
        kept = "; ".join(f"{name!r} ({reason})" for name, reason in facts.floats)
        remark(f"weights stay float32 in {kept}")


def _tell_half_layers(facts: HalfLayers) -> None:
    """Notes on layers in another precision."""
    note(
        f"{len(facts.layers)} layers compute in {facts.type}, {facts.bytes} bytes of constants "
        f"instead of {facts.float_bytes}; estimated error: {facts.error:.2g}"
    )
    if facts.floats:
        kept = "; ".join(f"{name!r} ({reason})" for name, reason in facts.floats)
        remark(f"float32 remains in {kept}")


def _float_layers(facts: Quantization) -> str:
    """The layers that compute with floats, by reason, and what follows from that."""
    from cannery.quantization.everywhere import describe

    differs = "; last bits may differ between processors there" if facts.differs else ""
    return f"floats remain in {describe(facts.floats)}{differs}"
