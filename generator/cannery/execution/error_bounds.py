"""How far a network of floats can be from exact arithmetic, proved for all inputs within a box.

Every value has an interval, which holds it in exact arithmetic, and a bound of its error. A layer
carries on the errors of its inputs and adds its own rounding: a sum of n products, added in any
order, with or without fused multiply-add, has an error of at most gamma_n times the sum of their
magnitudes, gamma_n = n u / (1 - n u), u = 2^-24 (Higham, "Accuracy and Stability of Numerical
Algorithms", 2002, 3.1 and 4.2). Winograd's algorithm has the same with the magnitudes that its
matrices make: |A^T| ((|G| |g| |G^T|) * (|B^T| |d| |B|)) |A| (Barabasz et al., "Error Analysis and
Improving the Accuracy of Winograd Convolution for Deep Neural Networks", 2020, theorem 1).

Functions such as tanh add what `vec_math.h` says of them. Errors of all layers add up as if they
never cancelled: bounds of deep networks are much larger than any error that is seen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from cannery.emit.source import Source
from cannery.execution.function_bounds import RULES as FUNCTION_RULES
from cannery.execution.normalization_bounds import normalized
from cannery.execution.recurrent_bounds import recurrent_spans
from cannery.execution.spans import (
    F64,
    UNDERFLOW,
    UNIT,
    NoBoundError,
    Span,
    gamma,
    product_ends,
)
from cannery.ir.graph import Graph, Node
from cannery.ir.registry import Op, RefArray
from cannery.ir.tensor import DType
from cannery.ops.average_pool.op import AveragePool
from cannery.ops.concat.op import Concat
from cannery.ops.conv.op import Conv
from cannery.ops.conv.winograd import Matrix, Tile
from cannery.ops.conv.winograd_oc import WinogradOc
from cannery.ops.conv.winograd_planar import WinogradPlanar
from cannery.ops.elementwise import (
    Abs,
    Add,
    Clip,
    Elu,
    Erf,
    Gelu,
    LeakyRelu,
    Max,
    Min,
    Mish,
    Mul,
    Neg,
    Relu,
    Sigmoid,
    Silu,
    Softplus,
    Softsign,
    Sub,
    Tanh,
)
from cannery.ops.matmul.op import MatMul
from cannery.ops.max_pool.op import MaxPool
from cannery.ops.movement.op import Expand, Identity, Pad, Reshape, Slice, Transpose
from cannery.ops.normalization.op import GroupNormalization, LayerNormalization
from cannery.ops.recurrent.base import Activation, Recurrent
from cannery.ops.reduce.op import ReduceMax, ReduceMean, ReduceSum
from cannery.ops.resize.op import Resize
from cannery.ops.softmax.op import Softmax

#: Types of values that have a span: of truth values, 0 and 1.
_KNOWN = (DType.FLOAT32, DType.BOOL)

#: The bounds are computed in float64: this covers its rounding.
_SLACK = 1.0 + 1e-9

#: Units in the last place by which functions may be off (`vec_math.h`), each at most 2 u.
_EXP_ULP = 1.5

#: Forms of functions that schedules may use instead: their errors.
_FORMS = {"rational": 5.2e-5, "table": 1.4e-6}
_OTHER_FORMS = ("schraudolph",)


@dataclass(frozen=True)
class ErrorBound:
    """The largest error of an output's elements, and the largest magnitude that it can have.

    None, with the `reason`, where nothing is proved.
    """

    output: str
    error: float | None
    largest: float | None
    reason: str = ""


@dataclass(frozen=True)
class _Way:
    """How a node is computed: Winograd's tile, and the approximate form of a function."""

    tile: Tile | None = None
    form: float = 0.0


def error_bounds(source: Source, low: float, high: float) -> tuple[ErrorBound, ...]:
    """Bounds of the outputs' errors if all inputs lie between `low` and `high`.

    Errors are differences from the network as it is compiled, with its float32 constants, in exact
    arithmetic.
    """
    graph = source.graph
    spans: dict[str, Span] = {}
    missing: dict[str, str] = {}
    for name in graph.inputs:
        type_ = graph.types[name]
        least, most = (0.0, 1.0) if type_.dtype is DType.BOOL else (low, high)
        spans[name] = Span(
            np.full(type_.shape, least), np.full(type_.shape, most), np.zeros(type_.shape)
        )
    ways = _ways(source)
    for node in graph.nodes:
        try:
            results = _node(graph, node, spans, missing, ways)
        except NoBoundError as error:
            missing |= dict.fromkeys(node.outputs, str(error))
        else:
            spans |= zip(node.outputs, results, strict=True)
    return tuple(_bound(name, spans, missing) for name in graph.outputs)


