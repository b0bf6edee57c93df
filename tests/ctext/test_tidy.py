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


def test_sums_with_zero_and_products_with_one_are_left_out() -> None:
    assert tidy("y = a[0 + i * 1] + f(b + 0, 0 + c);") == "y = a[i] + f(b, c);\n"
    assert tidy("p = x + (t * 384 + 0 + oc);") == "p = x + (t * 384 + oc);\n"
    assert tidy("for (;;)    {\n}") == "for (;;) {\n}\n"


def test_numbers_that_end_or_begin_with_them_stay() -> None:
    for code in ("y = 10 + i * 12;", "y = x * 1.0f + 0.5f;", "y = a + 0 * b;", "y = a * 1 * b;"):
        assert tidy(code) == code + "\n"
    assert tidy('f("a + 0;"); /* (0 + i) */') == 'f("a + 0;"); /* (0 + i) */\n'
