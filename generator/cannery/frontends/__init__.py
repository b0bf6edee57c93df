"""Readers of model files: a file in, a Graph out.

The format is recognised by content, never by suffix. Each reader is a module with `FORMAT`,
`recognises` and `load`; to add one, add it to `_READERS`. Other packages have entry points.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Protocol, cast

from cannery.errors import CanneryError, ModelError, OptionError
from cannery.frontends.custom import files_of
from cannery.frontends.foreign import identify, identify_folder
from cannery.frontends.numbers import check_numbers
from cannery.frontends.options import ImportOptions
from cannery.ir.graph import Graph
from cannery.ir.verify import verify
from cannery.plugins import FRONTENDS, plugins
from cannery.user_files import check_file

__all__ = ["ImportOptions", "formats", "load_graph"]

#: How many bytes of a file a reader may examine to recognise it.
_HEAD_BYTES = 4096

#: Modules, asked in this order and imported only when asked.
_READERS = (
    "cannery.frontends.keras.hdf5",
    "cannery.frontends.torch_program",
    "cannery.frontends.keras.v3",
    "cannery.frontends.audio.rtneural_file",
    "cannery.frontends.audio.guitarml_file",
    "cannery.frontends.audio.nam_file",
    "cannery.frontends.onnx.file",
    "cannery.frontends.tflite.file",
)

#: Most bytes of a model file. ONNX files have at most half as many; no library of this size can be
#: linked.
_MAX_BYTES = 2**32


class _Reader(Protocol):
    #: The name of the format, such as "Keras archive (.keras)".
    FORMAT: str

    def recognises(self, head: bytes) -> bool: ...

    def load(self, path: Path, options: ImportOptions) -> Graph: ...


def load_graph(path: Path, options: ImportOptions | None = None) -> Graph:
    """The network in the file `path`: channels last, every shape known, verified.

    Inputs keep the model's names; outputs are named after the layers that return them.

    Raises ModelError if the file is missing, damaged or not a model, UnsupportedError (listing all
    layers at once) if it uses something that Cannery does not implement, and OptionError for
    options that do not fit the model.
    """
    head = _head(path)
    for reader in _readers():
        if reader.recognises(head):
            return _load(reader, path, options or ImportOptions())
    foreign = identify(path, head)
    if foreign is not None:
        raise foreign.error(path)
    known = ", ".join(formats())
    raise ModelError("not a model file", where=str(path), cure=f"Cannery reads: {known}")


def formats() -> tuple[str, ...]:
    """The readable formats, for people: "Keras archive (.keras)"."""
    return tuple(reader.FORMAT for reader in _readers())


def _readers() -> Iterator[_Reader]:
    """Those of other packages first, as an archive of any kind may be one of Keras."""
    yield from (cast(_Reader, module) for module in plugins(FRONTENDS))
    yield from (cast(_Reader, import_module(name)) for name in _READERS)


def _load(reader: _Reader, path: Path, options: ImportOptions) -> Graph:
    try:
        graph = reader.load(path, options)
        verify(graph, after="import")
        check_numbers(graph)
        if set(files_of(options.custom)) - set(graph.files):
            raise OptionError(
                f"{reader.FORMAT} has no operators of your own", where="--custom",
                cure="leave it out: it is for ONNX and Keras",
            )  # fmt: skip
    except OptionError:
        raise
    except CanneryError as error:
        if not error.where.startswith(str(path)):
            error.where = f"{path}: {error.where}" if error.where else str(path)
        raise
    return graph


def _head(path: Path) -> bytes:
    """The first bytes of a file; ModelError with a cure for files that are not models at all."""
    where = str(path)
    if path.is_dir():
        raise identify_folder(path).error(path)
    check_file(path, _MAX_BYTES, error=ModelError, cure="name the model's file")
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD_BYTES)
    except OSError as error:
        cure = "check the path and its permissions"
        raise ModelError(f"cannot be read: {error.strerror}", where=where, cure=cure) from None
    if not head:
        raise ModelError("the file is empty", where=where, cure="save the model again")
    return head
