"""The whole way of a model, from file to C text. Each stage is one call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from cannery.choose.defaults import Defaults
from cannery.choose.half import check_half
from cannery.choose.lookup import recorded_choices, recorded_stacks
from cannery.choose.plan import Segment, make_segments
from cannery.choose.ram import Curve, workspace_bound
from cannery.choose.stacks import choose_stacks
from cannery.class_names import read_class_names
from cannery.contents import Content
from cannery.emit.dispatch import dispatching_files, part_name
from cannery.emit.files import output_files
from cannery.emit.interface import check_views
from cannery.emit.making import make_source
from cannery.emit.sections import place
from cannery.emit.sharing import shared_kernels
from cannery.emit.source import Source
from cannery.errors import OptionError
from cannery.frontends import ImportOptions, load_graph
from cannery.frontends.lengths import to_variable_length, with_times
from cannery.frontends.peepholes import add_peepholes
from cannery.frontends.streaming import MOST_STEPS, declare_states, side_by_side, to_streaming
from cannery.ir.eliminate_dead import eliminate_dead
from cannery.ir.graph import Graph
from cannery.ir.printer import format_graph
from cannery.ir.verify import verify
from cannery.layouts import nhwc, planar
from cannery.lowering.assign import MODEL_ORDER, assign
from cannery.lowering.cores import Cores
from cannery.lowering.order import least_memory_order
from cannery.lowering.printer import format_program, format_steps, format_workspace
from cannery.lowering.rings import Ring, share_rings
from cannery.lowering.stack import Stack
from cannery.ops.quantize.linear import DequantizeLinear
from cannery.option_values import BFLOATS, CODED, HALVES
from cannery.options import SPECS, Group, Options
from cannery.options_text import compile_command, option_words
from cannery.passes import run_passes
from cannery.passes.fold_constants import fold_constants
from cannery.passes.place_constants import place_constants
from cannery.passes.repeats_to_resize import repeats_to_resize
from cannery.quantization.raw import raw_interface
from cannery.quantization.scales import with_scales
from cannery.schedule.program import Choice, Program, Step
from cannery.target.isa import Isa
from cannery.target.targets import Target
from cannery.target.toolchain import resolve_target, resolve_targets

#: Receives a stage's name and its text form.
Dump = Callable[[str, str], None]


_MANY_STEPS = (
    "{}_run_many takes whole states as tensors, of each sequence; --batch computes the steps of "
    "several sequences together, with one state that stays in place"
)


@dataclass(frozen=True)
class Compiled:
    """Generated files (relative path -> content), their origins, and the source."""

    files: Mapping[str, Content]
    dependencies: tuple[Path, ...]
    source: Source


def load_model(options: Options) -> Graph:
    """The model's graph as in the file: the judge. Raises ModelError or UnsupportedError."""
    graph = declare_states(load_graph(options.model, _import_options(options)), options.state)
    if options.peepholes:
        graph = add_peepholes(graph, options.peepholes)
    verify(graph, after="import")
    if options.streaming or options.variable_length:
        # Values that depend only on constants have no time; stored integers become integer layers.
        graph = fold_constants(graph, keep=(DequantizeLinear,))
        verify(graph, after="fold_constants")
    if options.streaming:
        graph = repeats_to_resize(eliminate_dead(graph), anywhere=True)
        verify(graph, after="repeats_to_resize")
        if options.batch > 1 and min(options.block) <= MOST_STEPS:
            graph = side_by_side(graph)
        graph = to_streaming(
            graph, options.block[0], options.latency, options.block, options.time_axis
        )
        verify(graph, after="streaming")
        if options.many > 1:
            graph = replace(graph, notes=(*graph.notes, _MANY_STEPS.format(options.name)))
    if options.variable_length:
        graph = to_variable_length(graph)
    return graph


