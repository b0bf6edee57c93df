"""Renders `cmake/CanneryOptions.cmake`: what CMake must know about options and targets.

`python -m cannery.options_cmake > cmake/CanneryOptions.cmake` updates it; a test compares.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable

from cannery.options import SPECS, Kind
from cannery.target.compiler import PRIVATE_FLAGS
from cannery.target.targets import BOARDS, TARGETS, isa_names, target_names

_HEADER = """\
# Rendered from cannery/options.py and cannery/target/ by
#   python -m cannery.options_cmake > cmake/CanneryOptions.cmake
# Do not edit.
"""


def _set(name: str, values: Iterable[str]) -> str:
    return f'set(_CANNERY_{name} "{";".join(values)}")'


def render() -> str:
    """The text of the file."""
    specs = [spec for spec in SPECS if spec.cmake]
    lines = [_HEADER]
    for kind in Kind:
        names = (spec.cmake_keyword for spec in specs if spec.kind is kind)
        lines.append(_set(f"{kind.name}_OPTIONS", names))
    lines.append(_set("PATH_OPTIONS", (s.cmake_keyword for s in specs if s.is_path)))
    lines.append("\n# Flags that make compilers produce code for a target or an instruction set.")
    lines.append(_set("TARGETS", target_names()))
    lines.append(_set("ISAS", isa_names()))
    lines += [_set(f"FLAGS_{target.name}", target.flags) for target in TARGETS.values()]
    lines.append(
        "\n# Processors and boards that have no target of their own, and what serves them."
    )
    lines.append(_set("BOARDS", (pattern for pattern, _ in BOARDS)))
    lines.append(_set("BOARD_CURES", (cure for _, cure in BOARDS)))
    lines.append("\n# How generated code is compiled in every configuration.")
    lines += [_set(f"PRIVATE_FLAGS_{key}", flags) for key, flags in PRIVATE_FLAGS.items()]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(render())
