"""From an ONNX model to a Graph: sizes open dimensions, folds known values, builds the nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce

from cannery.errors import CanneryError, ModelError, UnsupportedError
from cannery.frontends.custom import check_all_used, files_of
from cannery.frontends.fixed import constant_of, fixed_notes
from cannery.frontends.interface import check_input_names, declare_input, finish
from cannery.frontends.metadata import sound_names
from cannery.frontends.noise import Noise, NoNoiseError
from cannery.frontends.onnx.channels import meets_channels_first
from cannery.frontends.onnx.choices import Choices
from cannery.frontends.onnx.control import CONTROL, follow
from cannery.frontends.onnx.custom import custom_name, custom_value
from cannery.frontends.onnx.declared import Parting, parting, require_declared
from cannery.frontends.onnx.doubles import NAME, NUMBER, Doubles
from cannery.frontends.onnx.expands import plain_expands
from cannery.frontends.onnx.fold import (
    MAX_BYTES,
    MAX_BYTES_EACH,
    MAX_BYTES_SMALL,
    folded,
)
from cannery.frontends.onnx.functions import (
    MAX_DEPTH,
    MAX_INLINED,
    inlined,
    standard_function,
)
from cannery.frontends.onnx.halves import half_notes
from cannery.frontends.onnx.host import NodePlace
from cannery.frontends.onnx.lists import LISTS, Lists, follow_list
from cannery.frontends.onnx.microsoft import has_standard_form, standard_form
from cannery.frontends.onnx.model import (
    HALVES,
    STANDARD,
    OnnxFunction,
    OnnxInput,
    OnnxModel,
    OnnxNode,
    readers,
)
from cannery.frontends.onnx.old import modernised
from cannery.frontends.onnx.operators.base import Scope, find_operator
from cannery.frontends.onnx.operators.state import ImportState
from cannery.frontends.onnx.operators.values import (
    Computed,
    Constant,
    Value,
    channels_last,
    identity,
)
from cannery.frontends.onnx.order import ordered, outer_reads
from cannery.frontends.onnx.rows import with_counts
from cannery.frontends.onnx.selection import check_opset, chosen_outputs, needed_nodes
from cannery.frontends.onnx.sizes import Sizes, require_batches
from cannery.frontends.onnx.unfinished import UNFINISHED, Unfinished
from cannery.frontends.onnx.ways import require_way
from cannery.frontends.open_dimensions import OpenDimensionError, with_time
from cannery.frontends.options import ImportOptions
from cannery.frontends.unsupported import Problem, UnsupportedLayersError
from cannery.ir.graph import Array, Graph, GraphBuilder, free_name
from cannery.ir.tensor import DType

_INPUT_DTYPES = {
    **dict.fromkeys(("float", NAME, *HALVES.values()), DType.FLOAT32), "bool": DType.BOOL,
    "uint8": DType.UINT8, "int8": DType.INT8, "uint16": DType.UINT16, "int16": DType.INT16,
    "uint32": DType.UINT32, "int32": DType.INT32, "uint64": DType.UINT64, "int64": DType.INT64,
}  # fmt: skip

#: Operators that walk along sequences.
_RECURRENT = frozenset({"LSTM", "GRU", "RNN", "Loop", "Scan"})


def build_graph(model: OnnxModel, options: ImportOptions) -> Graph:
    """The graph of a model; its values have the model's names.

    Images with channels first in the model become values with channels last; `Graph.channels_first`
    lists them.

    Raises UnsupportedLayersError listing all nodes, ModelError for parts that do not fit together,
    OptionError for options that do not fit the model.
    """
    check_opset(model)
    model = modernised(model)
    outputs = chosen_outputs(model, options)
    nodes = needed_nodes(plain_expands(ordered(model.nodes)), outputs)

    def build(options: ImportOptions) -> Graph:
        return _Importer(model, nodes, outputs, options).run()

    try:
        graph = _as_declared(model, nodes, outputs, options)
    except OpenDimensionError as error:
        found = error
        if _has_time(model, nodes):
            found = with_time(error, options, build, loops=True)
        if options.streaming:
            found.cure = f"{found.cure}; if it is time, any large n does"
        raise found from None
    if not options.streaming and _has_time(model, nodes):
        require_batches(model.inputs, options, build)
    return graph


def _as_declared(
    model: OnnxModel, nodes: Sequence[OnnxNode], outputs: Sequence[str], options: ImportOptions
) -> Graph:
    """The graph of the nodes. Raises ModelError if it differs from the file's declarations."""
    first = _Importer(model, nodes, outputs, options)
    graph = first.run()

    def other_shapes() -> dict[str, tuple[int, ...]]:
        other = _Importer(model, nodes, outputs, replace(options, dims=first.doubled))
        other.run()
        return other.shapes()

    require_declared(first.partings, other_shapes)
    return graph


