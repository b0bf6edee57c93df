"""Indenting by braces changes nothing but white space."""

from __future__ import annotations

from pathlib import Path

from cannery.ctext.tidy import tidy

CASES = Path(__file__).resolve().parents[2] / "runtime" / "include" / "cannery"


def test_braces_set_the_depth() -> None:
    code = "void f(void)\n{\nif (x) {\na();\n} else {\n      b();\n}\n}\n"
    assert tidy(code) == (
        "void f(void)\n{\n    if (x) {\n        a();\n    } else {\n        b();\n    }\n}\n"
    )


def test_braces_in_text_and_comments_do_not_count() -> None:
    code = 'void f(void)\n{\nputs("{{\\"{");\nchar c = \'{\'; /* { */\n/* {\n{ */\nb();\n}\n'
    assert tidy(code) == (
        'void f(void)\n{\n    puts("{{\\"{");\n    char c = \'{\'; /* { */\n'
        "    /* {\n     { */\n    b();\n}\n"
    )


def test_directives_begin_lines_and_empty_lines_do_not_run() -> None:
    code = "{\n\n\n  #if 1\na();\n#endif\n\n\n\nb();\n}\n\n\n"
    assert tidy(code) == "{\n\n#if 1\n    a();\n#endif\n\n    b();\n}\n"


def test_tidy_code_stays() -> None:
    for path in sorted(CASES.glob("*.h")):
        once = tidy(path.read_text())
        assert tidy(once) == once
        assert once.split() == path.read_text().split()
