"""How many inputs are computed at once: by the cost model, by measuring, by the record."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from cannery.choose import stacks
from cannery.choose.defaults import Defaults
from cannery.choose.plan import make_segments
from cannery.choose.record import FORMAT, Record, read_record
from cannery.choose.record import Many as RecordedMany
from cannery.choose.stacks import choose_stacks, chunk_sizes, record_stacks
from cannery.cli import invoke
from cannery.errors import CanneryWarning, OptionError, RecordError
from cannery.ir.graph import Graph, GraphBuilder
from cannery.layouts import nhwc
from cannery.lowering.lower import cut, make_step
from cannery.lowering.stack import stacked_choices, stacked_graph, why_not
from cannery.measure.cache import Measurement
from cannery.measure.measure import Protocol
from cannery.ops.elementwise.binary import Add
from cannery.ops.matmul.op import MatMul
from cannery.option_values import MAX_MANY
from cannery.options import Options, make_options
from cannery.pipeline import compile_model
from cannery.schedule.program import Choice
from cannery.schedule.schedule import all_schedules
from cannery.target.isa import isa
from cannery.target.runner import Origin
from cannery.tuning import tune_many, tuner
from cannery.tuning.confirm import Judge
from cannery.tuning.outcome import Outcome, Settings
from cannery.tuning.tune_many import LESS, ManyTuner
from cannery.tuning.tuner import tune, usable_record
from emit.test_many import two_heads
from needs import need_program, need_toolchain
from tiny_models import write_tiny_classifier

FAST = Protocol(first=2, more=1, sample_us=5.0, limit=5.0)


@pytest.fixture
def model(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """A dense layer; all that is measured counts as a gain, and all networks take equally long."""
    need_program("ninja", "ninja-build")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))
    # What a busy machine may change between two tunings: its clock, and which network wins.
    monkeypatch.setattr("cannery.target.device.SAME_CLOCK", 10.0)
    monkeypatch.setattr(Judge, "times", lambda _, programs: [1.0] * len(programs))
    monkeypatch.setattr(tuner, "CONTEST_CANDIDATES", 4)
    monkeypatch.setattr("cannery.tuning.search.Protocol", lambda limit: FAST)
    monkeypatch.setattr("cannery.tuning.confirm.ROUNDS", 2)
    monkeypatch.setattr("cannery.tuning.confirm.TURN_SECONDS", 0.005)
    monkeypatch.setattr("cannery.tuning.confirm.MANY_SECONDS", 0.05)
    monkeypatch.setattr(tune_many, "LESS", 1e9)
    monkeypatch.setattr(tune_many, "LEAST_GAIN", 0.0)
    return write_tiny_classifier(tmp_path / "tiny.h5")


def options_for(model: Path, **more: object) -> Options:
    need_toolchain("generic")
    return make_options(model, {"target": "generic", **more})


def tuned(model: Path, **more: object) -> Outcome:
    return tune(options_for(model, **more), Settings())


def dense(
    rows: int = 1, units: int = 256, *, transposed: bool = False, runtime: bool = False
) -> Graph:
    """One dense layer of 512 inputs."""
    rng = np.random.default_rng(1)
    b = GraphBuilder("dense")
    x = b.input("x", (512, rows) if transposed else (rows, 512))
    weights = rng.standard_normal((512, units)).astype(np.float32)
    w = b.input("w", (512, units)) if runtime else b.constant("w", weights)
    b.output(b.node(MatMul(transpose_a=transposed), [x, w], name="y"))
    return b.build()


def test_chunks() -> None:
    assert chunk_sizes(1) == []
    assert chunk_sizes(2) == [2]
    assert chunk_sizes(8) == [8, 4, 2]
    assert chunk_sizes(12) == [12, 8, 4, 2]


def graph_with_sum(shape: tuple[int, ...]) -> Graph:
    """A dense layer of two rows, and a constant that is added."""
    b = GraphBuilder("sum")
    w = b.constant("w", np.ones((512, 256), np.float32))
    y = b.node(MatMul(), [b.input("x", (2, 512)), w], name="y")
    b.output(b.node(Add(), [y, b.constant("c", np.ones(shape, np.float32))], name="z"))
    return b.build()


def test_what_cannot_be_stacked() -> None:
    def reason(graph: Graph) -> str:
        return why_not(graph, cut(graph)[0])

    assert reason(dense()) == ""
    assert reason(dense(rows=3)) == ""
    assert "first axis" in reason(dense(rows=3, transposed=True))
    assert "constant" in reason(dense(runtime=True))
    graph = dense(rows=2)
    b = GraphBuilder("added")
    x = b.input("x", (2, 512))
    y = b.node(MatMul(), [x, b.constant("w", graph.constants["w"])], name="y")
    rows = b.constant("rows", np.ones((2, 256), np.float32))
    b.output(b.node(Add(), [y, rows], name="z"))
    added = b.build()
    step = next(s for s in cut(added) if s.kind == "MatMul")
    assert bool(step.epilogue) == bool(reason(added))
    # Whoever takes in such a constant must not stack it; one row for all is none.
    for shape, told in (((2, 256), True), ((1, 256), False), ((256,), False)):
        product, addition = graph_with_sum(shape).nodes
        alone = make_step(graph_with_sum(shape), (product,), (addition,))
        assert bool(why_not(graph_with_sum(shape), alone)) is told


@pytest.mark.parametrize("isa_name", ["generic", "ssse3", "avx2", "avx512", "neon32", "neon64"])
@pytest.mark.parametrize("schedule", ["matmul.dense_n", "matmul.dense_k", "matmul.general"])
def test_each_candidate_can_be_stacked(isa_name: str, schedule: str) -> None:
    """The ways differ in tiles only, never in what decides about rounding."""
    graph, target = dense(), isa(isa_name)
    (step,) = cut(graph)
    found = all_schedules()[schedule]
    if found.why_not(graph, step, target):
        pytest.skip("too many outputs")
    for params in found.candidates(graph, step, target):
        ways = stacked_choices(graph, step, Choice(found, params), 8, target)
        assert ways
        assert len({str(way) for way in ways}) == len(ways)
        for way in ways:
            assert way.params["split"] == params["split"]
            rotates = params.get("broadcast") == "rotate"
            assert (way.params.get("broadcast") == "rotate") == rotates


def test_the_cost_model_stacks_what_gains() -> None:
    graph, target = dense(), isa("avx512")
    segments = make_segments(graph)
    plan = Defaults(graph, segments, target, nhwc.ORDER, 1e-4).plan()
    stacks = choose_stacks(graph, plan.steps(segments), plan.choices, target, 8)
    assert stacks[0].images == 8
    assert list(stacks[0].choices) == ["y"]
    assert choose_stacks(graph, plan.steps(segments), plan.choices, target, 1) == ()
    assert stacked_graph(graph, plan.steps(segments)[0], 8).types["x"].shape == (8, 512)


@pytest.mark.parametrize(("units", "stacked"), [(256, False), (1536, True)])
def test_without_fma_reading_weights_from_far_is_what_stacks_save(
    units: int, *, stacked: bool
) -> None:
    """From near, multiplying and adding take as long for one image as for many."""
    graph, target = dense(units=units), isa("ssse3")
    found = make_segments(graph)
    plan = Defaults(graph, found, target, nhwc.ORDER, 1e-4).plan()
    stacks = choose_stacks(graph, plan.steps(found), plan.choices, target, 8)
    assert [stack.images for stack in stacks] == ([8, 4, 2] if stacked else [])


def test_a_record_of_many(model: Path) -> None:
    outcome = tuned(model, many="4")
    record = read_record(outcome.path)
    assert record is not None
    assert record.many is not None
    assert (record.many.images, record.many.chunks) == (4, [4, 2])
    assert [e.nodes[0] for e in record.many.steps] == ["scores"]
    assert any("4 images at once" in note for note in outcome.notes)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compiled = compile_model(options_for(model, many="4", locked=True))
    (first, second) = json.loads(compiled.files["tiny.json"])["many_chunks"]
    assert (first["images"], second["images"]) == (4, 2)
    assert first["steps"][0]["origin"] == "record"
    before = outcome.path.read_bytes()
    again = tuned(model, many="4")
    assert (again.measured, again.changed) == (0, False)
    tuned(model)
    assert outcome.path.read_bytes() == before, "what was tuned for many stays"
    assert usable_record(options_for(model, many="4")) == outcome.path
    assert usable_record(options_for(model, many="8")) is None


def test_a_record_without_many(model: Path) -> None:
    path = tuned(model).path
    with pytest.warns(CanneryWarning, match="was not tuned for MANY 8; the cost model .*--many 8"):
        compile_model(options_for(model, many="8"))
    with pytest.raises(RecordError, match="was not tuned for MANY 8"):
        compile_model(options_for(model, many="8", locked=True))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compile_model(options_for(model, locked=True))
    assert usable_record(options_for(model, many="8")) is None
    assert usable_record(options_for(model)) == path


@pytest.mark.parametrize(
    ("key", "value"), [("signature", "0"), ("schedule", "matmul.gone"), ("version", 99)]
)
def test_entries_that_fit_no_more(model: Path, key: str, value: object) -> None:
    path = tuned(model, many="2").path
    record = json.loads(path.read_text())
    record["many"]["steps"][0][key] = value
    path.write_text(json.dumps(record))
    with pytest.warns(CanneryWarning, match="no longer"):
        compile_model(options_for(model, many="2"))


def test_a_damaged_record(model: Path) -> None:
    path = tuned(model, many="2").path
    record = json.loads(path.read_text())
    record["many"]["chunks"] = [1]
    path.write_text(json.dumps(record))
    with pytest.raises(RecordError, match="damaged"):
        compile_model(options_for(model, many="2"))
    record["many"]["chunks"] = [4]
    path.write_text(json.dumps(record))
    with pytest.warns(CanneryWarning, match="not chunks of 2"):
        compile_model(options_for(model, many="2"))


def test_renamed_layers_keep_their_plan(model: Path) -> None:
    path = tuned(model, many="2").path
    record = json.loads(path.read_text())
    record["many"]["steps"][0]["nodes"] = ["another name"]
    path.write_text(json.dumps(record))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compile_model(options_for(model, many="2"))


def test_verify_and_run_with_many(model: Path) -> None:
    assert invoke(["verify", str(model), "--target", "generic", "--many", "3"]) == 0


def test_views_on_the_command_line(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--input-dtype", "image=uint8", "--input-view", "image"]
    assert invoke(["verify", str(model), "--target", "generic", "--many", "3", *words]) == 0
    assert invoke(["verify", str(model), "--target", "generic", "--input-view", "frame"]) == 2
    assert "no input is called 'frame'" in capsys.readouterr().err


def test_too_many() -> None:
    with pytest.raises(OptionError, match=f"more than {MAX_MANY}"):
        make_options(Path("m.h5"), {"many": str(MAX_MANY + 1)})
    with pytest.raises(OptionError, match="whole number"):
        make_options(Path("m.h5"), {"many": "0"})
    with pytest.raises(OptionError, match="twice"):
        make_options(Path("m.h5"), {"input_view": ("a", "a")})


@pytest.mark.parametrize(
    ("together", "gain"), [(0.7, True), (0.79, True), (0.81, False), (1.0, False)]
)
def test_stacks_have_to_gain_a_fifth(
    together: float, gain: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the time of so many images one by one."""
    graph = two_heads()
    step = next(s for s in cut(graph) if s.name == "a")
    for images in (2, 8):
        cycles = iter([together * images * 1000.0, 1000.0])
        monkeypatch.setattr(stacks, "_cycles", lambda *given, cycles=cycles: next(cycles))
        choice = Choice(all_schedules()["matmul.dense_n"], {})
        assert stacks.gains(graph, step, choice, choice, isa("sse2"), images) is gain


