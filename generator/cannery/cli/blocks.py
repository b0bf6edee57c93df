"""Networks for calls of several sizes (--block): what commands show of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from cannery.emit.source import Source
from cannery.options import Options


def print_block(options: Options) -> None:
    """Above what is shown of a call, its size, if there are several."""
    size = options.block[0]
    if len(options.block) > 1:
        first = size == min(options.block)
        click.echo(f"{'' if first else chr(10)}Calls of {size} step{'' if size == 1 else 's'}:")


def print_round(source: Source) -> None:
    """Below what is shown of a run: that it is several calls, if layers have strides."""
    calls = source.states.round
    if calls > 1:
        click.echo(f"\nA run is {calls} calls, in which all layers run: some in each, some in one.")


def calls_of_run(source: Source) -> dict[str, int]:
    """The same for JSON."""
    return {"calls": source.states.round} if source.states.round > 1 else {}


def with_blocks(options: Sequence[Options], found: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What JSON says of the first size, and under `blocks` the same of each, if there are more."""
    if len(options[0].block) == 1:
        return dict(found[0])
    sizes = zip(options, found, strict=True)
    return {**found[0], "blocks": [{"block_steps": o.block[0], **each} for o, each in sizes]}
