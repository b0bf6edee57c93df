"""Damaged and hostile model files: one clear error each; nothing is followed or allocated."""

from __future__ import annotations

import json
import resource
import zipfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from zlib import crc32

import h5py
import numpy as np
import pytest

from cannery.errors import CanneryError, ModelError
from cannery.frontends import ImportOptions, load_graph
from cannery.frontends.keras.hdf5_reader import Hdf5Reader
from frontends.keras_files import LayerSpec, chain, image, layer, write_h5, write_keras
from frontends.keras_networks import FOLDER
from frontends.test_keras_errors import dense, error_of, numbers, single


@pytest.mark.parametrize("write", [write_h5, write_keras])
def test_truncated_anywhere(write: Callable[..., Path], tmp_path: Path) -> None:
    path = write(tmp_path / "m", chain(image("x", 3), dense()))
    whole = path.read_bytes()
    for k in range(1, 24):
        path.write_bytes(whole[: len(whole) * k // 24])
        assert isinstance(error_of(path), ModelError)


@pytest.mark.parametrize("write", [write_h5, write_keras])
def test_flipped_bytes_never_escape_as_other_errors(
    write: Callable[..., Path], tmp_path: Path
) -> None:
    path = write(tmp_path / "m", chain(image("x", 3), dense()))
    whole = path.read_bytes()
    rng = np.random.default_rng(7)
    failures = 0
    for _ in range(150):
        damaged = bytearray(whole)
        for position in rng.integers(0, len(whole), 8):
            damaged[position] = rng.integers(0, 256)
        path.write_bytes(damaged)
        try:
            load_graph(path)
        except CanneryError:
            failures += 1
    assert failures > 0


# Weights that are damaged


def with_file(path: Path, change: Callable[[h5py.File], None]) -> Path:
    with h5py.File(path, "a") as file:
        change(file)
    return path


KERNEL = "model_weights/d/d/kernel:0"


def replaced(data: Any) -> Callable[[h5py.File], None]:
    def change(file: h5py.File) -> None:
        del file[KERNEL]
        file[KERNEL] = data

    return change


def _external_link(file: h5py.File) -> None:
    del file[KERNEL]
    file[KERNEL] = h5py.ExternalLink("/etc/passwd", "/secret")


def _soft_link(file: h5py.File) -> None:
    del file[KERNEL]
    file[KERNEL] = h5py.SoftLink("/model_weights/d/d/bias:0")


def _external_data(file: h5py.File) -> None:
    del file[KERNEL]
    file.create_dataset(KERNEL, (3, 2), "f4", external=[("/etc/passwd", 0, 24)])


def _virtual(file: h5py.File) -> None:
    del file[KERNEL]
    layout = h5py.VirtualLayout((3, 2), "f4")
    layout[:] = h5py.VirtualSource("/tmp/other.h5", "x", (3, 2))
    file.create_virtual_dataset(KERNEL, layout)


def _no_group(file: h5py.File) -> None:
    del file["model_weights/d"]


def _no_dataset(file: h5py.File) -> None:
    del file[KERNEL]


def _too_many(file: h5py.File) -> None:
    attributes = file["model_weights/d"].attrs
    attributes["weight_names"] = [*attributes["weight_names"], "d/extra:0", "d/kernel:0"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (replaced(numbers(4, 2)), "has shape (4, 2), expected (3, 2)"),
        (replaced(np.ones((3, 2), np.int32)), "holds int32, expected floats"),
        (replaced(np.float64(1e300) * np.ones((3, 2))), "too large for float32"),
        (replaced("text"), "has shape ()"),
        (_external_link, "is a link"),
        (_soft_link, "is a link"),
        (_external_data, "in another file"),
        (_virtual, "in another file"),
        (_no_group, "weights are missing"),
        (_no_dataset, "is missing"),
        (_too_many, "stores the weights d/kernel:0, d/bias:0, d/extra:0, d/kernel:0, expected"),
    ],
)
def test_damaged_weights(change: Any, message: str, tmp_path: Path) -> None:
    path = write_h5(tmp_path / "m", chain(image("x", 3), dense()))
    text = str(error_of(with_file(path, change)))
    assert message in text
    assert "layer 'd'" in text


def test_damaged_weights_of_archives(tmp_path: Path) -> None:
    model = chain(image("x", 3), dense())
    weights = tmp_path / "w"
    with h5py.File(weights, "w") as file:
        file["layers/dense/vars/0"] = numbers(2, 3)
    path = write_keras(tmp_path / "m", model, weights=weights.read_bytes())
    assert "layer 'd', weight 'kernel': has shape (2, 3), expected (3, 2)" in str(error_of(path))
    with h5py.File(weights, "w") as file:
        file["layers/other/vars/0"] = numbers(2, 3)
    path = write_keras(tmp_path / "m", model, weights=weights.read_bytes())
    assert "layer 'd', weight 'kernel'" in str(error_of(path))


# Absurd sizes


@pytest.fixture
def little_memory() -> Any:
    """Fails what would allocate gigabytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 29), hard))
    yield
    resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


@pytest.mark.usefixtures("little_memory")
@pytest.mark.parametrize(
    "spec",
    [
        layer("Dense", "d", units=2**31 - 1),
        layer("BatchNormalization", "d", scale=False, center=False),
        layer("RepeatVector", "d", n=2**31 - 1),
        layer("ZeroPadding1D", "d", padding=2**40),
        layer("UpSampling1D", "d", size=2**31 - 1),
        layer("GroupNormalization", "d", groups=-1),
        layer("PReLU", "d"),
    ],
)
@pytest.mark.parametrize("shape", [(3,), (2**30,), (2, 2**29)])
def test_absurd_sizes(spec: LayerSpec, shape: tuple[int, ...], tmp_path: Path) -> None:
    assert isinstance(error_of(single(tmp_path, spec, *shape)), ModelError)


@pytest.mark.usefixtures("little_memory")
def test_datasets_that_declare_what_they_do_not_hold(tmp_path: Path) -> None:
    units = 2**29

    def declare(file: h5py.File) -> None:
        del file[KERNEL]
        file.create_dataset(KERNEL, (3, units), "f4", chunks=(3, 1 << 20), compression="gzip")

    spec = LayerSpec("Dense", "d", (), {"units": units}, dense().weights)
    path = with_file(write_h5(tmp_path / "m", chain(image("x", 3), spec)), declare)
    assert "declares far more data than it holds" in str(error_of(path))


@pytest.mark.usefixtures("little_memory")
def test_archives_that_expand(tmp_path: Path) -> None:
    path = write_keras(tmp_path / "m", chain(image("x", 3), dense()), weights=None)
    with (
        zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive,
        archive.open("model.weights.h5", "w") as member,
    ):
        for _ in range(200):
            member.write(bytes(1 << 20))
    assert "claims to hold 209715200 bytes" in str(error_of(path))


def test_shapes_beyond_every_index(tmp_path: Path) -> None:
    path = write_h5(tmp_path / "m", chain(image("x", 2**20, 2**20), LayerSpec("ReLU", "r")))
    assert "more than 2^31-1 elements" in str(error_of(path))


def test_groups_that_are_not_there_have_no_children(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "f.h5", "w") as file:
        file["group/data"] = np.zeros(3)
        file.create_group("group/empty")
        reader = Hdf5Reader(file, "f.h5")
        assert reader.children("group") == ("data", "empty")
        for path in ("group/empty", "group/data", "nothing", "group/data/nothing"):
            assert reader.children(path) == ()


#: What takes the place of a part of a configuration.
_OTHERS: tuple[Any, ...] = (
    None, True, -1, 0, 7, 10**9, 2**40, 0.5, 1e30, "", "x", [], [1], [-1, 3], [[1, 2], [3, 4]], {},
    {"class_name": "x"}, "int32", float("nan"),
)  # fmt: skip


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """All parts of a configuration that say what a network computes."""
    yield path
    listed = value if isinstance(value, list) else []
    for key, part in value.items() if isinstance(value, dict) else enumerate(listed):
        if "initializer" not in str(key) and key not in ("module", "build_config"):
            yield from _places(part, (*path, key))


@pytest.mark.parametrize("name", ["text_classifier", "moves", "tables", "attention", "reductions"])
def test_other_values_in_a_configuration_are_read_or_refused(name: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(crc32(name.encode()))
    with zipfile.ZipFile(FOLDER / f"{name}.keras") as archive:
        members = {member: archive.read(member) for member in archive.namelist()}
    config = json.loads(members["config.json"])
    places = [place for place in _places(config) if place]
    for number in rng.choice(len(places), 12, replace=False):
        changed = json.loads(members["config.json"])
        at = changed
        for key in places[number][:-1]:
            at = at[key]
        at[places[number][-1]] = _OTHERS[rng.integers(len(_OTHERS))]
        with zipfile.ZipFile(tmp_path / "m", "w") as archive:
            for member, content in members.items():
                new = json.dumps(changed) if member == "config.json" else content
                archive.writestr(member, new)
        with suppress(CanneryError):
            load_graph(tmp_path / "m", ImportOptions(batch=2))
