"""Jinja's compiled templates, kept next to the package as Python keeps bytecode of modules.

Parsing the templates of a small network takes a sixth of the time of `cannery compile`. If Python
writes no bytecode, or may not write there, they are parsed each time. A damaged file is ignored.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import jinja2
from jinja2.bccache import Bucket

_DIGEST_BYTES = 32


class TemplateCache(jinja2.BytecodeCache):
    """A file for each template in `folder`.

    `modules` are those whose functions templates call: Jinja's precomputed results depend on them,
    and on Jinja's version.
    """

    def __init__(self, folder: Path, modules: Sequence[Path]) -> None:
        self._folder = folder
        self._salt = hashlib.sha256(jinja2.__version__.encode())
        for module in modules:
            self._salt.update(module.read_bytes())

    def get_source_checksum(self, source: str) -> str:
        """What must be equal for the bytecode to match a template."""
        digest = self._salt.copy()
        digest.update(source.encode())
        return digest.hexdigest()

    def load_bytecode(self, bucket: Bucket) -> None:
        """Fills the bucket, if there is a complete file for it."""
        try:
            stored = self._path(bucket).read_bytes()
        except OSError:
            return
        digest, content = stored[:_DIGEST_BYTES], stored[_DIGEST_BYTES:]
        if digest == hashlib.sha256(content).digest():
            bucket.bytecode_from_string(content)

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Writes the file, if possible."""
        if sys.dont_write_bytecode:
            return
        content = bucket.bytecode_to_string()
        path = self._path(bucket)
        temporary = path.with_name(f"{path.name}.{os.getpid()}")
        with suppress(OSError):
            self._folder.mkdir(parents=True, exist_ok=True)
            try:
                temporary.write_bytes(hashlib.sha256(content).digest() + content)
                temporary.replace(path)
            finally:
                temporary.unlink(missing_ok=True)

    def _path(self, bucket: Bucket) -> Path:
        return self._folder / f"{bucket.key}.{sys.implementation.cache_tag}"
