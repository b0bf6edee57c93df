"""Networks under the sanitizers of addresses and undefined behaviour, in memory of exact size.

Reading a byte beyond an input, or writing one beyond an output or the workspace, is a failure.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from cannery.errors import CanneryError
from cannery.ir.tensor import DType
from cannery.target.compiler import Compiler
from cannery.target.runner import Origin, find_runner
from cannery.target.toolchain import Toolchain
from needs import missing, need_program, need_toolchain
from nets.net_bench import (
    DEPTH_FIRST,
    MAX_ERROR,
    Net,
    build_nets,
    failures,
    reference_net,
    run_nets,
)
from nets.random_graphs import random_graph
from nets.test_nets import MODELS, REAL, real_net
from ops.cases_depth_first import byte_network
from ops.kernel_bench import QUICKLY

#: The second takes compilers several times as long.
ADDRESS = ("-fsanitize=address",)
ALL = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")
TARGETS = ("generic", "ssse3", "avx2", "avx512")
#: Takes longer than all others together.
LARGE = "field_boundary.h5"


def sanitizing(target: str, kind: str, sanitizers: Sequence[str]) -> Toolchain:
    """A toolchain whose programs watch themselves; skips where they cannot be built."""
    need_program("ninja", "ninja-build")
    toolchain = need_toolchain(target)
    compiler = replace(toolchain.compiler, command=(need_program(kind),), kind=kind)
    private = [flag for flag in toolchain.cflags if kind == "gcc" or "tree" not in flag]
    cflags = (*private, QUICKLY, "-DNET_EXACT", *sanitizers)
    _try(compiler, sanitizers)
    return replace(toolchain, compiler=compiler, cflags=cflags, ldflags=tuple(sanitizers))


def _try(compiler: Compiler, sanitizers: Sequence[str]) -> None:
    command = [*compiler.command, *sanitizers, "-x", "c", "-", "-o", "/dev/null"]
    done = subprocess.run(
        command, input="int main(void) { return 0; }", capture_output=True, text=True, check=False
    )
    if done.returncode:
        missing(f"{compiler.kind} has no sanitizers: {done.stderr[:200]}")


def watch(nets: Sequence[Net], toolchain: Toolchain, folder: Path) -> None:
    """Build, run here (no emulator has sanitizers), judge."""
    executable = build_nets(folder, nets, toolchain)
    try:
        runner = find_runner(toolchain.target)
    except CanneryError as error:
        pytest.skip(str(error))
    if runner.origin is Origin.EMULATED:
        pytest.skip("emulated")
    wrong = failures(run_nets(executable, [net.name for net in nets], runner), MAX_ERROR)
    assert not wrong, "\n".join(wrong)


@pytest.fixture(autouse=True)
def no_leaks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test program frees nothing at its end."""
    monkeypatch.setenv("ASAN_OPTIONS", "detect_leaks=0")


def random_nets(seeds: Sequence[int]) -> list[Net]:
    return [reference_net(f"seed {s}", random_graph(s), s) for s in seeds]


def real_nets(*, large: bool) -> list[Net]:
    """Those that are here."""
    return [real_net(f) for f in REAL if (large or f != LARGE) and (MODELS / f).is_file()]


def test_an_overrun_is_noticed(tmp_path: Path) -> None:
    """One element too few in the input's memory, and the program stops."""
    toolchain = sanitizing("generic", "gcc", ADDRESS)
    cflags = (*toolchain.cflags, "-DNET_MISSING=4")
    executable = build_nets(tmp_path, random_nets([0]), replace(toolchain, cflags=cflags))
    done = subprocess.run([str(executable)], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "heap-buffer-overflow" in done.stderr


@pytest.mark.parametrize("target", TARGETS)
def test_networks_stay_in_their_memory(target: str, tmp_path: Path) -> None:
    nets = [*real_nets(large=False), *random_nets(range(4))]
    watch(nets, sanitizing(target, "gcc", ADDRESS), tmp_path)


@pytest.mark.parametrize("target", ["generic", "avx2"])
def test_rows_stay_in_their_rings(target: str, tmp_path: Path) -> None:
    net = reference_net("bytes", byte_network(DType.INT8, 21, 13), prefer=DEPTH_FIRST)
    watch([net], sanitizing(target, "gcc", ALL), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["gcc", "clang"])
@pytest.mark.parametrize("target", TARGETS)
def test_many_networks_stay_in_their_memory(target: str, kind: str, tmp_path: Path) -> None:
    nets = [*real_nets(large=True), *random_nets(range(20))]
    watch(nets, sanitizing(target, kind, ALL), tmp_path)
