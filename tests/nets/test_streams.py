"""Networks over time call by call in C: they give what the whole sequence does, everywhere."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import islice
from pathlib import Path

import pytest

from cannery.errors import CanneryError
from cannery.ir.tensor import DType
from cannery.measure.build import with_flags
from frontends.causal_images import FrameMaker, RowMaker
from frontends.causal_integers import FloatMaker, IntegerMaker, IntegerRowMaker
from frontends.causal_nets import Maker, VoiceMaker
from frontends.test_streaming_pads import PathMaker
from needs import need_program, need_runner, need_toolchain
from nets.net_bench import MAX_ERROR, build_files, failures, run_nets
from nets.stream_bench import Stream, make_stream, stream_files
from ops.kernel_bench import QUICKLY, TARGETS

#: Networks over sequences and over rows of an image, both of integers, too, over frames, over
#: several sequences at once, with pads anywhere, and of floats that are quantised; and how many of
#: each come by turns.
KINDS: dict[type[Maker], int] = {
    Maker: 4, RowMaker: 2, IntegerMaker: 2, IntegerRowMaker: 1, FrameMaker: 1, VoiceMaker: 2,
    PathMaker: 2, FloatMaker: 2,
}  # fmt: skip
TURNS = [maker for maker, count in KINDS.items() for _ in range(count)]

#: How many the slow tests take on each target.
MANY = 300


def run(streams: Sequence[Stream], target: str, folder: Path) -> None:
    """Build, run and judge."""
    need_program("ninja", "ninja-build")
    toolchain = with_flags(need_toolchain(target), QUICKLY)
    executable = build_files(folder, stream_files(streams, toolchain.target.isa), toolchain)
    found = run_nets(executable, [s.name for s in streams], need_runner(toolchain))
    wrong = failures(found, MAX_ERROR)
    assert not wrong, "\n".join(wrong)


@cache
def random_stream(seed: int) -> Stream | None:
    """A random network of the kind whose turn it is; None: the seed grows branches that do not fit.

    It is the same on all targets, so it is made once.
    """
    maker = TURNS[seed % len(TURNS)]
    try:
        graph = maker(seed, ahead=seed % 3 == 1, rates=seed % 4 > 1).graph()
    except CanneryError:
        return None
    quantized = (DType.INT8, DType.INT16)[seed % 2] if maker is FloatMaker else None
    return make_stream(f"{maker.__name__} {seed}", graph, seed, quantized)


def random_streams(first: int, count: int) -> list[Stream]:
    """So many networks, of the seeds from the first one on."""
    found = list(islice(filter(None, map(random_stream, range(first, first + 2 * count))), count))
    assert len(found) == count
    return found


@pytest.mark.parametrize("target", TARGETS)
def test_calls_give_the_whole_sequence(target: str, tmp_path: Path) -> None:
    """Each target has seeds of its own."""
    first = 3000 + 2 * len(TURNS) * TARGETS.index(target)
    run(random_streams(first, len(TURNS)), target, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_many_networks(target: str, tmp_path: Path) -> None:
    run(random_streams(0, MANY), target, tmp_path)
