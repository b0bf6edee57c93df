"""Attention layers.

Masks are added to the scores: a large negative number where a step does not count, so that its
share is 0. Where no step counts at all, the shares are those that Keras computes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod, sqrt

import numpy as np
from numpy.typing import NDArray

from cannery.errors import ModelError, UnsupportedError
from cannery.frontends.keras.arguments import Operand
from cannery.frontends.keras.config import LayerConfig
from cannery.frontends.keras.layers.base import KerasLayer, LayerPlan, Scope, layer
from cannery.ir.tensor import DType
from cannery.ops.attention.op import Attention, HeadChannels
from cannery.ops.elementwise.activations import Sigmoid, Tanh
from cannery.ops.elementwise.binary import Add, Mul
from cannery.ops.logic.compare import And, Where
from cannery.ops.matmul.op import MatMul
from cannery.ops.movement.op import Cast, Expand, Reshape, Transpose
from cannery.ops.reduce.op import ReduceSum
from cannery.ops.softmax.op import Softmax

#: What Keras adds to scores that do not count: Attention, and the others.
_FAR = -1e9
_FARTHEST = -0.7 * float(np.finfo(np.float32).max)

_CALL = (
    "query value key query_mask value_mask key_mask attention_mask return_attention_scores "
    "training use_causal_mask"
)


@dataclass(frozen=True)
class _Heads:
    """What the layers with several heads have in common; `groups` heads have keys and values."""

    heads: int
    groups: int
    key_size: int
    value_size: int
    bias: bool
    gate: bool
    window: int | None
    axes: tuple[int, ...] | None = None
    output: tuple[int, ...] | None = None
    #: Before the names of the attributes that hold the projections, except that of gates.
    hidden: str = ""

    def holder(self, name: str) -> str:
        """The attribute that holds a projection; its weights have the same group."""
        return f"_{name}_dense" if name == "gate" else f"{self.hidden}{name}_dense"


@layer("MultiHeadAttention")
def multi_head_attention(config: LayerConfig) -> LayerPlan:
    """softmax(q k^T / sqrt(size) + mask) v for each head, between projections."""
    config.ignore("dropout", "seed", "flash_attention", "query_shape", "key_shape", "value_shape")
    size = config.integer("key_dim")
    given = config.raw("value_dim")
    heads = config.integer("num_heads")
    axes = None if config.raw("attention_axes") is None else config.axes("attention_axes")
    output = None if config.raw("output_shape") is None else config.axes("output_shape")
    return _plan_heads(_Heads(
        heads, heads, size, config.integer("value_dim") if given else size,
        config.flag("use_bias", True), config.flag("use_gate", False),
        _window(config), axes, output,
    ))  # fmt: skip


@layer("GroupQueryAttention", "GroupedQueryAttention")
def group_query_attention(config: LayerConfig) -> LayerPlan:
    """The same where several queries share each head of keys and values."""
    config.ignore("dropout", "seed", "flash_attention")
    size, heads = config.integer("head_dim"), config.integer("num_query_heads")
    groups = config.integer("num_key_value_heads")
    if heads % groups:
        raise ModelError(f"num_query_heads {heads} is not a multiple of {groups}")
    bias, gate = config.flag("use_bias", True), config.flag("use_gate", False)
    return _plan_heads(_Heads(heads, groups, size, size, bias, gate, _window(config), hidden="_"))


def _window(config: LayerConfig) -> int | None:
    given = config.raw("sliding_window")
    return None if given is None else config.integer("sliding_window")


def _plan_heads(own: _Heads) -> LayerPlan:
    def build(scope: Scope, inputs: Sequence[str]) -> str | list[str]:
        given = scope.given.arguments
        query, value = (scope.to_float(given.tensor(key)) for key in ("query", "value"))
        other = given.optional_tensor("key")
        key = value if other is None else scope.to_float(other)
        wanted = given.flag("return_attention_scores")
        if wanted and scope.rank(query) != 3:
            raise UnsupportedError("scores of attention over several axes are not supported")
        if given.flag("training"):
            raise UnsupportedError("it is called with training=True")
        # Keras asks for masks of the query, the value and the key, as far as it is called with one.
        found = dict(zip(_tensors(scope), scope.given.masks, strict=False))
        scope.given.result_mask = found.get("query")
        mask = _mask_of_heads(scope, own, query, value)
        y, projected = _attend(scope, own, (query, key, value), mask)
        return [y, _scores(scope, own, projected, mask)] if wanted else y

    names = ("query", "key", *(("gate",) if own.gate else ()), "value", "output")
    children = {own.holder(name): _projection(name, own.bias) for name in names}
    return LayerPlan(build, children=children, signature=tuple(_CALL.split()), reads_masks=True)


def _tensors(scope: Scope) -> list[str]:
    """The names of a call's arguments that are tensors, in the order of its inputs."""
    given = scope.given.arguments
    return [key for key in given.order if isinstance(given.raw(key), Operand)]


