"""run, verify and bench: a small network built, run and judged here and in emulation."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import click.testing
import numpy as np
import pytest

from cannery.api import verify
from cannery.choose.record import FORMAT, Record, record_path, write_record
from cannery.cli import autotune, cli, invoke
from cannery.cli import run as run_command
from cannery.errors import OptionError
from cannery.execution.program import network_program
from cannery.execution.samples import (
    errors_by_output,
    read_samples,
    reference_outputs,
    relative_error,
)
from cannery.execution.trace import TRACED_RUNS
from cannery.frontends import load_graph
from cannery.ir.tensor import DType, TensorType
from cannery.measure.measure import Context
from cannery.options import make_options
from cannery.pipeline import compile_model
from cannery.resources import ball_example_dir
from cannery.target.runner import Origin
from cannery.tuning.outcome import Outcome
from emit.c_programs import net_files
from emit.mutants import mutants
from needs import need_program, need_toolchain
from tiny_models import write_tiny_classifier


@pytest.fixture
def model(tmp_path: Path) -> Path:
    need_program("ninja")
    need_toolchain("native")
    return write_tiny_classifier(tmp_path / "ball.h5")


def run(*arguments: str | Path) -> Any:
    """The JSON that a command prints; it must succeed."""
    words = [str(argument) for argument in arguments]
    done = click.testing.CliRunner().invoke(cli, [*words, "--json"], catch_exceptions=False)
    return json.loads(done.stdout)


def test_run_gives_what_the_reference_gives(model: Path, tmp_path: Path) -> None:
    images = np.random.default_rng(5).normal(size=(3, 16, 16, 1)).astype(np.float32)
    np.savez(tmp_path / "in.npz", image=images)
    assert run("run", model, "--inputs", tmp_path / "in.npz", "-o", tmp_path / "out.npz") == {
        "outputs": {"scores": [3, 2]}, "samples": 3, "target": "native",
    }  # fmt: skip
    found = np.load(tmp_path / "out.npz")
    assert found.files == ["scores"]
    samples = [{"image": images[k : k + 1]} for k in range(3)]
    expected = reference_outputs(load_graph(model), samples)
    assert errors_by_output([{"scores": found["scores"]}], expected)["scores"] < 1e-6


def test_verify_passes_and_fails(model: Path, tmp_path: Path) -> None:
    good = run("verify", model, "--layers")
    assert good["passed"]
    assert 0 <= good["errors"]["scores"] < 1e-6
    assert [step["fault"] for step in good["layers"]] == [""]
    np.savez(tmp_path / "in.npz", image=np.zeros((1, 16, 16, 1), np.float32))
    np.savez(tmp_path / "out.npz", scores=np.array([[0.25, 0.5]], np.float32))
    words: list[str | Path] = [
        "verify",
        model,
        "--inputs",
        tmp_path / "in.npz",
        "--against",
        tmp_path / "out.npz",
    ]
    assert not run(*words)["passed"]
    assert invoke([str(word) for word in words]) == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["verify", "--against", "out.npz"], "no inputs that belong to these outputs"),
        (
            ["verify", "--inputs", "in.npz", "--against", "out.npz"],
            "out.npz: it has 2 samples, the inputs have 3",
        ),
        (["bench", "--seconds", "nan"], "not a finite number"),
        (["compile", "-o", ""], "the path is empty"),
        (["compile", "-o", "out", "--input-dtype", "image=uint8", "--scale", "1e300"], "float32"),
    ],
)
def test_bad_words(
    model: Path, tmp_path: Path, words: list[str], message: str,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    np.savez("in.npz", image=np.zeros((3, 16, 16, 1), np.float32))
    np.savez("out.npz", scores=np.zeros((2, 2), np.float32))
    before = sorted(tmp_path.iterdir())
    assert invoke([words[0], str(model), *words[1:]]) == 2
    assert message in capsys.readouterr().err
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("target", ["atom32", "cortex-m7"])
def test_verify_other_targets(model: Path, target: str) -> None:
    need_program(need_toolchain(target).target.emulator[0])
    assert run("verify", model, "--target", target)["passed"]


@pytest.mark.parametrize("abi", ["hard", "softfp"])
def test_verify_with_either_convention_for_floats(model: Path, abi: str) -> None:
    """Without an operating system: newlib's `int32_t` is long."""
    gcc = need_toolchain("cortex-m7").compiler.command[0]
    need_program(need_toolchain("armv7-a9").target.emulator[0])
    cc = f"{gcc} -mcpu=cortex-a9 -mfpu=neon -mfloat-abi={abi}"
    given = ("--target", "armv7-a9", "--cc", cc, "--ldflags=-specs=rdimon.specs")
    assert run("verify", model, *given)["passed"]


