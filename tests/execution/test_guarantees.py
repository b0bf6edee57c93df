"""The sheet of guarantees: compared with what emulated microcontrollers do."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from cannery.cli import invoke
from cannery.errors import ToolchainError
from cannery.execution.guarantees import Guarantees, guarantees
from cannery.execution.misra import DEVIATIONS, misra_findings
from cannery.execution.program import NetworkProgram
from cannery.options import make_options
from cannery.pipeline import compile_model
from cannery.resources import ball_example_dir
from needs import need_program, need_runner, need_toolchain

BALL = ball_example_dir() / "ball.h5"
AMPLIFIER = Path(__file__).parents[1] / "frontends" / "nam" / "wavenet.nam"
BARE = ("cortex-m0plus", "cortex-m4", "cortex-m55")


def sheet(model: Path, target: str, change: Any = None, **raw: Any) -> Guarantees:
    """The guarantees of a network, whose main file `change` may rewrite."""
    toolchain = need_toolchain(target)
    runner = need_runner(toolchain, strict=True)
    options = make_options(model, {"target": target, **raw})
    made = compile_model(options)
    files = dict(made.files)
    if change:
        main = f"{options.name}.c"
        files[main] = change(files[main][:].decode()).encode()
    return guarantees(made.source, files, toolchain, runner, 2)


@pytest.mark.parametrize("target", [*BARE, "riscv32imc", "aarch64-a53", "riscv64"])
def test_the_stack_is_what_a_run_writes(target: str) -> None:
    """To the byte, except for padding that nothing can write."""
    for model, raw in ((BALL, {}), (AMPLIFIER, {"streaming": True})):
        found = sheet(model, target, **raw)
        written = [bound for bound in found.stack if bound.painted is not None]
        assert len(written) == (4 if raw else 2)
        for bound in written:
            assert bound.painted in (bound.bytes, bound.bytes - bound.padding), bound
        assert max(bound.bytes for bound in written) > 30
        assert found.broken == ()


def test_the_sheet_of_a_network_without_floating_point_unit() -> None:
    found = sheet(BALL, "cortex-m0plus")
    assert "__aeabi_fmul" in found.calls.arithmetic
    assert found.calls.library == found.calls.heap == found.calls.unexpected == ()
    assert found.calls.recursive == found.calls.indirect == found.calls.unknown == ()
    assert found.memory.variables == found.memory.state == 0
    run = next(bound for bound in found.stack if bound.function == "ball_run_in")
    assert run.path[-1].startswith("__aeabi")


def begin(text: str, body: str, before: str = "") -> str:
    """C whose `run_in` begins with `body`, after declarations `before`."""
    head = re.search(r"^CANNERY_ENTRY void \w+_run_in\(.*\n\{\n", text, re.M)
    assert head
    return text[: head.start()] + before + head[0] + body + text[head.end() :]


def test_what_should_not_be_called_shows() -> None:
    """Memory from a heap, recursion, calls through pointers, large frames."""
    before = """
        #include <stdlib.h>
        #include <stdio.h>
        static __attribute__((noinline)) int deep(int n) { return n > 0 ? 1 + deep(n - 1) / 2 : 0; }
        void (*volatile hook)(void);
        static int (*volatile deeper)(int) = deep;
    """
    body = """
        volatile char hole[3000]; hole[0] = 1;
        void *volatile p = malloc(8); free(p);
        if (hook) { hook(); }
        if (n_of(p) > 1) { putchar(10); }
    """
    before += "static int n_of(void *p) { return p ? deep(3) : deeper(2); }\n"
    found = sheet(BALL, "cortex-m4", lambda text: begin(text, body, before))
    calls = found.calls
    assert {"malloc", "free"} <= set(calls.heap)
    assert "putchar" in calls.unexpected and "memcpy" not in calls.unexpected
    assert "deep" in calls.recursive
    assert "ball_run_in" in calls.indirect
    assert next(b for b in found.stack if b.function == "ball_run_in").bytes > 3000
    assert found.memory.variables >= 8


def test_a_bound_that_does_not_hold_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    need_runner(need_toolchain("cortex-m4"), strict=True)
    monkeypatch.setattr(NetworkProgram, "stacks", lambda *_: {"run": 100_000, "run_many": 0})
    assert invoke(["guarantees", str(BALL), "--target", "cortex-m4"]) == 1
    said = capsys.readouterr()
    assert "ball_model.run wrote 100000 bytes of stack, the bound is" in said.err
    assert "the bound is wrong" in said.out and "took other paths" in said.out


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    need_runner(need_toolchain("cortex-m4"), strict=True)
    assert invoke(["guarantees", str(BALL), "--target", "cortex-m4"]) == 0
    said = capsys.readouterr()
    lines = [line.split() for line in said.out.splitlines()]
    bounds = {line[0]: line[1:4] for line in lines if line[:1] and line[0].startswith("ball_")}
    assert bounds["ball_model.run"][0] == bounds["ball_model.run"][1]
    assert ["heap", "none"] in lines and ["recursion", "none"] in lines
    assert "at most, by 100166, tables 3-1 and 7-1; plus" in said.out
    assert said.err == "" or "never tuned" in said.err
    assert invoke(["guarantees", str(BALL), "--target", "cortex-m4", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {b["function"]: str(b["bytes"]) for b in found["stack"]}["ball_run_in"] == (
        bounds["ball_run_in"][0]
    )
    assert found["broken"] == [] and found["calls"]["recursive"] == []
    sections = found["memory"]["sections"]
    assert found["flash"] == sections["code"] + sections["constants"] + sections["data"]


def test_memory_for_several_images(capsys: pytest.CaptureFixture[str]) -> None:
    """`run_many` may need more workspace, depth first as well."""
    need_runner(need_toolchain("cortex-m4"), strict=True)
    words = ["guarantees", str(BALL), "--target", "cortex-m4", "--max-ram", "2K", "--many", "4"]
    assert invoke(words) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    (single,) = (line[1] for line in lines if line[:1] == ["workspace"] and line[1] != "of")
    (many,) = (line[3] for line in lines if line[:3] == ["workspace", "of", "run_many"])
    assert 1000 < int(single.replace(",", "")) <= 2048 < int(many.replace(",", ""))


def test_x86_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    need_runner(need_toolchain("sse2"), strict=True)
    assert invoke(["guarantees", str(BALL), "--target", "sse2"]) == 2
    assert "the stack of x86 code is not followed (name a micro" in capsys.readouterr().err


def int8_ball(folder: Path) -> dict[str, Any]:
    """Options that quantise the ball classifier with random images."""
    rng = np.random.default_rng(0)
    samples = folder / "samples.npz"
    np.savez(samples, image=rng.random((8, 16, 16, 1), np.float32))
    return {"quantize": "int8", "calibration": str(samples)}


def test_one_call_counted_and_bounded(capsys: pytest.CaptureFixture[str]) -> None:
    """The bound is a few instructions above the counts; steps apart, as `count` builds them, take a
    few more calls.
    """
    flow = sheet(BALL, "cortex-m4").flow
    assert flow.bounded and flow.on_data == ()
    assert max(flow.instructions) <= flow.most <= 1.01 * max(flow.instructions)
    assert flow.cycles is not None and flow.cycles.source and flow.cycles.unknown == ()
    assert 2 * flow.most < flow.cycles.cycles < 4 * flow.most
    assert flow.cycles.per_wait_state > flow.most
    assert invoke(["count", str(BALL), "--target", "cortex-m4", "--json"]) == 0
    counted = json.loads(capsys.readouterr().out)["instructions"]
    assert max(flow.instructions) == pytest.approx(counted, rel=0.01)
    assert sum(loop.times for loop in flow.loops) > 300


def test_integers_choose_but_loops_do_not_depend_on_data(tmp_path: Path) -> None:
    """The larger of two numbers is a choice on data, both ways of which are in the bound."""
    flow = sheet(BALL, "cortex-m7", **int8_ball(tmp_path)).flow
    assert flow.deciding == ()
    assert {condition.function for condition in flow.on_data} == {"ball_L02_quantized_max_pool"}
    assert flow.bounded and set(flow.varying) <= {"ball_run_in"}
    assert max(flow.instructions) <= flow.most <= 1.03 * min(flow.instructions)
    assert flow.cycles is not None and flow.cycles.source == "", "no table of the M7 is published"


def test_arithmetic_in_software_is_not_bounded() -> None:
    flow = sheet(BALL, "cortex-m0plus").flow
    assert "__aeabi_fmul" in flow.unbounded and not flow.bounded
    assert flow.cycles is not None and flow.cycles.slow_multiplier > 100_000


def test_conditions_on_data_are_listed(tmp_path: Path) -> None:
    """The largest two of six: which are moved depends on them."""
    ends = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 6]),
        helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 2]),
    ]
    nodes = [helper.make_node("TopK", ["x", "k"], ["y", "places"], axis=1)]
    two = numpy_helper.from_array(np.array([2], np.int64), "k")
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], [two])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    onnx.save(model, tmp_path / "top.onnx")
    flow = sheet(tmp_path / "top.onnx", "cortex-m4").flow
    assert flow.deciding and not flow.bounded
    assert {condition.kind for condition in flow.on_data} & {"while", "if"}
    assert all(condition.function.startswith("top_L") for condition in flow.on_data)


def test_numbers_of_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    need_runner(need_toolchain("cortex-m4"), strict=True)
    words = ["guarantees", str(BALL), "--target", "cortex-m4", "--json"]
    assert invoke([*words, "--box", "0", "1"]) == 0
    numbers = json.loads(capsys.readouterr().out)["numbers"]
    assert numbers["box"] == [0, 1] and numbers["sums"] == []
    assert 0 < numbers["seen"][0] < 1e-6 < numbers["errors"][0]["error"] < 1
    assert invoke([*words, "--box", "1", "0"]) == 2
    assert "the second number must not be smaller" in capsys.readouterr().err
    found = sheet(BALL, "cortex-m4", **int8_ball(tmp_path)).numbers
    assert len(found.sums) == 3 and all(0 < each.largest < 2**31 for each in found.sums)
    assert found.differing == found.errors == ()


@pytest.mark.parametrize("target", ["cortex-m0plus", "cortex-m4"])
def test_every_deviation_from_misra_has_a_reason(
    target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    need_program("cppcheck")
    toolchain = need_toolchain(target)
    for raw in ({}, int8_ball(tmp_path)):
        made = compile_model(make_options(BALL, {"target": target, **raw}))
        found = misra_findings("ball", made.files, toolchain)
        assert found.unexplained == () and found.counts["18.4"] > 10
        assert not {"17.2", "21.3", "1.3"} & {*found.counts}, "recursion, heap, undefined behaviour"
    bad = b"\n#include <stdlib.h>\nvoid *ball_m(void)\n{\n goto end;\nend:\n return malloc(3);\n}\n"
    text = made.files["ball.c"][:] + bad
    worse = misra_findings("ball", {**made.files, "ball.c": text}, toolchain)
    assert {"21.3", "15.1"} <= {*worse.unexplained}
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ToolchainError, match="cppcheck not found"):
        misra_findings("ball", made.files, toolchain)


def test_the_reasons_are_in_the_documentation() -> None:
    page = (Path(__file__).parents[2] / "docs/how-to/guarantees.md").read_text()
    rows = dict(re.findall(r"^\| (\d+\.\d+) \| (.*) \|$", page, re.M))
    assert rows == dict(DEVIATIONS)


@pytest.mark.parametrize("integers", [False, True])
def test_loops_of_armv8_1_m_are_bounded(integers: bool, tmp_path: Path) -> None:
    """The Cortex-M55 counts loops in LR (LE); integers have products in assembly."""
    found = sheet(BALL, "cortex-m55", **(int8_ball(tmp_path) if integers else {}))
    assert max(found.flow.instructions) <= found.flow.most <= 1.05 * min(found.flow.instructions)
    assert found.broken == ()
    wrong = replace(found, flow=replace(found.flow, most=found.flow.most // 2))
    assert "instructions ran, the bound is" in wrong.broken[0]
