"""Builds networks that run step by step into one program, and compares it with whole sequences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray

from cannery.emit.making import make_source
from cannery.emit.source import Source
from cannery.errors import OptionError
from cannery.frontends.streaming import AUTO, to_streaming
from cannery.ir.graph import Graph
from cannery.ir.tensor import DType
from cannery.layouts import nhwc
from cannery.lowering.assign import assign
from cannery.lowering.rings import share_rings
from cannery.passes import run_passes
from cannery.quantization.quantize import quantize
from cannery.target.isa import Isa
from frontends.causal_nets import sequence, wanted_in
from nets.net_bench import files_to_compile, table_file, untuned

MAIN = Path(__file__).with_name("stream_main.c")

#: Files that the program does not call.
UNUSED = ("_selftest.c", "_static.c")

#: Steps of a call. All divide the sequence; strides allow some of them.
BLOCKS = (1, 2, 3, 4, 6, 12, 24)

#: Of an image, rows are time, also where its columns could be and would need no later ones.
TIME = {"x": 1}

#: Schedules whose ids begin so are preferred, by turns: what is chosen otherwise, and what is not.
PREFER = ("", "conv.", "", "chains.", "concat.")

#: What quantised networks may lose in relation to their largest output: they are judged by others.
MAX_LOSS = 1.0

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Stream:
    """A simplified network for calls of some sizes, smallest first, which come in the order of
    `cuts`.

    Inputs and expected outputs are those of each call.
    """

    name: str
    graphs: Mapping[int, Graph]
    cuts: Sequence[int]
    inputs: Sequence[Mapping[str, Array]]
    expected: Sequence[Mapping[str, Array]]
    prefer: str = ""


def make_stream(name: str, whole: Graph, seed: int, quantized: DType | None = None) -> Stream:
    """A network for sequences of `x`, cut at random into calls of the sizes that the seed says.

    Of integer layers of a model, and of those into which layers are `quantized`, the references'
    integers are expected.
    """
    random = Random(seed)
    calls = _in_sizes(whole, _sizes(whole, random))
    x = sequence(whole, seed)
    cuts = _cuts(x.shape[1], [*calls], random)
    if quantized:
        judge, graphs = quantized_alike(whole, calls, x, quantized)
    else:
        passed, graphs = run_passes(whole), {n: run_passes(graph) for n, graph in calls.items()}
        judge = passed if passed.integer_layers else whole
    kept = [[(s, graph.types[s.input]) for s in graph.states] for graph in graphs.values()]
    assert all(states == kept[0] for states in kept), f"{name}: calls differ in their states"
    inputs = [{"x": part} for part in np.split(x, np.cumsum(cuts), 1)[: len(cuts)]]
    found = zip(*wanted_in(judge, graphs, cuts, x), strict=True)
    expected = [dict(zip(whole.outputs, parts, strict=True)) for parts in found]
    prefer = PREFER[seed % len(PREFER)]
    told = ", ".join(map(str, graphs))
    return Stream(f"{name}, {told} a call", graphs, cuts, inputs, expected, prefer)


def quantized_alike(
    whole: Graph, calls: Mapping[int, Graph], x: Array, dtype: DType
) -> tuple[Graph, dict[int, Graph]]:
    """A network for sequences, and the same for calls of all sizes, each calibrated on `x`; scales
    of calls are those of the first size.
    """
    ranges, found = None, {}
    with TemporaryDirectory() as folder:
        samples = Path(folder, "samples.npz")
        np.savez(samples, x=x)
        for block, graph in calls.items():
            passed = run_passes(graph, integers=True)
            found[block] = quantize(passed, dtype, samples, MAX_LOSS, ranges=ranges)
            facts = found[block].quantization
            ranges = facts.ranges if facts else None
        judge = quantize(run_passes(whole, integers=True), dtype, samples, MAX_LOSS)
    return judge, found


def _in_sizes(whole: Graph, blocks: Sequence[int]) -> dict[int, Graph]:
    """Networks with one state for calls of these sizes, or of one if there are none."""
    try:
        return {block: to_streaming(whole, block, AUTO, blocks, TIME) for block in blocks}
    except OptionError as error:
        assert "one size" in str(error), error
        return {blocks[0]: to_streaming(whole, blocks[0], AUTO, (), TIME)}


def _sizes(whole: Graph, random: Random) -> tuple[int, ...]:
    """One, for which strides may take several calls, or some that the strides allow."""
    if random.random() < 0.4:
        return (random.choice(BLOCKS),)
    each = {block: to_streaming(whole, block, AUTO, (), TIME) for block in BLOCKS}
    found = [block for block, graph in each.items() if _outputs_each(graph)]
    found = found or [BLOCKS[-1]]
    return tuple(sorted(random.sample(found, min(len(found), random.randint(1, 3)))))


def _outputs_each(graph: Graph) -> bool:
    return graph.calls is not None and graph.calls.every == 1


def _cuts(steps: int, blocks: Sequence[int], random: Random) -> list[int]:
    """Calls that make up the sequence, or most of it."""
    found: list[int] = []
    while fits := [n for n in blocks if n <= steps - sum(found)]:
        found.append(random.choice(fits))
    return found


def stream_files(streams: Sequence[Stream], isa: Isa) -> dict[str, bytes]:
    """All files of the program."""
    files: dict[str, bytes] = {"stream_main.c": MAIN.read_bytes()}
    table, before, blob = [], [], b""
    for number, stream in enumerate(streams):
        name = f"net{number}"
        source = _source(stream, isa, name)
        made = files_to_compile(source, f"test {stream.name}")
        files |= {k: v for k, v in made.items() if not k.endswith(UNUSED)}
        sizes = [(source, ""), *((b, f"_{b.graph.steps_of_call}") for b in source.blocks)]
        before += [f'#include "{name}.h"', *(_adapter(s, name, suffix) for s, suffix in sizes)]
        rows = ", ".join(_row(s, f"{name}_call{suffix}") for s, suffix in sizes)
        order = [s.graph.steps_of_call for s, _ in sizes]
        cuts = ", ".join(str(order.index(cut)) for cut in stream.cuts)
        before.append(f"static const call_size {name}_sizes[] = {{{rows}}};")
        before.append(f"static const unsigned char {name}_cuts[] = {{{cuts}}};")
        inputs = _in_order(stream.inputs, [t.source for t in source.step_inputs])
        outputs = _in_order(stream.expected, [t.source for t in source.step_outputs])
        at = f"{len(stream.cuts)}, {len(blob)}, {len(blob) + len(inputs)}"
        table.append(f"{{&{name}_model, {name}_sizes, {name}_cuts, {at}}}")
        blob += inputs + outputs
    files["net_table.c"] = table_file(MAIN, "stream", before, table)
    files["net_data.bin"] = blob
    return files


def _source(stream: Stream, isa: Isa, name: str) -> Source:
    """The network for all sizes, untuned, with states in place."""
    programs = []
    for graph in stream.graphs.values():
        steps, choices = untuned(graph, isa, nhwc.ORDER, stream.prefer)
        programs.append(assign(graph, steps, choices, isa, nhwc.ORDER))
    rings = share_rings(programs)
    blocks = list(zip(programs[1:], rings[1:], strict=True))
    return make_source(programs[0], isa, name, {}, rings=rings[0], blocks=blocks)


def _adapter(source: Source, name: str, suffix: str) -> str:
    """A function that takes tensors of any kind for the calls of one size."""
    given = [f"inputs[{k}]" for k in range(len(source.step_inputs))]
    made = [f"outputs[{k}]" for k in range(len(source.step_outputs))]
    words = ", ".join(["workspace", "state", *given, *made])
    return (
        f"static void {name}_call{suffix}(void *workspace, void *state, const void *const *inputs, "
        f"void *const *outputs) {{ {name}_step{suffix}_in({words}); }}"
    )


def _row(source: Source, function: str) -> str:
    sizes = [
        [t.type.bytes for t in tensors] for tensors in (source.step_inputs, source.step_outputs)
    ]
    each = (f"{{{', '.join(map(str, found))}}}" for found in sizes)
    return f"{{{function}, {', '.join(each)}}}"


def _in_order(calls: Sequence[Mapping[str, Array]], names: Sequence[str]) -> bytes:
    """Call by call, the arrays in the order of the interface."""
    return b"".join(call[name].astype(np.float32).tobytes() for call in calls for name in names)
