"""Functions that run single steps use only the first bytes of a workspace."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cannery.cli import invoke
from cannery.emit.dispatch import dispatching_files
from cannery.emit.source import Source
from cannery.options import make_options
from cannery.pipeline import Compiled, compile_model
from emit.c_programs import build, run
from emit.stepping_models import causal, stack
from frontends.keras_files import write_h5

WAKE = Path(__file__).resolve().parents[2] / "examples" / "wake_word" / "wake.onnx"

#: Steps in exactly as much memory as the header names, then steps and whole runs in one workspace
#: by turns, then the C++ class's memory.
MAIN = """
#include "net.h"
#include "cannery/vec_scalar.h"
#include <stdio.h>
#include <string.h>
enum { GUARD = 64, SMALL = NET_STEP_WORKSPACE_BYTES };
static unsigned char small[SMALL + GUARD] CANNERY_ALIGN(64);
static unsigned char whole[NET_WORKSPACE_BYTES] CANNERY_ALIGN(64);
static unsigned char other[NET_WORKSPACE_BYTES] CANNERY_ALIGN(64);
static double states[2][NET_STATE_BYTES / 8 + 1];
int main(void)
{
    int wrong = 0;
    memset(small + SMALL, 0x5a, GUARD);
    net_reset(states[0]);
    net_reset(states[1]);
    for (int call = 0; call < 40; ++call) {
        float y[2][NET_SCORES_LEN];
        float x[NET_X_LEN];
        for (int i = 0; i < NET_X_LEN; ++i) {
            x[i] = (float)((call * 7 + i * 3) % 11) * 0.25f - 1.0f;
        }
        net_step_in(small, states[0], x, y[0]);
        net_step_in(whole, states[1], x, y[1]);
        wrong += memcmp(y[0], y[1], sizeof y[0]) != 0;
        wrong += net_selftest(whole) != 0; /* a whole run */
        wrong += net_selftest(other) != 0;
    }
    for (int i = 0; i < GUARD; ++i) {
        wrong += small[SMALL + i] != 0x5a;
    }
    net_prewarm(whole, states[0], 3);
    printf("%d", wrong);
    return 0;
}
"""


def made(folder: Path, model: Any, **raw: Any) -> Compiled:
    file = write_h5(folder / "net.h5", model)
    given = {"isa": "generic", "streaming": True, **raw}
    return compile_model(make_options(file, given))


def source(folder: Path, model: Any, **raw: Any) -> Source:
    return made(folder, model, **raw).source


@pytest.mark.parametrize("block", ["1", "4"])
@pytest.mark.parametrize("kind", ["causal", "lstm"])
def test_steps_stay_within_their_memory(tmp_path: Path, kind: str, block: str) -> None:
    model = stack(None) if kind == "lstm" else causal(64)
    compiled = made(tmp_path, model, block=(block,))
    assert run(build(tmp_path / "out", {**compiled.files, "main.c": MAIN})) == b"0"


def test_what_only_whole_runs_need_comes_last(tmp_path: Path) -> None:
    """Windows that stay in the state are buffers of `run_in` alone."""
    raw = {"isa": "generic", "streaming": True, "dims": ("T=512",)}
    found = compile_model(make_options(WAKE, raw)).source
    assert found.states.rings
    assert 20 * found.step_workspace < found.slow_bytes == found.workspace.bytes
    assert found.workspace.bytes <= 1.02 * found.workspace.lower_bound
    plain = source(tmp_path, stack(None))
    assert not plain.states.rings and plain.workspace.of_steps == plain.workspace.bytes


def test_several_instruction_sets_have_the_largest(tmp_path: Path) -> None:
    raw: dict[str, Any] = {"block": ("1", "8")}
    each = [source(tmp_path, causal(64), isa=isa, **raw) for isa in ("generic", "avx512")]
    head = made(tmp_path, causal(64), isa=("generic", "avx512"), **raw).files["net.h"][:].decode()
    assert f"_STEP_WORKSPACE_BYTES {max(s.step_workspace for s in each)}u" in head
    assert f"_STEP_8_WORKSPACE_BYTES {max(s.blocks[0].step_workspace for s in each)}u" in head
    assert f"NET_WORKSPACE_BYTES {max(s.single_bytes for s in each)}u" in head


def test_the_header_of_several_names_what_is_enough_for_all(tmp_path: Path) -> None:
    part = source(tmp_path, causal(64), block=("1", "8"))
    larger = replace(part.workspace, bytes=4096, of_steps=4096)
    other = replace(part, workspace=larger, blocks=(replace(part.blocks[0], workspace=larger),))
    files = dispatching_files(
        "net", [replace(other, name="net_a"), replace(part, name="net_b")], "x"
    )
    head = files["net.h"][:].decode()
    assert f"_STEP_WORKSPACE_BYTES {other.step_workspace}u" in head
    assert f"_STEP_8_WORKSPACE_BYTES {other.blocks[0].step_workspace}u" in head
    assert f"NET_WORKSPACE_BYTES {other.single_bytes}u" in head


def test_calls_of_each_size(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    compiled = made(tmp_path, causal(64), block=("1", "8"))
    head = compiled.files["net.h"][:].decode()
    manifest = json.loads(compiled.files["net.json"][:])
    one, eight = manifest["step_workspace_bytes"], manifest["blocks"][0]["step_workspace_bytes"]
    assert f"#define NET_STEP_WORKSPACE_BYTES {one}u" in head
    assert f"#define NET_STEP_8_WORKSPACE_BYTES {eight}u" in head
    assert f"#define NET_STEPS_WORKSPACE_BYTES {max(one, eight)}u" in head
    words = ["size", str(tmp_path / "net.h5"), "--isa", "generic", "--streaming"]
    assert invoke([*words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["step_workspace"] == one
    assert invoke(words) == 0
    assert "workspace of step" in capsys.readouterr().out
