"""The tuning record: written for version control, read with care."""

from __future__ import annotations

import errno
import json
import re
import shlex
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from cannery.choose.lookup import autotune_command, find_record, recorded_choices
from cannery.choose.plan import Segment
from cannery.choose.record import (
    FORMAT,
    Entry,
    Record,
    RunnerUp,
    better_origin,
    confirmed,
    confirmed_error,
    find_choices,
    format_record,
    make_entry,
    match,
    read_record,
    record_path,
    write_record,
)
from cannery.choose.recorded_device import recorded_device
from cannery.choose.signature import step_signature
from cannery.cli import autotune
from cannery.errors import CanneryWarning, RecordError
from cannery.ir.graph import Graph, GraphBuilder
from cannery.ir.registry import Op, RefArray
from cannery.ir.tensor import DType
from cannery.lowering.lower import cut
from cannery.measure.trial import step_data
from cannery.ops.elementwise import Add, LeakyRelu, Max
from cannery.options import SPECS, Options, make_options
from cannery.schedule.program import Choice, Step
from cannery.schedule.schedule import Schedule, all_schedules, legal
from cannery.target.runner import Origin
from cannery.target.targets import find_target
from devices import EPYC, device
from tuning.toy import ISA, network, singles

GENERIC = find_target("generic")
PATH = Path("toy.generic.tuning.json")


def choices(graph: Graph, segments: tuple[Segment, ...], which: int = 0) -> list[Choice]:
    """A real candidate of each segment."""
    found = []
    for segment in segments:
        schedule = next(s for s in legal(graph, segment.step, ISA) if not s.inexact)
        params = schedule.candidates(graph, segment.step, ISA)[which]
        found.append(Choice(schedule, params, "host", 1.2345678))
    return found


def record_of(graph: Graph, which: int = 0) -> Record:
    segments = singles(graph)
    entries = [
        make_entry(graph, u.step, ISA, c, error=1.23456e-7, runner_up=None)
        for u, c in zip(segments, choices(graph, segments, which), strict=True)
    ]
    return Record(FORMAT, "0.1.0", "toy", "generic", "generic", 64, "k", {"cpu": "x"}, entries)


def edit(record: Record, step: int, **changes: Any) -> Record:
    steps = list(record.steps)
    steps[step] = msgspec.structs.replace(steps[step], **changes)
    return msgspec.structs.replace(record, steps=steps)


def options_in(folder: Path, **changes: Any) -> Options:
    return replace(Options(model=folder / "toy.h5", name="toy", target="generic"), **changes)


def test_text_is_made_for_version_control() -> None:
    text = format_record(record_of(network()))
    content = json.loads(text)
    assert text == format_record(record_of(network()))
    lines = [line for line in text.splitlines() if "signature" in line]
    assert len(lines) == len(content["steps"]) == 3
    assert list(content["steps"][0]) == sorted(content["steps"][0])
    assert content["steps"][0]["us"] == 1.23
    assert content["steps"][0]["error"] == 1.2e-07
    assert not any(word in text for word in ("time_stamp", "date", "total"))


def test_round_trip(tmp_path: Path) -> None:
    record = edit(
        record_of(network()), 1, runner_up=RunnerUp("conv.x", 2, {"a": 1, "b": "c", "d": True})
    )
    path = tmp_path / PATH
    assert write_record(path, record)
    assert read_record(path) == record
    before = path.stat().st_mtime_ns
    assert not write_record(path, record)
    assert path.stat().st_mtime_ns == before
    assert read_record(tmp_path / "none.json") is None


def test_the_context_is_told_where_caches_were_cold() -> None:
    record = record_of(network())
    assert '"context"' not in format_record(record)
    cold = msgspec.structs.replace(record, context="cold")
    assert json.loads(format_record(cold))["context"] == "cold"


def test_places(tmp_path: Path) -> None:
    model = tmp_path / "ball.v2.h5"
    name = "ball.v2.atom32.tuning.json"
    assert record_path(model, "atom32", None) == tmp_path / name
    assert record_path(model, "atom32", tmp_path) == tmp_path / name
    assert record_path(model, "atom32", tmp_path / "my.json") == tmp_path / "my.json"


