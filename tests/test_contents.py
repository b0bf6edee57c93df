"""Large weights are kept in files while code is generated: the same bytes as in memory."""

from __future__ import annotations

import hashlib
import os
from mmap import mmap
from pathlib import Path

import numpy as np
import pytest

from cannery import contents
from cannery.contents import ContentWriter, array_digest, array_pieces, pieces, put_aside, zeros
from cannery.ctext import arrays
from cannery.output_files import write_files
from emit.c_programs import net_files, network


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


def test_a_full_disk_names_the_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contents, "IN_MEMORY", 64)
    full = Path("/dev/full").open("w+b")  # noqa: SIM115 (`zeros` closes it)
    monkeypatch.setattr(contents.tempfile, "TemporaryFile", lambda: full)
    with pytest.raises(OSError, match=r"No space left on device.*TMPDIR"):
        zeros(100_000)


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
