"""The tensors of a network at its C interface: names, shapes, parameters."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from cannery.ctext.literals import c_float
from cannery.errors import OptionError, one_of
from cannery.ir.graph import Graph, Scale
from cannery.ir.registry import RefArray
from cannery.ir.tensor import TensorType
from cannery.layouts import nhwc, planar
from cannery.lowering.assign import interface_order
from cannery.names import make_identifier

#: The variable that counts images in generated functions.
ITEM = "item_number"

#: The variable of the run function that holds when the last step ended.
LAST = "cannery_last"


@dataclass(frozen=True)
class Tensor:
    """An input or output at the C interface; `name` is its C identifier."""

    name: str
    source: str
    type: TensorType
    order: str = nhwc.ORDER
    view: bool = False
    scale: Scale | None = None

    @property
    def pixel_stride(self) -> str:
        """The parameter for the distance between a view's pixels."""
        return f"{self.name}_pixel_stride"

    @property
    def row_stride(self) -> str:
        """The parameter for the distance between a view's rows."""
        return f"{self.name}_row_stride"

    @property
    def strides(self) -> tuple[str, ...]:
        """The parameters that follow the tensor's own."""
        return (self.pixel_stride, self.row_stride) if self.view else ()

    @property
    def dense_strides(self) -> tuple[int, ...]:
        """The `strides` of an image without gaps, in elements."""
        _, _, w, c = self.type.shape if self.view else (0, 0, 0, 0)
        return (c, w * c) if self.view else ()

    @property
    def dims(self) -> tuple[int, ...]:
        """Dimensions in the caller's memory, the last varying fastest."""
        shape = self.type.shape
        if self.order == planar.ORDER:
            return (shape[0], shape[3], shape[1], shape[2])
        return shape

    def to_graph(self, array: RefArray) -> RefArray:
        """An array in the interface's order, in the order of the graph."""
        return np.moveaxis(array, 1, -1) if self.order == planar.ORDER else array

    def from_graph(self, array: RefArray) -> RefArray:
        """The inverse of `to_graph`."""
        return np.moveaxis(array, -1, 1) if self.order == planar.ORDER else array

    def axis(self, axis: int) -> int:
        """Where an axis of the graph's value is among `dims`."""
        return (0, 2, 3, 1)[axis] if self.order == planar.ORDER else axis

    @property
    def text(self) -> str:
        """`float32[1x3x60x80] (NCHW)`."""
        note = {4: " (NCHW)" if self.order == planar.ORDER else " (NHWC)"}.get(len(self.dims), "")
        return f"{self.type.dtype.value}[{'x'.join(map(str, self.dims))}]{note}"

    @property
    def macro(self) -> str:
        return self.name.upper()

    @property
    def scale_c(self) -> str:
        """The scale as C, 0 where there is none."""
        return c_float(self.scale.scale) if self.scale else "0.0f"

    @property
    def zero_point(self) -> int:
        """The zero point, 0 where there is none."""
        return self.scale.zero_point if self.scale else 0


#: The names of generated functions' other parameters and variables.
_PARAMETERS = (
    "workspace", "state", "pool", "length", "lengths", "n", "at", "next", "call", "counter", "done",
    "ws", "fast", "quick", ITEM, LAST,
)  # fmt: skip


def interface(
    graph: Graph, rename: Mapping[str, str], io_order: str, views: Collection[str] = ()
) -> tuple[tuple[Tensor, ...], ...]:
    """(inputs, outputs) with unique C identifiers made from the tensor names.

    Raises OptionError if `rename` names an unknown tensor, or takes another one's name.
    """
    taken = {*_PARAMETERS}

    def tensor(value: str) -> Tensor:
        name = rename.get(value) or _own_name(graph, value)
        order, view = interface_order(graph, value, io_order), value in views
        made = Tensor(name, value, graph.types[value], order, view, graph.scales.get(value))
        k = 1
        while taken & {made.name, *made.strides}:
            k += 1
            made = replace(made, name=f"{name}_{k}")
        taken.update((made.name, *made.strides))
        return made

    unknown = sorted(set(rename) - {*graph.inputs, *graph.outputs})
    if unknown:
        raise OptionError(
            f"there is no tensor {unknown[0]!r} to rename",
            where="--rename",
            cure=one_of(unknown[0], (*graph.inputs, *graph.outputs)),
        )
    _check_renames(graph, rename)
    return tuple(map(tensor, graph.inputs)), tuple(map(tensor, graph.outputs))


