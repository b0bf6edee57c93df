"""The target <network>_autotune: the harness is built as CMake builds, and the record is used."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cannery.tune.record import read_record
from cmake_project import MAIN_C, MAIN_CPP, Project
from needs import need_runner, need_toolchain
from tiny_models import write_tiny_model


@pytest.fixture
def project(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Project:
    """A project with a model, and a cache of this session's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))
    folder = tmp_path / "a project"
    folder.mkdir()
    write_tiny_model(folder / "ball.h5")
    made = Project(folder)
    made.write("main.c", MAIN_C)
    made.write("main.cpp", MAIN_CPP)
    return made


def lists(suffix: str) -> str:
    return (
        "add_nn_model(ball MODEL ball.h5 LOCKED_)\n"
        f"add_executable(robot main.{suffix})\ntarget_link_libraries(robot PRIVATE ball)\n"
        "add_test(NAME robot COMMAND robot)\n"
    )


def tuned_by_record(project: Project) -> bool:
    """Whether the generated network says that its steps come from a record."""
    return any(step["origin"] == "record" for step in project.manifest()["steps"])


@pytest.mark.parametrize(("language", "suffix"), [("C", "c"), ("CXX", "cpp")])
def test_the_record_is_made_and_used(project: Project, language: str, suffix: str) -> None:
    project.lists(lists(suffix).replace(" LOCKED_", ""), languages=language)
    project.configure("-DCMAKE_BUILD_TYPE=Release")
    project.build()
    assert not tuned_by_record(project)
    told = project.build("--target", "ball_autotune")
    assert "before" in told
    record = read_record(project.folder / f"ball.{project.isa()}.tuning.json")
    assert record is not None
    assert "-O3" in record.provenance["flags"].split()
    assert "Generating the network ball" in project.build()
    assert tuned_by_record(project)
    assert "right" in project.test()
    assert "Generating" not in project.build()
    project.lists(lists(suffix).replace("LOCKED_", "LOCKED"), languages=language)
    project.configure("-DCMAKE_BUILD_TYPE=Release")
    project.build()
    assert tuned_by_record(project)


def test_a_cross_build_tunes_for_its_target(project: Project) -> None:
    need_runner(need_toolchain("atom32"))
    project.lists(lists("c").replace(" LOCKED_", ""))
    project.configure(toolchain="i686-atom")
    project.build("--target", "ball_autotune")
    content = json.loads((project.folder / "ball.atom32.tuning.json").read_text())
    assert (content["target"], content["isa"], content["bits"]) == ("atom32", "ssse3", 32)
    project.build()
    assert tuned_by_record(project)
    assert "right" in project.test()


def test_locked_without_a_record_is_an_error(project: Project) -> None:
    project.lists(lists("c").replace("LOCKED_", "LOCKED"))
    project.configure()
    told = project.build(ok=False)
    assert "there is no tuning record" in told
    assert "cannery autotune ball.h5" in told
