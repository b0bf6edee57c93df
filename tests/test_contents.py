"""Large weights are kept in files while code is generated: the same bytes as in memory."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from mmap import mmap
from pathlib import Path
from typing import IO

import numpy as np
import pytest

import cannery
from cannery import contents
from cannery.cli import invoke
from cannery.contents import ContentWriter, array_digest, array_pieces, pieces, put_aside, zeros
from cannery.ctext import arrays
from cannery.errors import CanneryError
from cannery.output_files import write_files
from emit.c_programs import net_files, network
from frontends.keras_files import LayerSpec, chain, image, write_h5


@pytest.fixture
def little(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if all but the shortest contents were too long for the memory."""
    monkeypatch.setattr(contents, "IN_MEMORY", 64)
    monkeypatch.setattr(contents, "_PIECE", 4096)


def resident(array: np.ndarray) -> int:
    """How many bytes of the map that holds an array are in this process' memory."""
    lines = Path("/proc/self/smaps").read_text().splitlines()
    begin = array.ctypes.data
    starts = [k for k, line in enumerate(lines) if line.startswith(f"{begin:08x}-")]
    found = next(line for line in lines[starts[0] :] if line.startswith("Rss:"))
    return 1024 * int(found.split()[1])


@pytest.mark.usefixtures("little")
@pytest.mark.parametrize("length", [0, 64, 65, 10_000])
def test_contents_are_what_was_written(tmp_path: Path, length: int) -> None:
    data = np.random.default_rng(length).bytes(length)
    writer = ContentWriter()
    for at in range(0, length, 60):
        writer.write(data[at : at + 60])
    content = writer.content()
    assert isinstance(content, mmap if length > 64 else bytes)
    assert writer.size == len(content) == length
    assert content[:] == b"".join(pieces(content)) == data
    file = tmp_path / "net_weights.bin"
    assert write_files({file: content}) == [file]
    assert file.read_bytes() == data
    assert not write_files({file: content})


@pytest.mark.usefixtures("little")
def test_long_arrays_leave_the_memory_and_keep_their_numbers() -> None:
    numbers = np.random.default_rng(1).standard_normal(100_000).astype(np.float32)
    array = zeros(numbers.size)
    assert not array.any()
    array[:] = numbers
    if os.path.exists("/proc/self/smaps"):  # noqa: PTH110
        assert resident(array) >= numbers.nbytes
        put_aside(array[5:])
        assert resident(array) == 0
    assert array_digest(array) == hashlib.sha256(numbers.tobytes()).digest()
    assert b"".join(array_pieces(array.reshape(-1, 4).T)) == numbers.reshape(-1, 4).T.tobytes()


def full_disk() -> IO[bytes]:
    return Path("/dev/full").open("w+b")


def no_folder() -> IO[bytes]:
    """What Python says where TMPDIR and all other folders are none."""
    raise FileNotFoundError(2, "No usable temporary directory found in ['/nowhere']")


@pytest.mark.usefixtures("little")
@pytest.mark.parametrize(
    ("file", "message"), [(full_disk, "No space left on device"), (no_folder, "No usable")]
)
def test_weights_that_cannot_be_stored(
    file: Callable[[], IO[bytes]], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contents.tempfile, "TemporaryFile", lambda *args, **named: file())
    with pytest.raises(CanneryError, match=f"{message}.*TMPDIR"):
        zeros(100_000)
    writer = ContentWriter()
    with pytest.raises(CanneryError, match=f"{message}.*TMPDIR"):  # as late as at the end
        writer.write(bytes(100_000))
        writer.content()


@pytest.mark.usefixtures("little")
def test_weights_that_cannot_be_stored_end_commands_and_calls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a traceback, and without a file that is half written."""
    model, folder = tmp_path / "net.h5", tmp_path / "out"
    kernel = np.ones((64, 64), np.float32)
    dense = LayerSpec("Dense", "y", (), {"units": 64, "use_bias": False}, {"kernel": kernel})
    write_h5(model, chain(image("x", 64), dense))
    monkeypatch.setattr(arrays, "BLOB_FROM_BYTES", 0)
    monkeypatch.setattr(contents.tempfile, "TemporaryFile", lambda *args, **named: full_disk())
    with pytest.raises(CanneryError, match=r"No space left on device.*TMPDIR"):
        cannery.compile(model, folder, isa="generic")
    assert invoke(["compile", str(model), "-o", str(folder), "--isa=generic"]) == 2
    assert "No space left on device (make room, or set TMPDIR" in capsys.readouterr().err
    assert not folder.exists() or not list(folder.iterdir())


@pytest.mark.usefixtures("little")
def test_a_network_is_the_same_with_all_its_weights_in_files(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(arrays, "BLOB_FROM_BYTES", 0)
    monkeypatch.setattr(arrays, "BLOB_ARRAY_BYTES", 16)
    found = net_files(network(), "net")
    assert isinstance(found["net_weights.bin"], mmap)
    monkeypatch.setattr(contents, "IN_MEMORY", 2**26)
    plain = net_files(network(), "net")
    assert isinstance(plain["net_weights.bin"], bytes)
    assert {path: data[:] for path, data in found.items()} == plain
