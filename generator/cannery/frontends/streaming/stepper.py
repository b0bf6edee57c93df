"""From a network for whole sequences to one for a call, with its state as inputs and outputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import ceil, lcm

import numpy as np

from cannery.errors import CanneryError, OptionError, UnsupportedError
from cannery.frontends.lengths import AheadError, StuckError
from cannery.frontends.streaming.attention import Attention, attend, attentions, of_steps
from cannery.frontends.streaming.beginning import begins, join_beginning
from cannery.frontends.streaming.counting import by_step, is_computed
from cannery.frontends.streaming.lead import first, is_sure, results
from cannery.frontends.streaming.past import Builder, Key
from cannery.frontends.streaming.positions import Turned, constants_by_step, time_of, turned_by
from cannery.frontends.streaming.stream import Stream
from cannery.frontends.streaming.whole import Whole, whole_after, whole_of
from cannery.frontends.streaming.windows import along_time
from cannery.frontends.time_axis import FINAL, Time, Use, one_step, shrunk
from cannery.ir.graph import Array, Calls, Graph, Node
from cannery.ir.orders import model_axis, time_note
from cannery.ir.registry import Elementwise
from cannery.ops.concat.op import Concat
from cannery.ops.movement.op import Identity, Reshape, Transpose
from cannery.ops.quantize.linear import DequantizeLinear, QuantizeLinear
from cannery.ops.recurrent.base import SEQUENCE, Recurrent
from cannery.ops.softmax.op import LogSoftmax, Softmax

#: The least latency that the network allows.
AUTO = "auto"


@dataclass
class Stepper:
    """Rewrites the nodes in order; `streams` grows with the values.

    `blocks` are the steps of calls that have the same state, its own `block` among them.

    `folds` is that of the `Builder`. So many calls as `phase` come before the first one, with steps
    that do not exist.

    `ahead` is the first layer whose output is late, by how many steps of the input. `attending` has
    the scores and shares of attentions among steps, which are no values of the network for a call;
    `turned`, queries and keys that depend on the number of their step, `turning` what is made for
    them; `beginnings`, the first elements of sequences, with the slices that take them;
    `lasting`, of values that are known when the sequence ends, which axis is that of its steps;
    `whole`, where these values have all steps. Outputs depend on what is `needed`.
    """

    graph: Graph
    times: dict[str, Time]
    block: int
    reaches: dict[Key, int]
    blocks: Sequence[int]
    folds: bool = False
    phase: int = 0
    streams: dict[str, Stream] = field(default_factory=dict)
    ahead: tuple[str, Fraction] | None = None
    builder: Builder = field(init=False)
    needed: set[str] = field(init=False)
    attentions: dict[str, Attention] = field(init=False)
    attending: dict[str, Attention] = field(default_factory=dict)
    turned: dict[str, Turned] = field(default_factory=dict)
    turning: set[str] = field(default_factory=set)
    beginnings: dict[str, Node] = field(default_factory=dict)
    lasting: dict[str, int] = field(default_factory=dict)
    whole: dict[str, Whole] = field(default_factory=dict)

    def __post_init__(self) -> None:
        axes = [(v, time) for v, time in self.times.items() if time is not None]
        steps = max((self.graph.types[v].shape[time] for v, time in axes), default=1)
        self.builder = Builder(self.graph, self.block, self.reaches, self.blocks, steps, self.folds)
        self.needed = set(self.graph.outputs)
        for node in reversed(self.graph.nodes):
            if not self.needed.isdisjoint(node.outputs):
                self.needed.update(node.inputs)
        self.attentions = {a.product.output: a for a in attentions(self.graph)}

    def run(self, latency: int | str) -> Graph:
        """The network for a call."""
        graph, b = self.graph, self.builder
        b.types |= {v: graph.types[v] for v in graph.constants}
        for value in graph.inputs:
            time = self.times[value]
            b.types[value] = shrunk(graph.types[value], time, self.block)
            if time is not None:
                self.streams[value] = Stream(time, self.block, self.phase * self.block)
        for done, node in enumerate(graph.nodes):
            try:
                self._node(node)
            except UnsupportedError as error:
                raise StuckError(error, _where(error, node), done) from None
            except CanneryError as error:
                error.where = _where(error, node)
                raise
        self._check_whole()
        before = self.phase * self.block
        late = self._latency(latency if isinstance(latency, str) else latency + before)
        every = lcm(*(self.streams[v].every for v in graph.outputs if v in self.streams))
        for value in graph.outputs:
            self._output(value, late, every)
        return replace(
            graph,
            nodes=tuple(b.nodes),
            inputs=(*graph.inputs, *(s.input for s in b.states)),
            outputs=(*graph.outputs, *(s.output for s in b.states)),
            types=b.types,
            constants={**graph.constants, **b.constants},
            states=(*graph.states, *b.states),
            calls=Calls(
                self.block,
                late - before,
                every,
                b.periods,
                sum(b.settled.values()) + self._latest(),
                any(state.input not in b.settled for state in b.states),
                self.phase,
            ),
            notes=(*graph.notes, *self._notes()),
        )

    def _notes(self) -> Iterator[str]:
        """Which axes are time, where no recurrent layer says so."""
        if not any(isinstance(node.op, Recurrent) for node in self.graph.nodes):
            for value, time in self.times.items():
                if time is not None:
                    yield time_note(value, model_axis(self.graph, value, time))

    def _node(self, node: Node) -> None:
        b = self.builder
        if self._attends(node) or self._begins(node) or self._turns(node):
            return
        found = [self.streams.get(v) if v else None for v in node.inputs]
        windowed = along_time(b, node, found)
        if windowed:
            self._note(node, node.output, windowed)
            source = found[0]
            if windowed.final and source and isinstance(node.op, Softmax | LogSoftmax | Reshape):
                assert source.time is not None
                type_ = self.graph.types[node.inputs[0]]
                self._keep_whole(node, {node.inputs[0]: whole_of(node, type_, {source.time})})
            if windowed.final and isinstance(node.op, Softmax | LogSoftmax):
                self.lasting[node.output] = node.op.axis
            return
        given, streams = self._of_the_end(node, found)
        inputs, stream = self._padded(given, streams) or self._aligned(given, streams)
        inputs, streams = self._counted(node, inputs, streams, stream)
        time, op = one_step(self._use(node, streams))
        now = replace(node, op=op, inputs=inputs)
        if isinstance(op, Recurrent):
            several = self.graph.types[node.inputs[0]].shape[1] > 1
            if (stream or several) and time != 1:
                raise UnsupportedError("its steps are not those of the input")
            self._recurrent(now, op, stream, node.inputs[0])
            return
        b.add(now)
        self._keep_whole(node, self.whole)
        if time is not None and stream:
            if time == FINAL and not stream.final:
                stream = replace(stream, delay=b.lateness(node.inputs[0], stream))
            for value in node.outputs:
                self._note(node, value, replace(stream, time=time))

    def _keep_whole(self, node: Node, known: Mapping[str, Whole]) -> None:
        """Note what a node leaves of all steps, of which the `known` values have some."""
        types = [self.graph.types[v] if v else None for v in node.inputs]
        found = [known.get(v) for v in node.inputs]
        whole = whole_after(node, types, self.graph.types[node.outputs[0]], found)
        if whole:
            self.whole[node.outputs[0]] = whole

    def _check_whole(self) -> None:
        """Raise StuckError for an output that would be a window of all steps in each call."""
        for value in self.graph.outputs:
            if value in self.whole:
                layer = self.whole[value].layer
                error = UnsupportedError(
                    f"it needs all steps; {value!r} would be that of a whole window in each call"
                )
                raise StuckError(error, _where(error, layer), len(self.graph.nodes))

    def _of_the_end(
        self, node: Node, streams: Sequence[Stream | None]
    ) -> tuple[Node, Sequence[Stream | None]]:
        """What meets shares of the last steps becomes its last steps, as many."""
        times = [self.lasting.get(v) for v in node.inputs]
        if all(time is None for time in times) or isinstance(node.op, Recurrent):
            return node, streams
        inputs, found = list(node.inputs), list(streams)
        late = max(s.delay for s in streams if s and s.final)
        for k, stream in enumerate(streams):
            if stream and not stream.final and stream.time is not None:
                if stream.copies:
                    raise UnsupportedError("it joins all steps with copies of the first one")
                if self.builder.lateness(inputs[k], stream) > late:
                    raise UnsupportedError("it joins values of different steps")
                length = self.graph.types[inputs[k]].shape[stream.time]
                inputs[k] = self.builder.last(inputs[k], stream, length, late)
                times[k] = stream.time
                found[k] = replace(stream, time=FINAL, delay=late, lead=None)
        self._keep_steps(node, times)
        return replace(node, inputs=tuple(inputs)), found

    def _keep_steps(self, node: Node, times: Sequence[int | None]) -> None:
        """Note where steps are in the output of a node that has the last ones, if it keeps them."""
        types = [self.graph.types[v] if v else None for v in node.inputs]
        steps = next(t.shape[a] for t, a in zip(types, times, strict=True) if t and a is not None)
        output = self.graph.types[node.outputs[0]]
        try:
            time, _ = one_step(Use(node.op, times, types, output, steps, count=steps))
        except UnsupportedError:  # a sum of all of them
            return
        if time is not None:
            self.lasting |= dict.fromkeys(node.outputs, time)

    def _counted(
        self, node: Node, inputs: Sequence[str], streams: Sequence[Stream | None],
        stream: Stream | None,
    ) -> tuple[tuple[str, ...], Sequence[Stream | None]]:  # fmt: skip
        """Inputs and streams where constants for each step are computed from its number."""
        if not stream or stream.time is None or stream.final:
            return tuple(inputs), streams
        found, times = list(inputs), list(streams)
        for k, axis in constants_by_step(self.graph, node, [s.time if s else None for s in times]):
            value = node.inputs[k]
            found[k] = by_step(self.builder, value, self.graph.constants[value], axis, stream)
            if isinstance(node.op, Concat):
                found[k] = self.builder.repeated(found[k], axis, stream.count)
            times[k] = replace(stream, time=axis, lead=None)
        return tuple(found), times

    def _turns(self, node: Node) -> bool:
        """Whether a node turns queries or keys by the numbers of steps: attention does that."""
        if node.outputs[0] in self.turning:
            return True
        times = [s.time if (s := self.streams.get(v)) else None for v in node.inputs]
        if all(time is None or time == FINAL for time in times):
            return False
        by_step = constants_by_step(self.graph, node, times)
        constants = [(self.graph.constants[node.inputs[k]], axis) for k, axis in by_step]
        if all(is_computed(array, axis) for array, axis in constants):
            return False
        found, made = turned_by(self.graph, node, self.attentions)
        self.turning |= {*made}
        for turned in found:
            root = self.streams[turned.root]
            assert root.time is not None
            time = time_of(self.graph, turned, root.time)
            self.turned[turned.value] = turned
            self._note(node, turned.value, replace(root, time=time, lead=None))
        return bool(found)

    def _begins(self, node: Node) -> bool:
        """Whether a node takes the first elements of a sequence, or joins such with the rest."""
        if begins(self.graph, node, self.streams.get(node.inputs[0])):
            self.beginnings[node.output] = node
            return True
        if node.inputs[0] not in self.beginnings:
            return False
        joined = join_beginning(self.builder, node, self.beginnings, self.streams)
        self._note(node, node.output, joined)
        return True

    def _attends(self, node: Node) -> bool:
        """Whether a node is part of an attention among steps, which its last node computes."""
        value = node.outputs[0]
        started = self.attentions.get(value)
        if started and of_steps(self.graph, started, self.streams):
            self.attending |= dict.fromkeys(started.scores, started)
        elif started and not self.turned.keys().isdisjoint(node.inputs):
            raise UnsupportedError("it multiplies features that depend on the number of the step")
        found = self.attending.get(value) or self.attending.get(node.inputs[0])
        if found and node is found.result:
            self._note(node, value, attend(self.builder, found, self.streams, self.turned))
        return found is not None

    def _note(self, node: Node, value: str, stream: Stream) -> None:
        self.streams[value] = stream
        late = self._late(stream)
        if late > 0 and self.ahead is None:
            self.ahead = (node.name, late)

    def _late(self, stream: Stream) -> Fraction:
        """The delay in steps of the input."""
        return stream.delay * self._step(stream)

    def _latest(self) -> int:
        """Steps after which no value is from before the first one."""
        return ceil(max([Fraction(0), *map(self._late, self.streams.values())]))

    def _step(self, stream: Stream) -> Fraction:
        """Steps of the input from one element to the next."""
        return Fraction(self.block * stream.every, stream.count)

    def _use(
        self, node: Node, streams: Sequence[Stream | None], elements: int | None = None
    ) -> Use:
        """The node as it is in the whole sequence, whose length may differ from value to value; a
        call has so many `elements`, else those of the streams.
        """
        types = [self.graph.types[v] if v else None for v in node.inputs]
        times: list[Time] = [s.time if s else None for s in streams]
        steps, count = 1, 1
        for type_, stream in zip(types, streams, strict=True):
            if type_ and stream and stream.time is not None and not stream.final:
                steps, count = type_.shape[stream.time], stream.count
        count = count if elements is None else elements
        return Use(node.op, times, types, self.graph.types[node.outputs[0]], steps, count=count)

    def _padded(
        self, node: Node, streams: Sequence[Stream | None]
    ) -> tuple[tuple[str, ...], Stream] | None:
        """A value that begins with padding, where it is known what `node` makes of that."""
        (source, *rest), op = streams, node.op
        if any(rest) or not source or (source.delay >= 0 and not source.copies):
            return None
        quantises = isinstance(op, QuantizeLinear | DequantizeLinear)
        if quantises:
            found = (self.graph.constants.get(v) for v in node.inputs[1:])
            if any(constant is None or constant.size != 1 for constant in found):
                return None
        elif rest or not isinstance(op, Elementwise | Identity | Transpose | Reshape):
            return None
        lead = None if source.lead is None else self._of_padding(node, streams, -source.delay)
        if lead is None and not source.copies:
            return None
        return node.inputs, replace(source, lead=lead)

    def _of_padding(self, node: Node, streams: Sequence[Stream | None], count: int) -> Array | None:
        """The first `count` elements that a node makes, if they come from padding and constants
        alone; those that a recurrent layer reads, which also changes its state.
        """
        times, inputs = list(streams), list[Array | None]()
        for value, stream in zip(node.inputs, streams, strict=True):
            known = self.graph.constants.get(value)
            if stream and (stream.lead is None or stream.time is None or stream.final):
                return None
            if stream and stream.lead is not None and stream.time is not None:
                known = first(stream.lead, stream.time, count)
            elif value and known is None:
                return None
            inputs.append(known)
        if isinstance(node.op, Recurrent):
            return inputs[0]
        if len(node.outputs) > 1:
            return None
        own = [s.time if s else None for s in streams]
        for k, axis in constants_by_step(self.graph, node, own):
            inputs[k], times[k] = (
                first(self.graph.constants[node.inputs[k]], axis, count),
                Stream(axis),
            )
        try:
            time, op = one_step(self._use(node, times, count))
        except UnsupportedError:
            return None
        if time is None or time == FINAL or (self.folds and not is_sure(op, inputs)):
            return None
        (found,) = results(op, *inputs)
        return found.astype(self.graph.types[node.output].dtype.numpy)

    def _aligned(
        self, node: Node, streams: Sequence[Stream | None]
    ) -> tuple[tuple[str, ...], Stream | None]:
        """The inputs of a node, those that come earlier delayed, and what they have in common."""
        pairs = [self._without_copies(v, s) for v, s in zip(node.inputs, streams, strict=True)]
        node, streams = replace(node, inputs=tuple(v for v, _ in pairs)), [s for _, s in pairs]
        known = [s for s in streams if s]
        if not known:
            return node.inputs, None
        every = lcm(*(s.every for s in known))
        given, streams = self._together(node.inputs, streams, every)
        known = [s for s in streams if s]
        latest = max(known, key=self._late)
        late, lead = self._late(latest), None
        if late < 0:
            count = int(-late / self._step(latest))
            lead = self._of_padding(node, streams, count) if self.folds else None
            late = late if lead is not None else Fraction(0)
        if len({s.count for s in known if not s.final}) > 1:
            raise UnsupportedError("it joins values that come at different rates")
        inputs = []
        for value, stream in zip(given, streams, strict=True):
            delayed = value
            if stream and self._late(stream) != late:
                delay = late / self._step(stream)
                delayed, _ = self.builder.delayed(value, stream, int(delay))
            inputs.append(delayed)
        timed = next((s for s in known if not s.final), latest)
        return tuple(inputs), replace(timed, delay=int(late / self._step(timed)), lead=lead)

    def _without_copies(self, value: str, stream: Stream | None) -> tuple[str, Stream | None]:
        """A value whose first steps are copies of the next one, step by step."""
        return self.builder.begun(value, stream) if stream and stream.copies else (value, stream)

    def _together(
        self, inputs: Sequence[str], streams: Sequence[Stream | None], every: int
    ) -> tuple[Sequence[str], Sequence[Stream | None]]:
        """Inputs that come once in `every` calls; those that come more often are collected."""
        pairs = [
            self.builder.lifted(v, s, every // s.every) if s else (v, None)
            for v, s in zip(inputs, streams, strict=True)
        ]
        return [v for v, _ in pairs], [s for _, s in pairs]

    def _recurrent(self, node: Node, op: Recurrent, stream: Stream | None, whole: str) -> None:
        """A layer that begins with its state, and returns the next one; `whole` is its input in the
        network for the sequence.
        """
        b = self.builder
        known = dict(zip(op.returns, node.outputs, strict=True))
        outputs = {what: known.get(what) or b.fresh(f"{node.name}/{what}") for what in op.results}
        if stream:
            self.streams[outputs[SEQUENCE]] = stream
            for what in op.results[1:]:
                if known.get(what) in self.needed:
                    late = b.lateness(whole, stream)
                    final = replace(stream, time=FINAL, delay=late, lead=None)
                    self.streams[outputs[what]] = final
        rest = (*node.inputs[2:], *[""] * (op.states + op.others))
        n, d = b.types[node.inputs[0]].shape[0], op.directions * op.cells
        given = list(rest[: op.states])
        owned = [k for k, value in enumerate(given) if self._is_own(value)]
        others = rest[op.states : op.states + op.others]
        full = replace(op, returns=op.results)
        starts = {k: self._initial(given[k], (n, d)) for k in owned}
        if stream and stream.lead is not None:
            weights, *constants = (self.graph.constants.get(v) for v in (node.inputs[1], *others))
            sequence, *ends = results(full, stream.lead, weights, *starts.values(), *constants)
            self.streams[outputs[SEQUENCE]] = replace(stream, lead=sequence)
            starts = dict(enumerate(ends))
        following = {}
        for k in owned:
            given[k], following[k] = b.state(
                f"{node.name}/{'hc'[k]}", (n, d), starts[k], every=stream.every if stream else 1
            )
        inputs = (*node.inputs[:2], *given, *others)
        if stream and stream.delay > 0:
            inputs = (*inputs, b.missing(stream))
        b.add(replace(node, op=full, inputs=inputs, outputs=tuple(outputs.values())))
        for k in owned:
            value = outputs[op.results[1 + k]]
            b.add(Node(Identity(), following[k], (value,), (following[k],)))

    def _is_own(self, value: str) -> bool:
        """Whether a layer's state passes from step to step by itself; not where it is computed."""
        if not value or value in self.graph.constants:
            return True
        if value in {s.input for s in self.graph.states}:
            return False
        raise UnsupportedError(
            f"its state begins with {value!r}, which is computed or an input",
            cure="--state IN=OUT names the input and the output that are its state",
        )

    def _initial(self, value: str, shape: tuple[int, ...]) -> Array | None:
        return np.asarray(self.graph.constants[value]).reshape(shape) if value else None

    @property
    def apart(self) -> int:
        """Steps from one time at which all outputs have whole elements to the next."""
        flows = (self.streams[v] for v in self.graph.outputs if v in self.streams)
        return lcm(*(self._step(s).numerator for s in flows if not s.final), 1)

    def _latency(self, wanted: int | str) -> int:
        """By how many steps all outputs are late. Raises OptionError if they would have to be."""
        flows = [self.streams[v] for v in self.graph.outputs if v in self.streams]
        least = max([Fraction(0), *map(self._late, flows)])
        whole = self.apart
        steps = int(-(-least // whole) * whole)
        if wanted == AUTO:
            return steps
        assert isinstance(wanted, int)
        if wanted < least:
            name, late = self.ahead or ("", Fraction(0))
            cure = late_cure(steps)
            what = f"outputs need inputs of {steps} later steps"
            ahead = f"layer {name!r} is the first that looks ahead"
            if whole > 1:
                what, cure = "outputs need inputs of later steps", f"{cure}: one comes in {whole}"
            else:
                ahead += f", by {late}"
            raise AheadError(f"{what}; {ahead}", where="--latency", cure=cure)
        if wanted % whole:
            raise OptionError(
                f"outputs come once in {whole} steps", where="--latency",
                cure=f"give a multiple of {whole}",
            )  # fmt: skip
        return wanted

    def _output(self, value: str, late: int, every: int) -> None:
        """Give an output its latency, under its own name; all come once in `every` calls."""
        b, stream = self.builder, self.streams.get(value)
        if every > 1:
            b.periods[value] = every
        if stream is None or stream.final:
            return
        if stream.copies:
            raise UnsupportedError("an output begins with copies of the first step")
        delay = int(late / self._step(stream))
        times = every // stream.every
        if (delay, times) == (stream.delay, 1):
            return
        inner, stream = b.lifted(b.rename(value), stream, times)
        found, _ = b.delayed(inner, stream, int(late / self._step(stream)))
        b.add(Node(Identity(), value, (found,), (value,)))


def late_cure(steps: int) -> str:
    """What to do where outputs need so many later steps."""
    return f"--latency {steps} (or auto) accepts outputs that are {steps} steps late"


def _where(error: CanneryError, node: Node) -> str:
    """The layer, with the option if that is to blame."""
    layer = f"layer {node.name!r} ({node.op.kind})"
    if error.where and error.where.startswith("--"):
        return f"{error.where}, {layer}"
    return error.where or layer
