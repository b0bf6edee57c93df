"""How much code each step of a network becomes."""

from __future__ import annotations

from collections.abc import Mapping

from cannery.analysis.kernels import compile_apart, step_prefix
from cannery.atomic import temporary_folder
from cannery.emit.source import Source
from cannery.measure.elf import function_places
from cannery.target.toolchain import Toolchain


def code_bytes(
    source: Source, files: Mapping[str, bytes], toolchain: Toolchain
) -> tuple[int | None, ...]:
    """Bytes of code by step, None where the object file does not say. Raises ToolchainError.

    Every kernel stays a function of its own; in a library, compilers may put several into one.
    """
    with temporary_folder() as folder:
        places = function_places(compile_apart(folder, source, files, toolchain))
    if not places:
        return (None,) * len(source.calls)
    prefixes = [step_prefix(source, call) for call in source.calls]
    return tuple(
        sum(place.size for name, place in places.items() if name.startswith(prefix))
        for prefix in prefixes
    )
