"""Instructions that networks may take: more is a step back that no busy machine can hide.

`python tests/execution/test_budgets.py` prints the table as it is now.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import pytest

from cannery.errors import ToolchainError
from cannery.execution.counts import count_network
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
    ("ball", "aarch64-a53"): 5734,
    ("ball", "cortex-m7"): 30646,
    ("ball", "riscv64"): 28634,
    ("pedestrian", "ssse3"): 420120,
    ("pedestrian", "aarch64-a53"): 202961,
}
COMPILER = "gcc 12."

#: How much more is let pass: another patch of the compiler.
SLACK = 1.005


def instructions(network: str, target: str, folder: Path) -> int:
    """Of one run of a network of the benchmarks."""
    options = make_options(write_network(network, folder), {"target": target})
    toolchain = toolchain_for(target)
    graph = import_graph(options)
    compiled = compile_graph(graph, options)
    (sample,) = seeded_samples(graph, 1)
    runner = toolchain.emulator()
    return count_network(compiled.source, compiled.files, toolchain, runner, sample).instructions


@pytest.mark.parametrize(("network", "target"), BUDGETS)
def test_networks_keep_their_budgets(network: str, target: str, tmp_path: Path) -> None:
    toolchain = need_toolchain(target)
    need_runner(toolchain, strict=True)
    if not toolchain.compiler.version.startswith(COMPILER):
        pytest.skip(f"budgets are those of {COMPILER}x")
    try:
        found = instructions(network, target, tmp_path)
    except ToolchainError as error:
        if "takes no plugins" in str(error):
            missing(str(error))
        raise
    assert found <= SLACK * BUDGETS[network, target]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        for key in BUDGETS:
            sys.stdout.write(f"    {key}: {instructions(*key, Path(name))},\n")
