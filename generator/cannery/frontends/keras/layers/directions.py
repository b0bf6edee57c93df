"""Two layers over one sequence, from the first step on and from the last step back."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from cannery.errors import ModelError, UnsupportedError
from cannery.frontends.json_values import mapping, text
from cannery.frontends.keras.config import LayerConfig
from cannery.frontends.keras.layers.base import LayerPlan, Scope, read_layer
from cannery.ops.concat.op import Concat
from cannery.ops.elementwise.binary import Add, Mul
from cannery.ops.movement.op import Slice

#: From the outputs of both directions, separate or joined, to the layer's result.
Merge = Callable[[Scope, Sequence[str]], list[str]]

SIDES = ("forward", "backward")

CONV_LSTMS = ("ConvLSTM1D", "ConvLSTM2D", "ConvLSTM3D")


def flipped(scope: Scope, x: str, label: str) -> str:
    """x[N,T,...] with the steps in the opposite order."""
    n, steps, *rest = scope.shape(x)
    starts, ends = (0, steps - 1, *(0 for _ in rest)), (n, -1, *rest)
    return scope.node(Slice(starts, ends, (1, -1, *(1 for _ in rest))), [x], label)


def half_of(scope: Scope, x: str, side: int, label: str) -> str:
    """The features of one direction."""
    shape = scope.shape(x)
    width = shape[-1] // 2
    starts = (*(0 for _ in shape[:-1]), side * width)
    ends = (*shape[:-1], (side + 1) * width)
    return scope.node(Slice(starts, ends, (1,) * len(shape)), [x], label)


def merging(mode: str) -> Merge:
    """From the outputs of both directions, separate or joined, to the layer's result."""

    def merge(scope: Scope, ys: Sequence[str]) -> list[str]:
        if mode == "concat":
            axis = scope.rank(ys[0]) - 1
            return [ys[0] if len(ys) == 1 else scope.node(Concat(axis), ys)]
        two = list(ys)
        if len(two) == 1:
            two = [half_of(scope, ys[0], k, f"{SIDES[k]}_half") for k in range(2)]
        if mode == "mul":
            return [scope.node(Mul(), two)]
        if mode == "sum":
            return [scope.node(Add(), two)]
        if mode == "ave":
            total = scope.node(Add(), two, "sum")
            return [scope.node(Mul(), [total, scope.constant("half", lambda: np.float32(0.5))])]
        return two

    return merge


def is_conv_lstm(value: object) -> bool:
    """Whether a serialized layer is one of CONV_LSTMS."""
    return mapping(value, "layer").get("class_name") in CONV_LSTMS


def both_conv_lstms(config: LayerConfig, merge: Merge) -> LayerPlan:
    """Two ConvLSTM layers: x[N,T,...] and maybe the states h, c of each. Keras joins the last axis,
    which is the columns where channels come first.

    Raises ModelError if the layers return different things or run in the same direction.
    """
    given, other = config.raw("layer"), config.raw("backward_layer")
    both = [_settings(given), _settings(other or given)]
    if not other:
        both[1]["go_backwards"] = not both[0].get("go_backwards")
    sequences, state, backwards = (
        [bool(values.get(key)) for values in both]
        for key in ("return_sequences", "return_state", "go_backwards")
    )
    if (sequences[0], state[0]) != (sequences[1], state[1]):
        raise ModelError("its layers return different things")
    if backwards[0] == backwards[1]:
        raise ModelError("its layers run in the same direction")
    children = {
        f"{side}_layer": read_layer(LayerConfig(config.name, name, values, config.version))
        for side, name, values in zip(SIDES, _names(given, other or given), both, strict=True)
    }

    def build(scope: Scope, inputs: Sequence[str]) -> str | list[str]:
        if len(inputs) not in (1, 5):
            raise ModelError(f"has {len(inputs)} inputs, expected a sequence and maybe 4 states")
        x, *initial = inputs
        ys, states = [], []
        for k, (at, child) in enumerate(children.items()):
            own = scope.under(at, attribute=at)
            found = child.plan.build(own, [x, *initial[2 * k : 2 * k + 2]])
            y, *rest = [found] if isinstance(found, str) else found
            # Keras reverses the second result, whichever way its layer runs.
            ys.append(flipped(own, y, "flipped") if sequences[0] and k else y)
            states += rest
        results = [*merge(scope, ys), *states]
        return results if len(results) > 1 else results[0]

    stateful = any(child.plan.stateful for child in children.values())
    return LayerPlan(build, children=children, stateful=stateful, unrolled=True)


def _settings(value: object) -> dict[str, object]:
    return dict(mapping(mapping(value, "layer").get("config"), "the config of its layer"))


def _names(*layers: object) -> tuple[str, ...]:
    """The classes of both layers; UnsupportedError unless they are ConvLSTM layers of one rank."""
    found = tuple(text(mapping(v, "layer").get("class_name"), "a class") for v in layers)
    if len(set(found)) > 1:
        raise UnsupportedError(f"wraps {found[0]!r} and {found[1]!r}", cure="wrap two of one class")
    return found