def _has_time(model: OnnxModel, nodes: Sequence[OnnxNode]) -> bool:
    """Whether there may be sequences that are walked step by step."""
    inner = [n for function in model.functions.values() for n in function.nodes]
    return any(n.kind in _RECURRENT for n in (*nodes, *inner))


def _input_dtype(given: OnnxInput) -> DType:
    """The element type of an input. Raises UnsupportedError."""
    if given.dtype not in _INPUT_DTYPES:
        text = "turn texts into numbers before the network, and train it on those"
        raise UnsupportedError(
            f"its elements are {given.dtype}", where=f"input {given.name!r}",
            cure=text if given.dtype == "string" else "make them float",
        )  # fmt: skip
    return _INPUT_DTYPES[given.dtype]


class _Importer:
    """Builds one graph."""

    def __init__(
        self,
        model: OnnxModel,
        nodes: Sequence[OnnxNode],
        outputs: Sequence[str],
        options: ImportOptions,
    ) -> None:
        self._model = model
        self._nodes = nodes
        self._outputs = outputs
        self._options = options
        self._builder = GraphBuilder(model.name)
        self._doubles = Doubles()
        self._noise = Noise(options.noise, self._builder)
        self._meets_channels_first = partial(meets_channels_first, readers(nodes))
        self._state = ImportState(
            self._builder, model.opset, self._meets_channels_first, self._noise
        )
        self._values: dict[str, Value] = {}
        self._unknown: set[str] = set()
        self._problems: list[Problem] = []
        self._folded = 0
        self._used = {i for node in nodes for i in outer_reads(node)} | set(outputs)
        self._weights = dict(model.weights)
        self._lists: Lists = {}
        self._inlined = 0
        self._is_random = False
        self._custom: set[str] = set()
        self._prefixes: Counter[str] = Counter()
        self.unfinished = Unfinished()
        self.doubled: dict[str, int] = {}
        self.partings: dict[str, Parting] = {}

    def run(self) -> Graph:
        """The finished graph."""
        fixed = self._options.fixed
        wanted = [i for i in self._model.inputs if self._is_wanted(i) or i.name in fixed]
        inputs = [i for i in wanted if i.name not in fixed]
        names = [i.name for i in inputs]
        known = [i.name for i in self._model.inputs if i.name not in names]
        check_input_names(self._options, names, known)
        sizes = Sizes(wanted, self._options)
        self.doubled = sizes.doubled()
        for given in wanted:
            if given.name in fixed:
                self._values[given.name] = self._fixed(given, sizes)
        first = [self._input(i, sizes) for i in inputs]
        for node in self._nodes:
            self._apply(node)
            self._compare(node, [self._model.declared.get(name) for name in node.outputs])
        if self._problems:
            raise UnsupportedLayersError(self._problems, instead=self._calm_outputs())
        self._noise.require_used()
        results = self._results()
        ports = [self._output(value) for value in results.values()]
        pairs = [(name, value) for name, (value, _) in zip(results, ports, strict=True)]
        pairs += self._unfinished()
        graph = finish(
            self._builder, [*names, *self._noise.inputs], [*pairs, *self._noise.outputs()],
            self._options,
        )  # fmt: skip
        marked = [n for n, is_first in zip(graph.inputs, first, strict=False) if is_first]
        marked += [n for n, (_, is_first) in zip(graph.outputs, ports, strict=False) if is_first]
        check_all_used(self._options.custom, self._custom)
        files = (*sorted(self._model.files), *files_of(self._options.custom))
        notes = (*half_notes(self._model, (*names, *self._outputs)), *self._noise.notes)
        doubles = [i.name for i in inputs if i.dtype == NAME]
        doubles += [o for o in self._outputs if self._is_declared_double(o)]
        notes = (*notes, *fixed_notes(fixed), *self._doubles.notes(doubles))
        notes = (*notes, *(self.unfinished.note(name) for name, _ in pairs[len(ports) :]))
        graph = replace(
            graph, channels_first=frozenset(marked), files=files, notes=notes,
            metadata=self._model.metadata, states=self._noise.states(graph),
            class_names=sound_names(self._state.class_names),
        )  # fmt: skip
        return with_counts(graph)

    def _results(self) -> dict[str, str]:
        """The tensors of the model that are outputs, by name; each of a list is one of its own.

        Raises UnsupportedError for a list without tensors.
        """
        found: dict[str, str] = {}
        for output in self._outputs:
            if output not in self._lists:
                found[output] = output
                continue
            if not self._lists[output]:
                raise UnsupportedError("is a list without tensors", where=f"output {output!r}")
            for k, part in enumerate(self._lists[output]):
                found[free_name(f"{output}.{k}", {*found, *self._outputs})] = part
        return found

    def _unfinished(self) -> list[tuple[str, str]]:
        """The output that says whether MAX_TRIPS cut a loop short, and its value, if one may be."""
        loops = self.unfinished.loops
        if not loops:
            return []
        name = free_name(UNFINISHED, {*self._outputs, *self._values})
        node = OnnxNode("Or", "", name, (), (name,), {})
        choices = Choices(self, node, NodePlace(f"output {name!r}", 0), self.prefix(name))
        return [(name, self._output(reduce(choices.either, loops))[0])]

    def _is_declared_double(self, output: str) -> bool:
        """Whether the file says that an output is float64."""
        declared = self._model.declared.get(output)
        return declared is not None and declared.dtype == NAME

    def _calm_outputs(self) -> str:
        """The cure for random numbers, if there are: the outputs that need none."""
        calm = [
            name for name in self._outputs
            if name not in self._unknown and isinstance(self._values.get(name), Computed)
        ]  # fmt: skip
        if not self._is_random or not calm or len(calm) == len(self._outputs):
            return ""
        return f"or take outputs that need none: --outputs {' '.join(calm)}"

    def _compare(self, node: OnnxNode, declared: Sequence[OnnxInput | None]) -> None:
        """Record where outputs differ from the file's declarations; an error if no dimension is
        open.
        """
        if (
            node.domain == "ai.onnx.ml"
        ):  # CatBoost and skl2onnx declare shapes that are not computed
            return
        for name, said in zip(node.outputs, declared, strict=False):
            value = self._values.get(name)
            if isinstance(value, Computed) and value.name in self._state.rows:
                continue  # a file may declare how many rows one run had
            found = parting(node.place, said, value) if said and value else None
            if found and not self.doubled:
                raise found.error
            if found:
                self.partings[name] = found

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of all values, by their names in the model."""
        return {name: value.shape for name, value in self._values.items()}

    def _is_wanted(self, given: OnnxInput) -> bool:
        """All inputs of the model if it returns its own outputs; else those in use."""
        return not self._options.outputs or given.name in self._used

    def _fixed(self, given: OnnxInput, sizes: Sizes) -> Constant:
        """An input that the option SET makes a constant."""
        text, dims = self._options.fixed[given.name], given.dims
        counted = dims is None or (len(dims) == 1 and "," in text and not isinstance(dims[0], int))
        shape = None if counted else sizes.shape(given)
        array = constant_of(given.name, text, _input_dtype(given), shape)
        return Constant(array, given.name)

    def _input(self, given: OnnxInput, sizes: Sizes) -> bool:
        """Declare an input; returns whether it is an image with channels first."""
        where = f"input {given.name!r}"
        dtype = _input_dtype(given)
        shape = sizes.shape(given)
        is_first = len(shape) == 4 and self._meets_channels_first(given.name)
        perm = channels_last(4) if is_first else identity(len(shape))
        lying = tuple(shape[p] for p in perm)
        try:
            name = declare_input(self._builder, given.name, lying, dtype, self._options)
        except CanneryError as error:
            error.where = error.where or where
            raise
        self._values[given.name] = Computed(name, perm, shape, self._builder.types[name].dtype)
        return is_first

    def _output(self, name: str) -> tuple[str, bool]:
        """The value of an output, and whether it is an image with channels first."""
        value = self._doubles.narrowed(self.value(name, f"output {name!r}"))
        if value is None:
            raise ModelError("is not computed", where=f"output {name!r}")
        scope = Scope(self._state, OnnxNode("Identity", "", name, (), (name,), {}), ())
        if isinstance(value, Computed) and len(value.shape) == 4 and value.perm == channels_last(4):
            return value.name, True
        return scope.plain(value), False

    def value(self, name: str, where: str) -> Value | None:
        """A tensor by its name, None for the empty name."""
        if not name:
            return None
        if name in self._lists:
            raise UnsupportedError(f"{name!r} is a list of tensors", where=where)
        if name not in self._values:
            weight = self._weights.get(name)
            if weight is None:
                raise ModelError(f"reads {name!r}, which nothing computes", where=where)
            self._values[name] = Constant(weight(), name)
        return self._values[name]

    def _apply(self, node: OnnxNode, depth: int = 0) -> None:
        """Compute the outputs of a node, or record why that is impossible."""
        where = node.place
        for output in node.outputs:
            places = (self._values, self._unknown, self._weights, self._lists)
            if output and any(output in known for known in places):
                raise ModelError(f"{output!r} is computed twice", where=where)
        try:
            if self._unknown & outer_reads(node):
                self._require_way(node)
                self._unknown.update(filter(None, node.outputs))
                return
            self._compute(node, where, depth)
        except UnsupportedError as error:
            self._is_random |= isinstance(error, NoNoiseError)
            self._problems.append(Problem(node.label, node.sort, error.what, error.cure))
            self._unknown.update(filter(None, node.outputs))
        except CanneryError as error:
            error.where = error.where or where
            raise

    def _require_way(self, node: OnnxNode) -> None:
        """Raise UnsupportedError if there is no way to compute a node, whatever its inputs."""
        if self._function(node) is None and not custom_name(node, self._options.custom):
            require_way(node, node.version or self._model.opset(node.domain))

    def _function(self, node: OnnxNode) -> OnnxFunction | None:
        return self._model.functions.get((node.domain, node.kind))

    def _compute(self, node: OnnxNode, where: str, depth: int) -> None:
        """The outputs of a node: by its function in the model, as known values, or by its
        operator.
        """
        custom = custom_name(node, self._options.custom)
        if custom:
            self._custom.add(custom)
            inputs = self._in_float32(node, [self.value(i, where) for i in node.inputs])
            scope = Scope(self._state, node, inputs)
            self._store(node, [custom_value(scope, node, inputs, self._options.custom[custom])])
            return
        function = self._function(node)
        if function is not None:
            self.inline(
                node, inlined(node, function, self.prefix(node.label)), NodePlace(where, depth)
            )
            return
        if has_standard_form(node):
            self.inline(node, standard_form(node, self.prefix(node.label)), NodePlace(where, depth))
            return
        if node.domain in STANDARD and (node.kind in LISTS or self._is_list(node)):
            follow_list(self, self._lists, node, NodePlace(where, depth))
            return
        try:
            carried = self._lists if node.kind in CONTROL else {}  # a Loop passes lists on
            inputs = [None if i in carried else self.value(i, where) for i in node.inputs]
        except CanneryError:
            self._require_way(node)  # an unsupported operator is the better reason
            raise
        if node.domain in STANDARD and node.kind in CONTROL:
            follow(self, node, inputs, NodePlace(where, depth))
            return
        scope = Scope(self._state, node, inputs)
        known = folded(scope) if node.domain in STANDARD else None
        if known is not None:
            self._count(known)
            scope.check_all_read()
            self._store(node, [known])
            return
        inputs = self._in_float32(node, inputs)
        scope = Scope(self._state, node, inputs)
        try:
            built = find_operator(node)(scope)
            results = [built] if isinstance(built, Constant | Computed) else built
            scope.check_all_read()
            self._store(node, results)
        except UnsupportedError:
            types = [None if v is None else (scope.dtype(v), v.shape) for v in inputs]
            function = standard_function(node, scope.opset, types)
            if function is None:
                raise
            self.inline(
                node, inlined(node, function, self.prefix(node.label)), NodePlace(where, depth)
            )

    def _in_float32(self, node: OnnxNode, inputs: Sequence[Value | None]) -> list[Value | None]:
        """The inputs of a node that is not folded: what is float64 becomes float32."""
        self._doubles.used |= NUMBER in (node.attributes.get("to"), node.attributes.get("dtype"))
        return [self._doubles.narrowed(value) for value in inputs]

    def _is_list(self, node: OnnxNode) -> bool:
        """Whether a node is an Identity of a list of tensors."""
        return node.kind == "Identity" and any(i in self._lists for i in node.inputs)

    def prefix(self, label: str) -> str:
        """`label`, or `label.1`, `label.2` ...: the prefix of a node's names."""
        count = self._prefixes[label]
        self._prefixes[label] += 1
        return f"{label}.{count}" if count else label

    def define(self, name: str, value: Constant) -> None:
        """A known value."""
        self._values[name] = value

    def add_weights(self, weights: Mapping[str, Callable[[], Array]]) -> None:
        """Initializers of a branch or body, by their new names."""
        self._weights.update(weights)

    def is_read(self, name: str) -> bool:
        """Whether a node or the network needs a tensor."""
        return name in self._used

    def is_known(self, name: str) -> bool:
        """Whether a tensor is computed already."""
        return name in self._values

    @property
    def max_trips(self) -> int | None:
        """The option MAX_TRIPS."""
        return self._options.max_trips

    def give_up(self, node: OnnxNode, needed: Sequence[str]) -> bool:
        """Whether an input of a node is unsupported; then so are its outputs."""
        if not self._unknown & set(needed):
            return False
        self._unknown.update(filter(None, node.outputs))
        return True

    def inline(
        self,
        node: OnnxNode,
        nodes: Sequence[OnnxNode],
        place: NodePlace,
        wanted: Sequence[str] = (),
    ) -> None:
        """Compute the outputs of a node with other nodes: those that are read and `wanted`."""
        where, depth = place.where, place.depth
        self._used.update(wanted)
        self._inlined += len(nodes)
        if depth > MAX_DEPTH or self._inlined > MAX_INLINED:
            raise ModelError("its functions call each other too deeply or too often", where=where)
        outputs = [o for o in node.outputs if o in self._used]
        needed = needed_nodes(ordered(nodes), outputs)
        self._used.update(i for n in needed for i in outer_reads(n))
        for inner in needed:
            self._apply(inner, depth + 1)
            self._compare(inner, inner.declared)
        for output in outputs:
            if not any(output in known for known in (self._values, self._unknown, self._lists)):
                raise ModelError(f"{output!r} is not computed", where=where)

    def _count(self, known: Constant) -> None:
        """Add up the sizes of folded values; ModelError if they could fill the memory."""
        self._folded += known.array.nbytes
        stored = self._model.size + sum(file.stat().st_size for file in self._model.files)
        limit = min(max(MAX_BYTES_SMALL, MAX_BYTES_EACH * stored), MAX_BYTES)
        if self._folded > limit:
            raise ModelError("tensors computed from constants are too large, all together")

    def _store(self, node: OnnxNode, results: Sequence[Value]) -> None:
        for index, output in enumerate(node.outputs[len(results) :], start=len(results)):
            if output and output in self._used:
                raise UnsupportedError(f"its output {index} is not supported")
        for output, result in zip(node.outputs, results, strict=False):
            if output:
                self._values[output] = self._state.known(result)
