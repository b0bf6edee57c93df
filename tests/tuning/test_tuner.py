"""Tuning a whole network with real compilers: the record, what repeats it, what spoils it."""

from __future__ import annotations

import json
import stat
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path

import pytest

from cannery.choose.record import Record, read_record
from cannery.cli import invoke
from cannery.errors import OptionError, ToolchainError
from cannery.measure.measure import Context, Protocol
from cannery.options import Options, make_options
from cannery.pipeline import choose, compile_model, import_graph
from cannery.target.runner import Origin, Runner
from cannery.target.toolchain import find_toolchain
from cannery.tuning import tuner
from cannery.tuning.confirm import Judge
from cannery.tuning.outcome import Outcome, Settings
from cannery.tuning.search import Quiet
from cannery.tuning.tuner import tune, usable_record
from needs import need_program, need_runner, need_toolchain
from tiny_models import write_tiny_model, write_tiny_pair

#: Few rounds: these tests are not about which candidate wins.
FAST = Protocol(first=2, more=1, sample_us=5.0, limit=5.0)


@pytest.fixture(autouse=True)
def quick(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small contests, and a cache of this session's own."""
    need_program("ninja", "ninja-build")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))
    # A busy machine may change its clock between two tunings.
    monkeypatch.setattr("cannery.target.device.SAME_CLOCK", 10.0)
    monkeypatch.setattr(tuner, "CONTEST_CANDIDATES", 6)
    monkeypatch.setattr("cannery.tuning.search.Protocol", lambda limit: FAST)
    monkeypatch.setattr("cannery.tuning.confirm.ROUNDS", 2)
    monkeypatch.setattr("cannery.tuning.confirm.TURN_SECONDS", 0.005)
    monkeypatch.setattr("cannery.tuning.confirm.COLD_TURN_SECONDS", 0.02)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_tiny_model(tmp_path / "tiny.h5")


def options_for(model: Path, target: str = "generic", **more: object) -> Options:
    need_toolchain(target)
    return make_options(model, {"target": target, **more})


def tuned(model: Path, target: str = "generic", **more: object) -> Outcome:
    return tune(options_for(model, target, **more), Settings())


def the_record(outcome: Outcome) -> Record:
    record = read_record(outcome.path)
    assert record is not None
    return record


