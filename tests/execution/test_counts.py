"""Instructions counted exactly: by two ways that know nothing of each other, on every processor."""

from __future__ import annotations

import json
import platform
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from cannery.analysis.counting import Counting, Piece, by_instruction, counting
from cannery.analysis.disassembly import Function, Instruction, Machine, disassemble
from cannery.cli import invoke
from cannery.emit.files import output_files
from cannery.errors import ToolchainError
from cannery.execution import counts
from cannery.execution.counts import NetworkCount, count_network
from cannery.execution.samples import seeded_samples
from cannery.frontends.streaming import to_streaming
from cannery.ir.graph import Graph, GraphBuilder
from cannery.measure.elf import function_places
from cannery.ops.conv.op import Conv
from cannery.ops.matmul.op import MatMul
from cannery.ops.max_pool.op import MaxPool
from cannery.passes import run_passes
from cannery.resources import ball_example_dir
from cannery.target.compiler import Compiler
from cannery.target.runner import Origin, Runner
from cannery.target.toolchain import Toolchain
from emit.c_programs import network
from needs import missing, need_runner, need_toolchain
from nets.net_bench import make_net_source
from ops.cases import Net

K, N = 64, 48


def product() -> Graph:
    """One row of K times a matrix of K x N: no multiplication but K x N."""
    rng = np.random.default_rng(1)
    b = GraphBuilder("net")
    x = b.input("x", (1, K))
    b.output(
        b.node(MatMul(), [x, b.constant("w", rng.standard_normal((K, N), np.float32))], name="y")
    )
    return b.build()


def count(graph: Graph, toolchain: Toolchain, runner: Runner | None = None) -> NetworkCount:
    """Of one run; skips the test where nothing counts."""
    source = make_net_source(run_passes(graph), toolchain.target.isa, "net")
    files = output_files(source, "test")
    need_runner(toolchain, strict=True)
    (sample,) = seeded_samples(graph, 1)
    try:
        runner = runner or toolchain.emulator()
        return count_network(source, files, toolchain, runner, sample)
    except ToolchainError as error:
        if "takes no plugins" in str(error):
            missing(str(error))
        raise


@pytest.mark.parametrize(
    "target",
    [
        "ssse3",
        "avx2",
        "ssse3-32",
        "neon32",
        "neon64",
        "cortex-m7",
        "cortex-m55",
        "riscv64",
        "riscv64v256",
    ],
)
def test_a_product_has_as_many_multiplications_as_it_should(target: str) -> None:
    found = count(product(), need_toolchain(target))
    (step,) = found.steps
    assert step.mix.lanes == step.macs == K * N
    assert step.mix.instructions <= found.instructions < 3 * K * N
    assert 0 < found.rest < 300


def test_layers_with_strides_are_counted_as_often_as_they_run() -> None:
    """Four calls make an output: the first layer runs in each, the last in one of them."""
    b = Net()
    x = b.input("x", (1, 16, 8))
    for stride in (1, 2, 2):
        x = b.node(Conv((stride,), ((2, 0),), (1,)), [x, b.weight(3, 8, 8)])
    found = count(run_passes(to_streaming(b.graph(x))), need_toolchain("avx2"))
    layers = [step for step in found.steps if step.macs]
    assert [step.macs for step in layers] == [n * 3 * 8 * 8 for n in (4, 2, 1)]
    assert [step.mix.lanes for step in layers] == [step.macs for step in layers]


def test_equal_steps_are_counted_each() -> None:
    """Compilers make one function of equal ones where they may."""
    b = GraphBuilder("net")
    pool = MaxPool((2, 2), (2, 2), ((0, 0), (0, 0)), (1, 1))
    for name in ("left", "right"):
        x = b.input(name, (1, 8, 8, 4))
        b.output(b.node(pool, [x], name=f"{name}_pool"))
    one, other = (s.mix for s in count(b.build(), need_toolchain("ssse3")).steps)
    assert one == other
    assert one.instructions > 50


def test_single_steps_and_the_emulator_agree() -> None:
    toolchain = need_toolchain("avx2")
    here = Runner((), Origin.HOST)
    if need_runner(toolchain).command:
        pytest.skip("another processor than x86 with AVX2")
    for graph in (network(), product(), causal()):
        emulated, stepped = count(graph, toolchain), count(graph, toolchain, here)
        assert emulated.steps == stepped.steps
        assert emulated.instructions > 0
        # Outside the steps, there are the signals too, but no reset of the state.
        assert abs(emulated.rest - stepped.rest) < 5


