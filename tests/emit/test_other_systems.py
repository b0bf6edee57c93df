"""Generated code compiles and links for macOS and Windows, where nothing here can run it.

Needs zig's compiler (`pip install ziglang`), which brings the headers and libraries of both; no
part of the continuous integration has it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cannery.options import make_options
from cannery.pipeline import compile_model
from cannery.resources import ball_example_dir
from emit.stepping_models import stack
from execution.test_sizes import write_chain
from frontends.keras_files import write_h5

BALL = ball_example_dir() / "ball.h5"

#: Systems, instruction sets, and the flags that turn these on.
SYSTEMS = {
    "x86_64-macos": ("avx2", ("-mavx2", "-mfma")),
    "aarch64-macos": ("neon64", ()),
    "x86_64-windows-gnu": ("avx2", ("-mavx2", "-mfma")),
}
FLAGS = ("-O1", "-ffp-contract=off", "-fno-fast-math", "-std=c99", "-Wall", "-Wextra", "-Werror")

#: Symbols of the workspace and of every output are used, so the linker has to find everything.
MAIN = """
#include "net.h"
static unsigned char memory[NET_WORKSPACE_BYTES] __attribute__((aligned(NET_WORKSPACE_ALIGN)));
int main(void) { return net_selftest(memory); }
"""


def _large(path: Path) -> Path:
    rng = np.random.default_rng(3)
    return write_chain(path, (rng.normal(size=(1024, 1024)) / 32).astype(np.float32))


def _calibrated(folder: Path) -> dict[str, Any]:
    samples = folder / "samples.npz"
    images = np.random.default_rng(1).random((8, 16, 16, 1), np.float32)
    np.savez(samples, image=images)
    return {"quantize": "int8", "calibration": str(samples)}


@pytest.fixture(scope="module")
def zig(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment in which zig keeps its files to itself."""
    pytest.importorskip("ziglang", reason="zig is not installed: pip install ziglang")
    cache = tmp_path_factory.mktemp("zig")
    places = {"ZIG_GLOBAL_CACHE_DIR": str(cache), "ZIG_LOCAL_CACHE_DIR": str(cache)}
    return {**os.environ, **places}


@pytest.mark.parametrize("network", ["float", "int8", "lstm", "split", "threads", "large"])
@pytest.mark.parametrize("system", SYSTEMS)
def test_it_compiles_and_links(
    system: str, network: str, zig: dict[str, str], tmp_path: Path
) -> None:
    isa, flags = SYSTEMS[system]
    model, more = BALL, dict[str, Any]()
    if network == "int8":
        more = _calibrated(tmp_path)
    elif network == "lstm":
        model, more = write_h5(tmp_path / "lstm.h5", stack(None)), {"streaming": True}
    elif network == "large":
        model = _large(tmp_path / "large.onnx")
    elif network in ("split", "threads"):
        more = {"split": "3"} if network == "split" else {"parallel": True}
    options = make_options(model, {"isa": isa, "name": "net", **more})
    files = {**compile_model(options).files, "main.c": MAIN.encode()}
    for name, data in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(data)
    assert (network == "large") is ("net_weights.bin" in files)
    units = sorted(name for name in files if name.endswith(".c"))
    command = [sys.executable, "-m", "ziglang", "cc", "-target", system, *FLAGS, *flags, "-I."]
    done = subprocess.run(
        [*command, *units, "-o", "program"], cwd=tmp_path, env=zig, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    program = next(path for path in tmp_path.glob("program*") if path.suffix in ("", ".exe"))
    head = program.read_bytes()[:4]
    assert head[:2] == b"MZ" if "windows" in system else head == b"\xcf\xfa\xed\xfe"
    if network == "large":
        assert (tmp_path / "net_weights.bin").read_bytes()[:4096] in program.read_bytes()
