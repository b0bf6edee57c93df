"""From a TensorFlow Lite file to a Graph: operator by operator, in the order of the file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

import numpy as np

from cannery.errors import CanneryError, ModelError, OptionError, UnsupportedError, closest
from cannery.frontends.interface import check_input_names, declare_input, finish
from cannery.frontends.noise import Noise
from cannery.frontends.onnx.model import OnnxInput
from cannery.frontends.onnx.rows import with_counts
from cannery.frontends.onnx.sizes import Sizes
from cannery.frontends.onnx.unfinished import UNFINISHED
from cannery.frontends.options import ImportOptions
from cannery.frontends.tflite.model import Operator, Subgraph, Tensor, TfliteModel
from cannery.frontends.tflite.scope import (
    DTYPES,
    HANDLE,
    Build,
    Scope,
    Shared,
    find_operator,
    make_pair,
    moves_alone,
    type_of,
)
from cannery.frontends.tflite.variables import Variables
from cannery.frontends.unsupported import Problem, UnsupportedLayersError
from cannery.ir.graph import Graph, GraphBuilder, Scale, free_name
from cannery.ir.tensor import DType
from cannery.ops.logic.compare import Or

#: Operators that read names of variables, or hand them on.
_TAKE_HANDLES = ("READ_VARIABLE", "ASSIGN_VARIABLE", "WHILE", "IF")

#: Operators that read complex numbers, or hand them on.
_TAKE_COMPLEX = ("REAL", "IMAG", "COMPLEX_ABS", "WHILE", "IF", "STABLEHLO_COMPOSITE")

#: Operators whose outputs LiteRT gives shapes of its own: converters declare others, with a batch.
_OWN_SHAPES = ("NON_MAX_SUPPRESSION_V4", "NON_MAX_SUPPRESSION_V5")

#: What to do about operators that are not supported.
_INSTEAD = (
    "convert the network without them, or to ONNX: pip install tf2onnx tensorflow-cpu, then "
    "python -m tf2onnx.convert --tflite IN.tflite --output OUT.onnx"
)


def build_graph(model: TfliteModel, options: ImportOptions) -> Graph:
    """The first graph of the file. Inputs and outputs are named as in its signature, if it has one,
    else like their tensors; nodes like the tensors that they compute.

    Raises UnsupportedLayersError with all operators that are not supported, ModelError for parts
    that do not fit together, OptionError for options that do not fit the model.
    """
    return _Importer(model, options).run()


class _Importer:
    """Builds one graph."""

    def __init__(self, model: TfliteModel, options: ImportOptions) -> None:
        self._model = model
        self._graph: Subgraph = model.graphs[0]
        self._options = options
        self._builder = GraphBuilder(self._graph.name or "model")
        self._variables = Variables(self._builder)
        self._noise = Noise(options.noise, self._builder)
        self._shared = Shared(
            self._builder, self._variables, self._run_once, self._call, self._noise,
            options.max_trips,
        )  # fmt: skip
        #: Graphs of the file that are being run: none calls itself.
        self._calling: list[int] = []
        self._values: dict[int, str] = {}
        self._unknown: set[int] = set()
        self._problems: list[Problem] = []
        self._notes: list[str] = []
        #: Whether all inputs have the sizes of the file, so that other shapes must agree, too.
        self._as_stored = True

    def run(self) -> Graph:
        """The finished graph."""
        outputs = self._outputs()
        operators = _needed(self._graph.operators, [number for _, number in outputs])
        used = {i for node in operators for i in node.inputs} | {number for _, number in outputs}
        numbers = [i for i in self._graph.inputs if not self._options.outputs or i in used]
        names = self._input_names(numbers)
        check_input_names(self._options, names)
        self._declare(numbers, names)
        for node in operators:
            self._apply(node)
        if self._problems:
            raise UnsupportedLayersError(self._problems, instead=_INSTEAD)
        pairs = [(name, self._value(number)) for name, number in outputs]
        self._check_outputs(pairs)
        cut = self._unfinished([*names, *(name for name, _ in pairs)])
        pairs += cut
        self._noise.require_used()
        states, noise = self._variables, self._noise
        graph = finish(
            self._builder, [*names, *noise.inputs, *states.inputs],
            [*pairs, *noise.outputs(), *states.outputs], self._options,
        )  # fmt: skip
        graph = self._described(graph, numbers, [number for _, number in outputs])
        graph = states.in_graph(graph)
        drawn = noise.states(graph, len(graph.states))
        return with_counts(replace(graph, states=(*drawn, *graph.states)), self._shared.finders)

    def _unfinished(self, names: Sequence[str]) -> list[tuple[str, str]]:
        """The output that says whether MAX_TRIPS cut a loop short, and its value, if one may be."""
        loops = self._shared.unfinished.loops
        if not loops:
            return []
        name = free_name(UNFINISHED, names)

        def either(a: str, b: str) -> str:
            return self._builder.node(Or(), [a, b], name=self._builder.unique(f"{name}/any"))

        self._notes.append(self._shared.unfinished.note(name))
        return [(name, reduce(either, loops))]

    def _check_outputs(self, pairs: Sequence[tuple[str, str]]) -> None:
        """Raises CanneryError for an output that is not a tensor."""
        for name, value in pairs:
            where = f"output {name!r}"
            if value.startswith(HANDLE):
                raise ModelError("is a variable", where=where)
            if value in self._shared.pairs:
                cure = "convert the network with REAL, IMAG or COMPLEX_ABS at its end"
                raise UnsupportedError("is complex", where=where, cure=cure)

    def _run_once(self, index: int) -> None:
        """The graph of CALL_ONCE: all that it does is to give variables their first values."""
        shared = self._shared
        self._shared = replace(shared, run_once=None)
        try:
            self._call(index, [])
        finally:
            self._shared = shared

    def _call(self, index: int, values: Sequence[str]) -> list[str]:
        """The outputs of another graph of the file for these inputs."""
        if not 0 < index < len(self._model.graphs) or index in self._calling:
            raise ModelError(f"there is no graph {index} to be called")
        graph, before = self._model.graphs[index], len(self._problems)
        if len(values) != len(graph.inputs):
            raise ModelError(f"graph {index} has {len(graph.inputs)} inputs, not {len(values)}")
        outer = self._graph, self._values, self._unknown
        self._graph, self._values = graph, dict(zip(graph.inputs, values, strict=True))
        self._unknown = set()
        self._calling.append(index)
        try:
            for node in _needed(graph.operators, graph.outputs):
                self._apply(node)
            if problems := self._problems[before:]:
                del self._problems[before:]
                what = f"{problems[0].layer!r} ({problems[0].class_name}) in its graph {index}: "
                raise UnsupportedError(what + problems[0].what, cure=problems[0].cure)
            return [self._value(k) for k in graph.outputs]
        finally:
            self._calling.pop()
            self._graph, self._values, self._unknown = outer

    def _described(self, graph: Graph, inputs: Sequence[int], outputs: Sequence[int]) -> Graph:
        """The graph with what the file says of itself, and what integers at its interface mean."""
        scales = {}
        for name, number in (
            *zip(graph.inputs, inputs, strict=False), *zip(graph.outputs, outputs, strict=False),
        ):  # fmt: skip
            tensor = self._graph.tensors[number]
            stored = graph.types[name].dtype is not DType.FLOAT32
            if stored and tensor.is_quantised and tensor.scales and tensor.scales.single:
                scale, zero = float(tensor.scales.scales[0]), int(tensor.scales.zeros[0])
                scales[name] = Scale(scale, zero)
        notes = (*self._noise.notes, *self._notes)
        return replace(graph, scales=scales, metadata=self._model.metadata, notes=notes)

    def _input_names(self, numbers: Sequence[int]) -> list[str]:
        """Names of inputs, all different."""
        names: list[str] = []
        for number in numbers:
            name = self._model.inputs.get(number) or self._graph.tensors[number].name
            names.append(free_name(name, names))
        return names

    def _outputs(self) -> list[tuple[str, int]]:
        """Names and numbers of the tensors to return."""
        tensors, names = self._graph.tensors, self._model.outputs
        if not self._options.outputs:
            return [(names.get(k) or tensors[k].name, k) for k in self._graph.outputs]
        computed = {tensors[k].name: k for node in self._graph.operators for k in node.outputs}
        computed |= {names[k]: k for k in self._graph.outputs if k in names}
        for name in self._options.outputs:
            if name not in computed:
                near = closest(name, computed)
                cure = f"did you mean {near!r}?" if near else "name one that an operator computes"
                what = f"no tensor of the model is called {name!r}"
                raise OptionError(what, where="--outputs", cure=cure)
        return [(name, computed[name]) for name in self._options.outputs]

    def _declare(self, numbers: Sequence[int], names: Sequence[str]) -> None:
        """Declare the inputs."""
        given = [
            OnnxInput(name, self._graph.tensors[number].dims, self._graph.tensors[number].dtype)
            for number, name in zip(numbers, names, strict=True)
        ]
        sizes = Sizes(given, self._options)
        for number, each in zip(numbers, given, strict=True):
            tensor, where = self._graph.tensors[number], f"input {each.name!r}"
            if tensor.dtype not in DTYPES or tensor.dtype == "FLOAT16":
                what = f"its elements are {tensor.dtype}, which is not supported"
                raise UnsupportedError(what, where=where, cure="convert the network with floats")
            shape = sizes.shape(each)
            self._as_stored &= shape == tensor.shape
            dtype = DTYPES[tensor.dtype]
            try:
                value = declare_input(self._builder, each.name, shape, dtype, self._options)
            except CanneryError as error:
                error.where = error.where or where
                raise
            self._values[number] = value

    def _apply(self, node: Operator) -> None:
        """Compute the outputs of an operator, or record why that is impossible."""
        tensors = self._graph.tensors
        label = tensors[node.outputs[0]].name if node.outputs else node.kind.lower()
        try:
            build = find_operator(node, tensors)
            if self._unknown & set(node.inputs):
                self._unknown.update(node.outputs)
                return
            inputs = ["" if k < 0 else self._value(k) for k in node.inputs]
            if node.kind not in _TAKE_HANDLES and any(v.startswith(HANDLE) for v in inputs):
                raise ModelError("it reads a variable as if it were a tensor")
            self._store(node, self._built(build, node, inputs, label))
        except UnsupportedError as error:
            self._problems.append(Problem(label, node.sort, error.what, error.cure))
            self._unknown.update(node.outputs)
        except CanneryError as error:
            error.where = f"operator {label!r} ({node.sort})"
            raise

    def _built(
        self, build: Build, node: Operator, inputs: Sequence[str], label: str
    ) -> Sequence[str]:
        """The values of an operator's outputs; what moves complex numbers moves both parts."""
        pairs = self._shared.pairs
        if node.kind in _TAKE_COMPLEX or not any(v in pairs for v in inputs):
            return self._run(build, node, inputs, label)
        if not moves_alone(node.kind):
            raise UnsupportedError("on complex numbers it is not supported")
        real, imaginary = (
            self._run(build, node, [pairs[v][k] if v in pairs else v for v in inputs], each)
            for k, each in enumerate((f"{label}/real", f"{label}/imaginary"))
        )
        return [make_pair(self._shared, *both) for both in zip(real, imaginary, strict=True)]

    def _run(
        self, build: Build, node: Operator, inputs: Sequence[str], label: str
    ) -> Sequence[str]:
        scope = Scope(self._shared, node, self._graph.tensors, inputs, label)
        built = build(scope)
        scope.check_all_read()
        return [built] if isinstance(built, str) else built

    def _store(self, node: Operator, built: Sequence[str]) -> None:
        """Enter the values of an operator's outputs; ModelError if they are not as declared."""
        if len(built) != len(node.outputs):
            raise ModelError(f"has {len(node.outputs)} outputs, expected {len(built)}")
        for number, value in zip(node.outputs, built, strict=True):
            tensor = self._graph.tensors[number]
            if number in self._values or tensor.data is not None:
                raise ModelError(f"computes {tensor.name!r}, which has a value before it")
            self._check(tensor, value, node.kind)
            self._values[number] = value

    def _check(self, tensor: Tensor, value: str, kind: str) -> None:
        """Raises ModelError for a value of an operator that is not what the file declares."""
        if value.startswith(HANDLE):
            return
        parts = self._shared.pairs.get(value)
        type_ = self._builder.types[parts[0] if parts else value]
        dtype = "COMPLEX64" if parts else type_.dtype
        if dtype != (tensor.dtype if parts else DTYPES.get(tensor.dtype)):
            what = f"computes {type_.dtype.value}, but {tensor.name!r} is {tensor.dtype}"
            raise ModelError(what)
        # The file says nothing of the room for rows that are found.
        if not self._as_stored or self._shared.finders or not tensor.shape or self._calling:
            return
        if kind in _OWN_SHAPES:
            return
        fits = len(type_.shape) == len(tensor.dims) and all(
            said in (None, d) for said, d in zip(tensor.dims, type_.shape, strict=True)
        )
        if not fits:
            what = f"computes the shape {type_.shape}, but {tensor.name!r} has {tensor.shape}"
            raise ModelError(what, cure="the file is damaged, or its tensors were resized")

    def _value(self, number: int) -> str:
        """A tensor as a value of the graph."""
        if number not in self._values:
            tensor = self._graph.tensors[number]
            if tensor.data is not None:
                array = tensor.data()
            elif tensor.is_variable and self._graph is self._model.graphs[0]:
                key = f"{HANDLE}{tensor.index}"
                return self._variables.read(key, tensor.name, type_of(tensor))
            elif 0 in tensor.shape and tensor.dtype in DTYPES:
                array = np.zeros(tensor.shape, DTYPES[tensor.dtype].numpy)
            else:
                raise ModelError(f"reads {tensor.name!r}, which nothing computes")
            self._values[number] = self._builder.constant(tensor.name, array)
        return self._values[number]


def _needed(operators: Sequence[Operator], outputs: Sequence[int]) -> list[Operator]:
    """The operators on which outputs depend, and those without outputs, in order."""
    wanted, found = set(outputs), []
    for node in reversed(operators):
        if wanted & set(node.outputs) or not node.outputs:
            found.append(node)
            wanted.update(node.inputs)
    return found[::-1]