def import_graph(options: Options, dump: Dump | None = None) -> Graph:
    """The model's graph, simplified. Raises ModelError or UnsupportedError."""
    graph = with_scales(load_model(options))
    if dump:
        dump("import", format_graph(graph, weights=True))
    vary = options.weights is not None
    passed = run_passes(graph, dump, integers=bool(options.quantize), weights_vary=vary)
    graph = with_times(passed)
    if options.quantize and options.calibration:
        from cannery.quantization.quantize import quantize

        graph = quantize(
            graph, options.quantize, options.calibration, options.max_loss,
            raw=options.io_type == "raw", ranges=_ranges(options),
            weights=options.weights_as if options.weights_as in CODED else "",
            coded=_coded_layers(options),
        )  # fmt: skip
        if dump:
            dump("quantize", format_graph(graph, weights=True))
    if options.io_type == "raw":
        graph = raw_interface(graph)
        verify(graph, after="raw")
    graph = place_constants(graph)
    graph = replace(graph, weights_vary=vary)
    if options.weights_as == HALVES:
        from cannery.quantization.halves import store_halves

        graph = store_halves(graph, options.max_error, options.calibration, _half_layers(options))
        if dump:
            dump("float16", format_graph(graph, weights=True))
    if options.compute_as == HALVES:
        from cannery.quantization.half_layers import compute_in_half

        graph = compute_in_half(graph, options.max_error, options.calibration)
        verify(graph, after="float16")
        if dump:
            dump("float16", format_graph(graph, weights=True))
    if options.compute_as == BFLOATS:
        from cannery.quantization.bfloat_layers import compute_in_bfloat

        graph = compute_in_bfloat(graph, options.max_error, options.calibration)
        verify(graph, after="bfloat16")
        if dump:
            dump("bfloat16", format_graph(graph, weights=True))
    if options.max_ram is not None:
        graph = least_memory_order(graph)
    if options.same_everywhere:
        from cannery.quantization.everywhere import require_same_everywhere

        require_same_everywhere(graph)
    return graph


def _ranges(options: Options) -> tuple[tuple[int, float], ...] | None:
    """The ranges that are known before samples are looked at.

    Calls of all sizes read the same state, so they have the ranges of the smallest.
    """
    smallest = min(options.block)
    if options.ranges is not None or options.block[0] == smallest:
        return options.ranges
    order = (smallest, *(size for size in options.block if size != smallest))
    graph = import_graph(replace(options, block=order))
    if graph.calls and graph.calls.every > 1:
        whole = graph.calls.steps * graph.calls.every
        raise OptionError(
            f"calls of {smallest} steps keep those that layers with strides wait for as floats",
            where="--quantize", cure=f"give sizes of --block that are multiples of {whole}, or one",
        )  # fmt: skip
    assert graph.quantization is not None
    return graph.quantization.ranges


def _half_layers(options: Options) -> tuple[str, ...] | None:
    """The layers with weights as float16 where others decide: calls of all sizes have the same."""
    graph = _of_smallest_block(options)
    if graph is None:
        return None
    assert graph.half_weights is not None
    return graph.half_weights.layers


def _coded_layers(options: Options) -> tuple[str, ...] | None:
    """The layers whose weights have few levels, in the same way."""
    graph = _of_smallest_block(options) if options.weights_as in CODED else None
    if graph is None:
        return None
    assert graph.quantization is not None
    assert graph.quantization.codes is not None
    return graph.quantization.codes.layers


def _of_smallest_block(options: Options) -> Graph | None:
    """The network for the shortest calls; None if it is this one."""
    smallest = min(options.block)
    if options.block[0] == smallest:
        return None
    order = (smallest, *(size for size in options.block if size != smallest))
    return import_graph(replace(options, block=order))


def judge_graph(options: Options) -> Graph:
    """What the generated network must compute: the model, or the integers that it became."""
    graph = import_graph(options)
    integer = graph.quantization or graph.integer_layers or options.io_type == "raw"
    return graph if integer else load_model(options)


def _import_options(options: Options) -> ImportOptions:
    return ImportOptions(
        batch=options.batch,
        outputs=options.outputs,
        input_dtypes=options.input_dtype,
        scale=options.scale,
        offset=options.offset,
        reverse_channels=options.reverse_channels,
        dims=options.dims,
        streaming=options.streaming,
        noise=options.noise,
        fixed=options.fixed,
        max_trips=options.max_trips,
        custom=options.custom,
    )


def io_order(options: Options) -> str:
    """The order of images at the interface."""
    return {"nchw": planar.ORDER, "nhwc": nhwc.ORDER}.get(options.io_layout, MODEL_ORDER)


@dataclass(frozen=True)
class Chosen:
    """The cut, one choice per step, and the record that they come from (None: estimated).

    `stacks` are computed for several images at once, largest first.
    """

    steps: tuple[Step, ...]
    choices: tuple[Choice, ...]
    record: Path | None
    stacks: tuple[Stack, ...] = ()


