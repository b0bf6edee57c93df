"""Careful reading of HDF5 files: damage is a ModelError, and nothing outside the file is touched.

HDF5 can refer to other files (external links, external and virtual datasets), and a few bytes can
declare gigabytes. Model files do neither, so both are rejected before anything is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import IO, Any, TypeVar

import h5py
import numpy as np

from cannery.errors import ModelError
from cannery.ir.graph import Array
from cannery.ir.tensor import MAX_ELEMENTS

T = TypeVar("T")

#: HDF5 files begin with this.
MAGIC = b"\x89HDF\r\n\x1a\n"

#: What h5py raises for damaged files.
_H5PY_ERRORS = (OSError, KeyError, RuntimeError, ValueError, TypeError, MemoryError, AttributeError)

#: Below this size nothing is suspicious; above it, no weights compress to less than 1/1000.
_TRUSTED_BYTES = 1 << 24
_MAX_EXPANSION = 1000

#: More than the weights of any layer.
_MAX_TEXTS = 1 << 20

_CURE = "save the model again, or copy the file again"


class Hdf5Reader:
    """An open HDF5 file. Paths are relative to its root; every method raises ModelError."""

    def __init__(self, file: Any, name: str) -> None:
        self._file = file
        self._name = name

    def _guarded(self, what: str, read: Callable[[], T]) -> T:
        try:
            return read()
        except _H5PY_ERRORS as error:
            reason = str(error).strip("'\"").splitlines()
            detail = f": {reason[0][:120]}" if reason else ""
            raise ModelError(
                f"{what} cannot be read{detail}", where=self._name, cure=_CURE
            ) from None

    def _get(self, path: str) -> Any:
        """The object at `path`, reached only through hard links; None if there is none."""
        current = self._file
        for part in (p for p in path.split("/") if p):
            if not isinstance(current, h5py.Group):
                return None
            link = current.get(part, getlink=True)
            if link is None:
                return None
            if not isinstance(link, h5py.HardLink):
                raise ModelError(f"{path!r} is a link, not data", where=self._name, cure=_CURE)
            current = current[part]
        return current

    def has_group(self, path: str) -> bool:
        """Whether there is a group at `path`."""
        return self._guarded(repr(path), lambda: isinstance(self._get(path), h5py.Group))

    def children(self, path: str) -> tuple[str, ...]:
        """The names in the group at `path`, sorted; none if there is no group."""

        def read() -> tuple[str, ...]:
            group = self._get(path)
            return tuple(sorted(group)) if isinstance(group, h5py.Group) else ()

        return self._guarded(repr(path), read)

    def text(self, path: str, attribute: str) -> str | None:
        """A text attribute of the object at `path`; None if it is absent."""
        value = self._attribute(path, attribute)
        if isinstance(value, bytes):
            return self._guarded(attribute, lambda: value.decode("utf-8"))
        return value if isinstance(value, str) else None

    def texts(self, path: str, attribute: str) -> tuple[str, ...] | None:
        """A list of texts, in `attribute0`, `attribute1` ... if it is long; None if absent."""
        value = self._attribute(path, attribute)
        if value is not None:
            return self._decoded(value, attribute)
        parts: list[str] = []
        k = 0
        while (part := self._attribute(path, f"{attribute}{k}")) is not None:
            parts += self._decoded(part, attribute)
            k += 1
        return tuple(parts) if k else None

    def _decoded(self, value: Any, attribute: str) -> tuple[str, ...]:
        def read() -> tuple[str, ...]:
            items = np.asarray(value).ravel().tolist()
            return tuple(v.decode("utf-8") if isinstance(v, bytes) else str(v) for v in items)

        return self._guarded(attribute, read)

    def _attribute(self, path: str, attribute: str) -> Any:
        def read() -> Any:
            target = self._get(path)
            if target is None or attribute not in target.attrs:
                return None
            stored = target.attrs.get_id(attribute)
            # libhdf5 crashes on types that are damaged: only texts are ever read.
            is_text = isinstance(stored.get_type(), h5py.h5t.TypeStringID)
            if not is_text or stored.shape is None or prod(stored.shape) > _MAX_TEXTS:
                what = f"attribute {attribute!r} is not a text"
                raise ModelError(what, where=self._name, cure=_CURE)
            return target.attrs[attribute]

        return self._guarded(f"attribute {attribute!r} of {path or 'the file'!r}", read)

    def has_array(self, path: str) -> bool:
        """Whether there is a dataset at `path`."""
        return self._guarded(repr(path), lambda: isinstance(self._get(path), h5py.Dataset))

    def array(self, path: str, shapes: Sequence[tuple[int, ...]]) -> Array:
        """The numbers at `path` as float32.

        Raises ModelError unless the file itself holds them, in one of `shapes`, as floats. Shapes
        are checked before any memory is allocated.
        """

        def read() -> Array:
            dataset = self._get(path)
            if not isinstance(dataset, h5py.Dataset):
                raise ModelError(f"{path!r} is missing", where=self._name, cure=_CURE)
            self._check_dataset(dataset, path, shapes)
            return _as_float32(dataset)

        return self._guarded(repr(path), read)

    def _check_dataset(self, dataset: Any, path: str, shapes: Sequence[tuple[int, ...]]) -> None:
        where = f"{self._name}: {path!r}"
        if dataset.shape not in shapes:
            expected = " or ".join(dict.fromkeys(map(str, shapes)))
            raise ModelError(f"has shape {dataset.shape}, expected {expected}", where=where)
        if prod(dataset.shape) > MAX_ELEMENTS:
            raise ModelError(f"shape {dataset.shape} is too large", where=where)
        if dataset.dtype.kind != "f" and not _is_bfloat16(dataset):
            raise ModelError(f"holds {dataset.dtype}, expected floats", where=where)
        if dataset.is_virtual or dataset.external:
            raise ModelError("its data is in another file", where=where, cure=_CURE)
        size = int(dataset.nbytes)
        if size > _TRUSTED_BYTES and size > _MAX_EXPANSION * dataset.id.get_storage_size():
            raise ModelError("declares far more data than it holds", where=where, cure=_CURE)


def _is_bfloat16(dataset: Any) -> bool:
    """Keras stores bfloat16 as 2 opaque bytes; in archives, not in .h5, an attribute says so."""
    said = dataset.attrs.get("dtype", "bfloat16") == "bfloat16"
    return bool(said and dataset.dtype.kind == "V" and dataset.dtype.itemsize == 2)


def _as_float32(dataset: Any) -> Array:
    values = np.asarray(dataset[()])
    if dataset.dtype.kind != "f":
        high = values.view("<u2").astype(np.uint32) << 16
        wide: Array = high.view(np.float32).reshape(dataset.shape)
        return wide
    with np.errstate(over="ignore"):
        narrow: Array = values.astype(np.float32, copy=False)
    if values.dtype.itemsize > narrow.dtype.itemsize and np.isinf(narrow).any():
        raise ModelError("holds numbers too large for float32")
    return narrow


@contextmanager
def open_hdf5(source: Path | IO[bytes], name: str) -> Iterator[Hdf5Reader]:
    """The HDF5 file at a path or in a stream; `name` is for messages."""
    try:
        file = h5py.File(source, "r")
    except _H5PY_ERRORS as error:
        reason = str(error).splitlines()[0][:160] if str(error) else type(error).__name__
        raise ModelError(
            f"a damaged or truncated HDF5 file: {reason}", where=name, cure=_CURE
        ) from None
    with file:
        yield Hdf5Reader(file, name)
