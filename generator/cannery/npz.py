"""Arrays from .npz files that users give."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np

from cannery.errors import OptionError
from cannery.ops.registry import RefArray


def read_arrays(path: Path) -> dict[str, RefArray]:
    """The arrays of a .npz file by name. Raises OptionError if it is missing or damaged."""
    where, cure = str(path), "name a file made by numpy.savez, with one array for each tensor"
    try:
        file = np.load(path, allow_pickle=False)
        if not isinstance(file, np.lib.npyio.NpzFile):
            raise OptionError("one array without a name", where=where, cure=cure)
        with file:
            return {name: file[name] for name in file.files}
    except OSError as error:
        raise OptionError(error.strerror or "cannot be read", where=where, cure=cure) from None
    except (ValueError, EOFError, zipfile.BadZipFile) as error:
        # Of other files NumPy says that they may be pickled, and how to trust them.
        why = f": {error}" if zipfile.is_zipfile(path) else ""
        raise OptionError(f"not a sound .npz file{why}", where=where, cure=cure) from None