def _bound(name: str, spans: Mapping[str, Span], missing: Mapping[str, str]) -> ErrorBound:
    span = spans.get(name)
    if span is None:
        return ErrorBound(name, None, None, missing.get(name, "it is a constant"))
    error = float(span.error.max(initial=0.0)) * _SLACK
    return ErrorBound(name, error, float(span.size.max(initial=0.0)))


def _ways(source: Source) -> dict[str, _Way]:
    """How nodes are computed, by name, where that is not the direct way."""
    found: dict[str, _Way] = {}
    for call in source.calls:
        step, choice = call.planned.step, call.planned.choice
        nodes = [n.name for part in (step, *step.parts) for n in (*part.anchors, *part.epilogue)]
        label = str(choice)
        form = max((error for word, error in _FORMS.items() if word in label), default=0.0)
        if any(word in label for word in _OTHER_FORMS):
            form = np.inf
        if isinstance(choice.schedule, WinogradOc | WinogradPlanar) and not step.parts:
            found |= dict.fromkeys(nodes, _Way(choice.schedule.tile(source.graph, step), form))
        elif "winograd" in label:
            found |= dict.fromkeys(nodes, _Way(form=np.inf))
        elif form:
            found |= dict.fromkeys(nodes, _Way(form=form))
    return found


def _node(
    graph: Graph, node: Node, spans: Mapping[str, Span], missing: Mapping[str, str],
    ways: Mapping[str, _Way],
) -> tuple[Span, ...]:  # fmt: skip
    """The results of a node. Raises NoBoundError."""
    inputs: list[Span | None] = []
    for name in node.inputs:
        if name in missing:
            raise NoBoundError(missing[name])
        inputs.append(_operand(graph, name, spans) if name else None)
    rule, none = _rule(node.op), f"{node.op.kind} ({node.name!r}) has no rule"
    if node.op.of_bfloat or any(graph.types[name].dtype not in _KNOWN for name in node.outputs):
        raise NoBoundError(none)
    way = ways.get(node.name, _Way())
    if not np.isfinite(way.form) or (isinstance(node.op, Recurrent) and way.form):
        raise NoBoundError(f"{node.name!r} is computed in a way without a rule")
    if isinstance(node.op, LayerNormalization | GroupNormalization):
        return (normalized(node.op, inputs),)
    if isinstance(node.op, Recurrent):
        with np.errstate(all="ignore"):
            return recurrent_spans(node.op, inputs, _activated)
    if rule is None or len(node.outputs) != 1:
        raise NoBoundError(none)
    return (rule(node.op, [span for span in inputs if span is not None], way),)


def _rule(op: Op) -> _Rule | None:
    found = next((rule for kinds, rule in _RULES if isinstance(op, kinds)), None)
    exactly = next((rule for kinds, rule in FUNCTION_RULES if isinstance(op, kinds)), None)
    if found or not exactly:
        return found

    def rule(op: Op, spans: Sequence[Span], way: _Way) -> Span:
        if way.form:
            raise NoBoundError(f"{op.kind} beside an approximate function has no rule")
        return exactly(op, spans)

    return rule


def _activated(activation: Activation, x: Span) -> Span:
    """The activation of a recurrent layer."""
    for op in activation:
        rule = _rule(op)
        if rule is None:
            raise NoBoundError(f"{op.kind} in a recurrent layer has no rule")
        x = rule(op, [x], _Way())
    return x


def _operand(graph: Graph, name: str, spans: Mapping[str, Span]) -> Span | None:
    """What is known of an input; constants are exact, integers among them attributes."""
    if name in spans:
        return spans[name]
    if name not in graph.constants:
        raise NoBoundError(f"{name!r} is not known")
    if graph.types[name].dtype not in _KNOWN:
        return None
    value = np.asarray(graph.constants[name], np.float64)
    return Span(value, value, np.zeros(value.shape))


def _of(op: Op, *arrays: RefArray) -> F64:
    (found,) = op.reference(*arrays)
    return np.asarray(found, np.float64)


def _product(op: Op, spans: Sequence[Span], way: _Way) -> Span:
    """Convolutions and matrix products, with the bias if there is one."""
    x, w = spans[:2]
    bias = spans[2].low if len(spans) > 2 else np.zeros(1)
    if np.any(w.low != w.high) or np.any(w.error):
        return _product_of_two(op, spans)
    above, below = np.maximum(w.low, 0.0), np.minimum(w.low, 0.0)
    low = _of(op, x.low, above) + _of(op, x.high, below) + bias
    high = _of(op, x.high, above) + _of(op, x.low, below) + bias
    carried = _of(op, x.error, np.abs(w.low))
    terms = _terms(op, w.low.shape)
    if way.tile is None:
        sizes = _of(op, x.size, np.abs(w.low)) + np.abs(bias)
        own = gamma(terms + 1) * sizes
    else:
        own = _winograd(way.tile, x.size, w.low, bias)
    return Span(low, high, carried + own + (terms + 1) * UNDERFLOW)


