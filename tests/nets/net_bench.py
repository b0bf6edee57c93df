"""Builds whole networks for one target into one program, runs it once, and reports the errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cannery.choose.defaults import Defaults
from cannery.choose.plan import Segment, make_segments, overlap
from cannery.emit.files import output_files
from cannery.emit.making import make_source
from cannery.emit.source import Source
from cannery.ir.evaluate import evaluate
from cannery.ir.graph import Graph
from cannery.ir.registry import RefArray
from cannery.layouts import nhwc
from cannery.lowering.assign import assign
from cannery.lowering.cores import Cores
from cannery.lowering.lifetimes import buffer_bytes
from cannery.lowering.stack import Stack, stacked_choices
from cannery.measure.build import ninja_file, run_ninja, write
from cannery.passes import run_passes
from cannery.schedule.program import Choice, Step
from cannery.schedule.schedule import legal
from cannery.target.isa import Isa
from cannery.target.runner import Runner
from cannery.target.toolchain import Toolchain

MAIN = Path(__file__).with_name("net_main.c")


#: What networks may do by default, in relation to their largest output.
MAX_ERROR = 1e-4

#: How many inputs are computed at once, in addition to single ones.
STACKED = (3, 2)


#: What networks prefer that save memory.
DEPTH_FIRST = "chains.depth_first"


@dataclass(frozen=True)
class Net:
    """A graph as it was imported, its inputs, and the outputs that it should give (by name).

    `prefer`: schedules whose ids begin so are taken wherever they are legal. `begins`: the inputs
    that are states are those after a reset, from which steps are tried, too.
    """

    name: str
    graph: Graph
    inputs: Mapping[str, RefArray]
    expected: Mapping[str, RefArray]
    prefer: str = ""
    begins: bool = False


@dataclass(frozen=True)
class Verdict:
    """max|y - r| / max|r| over all outputs of a network, and what else was wrong."""

    name: str
    error: float
    fault: str


def reference_net(name: str, graph: Graph, seed: int = 0, prefer: str = "") -> Net:
    """A network judged by the references on normal random inputs."""
    rng = np.random.default_rng(seed)
    inputs = {v: rng.standard_normal(graph.types[v].shape).astype(np.float32) for v in graph.inputs}
    return Net(name, graph, inputs, evaluate(graph, inputs), prefer)


def beginning_net(name: str, graph: Graph, seed: int = 0) -> Net:
    """The same for a network that runs step by step, with its state as it is after a reset."""
    net = reference_net(name, graph, seed)
    inputs = dict(net.inputs)
    for state in graph.states:
        type_ = graph.types[state.input]
        first = np.array(state.initial) if state.initial else np.zeros(type_.elements)
        inputs[state.input] = first.astype(type_.dtype.numpy).reshape(type_.shape)
    return Net(name, graph, inputs, evaluate(graph, inputs), begins=True)


def make_net_source(
    graph: Graph, isa: Isa, name: str, io_order: str = nhwc.ORDER, *, views: bool = False,
    cores: Cores | None = None, prefer: str = "",
) -> Source:  # fmt: skip
    """The untuned program of a simplified graph; with `views`, every other image is one.

    `prefer` as in `Net`.
    """
    steps, choices = untuned(graph, isa, io_order, prefer)
    viewed = [v for v in graph.inputs if views and may_be_view(graph, v)]
    program = assign(graph, steps, choices, isa, io_order, viewed)
    stacks = [all_stacked(graph, steps, choices, isa, n) for n in STACKED]
    return make_source(program, isa, name, {}, stacks, cores)


def untuned(
    graph: Graph, isa: Isa, io_order: str, prefer: str
) -> tuple[Sequence[Step], Sequence[Choice]]:
    """The steps of a simplified graph, and what the cost model takes for them."""
    segments = make_segments(graph, depth_first=prefer == DEPTH_FIRST)
    known = preferred(graph, segments, isa, prefer) if prefer else {}
    best = Defaults(graph, segments, isa, io_order, MAX_ERROR).plan(known)
    return best.steps(segments), best.choices


def preferred(
    graph: Graph, segments: Sequence[Segment], isa: Isa, prefix: str
) -> dict[int, Choice]:  # fmt: skip
    """Choices of schedules whose ids begin so, wherever one is legal, the longest steps first."""
    found: dict[int, Choice] = {}
    for index in sorted(range(len(segments)), key=lambda k: segments[k].first - segments[k].end):
        ways = [s for s in legal(graph, segments[index].step, isa) if s.id.startswith(prefix)]
        if ways and not any(overlap(segments[index], segments[other]) for other in found):
            way = ways[index % len(ways)]
            options = way.candidates(graph, segments[index].step, isa)
            found[index] = Choice(way, options[index % len(options)])
    return found


def may_be_view(graph: Graph, value: str) -> bool:
    """Of the images that may be a view every other one, by the parity of their rows."""
    shape = graph.types[value].shape
    return len(shape) == 4 and shape[0] == 1 and shape[1] % 2 == 1


def all_stacked(
    graph: Graph, steps: Sequence[Step], choices: Sequence[Choice], isa: Isa, images: int
) -> Stack:
    """Every step that can be is stacked, whether that gains or not; the ways differ by `images`."""
    found = {}
    for step, choice in zip(steps, choices, strict=True):
        ways = stacked_choices(graph, step, choice, images, isa)
        if ways:
            found[step.outputs[0]] = ways[images % len(ways)]
    return Stack(images, found)


def kept_ranges(source: Source) -> list[tuple[int, int]]:
    """(offset, bytes) of what a run relies on from run to run: buffers with a pinned halo."""
    offsets = source.workspace.offsets
    return [(offsets[n], buffer_bytes(source.program, n)) for n in sorted(source.workspace.pinned)]


def _data(net: Net, source: Source) -> tuple[bytes, bytes]:
    inputs = [np.ascontiguousarray(t.from_graph(net.inputs[t.source])) for t in source.inputs]
    expected = zip(source.outputs, net.expected.values(), strict=True)
    outputs = [np.ascontiguousarray(t.from_graph(e).astype(np.float32)) for t, e in expected]
    return b"".join(a.tobytes() for a in inputs), b"".join(a.tobytes() for a in outputs)


def program_files(nets: Sequence[Net], isa: Isa, io_order: str) -> dict[str, bytes]:
    """All files of the program."""
    files: dict[str, bytes] = {"net_main.c": MAIN.read_bytes()}
    table, ranges, externs, blob = [], [], [], b""
    for number, net in enumerate(nets):
        name = f"net{number}"
        source = make_net_source(
            run_passes(net.graph),
            isa,
            name,
            io_order,
            views=io_order == nhwc.ORDER,
            prefer=net.prefer,
        )
        files |= files_to_compile(source, f"test {net.name}")
        stored, expected = _data(net, source)
        externs.append(f"extern const cannery_model {name}_model;")
        externs.append(f"int {name}_selftest(void *workspace);")
        kept = [f"{{{at}, {size}}}" for at, size in kept_ranges(source)]
        ranges.append(f"static const range kept{number}[] = {{{', '.join([*kept, '{0, 0}'])}}};")
        at = len(blob)
        ends = f"{at}, {at + len(stored)}, {int(net.begins)}"
        row = f"{{&{name}_model, {name}_selftest, kept{number}, {ends}}}"
        table.append(row)
        blob += stored + expected
    files["net_table.c"] = table_file(MAIN, "net", [*externs, *ranges], table)
    files["net_data.bin"] = blob
    return files


def files_to_compile(source: Source, command: str) -> dict[str, bytes]:
    """What a program with a network needs of its output folder."""
    found = output_files(source, command).items()
    return {path: data for path, data in found if not path.endswith((".json", ".hpp"))}


def table_file(main: Path, kind: str, before: Sequence[str], rows: Sequence[str]) -> bytes:
    """The rows that a program's main file declares as `<kind>s`, and its data, `net_data.bin`."""
    head = main.read_text().split("extern const unsigned char net_data")[0].split("*/", 1)[1]
    return "\n".join(
        [
            head, *before, f"extern const {kind} {kind}s[];", f"extern const int {kind}_count;",
            f"const {kind} {kind}s[] = {{{', '.join(rows)}}};",
            f"const int {kind}_count = {len(rows)};",
            '__asm__(".section .rodata\\n.globl net_data\\nnet_data:\\n"',
            '        ".incbin \\"net_data.bin\\"\\n.previous\\n");', "",
        ]
    ).encode()  # fmt: skip