def test_a_full_disk_leaves_the_old_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / PATH
    write_record(path, record_of(network()))
    old = path.read_bytes()

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("cannery.atomic.os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_record(path, record_of(network(), which=1))
    assert path.read_bytes() == old
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


DAMAGE: dict[str, tuple[Callable[[str], str], str]] = {
    "truncated": (lambda t: t[: len(t) // 2], "damaged: .* line "),
    "empty": (lambda t: "", "damaged: .*line 1"),
    "no object": (lambda t: "[]", "damaged: Expected `object`"),
    "merge conflict": (lambda t: "<<<<<<< HEAD\n" + t, "damaged: .*line 1"),
    "missing field": (lambda t: t.replace('"isa"', '"was"'), "damaged: .*was|isa"),
    "wrong type": (lambda t: t.replace('"us": 1.23', '"us": "1"', 1), r"damaged: .*steps\[0\]\.us"),
    "negative time": (lambda t: t.replace('"us": 1.23', '"us": -1.23', 1), r"damaged: .*0.*\]\.us"),
    "negative error": (lambda t: t.replace('"error": ', '"error": -', 1), r"damaged: .*\.error"),
    "no layout": (
        lambda t: t.replace('"reads": ["nhwc"]', '"reads": ["nwhc"]', 1),
        r"damaged: 'nwhc' is not one of nhwc, planar, phase_split - at `\$\.steps\[0\]\.reads",
    ),
    "too deep": (lambda t: "[" * 100000, "damaged: it is nested too deeply"),
    "no nodes": (lambda t: re.sub(r'"nodes": \[[^]]*\]', '"nodes": []', t), r"damaged: .*\.nodes"),
    "not a number": (lambda t: t.replace('"us": 1.23', '"us": NaN', 1), "damaged: .*NaN"),
    "no context": (
        lambda t: t.replace('"format"', '"context": "hot", "format"'),
        "damaged: .*'hot'.*context",
    ),
    "newer": (lambda t: t.replace('"format": 1', '"format": 99'), "format 99, this Cannery reads"),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_damage_names_file_and_place(tmp_path: Path, kind: str) -> None:
    change, message = DAMAGE[kind]
    path = tmp_path / PATH
    path.write_text(change(format_record(record_of(network()))))
    with pytest.raises(RecordError, match=message) as caught:
        read_record(path)
    assert str(path) in str(caught.value)


def test_binary_garbage(tmp_path: Path) -> None:
    path = tmp_path / PATH
    path.write_bytes(b"\x89HDF\xff\xfe")
    with pytest.raises(RecordError, match="damaged: it is not a text"):
        read_record(path)
    model = path.with_suffix(".h5")
    path.rename(model)
    with pytest.raises(RecordError, match=r"a model, not a tuning record .*\.tuning\.json"):
        read_record(model)


def test_choices_are_those_recorded() -> None:
    graph = network()
    segments = singles(graph)
    found = find_choices(PATH, record_of(graph, 1), graph, segments, ISA, 1e-4)
    assert not found.unusable
    assert list(map(str, found.choices.values())) == list(map(str, choices(graph, segments, 1)))
    assert {c.origin for c in found.choices.values()} == {"record"}


def test_weights_and_names_do_not_matter() -> None:
    record = record_of(network(seed=0))
    other = network(seed=1, prefix="conv2d_17")
    found = find_choices(PATH, record, other, singles(other), ISA, 1e-4)
    assert len(found.choices) == 3
    assert not found.unusable


def test_equal_layers_keep_their_order() -> None:
    record = record_of(network())
    label = [{"number": k} for k in range(3)]
    for k in range(3):
        record = edit(record, k, params=label[k])
    renamed = network(prefix="other")
    entries = match(record, renamed, singles(renamed))
    assert [e.params for e in entries.values() if e] == label
    longer = network(5, prefix="other")
    entries = match(record, longer, singles(longer))
    assert [e.params for e in entries.values() if e][:3] == label
    assert None not in entries.values()


def test_the_same_nodes_win_over_the_order() -> None:
    graph = network()
    record = record_of(graph)
    turned = msgspec.structs.replace(record, steps=record.steps[::-1])
    entries = match(turned, graph, singles(graph))
    assert [e.nodes[0] for e in entries.values() if e] == ["conv_0", "conv_1", "conv_2"]


UNUSABLE: dict[str, tuple[dict[str, Any], str]] = {
    "gone": ({"schedule": "conv.gone"}, "this Cannery has no schedule conv.gone"),
    "version": ({"version": 77}, "is now version"),
    "params": ({"params": {"nonsense": 1}}, "is not a candidate of this Cannery"),
    "other op": (
        {"schedule": "concat.view", "version": 1, "params": {}},
        "concat.view cannot compute it",
    ),
    "other step": ({"signature": "0" * 12}, "it has no entry"),
}


@pytest.mark.parametrize("kind", UNUSABLE)
def test_unusable_entries_are_told(tmp_path: Path, kind: str) -> None:
    changes, message = UNUSABLE[kind]
    graph = network()
    record = record_of(graph)
    if kind == "other step":
        record = msgspec.structs.replace(record, steps=record.steps[:1])
        graph = network(1)
    record = edit(record, 0, **changes)
    segments = singles(graph)
    write_record(tmp_path / PATH, record)
    with pytest.warns(CanneryWarning, match=rf"'conv_0': .*{message}.*cost model"):
        path, known = recorded_choices(graph, segments, GENERIC, options_in(tmp_path))
    assert path == tmp_path / PATH
    assert 0 not in known
    assert len(known) == len(segments) - 1
    with pytest.raises(RecordError, match=message):
        recorded_choices(graph, segments, GENERIC, options_in(tmp_path, locked=True))


def test_text_is_no_number(tmp_path: Path) -> None:
    graph = network()
    record = record_of(graph)
    params = record.steps[0].params
    assert params
    record = edit(record, 0, params={k: str(v) for k, v in params.items()})
    write_record(tmp_path / PATH, record)
    with pytest.raises(RecordError, match="is not a candidate of this Cannery"):
        recorded_choices(graph, singles(graph), GENERIC, options_in(tmp_path, locked=True))


def test_a_record_for_another_instruction_set(tmp_path: Path) -> None:
    graph = network()
    record = msgspec.structs.replace(record_of(graph), isa="avx2")
    write_record(tmp_path / PATH, record)
    with pytest.warns(CanneryWarning, match="the record is for avx2"):
        _, known = recorded_choices(graph, singles(graph), GENERIC, options_in(tmp_path))
    assert known == {}


def test_no_record(tmp_path: Path) -> None:
    graph = network()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert recorded_choices(graph, singles(graph), GENERIC, options_in(tmp_path)) == (None, {})
    with pytest.raises(
        RecordError, match=r"there is no tuning record .*cannery autotune .*toy\.h5 --"
    ):
        recorded_choices(graph, singles(graph), GENERIC, options_in(tmp_path, locked=True))


def test_the_advised_command_makes_the_record_that_is_missed(tmp_path: Path) -> None:
    raw = {
        "name": "net", "target": "atom32", "locked": True, "max_error": "0.001", "batch": "2",
        "tuning": str(tmp_path / "my records.json"), "dims": ("x.1=3",), "offset": "-0.5",
        "input_dtype": ("x=uint8",), "outputs": ("a", "b"), "cflags": ("-O1 -DX='a b'",),
        "io_layout": "nchw", "runner": ("ssh robot",), "rename": ("a=c",),
    }  # fmt: skip
    options = make_options(tmp_path / "toy.h5", raw)
    words = shlex.split(autotune_command(options, find_target("atom32")))
    assert words[:2] == ["cannery", "autotune"]
    context = autotune.command.make_context("autotune", words[2:])
    given = {k: v for k, v in context.params.items() if k in {spec.name for spec in SPECS}}
    expected = replace(options, name="toy", locked=False, rename={})
    assert make_options(context.params["model"], given) == expected


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"isa": ("sse2",), "target": "native"}, " --isa sse2"),
        ({"isa": ("avx2", "sse2"), "target": "native"}, " --isa sse2-32"),
        ({"target": "any", "macros": Path("m.txt")}, " --isa sse2-32"),
        ({"target": "native"}, ""),
    ],
)
def test_the_advised_command_names_one_instruction_set(changes: dict[str, Any], words: str) -> None:
    options = options_in(Path(), **changes)
    target = find_target("sse2-32")
    assert autotune_command(options, target) == f"cannery autotune toy.h5{words}"


