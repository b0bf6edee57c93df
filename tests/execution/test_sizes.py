"""Flash, RAM and stack of a network, compared with binutils and a run."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from cannery.atomic import temporary_folder
from cannery.cli import invoke
from cannery.errors import ToolchainError
from cannery.execution import sizes
from cannery.execution.sizes import network_size
from cannery.measure.elf import SectionSizes, section_sizes
from cannery.options import Options, make_options
from cannery.pipeline import compile_model
from cannery.resources import ball_example_dir
from cannery.target.toolchain import find_toolchain
from needs import need_program, need_toolchain

BALL = ball_example_dir() / "ball.h5"
AMPLIFIER = Path(__file__).parents[1] / "frontends" / "nam" / "wavenet.nam"

#: Runs a network on a stack all of which, from a little below the caller on, has a mark, and prints
#: how far down it lost that.
PROGRAM = """
#include <pthread.h>
#include <stdio.h>
#include "ball.h"

static _Alignas(4096) volatile unsigned char stack[1 << 20];
static _Alignas(64) unsigned char workspace[BALL_WORKSPACE_BYTES];
static float image[BALL_IMAGE_LEN], scores[BALL_SCORES_LEN];
static long used;

static void *run(void *argument)
{
    volatile unsigned char *const top = __builtin_frame_address(0);
    volatile unsigned char *p;
    for (p = stack; p < top - 512; ++p) *p = 0xa5;
    ball_run_in(workspace, image, scores);
    for (p = stack; *p == 0xa5; ++p) ;
    used = top - p;
    return argument;
}

