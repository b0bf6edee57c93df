"""What zipfile raises for damaged archives."""

from __future__ import annotations

import zipfile
import zlib

ZIP_ERRORS = (
    zipfile.BadZipFile,
    zlib.error,
    OSError,
    EOFError,
    RuntimeError,
    NotImplementedError,
    ValueError,
    MemoryError,
)
