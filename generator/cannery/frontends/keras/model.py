"""The configuration of a Keras model, read into a tree: models of layers and nested models.

Functional and sequential models of any class name take the same form: entries with calls.
Unsupported layers stay in the tree as Problems, so that all those that matter for the wanted
outputs can be reported at once, and only those.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias, Union

from cannery.errors import ModelError, UnsupportedError
from cannery.frontends.custom import OWN
from cannery.frontends.json_values import mapping, sequence, text
from cannery.frontends.keras.calls import (
    Structure,
    TensorRef,
    flatten,
    parse_call,
    parse_full_call,
    parse_structure,
    scan_refs,
)
from cannery.frontends.keras.config import LayerConfig, other_policy, policy_name
from cannery.frontends.keras.layers.base import KerasLayer, LayerPlan, read_layer
from cannery.frontends.keras.layers.recurrent import samples_as_steps, steps_as_samples
from cannery.frontends.keras.masks import CALLED_WITH
from cannery.frontends.keras.operations.base import operation_layer, operation_names
from cannery.frontends.keras.version import KerasVersion
from cannery.frontends.unsupported import Problem
from cannery.ir.tensor import MODEL_DTYPES, DType

_MAX_DEPTH = 24

#: Advice that fits every network that Keras can run.
AS_ONNX = 'or export it as ONNX, in Keras 3: model.export("m.onnx", format="onnx")'

#: The attribute under which a wrapper holds its model.
HELD = "layer"

#: Packages of Keras' own layers; those of operations do not contain layers.
_BUILTIN_PACKAGES = frozenset("keras keras_core tf_keras tensorflow tensorflow_core".split())


@dataclass(frozen=True)
class InputSpec:
    """An InputLayer. `shape` includes the batch; None if it is open or (shape) not stored.
    `other_policy` is that of the file, if it has 16 or 64 bits.
    """

    shape: tuple[int | None, ...] | None
    dtype: DType
    other_policy: str = ""


#: Element types of inputs that are float32 here.
_OTHER_FLOATS = ("float16", "bfloat16", "float64")

Target: TypeAlias = Union[InputSpec, KerasLayer, "ModelConfig", Problem]


@dataclass(frozen=True)
class Entry:
    """A layer of a model and its calls. Others refer to call k as node `first_node` + k."""

    name: str
    class_name: str
    target: Target
    calls: tuple[Structure, ...]
    first_node: int = 0
    #: The attributes of a layer that is not supported, but called like one that the user computes.
    unread: Mapping[str, object] | None = None


@dataclass(frozen=True)
class ModelConfig:
    """A model: its layers in the order of the file, its inputs and its outputs."""

    name: str
    class_name: str
    entries: tuple[Entry, ...]
    inputs: Structure
    outputs: Structure
    sequential: bool

    @property
    def has_weights(self) -> bool:
        """Whether any layer inside stores anything, as far as known."""
        return any(has_weights(e.target) for e in self.entries)


def has_weights(target: Target) -> bool:
    """Whether a layer or nested model stores anything, as far as known."""
    return isinstance(target, KerasLayer | ModelConfig) and target.has_weights


def is_wrapper(model: ModelConfig) -> bool:
    """Whether a model represents a layer that runs a model, held as `HELD`."""
    return model.class_name == "TimeDistributed"


def read_model(value: object, version: KerasVersion) -> ModelConfig:
    """The model of a decoded `model_config` or config.json.

    Raises ModelError if it is malformed, UnsupportedError if it is not a functional or sequential
    model. Unsupported layers do not raise, see Problem.
    """
    config = mapping(value, "the model's configuration")
    class_name = text(config.get("class_name"), "the model's class_name")
    if not _is_model(config):
        raise UnsupportedError(
            f"a model of class {class_name!r} without layers in its configuration",
            cure=f"build the network with the functional API or as Sequential, {AS_ONNX}",
        )
    return _read_model(config, class_name, "model", version, 0)


def _is_model(config: Mapping[str, object]) -> bool:
    """Whether an object configures a model: a list of layers, or something with one."""
    inner = config.get("config")
    return isinstance(inner, list) or (isinstance(inner, dict) and "layers" in inner)


def _read_model(
    config: Mapping[str, object], class_name: str, fallback: str, version: KerasVersion, depth: int
) -> ModelConfig:
    if depth > _MAX_DEPTH:
        raise ModelError("models are nested too deeply")
    inner = config["config"]
    values = inner if isinstance(inner, dict) else {"layers": inner}
    name = values.get("name") or config.get("name") or fallback
    layers = [mapping(v, "a layer") for v in sequence(values.get("layers"), "layers")]
    parts = [_EntryReader(v, version, depth) for v in layers]
    _check_names(parts)
    if "output_layers" in values:
        model = _functional(text(name, "a model's name"), class_name, values, parts)
    else:
        model = _sequential(text(name, "a model's name"), class_name, values, parts)
    _check_refs(model)
    return model


class _EntryReader:
    """One element of `layers`."""

    def __init__(self, value: Mapping[str, object], version: KerasVersion, depth: int) -> None:
        self._value = value
        self._version = version
        self._depth = depth
        self.class_name = text(value.get("class_name"), "a layer's class_name")
        inner = value.get("config")
        self.values: Mapping[str, object] = inner if isinstance(inner, dict) else {}
        name = value.get("name") or self.values.get("name")
        self.name = text(name, f"the name of a layer of class {self.class_name}")

    @property
    def is_input(self) -> bool:
        """Whether this is an InputLayer."""
        return self.class_name == "InputLayer"

    @property
    def is_model(self) -> bool:
        """Whether this is a nested model."""
        return _is_model(self._value)

    def problem(self, error: UnsupportedError) -> Problem:
        """This layer, as an unsupported one."""
        return Problem(self.name, self.class_name, error.what, error.cure)

    def target(self) -> Target:
        """What the element configures."""
        if self.is_model:
            return _read_model(
                self._value, self.class_name, self.name, self._version, self._depth + 1
            )
        if self._wraps_model:
            return self._on_each_step()
        try:
            if self.is_input:
                return _read_input(self.name, self.values)
            if self._is_operation():
                return operation_layer(self.name, self.class_name, self._value)
            config = LayerConfig(self.name, self.class_name, self.values, self._version)
            return read_layer(config)
        except UnsupportedError as error:
            return self.problem(error)
        except ModelError as error:
            error.where = error.where or f"layer {self.name!r}"
            error.cure = error.cure or "correct it in the Keras model, and save that again"
            raise

    @property
    def _wraps_model(self) -> bool:
        """Whether this runs a model on each step, or on each step of each step, and so on."""
        held: object = self._value
        while isinstance(held, dict) and held.get("class_name") == "TimeDistributed":
            values = held.get("config")
            held = values.get("layer") if isinstance(values, dict) else None
        return held is not self._value and isinstance(held, dict) and _is_model(held)

    def _on_each_step(self) -> ModelConfig | Problem:
        """A wrapped model, as one of three layers."""
        config = LayerConfig(self.name, self.class_name, self.values, self._version)
        held = mapping(config.raw("layer"), "layer")
        kind = text(held.get("class_name"), "the class of its model")
        try:
            config.check_policy()
            config.check_all_read()
            inner = self._held_model(held, kind)
            if isinstance(inner, Problem):
                return Problem(self.name, self.class_name, inner.what, inner.cure)
            if len(flatten(inner.inputs)) != 1 or len(flatten(inner.outputs)) != 1:
                raise UnsupportedError("wraps a model with several inputs or outputs")
        except UnsupportedError as error:
            return self.problem(error)
        steps, samples = (
            KerasLayer(label, self.class_name, True, LayerPlan(build))
            for label, build in (("steps", samples_as_steps), ("samples", steps_as_samples))
        )
        x, flat, y, result = (TensorRef(n, 0, 0) for n in ("input", "samples", HELD, "steps"))
        entries = (
            Entry("input", "InputLayer", InputSpec(None, DType.FLOAT32), ()),
            Entry("samples", "Reshape", samples, (x,)),
            Entry(HELD, kind, inner, (flat,)),
            Entry("steps", "Reshape", steps, ((y, x),)),
        )
        return ModelConfig(self.name, self.class_name, entries, x, result, False)

    def _held_model(self, held: Mapping[str, object], kind: str) -> ModelConfig | Problem:
        """The model on each step; a wrapper within a wrapper is one too."""
        if _is_model(held):
            return _read_model(held, kind, HELD, self._version, self._depth + 1)
        if self._depth >= _MAX_DEPTH:
            raise ModelError("models are nested too deeply")
        inner = _EntryReader({"name": HELD, **held}, self._version, self._depth + 1)
        return inner._on_each_step()

    def _is_operation(self) -> bool:
        """Whether this is a function of keras.ops; UnsupportedError for custom layers."""
        module, registered = self._value.get("module"), self._value.get("registered_name")
        package = module.split(".")[0] if isinstance(module, str) else "keras"
        if package not in _BUILTIN_PACKAGES or (registered and registered != self.class_name):
            cure = f"use built-in layers, {OWN.format(self.class_name)}"
            raise UnsupportedError("a custom layer", cure=cure)
        names_operation = isinstance(module, str) and ".ops" in module
        # HDF5 files do not name modules, but Keras 3's layers have other attributes there.
        known = self.class_name in operation_names()
        others = {"trainable"} if known else {"trainable", "dtype"}
        return names_operation or (self._version.is_3 and not others & set(self.values))

    def calls(self, target: Target) -> tuple[tuple[Structure, ...], UnsupportedError | None]:
        """The calls; with an error if one of them is unsupported, and the calls on which they
        depend.
        """
        trains = self.class_name == "Pipeline"
        trains |= isinstance(target, KerasLayer) and target.plan.trains_by_default
        nodes = sequence(self._value.get("inbound_nodes", []), "inbound_nodes")
        whole = isinstance(target, KerasLayer) and target.plan.signature
        masked = self.class_name in CALLED_WITH
        try:
            if whole:
                return tuple(parse_full_call(n) for n in nodes), None
            return tuple(parse_call(n, trains=trains, masked=masked) for n in nodes), None
        except UnsupportedError as error:
            return tuple(scan_refs(n) for n in nodes), error
        except ModelError as error:
            error.where = error.where or f"layer {self.name!r}"
            raise


def _read_input(name: str, values: Mapping[str, object]) -> InputSpec:
    dtype = policy_name(values.get("dtype")) or "float32"
    known = [element.value for element in MODEL_DTYPES]
    other = other_policy(dtype)
    if dtype not in (*known, *_OTHER_FLOATS):
        raise UnsupportedError(
            f"dtype {dtype!r} is not supported", cure=f"one of: {', '.join(known)}"
        )
    for attribute in ("sparse", "ragged", "optional"):
        if values.get(attribute):
            raise UnsupportedError(f"{attribute} inputs are not supported", cure="use a dense one")
    shape = values.get("batch_shape") or values.get("batch_input_shape")
    dims = None if shape is None else _read_shape(name, shape)
    return InputSpec(dims, DType.FLOAT32 if other else DType(dtype), other)


def _read_shape(name: str, value: object) -> tuple[int | None, ...]:
    dims = sequence(value, f"the shape of {name!r}")
    for d in dims:
        if d is not None and (not isinstance(d, int) or isinstance(d, bool) or d < 1):
            raise ModelError(
                f"shape {value!r:.60} is malformed", where=f"layer {name!r}",
                cure="every size is positive, or null where it is open",
            )  # fmt: skip
    if not dims:
        raise ModelError("shape () has no batch", where=f"layer {name!r}")
    return tuple(d if isinstance(d, int) else None for d in dims)


def _check_names(parts: Sequence[_EntryReader]) -> None:
    seen: set[str] = set()
    for part in parts:
        if part.name in seen:
            raise ModelError("two layers have this name", where=f"layer {part.name!r}")
        seen.add(part.name)


def _functional(
    name: str, class_name: str, values: Mapping[str, object], parts: Sequence[_EntryReader]
) -> ModelConfig:
    inputs = parse_structure(values.get("input_layers"), "input_layers")
    outputs = parse_structure(values.get("output_layers"), "output_layers")
    known = {part.name for part in parts}
    drafts = []
    for part in parts:
        target = part.target()
        calls, error = part.calls(target)
        if error is not None and not isinstance(target, Problem):
            target = part.problem(error)
        if isinstance(target, Problem):
            calls = tuple(tuple(r for r in flatten(c) if r.layer in known) for c in calls)
        unread = part.values if isinstance(target, Problem) and error is None else None
        drafts.append(Entry(part.name, part.class_name, target, calls, unread=unread))
    return ModelConfig(name, class_name, _numbered(drafts, outputs), inputs, outputs, False)


def _numbered(entries: Sequence[Entry], outputs: Structure) -> tuple[Entry, ...]:
    """Sets `first_node`: Keras 2 counts the calls of nested models from 1."""
    first: dict[str, int] = {}
    structures = [outputs, *(call for entry in entries for call in entry.calls)]
    for ref in (ref for structure in structures for ref in flatten(structure)):
        first[ref.layer] = min(ref.node, first.get(ref.layer, ref.node))
    return tuple(
        replace(e, first_node=first.get(e.name, 0))
        if isinstance(e.target, ModelConfig | Problem)
        else e
        for e in entries
    )


def _sequential(
    name: str, class_name: str, values: Mapping[str, object], parts: Sequence[_EntryReader]
) -> ModelConfig:
    """A chain; if the file has no InputLayer, one is made as in Keras: `<first>_input`."""
    if not parts:
        raise ModelError("has no layers", where=f"model {name!r}")
    targets = [part.target() for part in parts]
    entries = [] if parts[0].is_input else [_implied_input(values, parts[0], targets[0])]
    for part, target in zip(parts, targets, strict=True):
        calls = (TensorRef(entries[-1].name, 0, 0),) if entries else ()
        unread = part.values if isinstance(target, Problem) else None
        entries.append(Entry(part.name, part.class_name, target, calls, unread=unread))
    inputs, outputs = TensorRef(entries[0].name, 0, 0), TensorRef(entries[-1].name, 0, 0)
    return ModelConfig(name, class_name, tuple(entries), inputs, outputs, True)


def _implied_input(values: Mapping[str, object], part: _EntryReader, target: Target) -> Entry:
    name = f"{part.name}_input"
    spec = _first_input(target)
    if spec is None:
        keys = ("batch_shape", "batch_input_shape")
        first = {k: part.values[k] for k in keys if k in part.values}
        spec = _read_input(name, {"batch_shape": values.get("build_input_shape"), **first})
    return Entry(name, "InputLayer", spec, ())


def _first_input(target: Target) -> InputSpec | None:
    """The input that a nested model at the start of a chain expects."""
    while isinstance(target, ModelConfig):
        (name, *_) = (ref.layer for ref in flatten(target.inputs))
        target = next(e.target for e in target.entries if e.name == name)
        if isinstance(target, InputSpec):
            return target
    return None


def _check_refs(model: ModelConfig) -> None:
    """Raises ModelError if a tensor refers to a layer or call that does not exist."""
    entries = {entry.name: entry for entry in model.entries}

    def check(ref: TensorRef, where: str) -> None:
        entry = entries.get(ref.layer)
        if entry is None:
            raise ModelError(
                f"refers to layer {ref.layer!r}, which is missing",
                where=where,
                cure="save the model again",
            )
        count = 1 if entry.class_name == "InputLayer" else len(entry.calls)
        if not 0 <= ref.node - entry.first_node < count:
            what = f"refers to call {ref.node} of {ref.layer!r}, which has {count}"
            raise ModelError(what, where=where)

    for entry in model.entries:
        for ref in (ref for call in entry.calls for ref in flatten(call)):
            check(ref, f"layer {entry.name!r}")
    for ref in (*flatten(model.inputs), *flatten(model.outputs)):
        check(ref, f"model {model.name!r}")
    for ref in flatten(model.inputs):
        if not isinstance(entries[ref.layer].target, InputSpec | Problem):
            raise ModelError("is an input, but not an InputLayer", where=f"layer {ref.layer!r}")
    if not flatten(model.outputs):
        raise ModelError("has no outputs", where=f"model {model.name!r}")