def causal() -> Graph:
    """A step of a network whose past takes 32 KB, which a reset clears."""
    b = Net()
    x = b.input("x", (1, 1024, 8))
    x = b.node(Conv((1,), ((512, 0),), (512,)), [x, b.weight(2, 8, 8)])
    return run_passes(to_streaming(b.graph(x)))


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    need_runner(need_toolchain("ssse3"), strict=True)
    words = ["count", str(ball_example_dir() / "ball.h5"), "--isa", "ssse3", "--json"]
    assert invoke(words) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["instructions"] == told["outside_steps"] + told["mix"]["instructions"]
    assert sum(s["mix"]["instructions"] for s in told["steps"]) == told["mix"]["instructions"]
    assert told["macs"] == sum(s["macs"] for s in told["steps"])
    assert invoke(words[:-1]) == 0
    assert f"{told['instructions']:,}" in capsys.readouterr().out


def test_devices_and_old_emulators_are_refused(tmp_path: Path) -> None:
    for name, said, message in [
        ("on-robot", "", "counted under QEMU"),
        ("qemu-arm", "qemu-arm version 7.2.0", "takes no plugins"),
        ("qemu-aarch64", "usage: -plugin", "takes no plugins"),
    ]:
        script = tmp_path / name
        script.write_text(f"#!/bin/sh\necho '{said}'\n")
        script.chmod(0o755)
        runner = Runner((str(script),), Origin.EMULATED)
        with pytest.raises(ToolchainError, match=message), counting(runner):
            pass


def test_a_program_that_fails_gives_no_counts(tmp_path: Path) -> None:
    if platform.machine() != "x86_64":
        pytest.skip("single steps are for x86")
    need_toolchain("native")
    script = tmp_path / "program"
    script.write_text("#!/bin/sh\nexit 0\n")
    script.chmod(0o755)
    with (
        counting(Runner((), Origin.HOST)) as way,
        pytest.raises(ToolchainError, match=r"failed|no counts"),
    ):
        way.pieces(script)
    for text in ("", "10 2 3"):
        words = ("sh", "-c", f"echo '{text}' > {tmp_path}/counts")
        way = Counting(Runner(words, Origin.HOST), tmp_path / "counts")
        with pytest.raises(ToolchainError, match="no counts were written"):
            way.pieces(script)


def test_pieces_overlap_and_add_up() -> None:
    code = tuple(Instruction(at, "nop") for at in (0x10, 0x12, 0x16, 0x18))
    pieces = Counter({Piece(0x10, 4): 2, Piece(0x12, 2): 5, Piece(0x90, 3): 7})
    assert by_instruction(pieces, [Function("f", code)]) == {0x10: 2, 0x12: 7, 0x16: 7, 0x18: 2}


def test_all_code_of_a_network_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """From the first byte of its first function to the last byte of the last, whichever that is."""
    seen = []

    def noting(path: Path, compiler: Compiler, addresses: range) -> tuple[Machine, list[Function]]:
        machine, functions = disassemble(path, compiler, addresses)
        seen.append((function_places(path), addresses, functions))
        return machine, functions

    monkeypatch.setattr(counts, "disassemble", noting)
    count(product(), need_toolchain("generic"))
    ((places, addresses, functions),) = seen
    own = {name: place for name, place in places.items() if name.startswith("net_") and place.size}
    assert len(own) > 2
    assert addresses.start == min(place.address for place in own.values())
    assert addresses.stop == max(place.address + place.size for place in own.values())
    assert {*own} <= {function.name for function in functions}


def test_cycles_of_steps_by_the_model_of_a_processor(capsys: pytest.CaptureFixture[str]) -> None:
    need_runner(need_toolchain("aarch64-a53"), strict=True)
    arguments = ["count", str(ball_example_dir() / "ball.h5"), "--target", "aarch64-a53"]
    shown: dict[str, dict[str, object]] = {}
    for cpu in ("cortex-a53", "cortex-a55"):
        assert invoke([*arguments, "--mca", cpu, "--json"]) == 0
        shown[cpu] = json.loads(capsys.readouterr().out)
        assert shown[cpu]["estimated_for"] == cpu
        steps = shown[cpu]["steps"]
        assert isinstance(steps, list)
        assert shown[cpu]["estimated_cycles"] == sum(s["estimated_cycles"] for s in steps)
        for step in steps:
            # Two at once at most; nothing waits for ever.
            assert 0.5 <= step["estimated_cycles"] / step["mix"]["instructions"] < 5
    # The same instructions, of which the newer processor issues more at once.
    assert shown["cortex-a53"]["instructions"] == shown["cortex-a55"]["instructions"]
    first, second = (shown[cpu]["estimated_cycles"] for cpu in ("cortex-a53", "cortex-a55"))
    assert isinstance(first, float)
    assert isinstance(second, float)
    assert second < first
    assert invoke([*arguments, "--mca", "cortex-a53"]) == 0
    text = capsys.readouterr().out
    assert "est. cycles" in text
    assert "cycles are estimated by Cannery's model for cortex-a53" in text
