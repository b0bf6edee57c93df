"""Operations that combine elements along axes."""

from __future__ import annotations

from cannery.errors import UnsupportedError
from cannery.frontends.keras.layers import curves
from cannery.frontends.keras.operations.base import Operation, operation
from cannery.ir.tensor import DType
from cannery.ops.elementwise import activations as act
from cannery.ops.elementwise import binary, unary
from cannery.ops.normalization.op import LayerNormalization
from cannery.ops.ordering.cumulative import CumProd, CumSum
from cannery.ops.ordering.extremes import ArgMax, ArgMin, TopK
from cannery.ops.reduce import op as reduce

_FLOATS: dict[str, type[reduce.Reduction]] = {
    "Mean": reduce.ReduceMean, "Logsumexp": reduce.ReduceLogSumExp,
}  # fmt: skip
_ANY: dict[str, type[reduce.Reduction]] = {
    "Sum": reduce.ReduceSum, "Prod": reduce.ReduceProd, "Max": reduce.ReduceMax,
    "Amax": reduce.ReduceMax, "Min": reduce.ReduceMin, "Amin": reduce.ReduceMin,
}  # fmt: skip

#: Keras adds and multiplies these in 32 bits.
_WIDE = {
    DType.BOOL: DType.INT32, DType.INT8: DType.INT32, DType.INT16: DType.INT32,
    DType.UINT8: DType.UINT32, DType.UINT16: DType.UINT32,
}  # fmt: skip


@operation(*_FLOATS, *_ANY)
def reduction(o: Operation) -> str:
    """One node; means of integers are floats."""
    x = o.tensor()
    o.given.ignore("dtype")
    if o.given.raw("initial") is not None:
        raise UnsupportedError("its argument initial is not supported")
    if o.class_name in _FLOATS:
        x = o.scope.to_float(x)
    elif o.class_name in ("Sum", "Prod"):
        x = o.cast(x, _WIDE.get(o.dtype(x), o.dtype(x)))
    kind = {**_FLOATS, **_ANY}[o.class_name]
    return _reduced(o, kind, x)


def _reduced(o: Operation, kind: type[reduce.Reduction], x: str, label: str = "") -> str:
    return o.node(kind(o.axes(x), o.given.flag("keepdims")), [x], label)


@operation("Any", "All")
def logical(o: Operation) -> str:
    """Whether any element is true, or all are."""
    x = o.scope.to_float(o.cast(o.tensor(), DType.BOOL))
    kind = reduce.ReduceMax if o.class_name == "Any" else reduce.ReduceMin
    return o.cast(_reduced(o, kind, x, "found"), DType.BOOL)


@operation("CountNonzero")
def count(o: Operation) -> str:
    """How many elements are not zero."""
    x = o.cast(o.cast(o.tensor(), DType.BOOL), DType.INT32, 1)
    return o.node(reduce.ReduceSum(o.axes(x), keepdims=False), [x])


@operation("Var", "Std")
def variance(o: Operation) -> str:
    """The mean square of distances from the mean, and its root."""
    x = o.float()
    mean = o.node(reduce.ReduceMean(o.axes(x), keepdims=True), [x], "mean")
    apart = o.node(unary.Square(), [o.node(binary.Sub(), [x, mean], "apart")], "squares")
    if o.class_name == "Var":
        return _reduced(o, reduce.ReduceMean, apart)
    return o.node(unary.Sqrt(), [_reduced(o, reduce.ReduceMean, apart, "variance")])


@operation("Norm")
def norm(o: Operation) -> str:
    """The length along axes, or the sum of sizes."""
    x, order = o.float(), o.given.raw("ord")
    if order in (None, 2, "fro"):
        if order == 2 and len(o.axes(x)) != 1:
            raise UnsupportedError("the norm 2 of a matrix is not supported")
        return _reduced(o, reduce.ReduceL2, x)
    if order == 1 and len(o.axes(x)) == 1:
        return _reduced(o, reduce.ReduceL1, x)
    raise UnsupportedError(f"the norm of order {order!r:.20} is not supported")


