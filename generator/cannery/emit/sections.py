"""Places weights, code and the static workspace in named sections of the object files.

Generated files define macros, which gcc and clang read as attributes, and use them where
arrays and functions are defined. Without the option, nothing of this is in them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from cannery.contents import Content

#: The macro that says where, by what is placed (`option_values.PLACED`).
MACROS = {
    "weights": "CANNERY_WEIGHTS", "code": "CANNERY_CODE", "workspace": "CANNERY_WORKSPACE",
    "fast": "CANNERY_FAST",
}  # fmt: skip

_ARRAY = re.compile(r"^(static const \w+ \w+\[\d+\] CANNERY_ALIGN\(\d+\)) = \{$", re.M)
_FUNCTION = re.compile(r"^((?!CANNERY_APART|typedef)[A-Za-z][\w *]*?\b\w+\([^;{}]*\)\n\{)$", re.M)
_REGION = r"^(static unsigned char {}\[\w+\] CANNERY_ALIGN\(64\));$"
_INCLUDE = re.compile(r'^#include "', re.M)


def place(
    files: Mapping[str, Content], name: str, sections: Mapping[str, str]
) -> dict[str, Content]:
    """The generated files of a network with its parts in `sections`."""
    found = dict(files)
    if not sections:
        return found
    own = re.compile(rf"{re.escape(name)}(_static|_weights|_steps\d+|_B\d+\w*)?\.c")
    for path in filter(own.fullmatch, files):
        text = files[path][:].decode()
        if "weights" in sections:
            text = _ARRAY.sub(rf"\1 {MACROS['weights']} = {{", text)
            blob = rf"\.section \.rodata\.{re.escape(name)}_weights,"
            text = re.sub(blob, f".section {sections['weights']},", text)
        if "code" in sections:
            text = _FUNCTION.sub(rf"{MACROS['code']} \1", text)
        for region in {"workspace", "fast"} & {*sections}:
            text = re.sub(_REGION.format(region), rf"\1 {MACROS[region]};", text, flags=re.M)
        found[path] = _with_macros(text, sections).encode()
    return found


def _with_macros(text: str, sections: Mapping[str, str]) -> str:
    """The text with definitions of the macros that it uses before its first header."""
    used = [what for what in MACROS if what in sections and MACROS[what] in text]
    at = _INCLUDE.search(text)
    if not used or at is None:
        return text
    lines = ["/* Where the linker finds it (--section). */", "#if defined(__GNUC__)"]
    lines += [
        f'#define {MACROS[what]} __attribute__((section("{sections[what]}")))' for what in used
    ]
    lines += ["#else", *(f"#define {MACROS[what]}" for what in used), "#endif", ""]
    return text[: at.start()] + "\n".join(lines) + text[at.start() :]
