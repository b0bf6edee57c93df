"""Sizes of the dimensions that an ONNX model leaves open."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cannery.errors import CanneryError, OptionError, UnsupportedError
from cannery.frontends.onnx.model import OnnxInput
from cannery.frontends.open_dimensions import TRIED, Build, OpenDimensionError, check_dims, walked
from cannery.frontends.options import ImportOptions


class Sizes:
    """Sizes of the dimensions that a model leaves open."""

    def __init__(self, inputs: Sequence[OnnxInput], options: ImportOptions) -> None:
        self._options = options
        self._open = sorted({
            self._key(given, axis)
            for given in inputs
            for axis, d in enumerate(given.dims or ())
            if not isinstance(d, int)
        })  # fmt: skip
        self._batches = {i.dims[0] for i in inputs if i.dims and isinstance(i.dims[0], str)}
        check_dims(options, self._open)

    def _key(self, given: OnnxInput, axis: int) -> str:
        """The name of a dimension on the command line."""
        assert given.dims is not None
        d = given.dims[axis]
        return d if isinstance(d, str) else f"{given.name}.{axis}"

    def shape(self, given: OnnxInput) -> tuple[int, ...]:
        """The shape of an input. Raises UnsupportedError for dimensions that stay open."""
        where = f"input {given.name!r}"
        if given.dims is None:
            raise UnsupportedError("it has no shape", where=where, cure="export the model with one")
        return tuple(self._size(given, axis, where) for axis in range(len(given.dims)))

    def assumed(self, given: OnnxInput) -> str:
        """The name of a leading dimension that is taken as the batch; empty if it is given."""
        if not given.dims or isinstance(given.dims[0], int):
            return ""
        key = self._key(given, 0)
        return "" if key in self._options.dims else key

    def doubled(self) -> dict[str, int]:
        """Twice the size of every open dimension; empty if there is none."""
        options = self._options
        return {key: 2 * options.dims.get(key, options.batch) for key in self._open}

    def _size(self, given: OnnxInput, axis: int, where: str) -> int:
        assert given.dims is not None
        d = given.dims[axis]
        if isinstance(d, int):
            if axis == 0 and len(given.dims) > 1 and self._options.batch not in (1, d):
                other = "keep a state for each sequence"
                other = other if self._options.streaming else "leave this out and call run_many"
                cure = f"export the model with an open batch, or {other}"
                what = f"the batch of {where} is fixed at {d}"
                raise OptionError(what, where="--batch", cure=cure)
            return d
        key = self._key(given, axis)
        if key in self._options.dims:
            return self._options.dims[key]
        if axis == 0 or key in self._batches:
            return self._options.batch
        left = [
            (k, self._key(given, k))
            for k, size in enumerate(given.dims)
            if k >= axis and not isinstance(size, int)
        ]
        raise OpenDimensionError([(k, d) for k, d in left if d not in self._options.dims], where)


def require_batches(inputs: Sequence[OnnxInput], options: ImportOptions, build: Build) -> None:
    """Open leading dimensions were taken as the batch: checks that they are not time.

    It reads the model with other sizes: with that of time, the number of steps changes, or the
    number of nodes if loops are unrolled.

    Raises UnsupportedError with the dimension's name.
    """
    sizes = Sizes(inputs, options)
    for given in inputs:
        key = sizes.assumed(given)
        if not key:
            continue
        try:
            first, second = (
                walked(build(replace(options, dims={**options.dims, key: size}))) for size in TRIED
            )
        except CanneryError:  # impossible with other sizes: not a sequence
            continue
        if first != second:
            raise OpenDimensionError([(0, key)], f"input {given.name!r}", [key])