def test_a_build_gives_its_own_advice(tmp_path: Path) -> None:
    graph = network()
    options = options_in(tmp_path, locked=True, tuned_by="build the target toy_autotune")
    with pytest.raises(RecordError, match=r"record \(build the target toy_autotune\)"):
        recorded_choices(graph, singles(graph), GENERIC, options)


def test_native_and_its_instruction_set_share_records(tmp_path: Path) -> None:
    record = record_of(network())
    native = replace(GENERIC, name="native")
    path = tmp_path / PATH
    write_record(path, record)
    assert find_record(options_in(tmp_path), native) == (path, record)
    path.rename(tmp_path / "toy.native.tuning.json")
    assert find_record(options_in(tmp_path), GENERIC)[1] == record
    write_record(tmp_path / "toy.native.tuning.json", msgspec.structs.replace(record, isa="avx2"))
    assert find_record(options_in(tmp_path), GENERIC)[1] is None


def test_confirmed_lines_stay() -> None:
    old = edit(record_of(network()), 0, us=9.0)
    new = record_of(network())
    kept = confirmed(new.steps, old)
    assert kept == old.steps
    better = [msgspec.structs.replace(e, origin="device") for e in new.steps]
    assert confirmed(better, old) == better
    changed = [msgspec.structs.replace(new.steps[0], params={"mr": 99}), *new.steps[1:]]
    assert confirmed(changed, old) == [changed[0], *old.steps[1:]]
    assert confirmed(new.steps, None) == new.steps
    # Times of another device are none of this one, unless they are worth more.
    assert confirmed(new.steps, old, same_device=False) == new.steps
    robot = msgspec.structs.replace(
        old, steps=[msgspec.structs.replace(e, origin="device") for e in old.steps]
    )
    assert confirmed(new.steps, robot, same_device=False) == robot.steps


