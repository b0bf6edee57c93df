"""Full disks: one line, exit code 2, nothing lost; an unwritable cache is not an error."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cannery.choose.record import read_record
from cannery.resources import ball_example_dir
from crash.test_kills import contents, model, robot, visible
from needs import need_program, need_toolchain
from warm_python import warm_python

#: Bytes of the small disk, and of the largest file where there is a limit of these.
DISK, LIMIT = 256 * 1024, 6000

#: Bytes of a disk that a project is built on.
BUILD_DISK = 8 * 1024 * 1024


def run(
    words: list[str | Path], code: int, *, limit: bool = False, stdout: str = os.devnull,
    **environment: str | Path,
) -> str:  # fmt: skip
    """What a command says on stderr; with `limit` no file may be larger than LIMIT.

    What is forked would not have the limit, and ends in another way where it cannot print.
    """
    python = sys.executable if limit or stdout != os.devnull else warm_python()

    def set_limit() -> None:
        if limit:
            resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT, LIMIT))

    with Path(stdout).open("w") as out:
        done = subprocess.run(
            [python, "-m", "cannery", *words],
            stdout=out, stderr=subprocess.PIPE, text=True,
            env={**os.environ, **{k: str(v) for k, v in environment.items()}}, check=False,
            preexec_fn=set_limit,
        )  # fmt: skip
    assert done.returncode == code, done.stderr
    errors = [line for line in done.stderr.splitlines() if "error" in line]
    assert len(errors) == (code == 2), done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr


@pytest.mark.parametrize("size", [LIMIT + 1, 20 * LIMIT])
def test_files_of_all_sizes_are_named(size: int, tmp_path: Path) -> None:
    """Also those that a buffer would hold until they are closed."""
    path = tmp_path / "net.json"
    code = f"from cannery.atomic import *; replace_file(Path({str(path)!r}), bytes({size}))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT, LIMIT)),
    )  # fmt: skip
    assert done.stderr.endswith(f"File too large: {str(path)!r}\n")
    assert not path.exists()


@contextmanager
def mounted(folder: Path, size: int) -> Iterator[Path]:
    """A separate disk of this many bytes."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(folder)]
    if os.geteuid() or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("no disk can be mounted here, which only root may")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small separate disk."""
    with mounted(tmp_path / "disk", DISK) as folder:
        yield folder


def fill(disk: Path, left: int = 0) -> Path:
    """A file that leaves this many bytes of a disk."""
    path = disk / "filled"
    with path.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            pass
        file.truncate(max(file.tell() - left, 0))
    return path


def compiled(folder: Path, units: int) -> list[str | Path]:
    source = model(folder / f"{units}.h5", units)
    return ["compile", source, "-o", folder / "disk" / "out", "--name=net", "--isa=generic"]


@pytest.mark.parametrize("left", [0, 32768])
def test_output(tmp_path: Path, disk: Path, left: int) -> None:
    other = tmp_path / "tmp"
    other.mkdir()
    run(compiled(tmp_path, 3), 0)
    before = contents(disk / "out")
    filled = fill(disk, left)
    said = run(compiled(tmp_path, 300), 2)
    assert "No space left on device (make room" in said and str(disk / "out") in said
    said = run(compiled(tmp_path, 300), 2, TMPDIR=other)
    assert "No space left on device (make room, or write to another place)" in said
    assert contents(disk / "out") == before
    filled.unlink()
    run(compiled(tmp_path, 5), 0)
    assert visible(contents(disk / "out")).keys() == before.keys()


def test_output_that_may_not_be_so_large(tmp_path: Path) -> None:
    run(compiled(tmp_path, 3), 0)
    before = contents(tmp_path / "disk" / "out")
    said = run(compiled(tmp_path, 300), 2, limit=True)
    assert "File too large (raise the limit" in said
    assert contents(tmp_path / "disk" / "out") == before


def test_temporary_files(tmp_path: Path, disk: Path) -> None:
    need_program("ninja")
    need_toolchain("generic")
    source = model(tmp_path / "net.h5", 3)
    (disk / "tmp").mkdir()
    for left, code in ((0, 0), (16384, 2)):  # Python passes over a folder that takes nothing
        fill(disk, left)
        run(["verify", source, "--isa=generic"], code, TMPDIR=disk / "tmp")
        assert list((disk / "tmp").iterdir()) == []


@pytest.mark.parametrize("left", [4096, 16384, 28672])
def test_temporary_files_of_a_tuning(left: int, tmp_path: Path, disk: Path) -> None:
    """Whichever file does not fit, the error names the target, not the source of the copy."""
    need_program("ninja")
    need_toolchain("generic")
    source = model(tmp_path / "net.h5", 3)
    (disk / "tmp").mkdir()
    fill(disk, left)
    words = ["autotune", source, "--target=generic"]
    said = run(words, 2, TMPDIR=disk / "tmp", XDG_CACHE_HOME=tmp_path / "cache")
    assert str(disk / "tmp") in said
    assert list((disk / "tmp").iterdir()) == []


def test_a_full_cache_is_no_error(tmp_path: Path, disk: Path) -> None:
    need_program("ninja")
    need_toolchain("generic")
    source = model(tmp_path / "net.h5", 3)
    for left in (0, 8192):
        fill(disk, left)
        run(["autotune", source, "--target=generic"], 0, XDG_CACHE_HOME=disk)
        record = read_record(tmp_path / "net.generic.tuning.json")
        assert record is not None and record.steps, "candidates were measured"
        assert not list(disk.rglob("*.tmp"))


def test_a_full_disk_beside_the_model(tmp_path: Path, disk: Path) -> None:
    need_program("ninja")
    need_toolchain("generic")
    source, record = model(disk / "net.h5", 3), disk / "net.generic.tuning.json"
    fill(disk)
    said = run(["autotune", source, "--target=generic"], 2, XDG_CACHE_HOME=tmp_path / "cache")
    assert "No space left" in said and not record.exists()
    assert {p.name for p in disk.iterdir()} == {"net.h5", "filled"}


def test_a_build_by_cmake(tmp_path: Path) -> None:
    """It fails with the reason, and the next one, with room, makes everything again."""
    need_program("ninja")
    need_toolchain("generic")
    with mounted(tmp_path / "disk", BUILD_DISK) as disk:
        project = robot(disk, "Ninja")
        generated = project.tree / "cannery" / "ball"
        for number, left in enumerate((0, 12288)):
            before, units = visible(contents(generated)), 5 + number % 2
            model(disk / "ball.h5", units)
            filled = fill(disk, left)
            said = project.run("cmake", "--build", project.tree, ok=None if left else False)
            assert "No space left on device" in said or (left and "Linking C executable" in said)
            assert "Traceback" not in said
            assert visible(contents(generated)) == before or left
            filled.unlink()
            project.build()
            assert "right" in project.test()
            found = contents(generated)
            assert f"_D_LEN = {units}".encode() in found["ball.h"]
            assert not [name for name in found if name.endswith(".tmp")]


def test_what_is_printed() -> None:
    if not Path("/dev/full").exists():
        pytest.skip("there is no /dev/full")
    ball = ball_example_dir() / "ball.h5"
    for words in (["list"], ["--help"], ["--version"], ["inspect", ball], ["targets", "--json"]):
        said = run(words, 2, stdout="/dev/full")
        assert "error: standard output cannot be written: No space left" in said, words
        assert "send it elsewhere" in said
        assert "/tmp" not in said
