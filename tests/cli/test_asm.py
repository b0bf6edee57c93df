"""asm: the example's kernels for every processor whose compiler is there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click.testing
import numpy as np
import pytest

from cannery.analysis.kernels import StepCode
from cannery.cli import cli, invoke
from cannery.cli.asm import find_step
from cannery.errors import OptionError
from cannery.resources import ball_example_dir
from frontends.keras_files import LayerSpec, chain, image, write_h5
from needs import need_program, need_toolchain

MODEL = str(ball_example_dir() / "ball.h5")


def asm(*arguments: str, model: str = MODEL) -> str:
    """What the command prints; it must succeed."""
    runner = click.testing.CliRunner()
    done = runner.invoke(cli, ["asm", model, *arguments], catch_exceptions=False)
    assert done.exit_code == 0
    return done.stdout


@pytest.mark.parametrize("target", ["native", "atom32", "armv7-a9", "aarch64-a53"])
def test_every_step_of_the_example_is_taken_apart(target: str) -> None:
    need_toolchain(target)
    found: dict[str, Any] = json.loads(asm("--target", target, "--json"))
    assert found["target"] == target
    assert found["estimated_for"] is None
    loops = {step["step"]: step["loops"][0] for step in found["steps"]}
    for step in found["steps"]:
        mix = loops[step["step"]]["mix"]
        assert 0 <= mix["vector_spills"] <= mix["spills"] <= mix["loads"] + mix["stores"]
        assert mix["loads"] > 0
        if step["macs"]:
            assert mix["multiplies"] > 0
            assert mix["multiplies"] <= mix["lanes"] <= 16 * mix["multiplies"]
            ratio = loops[step["step"]]["per_multiply"]["loads"]
            assert ratio == mix["loads"] / mix["multiplies"]
            assert 0.1 < ratio < 10
    # The first convolution is by far the largest step; nobody would unroll all of it.
    assert loops["conv_1"]["depth"] > 0
    if "pool_1" in loops:  # else it is a part of the first step
        assert loops["pool_1"]["mix"]["adds"] > 0


def test_broadcasts_to_wide_and_narrow_vectors_are_no_shuffles(tmp_path: Path) -> None:
    need_toolchain("avx512")
    kernel = np.random.default_rng(0).standard_normal((3, 3, 16, 18)).astype(np.float32)
    config = {"filters": 18, "kernel_size": [3, 3], "padding": "same", "use_bias": False}
    layer = LayerSpec("Conv2D", "conv", config=config, weights={"kernel": kernel})
    path = write_h5(tmp_path / "net.h5", chain(image("image", 24, 24, 16), layer))
    (step,) = json.loads(asm("conv", "--isa", "avx512", "--json", model=str(path)))["steps"]
    mix = step["loops"][0]["mix"]
    assert mix["lanes"] < 16 * mix["multiplies"]  # both widths
    assert mix["shuffles"] == 0


def test_a_step_is_shown_with_its_instructions() -> None:
    need_toolchain("ssse3")
    text = asm("conv_1", "--isa", "ssse3")
    assert text == asm("conv_1", "--isa", "ssse3", "--split", "2")
    assert text.startswith("conv_1: conv.")
    assert "mulps " in text
    assert "multiplies  adds  loads  stores" in text
    assert "addps " in text
    # By its number, and with all its loops.
    (step,) = json.loads(asm("0", "--isa", "ssse3", "--json"))["steps"]
    assert step["step"] == "conv_1"
    assert len(step["loops"]) > 1
    (jump,) = (line for line in step["loops"][0]["code"][-1:])
    assert ": j" in jump


def test_cycles_are_estimated_for_a_named_processor() -> None:
    need_toolchain("atom32")
    need_program("llvm-mca", "llvm-mca-14")
    text = asm("conv_1", "--target", "atom32", "--mca", "bonnell")
    assert "est. cycles" in text
    assert "cycles are estimated by llvm-mca for bonnell" in text
    found = json.loads(asm("conv_1", "--target", "atom32", "--mca", "bonnell", "--json"))
    hot = found["steps"][0]["loops"][0]
    # Bonnell begins two instructions in a cycle at most.
    assert hot["estimated_cycles"] >= hot["mix"]["instructions"] / 2
    assert hot["per_multiply"]["cycles"] == hot["estimated_cycles"] / hot["mix"]["multiplies"]
    assert found["estimated_for"] == "bonnell"


def test_an_unknown_processor_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    need_program("llvm-mca", "llvm-mca-14")
    # LLVM knows the second one by name, but not how long its instructions take.
    for name in ("abacus", "pentium"):
        assert invoke(["asm", MODEL, "--isa", "sse2", "--mca", name]) == 2
        assert f"unknown processor {name!r}" in capsys.readouterr().err


def test_steps_are_found_by_name_part_or_number() -> None:
    steps = [StepCode(name, "", 0, ()) for name in ("conv", "conv_1", "pool", "3")]
    assert find_step(steps, "conv") is steps[0]
    assert find_step(steps, "poo") is steps[2]
    assert find_step(steps, "1") is steps[1]
    assert find_step(steps, "3") is steps[3]
    with pytest.raises(OptionError, match=r"'onv' is not unambiguous .*conv, conv_1"):
        find_step(steps, "onv")
    with pytest.raises(OptionError, match=r"'dense' is not a step .*conv, conv_1, pool, 3"):
        find_step(steps, "dense")
