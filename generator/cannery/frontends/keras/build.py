"""From a tree of models to a Graph: flattens, checks what is supported, builds the nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cannery.errors import CanneryError, ModelError, UnsupportedError
from cannery.frontends.custom import files_of
from cannery.frontends.interface import check_input_names, declare_input, finish
from cannery.frontends.keras.arguments import Arguments, Call, Operand, replaced
from cannery.frontends.keras.calls import TensorRef
from cannery.frontends.keras.inline import (
    Application,
    Network,
    Value,
    inline,
    needed_applications,
    select_outputs,
)
from cannery.frontends.keras.layers.base import (
    Given,
    KerasLayer,
    LayerPath,
    Mask,
    Scope,
    WeightStore,
)
from cannery.frontends.keras.masks import READERS, is_masked, result_mask
from cannery.frontends.keras.model import AS_ONNX, InputSpec, ModelConfig
from cannery.frontends.noise import require_no_noise
from cannery.frontends.open_dimensions import (
    ANY_STEPS,
    OpenDimensionError,
    check_dims,
    with_time,
)
from cannery.frontends.options import ImportOptions
from cannery.frontends.unsupported import Problem, UnsupportedLayersError
from cannery.ir.graph import Graph, GraphBuilder

#: The fallback advice: Keras shows what is wrong when it builds the layer again.
_CURE = "check the layer and the size of its input in Keras, and save the model again"

_UNROLLED = (
    "leave out --streaming and give a model of one step, with the layer's states as inputs "
    "(initial_state) and outputs (return_state), and --state IN=OUT for each"
)
_STATEFUL = "--streaming runs it step by step; or save it with stateful=False"


def build_graph(model: ModelConfig, store: WeightStore, options: ImportOptions) -> Graph:
    """The graph of a model.

    Its outputs are named after the top-level layers (or nested models) that return them, its nodes
    after layers: `<layer>`, `<layer>/<activation>`, `<layer>/<part>`.

    Raises UnsupportedLayersError listing all layers, ModelError for parts that do not fit together,
    OptionError for options that do not fit the model.
    """
    network = select_outputs(inline(model), options.outputs)
    needed = needed_applications(network, all_inputs=not options.outputs)
    problems = {
        a.path: replace(a.target, layer="/".join(a.path))
        for a in (network.applications[n] for n in needed)
        if isinstance(a.target, Problem)
    }
    if problems:
        raise UnsupportedLayersError(list(problems.values()), instead=AS_ONNX)

    def build(options: ImportOptions) -> Graph:
        return _Importer(network, needed, store, options).run()

    try:
        graph = build(options)
    except OpenDimensionError as error:
        raise with_time(error, options, build, loops=False) from None
    return replace(graph, files=(*graph.files, *files_of(options.custom)))


def _called_with_mask(application: Application, layer: KerasLayer) -> bool:
    """Whether the last tensor of a call is the argument `mask`, see `parse_call`."""
    return application.call is not None and not layer.plan.signature


class _Importer:
    """Builds one graph."""

    def __init__(
        self,
        network: Network,
        needed: Sequence[int],
        store: WeightStore,
        options: ImportOptions,
    ) -> None:
        self._network = network
        self._needed = needed
        self._store = store
        self._options = options
        self._builder = GraphBuilder(network.name)
        self._constants: dict[tuple[LayerPath, str], str] = {}
        self._values: dict[Value, str] = {}
        self._masks: dict[Value, Mask | None] = {}

    def run(self) -> Graph:
        """The finished graph."""
        needed = set(self._needed)
        inputs = [n for n in self._network.inputs if n in needed]
        names = [self._network.applications[n].name for n in inputs]
        check_input_names(self._options, names)
        require_no_noise(self._options.noise)
        self._check_dims(names)
        for number in inputs:
            self._values[Value(number, 0)] = self._input(self._network.applications[number])
        for number in self._needed:
            if number not in inputs:
                for k, value in enumerate(self._apply(number)):
                    self._values[Value(number, k)] = value
        outputs = [(name, self._value(value)) for name, value in self._network.outputs]
        graph = finish(self._builder, names, outputs, self._options)
        return replace(graph, notes=(*graph.notes, *self._policy_notes()))

    def _policy_notes(self) -> tuple[str, ...]:
        """What to know of layers that Keras computes with 16 or 64 bits, and of such inputs."""
        layers = (self._network.applications[n].target for n in self._needed)
        found = {a.other_policy for a in layers if isinstance(a, KerasLayer | InputSpec)}
        policies = sorted(found - {""})
        listed = ", ".join(policies)
        return (f"layers with the dtype policy {listed} are computed in float32",) * bool(policies)

    def _check_dims(self, inputs: Sequence[str]) -> None:
        open_dims = []
        for number in self._network.inputs:
            application = self._network.applications[number]
            if application.name in inputs and isinstance(application.target, InputSpec):
                dims = enumerate((application.target.shape or ())[1:], start=1)
                open_dims += [f"{application.name}.{axis}" for axis, d in dims if d is None]
        check_dims(self._options, open_dims)

    def _apply(self, number: int) -> Sequence[str]:
        application = self._network.applications[number]
        layer = application.target
        if not isinstance(layer, KerasLayer):
            raise ModelError("is not an input of the model", where=f"layer {application.name!r}")
        try:
            inputs = [self._value(v) for v in application.inputs]
            for value, shape in zip(inputs, application.shapes, strict=True):
                self._check_shape(value, shape)
            if layer.plan.unrolled and self._options.streaming:
                raise UnsupportedError("its steps are written out one by one", cure=_UNROLLED)
            if layer.plan.stateful and not self._options.streaming:
                raise UnsupportedError("it is stateful", cure=_STATEFUL)
            given = self._given(application, layer, inputs)
            inputs = inputs[: len(inputs) - _called_with_mask(application, layer)]
            scope = Scope(
                self._builder, self._store, application.name, application.path, self._constants,
                given,
            )  # fmt: skip
            built = layer.plan.build(scope, inputs)
            given.arguments.check_all_read()
            results = [built] if isinstance(built, str) else built
            self._masks[Value(number, 0)] = result_mask(layer.class_name, given)
            return results
        except UnsupportedError as error:
            problem = Problem(application.name, layer.class_name, error.what, error.cure)
            raise UnsupportedLayersError([problem], instead=AS_ONNX) from error
        except CanneryError as error:
            error.where = error.where or f"layer {application.name!r} ({layer.class_name})"
            error.cure = error.cure or _CURE
            raise

    def _given(self, application: Application, layer: KerasLayer, inputs: Sequence[str]) -> Given:
        """What a call has besides its inputs; UnsupportedError for masks that nobody can read."""
        masks = [self._masks.get(value) for value in application.inputs]
        call, signature = application.call or Call((), {}), layer.plan.signature
        if _called_with_mask(application, layer):
            name = inputs[-1]
            masks, call = [lambda: name], Call((), {})
        if layer.class_name in READERS and is_masked(masks) and not layer.plan.reads_masks:
            raise UnsupportedError(
                "it reads a mask", cure="build the network without Masking and mask_zero=True"
            )
        names = iter(inputs)

        def resolved(leaf: object) -> object:
            return Operand(next(names)) if isinstance(leaf, TensorRef) else leaf

        return Given(Arguments(replaced(call, resolved), signature, layer.plan.settings), masks)

    def _check_shape(self, value: str, expected: tuple[int | None, ...] | None) -> None:
        """Raises ModelError if Keras inferred another shape: then an attribute is missing from the
        file.

        (Keras 3.0 to 3.8 forget the output_padding of transposed convolutions when they save.)
        """
        if expected is None:
            return
        shape = self._builder.types[value].shape
        pairs = zip(shape[1:], expected[1:], strict=False)
        if len(shape) != len(expected) or any(e not in (None, d) for d, e in pairs):
            raise ModelError(
                f"its input {value!r} has shape {shape}, but Keras computed {expected}",
                cure="the layer before it was not saved completely: save with a newer Keras",
            )

    def _value(self, value: Value) -> str:
        if value not in self._values:
            count = sum(value.application == known.application for known in self._values)
            raise ModelError(f"reads output {value.output} of a layer that has {count}")
        return self._values[value]

    def _input(self, application: Application) -> str:
        spec = application.target
        assert isinstance(spec, InputSpec)
        name = application.name
        shape = self._shape(name, spec)
        try:
            return declare_input(self._builder, name, shape, spec.dtype, self._options)
        except CanneryError as error:
            error.where = error.where or f"input {name!r}"
            raise

    def _shape(self, name: str, spec: InputSpec) -> tuple[int, ...]:
        where = f"input {name!r}"
        if spec.shape is None:
            raise ModelError("has no shape", where=where, cure="give the model an Input")
        dims = [self._options.batch]
        for axis, size in enumerate(spec.shape[1:], start=1):
            size = self._options.dims.get(f"{name}.{axis}") if size is None else size
            if size is None and axis == 1 and self._options.streaming:
                size = ANY_STEPS
            if size is None:
                raise OpenDimensionError(self._left(name, spec, axis), where)
            dims.append(size)
        return tuple(dims)

    def _left(self, name: str, spec: InputSpec, first: int) -> list[tuple[int, str]]:
        """The open dimensions that were given no size, and their names."""
        sizes = enumerate(spec.shape or ())
        keys = [(k, f"{name}.{k}") for k, size in sizes if k >= first and size is None]
        return [(k, key) for k, key in keys if key not in self._options.dims]