def test_what_a_record_says_is_for_one_number_of_images() -> None:
    graph = two_heads()
    record = Record(
        FORMAT, "0", "net", "sse2", "sse2", 64, "k", {}, [], RecordedMany(8, [8, 4], [])
    )
    said = {n: record_stacks(record, graph, (), (), isa("sse2"), n) for n in (4, 8, 16)}
    assert isinstance(said[4], str)
    assert isinstance(said[16], str)
    assert isinstance(said[8], stacks.Known)
    assert said[8].chunks == [8, 4]


@pytest.mark.parametrize(
    ("us", "stacked"), [(1.0, True), (LESS * 8 * 3.0 - 0.1, True), (LESS * 8 * 3.0 + 0.1, False)]
)
@pytest.mark.parametrize("single", [3.0, None])
def test_a_step_is_stacked_if_it_takes_less_than_so_many_images_alone(
    us: float, stacked: bool, single: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    step, way = SimpleNamespace(outputs=("y",)), Choice(all_schedules()["matmul.general"], {})
    alone = SimpleNamespace(us=single)
    monkeypatch.setattr(ManyTuner, "_prospects", lambda *given: [])
    monkeypatch.setattr(ManyTuner, "_steps", lambda *given: [(step, alone)])
    monkeypatch.setattr(ManyTuner, "_best", lambda *given: (way, Measurement(0.5, us=us)))
    bench = SimpleNamespace(origin=Origin.HOST)
    search = SimpleNamespace(run=lambda prospects: {}, contests={"y": object()}, bench=bench)
    tuner = ManyTuner(cast(Any, None), (), cast(Any, None), 8)
    found = tuner._measure(cast(Any, None), cast(Any, search), 4)
    assert [w.choice.us for w in found] == ([us] if stacked and single else [])
    assert all((w.error, w.choice.origin) == (0.5, "host") for w in found)
