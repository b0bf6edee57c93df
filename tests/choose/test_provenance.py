"""Records made elsewhere: relevant differences are reported, and change no byte."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cannery.choose.provenance import _essence, code_flags, provenance_note
from cannery.choose.record import FORMAT, Record, format_record
from cannery.cli import invoke
from cannery.options import Options
from cannery.target.runner import host_cpu_name
from cannery.target.targets import find_target
from cannery.target.toolchain import find_toolchain
from needs import need_toolchain
from tiny_models import write_tiny_model

GENERIC = find_target("generic")
HERE = Options(Path("toy.h5"), "toy", target="generic", cc="cc -O3 -g")
PATH = Path("toy.generic.tuning.json")


def record(**provenance: str) -> Record:
    return Record(FORMAT, "0.1.0", "toy", "generic", "generic", 64, "k", provenance, [])


def made_here() -> dict[str, str]:
    need_toolchain("generic")
    found = find_toolchain(HERE)
    return {
        "cpu": host_cpu_name(),
        "compiler": found.compiler.version,
        "flags": code_flags((*found.compiler.command[1:], *found.cflags)),
    }


def note(options: Options = HERE, **changes: str) -> str:
    return provenance_note(options, GENERIC, PATH, record(**{**made_here(), **changes}))


def test_nothing_is_told_of_what_was_made_here() -> None:
    assert note() == ""


@pytest.mark.parametrize(
    ("key", "text"),
    [("cpu", "Intel 8086"), ("compiler", "gcc 3.4.6"), ("compiler", "Clang 99.0"),
     ("flags", "-O2 -march=pentium")],
)  # fmt: skip
def test_a_difference_is_told(key: str, text: str) -> None:
    told = note(HERE, **{key: text})
    assert told.startswith(f"{PATH} was made with another {key} {text} (here: {made_here()[key]})")


@pytest.mark.parametrize("number", ["14.2.0", "12.1"])
@pytest.mark.parametrize(("one", "other"), [("gcc", "clang"), ("gcc", "Debian Clang")])
def test_compilers_are_more_than_their_numbers(number: str, one: str, other: str) -> None:
    same = _essence("compiler", f"{one} {number}"), _essence("compiler", f"{other} {number}")
    assert same[0] != same[1]
    assert _essence("compiler", f"{other} 3.{number}") != same[1]
    assert _essence("compiler", f"{other} {number.partition('.')[0]}.9") == same[1]


def test_what_does_not_matter_is_not_told() -> None:
    here = made_here()
    flags = f"-O0 -ffast-math -fPIC -fdiagnostics-color=always -march=atom {here['flags']}"
    same = replace(HERE, cc="cc -march=atom -march=core2 -fvisibility=hidden")
    major = here["compiler"].partition(".")[0]
    assert note(flags=flags.replace("-march=atom ", ""), compiler=f"{major}.99") == ""
    assert note(same, flags="-march=atom -march=core2 -Os") == ""
    assert "flags" in note(same, flags="-march=core2 -march=atom")


def test_a_record_that_nobody_measured_names_no_other_processor() -> None:
    assert note(cpu=GENERIC.cpu) == ""
    assert "another compiler" in note(cpu=GENERIC.cpu, compiler="gcc 3.4.6")


def test_what_is_not_known_here_is_not_told() -> None:
    # Neither is the compiler asked that a cross target would have, nor this machine's processor.
    cross = Options(Path("toy.h5"), "toy", target="aarch64-a53")
    old = record(cpu="another", compiler="gcc 1.0", flags="-O1")
    assert provenance_note(cross, find_target("aarch64-a53"), PATH, old) == ""
    broken = replace(HERE, cc="/no/such/compiler")
    assert provenance_note(broken, GENERIC, PATH, record(compiler="gcc 1.0")) == ""


def test_the_listing_of_a_build_tells_its_compiler(tmp_path: Path) -> None:
    listing = tmp_path / "macros.txt"
    listing.write_text('#define __VERSION__ "9.4.0"\n#define __GNUC__ 9\n')
    options = replace(HERE, macros=listing, cc=None)
    told = provenance_note(options, GENERIC, PATH, record(compiler="gcc 12.2.0", flags="-O1"))
    assert "another compiler gcc 12.2.0 (here: gcc 9.4.0);" in told
    with_flags = replace(options, cc="gcc -mavx2")
    told = provenance_note(with_flags, GENERIC, PATH, record(flags="-mfma"))
    assert "flags -mfma (here: -mavx2 " in told


def test_compile_tells_and_changes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = write_tiny_model(tmp_path / "ball.h5")
    path = tmp_path / "ball.generic.tuning.json"
    files: list[dict[str, bytes]] = []
    for cpu in (host_cpu_name(), "Intel 8086"):
        path.write_text(format_record(record(cpu=cpu)))
        folder = tmp_path / f"out{len(files)}"
        words: list[Any] = ["compile", model, "--isa", "generic", "-o", folder, "--json"]
        assert invoke(list(map(str, words))) == 0
        files.append({p.name: p.read_bytes() for p in folder.rglob("*") if p.is_file()})
    done = capsys.readouterr()
    assert json.loads(done.out.partition("}\n")[0] + "}")["files"]
    notes = [line for line in done.err.splitlines() if line.startswith("cannery: note: ")]
    assert len(notes) == 1
    assert "made with another cpu Intel 8086" in notes[0]
    assert files[0] == files[1]


def test_flags_with_paths_are_left_out() -> None:
    words = ["-O2", "-fplugin=/opt/x.so", "-I/usr/include", "-mavx2", "-O2", "-fprofile-use=a/b"]
    assert code_flags(words) == "-O2 -mavx2"
