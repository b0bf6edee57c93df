"""Linear models and support vector machines of ai.onnx.ml, as products and kernels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cannery.errors import ModelError, UnsupportedError
from cannery.frontends.onnx.operators.base import Scope, operator
from cannery.frontends.onnx.operators.classifiers import (
    ML,
    POST_TRANSFORMS,
    Labels,
    above,
    greatest,
    label_output,
    mirrored,
    post_transform,
    read_labels,
    samples,
)
from cannery.frontends.onnx.operators.values import Value
from cannery.ir.graph import Array
from cannery.ir.tensor import DType
from cannery.ops.classical.coupling import PairwiseCoupling
from cannery.ops.classical.distances import SquaredDistances
from cannery.ops.elementwise import activations as act
from cannery.ops.elementwise import binary, unary
from cannery.ops.logic.compare import Greater
from cannery.ops.matmul.op import MatMul
from cannery.ops.movement.op import Cast

#: Probabilities of pairs stay this far away from 0 and 1.
_LEAST = 1e-7


def _matrix(scope: Scope, name: str, rows: int, columns: int) -> Array:
    """A list of numbers as a matrix; ModelError if there are not as many."""
    numbers = scope.numbers(name)
    if len(numbers) != rows * columns:
        raise ModelError(f"has {len(numbers)} {name} for {rows} x {columns}")
    return np.array(numbers, np.float32).reshape(rows, columns)


def _product(scope: Scope, x: str, weights: Array, bias: Array | None, label: str) -> str:
    """X [N, F] times the transpose of weights [T, F], plus a bias [T]."""
    names = [x, scope.constant(f"{label}/weights", np.ascontiguousarray(weights.T))]
    if bias is not None and bias.any():
        names.append(scope.constant(f"{label}/bias", np.asarray(bias, np.float32)))
    return scope.node(MatMul(), names, label)


@operator("LinearRegressor", domain=ML)
def linear_regressor(scope: Scope) -> Value:
    """A product with coefficients, and intercepts."""
    targets = scope.integer("targets", 1)
    post = scope.text("post_transform", "NONE", POST_TRANSFORMS)
    x = samples(scope)
    if targets < 1:
        raise ModelError(f"has {targets} targets")
    weights = _matrix(scope, "coefficients", targets, scope.type(x).shape[1])
    bias = _matrix(scope, "intercepts", 1, targets)[0] if scope.has("intercepts") else None
    if targets == 1 and post != "NONE":
        raise UnsupportedError(f"{post} of a single target is not supported")
    y = _product(scope, x, weights, bias, "product")
    return scope.result(post_transform(scope, y, post))


@operator("LinearClassifier", domain=ML)
def linear_classifier(scope: Scope) -> Sequence[Value]:
    """The label and the scores; one row of coefficients is that of the second of two classes."""
    scope.ignore("multi_class")
    labels = read_labels(scope, "classlabels_ints")
    post = scope.text("post_transform", "NONE", POST_TRANSFORMS)
    x = samples(scope)
    features = scope.type(x).shape[1]
    bias = np.array(scope.numbers("intercepts"), np.float32)
    if not bias.size:
        raise UnsupportedError("a classifier without intercepts is not supported")
    weights = _matrix(scope, "coefficients", bias.size, features)
    scores = _product(scope, x, weights, bias, "product")
    if bias.size == 1 and len(labels) == 2:
        label = label_output(scope, above(scope, scores, 0.0), labels)
        return [label, scope.result(_second_class(scope, scores, post))]
    if bias.size != len(labels) or bias.size < 2:
        raise ModelError(f"has {len(labels)} classes for {bias.size} intercepts")
    label = label_output(scope, greatest(scope, scores), labels)
    return [label, scope.result(post_transform(scope, scores, post))]


def _second_class(scope: Scope, score: str, post: str) -> str:
    """Both scores from that of the second class."""
    if post == "LOGISTIC":
        return post_transform(scope, mirrored(scope, score), post)
    if post == "PROBIT":
        raise UnsupportedError("PROBIT of a single row of coefficients is not supported")
    return mirrored(scope, score, (1.0, 0.0))


def _kernel(scope: Scope, x: str, vectors: Array, bias: float, kind: str) -> str:
    """The kernel function of each sample and each stored vector [V, F], plus a bias."""
    gamma, coef0, degree = 0.0, 0.0, 3.0
    given = scope.numbers("kernel_params")
    if given:
        if len(given) != 3:
            raise ModelError(f"has {len(given)} kernel_params, expected 3")
        gamma, coef0, degree = given
    if kind == "LINEAR":
        return _product(scope, x, vectors, np.full(len(vectors), bias), "kernel")
    if bias:
        raise UnsupportedError(f"a bias within a kernel {kind} is not supported")
    if kind == "RBF":
        stored = scope.constant("vectors", vectors)
        found = scope.node(SquaredDistances(), [x, stored], "distances")
        return scope.node(unary.Exp(), [scope.node(unary.Affine(-gamma), [found], "scaled")], "rbf")
    dot = _product(scope, x, vectors * np.float32(gamma), np.full(len(vectors), coef0), "dot")
    if kind == "SIGMOID":
        return scope.node(act.Tanh(), [dot], "sigmoid")
    return scope.node(binary.Pow(), [dot, scope.scalar("degree", degree)], "power")


def _kernel_type(scope: Scope, linear: bool) -> str:
    kind = scope.text("kernel_type", "LINEAR", ("LINEAR", "POLY", "RBF", "SIGMOID"))
    return "LINEAR" if linear else kind


@operator("SVMRegressor", domain=ML)
def svm_regressor(scope: Scope) -> Value:
    """Kernels with the support vectors, weighed; or a product, without them."""
    scope.text("post_transform", "NONE", ("NONE",))
    count = scope.integer("n_supports", 0)
    rho = scope.numbers("rho")
    if not rho:
        raise ModelError("attribute 'rho' is missing")
    x = samples(scope)
    features = scope.type(x).shape[1]
    kind = _kernel_type(scope, count < 1)
    bias = np.array(rho[:1], np.float32)
    if count < 1:
        scope.ignore("support_vectors", "kernel_params")
        y = _product(scope, x, _matrix(scope, "coefficients", 1, features), bias, "product")
    else:
        vectors = _matrix(scope, "support_vectors", count, features)
        found = _kernel(scope, x, vectors, 0.0, kind)
        y = _product(scope, found, _matrix(scope, "coefficients", 1, count), bias, "weighed")
    if scope.integer("one_class", 0):
        over = scope.node(Greater(), [y, scope.scalar("zero", 0.0)], "inside")
        inside = scope.node(Cast(DType.FLOAT32), [over], "one")
        y = scope.node(unary.Affine(2.0, -1.0), [inside], "class")
    return scope.result(y)


@operator("SVMClassifier", domain=ML)
def svm_classifier(scope: Scope) -> Sequence[Value]:
    """Each pair of classes votes; the scores are those of the pairs, or probabilities."""
    labels = read_labels(scope, "classlabels_ints")
    scope.text("post_transform", "NONE", ("NONE",))
    counts = scope.integers("vectors_per_class", ())
    if len(labels) < 2:
        raise UnsupportedError("a classifier of a single class is not supported")
    if sum(counts) < 1:
        return _linear_machine(scope, labels)
    if len(counts) != len(labels) or any(n < 0 for n in counts):
        raise ModelError(f"has {len(counts)} vectors_per_class for {len(labels)} classes")
    x = samples(scope)
    vectors = _matrix(scope, "support_vectors", sum(counts), scope.type(x).shape[1])
    found = _kernel(scope, x, vectors, 0.0, _kernel_type(scope, linear=False))
    pairs = [(i, j) for i in range(len(labels)) for j in range(i + 1, len(labels))]
    weights = _pair_weights(scope, counts, pairs)
    rho = np.array(scope.numbers("rho")[: len(pairs)], np.float32)
    if rho.size != len(pairs):
        raise ModelError(f"has {rho.size} rho for {len(pairs)} pairs of classes")
    scores = _product(scope, found, weights, rho, "pairs")
    label = label_output(scope, greatest(scope, _votes(scope, scores, pairs)), labels)
    a, b = scope.numbers("prob_a"), scope.numbers("prob_b")
    if len(a) != len(b) or (a and len(a) < len(pairs)):
        raise ModelError(f"has {len(a)} prob_a and {len(b)} prob_b for {len(pairs)} pairs")
    if a:
        return [label, scope.result(_probabilities(scope, scores, a, b, len(labels)))]
    return [label, scope.result(mirrored(scope, scores) if len(pairs) == 1 else scores)]


def _pair_weights(scope: Scope, counts: Sequence[int], pairs: Sequence[tuple[int, int]]) -> Array:
    """What each pair of classes multiplies each kernel with: [pairs, vectors]."""
    given = _matrix(scope, "coefficients", len(counts) - 1, sum(counts))
    starts = np.concatenate([[0], np.cumsum(counts)])
    weights = np.zeros((len(pairs), sum(counts)), np.float32)
    for row, (i, j) in zip(weights, pairs, strict=True):
        of_i, of_j = slice(starts[i], starts[i + 1]), slice(starts[j], starts[j + 1])
        row[of_i], row[of_j] = given[j - 1, of_i], given[i, of_j]
    return weights


def _votes(scope: Scope, scores: str, pairs: Sequence[tuple[int, int]]) -> str:
    """How many pairs each class wins: the first if the score is above zero."""
    classes = max(j for _, j in pairs) + 1
    moves = np.zeros((classes, len(pairs)), np.float32)
    start = np.zeros(classes, np.float32)
    for k, (i, j) in enumerate(pairs):
        moves[i, k], moves[j, k] = 1.0, -1.0
        start[j] += 1.0
    wins = scope.node(Greater(), [scores, scope.scalar("draw", 0.0)], "wins")
    counted = scope.node(Cast(DType.FLOAT32), [wins], "won")
    return _product(scope, counted, moves, start, "votes")


def _probabilities(
    scope: Scope, scores: str, a: Sequence[float], b: Sequence[float], classes: int
) -> str:
    """Of the classes, from those of the pairs: 1 / (1 + exp(a score + b))."""
    count = scope.type(scores).shape[1]
    slopes = scope.constant("slopes", -np.array(a[:count], np.float32))
    shifts = scope.constant("shifts", -np.array(b[:count], np.float32))
    scaled = scope.node(binary.Mul(), [scores, slopes], "scaled")
    shifted = scope.node(binary.Add(), [scaled, shifts], "shifted")
    likely = scope.node(act.Sigmoid(), [shifted], "likely")
    bounded = scope.node(act.Clip(_LEAST, 1.0 - _LEAST), [likely], "bounded")
    return scope.node(PairwiseCoupling(classes), [bounded], "coupled")


def _linear_machine(scope: Scope, labels: Labels) -> Sequence[Value]:
    """Without support vectors: a row of coefficients for each class, and one bias."""
    scope.ignore("support_vectors", "kernel_params", "kernel_type", "prob_a", "prob_b")
    x = samples(scope)
    rho = scope.numbers("rho")
    if not rho:
        raise ModelError("attribute 'rho' is missing")
    if len(labels) == 2:
        raise UnsupportedError("two classes without support vectors are not supported")
    weights = _matrix(scope, "coefficients", len(labels), scope.type(x).shape[1])
    scores = _kernel(scope, x, weights, rho[0], "LINEAR")
    return [label_output(scope, greatest(scope, scores), labels), scope.result(scores)]
