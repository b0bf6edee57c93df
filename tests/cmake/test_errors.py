"""Mistakes in CMakeLists.txt and in the environment are reported when configuring or building."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cannery import __version__
from cmake_project import Project
from tiny_models import write_tiny_model


@pytest.fixture
def project(tmp_path: Path) -> Project:
    write_tiny_model(tmp_path / "ball.h5")
    return Project(tmp_path)


def _told(text: str) -> str:
    """CMake's output with its line breaks undone."""
    return " ".join(text.split())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("ball", "MODEL <file> is missing"),
        ("ball MODEL", "no value after MODEL"),
        ("ball MODEL none.h5", "there is no model file"),
        (
            "ball MODEL ball.h5 QUANTISE int8",
            "unknown arguments: QUANTISE;int8 (did you mean QUANTIZE?",
        ),
        ("ball MODEL ball.h5 MAX_ERROR", "no value after MAX_ERROR"),
        ("ball MODEL ball.h5 NAME 2nd", "NAME 2nd is not a C identifier"),
        ("ball MODEL ball.h5 NAME [[a; rm -rf /]]", "is not a C identifier"),
        (
            "ball MODEL ball.h5 TARGET pentium",
            "unknown target 'pentium'; known are native, atom32,",
        ),
        ("ball MODEL ball.h5 TARGET AVX2", "'AVX2'; did you mean avx2? known are native"),
        ("ball MODEL ball.h5 ISA sse9", "unknown instruction set 'sse9'"),
        ("ball MODEL ball.h5 TARGET ESP32-S3", "'ESP32-S3'; take any, with the chip's compiler"),
        ("ball MODEL ball.h5 TARGET cortex-a53", "'cortex-a53'; take aarch64-a53;"),
        ("ball MODEL ball.h5 ISA esp32", "'esp32'; name a processor with TARGET: any,"),
        ("ball MODEL ball.h5 ISA atom32", "'atom32'; name a processor with TARGET: atom32"),
        ("ball MODEL ball.h5 ISA sse2 sse9", "unknown instruction set 'sse9'"),
        ("ball MODEL ball.h5 TARGET atom32 ISA sse2", "give TARGET or ISA, not both"),
        ("ball MODEL ball.h5 AUTOTUNE ISA sse2 avx2", "AUTOTUNE is for one instruction set"),
        ("ball MODEL ball.h5 CONTEXT hot", "CONTEXT hot is neither cold nor warm"),
        ("ball MODEL ball.h5 FLAGS_FROM cpu", "FLAGS_FROM cpu is no target"),
    ],
)
def test_wrong_calls(project: Project, call: str, message: str) -> None:
    project.lists(f"add_nn_model({call})\n")
    assert message in _told(project.configure(ok=False))


def test_a_misspelt_word_that_a_list_has_swallowed(project: Project) -> None:
    call = "ball MODEL ball.h5 OUTPUTS scores {} CFLAGS -DA"
    project.lists(f"add_nn_model({call.format('QUANTISE int8')})\n")
    told = _told(project.configure())
    assert "'QUANTISE' is taken as a value of OUTPUTS; did you mean QUANTIZE?" in told
    project.lists(f"add_nn_model({call.format('LOGITS')})\n")
    assert "is taken as" not in project.configure()


def test_the_right_word_while_no_python_is_named(project: Project) -> None:
    project.lists("add_nn_model(ball MODEL ball.h5 QUANTISE int8)\n")
    assert "did you mean QUANTIZE?" in _told(project.configure("-DCANNERY_PYTHON=", ok=False))


def test_twice_the_same_target(project: Project) -> None:
    project.lists("add_nn_model(ball MODEL ball.h5)\nadd_nn_model(ball MODEL ball.h5)\n")
    assert "a target of that name already" in _told(project.configure(ok=False))


def test_no_language(project: Project) -> None:
    project.lists("add_nn_model(ball MODEL ball.h5)\n", languages="NONE")
    assert "neither C nor C++" in _told(project.configure(ok=False))


