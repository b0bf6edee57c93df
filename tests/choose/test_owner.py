"""Another model's record is reported, an error if it is useless, and never overwritten."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

import cannery
from cannery.choose.lookup import recorded_choices, untuned, untuned_note
from cannery.choose.owner import check_replaced
from cannery.choose.record import FORMAT, Record, make_entry, write_record
from cannery.cli import invoke
from cannery.errors import CanneryWarning, RecordError
from cannery.ir.graph import Graph
from cannery.options import Options
from cannery.target.targets import find_target
from cannery.tuning import tuner
from choose.test_record import GENERIC, edit, options_in, record_of
from needs import need_toolchain
from tiny_models import write_tiny_classifier, write_tiny_model
from tuning.toy import network, singles

FOREIGN = "this is the record of cnn_old, not of toy"


def foreign(graph: Graph) -> Record:
    """The record of a graph under another name."""
    return msgspec.structs.replace(record_of(graph), model="cnn_old")


def useless(graph: Graph) -> Record:
    """The same where no layer is the network's."""
    record = foreign(graph)
    for k in range(len(record.steps)):
        record = edit(record, k, signature=f"{k:012x}")
    return record


def choices_by(record: Record, graph: Graph, folder: Path, **changes: Any) -> int:
    """How many choices a record makes that is given by --tuning."""
    path = folder / "other.json"
    write_record(path, record)
    options = options_in(folder, tuning=path, **changes)
    return len(recorded_choices(graph, singles(graph), GENERIC, options)[1])


def test_a_renamed_model_goes_on_working(tmp_path: Path) -> None:
    graph = network(prefix="renamed")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert choices_by(foreign(network()), graph, tmp_path) == 3


def test_a_record_of_no_use_is_an_error(tmp_path: Path) -> None:
    graph = network()
    with pytest.raises(RecordError, match=f"other.json: {FOREIGN}: it has none of the layers"):
        choices_by(useless(graph), graph, tmp_path)
    own = msgspec.structs.replace(useless(graph), model="toy")
    with pytest.warns(CanneryWarning, match="'conv_0': it has no entry; 2 more steps have no"):
        assert choices_by(own, graph, tmp_path) == 0


def test_of_another_target_as_well(tmp_path: Path) -> None:
    graph = network()
    record = msgspec.structs.replace(useless(graph), isa="avx2")
    with pytest.raises(RecordError, match=FOREIGN):
        choices_by(record, graph, tmp_path)


@pytest.mark.parametrize("folder", [True, False])
def test_one_that_has_the_name_of_the_model_is_told(folder: bool, tmp_path: Path) -> None:
    graph = network()
    write_record(tmp_path / "toy.generic.tuning.json", useless(graph))
    options = options_in(tmp_path, tuning=tmp_path if folder else None)
    with pytest.warns(CanneryWarning, match=f"{FOREIGN}: layer 'conv_0': it has no entry"):
        assert recorded_choices(graph, singles(graph), GENERIC, options)[1] == {}


def test_what_fits_in_part_is_used_and_told(tmp_path: Path) -> None:
    graph = network()
    record = edit(foreign(graph), 1, signature="0" * 12)
    record = msgspec.structs.replace(record, steps=record.steps[1:2])
    half = msgspec.structs.replace(foreign(graph), steps=[*record.steps, foreign(graph).steps[0]])
    half = edit(half, 1, schedule="conv.gone")
    with pytest.warns(CanneryWarning, match=f"{FOREIGN}: layer 'conv_0': .*conv.gone"):
        choices_by(half, graph, tmp_path)
    with pytest.raises(RecordError, match=FOREIGN):
        choices_by(half, graph, tmp_path, locked=True)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("other.json", "there is no tuning record"),
        ("records", "there is no folder or tuning record"),
    ],
)
def test_what_is_not_there_is_an_error(tmp_path: Path, name: str, message: str) -> None:
    graph = network()
    options = options_in(tmp_path, tuning=tmp_path / name)
    with pytest.raises(RecordError, match=rf"{name}: {message}.*cannery autotune"):
        recorded_choices(graph, singles(graph), GENERIC, options)


def test_a_folder_without_the_record_is_told(tmp_path: Path) -> None:
    graph = network()
    options = options_in(tmp_path, tuning=tmp_path)
    with pytest.warns(CanneryWarning, match=r"toy\.generic\.tuning\.json: there is no tuning"):
        assert recorded_choices(graph, singles(graph), GENERIC, options) == (None, {})
    assert untuned(options)
    assert untuned_note(options) == "", "it was told"


def replaced(record: Record, graph: Graph, tuning: str = "other.json") -> str:
    options = options_in(Path(), tuning=Path(tuning) if tuning else None)
    return check_replaced(Path("other.json"), record, options, GENERIC, graph, singles(graph))


def test_tuning_overwrites_what_says_the_same() -> None:
    assert replaced(record_of(network()), network()) == ""
    assert replaced(foreign(network()), network(seed=3, prefix="renamed")) == ""
    assert replaced(record_of(network()), network(5)) == "", "the model's own record"
    assert replaced(msgspec.structs.replace(foreign(network()), steps=[]), network()) == ""
    assert "had nothing" in replaced(edit(record_of(network(1)), 0, signature="0"), network(1))


def test_tuning_overwrites_no_other_record() -> None:
    larger, smaller = network(), network()
    extra = edit(foreign(smaller), 2, signature="0" * 12)
    for record in (useless(larger), extra):
        with pytest.raises(RecordError, match=f"{FOREIGN}, and would be .*name another file"):
            replaced(record, larger)
        assert replaced(record, larger, tuning="") == f"{FOREIGN}; it is replaced"


