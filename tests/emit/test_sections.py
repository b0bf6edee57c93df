"""Weights, code and workspace in sections of their own: where symbols land, and that it runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cannery.cli import invoke
from cannery.emit.sections import place
from cannery.execution.program import NetworkProgram, network_program
from cannery.execution.samples import seeded_samples
from cannery.measure.elf import function_places, symbol_sections
from cannery.options import make_options
from cannery.pipeline import Compiled, compile_graph, import_graph
from cannery.resources import ball_example_dir
from cannery.target.runner import Runner
from cannery.target.toolchain import Toolchain, find_toolchain
from needs import need_runner, need_toolchain

BALL = ball_example_dir() / "ball.h5"
TARGET = "cortex-m7"
SECTIONS = ("weights=.ext_flash", "code=.itcm", "workspace=.bss.dtcm")

#: Memory of the board mps2-an500: for code alone, at low addresses as an ITCM, and for weights.
ITCM, EXTERNAL = range(0x00380000, 0x00384000), range(0x60000000, 0x61000000)


def made(**raw: Any) -> tuple[Compiled, Toolchain]:
    options = make_options(BALL, {"target": TARGET, **raw})
    return compile_graph(import_graph(options), options), find_toolchain(options)


def integers(folder: Path) -> dict[str, Any]:
    """Options that quantise the ball classifier with random images."""
    samples = folder / "samples.npz"
    np.savez(samples, image=np.random.default_rng(0).random((8, 16, 16, 1), np.float32))
    return {"quantize": "int8", "calibration": str(samples)}


def compiled(folder: Path, found: Compiled, toolchain: Toolchain) -> dict[str, str]:
    """The sections of all symbols of the library."""
    folder.mkdir()
    for name, data in found.files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(data[:])
    sections: dict[str, str] = {}
    for source in sorted(folder.glob("ball*.c")):
        if not source.name.endswith("_selftest.c"):
            flags = [*toolchain.cflags, "-Wall", "-Wextra", "-Wpedantic", "-Werror"]
            toolchain.compiler.compile(source, source.with_suffix(".o"), flags, [folder])
            sections |= symbol_sections(source.with_suffix(".o"))
    return sections


@pytest.mark.parametrize("kind", ["floats", "integers", "split", "pieces"])
def test_symbols_land_in_their_sections(tmp_path: Path, kind: str) -> None:
    need_toolchain(TARGET)
    raw = {
        "floats": {}, "integers": integers(tmp_path), "split": {"split": "3"},
        "pieces": {"max_lines": "40"},
    }[kind]  # fmt: skip
    sections = compiled(tmp_path / "out", *made(section=SECTIONS, **raw))
    functions = {n for n in sections if "_run" in n or n.startswith("run_") or "_part" in n}
    assert {sections[name] for name in functions} == {".itcm"} and len(functions) >= 5
    assert sections["workspace"] == ".bss.dtcm"
    weights = {name for name in sections if name.endswith(("_w", "_b", "_bias"))}
    assert {sections[name] for name in weights} == {".ext_flash"} and len(weights) >= 4
    rest = {name for name, section in sections.items() if section.startswith((".text", ".rodata"))}
    described = {"ball_model", "inputs", "outputs", "input_0_dims", "output_0_dims"}
    assert rest <= described, "nothing else but the descriptions of tensors is left"


def outputs(program: NetworkProgram, runner: Runner) -> bytes:
    return b"".join(y.tobytes() for found in program.run(runner) for y in found.values())


def test_it_runs_from_two_more_memories(tmp_path: Path) -> None:
    """Code and weights in memories apart, the rest in flash and RAM: the same bits."""
    toolchain = need_toolchain(TARGET)
    runner = need_runner(toolchain, strict=True)
    options = make_options(BALL, {"target": TARGET, "section": SECTIONS[:2]})
    graph = import_graph(options)
    samples = seeded_samples(graph, 2)
    found = compile_graph(graph, options)
    plain, _ = made()
    starts = (f"--section-start=.itcm={ITCM[0]:#x}", f"--section-start=.ext_flash={EXTERNAL[0]:#x}")
    linked = replace(toolchain, ldflags=(*toolchain.ldflags, *(f"-Wl,{start}" for start in starts)))
    with network_program(found.source, found.files, linked, samples) as program:
        moved = outputs(program, runner)
        places = function_places(program.executable)
        assert places["ball_run_in"].address in ITCM
        assert places["main"].address not in ITCM
        assert symbol_sections(program.executable)["ball_L02_conv_winograd_oc_w"] == ".ext_flash"
    with network_program(plain.source, plain.files, toolchain, samples) as program:
        assert outputs(program, runner) == moved


def test_large_weights_are_placed_as_well() -> None:
    found, _ = made()
    text = '__asm__(".section .rodata.ball_weights,\\"a\\"\\n");\n'
    files = {"ball_weights.c": text.encode(), "other.c": text.encode(), "ball.h": b"int f(void);"}
    placed = place(files, "ball", {"weights": ".ext"})
    assert placed["ball_weights.c"][:] == text.replace(".rodata.ball_weights", ".ext").encode()
    assert (placed["other.c"], placed["ball.h"]) == (files["other.c"], files["ball.h"])
    assert place(found.files, "ball", {}) == dict(found.files)


def test_regions_lie_apart(tmp_path: Path) -> None:
    need_toolchain(TARGET)
    placed = (*SECTIONS[:2], "workspace=.bss.psram", "fast=.bss.dtcm")
    sections = compiled(tmp_path / "out", *made(section=placed, fast_ram="1K"))
    assert (sections["workspace"], sections["fast"]) == (".bss.psram", ".bss.dtcm")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["heap=.x"], "'heap' cannot be placed"),
        (["code=9x"], "'9x' is not the name of a section"),
        (['code=a"b'], "is not the name of a section"),
        (["code=.x", "weights=.x"], "one section cannot hold different things"),
        (["code"], "not of the form name=value"),
        (["code=.\u00e4"], "is not the name of a section"),
        (["weights=.text"], "keep '.text' for something else (give the weights a section of"),
        (["weights=.bss.fast"], "keep '.bss.fast' for something else"),
        (["code=.noinit"], "keep '.noinit' for something else"),
        (["code=.init_array"], "keep '.init_array' for something else"),
        (["fast=.bss.dtcm"], "the workspace has no fast region"),
        (["fast=.text.x"], "keep '.text.x' for something else"),
        (["workspace=.rodata.x"], "keep '.rodata.x' for something else (give the workspace"),
    ],
)
def test_errors(given: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = [word for text in given for word in ("--section", text)]
    assert invoke(["compile", str(BALL), "-o", "unused", *words]) == 2
    assert message in capsys.readouterr().err


def test_contradictions(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["compile", str(BALL), "-o", "unused", "--section", "weights=.x"]
    assert invoke([*words, "--isa", "generic", "--isa", "sse2"]) == 2
    assert "a library for several instruction sets" in capsys.readouterr().err
    assert invoke([*words, "--weights", "ball.weights"]) == 2
    assert "the weights are in a file" in capsys.readouterr().err