@operation("Argmax", "Argmin")
def extreme_place(o: Operation) -> str:
    """The first place of the extreme, as int32."""
    x = o.tensor()
    kept = o.given.flag("keepdims")
    if o.given.integers("axis") is None:
        if kept:
            raise UnsupportedError("it keeps the axes of all elements")
        x, axis = o.reshaped(x, (-1 if not o.shape(x) else _elements(o, x),), "flat"), 0
    else:
        axis = o.axis(x)
    op = ArgMax(axis, kept) if o.class_name == "Argmax" else ArgMin(axis, kept)
    return o.cast(o.node(op, [x], "place"), DType.INT32)


def _elements(o: Operation, x: str) -> int:
    return o.scope.type(x).elements


@operation("TopK")
def top_k(o: Operation) -> list[str]:
    """The greatest elements of the last axis, and their places as int32."""
    x, k = o.tensor(), o.given.integer("k")
    axis = o.scope.rank(x) - 1
    values = o.node(TopK(axis, k), [x], "values")
    places = o.node(TopK(axis, k, indices=True), [x], "places")
    return [values, o.cast(places, DType.INT32)]


@operation("Sort", "Argsort")
def sort(o: Operation) -> str:
    """All elements of an axis from the least on, or their places."""
    x = o.tensor()
    if o.given.raw("axis") is None:
        raise UnsupportedError("it sorts all elements at once")
    axis = o.axis(x)
    size = o.shape(x)[axis]
    if o.class_name == "Sort":
        return o.node(TopK(axis, size, largest=False), [x])
    places = o.node(TopK(axis, size, largest=False, indices=True), [x], "places")
    return o.cast(places, DType.INT32)


@operation("Cumsum", "Cumprod")
def cumulative(o: Operation) -> str:
    """All elements up to each one."""
    x = o.tensor()
    if o.given.raw("axis") is None:
        raise UnsupportedError("it needs an axis", cure="name one")
    o.given.ignore("dtype")
    x = o.cast(x, DType.INT32) if o.dtype(x) is DType.BOOL else x  # others wrap around
    axis = o.axis(x)
    return o.node(CumSum(axis) if o.class_name == "Cumsum" else CumProd(axis), [x])


@operation("Normalize")
def normalize(o: Operation) -> str:
    """Quotients x / max(length, epsilon) along axes."""
    x = o.float()
    if o.given.integer("order", 2) != 2:
        raise UnsupportedError("only the order 2 is supported")
    least = o.literal("least", o.given.number("epsilon", 1e-7))
    length = o.node(reduce.ReduceL2(o.axes(x), keepdims=True), [x], "length")
    return o.node(binary.Div(), [x, o.node(binary.Max(), [length, least], "bounded")])


@operation("LayerNorm", call="x gamma beta")
def layer_norm(o: Operation) -> str:
    """Per sample, over the last axes."""
    x = o.float()
    if o.given.flag("rms_scaling"):
        raise UnsupportedError("its rms_scaling is not supported", cure="use rms_normalization")
    axes = o.axes(x) if o.given.raw("axis") is not None else (o.scope.rank(x) - 1,)
    affine = [o.given.optional_tensor(key) or "" for key in ("gamma", "beta")]
    epsilon = o.given.number("epsilon", 1e-7)
    operands = affine if affine[1] else affine[:1] if affine[0] else []
    return o.node(LayerNormalization(axes, epsilon), [x, *operands])


@operation("HardShrink", "Threshold")
def kept_beyond(o: Operation) -> str:
    """What of x is beyond a threshold, else a number."""
    x, bound = o.float(), o.given.number("threshold", 0.5)
    if o.class_name == "Threshold":
        if o.given.number("default_value", 0.0):
            raise UnsupportedError("its default_value is not 0")
        return o.node(act.ThresholdedRelu(bound), [x])
    return curves.hard_shrink(o.scope, x, bound)
