"""The target <network>_autotune: the harness is built as CMake builds, and the record is used."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cannery.choose.record import read_record
from cmake_project import MAIN_C, MAIN_CPP, Project
from needs import need_program, need_runner, need_toolchain
from ssh_server import ssh_device, write_devices
from tiny_models import write_tiny_dense


@pytest.fixture
def project(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Project:
    """A project with a model of few candidates, and a cache of this session's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))
    folder = tmp_path / "a project"
    folder.mkdir()
    write_tiny_dense(folder / "ball.h5")
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


def tuned_by_record(project: Project, config: str = "") -> bool:
    """Whether the generated network says that its steps come from a record.

    Not all of them: reorders, which tensors may need between them, are in no record.
    """
    return any(step["origin"] == "record" for step in project.manifest(config=config)["steps"])


@pytest.mark.parametrize(("language", "suffix"), [("C", "c"), ("CXX", "cpp")])
def test_the_record_is_made_and_used(project: Project, language: str, suffix: str) -> None:
    project.lists(lists(suffix).replace(" LOCKED_", ""), languages=language)
    project.configure("-DCMAKE_BUILD_TYPE=Release")
    told = project.build()
    assert told.count("was never tuned") == 1
    assert "the cost model chose (build the target ball_autotune)" in told
    assert not tuned_by_record(project)
    assert "was never tuned" not in project.build()
    told = project.build("--target", "ball_autotune")
    assert "before" in told
    record = read_record(project.folder / f"ball.{project.isa()}.tuning.json")
    assert record is not None
    assert "-O3" in record.provenance["flags"].split()
    told = project.build()
    assert "Generating the network ball" in told
    assert "was never tuned" not in told
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
    assert "build the target ball_autotune" in told


AUTOTUNED = lists("c").replace("LOCKED_", "AUTOTUNE LOCKED_")


def nothing_happens(project: Project) -> bool:
    """Whether a build finds nothing to do."""
    told = project.build()
    words = ("Tuning", "Generating", "Building", "Re-running")
    assert not any(word in told for word in words), told
    return True


@pytest.mark.parametrize("generator", ["Ninja", "Unix Makefiles", "Ninja Multi-Config"])
def test_autotune_in_the_build(project: Project, generator: str) -> None:
    project.lists(AUTOTUNED.replace(" LOCKED_", " LOCKED"))
    project.configure(generator=generator)
    config = {"config": "Debug"} if "Multi" in generator else {}
    assert "before" in project.build()
    record = project.folder / f"ball.{project.isa(**config)}.tuning.json"
    made = record.read_bytes()
    assert tuned_by_record(project, **config)
    assert nothing_happens(project)
    write_tiny_dense(project.folder / "ball.h5", seed=2)
    told = project.build()
    assert "Generating" in told
    assert "before" not in told, "the record serves: only the weights have changed"
    assert record.read_bytes() == made
    assert nothing_happens(project)
    record.unlink()
    assert "before" in project.build()
    assert record.is_file()
    assert nothing_happens(project)


def test_autotune_takes_the_record_that_is_there(project: Project) -> None:
    project.lists(AUTOTUNED.replace(" LOCKED_", " TUNING records"))
    (project.folder / "records").mkdir()
    project.configure()
    assert "before" in project.build()
    (record,) = (project.folder / "records").iterdir()
    assert list(project.folder.glob("*.tuning.json")) == []
    project.run("cmake", "-E", "rm", "-r", project.tree)
    project.configure()
    assert "before" not in project.build()
    assert tuned_by_record(project)
    record.write_text(record.read_text().replace('"version": ', '"version": 9'))
    assert "before" in project.build(), "an entry of another version does not serve"
    assert tuned_by_record(project)
    record.write_text("{")
    assert "damaged" in project.build(ok=False)


def test_autotune_of_one_record_by_name(project: Project) -> None:
    project.lists(AUTOTUNED.replace(" LOCKED_", " TUNING mine.tuning.json"))
    project.configure()
    assert "before" in project.build()
    assert tuned_by_record(project)
    assert nothing_happens(project)


