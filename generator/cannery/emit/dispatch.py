"""One library for several instruction sets: a network for each, and a choice at the first call."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

from cannery.emit.environment import render
from cannery.emit.files import headers, manifest, model_texts, runtime_folder
from cannery.emit.selftest import render_selftest
from cannery.emit.source import Source
from cannery.emit.tidy import tidy
from cannery.errors import OptionError
from cannery.target.isa import ISAS, Isa

#: What `__builtin_cpu_supports` calls the macros of the rows of `cannery.target.isa`.
CPU_FEATURES = {
    "__SSE2__": "sse2", "__SSSE3__": "ssse3", "__SSE4_2__": "sse4.2", "__AVX2__": "avx2",
    "__FMA__": "fma", "__AVX512F__": "avx512f", "__AVX512VL__": "avx512vl",
    "__AVX512BW__": "avx512bw", "__AVX512DQ__": "avx512dq", "__AVX512VNNI__": "avx512vnni",
}  # fmt: skip


def part_name(model: str, isa: Isa) -> str:
    """`ball_avx2`: what the symbols and files of one instruction set begin with."""
    return f"{model}_{isa.name}"


def check_isas(isas: Sequence[Isa]) -> tuple[Isa, ...]:
    """The instruction sets from the richest to the plainest.

    Raises OptionError where the processor cannot be asked for them, or one is given twice.
    """
    names = [isa.name for isa in isas]
    if len(set(names)) != len(names):
        raise OptionError(f"instruction set given twice: {', '.join(names)}", where="--isa")
    foreign = [isa.name for isa in isas if isa.family not in ("x86", "any")]
    if foreign:
        raise OptionError(
            f"a choice at run time is possible between x86 instruction sets only, not with "
            f"{', '.join(foreign)}",
            where="--isa",
            cure="give one instruction set",
        )  # fmt: skip
    rank = {name: k for k, name in enumerate(ISAS)}
    return tuple(sorted(isas, key=lambda isa: -rank[isa.name]))


def features(isa: Isa) -> list[str]:
    """What the processor must have, in the words of `__builtin_cpu_supports`."""
    return [CPU_FEATURES[macro] for macro in isa.macros]


def dispatching_files(name: str, parts: Sequence[Source], command: str) -> dict[str, bytes]:
    """The output folder of a library that chooses between `parts`, the richest first.

    Each part carries its own name (`part_name`).
    """
    bytes_ = max(part.workspace.bytes for part in parts)
    plainest = parts[-1]
    whole = replace(plainest, name=name, workspace=replace(plainest.workspace, bytes=bytes_))
    up = name.upper()
    choices = [(part, features(part.isa)) for part in parts]
    texts = {
        f"{name}.h": render("emit/header.h.j2", s=whole, up=up, part=False),
        f"{name}.hpp": render("emit/header.hpp.j2", s=whole, up=up),
        f"{name}.c": tidy(render("emit/dispatch.c.j2", s=whole, choices=choices, command=command)),
        f"{name}_static.c": render("emit/static.c.j2", s=whole, up=up),
        f"{name}_weights.c": render(
            "emit/weights.c.j2", s=replace(whole, blob=replace(whole.blob, data=b"")), up=up
        ),
        f"{name}_selftest.c": render_selftest(whole),
        f"{name}.json": json.dumps(
            {part.isa.name: manifest(part) for part in parts}, indent=2, sort_keys=True
        )
        + "\n",
    }
    files = {path: text.encode() for path, text in texts.items()}
    for part in parts:
        part_texts = model_texts(part, command)
        files.update({path: text.encode() for path, text in part_texts.items()})
        if part.blob.data:
            files[f"{part.name}_weights.bin"] = part.blob.data
        for header in headers(part):
            files[f"cannery/{header}"] = (runtime_folder() / header).read_bytes()
    return files
