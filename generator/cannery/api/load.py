"""Networks as Python callables: the code that `compile` makes, in a shared library.

net = cannery.load("ball.h5")
scores = net(image)
"""

from __future__ import annotations

import os
import warnings

from cannery.api.kept import find_entry, key_of
from cannery.api.net import Net
from cannery.api.threads import MAX_THREADS
from cannery.errors import CanneryWarning, OptionError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing_extensions import Unpack

    from cannery.api.options import ModelOptions


def load(
    model: str | os.PathLike[str] | bytes, *, threads: int = 1, **options: Unpack[ModelOptions]
) -> Net:
    """The network in a model file, compiled for this machine and ready to be called.

    `model` is a path, or the content of a model file. Options are those of the command line, by
    name: `batch=2`, `quantize="int8"`, `input_dtype={"image": "uint8"}`. Where several are allowed,
    one text is a list of one: `input_view="image"`. By default, `target` and `isa` mean everything
    that this machine has. A tuning record next to the model is used. With `threads`, each call may
    use that many: they divide up the samples, and large layers of a single one.

    A network that was loaded before is found again within milliseconds, unless the model, its
    record, the options, the compiler or Cannery have changed. Raises CanneryError.
    """
    if type(threads) is not int or not 1 <= threads <= MAX_THREADS:
        raise OptionError(
            f"{threads!r:.20} is not a number from 1 to {MAX_THREADS}", where="threads"
        )
    if hasattr(model, "SerializeToString"):  # a message of ONNX
        model = model.SerializeToString()
    key = key_of(model, {**options, "threads": threads > 1})
    entry = find_entry(key) if key else None
    if entry is not None:
        for text in entry.warnings:
            warnings.warn(text, CanneryWarning, stacklevel=2)
        return Net(entry.library, entry.interface, threads)
    from cannery.api.make import make

    made = make(model, options, key, several_threads=threads > 1)
    for warning in made.warnings:
        warnings.warn(str(warning.message), warning.category, stacklevel=2)
    return Net(made.library, made.interface, threads)
