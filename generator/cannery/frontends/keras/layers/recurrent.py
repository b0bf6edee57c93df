"""Recurrent layers, alone, stacked and in both directions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from cannery.errors import ModelError, UnsupportedError
from cannery.frontends.json_values import mapping, text
from cannery.frontends.keras.config import LayerConfig
from cannery.frontends.keras.layers.base import (
    KerasLayer,
    LayerPlan,
    Mask,
    Scope,
    held_layer,
    layer,
)
from cannery.frontends.keras.layers.cells import (
    Cell,
    Direction,
    layer_of,
    read_cell,
    read_cells,
    run_cells,
    run_masked,
)
from cannery.frontends.keras.layers.directions import (
    CONV_LSTMS,
    SIDES,
    both_conv_lstms,
    flipped,
    half_of,
    is_conv_lstm,
    merging,
)
from cannery.frontends.keras.masks import READERS
from cannery.ops.concat.op import Concat
from cannery.ops.logic.compare import Where
from cannery.ops.movement.op import Reshape, Slice
from cannery.ops.recurrent.base import Recurrent
from cannery.ops.recurrent.op import Gru, Lstm, Rnn

_LAYERS: Mapping[str, type[Recurrent]] = {"LSTM": Lstm, "GRU": Gru, "SimpleRNN": Rnn}

#: Layers that TimeDistributed may wrap without any change: they see only the last axis.
_ANY_RANK = frozenset("Dense Activation ReLU LeakyReLU ELU ThresholdedReLU Dropout".split())


@dataclass(frozen=True)
class RecurrentLoop:
    """A recurrent layer: its cells from the first to the last, each with its attribute.

    `zeros`: in steps that a mask leaves out, its sequence is 0.
    """

    cells: tuple[tuple[Cell, str], ...]
    backwards: bool
    sequences: bool
    state: bool
    stateful: bool
    zeros: bool = False

    @property
    def states(self) -> int:
        return sum(cell.states for cell, _ in self.cells)


def _read_loop(config: LayerConfig) -> RecurrentLoop:
    """The contents of a config of LSTM, GRU, SimpleRNN or RNN."""
    config.ignore("unroll")
    if config.class_name in _LAYERS:
        cells = [(read_cell(config, _LAYERS[config.class_name]), "cell")]
    else:
        cells = read_cells(config, config.raw("cell"))
    return RecurrentLoop(
        tuple(cells), config.flag("go_backwards", False), config.flag("return_sequences", False),
        config.flag("return_state", False), config.flag("stateful", False),
        config.flag("zero_output_for_mask", False),
    )  # fmt: skip


def _children(loop: RecurrentLoop, *, trainable: bool) -> dict[str, KerasLayer]:
    return {at: layer_of(cell, at, trainable=trainable) for cell, at in loop.cells}


@layer("LSTM", "GRU", "SimpleRNN", "RNN")
def recurrent(config: LayerConfig) -> LayerPlan:
    """One loop over time; inputs are the sequence and, maybe, the initial states."""
    loop = _read_loop(config)

    def build(scope: Scope, inputs: Sequence[str]) -> str | list[str]:
        x, initial = _operands(scope, inputs, loop.states)
        original = _without_implicit_mask(scope, inputs, config)
        y, states = _run(scope, loop, x, initial)
        if loop.sequences:
            scope.given.result_mask = original
        if loop.backwards and loop.sequences:
            y = flipped(scope, y, "flipped")
        return [y, *states] if loop.state else y

    children = _children(loop, trainable=config.trainable)
    return LayerPlan(build, children=children, stateful=loop.stateful, reads_masks=True)


def _operands(scope: Scope, inputs: Sequence[str], states: int) -> tuple[str, list[str]]:
    """The sequence and the initial states, if there are any."""
    if not inputs:
        raise ModelError("has no inputs")
    x, *initial = [scope.to_float(value) for value in inputs]
    if scope.rank(x) != 3:
        raise ModelError(f"its input has shape {scope.shape(x)}, expected steps and features")
    if initial and len(initial) != states:
        raise ModelError(f"has {len(initial)} initial states, expected {states}")
    return x, initial


def _without_implicit_mask(scope: Scope, inputs: Sequence[str], config: LayerConfig) -> Mask | None:
    """The mask of the sequence. Keras 3 does not use it in calls with initial states, unless it is
    an argument of the call.
    """
    given = scope.given
    found = given.masks[0] if given.masks else None
    if config.version.is_3 and len(inputs) > 1 and len(given.masks) == len(inputs):
        given.masks = ()
    return found


def _run(
    scope: Scope, loop: RecurrentLoop, x: str, initial: Sequence[str], side: str = ""
) -> tuple[str, list[str]]:
    """Chains the cells: returns the last one's output, in the order of steps, and all states.

    `side` names the Bidirectional layer's attribute that holds the cells.
    """
    found: list[str] = []
    given, mask = list(initial), scope.mask()
    for number, (cell, at) in enumerate(loop.cells):
        part = f"{side}/cell{number}".lstrip("/") if len(loop.cells) > 1 else side
        path = f"{side}_layer/{at}" if side else at
        direction = Direction(scope.under(path, attribute=path), cell, loop.backwards)
        own, given = given[: cell.states], given[cell.states :]
        if mask is not None:
            run = run_masked(scope, x, direction, mask, own, part)
            x, last = run.sequence, run.last
            found += run.states
            continue
        x, *states = run_cells(scope, x, [direction], own, part)
        found += states
    if mask is not None:
        return _left_out(scope, x if loop.sequences else last, mask, loop, side), found
    if loop.sequences:
        return x, found
    return found[-loop.cells[-1][0].states], found


def _left_out(scope: Scope, y: str, mask: str, loop: RecurrentLoop, side: str) -> str:
    """A masked result: with `zeros`, 0 where the mask leaves steps out."""
    if not loop.zeros:
        return y
    n, steps = scope.shape(mask)
    label = f"{side}/kept".lstrip("/")
    if loop.sequences:
        wide = scope.node(Reshape((n, steps, 1)), [mask], f"{label}_mask")
    else:
        at = 0 if loop.backwards else steps - 1
        wide = scope.node(Slice((0, at), (n, at + 1), (1, 1)), [mask], f"{label}_mask")
    return scope.node(Where(), [wide, y, scope.literal(f"{label}_zero", np.zeros(()))], label)


@layer("Bidirectional")
def bidirectional(config: LayerConfig) -> LayerPlan:
    """One layer from the first step on, one from the last step back; their outputs are merged."""
    modes = ("concat", "sum", "mul", "ave", "")
    raw = config.raw("merge_mode")
    mode = "" if raw is None and config.has("merge_mode") else config.choice(
        "merge_mode", "concat", modes
    )  # fmt: skip
    merge = merging(mode)
    if is_conv_lstm(config.raw("layer")):
        return both_conv_lstms(config, merge)
    forward = _wrapped_loop(config, config.raw("layer"))
    given = config.raw("backward_layer")
    backward = _wrapped_loop(config, given or config.raw("layer"), opposite=not given)
    if (forward.sequences, forward.state) != (backward.sequences, backward.state):
        raise ModelError("its layers return different things")
    if forward.backwards == backward.backwards:
        raise ModelError("its layers run in the same direction")

    def build(scope: Scope, inputs: Sequence[str]) -> str | list[str]:
        count = forward.states
        original = _without_implicit_mask(scope, inputs, config)
        x, initial = _operands(scope, inputs, 2 * count)
        both = (initial[:count], initial[count:])
        if forward.sequences:
            scope.given.result_mask = original
        if scope.mask() is None and _joins(forward, backward):
            ys, states = _run_both(scope, (forward, backward), x, both)
        else:
            ys, states = _run_apart(scope, (forward, backward), x, both)
        results = merge(scope, ys)
        states_ = states if forward.state else []
        return [*results, *states_] if len(results) > 1 or states_ else results[0]

    children = {
        f"{side}_layer/{at}": child
        for side, loop in (("forward", forward), ("backward", backward))
        for at, child in _children(loop, trainable=config.trainable).items()
    }
    stateful = forward.stateful or backward.stateful
    return LayerPlan(build, children=children, stateful=stateful, reads_masks=True)


def _wrapped_loop(config: LayerConfig, value: object, *, opposite: bool = False) -> RecurrentLoop:
    """The recurrent layer that Bidirectional wraps."""
    given = mapping(value, "layer")
    class_name = text(given.get("class_name"), "the class of its layer")
    if class_name not in (*_LAYERS, "RNN"):
        raise UnsupportedError(
            f"wraps {class_name!r}",
            cure=f"wrap one of: {', '.join(_LAYERS)}, RNN, {', '.join(CONV_LSTMS)}",
        )
    values = mapping(given.get("config"), "the config of its layer")
    inner = LayerConfig(config.name, class_name, values, config.version)
    loop = _read_loop(inner)
    inner.check_all_read()
    backwards = loop.backwards != opposite
    return replace(loop, backwards=backwards)


def _joins(forward: RecurrentLoop, backward: RecurrentLoop) -> bool:
    """Whether one node can run both: similar cells, the first one from the start."""
    if len(forward.cells) > 1 or len(backward.cells) > 1 or forward.backwards:
        return False
    (a, _), (b, _) = forward.cells[0], backward.cells[0]
    return (a.kind, a.units, a.bias, a.reset_after, a.peepholes) == (
        b.kind, b.units, b.bias, b.reset_after, b.peepholes,
    )  # fmt: skip


Both = tuple[RecurrentLoop, RecurrentLoop]


def _run_both(
    scope: Scope, loops: Both, x: str, initial: tuple[list[str], list[str]]
) -> tuple[list[str], list[str]]:
    """Both directions by one node; its result is split only where needed."""
    directions = []
    for loop, side in zip(loops, SIDES, strict=True):
        cell, at = loop.cells[0]
        path = f"{side}_layer/{at}"
        directions.append(Direction(scope.under(path, attribute=path), cell, loop.backwards))
    given = [
        scope.node(Concat(1), list(pair), f"initial{k}")
        for k, pair in enumerate(zip(*initial, strict=True))
    ]
    y, *states = run_cells(scope, x, directions, given)
    both = y if loops[0].sequences else states[0]
    halves = [half_of(scope, s, k, f"state{k}") for k in range(2) for s in states]
    return [both], halves if loops[0].state else []


def _run_apart(
    scope: Scope, loops: Both, x: str, initial: tuple[list[str], list[str]]
) -> tuple[list[str], list[str]]:
    """Two layers of any kind; Keras reverses the order of the second one's result."""
    ys, states = [], []
    for side, loop, own in zip(SIDES, loops, initial, strict=True):
        y, found = _run(scope, loop, x, own, side)
        # Already in the order of steps: forwards, and where both reversals cancel.
        if loop.sequences and loop.backwards != (side == "backward"):
            y = flipped(scope, y, f"{side}/flipped")
        ys.append(y)
        states += found
    return ys, states


