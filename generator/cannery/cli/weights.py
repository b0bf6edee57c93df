"""`cannery weights`: other weights for a library whose weights are apart."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import click
import msgspec
from msgspec import Meta

from cannery.cli.arguments import FILE, generating_options
from cannery.cli.help import Command
from cannery.cli.output import json_option, note, print_json
from cannery.emit.weights import why_other_code
from cannery.errors import OptionError
from cannery.options import make_options
from cannery.output_files import check_output_file, write_files
from cannery.pipeline import compile_model
from cannery.target.targets import ANY, NATIVE
from cannery.user_files import read_file

#: The largest magnitude of a value's integers, and what one of them means.
_Bound = Annotated[int, Meta(ge=0, lt=2**15)]
_Unit = Annotated[float, Meta(gt=0, lt=2.0**128)]


class _Step(msgspec.Struct):
    """What is compared of a step."""

    nodes: Annotated[list[str], Meta(min_length=1)]
    symbol: str
    schedule: str
    macs: int
    constant_bytes: int
    reads: list[str]
    writes: list[str]


class _Weights(msgspec.Struct):
    """What a manifest has where weights are apart."""

    options: list[str]
    code: dict[str, str]


class _Manifest(msgspec.Struct):
    """What is read of a manifest."""

    cannery: str
    model_hash: str
    target: str
    isa: str
    steps: list[_Step]
    weights: _Weights


_CURE = "name the JSON file that `cannery compile --weights` wrote next to the C files"


@click.command(
    "weights",
    cls=Command,
    examples=("cannery weights retrained.h5 --for out/ball.json -o ball.weights",),
)
@generating_options()
@click.option(
    "--for",
    "manifest",
    type=FILE,
    required=True,
    metavar="JSON",
    help="The manifest of the library, which `cannery compile --weights` wrote.",
)
@click.option(
    "-o", "--output", type=FILE, required=True, metavar="FILE", help="Where the weights go."
)
@json_option
def command(model: Path, manifest: Path, output: Path, as_json: bool, **raw: Any) -> None:
    """Write MODEL's weights for an existing library.

    The library may come from another model with the same layers, such as an earlier training. Its
    options apply here, too; name only the files among them again (--tuning, --calibration).
    """
    check_output_file(output, "-o")
    expected = _read(manifest)
    options = make_options(model, {**_as_compiled(expected, raw), "weights": str(output)})
    if options.quantize:
        options = replace(options, ranges=_ranges(expected, manifest))
    files = compile_model(options).files
    found = json.loads(files[f"{options.name}.json"][:])
    if found["model_hash"] != expected["model_hash"]:
        raise OptionError(
            f"{model} does not fit: {why_other_code(expected, found)}",
            where=f"--for {manifest}",
            cure="compile it again, or give the options and the tuning record of the library",
        )
    data = files[f"{options.name}.weights"]
    changed = write_files({output: data})
    if as_json:
        print_json({"bytes": len(data), "changed": bool(changed), "layout": found["model_hash"]})
    else:
        note(f"{output}: {len(data)} bytes{'' if changed else ', as before'}")


def _read(manifest: Path) -> Mapping[str, Any]:
    """The manifest of a library whose weights are apart. Raises OptionError for anything else."""
    where = f"--for {manifest}"
    try:
        content = json.loads(read_file(manifest, where=where))
    except OSError as error:
        raise OptionError(error.strerror or "cannot be read", where=where, cure=_CURE) from None
    except ValueError:
        raise OptionError("not a manifest", where=where, cure=_CURE) from None
    try:
        msgspec.convert(content, _Manifest)
    except msgspec.ValidationError as error:
        raise OptionError(
            f"not a library whose weights are apart: {error}", where=where, cure=_CURE
        ) from None
    return dict(content)


def _ranges(content: Mapping[str, Any], manifest: Path) -> tuple[tuple[int, float], ...]:
    """The scales of a library's values. Raises OptionError where it has none."""
    try:
        return msgspec.convert(content["weights"]["ranges"], tuple[tuple[_Bound, _Unit], ...])
    except (KeyError, msgspec.ValidationError):
        raise OptionError(
            "not a library that --quantize made", where=f"--for {manifest}", cure=_CURE
        ) from None


def _as_compiled(manifest: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The options of the library, by field; what is given here counts more."""
    words = list(manifest["weights"]["options"])
    if manifest["target"] in (NATIVE, ANY):
        words += ["--isa", manifest["isa"]]
    else:
        words += ["--target", manifest["target"]]
    known = _parsed(words)
    here = {name: value for name, value in given.items() if value not in (None, ())}
    if "isa" in here or "target" in here:
        known = {name: value for name, value in known.items() if name not in ("isa", "target")}
    return {**known, **here}


def _parsed(words: Sequence[str]) -> dict[str, Any]:
    """Words of the command line as texts by field."""

    @click.command()
    @generating_options()
    def parser(**raw: Any) -> None:
        """Only parses."""

    context = parser.make_context("weights", [*words, "MODEL"])
    return {name: value for name, value in context.params.items() if name != "model"}
