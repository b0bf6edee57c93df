"""Networks over time call by call in C: they give what the whole sequence does, everywhere."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from cannery.errors import CanneryError
from cannery.measure.build import with_flags
from frontends.causal_nets import Maker
from needs import need_program, need_runner, need_toolchain
from nets.net_bench import MAX_ERROR, build_files, failures, run_nets
from nets.stream_bench import Stream, make_stream, stream_files
from ops.kernel_bench import QUICKLY, TARGETS

#: Each target takes its share.
SEEDS = range(3000, 3000 + 4 * len(TARGETS))

#: How many the slow tests take on each.
MANY = range(300)


def run(streams: Sequence[Stream], target: str, folder: Path) -> None:
    """Build, run and judge."""
    need_program("ninja", "ninja-build")
    toolchain = with_flags(need_toolchain(target), QUICKLY)
    executable = build_files(folder, stream_files(streams, toolchain.target.isa), toolchain)
    found = run_nets(executable, [s.name for s in streams], need_runner(toolchain))
    wrong = failures(found, MAX_ERROR)
    assert not wrong, "\n".join(wrong)


def causal(seeds: Sequence[int]) -> list[Stream]:
    """Random networks; some seeds grow branches that do not fit."""
    found = []
    for seed in seeds:
        try:
            graph = Maker(seed, ahead=seed % 3 == 1, rates=seed % 4 > 1).graph()
        except CanneryError:
            continue
        found.append(make_stream(f"seed {seed}", graph, seed))
    assert 2 * len(found) > len(seeds)
    return found


@pytest.mark.parametrize("target", TARGETS)
def test_calls_give_the_whole_sequence(target: str, tmp_path: Path) -> None:
    run(causal(SEEDS[TARGETS.index(target) :: len(TARGETS)]), target, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_many_networks(target: str, tmp_path: Path) -> None:
    run(causal(MANY), target, tmp_path)
