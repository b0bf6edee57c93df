"""Contests on emulated cores: what is counted, of whom, and what the table says."""

from __future__ import annotations

import shutil
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import arm
from cannery.analysis.counting import Piece, counting
from cannery.errors import ToolchainError
from cannery.measure.trial import random_inputs
from cannery.options import make_options
from cannery.target.runner import Runner
from cannery.target.toolchain import Toolchain
from execution.test_budgets import counted
from needs import missing, need_runner, need_toolchain
from networks import write_network
from rivals import arm64
from rivals.arm64 import ArmPython
from rivals.convert import Prepared, prepare
from rivals.cores import ATOMS, CORES, HostPython
from rivals.counted import count_calls, judge_pieces
from rivals.emulated import (
    ALL_RIVALS,
    PRECISIONS,
    X86_RIVALS,
    CountedResult,
    as_counted_svg,
    as_counted_table,
)
from rivals.judge import Judge
from rivals.ours import build_ours
from rivals.packages import HALF_RIVALS, RIVALS
from rivals.quantizers import quantized
from rivals.runtimes import Mnn, MnnHalf, Ncnn, NcnnHalf

pytest.importorskip("onnx")

TARGET = CORES["cortex-a53"].target


def needed() -> tuple[Toolchain, Runner]:
    """The compiler and emulator of a Cortex-A53."""
    toolchain = need_toolchain(TARGET)
    return toolchain, need_runner(toolchain, strict=True)


def test_calls_are_counted_as_count_does(tmp_path: Path) -> None:
    toolchain, runner = needed()
    try:
        expected = counted("ball", TARGET, tmp_path, "cortex-a53")
    except ToolchainError as error:
        missing(str(error))
    options = make_options(write_network("ball", tmp_path), {"target": TARGET, "name": "network"})
    ours = build_ours(options, tmp_path / "ours", 1)
    words = ours.command(random_inputs(ours.source.graph), tmp_path / "ours")
    with counting(runner, code=True) as counter:
        pieces, outputs = count_calls([*counter.runner.command, *words], counter, 5, {})
    assert all(piece.code and not piece.address for piece in pieces)
    assert outputs == ()  # Cannery's have the graph's names
    found = judge_pieces(pieces, 5, "cortex-a53", toolchain.compiler, tmp_path)
    # Calls of steps are inlined here, and the loop around all is counted.
    assert found.instructions == pytest.approx(expected.instructions, rel=0.03)
    assert found.mix.multiplies / 5 == pytest.approx(expected.mix.multiplies, rel=0.03)
    assert found.cycles == pytest.approx(expected.cycles, rel=0.1)


def test_calls_are_counted_on_x86(tmp_path: Path) -> None:
    """Instructions of any length, in 32 bits and by an emulator that is given."""
    atom = ATOMS["bonnell"]
    toolchain = need_toolchain(atom.target)
    if shutil.which(atom.runner.split()[0]) is None:
        missing("qemu-user: not installed")
    raw = {"target": atom.target, "name": "network", "runner": (atom.runner,)}
    ours = build_ours(make_options(write_network("ball", tmp_path), raw), tmp_path / "ours", 1)
    (runner,) = ours.toolchain.runners()
    words = ours.command(random_inputs(ours.source.graph), tmp_path / "ours")
    found = []
    for calls in (2, 5):
        with counting(runner, code=True) as counter:
            pieces, _ = count_calls([*counter.runner.command, *words], counter, calls, {})
        found.append(judge_pieces(pieces, calls, atom.model, toolchain.compiler, tmp_path))
    few, many = found
    assert few.instructions == pytest.approx(many.instructions, rel=0.02)
    vectors = ours.source.macs / 4
    assert vectors / 2 < few.mix.multiplies / 2 < 2 * vectors  # Winograd needs fewer
    assert few.cycles > few.instructions / 2  # it begins two in a cycle at most


def test_elements_of_string_instructions_are_left_out(tmp_path: Path) -> None:
    """Of rep stosb, which goes through 1000 bytes, nothing; then three that run twice."""
    pieces = {
        Piece(0, 1, ("f3aa",)): 1000,
        Piece(0, 1, ("f348a5",)): 500,
        Piece(0, 3, ("0f59c1", "0f58d0", "c3")): 2,
    }
    compiler = need_toolchain("silvermont").compiler
    found = judge_pieces(pieces, 1, "silvermont", compiler, tmp_path)
    assert found.instructions == 6
    assert 2 <= found.cycles < 30


def test_rivals_on_x86_are_those_of_this_python() -> None:
    python = HostPython()
    emulator, *options, program = python.command(ATOMS["silvermont"])
    assert (emulator, options, program) == ("qemu-x86_64", ["-cpu", "Denverton"], sys.executable)
    assert python.version("numpy") == np.__version__
    assert not python.version("no-such-package")
    assert {"litert", "onnxruntime", "openvino"} <= {*X86_RIVALS} <= {*ALL_RIVALS}