def steps_as_samples(scope: Scope, inputs: Sequence[str]) -> str:
    """x[N,T,...] -> [N*T,...]."""
    x = scope.single(inputs)
    if scope.rank(x) < 2:
        raise ModelError(f"its input has shape {scope.shape(x)}, without steps")
    n, steps, *rest = scope.shape(x)
    return scope.node(Reshape((n * steps, *rest)), [x])


def samples_as_steps(scope: Scope, inputs: Sequence[str]) -> str:
    """y[N*T,...], x[N,T,...] -> y[N,T,...]."""
    y, x = inputs
    return scope.node(Reshape((*scope.shape(x)[:2], *scope.shape(y)[1:])), [y])


@layer("TimeDistributed")
def time_distributed(config: LayerConfig) -> LayerPlan:
    """A layer on each step: steps become samples, and steps again after it; a mask stays as it is.

    Models on each step are read as models, see `model.py`.
    """
    inner = held_layer(config)

    def build(scope: Scope, inputs: Sequence[str]) -> str | list[str]:
        x = scope.single(inputs)
        scope.given.result_mask = scope.given.masks[0] if scope.given.masks else None
        own = scope.under("layer", attribute="layer")
        if inner.class_name in _ANY_RANK:
            return inner.plan.build(own, [x])
        y = inner.plan.build(own, [steps_as_samples(scope.under("samples"), [x])])
        if not isinstance(y, str):
            raise UnsupportedError("wraps a layer with several outputs")
        return samples_as_steps(scope, [y, x])

    children = {"layer": inner} if inner.has_weights else {}
    return LayerPlan(build, children=children, reads_masks=inner.class_name not in READERS)