def test_the_device_is_told_without_what_changes_by_itself(tmp_path: Path) -> None:
    told = recorded_device(device(EPYC, mhz=3691.4), None)
    assert (told.cpu, told.system, told.mhz) == ("AMD EPYC", "Linux 6.18 x86_64, KVM", 3700)
    record = msgspec.structs.replace(record_of(network()), device=told)
    write_record(tmp_path / PATH, record)
    assert read_record(tmp_path / PATH) == record
    assert '"emulated"' not in format_record(record)
    assert '"device"' not in format_record(record_of(network())), "older ones have none"
    for later in ({"mhz": 3200.0}, {"release": "6.19.1"}, {"core": 1}, {"boot": "2"}):
        assert recorded_device(device(EPYC, **later), told) is told
    for other in ({"model": 1}, {"features": "sse2"}, {"mhz": 1200.0}, {"process": "qemu-i386"}):
        assert recorded_device(device(EPYC, **other), told) != told
    emulated = recorded_device(device(EPYC, process="qemu-i386"), None)
    assert (emulated.mhz, emulated.emulated) == (0, "it runs within qemu-i386")


def test_the_error_that_was_reached_stays_with_the_plan() -> None:
    old = msgspec.structs.replace(record_of(network()), error=2e-6)
    assert json.loads(format_record(old))["error"] == 2e-6
    assert confirmed_error(2.123e-6, old.steps, old) == 2e-6
    assert confirmed_error(3.456e-6, old.steps, old) == 3.5e-6
    assert confirmed_error(2.123e-6, old.steps[1:], old) == 2.1e-6
    assert confirmed_error(2.123e-6, old.steps, record_of(network())) == 2.1e-6


def test_better_measurements_are_recognised() -> None:
    entry = record_of(network()).steps[0]
    device: Entry = msgspec.structs.replace(entry, origin="device")
    assert better_origin(device, Origin.HOST)
    assert not better_origin(device, Origin.DEVICE)
    assert not better_origin(entry, Origin.DEVICE)
    assert better_origin(entry, Origin.EMULATED)


@pytest.fixture
def inexact(monkeypatch: pytest.MonkeyPatch) -> Schedule:
    """The first schedule of the toy's convolutions, as if it were inexact."""
    schedule = all_schedules()["conv.direct_oc"]
    monkeypatch.setattr(type(schedule), "inexact", True)
    return schedule


