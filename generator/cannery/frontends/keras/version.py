"""The version of Keras that wrote a file; some layers differ between versions."""

from __future__ import annotations

import re
from dataclasses import dataclass

from cannery.errors import ModelError, UnsupportedError

_VERSION = re.compile(r"(\d+)\.(\d+)(?:\.\d+)?.*", re.ASCII)
_MAX_LENGTH = 64


@dataclass(frozen=True)
class KerasVersion:
    """`text` is as in the file: "2.2.4-tf", "3.4.1"."""

    text: str
    major: int
    minor: int

    @property
    def is_3(self) -> bool:
        """Whether this is Keras 3 rather than Keras 2."""
        return self.major >= 3

    @property
    def within_tensorflow(self) -> bool:
        """Whether this is tf.keras with its own version number (before 2.4)."""
        return self.text.endswith("-tf")


def parse_version(text: object) -> KerasVersion:
    """The version in a file's metadata.

    Raises ModelError if there is none, UnsupportedError for Keras 1 and for future versions.
    """
    match = _VERSION.fullmatch(text) if isinstance(text, str) and len(text) <= _MAX_LENGTH else None
    if match is None:
        raise ModelError(
            "does not say which version of Keras wrote it",
            cure="load the model in Keras and save it again",
        )
    version = KerasVersion(match[0], int(match[1]), int(match[2]))
    if version.major not in (2, 3):
        raise UnsupportedError(
            f"written by Keras {version.text}; versions 2 and 3 are supported",
            cure="load the model in Keras 3 and save it again",
        )
    return version
