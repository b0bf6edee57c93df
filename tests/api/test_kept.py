"""`cannery.load` finds what it made before without making code, and sees whatever has changed."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cannery
from cannery import pipeline
from cannery.api import kept
from cannery.api.model import given_model
from cannery.errors import CanneryWarning, ModelError, RecordError
from needs import need_program
from tiny_models import tiny_image, write_tiny_model


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the models for which code was made, in an empty cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    names: list[str] = []
    compile_model = pipeline.compile_model

    def noting(options: Any, dump: Any = None) -> Any:
        names.append(options.model.name)
        return compile_model(options, dump)

    monkeypatch.setattr(pipeline, "compile_model", noting)
    return names


@pytest.fixture
def own(tmp_path: Path, model: Path) -> Path:
    """A model in its own folder."""
    return write_tiny_model(tmp_path / "own.h5", seed=7)


def test_a_second_process_makes_no_code(own: Path, made: list[str]) -> None:
    """Nor does it import what would."""
    expected = cannery.load(own, isa="generic")(np.ones((1, 8, 8, 1), np.float32))
    program = f"""
        import sys, cannery, numpy as np
        net = cannery.load({str(own)!r}, isa="generic")
        print(net(np.ones((1, 8, 8, 1), np.float32)).tobytes().hex())
        print(*sorted(m for m in sys.modules if m.startswith(("cannery.", "jinja2", "h5py"))))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True,
        check=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )  # fmt: skip
    value, modules = done.stdout.splitlines()
    assert value == expected.tobytes().hex()
    imported = set(modules.split())
    assert "cannery.api.kept" in imported
    heavy = {"cannery.pipeline", "cannery.emit", "cannery.ops", "cannery.frontends"}
    heavy |= {"cannery.devices", "cannery.target.remote"}
    assert not imported & {*heavy, "jinja2", "h5py"}


def test_what_changes_is_made_anew(own: Path, made: list[str], tmp_path: Path) -> None:
    cannery.load(own, isa="generic")
    first = cannery.load(own, isa="generic")(tiny_image())
    assert len(made) == 1
    write_tiny_model(own, seed=8)
    second = cannery.load(own, isa="generic")(tiny_image())
    assert len(made) == 2
    assert not np.array_equal(first, second)
    write_tiny_model(own, seed=7)
    assert np.array_equal(cannery.load(own, isa="generic")(tiny_image()), first)
    assert len(made) == 2, "it was there before"
    cannery.load(own, isa="generic", batch=2)
    assert len(made) == 3


def test_records_and_calibration_are_seen(own: Path, made: list[str], tmp_path: Path) -> None:
    """A record that appears, or changes; samples that change."""
    record = own.with_name("own.generic.tuning.json")
    cannery.load(own, isa="generic")
    record.write_text("not a record")
    with pytest.raises(RecordError):
        cannery.load(own, isa="generic")
    assert len(made) == 2
    record.unlink()
    cannery.load(own, isa="generic")
    assert len(made) == 2, "all is as it was"
    samples = tmp_path / "samples.npz"
    for scale, times in ((1.0, 3), (2.0, 4)):
        np.savez(samples, image=scale * tiny_image(3, 4))
        for _ in range(2):
            cannery.load(own, isa="generic", quantize="int8", calibration=samples)
        assert len(made) == times


def test_another_compiler_is_seen(own: Path, made: list[str], tmp_path: Path) -> None:
    compiler = tmp_path / "my-cc"
    for flag in ("-g0", "-g1 "):
        compiler.write_text(f'#!/bin/sh\nexec {need_program("gcc")} {flag} "$@"\n')
        compiler.chmod(0o755)
        for _ in range(2):
            cannery.load(own, isa="generic", cc=str(compiler))
    assert len(made) == 2


def test_warnings_come_again(own: Path, made: list[str], tmp_path: Path) -> None:
    (tmp_path / "records").mkdir()
    for _ in range(2):
        with pytest.warns(CanneryWarning, match="there is no tuning record"):
            cannery.load(own, isa="generic", tuning=tmp_path / "records")
    assert len(made) == 1