def test_an_error_that_is_too_large_gives_way(inexact: Schedule) -> None:
    graph = network(1)
    segments = singles(graph)
    params = dict(inexact.candidates(graph, segments[0].step, ISA)[0])
    other = dict(inexact.candidates(graph, segments[0].step, ISA)[1])
    record = edit(
        record_of(graph), 0, schedule=inexact.id, version=inexact.version, params=params,
        error=1e-3, runner_up=RunnerUp(inexact.id, inexact.version, other),
    )  # fmt: skip
    assert dict(find_choices(PATH, record, graph, segments, ISA, 2e-3).choices[0].params) == params
    assert dict(find_choices(PATH, record, graph, segments, ISA, 1e-4).choices[0].params) == other
    alone = edit(record, 0, runner_up=None)
    found = find_choices(PATH, alone, graph, segments, ISA, 1e-4)
    assert found.unusable == {0: "conv.direct_oc has an error of 0.001, and it has no runner-up"}


def test_new_weights_are_checked_without_running_anything(
    inexact: Schedule, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The emulation is as wrong as the first weight of the layer says."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    calls = []

    def emulate(self: Schedule, graph: Graph, step: Step, inputs: Sequence[RefArray]) -> RefArray:
        calls.append(step.name)
        (y,) = step_data(graph, step, dict(zip(step.inputs, inputs, strict=True))).outputs
        first = float(np.asarray(graph.constants["w"], np.float64).flat[0])
        wide: RefArray = y.astype(np.float64) + float(np.max(np.abs(y))) * first * 1e-4
        return wide

    monkeypatch.setattr(type(inexact), "emulate", emulate, raising=False)

    def usable(first_weight: float, max_error: float = 1e-4) -> bool:
        graph = network(1)
        weights = np.array(graph.constants["w"])
        weights.flat[0] = first_weight
        graph = replace(graph, constants={"w": weights})
        segments = singles(graph)
        params = dict(inexact.candidates(graph, segments[0].step, ISA)[0])
        record = edit(
            record_of(graph), 0, schedule=inexact.id, version=inexact.version, params=params,
            error=2e-5, runner_up=None,
        )  # fmt: skip
        found = find_choices(PATH, record, graph, segments, ISA, max_error)
        return bool(found.choices)

    assert usable(0.4)
    assert not usable(0.7)
    assert usable(0.7, 2e-4)
    assert len(calls) == 2
    assert not usable(0.7)
    assert len(calls) == 2


def test_records_are_for_one_width_of_pointers() -> None:
    graph = network(2)
    segments, record = singles(graph), record_of(graph)
    assert len(find_choices(PATH, record, graph, segments, ISA, 1e-4).choices) == 2
    for other in (ISA.with_bits(32), replace(ISA, name="another")):
        found = find_choices(PATH, record, graph, segments, other, 1e-4)
        assert not found.choices
        assert len(found.unusable) == 2


@pytest.mark.parametrize("step", [-1, 1])
def test_schedules_of_any_other_version_are_others(step: int) -> None:
    """Also those of a newer Cannery."""
    graph = network(1)
    segments, record = singles(graph), record_of(graph)
    (entry,) = record.steps
    changed = edit(record, 0, version=entry.version + step)
    found = find_choices(PATH, changed, graph, segments, ISA, 1e-4)
    assert not found.choices
    assert "version" in found.unusable[0]


def test_signatures_tell_steps_apart() -> None:
    """By operator, attributes, types and who reads what; not by names."""

    def signature(op: Op, shape: tuple[int, ...], dtype: DType = DType.FLOAT32, again: str = "x",
                  name: str = "n") -> str:  # fmt: skip
        b = GraphBuilder("net")
        values = {"x": b.input("x", shape, dtype), "y": b.input("y", shape, dtype)}
        inputs = ["x"] if isinstance(op, LeakyRelu) else ["x", values[again]]
        b.output(b.node(op, inputs, name=name))
        graph = b.build()
        (step,) = cut(graph)
        return step_signature(graph, step)

    base = signature(LeakyRelu(0.1), (1, 4))
    assert base == signature(LeakyRelu(0.1), (1, 4), name="other")
    others = [
        signature(LeakyRelu(0.2), (1, 4)), signature(LeakyRelu(0.1), (1, 5)),
        signature(LeakyRelu(0.1), (4, 1)), signature(Add(), (1, 4)),
        signature(Add(), (1, 4), again="y"), signature(Max(), (1, 4)),
        signature(Max(), (1, 4), DType.INT32),
    ]  # fmt: skip
    assert len({base, *others}) == 1 + len(others)
