"""One library for several instruction sets: a network for each, and a choice at the first call."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

from cannery.contents import Content
from cannery.ctext.environment import render
from cannery.ctext.tidy import tidy
from cannery.emit.files import (
    binary_files,
    compiled_nn_texts,
    manifest,
    model_texts,
    openmp_texts,
)
from cannery.emit.library import loader_texts, render_header, render_static
from cannery.emit.parallel import Parallel
from cannery.emit.selftest import render_selftest
from cannery.emit.source import Source
from cannery.target.choice import arm_features, conditions
from cannery.target.isa import Isa


def part_name(model: str, isa: Isa) -> str:
    """`ball_avx2`: the prefix of one instruction set's symbols and files."""
    return f"{model}_{isa.name}"


def _with_steps_of_all(whole: Source, parts: Sequence[Source]) -> Source:
    """The memory for steps of each size is enough for all parts."""
    needs: dict[int, int] = {}
    for each in (each for part in parts for each in part.by_size):
        size = each.graph.steps_of_call
        needs[size] = max(needs.get(size, 0), each.step_workspace)
    blocks = tuple(replace(b, least_step=needs[b.graph.steps_of_call]) for b in whole.blocks)
    return replace(whole, blocks=blocks, least_step=needs[whole.graph.steps_of_call])


def dispatching_files(name: str, parts: Sequence[Source], command: str) -> dict[str, Content]:
    """The output folder of a library that chooses between `parts`, richest first.

    Each part has its own name (`part_name`).
    """
    bytes_ = max(part.single_bytes for part in parts)
    plainest = parts[-1]
    whole = replace(plainest, name=name, workspace=replace(plainest.workspace, bytes=bytes_))
    whole = _with_steps_of_all(whole, parts)
    spare = max(part.many_bytes for part in parts) - whole.many_bytes
    whole = replace(whole, many=replace(whole.many, spare=whole.many.spare + spare))
    whole = replace(whole, parallel=_parallel(parts), part=False)
    up = name.upper()
    choices = [(part, conditions(part.isa)) for part in parts]
    on_arm = [part.isa for part in parts[:-1] if part.isa.family == "arm"]
    choose = render(
        "emit/dispatch.c.j2", s=whole, choices=choices, command=command,
        features=arm_features(on_arm), x86=any(part.isa.family == "x86" for part in parts),
    )  # fmt: skip
    texts = {
        f"{name}.h": render_header(whole, part=False),
        f"{name}.hpp": render("emit/header.hpp.j2", s=whole, up=up),
        f"{name}.c": tidy(choose),
        f"{name}_static.c": render_static(whole),
        f"{name}_weights.c": render(
            "emit/weights.c.j2", s=replace(whole, blob=replace(whole.blob, data=b"")), up=up
        ),
        f"{name}_selftest.c": render_selftest(whole),
        f"{name}.json": json.dumps(
            {part.isa.name: manifest(part, (".c", "_weights.c")) for part in parts},
            indent=2,
            sort_keys=True,
        )
        + "\n",
    }
    texts |= openmp_texts(whole) | loader_texts(whole) | compiled_nn_texts(whole)
    files: dict[str, Content] = {path: text.encode() for path, text in texts.items()}
    for part in parts:
        part_texts = model_texts(part, command)
        files |= {path: text.encode() for path, text in part_texts.items()} | binary_files(part)
    return files


def _parallel(parts: Sequence[Source]) -> Parallel | None:
    """The values that hold for all parts: the most memory and pieces, the fewest inputs per
    thread.
    """
    found = [part.parallel for part in parts if part.parallel]
    if not found:
        return None
    return replace(
        max(found, key=lambda p: max((step.pieces for step in p.steps), default=0)),
        thread_bytes=max(p.thread_bytes for p in found),
        samples=min(p.samples for p in found),
    )