def _product_of_two(op: Op, spans: Sequence[Span]) -> Span:
    """A product of two values that are both computed; only their sizes are used."""
    a, b = spans[:2]
    size = _of(op, a.size, b.size)
    terms = _terms(op, b.low.shape)
    own = gamma(terms + 1) * size + (terms + 1) * UNDERFLOW
    return Span(-size, size, _of(op, a.error, b.size) + _of(op, a.size, b.error) + own)


def _terms(op: Op, w: tuple[int, ...]) -> int:
    """Products of each sum, and the bias."""
    if isinstance(op, MatMul):
        return w[-1 if op.transpose_b else -2] + 1
    return prod(w[:-1]) + 1


def _winograd(tile: Tile, x: F64, w: F64, bias: F64) -> F64:
    """The rounding of a convolution by tiles: x[N,H,W,IC] magnitudes, w[KH,KW,IC,OC] -> [OC].

    Roundings: the weights' one, those of both transforms of inputs and of outputs, the products and
    their sum over channels, the bias.
    """
    rows, columns = tile.rows, tile.columns
    inputs = np.outer(_magnitudes(rows.bt).sum(axis=1), _magnitudes(columns.bt).sum(axis=1))
    weights = np.einsum(
        "ai,bj,ijco->abco", _magnitudes(rows.g), _magnitudes(columns.g), np.abs(w), optimize=True
    )
    largest = x.max(axis=tuple(range(x.ndim - 1)))
    products = np.einsum("ab,abco,c->abo", inputs, weights, largest, optimize=True)
    sums = np.einsum(
        "ma,nb,abo->mno", _magnitudes(rows.at), _magnitudes(columns.at), products, optimize=True
    )
    transforms = sum(
        int((_magnitudes(m) != 0).sum(axis=1).max())
        for m in (rows.bt, columns.bt, rows.at, columns.at)
    )
    size: F64 = sums.max(axis=(0, 1)) + np.abs(bias)
    return gamma(transforms + w.shape[2] + 3) * size


def _magnitudes(matrix: Matrix) -> F64:
    return np.array([[abs(float(c)) for c in row] for row in matrix])


def _moved(op: Op, spans: Sequence[Span], way: _Way) -> Span:
    """Operators that only move elements, or take the largest: errors do not grow."""
    low, high = (_of(op, *(getattr(s, side) for s in spans)) for side in ("low", "high"))
    if isinstance(op, Pad) and op.mode == "constant" and op.value:
        op = Pad(op.pads, 0.0, op.mode)
    return Span(low, high, np.maximum(_of(op, *(s.error for s in spans)), 0.0))


def _exact(op: Op, spans: Sequence[Span], way: _Way) -> Span:
    """Monotonic functions that do not enlarge differences, and are rounded not at all."""
    (x,) = spans
    return Span(_of(op, x.low), _of(op, x.high), x.error)


def _leaky(op: Op, spans: Sequence[Span], way: _Way) -> Span:
    (x,) = spans
    assert isinstance(op, LeakyRelu)
    if not 0.0 <= op.alpha <= 1.0:
        raise NoBoundError(f"LeakyRelu with alpha {op.alpha} has no rule")
    return Span(_of(op, x.low), _of(op, x.high), x.error + UNIT * x.size + UNDERFLOW)


def _turned(op: Op, spans: Sequence[Span], way: _Way) -> Span:
    """Neg and Abs, which are exact."""
    (x,) = spans
    if isinstance(op, Neg):
        return Span(-x.high, -x.low, x.error)
    size = np.maximum(np.abs(x.low), np.abs(x.high))
    inside = (x.low <= 0) & (x.high >= 0)
    return Span(np.where(inside, 0.0, np.minimum(np.abs(x.low), np.abs(x.high))), size, x.error)


@dataclass(frozen=True)
class _Smooth:
    """A function: how much it enlarges differences at most, its own error, its least value."""

    slope: float
    relative: float
    absolute: float = 0.0
    least: float = np.inf


#: Functions with the bounds of `vec_math.h`; a slope is the largest of the derivative.
_SMOOTH: Mapping[type[Op], _Smooth] = {
    Sigmoid: _Smooth(0.25, 3 * 2 * UNIT),
    Tanh: _Smooth(1.0, 6 * 2 * UNIT),
    Softplus: _Smooth(1.0, 2.5e-7, 5e-38),
    Softsign: _Smooth(1.0, 1.5e-7, 5e-38),
    Erf: _Smooth(1.129, 2 * 2 * UNIT),
    Elu: _Smooth(1.0, 2e-7, 5e-38),
    Silu: _Smooth(1.1, 3e-7, 2e-36, -0.27847),
    Mish: _Smooth(1.09, 4e-7, 2e-36, -0.30885),
    Gelu: _Smooth(1.13, 5e-7, 5e-8, -0.17005),
}


