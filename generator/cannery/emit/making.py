"""Makes the Source of a Program: kernels in order, their constants, places in memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, islice

from cannery.ctext.apart import pull_apart
from cannery.ctext.arrays import WeightBlob, all_apart, split_constants
from cannery.ctext.base_pointer import with_base_pointer
from cannery.ctext.halves import make_kernel
from cannery.ctext.known import Aliases, KnownConstants
from cannery.ctext.tidy import tidy
from cannery.emit.interface import Tensor, interface
from cannery.emit.many import ManyMaker
from cannery.emit.parallel import make_parallel
from cannery.emit.source import LAYOUT_HASH, Source, model_hash
from cannery.emit.states import counts_calls, make_states
from cannery.emit.steps import Call, make_job, root_variables, step_symbol
from cannery.layouts import image_dims
from cannery.lowering.cores import Cores
from cannery.lowering.lifetimes import Workspace, plan_workspace
from cannery.lowering.memory_plan import align
from cannery.lowering.rings import Ring, find_rings
from cannery.lowering.stack import Stack
from cannery.ops.shared.function import kernel_of_nothing
from cannery.options import MAX_LINES
from cannery.schedule.ahead import weights_ahead
from cannery.schedule.program import VIEW, PlannedStep, Program
from cannery.schedule.schedule import Job, Kernel, Schedule
from cannery.target.isa import Isa


def make_source(
    program: Program,
    isa: Isa,
    name: str,
    rename: Mapping[str, str],
    stacks: Sequence[Stack] = (),
    cores: Cores | None = None,
    max_lines: int = MAX_LINES,
    rings: Sequence[Ring] | None = None,
    blocks: Sequence[tuple[Program, Sequence[Ring]]] = (),
    max_ram: int | None = None,
    fast_ram: int | None = None,
) -> Source:
    """Generate all kernels, in functions of `max_lines`, and lay out the workspace.

    `stacks` are what `run_many` computes at once, largest first. With `cores`, the network may run
    on several cores. `rings` are the states that are kept in place (None: all that can be),
    `blocks` the programs for calls of further sizes, with their rings. Above `max_ram` bytes of
    workspace, fewer halos stay zero from run to run. With `fast_ram`, the workspace has two
    regions, the fast one of up to so many bytes.
    """
    apart = program.graph.weights_vary
    known = KnownConstants(vary=apart)
    counted = any(map(counts_calls, (program.graph, *(p.graph for p, _ in blocks))))
    single = _Making(
        program, isa, name, name, max_lines, counted, max_ram=max_ram, fast_ram=fast_ram
    )
    further = [
        _Making(p, isa, name, f"{name}_B{p.graph.steps_of_call}", max_lines, counted, own, max_ram)
        for p, own in blocks
    ]
    maker = ManyMaker(program, isa, name, stacks, known)
    made = single.kernels(cut=cores is not None)
    all_kernels = chain(
        known.noting(made) if stacks or blocks else made, maker.kernels(),
        *(each.without(known) for each in further),
    )  # fmt: skip
    kernels, blob = (all_apart if apart else split_constants)(name, all_kernels)
    left = iter(kernels)
    if rings is None:
        rings = find_rings(program)
    source = single.source(rename, islice(left, len(single.symbols)), blob, rings)
    stacked = list(islice(left, len(maker.steps)))
    placed = [
        each.source(rename, islice(left, len(each.symbols)), blob, each.rings) for each in further
    ]
    if apart:
        stacked = [replace(k, code=_reading(k.code, name, blob)) for k in stacked]
        constants = (s.constant for s in source.states.slots if s.constant)
        initial = blob.followed_by(constants)
        blob = replace(initial, offsets=(*blob.offsets, *initial.offsets))
    return replace(
        source, blob=blob, many=maker.finish(stacked), blocks=_in_one_memory(source, placed),
        parallel=make_parallel(program, isa, source.calls, cores) if cores else None,
    )  # fmt: skip


def _in_one_memory(first: Source, others: Sequence[Source]) -> tuple[Source, ...]:
    """The sources with their places in one workspace: apart if a halo there must stay zero."""
    apart = any(source.workspace.pinned for source in (first, *others))
    base, found = align(first.own_bytes) if apart else 0, []
    for source in others:
        found.append(replace(source, base=base))
        base = align(found[-1].own_bytes) if apart else 0
    return tuple(found)


@dataclass
class _Making:
    """The functions of one program; their names begin with `prefix`.

    With `rings`, it only runs with these in place, and there are no functions for steps that the
    rings spare. `counted`: its states have a place for the number of calls, which functions for
    calls of other sizes may need.
    """

    program: Program
    isa: Isa
    name: str
    prefix: str
    max_lines: int
    counted: bool
    rings: Sequence[Ring] = ()
    max_ram: int | None = None
    fast_ram: int | None = None
    aliases: dict[int, Aliases] = field(default_factory=dict)

    @cached_property
    def symbols(self) -> dict[int, str]:
        """The functions' names, by the number of the step."""
        spared = frozenset().union(*(ring.spared for ring in self.rings))
        steps = enumerate(self.program.steps)
        return {k: step_symbol(self.prefix, k, p) for k, p in steps if k not in spared}

    @cached_property
    def variables(self) -> dict[str, str]:
        """C variable of every root buffer."""
        return root_variables(self.program)

    def kernels(self, *, cut: bool = False) -> Iterator[Kernel]:
        """Of each step; `cut` is as in `Job`."""
        ahead = weights_ahead(self.program, self.isa)
        for k, symbol in self.symbols.items():
            planned = self.program.steps[k]
            job = make_job(self.program, planned, self.isa, symbol, cut=cut, ahead=ahead[k])
            yield _kernel(planned.choice.schedule, job)

    def without(self, known: KnownConstants) -> Iterator[Kernel]:
        """The same without constants that exist already, which become `aliases`."""
        for k, kernel in zip(self.symbols, self.kernels(), strict=True):
            kept, self.aliases[k] = known.taken_from(kernel)
            yield kept

    def source(
        self, rename: Mapping[str, str], made: Iterable[Kernel], blob: WeightBlob,
        rings: Sequence[Ring],
    ) -> Source:  # fmt: skip
        """All of it; `made` are the kernels, perhaps with fewer constants."""
        program, graph = self.program, self.program.graph
        kernels = dict(zip(self.symbols, made, strict=True))
        scratch = [
            kernels[k].scratch_bytes if k in kernels else 0 for k in range(len(program.steps))
        ]
        workspace = plan_workspace(program, scratch, self.rings, self.max_ram, self.fast_ram, rings)
        views = [b.value for b in program.buffers.values() if b.storage == VIEW]
        inputs, outputs = interface(graph, rename, program.io_order, views)
        ports = {t.source: t for t in inputs}
        calls = tuple(
            self._call(k, kernel, workspace, ports, blob) for k, kernel in kernels.items()
        )
        states = make_states(graph, inputs, outputs, rings, counted=self.counted)
        hash_ = LAYOUT_HASH if graph.weights_vary else model_hash(graph)
        return Source(
            self.name, graph, self.isa, program, workspace, calls, inputs, outputs, hash_, blob,
            states=states,
        )  # fmt: skip

    def _call(
        self, k: int, kernel: Kernel, workspace: Workspace, ports: Mapping[str, Tensor],
        blob: WeightBlob,
    ) -> Call:  # fmt: skip
        program, planned, symbol = self.program, self.program.steps[k], self.symbols[k]
        clears = tuple(n for n, first in workspace.zeroed.items() if first == k)
        pointers = _pointers(program, planned, kernel, self.variables, ports)
        scratch = ""
        if kernel.scratch_bytes:
            scratch = f"(float *)(void *)({workspace.place(workspace.scratch[k])})"
        written = program.buffers[planned.writes[0]]
        images = 1 if kernel.whole else image_dims(written.type)[0]
        code = pull_apart(tidy(kernel.code), symbol, self.max_lines)
        apart = program.graph.weights_vary
        kernel = replace(kernel, code=_reading(code, self.name, blob) if apart else code)
        rows, aliases = written.layout.shape[0], self.aliases.get(k, ())
        return Call(k, planned, symbol, kernel, pointers, scratch, rows, images, clears, aliases)


def _pointers(
    program: Program, planned: PlannedStep, kernel: Kernel, variables: Mapping[str, str],
    ports: Mapping[str, Tensor],
) -> tuple[str, ...]:  # fmt: skip
    arguments = []
    batched = not kernel.whole and image_dims(program.buffers[planned.writes[0]].type)[0] > 1
    for name in (*planned.reads, *planned.writes):
        buffer = program.buffers[name]
        pointer = variables[buffer.root]
        arguments.append(f"{pointer} + n * {buffer.layout.elements}" if batched else pointer)
        if buffer.storage == VIEW:
            arguments += ports[buffer.value].strides
    return tuple(arguments)


def _reading(code: str, name: str, blob: WeightBlob) -> str:
    """Code that reads the arrays of a blob through the pointer that the program sets."""
    names = [array for array, _, _ in blob.offsets]
    return with_base_pointer(code, names, f"CANNERY_WEIGHTS_AT({name}_weights_base)")


def _kernel(schedule: Schedule, job: Job) -> Kernel:
    """The kernel of a step; it does nothing if there is nothing to compute."""
    if not any(job.type(value).elements for value in job.step.outputs):
        return kernel_of_nothing(job)
    return make_kernel(schedule, job)
