"""Commands that are killed at any moment lose nothing, and the next one puts all right."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from cannery.atomic import remove_stale, replace_files, temporary_folder
from cannery.choose.record import read_record
from cannery.measure.build import run_ninja
from cannery.measure.cache import MeasurementCache
from cannery.target.compiler import Compiler
from cmake_project import MAIN_C, Project
from crash.actions import HERE, measured
from frontends.keras_files import chain, image, write_h5
from needs import need_program, need_toolchain
from quantization.networks import dense

KILLER = Path(__file__).with_name("killer.py")

Killer = Callable[..., int]


@pytest.fixture
def killer(tmp_path: Path) -> Iterator[Killer]:
    """Runs a command, which is killed before its nth change below `place` (0: never)."""
    (tmp_path / "place").mkdir()
    server = subprocess.Popen(
        [sys.executable, KILLER, tmp_path / "place"], text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    assert server.stdin and server.stdout

    def run(before: int, *words: str | Path) -> int:
        assert server.stdin and server.stdout
        server.stdin.write(json.dumps({"before": before, "words": list(map(str, words))}) + "\n")
        server.stdin.flush()
        return int(server.stdout.readline())

    yield run
    server.stdin.close()
    server.wait()


def model(path: Path, units: int) -> Path:
    """A dense layer: another number of units changes most of the files."""
    return write_h5(path, chain(image("x", 4), dense("d", 4, units, "relu")))


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()
    }


def visible(files: dict[str, bytes]) -> dict[str, bytes]:
    return {name: data for name, data in files.items() if not Path(name).name.startswith(".")}


def put(folder: Path, files: dict[str, bytes]) -> None:
    """Make a folder hold these files and no others."""
    shutil.rmtree(folder, ignore_errors=True)
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)


@pytest.mark.parametrize("fresh", [True, False])
def test_compile(tmp_path: Path, killer: Killer, fresh: bool) -> None:
    """Each file is whole; where the header is new, by which build tools judge, all are."""
    folder = tmp_path / "place" / "out"
    depfile = folder / "net.d"

    def words(units: int) -> list[str | Path]:
        source = model(tmp_path / f"{units}.h5", units)
        return [
            "compile",
            source,
            "-o",
            folder,
            "--name=net",
            "--isa=generic",
            "--depfile",
            depfile,
        ]

    goals: list[dict[str, bytes]] = []
    for units in (3, 5):
        put(folder, {})
        assert killer(-1, *words(units)) == 0
        goals.append(contents(folder))
    before, after = ({} if fresh else goals[0]), goals[1]
    code, number, mixed = -1, 0, 0
    while code:
        number += 1
        put(folder, before)
        code = killer(number, *words(5))
        assert code in (0, -signal.SIGKILL)
        found = visible(contents(folder))
        assert all(data in (before.get(name), after[name]) for name, data in found.items()), number
        assert found.keys() >= before.keys()
        assert found == after or found.get("net.h") != after["net.h"], number
        mixed += found not in (before, after)
        if number % 4 == 0:
            assert killer(0, *words(5)) == 0
            assert contents(folder) == after, number
    assert mixed > 3, "no kill came between two files"


def test_cache_and_record(tmp_path: Path, killer: Killer) -> None:
    """Measurements and records that were there survive, and no lock stays."""
    place = tmp_path / "place"
    cache, record = place / "cache", place / "net.generic.tuning.json"
    assert killer(-1, "crash.actions:measured", cache, "old") == 0
    assert killer(-1, "crash.actions:recorded", record, "old") == 0
    for number in range(1, 100):
        codes = [
            killer(number, "crash.actions:measured", cache, "new"),
            killer(number, "crash.actions:recorded", record, f"new{number}"),
        ]
        known = MeasurementCache(HERE, cache)
        known.load()
        assert known.known.keys() in ({"old"}, {"old", "new"})
        found = read_record(record)
        assert found is not None and found.model in ("old", f"new{number}")
        assert killer(0, "crash.actions:measured", cache, "next") == 0
        assert killer(0, "crash.actions:recorded", record, "old") == 0
        assert not [name for name in contents(place) if name.endswith(".tmp")]
        if codes == [0, 0]:
            break
        measured(str(cache), "next")
        for path in cache.iterdir():
            path.unlink()
        measured(str(cache), "old")
    assert number > 3


def test_files_of_processes_that_run_are_left_alone(tmp_path: Path) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    other = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    names = {
        f".a.h.{gone.pid}.tmp": False, f".a.h.{other.pid}.tmp": True, f".b.{os.getpid()}.tmp": True,
        f"a.{gone.pid}.tmp": True, f".a.{gone.pid}.txt": True, ".a.h.tmp": True,
        f".a.h.{2**70}.tmp": True,
    }  # fmt: skip
    for name in names:
        (tmp_path / name).write_text("")
    for process in (gone, other):
        (tmp_path / f"cannery-{process.pid}-abc" / "inside").mkdir(parents=True)
    (tmp_path / f".link.{gone.pid}.tmp").symlink_to(tmp_path / "a.h")
    replace_files({tmp_path / "a.h": b"new"})
    assert (tmp_path / "a.h").read_bytes() == b"new"
    assert {name: (tmp_path / name).exists() for name in names} == names
    assert [p.name for p in tmp_path.glob("cannery-*")] == [f"cannery-{other.pid}-abc"]
    assert (tmp_path / f".link.{gone.pid}.tmp").is_symlink()
    other.communicate(b"\n")


def test_temporary_folders_of_the_dead_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    code = (
        "import os, signal, sys; from cannery.atomic import temporary_folder\n"
        "with temporary_folder() as folder:\n"
        "    (folder / 'x').write_text('x'); os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    subprocess.run([sys.executable, "-c", code], env={**os.environ, "TMPDIR": str(tmp_path)})
    (left,) = tmp_path.iterdir()
    with temporary_folder() as folder, temporary_folder() as second:
        assert sorted(tmp_path.iterdir()) == sorted([folder, second])
        remove_stale(tmp_path)
        assert folder.is_dir() and second.is_dir() and not left.exists()
    assert list(tmp_path.iterdir()) == []


def test_temporary_files_of_compilers_go_away_with_the_folder(tmp_path: Path) -> None:
    """A compiler that is killed leaves some, in TMPDIR."""
    need_program("ninja")
    tool = tmp_path / "cc"
    tool.write_text('#!/bin/sh\ntouch "$TMPDIR/cc$$.s"\nfor last; do :; done\ntouch "$last"\n')
    tool.chmod(0o755)
    for name in ("compiled", "linked", "by ninja"):
        (tmp_path / name).mkdir()
    compiler = Compiler((str(tool),), "gcc", "gcc")
    compiler.compile(tmp_path / "a.c", tmp_path / "compiled" / "a.o")
    compiler.link([], tmp_path / "linked" / "a")
    run_ninja(tmp_path / "by ninja", f"rule cc\n command = {tool} $out\nbuild a.o: cc\n")
    for name in ("compiled", "linked", "by ninja"):
        assert len(list((tmp_path / name).glob("cc*.s"))) == 1, name


def robot(folder: Path, generator: str) -> Project:
    """A project that was built once; `python` of its folder runs the generator."""
    project = Project(folder)
    python = project.write("python", "")
    python.chmod(0o755)
    generate(project)
    project.write("main.c", MAIN_C.replace("IMAGE", "X").replace("SCORES", "D"))
    model(folder / "ball.h5", 3)
    project.lists(
        "add_nn_model(ball MODEL ball.h5 ISA generic)\n"
        "add_executable(main main.c)\ntarget_link_libraries(main PRIVATE ball)\n"
        "add_test(NAME main COMMAND main)\n"
    )
    project.configure(f"-DCANNERY_PYTHON={python}", generator=generator)
    project.build()
    return project


def generate(project: Project, killed_before: int = 0) -> None:
    """From now on the generator runs, or kills the whole build before a change of a file."""
    folder = project.tree / "cannery" / "ball"
    kill = (
        f'[ "$2" != compile ] || exec {sys.executable} {KILLER} {folder} {killed_before} "${{@:2}}"'
    )
    text = f'#!/bin/bash\n{kill if killed_before else ""}\nexec {sys.executable} "$@"\n'
    project.write("python", text)


def check_killed_build(project: Project, number: int, units: int) -> bool:
    """The build after a killed one makes everything again; returns whether files were mixed."""
    folder = project.tree / "cannery" / "ball"
    old = visible(contents(folder))
    time.sleep(0.01)
    model(project.folder / "ball.h5", units)
    generate(project, number)
    build = ["cmake", "--build", str(project.tree)]
    # Ninja itself survives: its commands have their own process groups.
    subprocess.run(build, start_new_session=True, capture_output=True, check=False)
    half = visible(contents(folder))
    generate(project)
    project.build()
    assert "right" in project.test()
    new = contents(folder)
    assert not [name for name in new if name.endswith(".tmp")]
    assert f"_D_LEN = {units}".encode() in new["ball.h"]
    return half not in (old, new)


def test_a_dead_process_that_nobody_asked_for_owns_nothing(tmp_path: Path) -> None:
    """Its number lives on until its parent waits for it."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    for number in (process.pid, os.getpid()):
        (tmp_path / f".net.h.{number}.tmp").touch()
    remove_stale(tmp_path)
    process.wait()
    assert [path.name for path in tmp_path.iterdir()] == [f".net.h.{os.getpid()}.tmp"]


