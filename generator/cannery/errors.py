"""The errors that a user can cause and cure.

Every message says what is wrong, where (file, layer, attribute, option), and what to do about it.
The command line prints it as one line and exits with code 2.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable, Mapping


def closest(word: str, known: Iterable[str]) -> str:
    """The known word that a misspelt one most likely means; empty if none is near.

    It may be the only one that contains the misspelt word.
    """
    from difflib import get_close_matches  # most processes misspell nothing

    plain = {_plain(name): name for name in known}
    found = get_close_matches(_plain(word), plain, n=1, cutoff=0.7)
    if not found and len(word) > 2:
        found = [name for name in plain if _plain(word) in name]
    return plain[found[0]] if len(found) == 1 else ""


def _plain(word: str) -> str:
    """A word without easily confused details: case, dashes and underscores."""
    return word.casefold().replace("_", "-")


def one_of(word: str, known: Iterable[str], what: str = "one of") -> str:
    """The cure for an unknown word: the one probably meant, and the list of all."""
    names = list(known)
    near = closest(word, names)
    meant = f"did you mean {near!r}? " if near else ""
    return f"{meant}{what}: {', '.join(names) or 'none'}"


def printable(text: str) -> str:
    """A text with unprintable characters, such as line ends, in Python's escapes."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


class CanneryError(Exception):
    """Base of all errors caused by input or environment, never by a defect of Cannery.

    `what` is the problem, `where` the place (file, layer, attribute, option), `cure` what to do.
    Names may come from an untrusted file: unprintable characters, such as line ends or terminal
    escapes, are shown in Python's escapes.
    """

    def __init__(self, what: str, *, where: str = "", cure: str = "") -> None:
        self.what = what
        self.where = where
        self.cure = cure
        super().__init__(str(self))

    def __str__(self) -> str:
        text = f"{self.where}: {self.what}" if self.where else self.what
        return printable(f"{text} ({self.cure})" if self.cure else text)


class ModelError(CanneryError):
    """The model file is damaged, inconsistent or not a model."""


class UnsupportedError(ModelError):
    """The model is sound, but uses an operator or attribute that Cannery does not implement."""


class OptionError(CanneryError):
    """An option is unknown, malformed or contradicts another one."""


class ToolchainError(CanneryError):
    """A compiler, linker, emulator or device is missing or failed."""


class RecordError(CanneryError):
    """A tuning record is damaged or does not fit the model."""


class CanneryWarning(UserWarning):
    """Something that a user should know, though the result is sound."""


def warn(text: str) -> None:
    """Warn the program that called Cannery, at its own line."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and _is_own(frame.f_globals):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, CanneryWarning, stacklevel=level)


def _is_own(names: Mapping[str, object]) -> bool:
    return str(names.get("__name__")).partition(".")[0] == "cannery"
