"""The Jinja environment of all templates: strict, and with line statements (`%%`)."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import jinja2

from cannery.ctext import literals
from cannery.ctext.literals import c_float
from cannery.ctext.template_cache import TemplateCache


@cache
def environment() -> jinja2.Environment:
    """Templates are found relative to the package: `ops/conv/direct_oc.c.j2`."""
    here = Path(__file__).resolve()
    root = here.parent.parent
    cache = TemplateCache(root / "__pycache__" / "templates", [here, Path(literals.__file__)])
    env = jinja2.Environment(
        loader=jinja2.FileSystemLoader(str(root)),
        bytecode_cache=cache,
        undefined=jinja2.StrictUndefined,
        line_statement_prefix="%%",
        line_comment_prefix="%#",
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
    env.filters["c_float"] = c_float
    env.filters["c_string"] = c_string
    env.filters["c_utf8"] = c_utf8
    env.filters["c_comment"] = c_comment
    env.globals["offset"] = offset
    env.globals["input_name"] = input_name
    env.globals["loop_head"] = loop_head
    env.globals["unit_loop"] = unit_loop
    env.globals["times"] = times
    env.globals["zip"] = zip
    return env


def c_string(text: str) -> str:
    """Any text inside C quotes; what is not printable ASCII becomes a question mark."""
    plain = "".join(ch if " " <= ch <= "~" else "?" for ch in text)
    return _no_trigraphs(plain.replace("\\", "\\\\").replace('"', '\\"'))


def c_comment(text: str) -> str:
    """Any text inside a C comment or quotes within one."""
    return c_string(text).replace("*/", "* /").replace("/*", "/ *").replace("\\", "|")


def c_utf8(text: str) -> str:
    """Any text inside C quotes, in UTF-8: bytes that are not printable ASCII as octal escapes."""
    plain = (chr(b) if 32 <= b <= 126 else f"\\{b:03o}" for b in text.encode("utf-8", "replace"))
    escaped = ("\\" + c if c in '\\"' and len(c) == 1 else c for c in plain)
    return _no_trigraphs("".join(escaped))


def _no_trigraphs(text: str) -> str:
    """C text in which no question mark follows another."""
    return re.sub(r"\?(?=\?)", r"?\\", text)


def offset(elements: int) -> str:
    """` + 12`, ` - 3` or nothing: an offset added to a pointer."""
    if elements == 0:
        return ""
    return f" + {elements}" if elements > 0 else f" - {-elements}"


def input_name(index: int) -> str:
    """The parameter of a step's input: x, x1, x2 ..."""
    return f"x{index}" if index else "x"


def loop_head(variable: str, count: int) -> str:
    """The head of a loop, or nothing if it would run once; a block follows."""
    return f"for (int {variable} = 0; {variable} < {count}; ++{variable}) " if count > 1 else ""


def unit_loop(variable: str, count: int, first: int, *, cut: bool) -> str:
    """The head of a loop over `count` units of a kernel, from number `first` on.

    `cut`: only those from first_unit to end_unit, parameters of the kernel. A block follows.
    """
    if not cut:
        return f"for (int {variable} = 0; {variable} < {count}; ++{variable}) "
    begin = f"first_unit > {first} ? first_unit - {first} : 0" if first else "first_unit"
    end = f"end_unit{offset(-first)}"
    bound = f"({end} < {count} ? {end} : {count})"
    return f"for (int {variable} = {begin}; {variable} < {bound}; ++{variable}) "


def times(variable: str, count: int, stride: int) -> str:
    """` + t * 12`: the place of iteration `variable` of a loop as above; nothing if it runs
    once.
    """
    return f" + {variable} * {stride}" if count > 1 else ""


def render(template: str, **context: object) -> str:
    """The text of a template; an undefined name is an error."""
    return environment().get_template(template).render(**context)
