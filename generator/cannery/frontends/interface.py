"""Names of a graph's inputs and outputs, and inputs of another element type, for every frontend."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from cannery.errors import OptionError, one_of
from cannery.frontends.fixed import require_inputs, with_fixed
from cannery.frontends.options import ImportOptions
from cannery.ir.graph import Graph, GraphBuilder, free_name
from cannery.ir.tensor import DType
from cannery.ops.elementwise.binary import Add, Mul
from cannery.ops.movement.op import Cast, Identity, Slice

#: Numbers of channels that may be reversed: an axis of another size does not hold colours.
_COLOURS = 3


def check_input_names(
    options: ImportOptions, inputs: Sequence[str], fixed: Sequence[str] = ()
) -> None:
    """Raises OptionError if options name an input that the model does not have.

    `fixed` are further inputs, which are constants.
    """
    require_inputs(options.fixed, (*inputs, *fixed))
    given = {"--input-dtype": options.input_dtypes, "--reverse-channels": options.reverse_channels}
    for where, names in given.items():
        for name in names:
            if name not in inputs:
                cure = one_of(name, inputs, "inputs")
                raise OptionError(f"no input is called {name!r}", where=where, cure=cure)


def declare_input(
    builder: GraphBuilder,
    name: str,
    shape: Sequence[int],
    dtype: DType,
    options: ImportOptions,
) -> str:
    """Declare the next input, and return the value that the model expects.

    If the options make it uint8, that value is scale * input + offset in float32, by the nodes
    `<input>/cast`, `<input>/scale` and `<input>/offset` (the latter two only if given).
    `<input>/channels` puts reversed channels, the last axis, in order.

    Raises OptionError if there are not as many scales or offsets as channels.
    """
    chosen = options.input_dtypes.get(name)
    value = builder.input(name, shape, chosen or dtype)
    is_reversed = name in options.reverse_channels
    if chosen is DType.UINT8:
        value = builder.node(Cast(DType.FLOAT32), [value], name=f"{name}/cast")
        both = ((Mul(), "scale", options.scale), (Add(), "offset", options.offset))
        for op, label, number in both:
            if number is not None:
                factor = _per_channel(number, label, shape)
                factor = factor[::-1] if is_reversed and factor.ndim else factor
                constant = builder.constant(f"{name}/{label}_value", factor)
                value = builder.node(op, [value, constant], name=f"{name}/{label}")
    return _in_order(builder, name, value, shape) if is_reversed else value


def _per_channel(
    number: float | tuple[float, ...], label: str, shape: Sequence[int]
) -> NDArray[np.float32]:
    """float32[] or float32[channels]."""
    channels = shape[-1] if len(shape) > 1 else 1
    if isinstance(number, tuple) and len(number) != channels:
        raise OptionError(
            f"{label} has {len(number)} numbers for {channels} channels",
            cure="give one for all channels, or one for each",
        )
    return np.asarray(number, np.float32)


def _in_order(builder: GraphBuilder, name: str, value: str, shape: Sequence[int]) -> str:
    """The value with its channels, the last axis, reversed."""
    if len(shape) < 3 or shape[-1] != _COLOURS:
        raise OptionError(
            f"reverse_channels: {list(shape)} is not an image of {_COLOURS} channels",
            cure="leave it out for this input",
        )
    others = len(shape) - 1
    starts = (*[0] * others, shape[-1] - 1)
    flip = Slice(starts, (*shape[:-1], -1), (*[1] * others, -1))
    return builder.node(flip, [value], name=f"{name}/channels")


def finish(
    builder: GraphBuilder,
    inputs: Sequence[str],
    outputs: Sequence[tuple[str, str]],
    options: ImportOptions,
) -> Graph:
    """The finished graph of `inputs` and `outputs` = (name, value), renamed by `options.rename`.

    An output that is an input, a constant, or another output gets its own Identity. Another value
    that has an output's name becomes `<name>/pre`. A repeated name gets `.1`. Inputs that the
    options fix, and that are not constants yet, become constants.

    Raises ModelError without outputs, OptionError for renaming something unknown, or to a name in
    use.
    """
    taken = {*inputs, *builder.constants}
    values = []
    for name, value in outputs:
        if value in taken:
            value = builder.node(Identity(), [value], name=builder.unique(name))
        taken.add(value)
        values.append(value)
        builder.output(value)
    graph = with_fixed(builder.build(), options.fixed)
    names = _distinct([name for name, _ in outputs], set(inputs))
    graph = _renamed(graph, dict(zip(values, names, strict=True)))
    return _rename_by_user(graph, options.rename)


def _distinct(names: Sequence[str], taken: set[str]) -> list[str]:
    result: list[str] = []
    for name in names:
        free = free_name(name, taken)
        taken.add(free)
        result.append(free)
    return result


def _rename_by_user(graph: Graph, rename: Mapping[str, str]) -> Graph:
    interface = (*graph.inputs, *graph.outputs)
    for name in rename:
        if name not in interface:
            raise OptionError(
                f"no input or output is called {name!r}",
                where="--rename",
                cure=one_of(name, interface, "there are"),
            )
    names = [rename.get(name, name) for name in interface]
    for name in names:
        if names.count(name) > 1:
            what = f"two inputs or outputs are called {name!r}"
            raise OptionError(what, where="--rename", cure="take other names")
    return _renamed(graph, dict(rename)) if rename else graph


def _renamed(graph: Graph, names: Mapping[str, str]) -> Graph:
    """The graph with values renamed, all at once; those in the way become `<name>/pre`."""
    mapping = {old: new for old, new in names.items() if old != new}
    used = set(graph.types) | set(mapping.values())
    for value in graph.types:
        if value in mapping.values() and value not in mapping:
            (fresh,) = _distinct([f"{value}/pre"], used)
            mapping[value] = fresh
    if not mapping:
        return graph

    def new(value: str) -> str:
        return mapping.get(value, value)

    return replace(
        graph,
        nodes=tuple(node.renamed(new) for node in graph.nodes),
        inputs=tuple(map(new, graph.inputs)),
        outputs=tuple(map(new, graph.outputs)),
        types={new(k): v for k, v in graph.types.items()},
        constants={new(k): v for k, v in graph.constants.items()},
    )