def garble(entry: Path) -> None:
    data = entry.read_bytes()
    entry.write_bytes(data.replace(b'"workspace_bytes":', b'"workspace_bytes":1'))


def replace_by_pipe(entry: Path) -> None:
    entry.unlink()
    os.mkfifo(entry)


def forget_library(entry: Path) -> None:
    (library,) = entry.parents[1].rglob("*.so")
    library.unlink()


@pytest.mark.parametrize("damage", [garble, replace_by_pipe, forget_library])
def test_what_is_damaged_is_made_again(
    tmp_path: Path, model: Path, made: list[str], damage: Callable[[Path], None]
) -> None:
    own = write_tiny_model(tmp_path / f"{damage.__name__}.h5", seed=9)
    expected = cannery.load(own, isa="generic")(tiny_image())
    (entry,) = (tmp_path / "cache").rglob("loaded/*.json")
    damage(entry)
    assert np.array_equal(cannery.load(own, isa="generic")(tiny_image()), expected)
    assert len(made) == 2


def test_what_is_no_file_is_not_read(tmp_path: Path) -> None:
    """A pipe would never end, and huge files take too long. The frontends reject both."""
    pipe, large = tmp_path / "pipe.h5", tmp_path / "large.h5"
    os.mkfifo(pipe)
    with pytest.raises(ModelError, match="a pipe"):
        cannery.load(pipe)
    with large.open("wb") as file:
        file.truncate(2**40)
    assert kept.file_digest(large) is None
    large.write_bytes(b"x" * 2**20 + b"y")
    assert kept.file_digest(large) == hashlib.sha256(b"x" * 2**20 + b"y").hexdigest()


def test_bytes_are_a_model(own: Path, made: list[str]) -> None:
    expected = cannery.load(own, isa="generic")(tiny_image())
    for data in (own.read_bytes(), bytearray(own.read_bytes())):
        net = cannery.load(data, isa="generic")
        assert np.array_equal(net(tiny_image()), expected)
    assert len(made) == 2
    assert net.name == "model"
    assert cannery.load(own.read_bytes(), isa="generic", name="ball").name == "ball"


def test_an_edited_checkout_is_another_cannery() -> None:
    """Its stamp has every file of the package and of the runtime."""
    kept.own_stamp.cache_clear()
    first = kept.own_stamp()
    file = Path(kept.__file__)
    status = file.stat()
    try:
        os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns + 1_000_000))
        kept.own_stamp.cache_clear()
        assert kept.own_stamp() != first
    finally:
        os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
        kept.own_stamp.cache_clear()
    assert kept.own_stamp() == first


def test_a_key_is_of_all_that_code_depends_on(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever changes, no two keys are the same; what does not matter is in none."""

    def key(model: Any = own, **options: Any) -> str:
        return kept.key_of(given_model(model, {"isa": "generic", **options}, "load"))

    keys = [key(), key(batch=2), key(name="ball"), key(rename={"x": "y"}), key(cflags="-O1")]
    keys += [key(own.read_bytes()), key(cc="clang"), key(tuning=own.with_name("a.json"))]
    elsewhere = own.with_name("elsewhere")
    elsewhere.mkdir()
    keys.append(key(write_tiny_model(elsewhere / own.name, seed=7)))
    for name in ("own_stamp", "processor_stamp", "program_stamp", "file_digest"):
        with monkeypatch.context() as patch:
            patch.setattr(kept, name, lambda *_: "another")
            keys.append(key())
    with monkeypatch.context() as patch:
        patch.setattr(kept, "__version__", "another")
        keys.append(key())
    write_tiny_model(own, seed=8)
    keys.append(key())
    assert len({*keys}) == len(keys)
    write_tiny_model(own, seed=7)
    monkeypatch.chdir(own.parent)
    assert key() == key(own.name) == keys[0]