def check_views(graph: Graph, views: Collection[str], io_order: str) -> None:
    """Raise OptionError for views that are not inputs, not images, empty, or not channels last."""
    for value in views:
        if value not in graph.inputs:
            raise OptionError(
                f"no input is called {value!r}", where="--input-view",
                cure=one_of(value, graph.inputs, "inputs"),
            )  # fmt: skip
        type_ = graph.types[value]
        if type_.rank != 4 or type_.shape[0] != 1:
            raise OptionError(
                f"{value!r} is {type_}, only one image (of height, width, channels) can be a view",
                where="--input-view", cure="leave it out",
            )  # fmt: skip
        if not type_.elements:
            raise OptionError(
                f"{value!r} is {type_}, without a pixel", where="--input-view", cure="leave it out"
            )
        if interface_order(graph, value, io_order) == planar.ORDER and type_.shape[3] > 1:
            raise OptionError(
                f"{value!r} has channels first, and a view keeps the channels of a pixel together",
                where="--input-view", cure="--io-layout nhwc",
            )  # fmt: skip


def _own_name(graph: Graph, value: str) -> str:
    """The C name of an input or output, unless it is taken."""
    for state in graph.states:
        if value == state.output != state.input and value.startswith(state.input):
            return f"{_own_name(graph, state.input)}_next"
    short = value.rsplit("/", 1)[0] if value in graph.outputs else value
    return make_identifier(short.split(":")[0]).lower()


def _check_renames(graph: Graph, rename: Mapping[str, str]) -> None:
    """Raise OptionError if a new name is taken; names that differ only in case share a macro."""
    owners = dict.fromkeys(_PARAMETERS, "a parameter of the generated functions")
    for value in (*graph.inputs, *graph.outputs):
        if value not in rename:
            owners.setdefault(_own_name(graph, value), f"tensor {value!r}")
    for value, name in rename.items():
        if name.lower() in owners:
            raise OptionError(
                f"{value!r} cannot be called {name!r}, because {owners[name.lower()]} has that "
                f"name",
                where="--rename",
                cure="take another name, or rename both",
            )
        owners[name.lower()] = f"tensor {value!r}"


#: The parameter for the number of steps of a sequence.
LENGTH = "length"


def parameters(
    inputs: Sequence[Tensor], outputs: Sequence[Tensor], *, many: bool = False, length: bool = False
) -> list[tuple[str, str]]:
    """The parameters of a generated function for its tensors: each type, followed by the name.

    `many`: each is n tensors, one after the other; a view is n pointers. `length`: the steps of the
    sequences follow the inputs.
    """
    found = []
    for tensor in inputs:
        pointers = "*const *" if many and tensor.view else "*"
        found.append((f"const {tensor.type.dtype.c_name} {pointers}", tensor.name))
        found += [("int32_t ", stride) for stride in tensor.strides]
    if length:
        found.append(("const int32_t *", f"{LENGTH}s") if many else ("int32_t ", LENGTH))
    return [*found, *((f"{t.type.dtype.c_name} *", t.name) for t in outputs)]


def joined(found: Sequence[tuple[str, str]]) -> str:
    """Parameters in C's form."""
    return ", ".join(type_ + name for type_, name in found)


def differing_axis(first: Tensor, other: Tensor) -> int:
    """The axis along which the same tensor of another call is longer or shorter; -1: none."""
    sizes = zip(first.dims, other.dims, strict=True)
    return next((axis for axis, (a, b) in enumerate(sizes) if a != b), -1)


def timed_tensors(calls: Sequence[Sequence[Tensor]]) -> frozenset[str]:
    """The tensors of calls of several sizes that have as many more elements as these have steps.

    None if those of one step do not lie together in each of them, so that no loop over calls
    serves.
    """
    if len(calls) < 2:
        return frozenset()
    found = set()
    for same in zip(*calls, strict=True):
        first, *others = same
        if any(t.view for t in same):
            return frozenset()
        axes = {differing_axis(first, other) for other in others} - {-1}
        if any(size != 1 for axis in axes for size in first.dims[:axis]):
            return frozenset()
        found |= {first.source} if axes else set()
    return frozenset(found)