def test_a_build_by_make_sees_what_is_mixed(tmp_path: Path) -> None:
    """Killed between two files, the generator runs again in the next build."""
    need_program("make")
    need_toolchain("generic")
    assert check_killed_build(robot(tmp_path, "Unix Makefiles"), 9, 5)


@pytest.mark.slow
@pytest.mark.parametrize("generator", ["Unix Makefiles", "Ninja"])
def test_builds_killed_at_any_moment(tmp_path: Path, generator: str) -> None:
    need_program("make" if "Make" in generator else "ninja")
    need_toolchain("generic")
    project = robot(tmp_path, generator)
    assert sum(check_killed_build(project, n, 3 + n % 2) for n in range(1, 24)) > 1


@pytest.mark.slow
@pytest.mark.parametrize("command", ["compile", "autotune"])
def test_real_kills_at_random_moments(tmp_path: Path, command: str) -> None:
    need_program("ninja")
    need_toolchain("native")
    rng = random.Random(1)
    source = model(tmp_path / "net.h5", 5)
    (tmp_path / "tmp").mkdir()
    environment = {
        **os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache"), "TMPDIR": str(tmp_path / "tmp")
    }  # fmt: skip
    more = ["-o", str(tmp_path / "out")] if command == "compile" else ["--budget", "60"]
    words = [sys.executable, "-m", "cannery", command, str(source), *more]
    began = time.monotonic()
    subprocess.run(words, env=environment, check=True, capture_output=True)
    seconds = time.monotonic() - began
    for k in range(20):
        np.random.seed(k)
        model(source, 5 + k % 2)
        process = subprocess.Popen(
            words, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        time.sleep(rng.random() * seconds)
        process.kill()
        process.wait()
        done = subprocess.run(words, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        left = [p for p in tmp_path.rglob("*") if p.name.endswith(".tmp")]
        assert not left
        assert not list((tmp_path / "tmp").iterdir())
