"""One line of a text form, read from left to right."""

from __future__ import annotations

import json
import re

from cannery.errors import ModelError
from cannery.ir.printer import PLAIN_NAME

_NUMBER = re.compile(r"[+-]?(?:inf|nan|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|True|False)")
_NAME = re.compile(PLAIN_NAME.pattern + r'|"(?:[^"\\]|\\.)*"', re.ASCII)
_WORD = re.compile(r"\w+", re.ASCII)
_SPACE = re.compile(r"[ \t]*(?:#.*)?")
_OPENING, _CLOSING = "([", ")]"


class Line:
    """The text of a line, and how far it was read. Spaces do not matter; # begins a comment."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def _skip(self) -> None:
        found = _SPACE.match(self.text, self.at)
        self.at = found.end() if found else self.at

    @property
    def ended(self) -> bool:
        """Whether nothing is left."""
        self._skip()
        return self.at == len(self.text)

    def error(self, expected: str) -> ModelError:
        """The error for unexpected text."""
        here = repr(self.text[self.at : self.at + 20]) if not self.ended else "the end"
        return ModelError(f"{expected} is expected in column {self.at + 1}, not {here}")

    def end(self) -> None:
        """Raises an error if anything follows."""
        if not self.ended:
            raise self.error("the end of the line")

    def next_is(self, *texts: str) -> bool:
        """Whether one of these texts comes next."""
        self._skip()
        return self.text.startswith(texts, self.at)

    def took(self, text: str) -> bool:
        """Takes a text if it comes next."""
        found = self.next_is(text)
        self.at += len(text) if found else 0
        return found

    def take(self, text: str) -> None:
        """Takes a text that must come next."""
        if not self.took(text):
            raise self.error(repr(text))

    def match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Takes the text that matches."""
        self._skip()
        found = pattern.match(self.text, self.at)
        self.at = found.end() if found else self.at
        return found

    def name(self) -> str:
        """A name, plain or quoted."""
        found = self.match(_NAME)
        if found is None:
            raise self.error("a name")
        if found[0][0] != '"':
            return found[0]
        try:
            return str(json.loads(found[0]))
        except ValueError:
            raise ModelError(f"{found[0]} is not quoted as in JSON") from None

    def number(self) -> int | float:
        """A number; booleans are 0 and 1."""
        found = self.match(_NUMBER)
        if found is None:
            raise self.error("a number")
        if found[0] in ("True", "False"):
            return int(found[0] == "True")
        return int(found[0]) if found[0].lstrip("+-").isdigit() else float(found[0])

    def numbers(self) -> list[int | float]:
        """A list of numbers in brackets."""
        found: list[int | float] = []
        self.take("[")
        while not self.took("]"):
            if found:
                self.take(",")
            found.append(self.number())
        return found

    def attributes(self, stop: str) -> dict[str, str]:
        """The texts of `key=value`s up to the end of the line or the word `stop`."""
        found: dict[str, str] = {}
        while not self.ended and not (stop and self.next_is(f"{stop} ")):
            word = self.match(_WORD)
            if word is None:
                raise self.error("an attribute")
            if word[0] in found:
                raise ModelError(f"{word[0]} is given twice")
            self.take("=")
            found[word[0]] = self._expression()
        return found

    def _expression(self) -> str:
        """The text up to a space outside brackets and strings."""
        self._skip()
        begin, depth, quote = self.at, 0, ""
        while self.at < len(self.text):
            letter = self.text[self.at]
            if quote:
                self.at += letter == "\\"
                quote = "" if letter == quote else quote
            elif letter in "'\"":
                quote = letter
            elif letter in " \t#" and depth == 0:
                break
            depth += (letter in _OPENING) - (letter in _CLOSING) if not quote else 0
            self.at += 1
        return self.text[begin : self.at]
