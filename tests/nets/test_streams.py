"""Networks over time call by call in C: they give what the whole sequence does, everywhere."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from cannery.errors import CanneryError
from cannery.measure.build import with_flags
from frontends.causal_images import FrameMaker, RowMaker
from frontends.causal_integers import IntegerMaker, IntegerRowMaker
from frontends.causal_nets import Maker, VoiceMaker
from frontends.test_streaming_pads import PathMaker
from needs import need_program, need_runner, need_toolchain
from nets.net_bench import MAX_ERROR, build_files, failures, run_nets
from nets.stream_bench import Stream, make_stream, stream_files
from ops.kernel_bench import QUICKLY, TARGETS

#: Each target takes its share: of networks over sequences and over rows of an image, both of
#: integers, too, over frames, over several sequences at once, and with pads anywhere.
KINDS: dict[str, tuple[type[Maker], int]] = {
    "sequence": (Maker, 4), "rows": (RowMaker, 2), "integers": (IntegerMaker, 2),
    "integer rows": (IntegerRowMaker, 1), "frames": (FrameMaker, 1), "voices": (VoiceMaker, 2),
    "pads": (PathMaker, 2),
}  # fmt: skip

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


def random_streams(maker: type[Maker], seeds: Sequence[int]) -> list[Stream]:
    """Random networks; some seeds grow branches that do not fit."""
    found = []
    for seed in seeds:
        try:
            graph = maker(seed, ahead=seed % 3 == 1, rates=seed % 4 > 1).graph()
        except CanneryError:
            continue
        found.append(make_stream(f"{maker.__name__} {seed}", graph, seed))
    assert 2 * len(found) >= len(seeds)
    return found


@pytest.mark.parametrize("target", TARGETS)
def test_calls_give_the_whole_sequence(target: str, tmp_path: Path) -> None:
    streams = []
    for maker, count in KINDS.values():
        first = 3000 + count * TARGETS.index(target)
        streams += random_streams(maker, range(first, first + count))
    run(streams, target, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", KINDS)
def test_many_networks(kind: str, target: str, tmp_path: Path) -> None:
    run(random_streams(KINDS[kind][0], MANY), target, tmp_path)