def test_tuning_overwrites_no_record_for_another_target() -> None:
    record = msgspec.structs.replace(record_of(network()), target="atom32", isa="ssse3", bits=32)
    with pytest.raises(RecordError, match="this is the record for atom32, not for generic"):
        replaced(record, network())
    assert replaced(msgspec.structs.replace(record, target="generic"), network()) == ""


class MeasuresError(AssertionError):
    """Tuning has begun."""


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, Path]:
    """A model, and the record of another one."""

    def measure(self: object) -> None:
        raise MeasuresError

    need_toolchain("generic")
    monkeypatch.setattr(tuner.Tuner, "measure", measure)
    model = write_tiny_model(tmp_path / "ball.h5")
    write_tiny_classifier(tmp_path / "cnn_old.h5")
    options = Options(tmp_path / "cnn_old.h5", "cnn_old", isa=("generic",))
    chosen = cannery.pipeline.choose(
        graph := cannery.pipeline.import_graph(options), find_target("generic"), options
    )
    entries = [
        make_entry(graph, s, find_target("generic").isa, c, error=None, runner_up=None)
        for s, c in zip(chosen.steps, chosen.choices, strict=True)
    ]
    record = Record(FORMAT, "0.1.0", "cnn_old", "generic", "generic", 64, "k", {}, entries)
    write_record(tmp_path / "cnn_old.generic.tuning.json", record)
    return str(model), tmp_path / "cnn_old.generic.tuning.json"


COMMANDS = {
    "compile": ("-o", "out"), "verify": (), "bench": (), "asm": ("scores",),
    "run": ("--inputs", "in.npz", "-o", "out.npz"), "autotune": (),
}  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_refuses_it(
    command: str, models: tuple[str, Path], monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    model, record = models
    monkeypatch.chdir(record.parent)
    np.savez("in.npz", image=np.zeros((1, 8, 8, 1), np.float32))
    before = record.read_bytes()
    for path in (record, record.parent / "missing.json"):
        words = [command, model, *COMMANDS[command], "--isa", "generic", "--tuning", str(path)]
        if (command, path.name) == ("autotune", "missing.json"):
            with pytest.raises(MeasuresError):
                invoke(words)
            continue
        assert invoke(words) == 2
        told = capsys.readouterr().err.strip()
        assert told.startswith(f"cannery: error: {path}: th")
        assert ("not of ball" if path == record else "there is no tuning record") in told
        assert "\n" not in told
    assert record.read_bytes() == before
    assert not Path("out").exists()


def test_python_as_well(models: tuple[str, Path]) -> None:
    model, record = models
    for path, message in ((record, "not of ball"), (record.with_name("no.json"), "there is no")):
        with pytest.raises(RecordError, match=message):
            cannery.load(model, isa="generic", tuning=str(path))


def test_compile_tells_once_that_nothing_was_tuned(
    models: tuple[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, _ = models
    words = ["compile", model, "--isa", "generic", "-o", str(tmp_path / "out"), "--json"]
    advice = f"run cannery autotune {model} --isa generic"
    line = f"ball.h5 was never tuned for generic: the cost model chose ({advice})"
    assert invoke(words) == 0
    printed = capsys.readouterr()
    assert printed.err == f"cannery: note: {line}\n"
    content = json.loads(printed.out)
    assert (content["tuned"], content["notes"]) == (False, [line])
    assert invoke([*words, "--tuned-by", "ask Ada"]) == 0
    assert "the cost model chose (ask Ada)" in capsys.readouterr().err
    assert invoke([*words, "--autotuned"]) == 0
    assert capsys.readouterr().err == ""


def test_names_cannot_end_the_line_of_a_note_or_a_warning(
    models: tuple[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, _ = models
    other = tmp_path / "a\nb.h5"
    other.write_bytes(Path(model).read_bytes())
    words = ["compile", str(other), "--isa", "generic", "-o", str(tmp_path / "out")]
    assert invoke(words) == 0
    assert capsys.readouterr().err.startswith(r"cannery: note: a\nb.h5 was never tuned for generic")
    folder = tmp_path / "rec\nords"
    folder.mkdir()
    assert invoke([*words, "--tuning", str(folder)]) == 0
    said = capsys.readouterr().err
    assert said.startswith("cannery: warning: ") and said.count("\n") == 1
    assert r"rec\nords" in said


def test_several_instruction_sets_are_told_in_one_line(tmp_path: Path) -> None:
    options = replace(options_in(tmp_path), target="native", isa=("sse2", "avx2"))
    line = untuned_note(options)
    assert "was never tuned for avx2, sse2: the cost model chose (run cannery autotune" in line
    assert line.endswith("--isa sse2)") and line.count("cannery autotune") == 2
    write_record(
        tmp_path / "toy.avx2.tuning.json", msgspec.structs.replace(record_of(network()), isa="avx2")
    )
    assert "for sse2: the cost model" in untuned_note(options)


def test_a_tuned_network_is_told_to_be(
    models: tuple[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = str(models[1].with_name("cnn_old.h5"))
    words = ["compile", model, "--isa", "generic", "-o", str(tmp_path / "out"), "--json"]
    assert invoke(words) == 0
    printed = capsys.readouterr()
    assert (printed.err, json.loads(printed.out)["tuned"]) == ("", True)
