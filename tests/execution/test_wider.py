"""Wider vectors are never slower: exact counts, weighed as a processor's table says.

Counts see no caches, and no latencies but those that the cost model saw when it chose.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cannery.analysis.mix import Mix
from cannery.emit.files import output_files
from cannery.errors import ToolchainError
from cannery.execution.counts import NetworkCount, count_network
from cannery.execution.samples import seeded_samples
from cannery.options import make_options
from cannery.pipeline import choose, generate, import_graph
from cannery.schedule.cost import busy_cycles
from cannery.target.isa import Isa
from cannery.target.targets import find_target
from needs import missing, need_runner, need_toolchain
from networks import write_network

#: Networks that few steps compute, also one by one.
NETWORKS = ("ball", "policy_64", "policy_400", "autoencoder")

#: Instruction sets, each wider than the one before it, and the processors that have them.
PAIRS = (
    ("sse2", "avx2", "x86-256"),
    ("avx2", "avx512", "x86-512"),
    ("avx2", "avx512", "zen4"),
)


def counted(network: str, isa: Isa, folder: Path) -> NetworkCount:
    """One run of a network of the benchmarks, untuned, as it is generated for that processor."""
    options = make_options(write_network(network, folder), {"target": isa.name})
    toolchain = need_toolchain(isa.name)
    need_runner(toolchain)
    graph = import_graph(options)
    target = replace(find_target(isa.name), isa=isa)
    source = generate(graph, isa, choose(graph, target, options), options)
    (sample,) = seeded_samples(graph, 1)
    files, runner = output_files(source, "test"), toolchain.emulator()
    try:
        return count_network(source, files, toolchain, runner, sample)
    except ToolchainError as error:
        if "takes no plugins" in str(error):
            missing(str(error))
        raise


def cycles(isa: Isa, mix: Mix) -> float:
    """Cycles of the processor that `isa` is meant for, if only how much it does at once counts.

    Its vectors are as wide as those that are multiplied, on average.
    """
    lanes = min(w for w in isa.lanes if w * mix.multiplies >= mix.lanes or w == isa.widest)
    arithmetic = mix.multiplies + mix.adds + mix.shuffles
    beside = mix.branches + mix.other + mix.moves
    return busy_cycles(
        isa, arithmetic, mix.loads, mix.stores, beside=beside, lanes=lanes, macs=mix.multiplies
    )


@pytest.mark.parametrize(("narrow", "wide", "machine"), PAIRS)
@pytest.mark.parametrize("network", NETWORKS)
def test_wider_vectors_are_never_slower(
    network: str, narrow: str, wide: str, machine: str, tmp_path: Path
) -> None:
    taken = {}
    for name in (narrow, wide):
        isa = find_target(name).isa.meant_for(machine)
        count = counted(network, isa, tmp_path)
        taken[name] = sum(cycles(isa, step.mix) for step in count.steps)
    assert taken[wide] <= taken[narrow]