def _smooth(op: Op, spans: Sequence[Span], way: _Way) -> Span:
    (x,), kind = spans, _SMOOTH[type(op)]
    if isinstance(op, Elu) and not 0.0 <= op.alpha <= 1.0:
        raise NoBoundError(f"Elu with alpha {op.alpha} has no rule")
    ends = _of(op, x.low), _of(op, x.high)
    low, high = np.minimum(*ends), np.maximum(*ends)
    low = np.where(x.low < 0, np.minimum(low, kind.least), low)
    carried = kind.slope * x.error
    size = np.maximum(np.abs(low), np.abs(high)) + carried
    own = kind.relative * size + kind.absolute + UNDERFLOW
    return Span(low, high, carried + np.maximum(own, way.form * np.maximum(x.size, 1.0)))


def _pairwise(op: Op, spans: Sequence[Span], way: _Way) -> Span:
    """Sums, differences and products of two values, and the larger or smaller of them."""
    a, b = spans
    if isinstance(op, Max | Min):
        error = np.maximum(*np.broadcast_arrays(a.error, b.error))
        return Span(_of(op, a.low, b.low), _of(op, a.high, b.high), error)
    if isinstance(op, Mul):
        carried = a.error * b.size + a.size * b.error
        own = UNIT * a.size * b.size + UNDERFLOW
        return Span(*product_ends(a, b), carried + own)
    low, high = (b.low, b.high) if isinstance(op, Add) else (b.high, b.low)
    own = UNIT * (a.size + b.size)
    return Span(_of(op, a.low, low), _of(op, a.high, high), a.error + b.error + own)


def _averaged(op: Op, spans: Sequence[Span], way: _Way) -> Span:
    """Sums and means of the elements of one value, and weighted means of neighbours."""
    (x,) = spans
    count = 8 if isinstance(op, Resize) else 0
    if isinstance(op, AveragePool):
        count = prod(op.kernel)
    elif isinstance(op, ReduceMean | ReduceSum):
        count = prod(x.low.shape[axis] for axis in op.axes)
    own = gamma(count + 2) * _of(op, x.size) + (count + 2) * UNDERFLOW
    return Span(_of(op, x.low), _of(op, x.high), _of(op, x.error) + own)


def _softmax(op: Op, spans: Sequence[Span], way: _Way) -> Span:
    """Errors e of the inputs change each exponential by a factor of at most exp(2 e), after the
    largest input is taken away, and so does their sum.
    """
    assert isinstance(op, Softmax)
    (x,), axis = spans, op.axis
    with np.errstate(over="ignore"):
        top = x.high.max(axis=axis, keepdims=True)
        least, most = np.exp(x.low - top), np.exp(x.high - top)
        others_most = most.sum(axis=axis, keepdims=True) - most
        others_least = least.sum(axis=axis, keepdims=True) - least
        tiny = np.finfo(np.float64).tiny
        high = np.minimum(most / np.maximum(most + others_least, tiny), 1.0)
        low = least / np.maximum(least + others_most, tiny)
        inside = 2.0 * x.error.max(axis=axis, keepdims=True)
        shifted = UNIT * (x.size + x.size.max(axis=axis, keepdims=True))
        rounding = 2.0 * shifted.max() + gamma(x.low.shape[axis] + 3) + 2 * _EXP_ULP * 2 * UNIT
        error = high * np.expm1(np.minimum(inside + rounding, 700.0))
    if way.form:
        raise NoBoundError("Softmax with an approximate exponential has no rule")
    return Span(low, high, np.minimum(error, 1.0 + 4 * UNIT) + UNDERFLOW)


_Rule = Callable[[Op, Sequence[Span], _Way], Span]
_RULES: tuple[tuple[tuple[type[Op], ...], _Rule], ...] = (
    ((Conv, MatMul), _product),
    ((Identity, Reshape, Transpose, Slice, Pad, Expand, Concat, MaxPool, ReduceMax), _moved),
    ((Relu, Clip), _exact), ((LeakyRelu,), _leaky), ((Neg, Abs), _turned),
    (tuple(_SMOOTH), _smooth), ((Add, Sub, Mul, Max, Min), _pairwise),
    ((AveragePool, ReduceMean, ReduceSum, Resize), _averaged), ((Softmax,), _softmax),
)  # fmt: skip
