"""Embeddings, masks, and categories: layers that begin networks on text and on tables."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cannery.errors import UnsupportedError
from cannery.frontends.keras.config import LayerConfig
from cannery.frontends.keras.layers.base import LayerPlan, Scope, layer
from cannery.frontends.keras.layers.categories import bins_below, encoded, indices
from cannery.ir.tensor import DType
from cannery.ops.elementwise.activations import Tanh
from cannery.ops.elementwise.binary import Div, Mul
from cannery.ops.indexing.gather import Gather
from cannery.ops.logic.compare import Equal, Not
from cannery.ops.matmul.op import MatMul
from cannery.ops.movement.op import Cast, Transpose
from cannery.ops.reduce.op import ReduceMax


def _looked_up(scope: Scope, x: str, shape: tuple[int, int], masked: bool) -> str:
    """A row of the table for each index; where that is 0, a mask leaves the step out."""
    if masked:
        scope.given.result_mask = lambda: _not_zero(scope, x)
    return scope.node(Gather(0), [scope.stored("embeddings", shape), indices(scope, x)])


def _not_zero(scope: Scope, x: str) -> str:
    zero = scope.literal("zero", np.zeros((), scope.type(x).dtype.numpy))
    return scope.node(Not(), [scope.node(Equal(), [x, zero], "padding")], "mask")


@layer("Embedding")
def embedding(config: LayerConfig) -> LayerPlan:
    """Rows of a table."""
    shape = (config.integer("input_dim"), config.integer("output_dim"))
    masked = config.flag("mask_zero", False)
    config.ignore("input_length")
    _check_plain(config)

    def build(scope: Scope, inputs: Sequence[str]) -> str:
        return _looked_up(scope, scope.single(inputs), shape, masked)

    return LayerPlan(build, ("embeddings",))


def _check_plain(config: LayerConfig) -> None:
    if config.raw("lora_rank") is not None:
        raise UnsupportedError(
            "its weights are in several parts (lora_rank)", cure="save the model without LoRA"
        )
    config.ignore("lora_alpha", "sparse")


@layer("ReversibleEmbedding")
def reversible_embedding(config: LayerConfig) -> LayerPlan:
    """Rows of a table; called with reverse=True, products with all of them."""
    shape = (config.integer("input_dim"), config.integer("output_dim"))
    masked, tied = config.flag("mask_zero", False), config.flag("tie_weights", True)
    cap = config.optional_number("logit_soft_cap")
    config.ignore("reverse_dtype")
    _check_plain(config)

    def build(scope: Scope, inputs: Sequence[str]) -> str:
        x = scope.given.arguments.tensor("inputs")
        if not scope.given.arguments.flag("reverse"):
            return _looked_up(scope, x, shape, masked)
        if tied:
            table = scope.stored("embeddings", shape)
            table = scope.node(Transpose((1, 0)), [table], "turned")
        else:
            table = scope.stored("reverse_embeddings", shape[::-1])
        x = scope.to_float(x)
        if cap is None:
            return scope.node(MatMul(), [x, table])
        bound = scope.literal("cap", np.asarray(cap))
        shares = scope.node(Div(), [scope.node(MatMul(), [x, table], "logits"), bound], "shares")
        return scope.node(Mul(), [scope.node(Tanh(), [shares], "tanh"), bound])

    weights = ("embeddings",) if tied else ("embeddings", "reverse_embeddings")
    return LayerPlan(build, weights, signature=("inputs", "reverse"))


@layer("Masking")
def masking(config: LayerConfig) -> LayerPlan:
    """Steps whose features all have one value become 0, and layers after it leave them out."""
    value = config.number("mask_value", 0.0)

    def build(scope: Scope, inputs: Sequence[str]) -> str:
        x = scope.to_float(scope.single(inputs))
        axis = scope.rank(x) - 1
        equal = scope.node(Equal(), [x, scope.literal("value", np.asarray(value))], "equal")
        other = scope.node(Not(), [equal], "other")
        number = scope.node(Cast(DType.FLOAT32), [other], "others")
        counts = scope.node(ReduceMax((axis,), keepdims=True), [number], "counts")

        def mask() -> str:
            flat = scope.node(ReduceMax((axis,)), [number], "any")
            return scope.node(Cast(DType.BOOL), [flat], "mask")

        scope.given.result_mask = mask
        return scope.node(Mul(), [x, counts])

    return LayerPlan(build)


@layer("Discretization")
def discretization(config: LayerConfig) -> LayerPlan:
    """The bin in which each element is: bin k begins at boundary k - 1."""
    if config.raw("bin_boundaries") is None:
        raise UnsupportedError(
            "it has no boundaries", cure="call its adapt before the model is saved"
        )
    edges = config.array("bin_boundaries")
    mode = config.choice("output_mode", "int", ("int", "one_hot", "multi_hot", "count"))
    config.ignore("num_bins", "epsilon")

    def build(scope: Scope, inputs: Sequence[str]) -> str:
        x = scope.to_float(scope.single(inputs))
        if mode == "int":
            return bins_below(scope, x, edges)
        return encoded(scope, bins_below(scope, x, edges, "bins"), len(edges) + 1, mode, None)

    return LayerPlan(build)


@layer("CategoryEncoding")
def category_encoding(config: LayerConfig) -> LayerPlan:
    """A 1 or a count for each category."""
    depth = config.integer("num_tokens")
    mode = config.choice("output_mode", "multi_hot", ("one_hot", "multi_hot", "count"))

    def build(scope: Scope, inputs: Sequence[str]) -> str:
        given = scope.given.arguments
        x, weights = given.tensor("inputs"), given.optional_tensor("count_weights")
        return encoded(scope, x, depth, mode, weights)

    return LayerPlan(build, signature=("inputs", "count_weights"))
