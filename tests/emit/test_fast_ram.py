"""FAST_RAM: a workspace of two regions, in C, in C++, and as tools show it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cannery.cli import invoke
from cannery.options import make_options
from cannery.pipeline import Compiled, compile_model
from cannery.resources import ball_example_dir
from emit.c_programs import build, run
from emit.stepping_models import stack
from frontends.keras_files import write_h5

BALL = ball_example_dir() / "ball.h5"

#: Both memories between bytes that nobody may change; the network in one memory as well.
MAIN = """
#include "ball.h"
#include "cannery/vec_scalar.h"
#include <stdio.h>
#include <string.h>
enum { GUARD = 64, SLOW = BALL_WORKSPACE_BYTES, FAST = BALL_FAST_BYTES };
static unsigned char slow[SLOW + 2 * GUARD] CANNERY_ALIGN(64);
static unsigned char fast[FAST + 2 * GUARD] CANNERY_ALIGN(64);
static unsigned char whole[SLOW + FAST] CANNERY_ALIGN(64);
static float image[BALL_IMAGE_LEN], scores[3][BALL_SCORES_LEN];
static int kept(const unsigned char *at)
{
    int same = 0;
    for (int i = 0; i < GUARD; ++i) {
        same += at[i] == 0x5a;
    }
    return same == GUARD;
}
int main(void)
{
    unsigned char *const ends[] = { slow, slow + GUARD + SLOW, fast, fast + GUARD + FAST };
    for (int k = 0; k < 4; ++k) {
        memset(ends[k], 0x5a, GUARD);
    }
    for (int i = 0; i < BALL_IMAGE_LEN; ++i) {
        image[i] = (float)(i % 7) * 0.125f;
    }
    ball_run_in(slow + GUARD, fast + GUARD, image, scores[0]);
    ball_run(image, scores[1]);
    const void *inputs[1] = { image };
    void *outputs[1] = { scores[2] };
    ball_model.run(whole, inputs, outputs);
    int wrong = memcmp(scores[0], scores[1], sizeof scores[0]) != 0;
    wrong += memcmp(scores[0], scores[2], sizeof scores[0]) != 0;
    wrong += ball_selftest(slow + GUARD, fast + GUARD) != 0;
    wrong += ball_model.workspace_bytes != sizeof whole;
    for (int k = 0; k < 4; ++k) {
        wrong += !kept(ends[k]);
    }
    printf("%d %.9g %.9g", wrong, (double)scores[0][0], (double)scores[0][1]);
    return 0;
}
"""

CPP = """
#include "net.hpp"
#include <stdio.h>
static double fast[NET_FAST_BYTES / 8 + 8];
int main(void)
{
    net::Net net((char *)fast + (64 - (size_t)fast % 64) % 64);
    for (int k = 0; k < 5; ++k) {
        for (int i = 0; i < NET_X_LEN; ++i) {
            net.x[i] = (float)(i - k);
        }
        net.step();
    }
    printf("%.9g", (double)net.scores[0]);
    return 0;
}
"""


def made(**raw: Any) -> Compiled:
    return compile_model(make_options(BALL, {"isa": "generic", **raw}))


def region(compiled: Compiled) -> dict[str, int]:
    """What the manifest says of the fast region."""
    (name,) = (name for name in compiled.files if name.endswith(".json"))
    found: dict[str, int] = json.loads(compiled.files[name][:])["fast_region"]
    return found


@pytest.mark.parametrize("language", ["c99 gcc", "c++11 clang"])
def test_runs_stay_in_both_regions(tmp_path: Path, language: str) -> None:
    """Little, some and enough fast memory: the same results, and nothing beside the regions."""
    told, shares = set(), []
    for k, room in enumerate(("64", "1K", "1M")):
        compiled = made(fast_ram=room)
        found = region(compiled)
        shares.append(found["accesses"] / found["all_accesses"])
        program = build(tmp_path / str(k), {**compiled.files, "main.c": MAIN}, language)
        told.add(run(program))
    assert len(told) == 1 and told.pop().startswith(b"0 ")
    assert shares == sorted(shares) and shares[0] < 0.2 and shares[-1] == 1.0


@pytest.mark.parametrize("room", ["64", "1M"])
def test_steps_in_both_regions(tmp_path: Path, room: str) -> None:
    """With a state, in C++: the same as with one memory."""
    file = write_h5(tmp_path / "net.h5", stack(None))
    told = set()
    for given in ({"fast_ram": room}, {}):
        options = make_options(file, {"isa": "generic", "streaming": True, **given})
        main = CPP if given else CPP.replace("[NET_FAST_BYTES / 8 + 8]", "[9]").replace(
            "net((char *)fast + (64 - (size_t)fast % 64) % 64);", "net; (void)fast;"
        )  # fmt: skip
        files = {**compile_model(options).files, "main.c": main}
        told.add(run(build(tmp_path / str(len(told)), files, "c++11 g++")))
    assert len(told) == 1


def test_what_tools_say(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    compiled = made(fast_ram="1K")
    found = region(compiled)
    assert 0 < found["bytes"] <= 1024
    assert found["accesses"] <= found["most_accesses"] < found["all_accesses"]
    head = compiled.files["ball.h"][:].decode()
    assert f"#define BALL_FAST_BYTES {found['bytes']}u" in head
    text = compiled.files["ball.c"][:].decode()
    assert f" * The first {found['bytes']} bytes lie in fast memory" in text
    assert invoke(["size", str(BALL), "--isa", "generic", "--fast-ram", "1K", "--json"]) == 0
    size = json.loads(capsys.readouterr().out)
    assert size["fast"] == found["bytes"] and f"WORKSPACE_BYTES {size['workspace']}u" in head
    assert invoke(["size", str(BALL), "--isa", "generic", "--fast-ram", "1K"]) == 0
    assert "fast region" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--parallel"], "--parallel cannot be combined with it"),
        (["--many", "4"], "--many cannot be combined with it"),
        (["--shared"], "--shared cannot be combined with it"),
        (["--isa", "generic", "--isa", "sse2"], "several --isa cannot be combined with it"),
        (["--isa", "generic", "--fast-ram", "63"], "63 bytes hold nothing"),
    ],
)
def test_errors(
    words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["compile", str(BALL), "-o", str(tmp_path), "--fast-ram", "1K", *words]
    assert invoke(command) == 2
    assert message in capsys.readouterr().err
