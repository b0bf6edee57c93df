"""Instructions, and cycles by the model of a processor, that networks may take: more is a step back
that no busy machine can hide.

`python tests/execution/test_budgets.py` prints the table as it is now.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

from cannery.errors import ToolchainError
from cannery.execution.counts import NetworkCount, count_network
from cannery.execution.samples import seeded_samples
from cannery.options import make_options
from cannery.pipeline import compile_graph, import_graph
from cannery.target.toolchain import toolchain_for
from needs import missing, need_runner, need_toolchain
from networks import write_network

#: Instructions of one run, untuned, by network and target; compilers differ, so they are gcc 12's.
BUDGETS = {
    ("ball", "ssse3"): 13923,
    ("ball", "avx2"): 4179,
    ("ball", "aarch64-a53"): 6816,
    ("ball", "cortex-m7"): 30646,
    ("ball", "cortex-m55"): 9367,
    ("ball", "riscv64"): 28634,
    ("pedestrian", "ssse3"): 420120,
    ("pedestrian", "aarch64-a53"): 269588,
}

#: Cycles of all steps by Cannery's model of these processors.
CYCLES = {
    ("ball", "cortex-a53"): 7652,
    ("ball", "cortex-a55"): 6537,
    ("pedestrian", "cortex-a53"): 266428,
    ("pedestrian", "cortex-a55"): 223274,
    ("walking_policy", "cortex-a53"): 135378,
}

#: The same as int8.
CYCLES_OF_BYTES = {
    ("ball", "cortex-a53"): 11391,
    ("ball", "cortex-a55"): 5690,
}
IN_ORDER = {"cortex-a53": "aarch64-a53", "cortex-a55": "aarch64-a55"}
COMPILER = "gcc 12."

#: How much more is let pass: another patch of the compiler.
SLACK = 1.005


def counted(
    network: str, target: str, folder: Path, cpu: str = "", quantize: str = ""
) -> NetworkCount:
    """One run of a network of the benchmarks."""
    model, raw = write_network(network, folder), {"target": target}
    if quantize:
        samples = seeded_samples(import_graph(make_options(model, raw)), 4)
        stacked = {name: np.concatenate([s[name] for s in samples]) for name in samples[0]}
        np.savez(folder / "samples.npz", **stacked)
        raw |= {"quantize": quantize, "calibration": str(folder / "samples.npz"), "max_loss": "1"}
    options = make_options(model, raw)
    toolchain = toolchain_for(target)
    graph = import_graph(options)
    compiled = compile_graph(graph, options)
    (sample,) = seeded_samples(graph, 1)
    runner = toolchain.emulator()
    return count_network(compiled.source, compiled.files, toolchain, runner, sample, cpu)


def need_counts(
    network: str, target: str, folder: Path, cpu: str = "", quantize: str = ""
) -> NetworkCount:
    """The same; skips the test where nothing counts, or the compiler is not that of the budgets."""
    toolchain = need_toolchain(target)
    need_runner(toolchain, strict=True)
    if not toolchain.compiler.version.startswith(COMPILER):
        pytest.skip(f"budgets are those of {COMPILER}x")
    try:
        return counted(network, target, folder, cpu, quantize)
    except ToolchainError as error:
        if "takes no plugins" in str(error):
            missing(str(error))
        raise


@pytest.mark.parametrize(("network", "target"), BUDGETS)
def test_networks_keep_their_budgets(network: str, target: str, tmp_path: Path) -> None:
    found = need_counts(network, target, tmp_path).instructions
    assert found <= SLACK * BUDGETS[network, target]


@pytest.mark.parametrize(("network", "cpu"), CYCLES)
def test_networks_keep_their_cycles(network: str, cpu: str, tmp_path: Path) -> None:
    """By the model, which counts what waits for loads and sums."""
    found = need_counts(network, IN_ORDER[cpu], tmp_path, cpu).cycles
    assert found is not None
    assert found <= SLACK * CYCLES[network, cpu]


@pytest.mark.parametrize(("network", "cpu"), CYCLES_OF_BYTES)
def test_networks_of_bytes_keep_their_cycles(network: str, cpu: str, tmp_path: Path) -> None:
    found = need_counts(network, IN_ORDER[cpu], tmp_path, cpu, "int8").cycles
    assert found is not None
    assert found <= SLACK * CYCLES_OF_BYTES[network, cpu]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        for key in BUDGETS:
            sys.stdout.write(f"    {key}: {counted(*key, Path(name)).instructions},\n")
        for network, cpu in CYCLES:
            found = counted(network, IN_ORDER[cpu], Path(name), cpu).cycles
            sys.stdout.write(f"    {(network, cpu)}: {found:.0f},\n")
        for network, cpu in CYCLES_OF_BYTES:
            found = counted(network, IN_ORDER[cpu], Path(name), cpu, "int8").cycles
            sys.stdout.write(f"    {(network, cpu)}: {found:.0f},\n")