def test_compile_does_what_the_record_says(model: Path) -> None:
    outcome = tuned(model)
    assert outcome.path == model.with_name("tiny.generic.tuning.json")
    record = the_record(outcome)
    assert [(e.nodes[0], e.origin) for e in record.steps] == [("scores", outcome.origin.value)]
    options = options_for(model, locked=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        graph = import_graph(options)
        chosen = choose(graph, find_toolchain(options).target, options)
        compiled = compile_model(options)
    assert [str(c) for c in chosen.choices] == [str(x.chosen) for x in outcome.layers]
    assert outcome.path in compiled.dependencies
    assert outcome.error < 1e-6
    assert record.error == float(f"{outcome.error:.2g}")
    assert outcome.before_us
    assert outcome.after_us


def test_tuning_again_measures_nothing_and_changes_nothing(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Whole networks are timed anew each time, which decides where they are about as fast.
    monkeypatch.setattr(Judge, "times", lambda _, programs: [1.0] * len(programs))
    first = tuned(model)
    before = first.path.read_bytes()
    again = tuned(model)
    assert again.measured == 0
    assert not again.changed
    assert again.path.read_bytes() == before
    assert again.peak_gflops > 0


def test_cold_caches(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    timed = []
    run_text = Runner.run_text

    def spy(self: Runner, executable: Path, args: Sequence[str] = ()) -> str:
        if "--time" in args:
            timed.append((executable.name, "--cold" in args))
        return run_text(self, executable, args)

    monkeypatch.setattr(Runner, "run_text", spy)
    options = options_for(model)
    cold = tune(options, Settings(context=Context.COLD))
    assert set(timed) == {("harness", True), ("driver", True)}
    assert (cold.context, the_record(cold).context) == (Context.COLD, "cold")
    assert cold.error < 1e-6
    assert usable_record(options) == usable_record(options, Context.COLD) == cold.path
    assert usable_record(options, Context.WARM) is None
    again = tune(options, Settings())
    assert (again.context, again.measured) == (Context.COLD, 0)
    assert the_record(again).context == "cold"
    timed.clear()
    warm = tune(options, Settings(context=Context.WARM))
    assert not any(with_cold for _, with_cold in timed)
    assert "the record was made with cold caches, and is replaced" in warm.notes
    assert the_record(warm).context == "warm"
    assert "context" not in json.loads(warm.path.read_text())
    compile_model(options_for(model, locked=True))


def test_new_weights_keep_the_record(model: Path) -> None:
    first = tuned(model)
    write_tiny_model(model, seed=7)
    options = options_for(model, locked=True)
    compile_model(options)
    second = tuned(model)
    old, new = (json.loads(x.path.read_text()) for x in (first, second))
    assert old["key"] == new["key"]


def test_a_record_elsewhere(model: Path, tmp_path: Path) -> None:
    folder = tmp_path / "records"
    folder.mkdir()
    outcome = tuned(model, tuning=str(folder))
    assert outcome.path == folder / "tiny.generic.tuning.json"
    assert not model.with_name("tiny.generic.tuning.json").exists()
    compile_model(options_for(model, locked=True, tuning=str(folder)))


def test_what_is_tuned_keeps_the_bound_of_memory(tmp_path: Path) -> None:
    """Depth first here; the record serves compiling with the same bound, and none that is lower."""
    model = write_tiny_pair(tmp_path / "pair.h5")
    options = options_for(model, max_ram="2500", locked=True)
    outcome = tune(options, Settings())
    (layer,) = outcome.layers
    assert layer.step.depth_first and layer.chosen.us and outcome.measured > 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = compile_model(options)
    assert made.source.single_bytes <= 2500 and outcome.path in made.dependencies
    assert usable_record(options) == outcome.path
    assert usable_record(options_for(model, max_ram="1000")) is None
    assert usable_record(options_for(model)) is None, "without a bound, nothing is depth first"


def test_a_bound_that_nothing_keeps_ends_tuning(model: Path) -> None:
    with pytest.raises(OptionError, match="--max-flash: code and constants take at least"):
        tuned(model, "cortex-m4", max_flash="100")


def test_no_time_at_all(model: Path) -> None:
    outcome = tune(options_for(model, "sse2"), Settings(budget=0.0))
    assert outcome.measured == 0
    assert outcome.untried == ("scores",)
    assert "within 0 s nothing was tried for scores" in outcome.notes
    told = "nothing was measured, so no record is written; give --budget 30 or more"
    assert told in outcome.notes
    assert (outcome.idle, outcome.changed, outcome.path.exists()) == (True, False, False)
    assert outcome.error is None


def test_little_time_tries_the_most_promising(
    model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    need_toolchain("sse2")
    monkeypatch.setattr("cannery.tuning.search.CANDIDATE_SECONDS", 10.0)
    arguments = ["autotune", str(model), "--target", "sse2", "--budget", "60"]
    monkeypatch.setenv("XDG_CACHE_HOME", str(model.parent / "cache"))
    assert invoke([*arguments, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["measured_in_part"] == ["scores"]
    assert found["not_measured"] == []
    (step,) = [s for s in found["steps"] if s["macs"]]
    assert 2 <= len(step["candidates"]) <= 5
    assert step["chosen"] in [c["schedule"] for c in step["candidates"]]
    assert any("within 60 s only a part was tried for scores" in n for n in found["notes"])


def test_an_emulator_checks_and_decides_nothing(model: Path) -> None:
    toolchain = need_toolchain("neon64")
    if need_runner(toolchain).origin is not Origin.EMULATED:
        pytest.skip("this machine runs the target itself")
    outcome = tuned(model, "neon64")
    assert outcome.origin is Origin.EMULATED
    assert (outcome.before_us, outcome.after_us) == (None, None)
    assert {e.origin for e in the_record(outcome).steps} == {"estimated"}
    assert any(t.us is not None for x in outcome.layers for t in x.tried)


def need_emulated(target: str) -> None:
    if need_runner(need_toolchain(target)).origin is not Origin.EMULATED:
        pytest.skip("this machine runs the target itself")


def test_a_processor_that_is_not_at_hand_is_estimated(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    need_emulated("aarch64-a78")
    need_program("llvm-mca", "llvm-mca-14")
    need_program("aarch64-linux-gnu-objdump", "llvm-objdump")
    outcome = tuned(model, "aarch64-a78")
    assert outcome.origin is Origin.ESTIMATED
    assert outcome.estimated is not None
    assert 0 < outcome.estimated.after_us <= 1.02 * outcome.estimated.before_us
    for layer in outcome.layers:
        estimates = [t.estimated_us for t in layer.tried if t.measurement is not None]
        assert all(us is not None and us > 0 for us in estimates)
    record = the_record(outcome)
    assert {(e.origin, e.us) for e in record.steps} == {("estimated", None)}
    assert " stands in for cortex-a78" in record.provenance["estimated"]

    assert invoke(["autotune", str(model), "--target", "aarch64-a78", "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert (content["origin"], content["measured"], content["changed"]) == ("estimated", 0, False)
    assert content["total_us"] == {"before": None, "after": None}
    assert "peak_gflops" not in content
    assert "cortex-a78" in content["estimated"]["by"]
    (step,) = [s for s in content["steps"] if s["macs"]]
    first = step["candidates"][0]
    assert (first["us"], first["percent_of_peak"]) == (None, None)
    assert min(first["estimated_us"], first["emulated_us"]) > 0

    assert invoke(["autotune", str(model), "--target", "aarch64-a78"]) == 0
    printed = capsys.readouterr().out
    for word in ("est. us", "aarch64-a78 (neon64half, estimated): llvm-mca", "stands in for"):
        assert word in printed


def test_without_llvm_mca_the_cost_model_decides(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    need_emulated("aarch64-a72")
    monkeypatch.setattr("cannery.analysis.mca.newest", lambda program: [])
    outcome = tuned(model, "aarch64-a72")
    assert outcome.origin is Origin.EMULATED
    assert any("is an emulator: " in note for note in outcome.notes)
    assert outcome.estimated is None
    assert any("nothing was estimated" in n and "apt install llvm" in n for n in outcome.notes)


def test_better_measurements_are_kept(model: Path) -> None:
    first = tuned(model)
    text = first.path.read_text()
    assert '"origin": "host"' in text
    text = text.replace('"origin": "host"', '"origin": "device"')
    there = the_record(first).device
    assert there is not None
    text = text.replace(f'"part": "{there.part}"', '"part": "the robot"')
    first.path.write_text(text)
    again = tuned(model)
    assert again.path.read_text() == text
    device = the_record(again).device
    assert device is not None
    assert device.part == "the robot", "kept lines are those of the device that they came from"
    (note,) = (note for note in again.notes if "a better origin" in note)
    assert note.endswith("host")
    old = json.loads(text)
    del old["device"]
    first.path.write_text(json.dumps(old))
    (note,) = (note for note in tuned(model).notes if "a better origin" in note)
    assert note.endswith("host; the record names no device: delete it if that was an emulator")
    assert the_record(again).device is None


def test_progress_is_told(model: Path) -> None:
    told: list[str] = []

    class Teller(Quiet):
        def total(self, contests: int) -> None:
            told.append(f"total {contests}")

        def stage(self, text: str) -> None:
            told.append(text)

    tune(options_for(model, "ssse3"), Settings(), Teller())
    assert told[0] == "reading the model"
    assert told[-1] == "confirming whole networks"
    assert any(text.startswith("total ") for text in told)


def test_two_devices_share_the_work(model: Path, tmp_path: Path) -> None:
    runner = tmp_path / "device"
    runner.write_text(f'#!/bin/sh\necho "$@" >> "{tmp_path}/log$1"\nshift\nexec "$@"\n')
    runner.chmod(runner.stat().st_mode | stat.S_IXUSR)
    outcome = tuned(model, runner=(f"{runner} 1", f"{runner} 2"))
    assert outcome.origin is Origin.DEVICE
    assert (tmp_path / "log1").exists()
    assert (tmp_path / "log2").exists()
    assert str(tmp_path) not in outcome.path.read_text()


BROKEN = {
    "missing compiler": (["--cc", "no-such-compiler"], "no-such-compiler"),
    "failing compiler": (["--cc", "{script}"], "refused"),
    "crashing emulator": (["--runner", "{crash}"], "SIGSEGV"),
    "failing emulator": (["--runner", "false"], "failed with exit code 1"),
    "silent emulator": (["--runner", "true"], "did not report what it runs on"),
    "bad budget": (["--budget", "-1"], "--budget"),
    "no model": (["--isa", "nonsense"], "nonsense"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_what_fails_is_one_error_and_leaves_the_record(
    kind: str, model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    need_toolchain("generic")
    record = model.with_name("tiny.generic.tuning.json")
    if kind != "no model":
        tuned(model)
    before = record.read_bytes() if record.exists() else b""
    compiler, crash = tmp_path / "compiler", tmp_path / "crash"
    compiler.write_text('#!/bin/sh\ncase "$*" in *-dM*) exec cc "$@";; esac\n'
                        "echo 'error: refused' >&2\nexit 1\n")  # fmt: skip
    crash.write_text("#!/bin/sh\nkill -SEGV $$\n")
    for script in (compiler, crash):
        script.chmod(0o755)
    arguments, message = BROKEN[kind]
    words = [a.format(script=compiler, crash=crash) for a in arguments]
    target = [] if kind == "no model" else ["--target", "generic"]
    code = invoke(["autotune", str(model), *target, *words])
    told = capsys.readouterr().err.strip()
    assert code == 2
    assert told.count("\n") == 0
    assert told.startswith("cannery: error: ")
    assert message in told
    assert (record.read_bytes() if record.exists() else b"") == before


def test_a_damaged_record_is_told_before_anything_is_done(model: Path) -> None:
    record = model.with_name("tiny.generic.tuning.json")
    record.write_text("{")
    assert invoke(["autotune", str(model), "--target", "generic"]) == 2
    assert record.read_text() == "{"


def test_errors_of_programs_have_their_own_type(model: Path) -> None:
    with pytest.raises(ToolchainError):
        tuned(model, runner=("false",))


def test_json(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    need_toolchain("generic")
    assert invoke(["autotune", str(model), "--target", "generic", "--json"]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    content = json.loads(printed.out)
    assert content["target"] == "generic"
    assert set(content["total_us"]) == {"before", "after"}
    (step,) = [s for s in content["steps"] if s["macs"]]
    assert step["op"] == "Conv"
    assert step["chosen"] in [c["schedule"] for c in step["candidates"]]
    first = step["candidates"][0]
    assert first["us"] > 0
    assert first["percent_of_peak"] > 0
    assert first["error"] < 1e-5
    assert content["seconds"] > 0


def test_table(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    need_toolchain("generic")
    assert invoke(["autotune", str(model), "--target", "generic"]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    for word in ("Conv scores", "chosen", "% of peak", "before", "after", "GFLOP/s"):
        assert word in printed.out


def test_an_error_bound_that_nothing_meets(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It leaves no record, and an earlier one as it was."""
    need_toolchain("generic")
    words = ["autotune", str(model), "--target", "generic"]
    record = model.with_name("tiny.generic.tuning.json")
    assert invoke([*words, "--max-error", "1e-12"]) == 1
    printed = capsys.readouterr()
    assert "the error exceeds 1e-12, what --max-error allows" in printed.out
    assert not record.exists() and "written" not in printed.err
    assert invoke(words) == 0
    earlier = record.read_bytes()
    assert invoke([*words, "--max-error", "1e-12"]) == 1
    assert record.read_bytes() == earlier


@pytest.mark.skipif(sys.platform != "linux", reason="pseudo-terminals")
def test_live_display(model: Path) -> None:
    import os
    import pty
    import subprocess

    need_toolchain("generic")
    leader, follower = pty.openpty()
    command = [sys.executable, "-m", "cannery", "autotune", str(model), "--target", "generic"]
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=follower, stdin=subprocess.DEVNULL,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "100"},
    ) as process:  # fmt: skip
        os.close(follower)
        shown = b""
        while True:
            try:
                piece = os.read(leader, 4096)
            except OSError:
                break
            if not piece:
                break
            shown += piece
        assert process.wait() == 0
    assert b"confirming whole networks" in shown
    assert b"tiny.generic.tuning.json" in shown
