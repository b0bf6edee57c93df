"""Keras archives (.keras): a zip file of config.json, metadata.json and model.weights.h5.

The weights of a layer are `<group>/vars/0`, `/1` ... in the order in which Keras created them. Its
group is `layers/<class>` within its model's group, where `<class>` is the class name in snake case,
with `_1`, `_2` ... from the second layer of a class on.
"""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from cannery.errors import ModelError
from cannery.frontends.archive_errors import ZIP_ERRORS
from cannery.frontends.foreign import identify_archive
from cannery.frontends.json_values import mapping
from cannery.frontends.keras.build import build_graph
from cannery.frontends.keras.config import parse_json
from cannery.frontends.keras.custom import with_custom
from cannery.frontends.keras.hdf5_reader import Hdf5Reader, open_hdf5
from cannery.frontends.keras.layers.base import KerasLayer, LayerPath
from cannery.frontends.keras.model import (
    HELD,
    Entry,
    ModelConfig,
    has_weights,
    is_wrapper,
    read_model,
)
from cannery.frontends.keras.version import parse_version
from cannery.frontends.metadata import keras_metadata
from cannery.frontends.options import ImportOptions
from cannery.ir.graph import Array, Graph

FORMAT = "Keras archive (.keras)"

_MAGIC = b"PK\x03\x04"
_CONFIG, _METADATA, _WEIGHTS = "config.json", "metadata.json", "model.weights.h5"

#: Keras stores members uncompressed; others may compress them, but not as a zip bomb.
_TRUSTED_BYTES = 1 << 26
_MAX_EXPANSION = 100
_MAX_CONFIG_BYTES = 1 << 28
_MAX_WEIGHTS_BYTES = 1 << 34


def recognises(head: bytes) -> bool:
    """Whether a file that begins with `head` is a zip file."""
    return head.startswith(_MAGIC)


def load(path: Path, options: ImportOptions) -> Graph:
    """The graph of a Keras archive; see `cannery.frontends.load_graph`."""
    foreign = identify_archive(path)
    if foreign is not None:
        raise foreign.error(path)
    with _open_archive(path) as archive:
        metadata = mapping(parse_json(_member(archive, _METADATA, path), _METADATA), _METADATA)
        version = parse_version(metadata.get("keras_version"))
        config = parse_json(_member(archive, _CONFIG, path), _CONFIG)
        model = with_custom(read_model(config, version), options.custom)
        weights = io.BytesIO(_member(archive, _WEIGHTS, path))
    with open_hdf5(weights, f"{path}: {_WEIGHTS}") as file:
        graph = build_graph(model, ArchiveWeights(file, model), options)
    return replace(graph, metadata=keras_metadata(model.name, version.text))


@contextmanager
def _open_archive(path: Path) -> Iterator[zipfile.ZipFile]:
    try:
        archive = zipfile.ZipFile(path)
    except ZIP_ERRORS as error:
        raise ModelError(
            f"a damaged or truncated archive: {error}", where=str(path), cure="save the model again"
        ) from None
    with archive:
        yield archive


def _member(archive: zipfile.ZipFile, name: str, path: Path) -> bytes:
    """A whole file of the archive."""
    where = f"{path}: {name}"
    try:
        info = archive.getinfo(name)
    except KeyError:
        what = "is missing: this zip file is not a Keras archive, or an incomplete one"
        raise ModelError(what, where=where, cure="save the model again as .keras") from None
    limit = _MAX_WEIGHTS_BYTES if name == _WEIGHTS else _MAX_CONFIG_BYTES
    expands = info.file_size > _MAX_EXPANSION * max(info.compress_size, 1)
    if info.file_size > limit or (info.file_size > _TRUSTED_BYTES and expands):
        raise ModelError(
            f"claims to hold {info.file_size} bytes", where=where,
            cure="the archive is damaged or not a model: save the model again as .keras",
        )  # fmt: skip
    try:
        return archive.read(info)
    except ZIP_ERRORS as error:
        raise ModelError(f"is damaged: {error}", where=where, cure="save the model again") from None


#: Groups of layers that Keras exports under other names than those of their classes.
_GROUPS = {"GroupQueryAttention": "grouped_query_attention"}