def test_verify_by_a_script_around_an_emulator(model: Path, tmp_path: Path) -> None:
    need_toolchain("aarch64-a53")
    runner = tmp_path / "on-robot"
    runner.write_text(f'#!/bin/sh\nexec {need_program("qemu-aarch64")} "$@"\n')
    runner.chmod(0o755)
    found = run("verify", model, "--target", "aarch64-a53", "--runner", str(runner))
    assert (found["passed"], found["origin"]) == (True, "emulated")


def test_bench_of_an_emulator_tells_no_speed(model: Path) -> None:
    need_program(need_toolchain("aarch64-a53").target.emulator[0])
    found = run("bench", model, "--seconds", "0.05", "--target", "aarch64-a53")
    (step,) = found["steps"]
    assert found["origin"] == "emulated" and found["latency_us"]["p50"] > 0
    assert found["device"]["emulated"]
    assert found["gflops"] is found["percent_of_peak"] is step["percent_of_peak"] is None


def test_bench_reports_times_and_steps(model: Path) -> None:
    found = run("bench", model, "--seconds", "0.05")
    latency = found["latency_us"]
    assert 0 < latency["p25"] <= latency["p50"] <= latency["p99"]
    assert 0 < latency["low"] <= latency["p50"] <= latency["high"]
    assert found["macs"] == 16 * 16 * 2
    assert found["gflops"] == pytest.approx(2 * found["macs"] / latency["p50"] / 1000)
    assert (found["origin"], found["device"]["emulated"]) == ("device", "")
    assert found["device"]["cpu"] and found["device"]["mhz"] > 0
    assert 0 < found["percent_of_peak"] < 200
    (step,) = found["steps"]
    assert 0 < step["low_us"] <= step["us"] <= step["high_us"]