def build_nets(
    folder: Path, nets: Sequence[Net], toolchain: Toolchain, io_order: str = nhwc.ORDER
) -> Path:
    """The program; raises AssertionError with the compiler's words if it does not build."""
    return build_files(folder, program_files(nets, toolchain.target.isa, io_order), toolchain)


def build_files(folder: Path, files: Mapping[str, bytes], toolchain: Toolchain) -> Path:
    """A program of files; raises AssertionError with the compiler's words if it does not build."""
    folder.mkdir(parents=True, exist_ok=True)
    write(folder, files)
    sources = [path for path in files if path.endswith(".c")]
    failures = run_ninja(folder, ninja_file(toolchain, sources, executable="nets"))
    assert not failures, "\n".join(f"{k}: {v}" for k, v in failures.items())
    return folder / "nets"


def run_nets(executable: Path, names: Sequence[str], runner: Runner) -> list[Verdict]:
    """One verdict per network, in order."""
    lines = runner.run(executable)
    found = [Verdict(names[x["net"]], float(x["error"]), str(x["fault"])) for x in lines]
    assert [v.name for v in found] == [*names]
    return found


def failures(verdicts: Sequence[Verdict], bound: float) -> list[str]:
    """What is wrong, one line per network."""
    return [
        f"{v.name}: error {v.error:.3g} {v.fault}"
        for v in verdicts
        if v.fault or not v.error <= bound
    ]