def choose(graph: Graph, target: Target, options: Options) -> Chosen:
    """The cut and one choice per step: from the record if there is one, else estimated.

    Raises OptionError for layers in half precision on a processor that does not compute so, and for
    `max_flash` on one that is no microcontroller.
    """
    check_half(graph, target)
    if options.max_flash is not None and not target.isa.is_small:
        raise OptionError(
            f"how much code {target.name} takes is not known; it is of microcontrollers",
            where="--max-flash", cure="take --max-size, which bounds the constants",
        )  # fmt: skip
    segments = make_segments(graph, depth_first=options.max_ram is not None)
    record, known = recorded_choices(graph, segments, target, options)
    defaults = defaults_of(graph, segments, target.isa, options)
    best = defaults.plan(known)
    steps = best.steps(segments)
    stacks: tuple[Stack, ...] = ()
    if options.many > 1 and not options.dump_values:  # which shows runs one by one
        told = recorded_stacks(graph, steps, best.choices, target, options)
        stacks = choose_stacks(graph, steps, best.choices, target.isa, options.many, told)
    return Chosen(steps, best.choices, record, stacks)


def defaults_of(graph: Graph, segments: Sequence[Segment], isa: Isa, options: Options) -> Defaults:
    """What chooses where nothing was measured."""
    return Defaults(
        graph, segments, isa, io_order(options), options.max_error,
        max_size=options.max_size, max_ram=options.max_ram,
        max_flash=options.max_flash, views=options.input_view, locked=options.locked,
    )  # fmt: skip


def ram_curve(options: Options) -> Curve:
    """Memory against estimated time of a network without a tuning record."""
    target, graph = resolve_target(options), least_memory_order(import_graph(options))
    segments = make_segments(graph, depth_first=True)
    return defaults_of(graph, segments, target.isa, options).ram_curve()


#: Options that `cannery weights` does not take from the manifest: files, tools, the processor.
_NOT_KEPT = (
    "target", "isa", "custom",
    *(s.name for s in SPECS if s.is_path or s.group in (Group.TUNING, Group.TOOLS)),
)  # fmt: skip


def _regenerating(options: Options) -> tuple[str, ...]:
    """Words of the command line that, with a target, make the same code of another model."""
    return tuple(option_words(options, _NOT_KEPT))


def generate(
    graph: Graph, isa: Isa, chosen: Chosen, options: Options, dump: Dump | None = None
) -> Source:
    """Layouts, kernels and memory plan for an imported graph."""
    planned = Planned(isa, (make_program(graph, isa, chosen, options, dump),), chosen)
    (rings,) = share_rings(planned.programs)
    return source_of(planned, (rings,), options, dump)


@dataclass(frozen=True)
class Planned:
    """One instruction set: the programs for calls of each size, and what was chosen for the
    first.
    """

    isa: Isa
    programs: tuple[Program, ...]
    chosen: Chosen
    target: str = ""


def make_program(
    graph: Graph, isa: Isa, chosen: Chosen, options: Options, dump: Dump | None = None
) -> Program:
    """Layouts and buffers for an imported graph."""
    if dump:
        dump("steps", format_steps(graph, chosen.steps, chosen.choices))
    order = io_order(options)
    check_views(graph, options.input_view, order)
    return assign(graph, chosen.steps, chosen.choices, isa, order, options.input_view)


def source_of(
    planned: Planned, rings: Sequence[Sequence[Ring]], options: Options, dump: Dump | None = None
) -> Source:
    """Kernels and memory plan; `rings` are the states that stay in place, for each program."""
    program, graph = planned.programs[0], planned.programs[0].graph
    cores = Cores(options.openmp) if options.parallel or options.openmp else None
    source = make_source(
        program, planned.isa, options.name, options.rename, planned.chosen.stacks, cores,
        options.max_lines, rings[0], list(zip(planned.programs[1:], rings[1:], strict=True)),
        workspace_bound(program, planned.isa, options.max_ram), options.fast_ram,
    )  # fmt: skip
    source = replace(
        source, max_error=graph.error_bound(options.max_error), split=options.split,
        shared=options.shared,
        trace=options.trace_steps, dump=options.dump_values, compiled_nn=options.compiled_nn,
        class_names=_class_names(source, options), metadata=options.metadata,
        part=len(options.isa) > 1, target=planned.target,
        options=_regenerating(options) if graph.weights_vary else (),
    )  # fmt: skip
    if planned.isa.is_microcontroller and source.split == 1 and not source.apart:
        source = replace(source, calls=shared_kernels(source.calls, source.blob, planned.isa))
    _check_ram(source, options)
    _check_fast_ram(source, options)
    if dump:
        dump("program", format_program(program))
        dump("workspace", format_workspace(program, source.workspace))
    return source