def test_bench_writes_a_trace(model: Path, tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    run("bench", model, "--seconds", "0.05", "--trace", path)
    trace = json.loads(path.read_text())
    names = [event["name"] for event in trace["traceEvents"] if event["ph"] == "X"]
    assert len(names) == 2 * TRACED_RUNS and names[:4:2] == ["run 0", "run 1"]
    assert invoke(["bench", str(model), "--trace", str(tmp_path / "no" / "trace.json")]) == 2


def test_bench_at_a_fixed_rate(model: Path) -> None:
    words: list[str | Path] = [
        "bench",
        model,
        "--rate",
        "200",
        "--seconds",
        "0.1",
        "--deadline",
        "100000",
    ]
    found = run(*words)["rate"]
    assert (found["hz"], found["deadline_us"], found["calls"]) == (200, 100000, 20)
    assert 0 <= found["misses"] <= 20
    for times in (found["latency_us"], found["run_us"]):
        assert 0 < times["p50"] <= times["p99"] <= times["p999"] <= times["max"]
    assert found["run_us"]["max"] <= found["latency_us"]["max"]
    text = click.testing.CliRunner().invoke(cli, [str(word) for word in words]).stdout
    assert "200 times per second" in text and "20 calls" in text
    assert "misses of the deadline, 100000 us" in text


def test_bench_with_cold_caches(model: Path) -> None:
    words = ("--seconds", "0.05", "--context", "cold", "--rate", "50")
    found = run("bench", model, *words)
    assert found["context"] == "cold"
    assert found["rate"]["calls"] >= 1
    assert found["steps"][0]["us"] > 0
    assert run("bench", model, "--seconds", "0.05")["context"] == "warm"


def test_caches_are_emptied_where_it_is_asked_for(model: Path) -> None:
    compiled = compile_model(make_options(model, {}))
    toolchain = need_toolchain("native")
    (runner, *_) = toolchain.runners()
    samples = [{"image": np.ones((1, 16, 16, 1))}]
    with network_program(compiled.source, compiled.files, toolchain, samples) as program:
        for context, cold in ((Context.WARM, 0), (Context.COLD, 1)):
            words = ["--time", "0.02", *context.arguments]
            _, line = runner.run(program.executable, words)
            assert line["cold"] == cold
            assert 0 < line["p25"] <= line["p50"] <= line["p99"]


@pytest.mark.filterwarnings("ignore::cannery.errors.CanneryWarning")
def test_bench_warns_of_a_record_for_other_caches(model: Path) -> None:
    target = need_toolchain("native").target
    path = record_path(model, target.name, None)
    isa = target.isa
    write_record(
        path,
        Record(FORMAT, "0.1.0", "ball", "native", isa.name, isa.bits, "", {}, [], None, "cold"),
    )
    words = ["bench", str(model), "--seconds", "0.02"]
    warned = click.testing.CliRunner().invoke(cli, words).stderr
    assert f"{path} was made with cold caches" in warned
    silent = click.testing.CliRunner().invoke(cli, [*words, "--context", "cold"]).stderr
    assert "made with cold caches" not in silent


def test_bench_on_two_threads(model: Path) -> None:
    found = run("bench", model, "--seconds", "0.05", "--threads", "2", "--openmp")["threads"]
    assert (found["threads"], found["inputs"]) == (2, 512)
    times = ("single_us", "threads_us", "many_single_us", "many_threads_us")
    assert all(found[name] > 0 for name in times)
    words = ["bench", str(model), "--seconds", "0.02", "--threads", "2"]
    text = click.testing.CliRunner().invoke(cli, words).stdout
    assert "one run, 0 of 1 steps cut" in text
    assert "512 runs at once" in text


@pytest.mark.parametrize("target", ["native", "cortex-m7"])
def test_verify_computes_in_pieces(model: Path, target: str) -> None:
    if target != "native":
        need_program(need_toolchain(target).target.emulator[0])
    assert run("verify", model, "--parallel", "--target", target)["passed"]


def test_what_bench_refuses(model: Path) -> None:
    with pytest.raises(OptionError, match="--threads: programs for cortex-m7 have no threads"):
        run("bench", model, "--threads", "2", "--target", "cortex-m7")
    need_program(need_toolchain("aarch64-a53").target.emulator[0])
    with pytest.raises(OptionError, match="--deadline: needs a rate"):
        run("bench", model, "--deadline", "5")
    with pytest.raises(OptionError, match="--rate: 0 is not a rate"):
        run("bench", model, "--rate", "0")
    for command in ("bench", "autotune"):
        with pytest.raises(OptionError, match="--context cold: an emulator has no caches"):
            run(command, model, "--context", "cold", "--target", "aarch64-a53")
    with pytest.raises(OptionError, match="whose times mean nothing"):
        run("bench", model, "--rate", "30", "--target", "aarch64-a53")


def test_samples_are_split_along_the_first_axis(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", x=np.arange(12, dtype=np.float32).reshape(6, 2))
    samples = read_samples(tmp_path / "x.npz", {"x": TensorType((2, 2))})
    assert [sample["x"].tolist() for sample in samples][1] == [[4, 5], [6, 7]]


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({}, "no array 'x'"),
        ({"x": np.zeros((1, 2), np.float32), "y": np.zeros(1)}, "unknown array 'y'"),
        ({"x": np.zeros((1, 2))}, "element type float64, float32 is needed"),
        ({"x": np.zeros((1, 3), np.float32)}, r"shape \(1, 3\), \(1, 2\) is needed"),
        ({"x": np.zeros((0, 2), np.float32)}, "is needed"),
    ],
)
def test_samples_that_do_not_fit(tmp_path: Path, arrays: dict[str, Any], message: str) -> None:
    np.savez(tmp_path / "x.npz", **arrays)
    with pytest.raises(OptionError, match=message):
        read_samples(tmp_path / "x.npz", {"x": TensorType((1, 2), DType.FLOAT32)})


@pytest.mark.parametrize("arguments", [("run", "-o", "out.npz"), ("verify",)])
def test_arrays_are_looked_at_before_anything_is_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    command, *rest = arguments
    np.savez(tmp_path / "in.npz", image=np.zeros((1, 3, 3, 1), np.float32))
    monkeypatch.chdir(tmp_path)
    for module in (run_command, verify):
        monkeypatch.setattr(module, "compile_graph", lambda *_: pytest.fail("compiled"))
    words = [command, str(ball_example_dir() / "ball.h5"), "--isa", "generic", *rest]
    result = click.testing.CliRunner().invoke(cli, [*words, "--inputs", "in.npz"])
    assert isinstance(result.exception, OptionError)
    assert "shape (1, 3, 3, 1)" in str(result.exception)


