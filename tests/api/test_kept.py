"""`cannery.load` finds what it made before without making code, and sees whatever has changed."""

from __future__ import annotations

import hashlib
import os
import shutil
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
from cannery.api import kept, stamps
from cannery.errors import CanneryWarning, ModelError, RecordError
from cannery.options import SPECS
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


#: The modules that a process needs to load a network which was made before.
NEEDED = set(
    """
api api.arrays api.direct api.inputs api.interface api.kept api.load api.net api.stamps api.threads
errors options_given user_files user_folders
""".split()
)
#: What would take as long as everything else.
HEAVY = set(
    """
dataclasses difflib filelock h5py jinja2 logging msgspec pathlib shutil subprocess tempfile
""".split()
)


def test_a_second_process_makes_no_code(own: Path, made: list[str]) -> None:
    """Nor does it import what would: imports are nearly all of the time that it takes."""
    expected = cannery.load(own, isa="generic")(np.ones((1, 8, 8, 1), np.float32))
    program = f"""
        import sys, numpy as np
        image, there = np.ones((1, 8, 8, 1), np.float32), set(sys.modules)
        import cannery
        net = cannery.load({str(own)!r}, isa="generic")
        print(net(image).tobytes().hex())
        print(*sys.modules.keys() - there)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True,
        check=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )  # fmt: skip
    value, modules = done.stdout.splitlines()
    assert value == expected.tobytes().hex()
    imported = set(modules.split())
    own_modules = {name for name in imported if name.startswith("cannery.")}
    assert {name.removeprefix("cannery.") for name in own_modules} == NEEDED
    assert not imported & HEAVY


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
    entry.write_bytes(data.replace(b"float32", b"float16"))


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
    assert stamps.file_digest(str(large)) is None
    large.write_bytes(b"x" * 2**20 + b"y")
    assert stamps.file_digest(str(large)) == hashlib.sha256(b"x" * 2**20 + b"y").hexdigest()


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
    stamps.own_stamp.cache_clear()
    first = stamps.own_stamp()
    file = Path(stamps.__file__)
    status = file.stat()
    try:
        os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns + 1_000_000))
        stamps.own_stamp.cache_clear()
        assert stamps.own_stamp() != first
    finally:
        os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
        stamps.own_stamp.cache_clear()
    assert stamps.own_stamp() == first


def test_a_key_is_of_all_that_code_depends_on(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever changes, no two keys are the same; what does not matter is in none."""

    def key(model: Any = own, **options: Any) -> str:
        return kept.key_of(model, {"isa": "generic", **options})

    keys = [key(), key(batch=2), key(name="ball"), key(rename={"x": "y"}), key(cflags="-O1")]
    keys += [key(own.read_bytes()), key(cc="clang"), key(tuning=own.with_name("a.json"))]
    keys += [key(shared=True), key(shared="True"), key(name=["ball"]), key(rename=["x=y"])]
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
    with monkeypatch.context() as patch:
        patch.setenv("CC", "clang")
        keys.append(key())
    write_tiny_model(own, seed=8)
    keys.append(key())
    assert len({*keys}) == len(keys)
    write_tiny_model(own, seed=7)
    monkeypatch.chdir(own.parent)
    assert key() == key(own.name) == key(str(own)) == keys[0]
    assert key(batch=None, cc=None, device=None) == keys[0]
    assert key(tuning="a.json") == key(tuning=own.with_name("a.json"))


def test_what_only_parsing_can_say_has_no_key(own: Path, tmp_path: Path) -> None:
    """Commands and devices in files, values that can be read once, and what is an error."""
    for options in (
        {"cc": "@command"}, {"device": "nao"}, {"isa": iter(["generic"])}, {"batch": object()},
    ):  # fmt: skip
        assert kept.key_of(own, options) == ""
    for model in (tmp_path / "none.h5", 7, None):
        assert kept.key_of(model, {}) == ""


def test_options_that_name_files_are_known() -> None:
    """The key has their whole path, as text; `parse` makes paths of them, and of CUSTOM's files."""
    paths = {spec.name for spec in SPECS if spec.parse is Path}
    assert set(kept.PATHS) == {*paths, "custom"}


@pytest.mark.parametrize("custom", [{"My": "my.c"}, ["My=my.c"], "My=my.c"])
def test_files_of_operators_are_those_of_the_folder(
    custom: Any, own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same text in another folder is another file."""
    model = str(own.absolute())
    first = kept.key_of(model, {"custom": custom})
    monkeypatch.chdir(own.parent)
    second = kept.key_of(model, {"custom": custom})
    (own.parent / "elsewhere").mkdir()
    monkeypatch.chdir(own.parent / "elsewhere")
    assert len({first, second, kept.key_of(model, {"custom": custom})}) == 3


def test_programs_are_found_as_the_shell_finds_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first that can be run: neither folders nor texts of its name."""
    folders = [tmp_path / name for name in ("none", "folder", "text", "right", "late")]
    for folder in folders[1:]:
        folder.mkdir()
        program = folder / "my-cc"
        if folder.name == "folder":
            program.mkdir()
            continue
        program.write_text(folder.name)
        program.chmod(0o644 if folder.name == "text" else 0o755)
    monkeypatch.setenv("PATH", os.pathsep.join(map(str, folders)))
    found = shutil.which("my-cc")
    assert found == str(tmp_path / "right" / "my-cc")
    assert stamps.program_stamp("my-cc").startswith(f"my-cc: {found} 5 ")
    assert stamps.program_stamp(str(tmp_path / "late" / "my-cc")).count(str(tmp_path)) == 2
    assert stamps.program_stamp("my-other-cc") == "my-other-cc: none"