def test_autotune_with_cold_caches(project: Project) -> None:
    project.lists(AUTOTUNED.replace(" LOCKED_", " CONTEXT lukewarm"))
    assert "CONTEXT lukewarm is neither cold nor warm" in project.configure(ok=False)
    contexts = []
    for arguments in ("", " CONTEXT cold"):
        project.lists(AUTOTUNED.replace(" LOCKED_", arguments))
        project.configure()
        assert "before" in project.build(), "a record of warm caches does not serve for cold ones"
        assert nothing_happens(project)
        record = read_record(project.folder / f"ball.{project.isa()}.tuning.json")
        assert record is not None
        contexts.append(record.context)
    assert contexts == ["warm", "cold"]


def test_autotune_chooses_nothing_by_an_emulator(project: Project, tmp_path: Path) -> None:
    need_runner(need_toolchain("aarch64-a53"), strict=True)
    # As OpenEmbedded does, in a script of any name, anywhere.
    wrapper = tmp_path / "a board" / "run on target"
    wrapper.parent.mkdir()
    wrapper.write_text(f'#!/bin/sh\nexec {need_program("qemu-aarch64")} "$@"\n')
    wrapper.chmod(0o755)
    project.lists(AUTOTUNED.replace(" LOCKED_", ""))
    project.configure(f"-DCANNERY_EMULATOR={wrapper}", toolchain="aarch64")
    told = project.build()
    assert "ball.h5 is not tuned for aarch64-a53: times under an emulator mean nothing" in told
    assert "was never tuned" not in told
    assert list(project.folder.glob("*.json")) == []
    assert {step["origin"] for step in project.manifest()["steps"]} == {"estimated"}
    assert nothing_happens(project)
    project.build("--target", "ball_autotune")
    project.build()
    assert tuned_by_record(project), "a record from elsewhere is used"
    assert nothing_happens(project)


def test_autotune_and_locked_without_a_way_to_measure(project: Project) -> None:
    need_runner(need_toolchain("aarch64-a53"), strict=True)
    project.lists(AUTOTUNED.replace(" LOCKED_", " LOCKED"))
    project.configure(toolchain="aarch64")
    assert "there is no tuning record" in project.build(ok=False)


def test_autotune_of_several_instruction_sets(project: Project) -> None:
    project.lists("add_nn_model(ball MODEL ball.h5 ISA sse2 avx2 AUTOTUNE)\n")
    assert "AUTOTUNE is for one instruction set" in project.configure(ok=False)


@pytest.mark.parametrize("generator", ["Ninja", "Ninja Multi-Config"])
def test_the_harness_links_with_the_flags_of_the_configuration(
    project: Project, generator: str
) -> None:
    project.lists(lists("c").replace(" LOCKED_", ""))
    project.configure(
        "-DCMAKE_BUILD_TYPE=Release",
        "-DCMAKE_EXE_LINKER_FLAGS_RELEASE=-Wl,--no-such-option",
        generator=generator,
    )
    config = ("--config", "Release") if "Multi" in generator else ()
    assert "no-such-option" in project.build("--target", "ball_autotune", *config, ok=False)


def test_tools_run_on_the_device_of_the_build(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ssh_device(tmp_path, "nao") as server:
        write_devices(tmp_path, monkeypatch, server)
        project.lists(lists("c").replace(" LOCKED_", ""))
        project.configure("-DCMAKE_BUILD_TYPE=Release", "-DCANNERY_DEVICE=nao")
        project.build("--target", "ball_autotune")
        assert server.line.connections == 1
        assert len(list(project.folder.glob("ball.*.tuning.json"))) == 1
        project.build("--target", "ball_verify")
        assert server.line.connections == 2
        project.lists(lists("c").replace("LOCKED_", "DEVICE pepper"))
        project.configure("-DCMAKE_BUILD_TYPE=Release", "-DCANNERY_DEVICE=nao")
        told = project.build("--target", "ball_verify", ok=False)
        assert "--device: 'pepper' is not known" in told
        assert server.left == []