def test_a_contestant_that_fails_says_why(tmp_path: Path) -> None:
    _, runner = needed()
    with counting(runner, code=True) as counter, pytest.raises(ToolchainError, match="no_such"):
        count_calls([*counter.runner.command, str(tmp_path / "no_such")], counter, 1, {})


OURS = CountedResult("ball", "cortex-a53", "Cannery", "1", 16000, 1000.0, 0.5, 2000.0)
RIVAL = replace(
    OURS, name="LiteRT", instructions=5000.0, cycles=6000.0, call=1000.0, call_cycles=500.0
)
OUT = replace(OURS, name="ncnn", why="has no wheel")


def test_the_table_compares_without_the_calls_and_says_who_is_out() -> None:
    table = as_counted_table([OURS, RIVAL, OUT])
    rows = [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("|")]
    assert [row[2] for row in rows[2:]] == ["Cannery 1", "LiteRT 1"]
    assert rows[3][-2:] == ["4.00", "2.75"]
    assert "ncnn: has no wheel" in table
    assert "no board was measured" in table
    heavy = replace(RIVAL, call_cycles=7000.0)  # an empty network may take another way
    assert heavy.net == (5000.0, 6000.0)
    picture = as_counted_svg([OURS, RIVAL, OUT])
    assert "2.75 x" in picture
    assert "ncnn" not in picture


def test_two_networks_of_one_name_stay_apart() -> None:
    larger = [replace(each, instructions=10 * each.instructions) for each in (OURS, RIVAL)]
    table = as_counted_table([OURS, RIVAL, *larger])
    counts = [line.split(" | ")[3] for line in table.splitlines() if line.startswith("| cortex")]
    assert counts == ["1,000", "5,000", "10,000", "50,000"]


def test_rivals_in_half_precision_are_others_with_another_setting() -> None:
    for name, rival in HALF_RIVALS.items():
        other = ALL_RIVALS[name.removesuffix("-half")]
        assert isinstance(rival.load, type) and isinstance(other.load, type)
        assert issubclass(rival.load, other.load)
        assert (rival.package, rival.format) == (other.package, other.format)
    assert (NcnnHalf.half, Ncnn.half) == (True, False)
    assert (MnnHalf.precision, Mnn.precision) == ("low", "high")
    assert PRECISIONS["float32"] < PRECISIONS["float16"] < 0.1


@pytest.mark.parametrize("words", [["--half", "--rival", "ncnn"], ["--rival", "mnn-half"]])
def test_a_rival_of_another_precision_is_refused(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["arm.py", *words])
    with pytest.raises(SystemExit):
        arm.main()
    said = capsys.readouterr().err
    assert words[-1] in said and "there are" in said


def test_runtimes_are_told_which_core_it_is(tmp_path: Path) -> None:
    arm = ArmPython(tmp_path, tmp_path / "packages")
    (tmp_path / "packages" / "ai_edge_litert-2.3.0.dist-info").mkdir(parents=True)
    assert arm.version("ai-edge-litert") == "2.3.0"
    assert not arm.version("ai")
    command = arm.command(CORES["cortex-a72"])
    assert command[:5] == ["qemu-aarch64", "-L", str(tmp_path), "-cpu", "cortex-a72"]
    told = (tmp_path / "proc" / "cpuinfo").read_text()
    assert "CPU part\t: 0xd08\n" in told
    assert "asimddp" not in told
    arm.command(CORES["cortex-a76"])
    assert "asimddp" in (tmp_path / "proc" / "cpuinfo").read_text()


@pytest.mark.parametrize("rival", ["onnxruntime", "litert"])
def test_rivals_are_quantised_from_samples(rival: str, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime" if rival == "onnxruntime" else "ai_edge_quantizer")
    pytest.importorskip("sympy")  # ONNX Runtime infers shapes by it
    pytest.importorskip("ai_edge_litert")
    judge = Judge(write_network("ball", tmp_path))
    about = RIVALS[rival]
    made = prepare(judge.graph, tmp_path, about.format, about.orders[0], tmp_path)
    found = quantized(rival, made, judge.samples_of(made), tmp_path)
    runtime = about.load(found.file, 1)
    runtime.set(judge.inputs_of(found))
    runtime.call()
    (output,) = runtime.outputs().values()
    (expected,) = judge.expected.values()
    error = np.abs(output.reshape(-1) - expected.reshape(-1)).max()
    assert 1e-6 < error < 0.1  # it is quantised, and it works
    assert found.file.stat().st_size != made.file.stat().st_size


def test_who_has_no_int8_says_why(tmp_path: Path) -> None:
    made = Prepared(tmp_path / "network.param", ("x",), ("y",), "nchw")
    with pytest.raises(ToolchainError, match=r"ncnn: .*ncnn2int8"):
        quantized("ncnn", made, [], tmp_path)
    with pytest.raises(ToolchainError, match=r"onnxruntime: cannot be quantised"):
        quantized("onnxruntime", made, [], tmp_path)


def test_what_cannot_be_fetched_is_one_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolchainError, match=r"apt-get: cannot start.*Debian"):
        arm64.unpack(tmp_path / "arm", [])