@pytest.mark.parametrize(
    ("python", "message"),
    [("/bin/false", "found no Python"), ("/no/such/python", "/no/such/python: ")],
)
def test_no_python(project: Project, python: str, message: str) -> None:
    project.lists("add_nn_model(ball MODEL ball.h5)\n")
    text = _told(project.configure(f"-DCANNERY_PYTHON={python}", ok=False))
    assert message in text
    assert "python3 -m venv" in text


def test_a_python_without_the_dependencies(project: Project) -> None:
    fake = project.write("python", '#!/bin/sh\nexec python3 -S "$@"\n')
    fake.chmod(0o755)
    project.lists("add_nn_model(ball MODEL ball.h5)\n")
    text = _told(project.configure(f"-DCANNERY_PYTHON={fake}", ok=False))
    assert "lacks click" in text


def test_versions(project: Project) -> None:
    project.lists("find_package(Cannery 0.1 CONFIG REQUIRED)\n", languages="NONE", find=False)
    project.configure()
    project.lists("find_package(Cannery 99 CONFIG REQUIRED)\n", languages="NONE", find=False)
    assert f"version: {__version__}" in _told(project.configure(ok=False))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("NAME class", "'class' is a word of C or C++"),
        ("MAX_ERROR -1", "--max-error"),
        ("MAX_LOSS 0.1", "--max-loss: nothing is quantised"),
        ("RENAME image=2", "--rename"),
        ("INPUT_DTYPE nothing=uint8", "nothing"),
        ("OUTPUTS nothing", "nothing"),
    ],
)
def test_the_generator_tells_the_rest(project: Project, arguments: str, message: str) -> None:
    project.lists(f"add_nn_model(ball MODEL ball.h5 {arguments})\n")
    project.configure()
    text = project.build(ok=False)
    assert "cannery: error: " in text
    assert message in text


def test_a_bad_model_keeps_the_earlier_result(project: Project) -> None:
    project.lists("add_nn_model(ball MODEL ball.h5)\n")
    project.configure()
    project.build()
    before = project.manifest()
    data = (project.folder / "ball.h5").read_bytes()
    (project.folder / "ball.h5").write_bytes(data[: len(data) // 2])
    assert "cannery: error: " in project.build(ok=False)
    assert project.manifest() == before
    write_tiny_model(project.folder / "ball.h5", unsupported=True)
    assert "MyLayer" in project.build(ok=False)


@pytest.mark.parametrize("generator", ["Ninja", "Unix Makefiles"])
def test_a_record_that_is_not_there(project: Project, generator: str) -> None:
    project.lists("add_nn_model(ball MODEL ball.h5 ISA generic TUNING records/mine.json)\n")
    project.configure(generator=generator)
    text = _told(project.build(ok=False))
    assert "mine.json: there is no tuning record (build the target ball_autotune)" in text
    step = {
        "nodes": ["x"], "signature": "0" * 12, "schedule": "conv.direct_oc", "version": 1,
        "params": {}, "reads": [], "writes": [], "origin": "host",
    }  # fmt: skip
    other = {
        "format": 1, "cannery": "0", "model": "cnn_old", "target": "generic", "isa": "generic",
        "bits": 64, "key": "", "provenance": {}, "steps": [step],
    }  # fmt: skip
    project.write("records/mine.json", json.dumps(other))
    text = _told(project.build(ok=False))
    assert "this is the record of cnn_old, not of ball: it has none of the layers" in text
    project.write("records/mine.json", "damaged")
    assert "mine.json: damaged" in _told(project.build(ok=False))


def test_a_locked_network_without_its_record(project: Project) -> None:
    project.lists("add_nn_model(ball MODEL ball.h5 ISA generic TUNING mine.json LOCKED)\n")
    project.configure()
    text = _told(project.build(ok=False))
    assert "cannery: error: " in text
    assert "there is no tuning record (build the target ball_autotune)" in text


def test_a_project_file_is_told_not_to_be_read(project: Project) -> None:
    project.write("cannery.toml", '[model."ball.h5"]\nname = "kick"\nbatch = 3\n')
    project.lists("add_nn_model(ball MODEL ball.h5)\n")
    assert "add_nn_model(ball) does not read" in _told(project.configure())
    project.build()
    assert (project.tree / "cannery" / "ball" / "ball.h").exists()