def _projection(name: str, bias: bool) -> KerasLayer:
    def build(scope: Scope, inputs: Sequence[str]) -> str:
        raise AssertionError("its layer builds it")

    weights = ("kernel", "bias") if bias else ("kernel",)
    return KerasLayer(name, "EinsumDense", True, LayerPlan(build, weights))


def _mask_of_heads(scope: Scope, own: _Heads, query: str, value: str) -> str | None:
    """What is added to the scores, [.., T, S]; None for nothing."""
    given = scope.given.arguments
    masks = dict(zip(_tensors(scope), scope.given.masks, strict=False))
    parts = []
    for key in ("query", "value", "key"):
        explicit = given.optional_tensor(f"{key}_mask")
        implicit = masks.get(key)
        found = explicit or (implicit() if implicit is not None else None)
        if found is not None:
            n, steps = scope.shape(found)
            wide = (n, steps, 1) if key == "query" else (n, 1, steps)
            parts.append(scope.node(Reshape(wide), [_as_bool(scope, found, key)], f"{key}_mask"))
    explicit = given.optional_tensor("attention_mask")
    if explicit is not None:
        parts.append(_as_bool(scope, explicit, "attention"))
    sizes = (prod(scope.shape(query)[1:-1]), prod(scope.shape(value)[1:-1]))
    known = _known_mask(sizes, given.flag("use_causal_mask"), own.window)
    if parts and len(scope.shape(query)) != 3:
        raise UnsupportedError("a mask for attention over several axes is not supported")
    if not parts:
        return None if known is None else scope.literal("mask", np.where(known, 0.0, _FARTHEST))
    if known is not None:
        parts.append(scope.literal("known_mask", known))
    total = parts[0]
    for k, part in enumerate(parts[1:]):
        total = scope.node(And(), [total, part], f"masks{k}")
    added = _added(scope, total, _FARTHEST)
    shape = scope.shape(added)
    if len(shape) != 3:
        return added
    return scope.node(Reshape((shape[0], 1, *shape[1:])), [added], "mask_of_heads")


def _known_mask(
    sizes: tuple[int, int], causal: bool, window: int | None
) -> NDArray[np.bool_] | None:
    """Which steps each step sees, as far as that does not depend on inputs; None: all."""
    if not causal and window is None:
        return None
    rows, columns = (np.arange(n) for n in sizes)
    apart = rows[:, None] - columns[None, :]
    seen = np.ones(sizes, bool)
    if causal:
        seen &= apart >= 0
    if window is not None:
        seen &= np.abs(apart) < window
    return seen


def _as_bool(scope: Scope, value: str, label: str) -> str:
    if scope.type(value).dtype is DType.BOOL:
        return value
    return scope.node(Cast(DType.BOOL), [value], f"{label}_bool")


