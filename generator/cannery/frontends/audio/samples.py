"""Networks over samples, as audio has them: one input along time, and layers that look back alone.

For readers of files that list such layers. Values are [N,T,C]: samples of the batch, steps,
channels. Before the first step, everything is zero.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from math import inf

import numpy as np
from numpy.typing import NDArray

from cannery.errors import ModelError, OptionError, closest
from cannery.frontends.interface import check_input_names, declare_input, finish
from cannery.frontends.noise import require_no_noise
from cannery.frontends.open_dimensions import ANY_STEPS, OpenDimensionError, check_dims
from cannery.frontends.options import ImportOptions
from cannery.ir.graph import Array, Graph, GraphBuilder
from cannery.ir.numeric import F64
from cannery.ir.registry import Op
from cannery.ir.tensor import DType
from cannery.ops.conv.op import Conv
from cannery.ops.elementwise.activations import Sigmoid, Tanh
from cannery.ops.matmul.op import MatMul
from cannery.ops.movement.op import Slice
from cannery.ops.recurrent.base import SEQUENCE
from cannery.ops.recurrent.op import Gru, Lstm

INPUT, OUTPUT = "input", "output"

F32 = NDArray[np.float32]


class SampleNet:
    """A network under construction; `x` is what the layers take as their input."""

    def __init__(
        self, name: str, options: ImportOptions, shape: Sequence[int], *, steps: int | None
    ) -> None:
        """`shape` is that of one step, channels last; `steps` are those of the file, if any.

        Raises OpenDimensionError if nobody says how many there are.
        """
        self._builder = GraphBuilder(name)
        self._options = options
        self._looks_back: dict[str, float] = {}
        check_input_names(options, [INPUT])
        require_no_noise(options.noise)
        key = f"{INPUT}.1"
        check_dims(options, [] if steps else [key])
        steps = steps or options.dims.get(key) or (ANY_STEPS if options.streaming else 0)
        if not steps:
            error = OpenDimensionError([(1, key)], f"input {INPUT!r}")
            error.cure += "; or --streaming runs it step by step"
            raise error
        dims = (options.batch, steps, *shape)
        self.x = declare_input(self._builder, INPUT, dims, DType.FLOAT32, options)

    def shape(self, value: str) -> tuple[int, ...]:
        """The shape of a value."""
        return self._builder.types[value].shape

    def channels(self, value: str) -> int:
        """The size of its last axis."""
        return self.shape(value)[-1]

    def node(self, op: Op, inputs: Sequence[str], name: str, looks_back: float = 0) -> str:
        """Append a node with one output, which reads so many steps before its own."""
        value = self._builder.node(op, inputs, name=name)
        known = (self._looks_back.get(v, 0) for v in inputs)
        self._looks_back[value] = max(known, default=0) + looks_back
        return value

    def constant(self, name: str, array: Array) -> str:
        """Add a constant."""
        return self._builder.constant(name, array)

    def conv(
        self, x: str, weight: F32, bias: F32 | None, name: str, dilation: int = 1, group: int = 1
    ) -> str:
        """weight[K,IC/group,OC], the last tap for the step itself."""
        inputs = [x, self.constant(f"{name}/weight", np.ascontiguousarray(weight))]
        if bias is not None:
            inputs.append(self.constant(f"{name}/bias", bias))
        before = (weight.shape[0] - 1) * dilation
        return self.node(Conv((1,), ((before, 0),), (dilation,), group), inputs, name, before)

    def dense(self, x: str, weight: Array, bias: Array | None, name: str) -> str:
        """weight[IC,OC], step by step."""
        inputs = [x, self.constant(f"{name}/weight", weight)]
        if bias is not None:
            inputs.append(self.constant(f"{name}/bias", bias))
        return self.node(MatMul(), inputs, name)

    def part(self, x: str, start: int, end: int, name: str) -> str:
        """Some of the channels."""
        shape = self.shape(x)
        starts = (*(0 for _ in shape[:-1]), start)
        return self.node(Slice(starts, (*shape[:-1], end), (1,) * len(shape)), [x], name)

    def lstm(
        self, x: str, weights: Mapping[str, F64], name: str, initial: Sequence[F32] = ()
    ) -> str:
        """Gates i, o, f, c as in `Lstm`: w[IC,4H], b[4H], r[H,4H]; `initial` are h[H] and c[H]."""
        op = Lstm(weights["r"].shape[0], ((Sigmoid(),), (Tanh(),), (Tanh(),)), returns=(SEQUENCE,))
        batch = self._options.batch
        states = [
            self.constant(f"{name}/{what}", np.tile(state, (batch, 1)))
            for what, state in zip("hc", initial, strict=False)
        ]
        return self._recurrent(op, x, weights, name, states)

    def gru(self, x: str, weights: Mapping[str, F64], name: str) -> str:
        """Gates z, r, h as in `Gru`, the reset gate after the product: w[IC,3H], b[3H], r[H,3H],
        and q[H], the recurrent bias of the third gate.
        """
        op = Gru(
            weights["r"].shape[0], ((Sigmoid(),), (Tanh(),)), returns=(SEQUENCE,),
            linear_before_reset=True,
        )  # fmt: skip
        bias = self.constant(f"{name}/recurrent_bias", weights["q"][None])
        return self._recurrent(op, x, weights, name, ["", bias])

    def _recurrent(
        self, op: Op, x: str, weights: Mapping[str, F64], name: str, others: Sequence[str]
    ) -> str:
        projected = self.dense(x, weights["w"], weights["b"], f"{name}/projected")
        inputs = [projected, self.constant(f"{name}/recurrent", weights["r"][None]), *others]
        return self.node(op, inputs, name, inf)

    def finish(self, value: str, rates: Collection[float]) -> Graph:
        """The network with that output, or those that the options name; `rates` are those of its
        samples, as far as the file says.
        """
        outputs = [(name, self._layer(name)) for name in self._options.outputs]
        graph = finish(self._builder, [INPUT], outputs or [(OUTPUT, value)], self._options)
        if wrong := [rate for rate in rates if rate <= 0]:
            raise ModelError(f"its sample rate is {wrong[0]:g}")
        notes = [f"trained at {rate:g} samples per second" for rate in rates]
        steps = max(self._looks_back.get(v, 0) for _, v in outputs or [(OUTPUT, value)])
        if steps < inf:
            notes.append(f"each output depends on the last {steps + 1} samples")
        return replace(graph, notes=(*graph.notes, *notes))

    def _layer(self, name: str) -> str:
        values = [v for v in self._builder.types if v not in self._builder.constants and v != INPUT]
        if name not in values:
            near = closest(name, values)
            cure = f"did you mean {near!r}?" if near else f"the last ones are: {values[-8:]}"
            raise OptionError(f"no layer is called {name!r}", where="--outputs", cure=cure)
        return name


class Weights:
    """A flat list of numbers, which layers take one after the other."""

    #: More numbers and layers than these that are missing are not imagined.
    _MOST_MISSING, _MOST_EMPTY = 2**24, 10_000

    def __init__(self, numbers: Sequence[object], where: str) -> None:
        self._where = where
        self._numbers = float_numbers(numbers, where)
        if self._numbers.ndim != 1:
            raise ModelError("it is not a flat list of numbers", where=where)
        self._at = self._empty = 0

    def take(self, *shape: int) -> F32:
        """The next numbers, in that shape; zeros after the last one, for `check_all_taken`."""
        count = int(np.prod(shape, dtype=object))
        start, self._at = self._at, self._at + count
        if self._at <= self._numbers.size:
            return self._numbers[start : self._at].reshape(shape)
        self._empty += 1
        if count > self._MOST_MISSING or self._empty > self._MOST_EMPTY:
            raise self._wrong("at least ")
        return np.zeros(shape, np.float32)

    def check_all_taken(self) -> None:
        """Raises ModelError unless there were as many numbers as the layers took."""
        if self._at != self._numbers.size:
            raise self._wrong("")

    def _wrong(self, more: str) -> ModelError:
        needed = f"{more}{self._at}"
        return ModelError(
            f"has {self._numbers.size} weights, but its configuration needs {needed}",
            where=self._where, cure="the file is damaged: save the model again",
        )  # fmt: skip


def float_numbers(numbers: object, where: str) -> F32:
    """Numbers, in nested lists of any shape, as float32; ModelError if one is not finite."""
    cure = "training has diverged or the file is damaged: save a sound model"
    _check_leaves(numbers, where)
    try:
        with np.errstate(over="ignore"):
            array = np.asarray(numbers, np.float64).astype(np.float32)
    except (ValueError, TypeError, OverflowError):
        raise ModelError("they are not a regular array of numbers", where=where) from None
    bad = np.flatnonzero(~np.isfinite(array))
    if bad.size:
        what = f"number {bad[0]} is {array.reshape(-1)[bad[0]]} in float32"
        raise ModelError(what, where=where, cure=cure)
    return array


def _check_leaves(numbers: object, where: str) -> None:
    """Raises ModelError for anything in lists that is not a number: numpy would read texts."""
    todo = [numbers]
    while todo:
        found = todo.pop()
        for each in found if isinstance(found, list) else [found]:
            if isinstance(each, list):
                todo.append(each)
            elif isinstance(each, bool) or not isinstance(each, int | float):
                raise ModelError(f"{each!r:.60} is not a number", where=where)
