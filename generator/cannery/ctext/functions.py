"""Functions in tidy C text: their braces begin lines, all others are indented."""

from __future__ import annotations


def longest_function(code: str) -> int:
    """Lines of the longest function, from its opening brace to its closing one."""
    longest = begin = 0
    for number, line in enumerate(code.splitlines(), 1):
        if line == "{":
            begin = number
        elif line == "}":
            longest = max(longest, number - begin + 1)
    return longest