def test_a_plain_array_a_folder_and_nothing_are_no_samples(tmp_path: Path) -> None:
    types = {"x": TensorType((1, 2), DType.FLOAT32)}
    np.save(tmp_path / "x.npy", np.zeros((1, 2), np.float32))
    for name, what in [
        ("x.npy", "one array without a name"), (".", "a folder"), ("no.npz", "No such file"),
    ]:  # fmt: skip
        with pytest.raises(OptionError, match=rf"{what}.*\(name a file made by numpy.savez"):
            read_samples(tmp_path / name, types)


@pytest.mark.parametrize("data", [b"", b"PK\x03\x04 not really", b"junk"])
def test_damaged_sample_files(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "x.npz").write_bytes(data)
    with pytest.raises(OptionError, match=r"x\.npz: not a valid"):
        read_samples(tmp_path / "x.npz", {"x": TensorType((1, 2))})


def test_the_error_of_values_that_are_not_finite() -> None:
    expected = np.array([1.0, np.inf, np.nan])
    assert relative_error(np.array([1.5, np.inf, np.nan]), expected) == 0.5
    assert relative_error(np.array([1.5, 2.0, np.nan]), expected) == np.inf
    assert relative_error(np.array([np.nan, np.inf, np.nan]), expected) == np.inf


def test_verify_finds_wrong_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The example's classifier with weights that are 5 % wrong in any layer."""
    need_program("ninja")
    need_toolchain("native")
    good = run("verify", ball_example_dir() / "ball.h5")
    assert good["passed"]
    assert good["samples"] == 16
    right = compile_model(make_options(ball_example_dir() / "ball.h5", {}))
    errors = {}
    for what, graph in mutants(right.source.graph):
        if what.endswith("more"):
            wrong = replace(right, files=net_files(graph, "ball"))
            monkeypatch.setattr(verify, "compile_graph", lambda *_, wrong=wrong: wrong)
            verdict = run("verify", ball_example_dir() / "ball.h5")
            errors[what] = verdict["errors"]["scores"]
            assert not verdict["passed"], errors
    assert len(errors) == 3


@pytest.mark.parametrize(
    ("errors", "code"),
    [([0.0, 0.0], 0), ([1.0, 0.0], 1), ([0.0, 1.0], 1), ([1.0, 1.0], 1), ([float("nan"), 0.0], 1)],
)
def test_verify_fails_if_any_output_is_wrong(
    errors: list[float], code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    need_toolchain("generic")
    model = write_tiny_classifier(tmp_path / "tiny.h5")
    found = {f"y{k}": error for k, error in enumerate(errors)}
    monkeypatch.setattr(verify, "_errors", lambda *given: found)
    assert invoke(["verify", str(model), "--target", "generic"]) == code


@pytest.mark.parametrize("json_", [[], ["--json"]])
@pytest.mark.parametrize(
    ("faults", "code"), [([""], 0), (["a fault"], 1), (["", "a fault"], 1), (["a fault", ""], 1)]
)
def test_verify_fails_if_any_step_is_wrong(
    faults: list[str], code: int, json_: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    need_toolchain("generic")
    model = write_tiny_classifier(tmp_path / "tiny.h5")
    steps = [SimpleNamespace(name="a", schedule="b", error=0.0, fault=fault) for fault in faults]
    monkeypatch.setattr(verify, "check_layers", lambda *given: steps)
    assert invoke(["verify", str(model), "--target", "generic", "--layers", *json_]) == code


@pytest.mark.parametrize(
    ("error", "code"), [(None, 0), (0.0, 0), (1e-4, 0), (1.1e-4, 1), (float("inf"), 1)]
)
def test_autotune_fails_if_the_network_is_wrong(
    error: float | None, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = write_tiny_classifier(tmp_path / "tiny.h5")
    outcome = Outcome(
        need_toolchain("generic"), Origin.HOST, 0.0, (), None, None, error, 16, 1.0, 1,
        tmp_path / "tiny.tuning.json", changed=True, max_error=1e-4,
    )  # fmt: skip
    monkeypatch.setattr("cannery.tuning.tuner.tune", lambda *given: outcome)
    monkeypatch.setattr(autotune, "print_report", lambda *given, **how: None)
    assert invoke(["autotune", str(model), "--target", "generic"]) == code


def test_who_stops_a_tuning_learns_how_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    need_toolchain("generic")
    model = write_tiny_classifier(tmp_path / "tiny.h5")

    def stop(*given: object) -> NoReturn:
        raise KeyboardInterrupt

    monkeypatch.setattr("cannery.tuning.tuner.tune", stop)
    assert invoke(["autotune", str(model), "--target", "generic"]) == 130
    told = capsys.readouterr().err
    assert "the same command continues" in told and "interrupted" in told