def _check_ram(source: Source, options: Options) -> None:
    """Raise OptionError if calls of all sizes together take more than `max_ram`."""
    taken = source.single_bytes + source.states.bytes
    if options.max_ram is not None and taken > options.max_ram:
        raise OptionError(
            f"workspace and state of all calls together take {taken:,} bytes",
            where="--max-ram", cure=f"give {taken}, or fewer sizes with --block",
        )  # fmt: skip


def _check_fast_ram(source: Source, options: Options) -> None:
    """Raise OptionError if not even one value could begin in the fast memory."""
    if options.fast_ram is not None and source.fast_bytes > options.fast_ram:
        raise OptionError(
            f"{options.fast_ram} bytes hold nothing, as values begin at multiples of "
            f"{source.fast_bytes}",
            where="--fast-ram", cure=f"give {source.fast_bytes} or more",
        )  # fmt: skip


def _class_names(source: Source, options: Options) -> tuple[str, ...]:
    """The names of the classes: those that are given, else the model's."""
    if options.class_names is None:
        return source.graph.class_names
    sizes = [t.type.shape[-1] for t in source.outputs if t.type.shape]
    return read_class_names(options.class_names, sizes)


def compile_model(options: Options, dump: Dump | None = None) -> Compiled:
    """From a model file to the content of the output folder; `dump` receives every stage."""
    _targets(options)  # a wrong target is an error before the model is read
    return compile_graph(import_graph(options, dump), options, dump)


def compile_graph(graph: Graph, options: Options, dump: Dump | None = None) -> Compiled:
    """The same for a graph that `import_graph` read with these options."""
    further = [(import_graph(each), replace(each, many=1)) for each in options.each_block[1:]]
    return compile_graphs([(graph, options), *further], dump)


def compile_graphs(blocks: Sequence[tuple[Graph, Options]], dump: Dump | None = None) -> Compiled:
    """The same for the graphs of all blocks, with the options of each."""
    graph, options = blocks[0]
    for other, _ in blocks[1:]:
        _check_state(graph, other)
    targets = _targets(options)
    planned, records = [], []
    for target in targets:
        each, found = _plan(blocks, target, dump)
        planned.append(each)
        records += found
    rings = iter(share_rings([program for each in planned for program in each.programs]))
    parts = []
    for each in planned:
        name = part_name(options.name, each.isa) if len(targets) > 1 else options.name
        own = [next(rings) for _ in each.programs]
        parts.append(source_of(each, own, replace(options, name=name), dump))
    command = compile_command(options, ("model", *_NOT_KEPT) if graph.weights_vary else ())
    several = len(parts) > 1
    files = (
        dispatching_files(options.name, parts, command)
        if several
        else place(output_files(parts[0], command), options.name, options.section)
    )
    named = [options.class_names] if options.class_names else []
    return Compiled(files, (options.model, *graph.files, *records, *named), parts[0])


def _check_state(graph: Graph, other: Graph) -> None:
    """Raise OptionError unless calls of both networks read what the other's calls leave."""
    first, found = ([(s, g.types[s.input]) for s in g.states] for g in (graph, other))
    if first != found:
        raise OptionError(
            f"calls of {other.steps_of_call} steps keep another state than those of "
            f"{graph.steps_of_call}",
            where="--quantize", cure="give one --block",
        )  # fmt: skip


def _plan(
    blocks: Sequence[tuple[Graph, Options]], target: Target, dump: Dump | None
) -> tuple[Planned, list[Path]]:
    """The programs for a target, and the records that they come from."""
    programs, chosen = [], []
    for k, (graph, options) in enumerate(blocks):
        chosen.append(choose(graph, target, options))
        shown = None if k else dump
        programs.append(make_program(graph, target.isa, chosen[-1], options, shown))
    records = [each.record for each in chosen if each.record]
    return Planned(target.isa, tuple(programs), chosen[0], target.name), records


def _targets(options: Options) -> tuple[Target, ...]:
    """The targets to generate for; several instruction sets make one library."""
    if len(options.isa) > 1:
        return resolve_targets(options)
    return (resolve_target(options),)
