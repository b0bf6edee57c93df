"""Functions in C text that read constants through a pointer, which each of them loads once.

Code names constants as if they were arrays; where they lie apart, these names are macros that begin
with a variable. It is local to each function, so that no store makes compilers load it again.
"""

from __future__ import annotations

import re
from collections.abc import Collection

#: The variable.
VARIABLE = "cannery_weights_at"

_DEFINE = re.compile(r"^#define (\w+)\b(.*)$", re.MULTILINE)


def with_base_pointer(code: str, names: Collection[str], base: str) -> str:
    """The same code, tidy, whose functions that read any of `names` begin with the variable.

    `base` is the C expression of its value.
    """
    known = set(names)
    for name, body in _DEFINE.findall(code):
        if known & set(re.findall(r"\w+", body)):
            known.add(name)
    lines, made, begin = code.splitlines(), list[str](), -1
    for number, line in enumerate(lines):
        if line == "{":
            begin = number
        made.append(line)
        if line == "}" and begin >= 0:
            body = "\n".join(lines[begin:number])
            if known & set(re.findall(r"\w+", body)):
                at = len(made) - (number - begin)
                made.insert(at, f"    const unsigned char *const {VARIABLE} = {base};")
            begin = -1
    return "\n".join(made) + "\n"
