"""Builds networks that run step by step into one program, and compares it with whole sequences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

import numpy as np
from numpy.typing import NDArray

from cannery.errors import OptionError
from cannery.frontends.streaming import AUTO, to_streaming
from cannery.ir.graph import Graph
from cannery.passes import run_passes
from cannery.target.isa import Isa
from frontends.causal_nets import sequence, wanted
from nets.net_bench import files_to_compile, make_net_source, table_file

MAIN = Path(__file__).with_name("stream_main.c")

#: Files that the program does not call.
UNUSED = ("_selftest.c", "_static.c")

#: Steps of a call. All divide the sequence; strides allow some of them.
BLOCKS = (1, 2, 3, 4, 6, 12, 24)

#: Schedules whose ids begin so are preferred, by turns: what is chosen otherwise, and what is not.
PREFER = ("", "conv.", "", "chains.", "concat.")

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Stream:
    """A network for a call; along the first axis of its inputs and expected outputs are calls."""

    name: str
    graph: Graph
    inputs: Mapping[str, Array]
    expected: Mapping[str, Array]
    prefer: str = ""


def make_stream(name: str, whole: Graph, seed: int) -> Stream:
    """A network for sequences of `x`, cut into calls of as many steps as the seed says.

    What integer layers give is expected to the bit.
    """
    random = Random(seed)
    calls = None
    for block in random.sample(BLOCKS, len(BLOCKS)):
        try:
            calls = to_streaming(whole, block, AUTO)
            break
        except OptionError as error:
            assert "--block" in str(error), error
    assert calls is not None and calls.calls is not None
    x, steps = sequence(whole, seed), calls.calls.steps
    cut = np.stack([x[:, at : at + steps] for at in range(0, x.shape[1], steps)])
    passed = run_passes(whole)
    judge = passed if passed.integer_layers else whole
    expected = dict(zip(whole.outputs, wanted(judge, calls, x), strict=True))
    prefer = PREFER[seed % len(PREFER)]
    return Stream(f"{name}, {steps} a call", calls, {"x": cut}, expected, prefer)


def stream_files(streams: Sequence[Stream], isa: Isa) -> dict[str, bytes]:
    """All files of the program."""
    files: dict[str, bytes] = {"stream_main.c": MAIN.read_bytes()}
    table, externs, blob = [], [], b""
    for number, stream in enumerate(streams):
        name = f"net{number}"
        source = make_net_source(run_passes(stream.graph), isa, name, prefer=stream.prefer)
        made = files_to_compile(source, f"test {stream.name}")
        files |= {k: v for k, v in made.items() if not k.endswith(UNUSED)}
        externs.append(f"extern const cannery_model {name}_model;")
        inputs = _in_order(stream.inputs, [t.source for t in source.inputs], np.float32)
        outputs = _in_order(stream.expected, [t.source for t in source.outputs], np.float32)
        count = len(next(iter(stream.inputs.values())))
        table.append(f"{{&{name}_model, {count}, {len(blob)}, {len(blob) + len(inputs)}}}")
        blob += inputs + outputs
    files["net_table.c"] = table_file(MAIN, "stream", externs, table)
    files["net_data.bin"] = blob
    return files


def _in_order(arrays: Mapping[str, Array], names: Sequence[str], dtype: type) -> bytes:
    """Call by call, the arrays in the order of the interface."""
    found = [arrays[name].astype(dtype) for name in names if name in arrays]
    return b"".join(a.tobytes() for call in zip(*found, strict=True) for a in call)
