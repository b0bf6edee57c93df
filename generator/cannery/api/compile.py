"""Turns a model into C files and a manifest."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from cannery.api.model import given_model
from cannery.choose.bounds import bound_notes
from cannery.choose.lookup import untuned_note
from cannery.choose.provenance import provenance_notes
from cannery.contents import Content
from cannery.errors import OptionError
from cannery.options import Options
from cannery.output_files import check_output_folder, write_files
from cannery.pipeline import Compiled, compile_model

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from cannery.api.options import ModelOptions


@dataclass(frozen=True)
class CompileResult:
    """What was written into `folder`: all files, those that changed, and notes."""

    folder: Path
    files: tuple[str, ...]
    changed: tuple[str, ...]
    notes: tuple[str, ...]


def compile(  # noqa: A001
    model: str | os.PathLike[str] | bytes,
    folder: str | os.PathLike[str],
    **options: Unpack[ModelOptions],
) -> CompileResult:
    """Turn a model into C files in a folder, which is created. Only files that change are written.

    `model` is a path, or the content of a model file. Options are those of the command line, by
    name: `target="atom32"`, `many=8`, `input_dtype={"image": "uint8"}`. Raises CanneryError.
    """
    given = given_model(model, options, "compile")
    place = Path(os.fsdecode(folder))
    check_output_folder(place, "folder")
    with given.as_file() as chosen:
        compiled = with_library(chosen, compile_model(chosen))
        # Bytes cannot have records, so nothing is said about those.
        notes = notes_of(chosen, compiled, untuned=given.data is None)
    try:
        changed = write_files(files_in(place, chosen, compiled.files))
    except OSError as error:
        raise OptionError(
            f"cannot write: {error.strerror}", where=f"folder {place}", cure="name another one"
        ) from None
    return CompileResult(
        place, tuple(sorted(compiled.files)),
        tuple(sorted(within(place, path) for path in changed)), tuple(notes),
    )  # fmt: skip


def with_library(options: Options, compiled: Compiled) -> Compiled:
    """The same with the library itself, if it is a shared one. Raises ToolchainError."""
    if not options.shared:
        return compiled
    from cannery.execution.shared_library import exported_library

    name, content = exported_library(options, compiled.files)
    return replace(compiled, files={name: content, **compiled.files})


def files_in(folder: Path, options: Options, files: Mapping[str, Content]) -> dict[Path, Content]:
    """Generated files with their paths; the header comes last, because build tools judge by it."""
    ordered = sorted(files, key=lambda path: path == f"{options.name}.h")
    elsewhere = {f"{options.name}.weights": options.weights} if options.weights else {}
    return {elsewhere.get(path, folder / path): files[path] for path in ordered}


def within(folder: Path, path: Path) -> str:
    """The path of a file that was written, below the folder if it is there."""
    return (path.relative_to(folder) if path.is_relative_to(folder) else path).as_posix()


def notes_of(options: Options, compiled: Compiled, *, untuned: bool = True) -> list[str]:
    """Notes about generated code; `untuned`: also that nothing was measured."""
    source = compiled.source
    never = untuned_note(options) if untuned else ""
    dtypes = [port.type.dtype for port in source.outputs]
    return [
        *source.graph.notes,
        *([never] if never else []),
        *provenance_notes(options),
        *bound_notes(options, dtypes, source.max_error, source.graph),
    ]