int main(void)
{
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    pthread_attr_setstack(&attributes, (void *)stack, sizeof stack);
    if (pthread_create(&thread, &attributes, run, 0)) return 1;
    pthread_join(thread, 0);
    printf("%ld\\n", used);
    return 0;
}
"""


def compiled(target: str, **raw: Any) -> tuple[Any, Any, Options]:
    options = make_options(BALL, {"target": target, **raw})
    return compile_model(options), find_toolchain(options), options


@pytest.mark.parametrize(
    ("target", "program"), [("cortex-m7", "arm-none-eabi-size"), ("generic", "size")]
)
def test_sections_are_those_of_binutils(target: str, program: str, tmp_path: Path) -> None:
    """`size -A` lists all sections of what a build compiles, in other words."""
    need_program(program)
    need_toolchain(target)
    made, toolchain, _ = compiled(target)
    found = network_size(made.source, made.files, toolchain)
    sizes.library_sections(tmp_path, made.source, made.files, toolchain)
    objects = sorted(tmp_path.glob("*.o"))
    assert [path.name for path in objects] == ["ball.o", "ball_weights.o"]
    listed = subprocess.run(
        [program, "-A", *map(str, objects)], capture_output=True, text=True, check=True
    ).stdout
    kinds = {".text": 0, ".rodata": 0, ".data": 0, ".bss": 0}
    for line in listed.splitlines():
        name, *rest = line.split() or [""]
        for kind in kinds:
            if name.startswith(kind) and rest:
                kinds[kind] += int(rest[0])
    assert found.sections == SectionSizes(*kinds.values())
    assert found.flash == kinds[".text"] + kinds[".rodata"] + kinds[".data"]
    in_steps = sum(step.constants for step in found.steps)
    assert 0 < in_steps == found.constants - found.other_constants
    assert 0 <= found.other_constants < found.constants / 4
    assert 0 < sum(step.code or 0 for step in found.steps) < 2 * found.sections.code


def greedy(made: Any) -> dict[str, bytes]:
    """The files of a network whose third step has 5000 bytes more on its stack."""
    text = made.files["ball.c"].decode()
    at = text.index("{", text.index(f"static void {made.source.calls[2].symbol}(")) + 1
    code = text[:at] + "volatile char hole[5000]; hole[0] = 1;" + text[at:]
    return {**made.files, "ball.c": code.encode()}


@pytest.mark.parametrize("isa", ["generic", "native"])
def test_the_stack_is_enough(tmp_path: Path, isa: str) -> None:
    need_toolchain(isa)
    made, toolchain, _ = compiled(isa)
    files = greedy(made)
    size = network_size(made.source, files, toolchain)
    sizes._write(tmp_path, {**files, "main.c": PROGRAM.encode()})
    sources = ["main.c", "ball.c", "ball_weights.c"]
    flags = [*toolchain.cflags, "-w", "-pthread", "-I."]
    command = [*toolchain.compiler.command, *flags, *sources, "-o", "program", "-lm"]
    subprocess.run(command, cwd=tmp_path, check=True)
    done = subprocess.run([tmp_path / "program"], capture_output=True, text=True, check=True)
    # 512 bytes are the caller's, or of nobody.
    assert 5000 < int(done.stdout) <= size.stack + 512
    assert size.stack < 5000 + 2000, "no more than it has to be"


def test_the_arrays_of_a_step_are_those_of_nm() -> None:
    """Tables that became part of the code, as indices of shuffles do, do not count."""
    need_program("nm")
    need_toolchain("native")
    made, toolchain, _ = compiled("native")
    found = network_size(made.source, made.files, toolchain)
    with temporary_folder() as folder:
        sizes.library_sections(folder, made.source, made.files, toolchain)
        words = ["nm", "--print-size", str(folder / "ball.o")]
        listed = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    symbols = [line.split() for line in listed.splitlines()]
    for number, step in enumerate(found.steps):
        own = [s for s in symbols if s[-1].startswith(f"ball_L{number:02d}_") and s[-2] in "rR"]
        assert step.constants == sum(int(size, 16) for _, size, *_ in own)


def test_large_weights_count_once(tmp_path: Path) -> None:
    """They are in a separate file; two layers share them here."""
    need_toolchain("generic")
    rng = np.random.default_rng(2)
    weight = (rng.normal(size=(1024, 1024)) / 32).astype(np.float32)
    path = write_chain(tmp_path / "large.onnx", weight)
    options = make_options(path, {"target": "generic"})
    made, toolchain = compile_model(options), find_toolchain(options)
    assert made.source.blob.data
    found = network_size(made.source, made.files, toolchain)
    assert sum(step.constants for step in found.steps) + found.other_constants == found.constants
    assert len(made.source.blob.data) <= found.constants < 2 * weight.nbytes
    sizes_of = [step.constants for step in found.steps if step.schedule.startswith("matmul")]
    assert len(sizes_of) == 2 and sizes_of[0] >= weight.nbytes > sizes_of[1]
    assert 0 <= found.other_constants < 4096


def write_chain(path: Path, weight: np.ndarray[Any, np.dtype[np.float32]]) -> Path:
    """Y = relu(x w) w."""
    ends = [helper.make_tensor_value_info(v, TensorProto.FLOAT, [1, weight.shape[0]]) for v in "xy"]
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"]), helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("MatMul", ["b", "w"], ["y"]),
    ]  # fmt: skip
    graph = helper.make_graph(
        nodes, "g", ends[:1], ends[1:], [numpy_helper.from_array(weight, "w")]
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    return path


def test_a_large_frame_shows() -> None:
    """Of the step that has it, and of the whole network."""
    need_toolchain("generic")
    made, toolchain, _ = compiled("generic")
    plain = network_size(made.source, made.files, toolchain)
    more = network_size(made.source, greedy(made), toolchain)
    assert more.steps[2].stack >= 5000 - sizes.RED_ZONE
    assert more.stack >= 5000
    assert plain.stack < 5000
    assert [s.stack for s in more.steps[:2]] == [s.stack for s in plain.steps[:2]]


def test_memory_against_time(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["size", str(BALL), "--target", "generic", "--ram-curve"]
    assert invoke(words) == 0
    text = capsys.readouterr().out
    assert "No plan of these steps takes less than" in text
    assert invoke([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    first, last = found["points"][0], found["points"][-1]
    assert (first["time"], first["depth_first"]) == (1.0, 0)
    assert last["time"] > 1.0
    assert last["depth_first"] > 1
    assert found["least"] <= last["bytes"] < 0.8 * first["bytes"]
    assert f"{last['bytes']:,}" in text


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    need_toolchain("generic")
    assert invoke(["size", str(BALL), "--target", "generic", "--many", "4"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["step", "schedule", "code", "constants", "stack"]
    assert [line.split()[1] for line in lines[1:6]] == [
        "conv_1", "pool_1", "conv_2", "conv_3", "conv_3/softmax"
    ]  # fmt: skip
    assert lines[6].split()[:2] == ["all", "else"]
    assert {"flash", "workspace", "stack", "tensors"} <= {line.split(" ")[0] for line in lines}
    assert invoke(["size", str(BALL), "--target", "generic", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert invoke(["size", str(BALL), "--target", "generic", "--json", "--split", "3"]) == 0
    assert json.loads(capsys.readouterr().out) == found
    sections = found["sections"]
    assert found["flash"] == sections["code"] + sections["constants"] + sections["data"]
    assert sections["zeros"] == 0
    for what in ("code", "constants"):
        in_steps = sum(step[what] for step in found["steps"])
        assert in_steps + found["other"][what] == sections[what] + (
            sections["data"] if what == "constants" else 0
        )
    assert found["tensors"] == 4 * (16 * 16 + 2)
    assert len(found["steps"]) == 5


def test_states_are_not_tensors_as_well(capsys: pytest.CaptureFixture[str]) -> None:
    need_toolchain("generic")
    words = ["size", str(AMPLIFIER), "--target", "generic", "--streaming", "--block", "4", "--json"]
    assert invoke(words) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["tensors"] == 4 * (4 + 4)
    assert found["state"] > 4 * 2 * (8 + 1)  # of the last two layers alone


def test_what_is_no_elf_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for data in (b"", b"MZ", b"\x7fELF\x02\x01" + bytes(20)):
        (tmp_path / "x.o").write_bytes(data)
        assert section_sizes(tmp_path / "x.o") is None
    need_toolchain("generic")
    made, toolchain, _ = compiled("generic")
    monkeypatch.setattr(sizes, "section_sizes", lambda path: None)
    with pytest.raises(ToolchainError, match="does not write ELF files"):
        network_size(made.source, made.files, toolchain)
