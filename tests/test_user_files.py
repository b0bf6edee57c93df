"""Pipes, devices, folders and monstrous files in place of every file that a user names."""

from __future__ import annotations

import os
import signal
import socket
import struct
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

from cannery.cli import invoke
from cannery.errors import CanneryError, OptionError
from cannery.frontends import load_graph
from cannery.npz import read_arrays
from cannery.output_files import write_files
from cannery.user_files import MAX_TEXT, unusual
from tiny_models import write_tiny_model

KINDS = ("pipe", "device", "socket", "folder", "sparse")


@pytest.fixture(autouse=True)
def _no_hanging() -> Iterator[None]:
    """Reading that never ends fails instead of holding up all tests."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise AssertionError("it blocks")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(120)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def unusual_file(folder: Path, kind: str) -> Path:
    """Something that cannot be read to its end."""
    path = folder / "odd.npz"
    if kind == "device":
        return Path("/dev/zero")
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "sparse":
        path.touch()
        os.truncate(path, 2**42)
    else:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(os.path.relpath(path))
    return path


def refused(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """The one line that a command ends with."""
    assert invoke([str(a) for a in arguments]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("cannery: error: ")
    return line


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "option", ["model", "--inputs", "--calibration", "--peepholes", "--macros", "--cc", "--tuning"]
)
def test_what_is_not_a_plain_file_is_one_error_at_once(
    option: str, kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    model = write_tiny_model(tmp_path / "m.h5")
    path = unusual_file(tmp_path, kind)
    if option == "--tuning" and kind == "folder":
        return  # a folder of records
    end = {
        "model": ["inspect", path],
        "--inputs": ["run", model, "--inputs", path, "-o", tmp_path / "out.npz"],
        "--calibration": ["inspect", model, "--quantize", "int8", "--calibration", path],
        "--cc": ["inspect", model, "--cc", f"@{path}"],
    }.get(option, ["compile", model, option, path, "-o", tmp_path / "out"])
    line = refused(capsys, *end)
    expected = {"sparse": "are too many", "folder": "a folder"}.get(kind, f"a {kind}")
    assert expected in line
    assert str(path) in line
    assert {p.name for p in tmp_path.iterdir()} <= {"m.h5", "odd.npz"}


@pytest.mark.parametrize("kind", ["pipe", "device", "socket", "folder"])
def test_nothing_is_written_in_the_place_of_pipes_and_devices(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    model = write_tiny_model(tmp_path / "m.h5")
    path = unusual_file(tmp_path, kind)
    before = unusual(path)
    commands: list[list[Any]] = [
        ["run", model, "--inputs", model, "-o", path],
        ["compile", model, "-o", tmp_path / "out", "--depfile", path],
    ]
    if kind != "folder":
        commands += [
            ["compile", model, "-o", path], ["compile", model, "-o", "out", "--dump", path],
            ["autotune", model, "--tuning", path],
        ]  # fmt: skip
    for command in commands:
        assert str(path) in refused(capsys, *command)
    with pytest.raises(OptionError, match="in the way"):
        write_files({path: b"data"})
    assert unusual(path) == before
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("kind", ["pipe", "folder"])
def test_weights_beside_an_onnx_file(kind: str, tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    from frontends.onnx_models import floats, model, node, write

    proto = model([node("Add", ["x", "w"], ["y"])], {"x": (1, 4)}, weights={"w": floats(4)})
    (weight,) = proto.graph.initializer
    onnx.external_data_helper.set_external_data(weight, "odd.npz")
    weight.ClearField("raw_data")
    unusual_file(tmp_path, kind)
    with pytest.raises(CanneryError, match=f"a {kind}"):
        load_graph(write(tmp_path / "m.onnx", proto))


def test_a_text_that_is_too_large(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "macros.h"
    path.touch()
    os.truncate(path, MAX_TEXT + 1)
    model = write_tiny_model(tmp_path / "m.h5")
    assert "too many" in refused(capsys, "compile", model, "--macros", path, "-o", "out")


def header(shape: tuple[int, ...], kind: str = "<f4") -> bytes:
    text = repr({"descr": kind, "fortran_order": False, "shape": shape}).encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


@pytest.mark.parametrize(
    ("name", "data", "what"),
    [
        ("x.npy", header((2**40,)) + bytes(16), "does not have the bytes of its shape"),
        ("x.npy", header((2,)), "does not have the bytes of its shape"),
        ("x.npy", header((2,), "|O") + bytes(16), "Python objects"),
        ("x.npy", b"\x93NUMPY\x03\x00" + header((1,))[8:] + bytes(4), "version"),
        ("readme.txt", b"hello", "magic"),
        ("x.npy", b"\x93NUMPY\x01\x00\xff\xff(", "EOF"),
    ],
)
def test_arrays_that_claim_what_they_do_not_hold(
    name: str, data: bytes, what: str, tmp_path: Path
) -> None:
    path = tmp_path / "x.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(name, data)
    with pytest.raises(OptionError, match=what):
        read_arrays(path)


def test_arrays_that_expand_to_more_than_any_memory(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    np.savez_compressed(path, x=np.zeros(1000, np.float32))
    data = path.read_bytes()
    lie = data.replace(struct.pack("<I", 4128), struct.pack("<I", 2**32 - 2))
    assert lie != data
    path.write_bytes(lie)
    with pytest.raises(OptionError, match="not a valid"):
        read_arrays(path)
