"""Where to write a record; checks that it can be written before minutes of measuring."""

from __future__ import annotations

import tempfile

from cannery.errors import OptionError, RecordError
from cannery.options import Options
from cannery.output_files import check_output_file


def check_place(options: Options) -> None:
    """Raise OptionError or RecordError if the record of a tuning cannot be written."""
    _check_tuning(options)
    _check_writable(options)


def _check_tuning(options: Options) -> None:
    """Raise OptionError unless --tuning is a folder, or a file that can be written."""
    place = options.tuning
    if place is None or place.is_dir():
        return
    if not place.exists() and place.suffix != ".json":
        raise OptionError(
            f"there is no folder {place}", where="--tuning", cure="make it, or name a .json file"
        )
    check_output_file(place, "--tuning")


def _check_writable(options: Options) -> None:
    """Raise RecordError if no record can be written, because measuring takes minutes."""
    place = options.tuning or options.model
    folder = place if place.is_dir() else place.parent
    if not folder.is_dir():
        return
    try:
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise RecordError(
            f"the tuning record cannot be written there: {error.strerror}", where=str(folder),
            cure="--tuning PATH puts it elsewhere",
        ) from None  # fmt: skip
