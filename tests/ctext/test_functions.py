"""How long generated functions are."""

from __future__ import annotations

from cannery.ctext.functions import longest_function

TEXT = """\
static const float w[2] = {
    1.0f, 2.0f,
    1.0f, 2.0f,
    1.0f, 2.0f,
};

static void a(void)
{
    if (1) {
        return;
    }
}

void b(void)
{
}
"""


def test_functions_are_counted_with_their_braces() -> None:
    assert longest_function(TEXT) == 5
    assert longest_function(TEXT.replace("        return;\n", "")) == 4


def test_text_without_functions_has_none() -> None:
    assert longest_function("") == 0
    assert longest_function("#define ONE 1\nextern int x;\n") == 0