class ArchiveWeights:
    """The weights of a model in an archive."""

    def __init__(self, file: Hdf5Reader, model: ModelConfig) -> None:
        self._file = file
        self._groups = dict(_groups(file, model, "", ()))

    def read(self, path: LayerPath, variable: str, shapes: Sequence[tuple[int, ...]]) -> Array:
        """See WeightStore."""
        where = f"layer {'/'.join(path)!r}, weight {variable!r}"
        found = self._groups.get(path)
        if found is None:
            raise ModelError("is not stored", where=where)
        group, layer = found
        index = (*layer.plan.weights, *layer.plan.state).index(variable)
        try:
            return self._file.array(f"{group}/vars/{index}", shapes)
        except ModelError as error:
            error.where = where
            raise

    def count(self, path: LayerPath) -> int:
        """See WeightStore."""
        found = self._groups.get(path)
        return len(self._file.children(f"{found[0]}/vars")) if found else 0


_Found = tuple[LayerPath, tuple[str, KerasLayer]]


def _groups(file: Hdf5Reader, model: ModelConfig, base: str, path: LayerPath) -> Iterator[_Found]:
    """The group of every layer with weights, inside and below `base`."""
    names = {HELD: HELD} if is_wrapper(model) else _names_in_model(file, model, base)
    for entry in model.entries:
        if entry.name not in names:
            continue
        group, inner = f"{base}{names[entry.name]}", (*path, entry.name)
        if isinstance(entry.target, ModelConfig):
            yield from _groups(file, entry.target, f"{group}/", inner)
        elif isinstance(entry.target, KerasLayer):
            yield from _groups_of_layer(entry.target, group, inner)


def _groups_of_layer(layer: KerasLayer, group: str, path: LayerPath) -> Iterator[_Found]:
    yield path, (group, layer)
    for attribute, child in layer.children.items():
        yield from _groups_of_layer(child, f"{group}/{attribute}", (*path, attribute))


def _names_in_model(file: Hdf5Reader, model: ModelConfig, base: str) -> Mapping[str, str]:
    """Group by layer, relative to the model's."""
    if file.has_group(f"{base}layers"):
        return {e.name: f"layers/{name}" for e, name in _numbered(model)}
    early = "_layer_checkpoint_dependencies"
    if file.has_group(f"{base}{early}"):
        return {n: f"{early}/{g}" for n, g in _names_before_213(file, model, f"{base}{early}")}
    return {}


def _numbered(model: ModelConfig) -> Iterator[tuple[Entry, str]]:
    """Every layer with the name of its group."""
    counts: dict[str, int] = {}
    for entry in model.entries:
        name = _GROUPS.get(entry.class_name, snake_case(entry.class_name))
        count = counts.get(name, 0)
        counts[name] = count + 1
        yield entry, f"{name}_{count}" if count else name


def _names_before_213(
    file: Hdf5Reader, model: ModelConfig, container: str
) -> Iterator[tuple[str, str]]:
    """Keras 2.12 leaves gaps in the numbers: the k-th group with weights is the k-th such layer."""
    groups: dict[str, list[tuple[int, str]]] = {}
    for name in file.children(container):
        if _holds_data(file, f"{container}/{name}"):
            stem, number = _split_number(name)
            groups.setdefault(stem, []).append((number, name))
    for found in groups.values():
        found.sort(reverse=True)
    for entry in model.entries:
        left = groups.get(snake_case(entry.class_name), [])
        if has_weights(entry.target) and left:
            yield entry.name, left.pop()[1]


def _holds_data(file: Hdf5Reader, path: str) -> bool:
    """Whether there is a dataset anywhere below."""
    children = [f"{path}/{name}" for name in file.children(path)]
    return any(file.has_array(c) or _holds_data(file, c) for c in children)


def _split_number(name: str) -> tuple[str, int]:
    stem, _, number = name.rpartition("_")
    return (stem, int(number)) if stem and number.isdecimal() else (name, 0)


def snake_case(class_name: str) -> str:
    """As in Keras: Conv2D becomes conv2d, PReLU p_re_lu."""
    name = re.sub(r"\W+", "", class_name)
    name = re.sub("(.)([A-Z][a-z]+)", r"\1_\2", name)
    return re.sub("([a-z])([A-Z])", r"\1_\2", name).lower()