def _added(scope: Scope, mask: str, far: float) -> str:
    """0 where the mask is true, else `far`."""
    zero, least = scope.literal("zero", np.zeros(())), scope.literal("far", np.asarray(far))
    return scope.node(Where(), [mask, zero, least], "mask")


def _attend(
    scope: Scope, own: _Heads, values: tuple[str, str, str], mask: str | None
) -> tuple[str, Mapping[str, str]]:
    """The projections, the heads, and the projection of what they find; also the first ones."""
    query, key, value = values
    order, steps = _order(scope, own, query)
    sizes = {"query": own.key_size, "key": own.key_size, "value": own.value_size}
    given = {"query": query, "key": key, "value": value}
    projected = {}
    for name, size in sizes.items():
        y = _project(scope, own, given[name], name, size)
        if name != "query" and own.groups != own.heads:
            y = _repeated(scope, y, own.groups, own.heads // own.groups, name)
        projected[name] = _flat(scope, y, order, steps, name)
    q, k, v = (HeadChannels(0, s, s) for s in (own.key_size, own.key_size, own.value_size))
    op = Attention(own.heads, 1 / sqrt(own.key_size), q, k, v)
    operands = [*projected.values(), *([mask] if mask else [])]
    y = scope.node(op, operands, "attention")
    y = _unflat(scope, y, scope.shape(query)[:-1], order)
    if own.gate:
        gate = _project(scope, own, query, "gate", own.value_size)
        y = scope.node(Mul(), [y, scope.node(Sigmoid(), [gate], "gate")], "gated")
    output = own.output or scope.shape(query)[-1:]
    return _project_back(scope, y, own, output), projected


def _scores(scope: Scope, own: _Heads, projected: Mapping[str, str], mask: str | None) -> str:
    """The shares [N,heads,T,S] that the output is made with."""
    turned = {}
    for name, order in (("query", (0, 2, 1, 3)), ("key", (0, 2, 3, 1))):
        n, steps, _ = scope.shape(projected[name])
        heads = scope.node(
            Reshape((n, steps, own.heads, own.key_size)), [projected[name]], f"scores/{name}"
        )
        turned[name] = scope.node(Transpose(order), [heads], f"scores/{name}/order")
    found = scope.node(MatMul(), [turned["query"], turned["key"]], "scores/product")
    scale = scope.literal("scores/factor", np.asarray(1 / sqrt(own.key_size)))
    found = scope.node(Mul(), [found, scale], "scores/scaled")
    found = scope.node(Add(), [found, mask], "scores/masked") if mask else found
    return scope.node(Softmax(3), [found], "scores")


def _order(scope: Scope, own: _Heads, query: str) -> tuple[tuple[int, ...], int]:
    """The query's axes without channels, those of attention last, and how many these are."""
    rank = scope.rank(query) - 1
    every = tuple(range(1, rank))
    given = every if own.axes is None else tuple(a % rank for a in own.axes)
    rest = tuple(a for a in every if a not in given)
    return (0, *rest, *given), len(given)


def _flat(scope: Scope, y: str, order: tuple[int, ...], steps: int, label: str) -> str:
    """[N,*,C] as [N',T,C], where T are the steps of attention, the last axes of the order."""
    if order != tuple(range(len(order))):
        y = scope.transposed(y, f"{label}/order", (*order, len(order)))
    shape = scope.shape(y)
    first = len(order) - steps
    flat = (prod(shape[:first]), prod(shape[first:-1]), shape[-1])
    return y if shape == flat else scope.node(Reshape(flat), [y], f"{label}/steps")


def _unflat(scope: Scope, y: str, places: tuple[int, ...], order: tuple[int, ...]) -> str:
    """Undoes `_flat` for a result whose axes without channels have the sizes `places`."""
    moved = (*(places[a] for a in order), scope.shape(y)[-1])
    if scope.shape(y) != moved:
        y = scope.node(Reshape(moved), [y], "places")
    if order == tuple(range(len(order))):
        return y
    back = tuple(order.index(a) for a in range(len(order)))
    return scope.node(Transpose((*back, len(order))), [y], "order")


def _project(scope: Scope, own: _Heads, x: str, name: str, size: int) -> str:
    """x[..,D] times kernel[D,heads,size] -> y[..,heads*size]."""
    inner = scope.under(name, attribute=own.holder(name))
    shape = (own.groups if name in ("key", "value") else own.heads, size)
    width, stored = prod(shape), (scope.shape(x)[-1], *shape)
    kernel = inner.constant("kernel", lambda: inner.weight("kernel", stored).reshape(-1, width))
    operands = [x, kernel]
    if own.bias:
        operands.append(inner.constant("bias", lambda: inner.weight("bias", shape).reshape(width)))
    return inner.node(MatMul(), operands)


def _project_back(scope: Scope, y: str, own: _Heads, output: tuple[int, ...]) -> str:
    """y[..,heads*size] times kernel[heads,size,*output]."""
    inner = scope.under("output", attribute=own.holder("output"))
    stored, width = (own.heads, own.value_size, *output), prod(output)
    kernel = inner.constant(
        "kernel", lambda: inner.weight("kernel", stored).reshape(-1, width)
    )  # fmt: skip
    operands = [y, kernel]
    if own.bias:
        operands.append(
            inner.constant("bias", lambda: inner.weight("bias", output).reshape(width))
        )  # fmt: skip
    flat = len(output) == 1
    result = scope.node(MatMul(), operands, "" if flat else "output")
    return result if flat else scope.node(
        Reshape((*scope.shape(result)[:-1], *output)), [result]
    )  # fmt: skip


def _repeated(scope: Scope, y: str, heads: int, times: int, label: str) -> str:
    """y[N,T,heads*size] with each head `times` times."""
    n, steps, width = scope.shape(y)
    size = width // heads
    wide = scope.node(Reshape((n, steps, heads, 1, size)), [y], f"{label}/heads")
    copies = scope.node(Expand((n, steps, heads, times, size)), [wide], f"{label}/copies")
    return scope.node(Reshape((n, steps, heads * times * size)), [copies], f"{label}/repeated")


@layer("Attention")
def attention(config: LayerConfig) -> LayerPlan:
    """softmax(scores) v, where scores are products q k^T, or sums of tanh(q + k)."""
    config.ignore("dropout", "seed")
    scaled = config.flag("use_scale", False)
    mode = config.choice("score_mode", "dot", ("dot", "concat"))

    def scores(scope: Scope, query: str, key: str) -> str:
        if mode == "dot":
            turned = scope.transposed(key, "turned", (0, 2, 1))
            found = scope.node(MatMul(), [query, turned], "scores")
            scale = [scope.stored("scale", ())] if scaled else []
            return scope.node(Mul(), [found, *scale], "scaled") if scale else found
        total = _sums(scope, query, key)
        if scaled:
            total = scope.node(Mul(), [total, scope.stored("scale", ())], "scaled")
        bent = scope.node(Tanh(), [total], "tanh")
        found = scope.node(ReduceSum((3,)), [bent], "sum")
        return scope.node(Mul(), [found, scope.stored("concat_score_weight", ())], "scores")

    weights = (
        *(("scale",) if scaled else ()),
        *(("concat_score_weight",) if mode != "dot" else ()),
    )
    return _plan_single(scores, weights)


@layer("AdditiveAttention")
def additive_attention(config: LayerConfig) -> LayerPlan:
    """softmax(scores) v, where scores are sums of tanh(q + k), weighted by channel."""
    config.ignore("dropout", "seed", "score_mode")
    scaled = config.flag("use_scale", True)

    def scores(scope: Scope, query: str, key: str) -> str:
        bent = scope.node(Tanh(), [_sums(scope, query, key)], "tanh")
        if scaled:
            scale = scope.stored("scale", scope.shape(query)[-1:])
            bent = scope.node(Mul(), [bent, scale], "scaled")
        return scope.node(ReduceSum((3,)), [bent], "scores")

    return _plan_single(scores, ("scale",) if scaled else ())


def _sums(scope: Scope, query: str, key: str) -> str:
    """q[N,T,C], k[N,S,C] -> [N,T,S,C]."""
    (n, rows, c), (_, columns, _) = scope.shape(query), scope.shape(key)
    q = scope.node(Reshape((n, rows, 1, c)), [query], "rows")
    k = scope.node(Reshape((n, 1, columns, c)), [key], "columns")
    return scope.node(Add(), [q, k], "pairs")


def _plan_single(scores: Callable[[Scope, str, str], str], weights: tuple[str, ...]) -> LayerPlan:
    def build(scope: Scope, inputs: Sequence[str]) -> str | list[str]:
        given = scope.given.arguments
        found = given.raw("inputs")
        if not isinstance(found, tuple) or len(found) not in (2, 3):
            raise ModelError("takes query, value and maybe key")
        names = [part.name for part in found if isinstance(part, Operand)]
        if len(names) != len(found):
            raise ModelError("takes tensors as query, value and key")
        query, value, *rest = (scope.to_float(name) for name in names)
        key = rest[0] if rest else value
        if any(scope.rank(x) != 3 for x in (query, key, value)):
            raise ModelError("takes sequences of vectors")
        if given.flag("training"):
            raise UnsupportedError("it is called with training=True")
        both = scores(scope, query, key)
        masks = _masks_of_two(scope)
        seen = _seen(scope, masks[1], scope.shape(both), given.flag("use_causal_mask"))
        if seen is not None:
            both = scope.node(Add(), [both, _added(scope, seen, _FAR)], "masked")
        shares = scope.node(Softmax(2), [both], "shares")
        wanted = given.flag("return_attention_scores")
        label = "mixed" if masks[0] is not None else ""
        y = scope.node(MatMul(), [shares, value], label)
        if masks[0] is not None:
            y = _only(scope, y, masks[0])
        scope.given.result_mask = scope.given.masks[0] if scope.given.masks else None
        return [y, shares] if wanted else y

    call = ("inputs", "mask", "training", "return_attention_scores", "use_causal_mask")
    return LayerPlan(build, weights, signature=call, reads_masks=True)


def _masks_of_two(scope: Scope) -> tuple[str | None, str | None]:
    """The masks of query and value: those that it is called with, else those of its inputs."""
    given = scope.given.arguments.raw("mask")
    if given is None:
        return scope.mask(0), scope.mask(1)
    if not isinstance(given, tuple) or len(given) < 2:
        raise ModelError("mask is not a list of two")
    names = [part.name if isinstance(part, Operand) else None for part in given]
    return names[0], names[1]


def _seen(scope: Scope, mask: str | None, shape: tuple[int, ...], causal: bool) -> str | None:
    """Which steps count for which, [..,T,S]; None: all."""
    known = _known_mask((shape[1], shape[2]), causal, None)
    if mask is None:
        return None if known is None else scope.literal("known", known[None])
    n, steps = scope.shape(mask)
    wide = scope.node(Reshape((n, 1, steps)), [_as_bool(scope, mask, "value")], "value_mask")
    if known is None:
        return wide
    return scope.node(And(), [wide, scope.literal("known", known[None])], "seen")


def _only(scope: Scope, y: str, mask: str) -> str:
    """`y` where the mask of its steps is true, else 0."""
    n, steps = scope.shape(mask)
    wide = scope.node(Reshape((n, steps, 1)), [_as_bool(scope, mask, "query")], "query_mask")
    return scope.node(Where(), [wide, y, scope.literal("nothing", np.zeros(()))])
