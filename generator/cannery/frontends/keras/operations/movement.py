"""Operations that move elements, and matrix products."""

from __future__ import annotations

from math import prod

import numpy as np

from cannery.errors import ModelError, UnsupportedError
from cannery.frontends.einsum import einsum
from cannery.frontends.json_values import shown
from cannery.frontends.keras.arguments import Operand, Span
from cannery.frontends.keras.layers.categories import bins_below
from cannery.frontends.keras.operations.base import Operation, operation
from cannery.ir.tensor import DType
from cannery.ops.concat.op import Concat
from cannery.ops.elementwise import binary
from cannery.ops.indexing.gather import Gather, GatherElements
from cannery.ops.indexing.masks import OneHot, Trilu
from cannery.ops.matmul.op import MatMul
from cannery.ops.movement.op import Expand, Pad, Transpose
from cannery.ops.reduce.op import ReduceMax, ReduceMean, ReduceSum


@operation("Reshape")
def reshape(o: Operation) -> str:
    """One size may be -1: the rest."""
    x, wanted = o.tensor(), o.given.integers("newshape")
    if wanted is None or wanted.count(-1) > 1 or any(d < -1 for d in wanted):
        raise ModelError(f"newshape {wanted} is malformed")
    total, known = prod(o.shape(x)), prod(d for d in wanted if d != -1)
    if (total != known) if -1 not in wanted else (not known or total % known):
        raise ModelError(f"newshape {wanted} does not fit its input {o.shape(x)}")
    return o.reshaped(x, [total // known if d == -1 else d for d in wanted])


@operation("Ravel")
def ravel(o: Operation) -> str:
    """All elements in a row."""
    x = o.tensor()
    return o.reshaped(x, (prod(o.shape(x)),))


@operation("ExpandDims")
def expand_dims(o: Operation) -> str:
    """New axes of one element."""
    x, axes = o.tensor(), o.given.integers("axis") or ()
    rank = o.scope.rank(x) + len(axes)
    new = {o.counted(a, rank) for a in axes}
    sizes = iter(o.shape(x))
    return o.reshaped(x, [1 if k in new else next(sizes) for k in range(rank)])


@operation("Squeeze")
def squeeze(o: Operation) -> str:
    """Without axes of one element."""
    x = o.tensor()
    shape, given = o.shape(x), o.given.integers("axis")
    gone = (
        {k for k, d in enumerate(shape) if d == 1}
        if given is None
        else {o.counted(a, len(shape)) for a in given}
    )
    if any(shape[k] != 1 for k in gone):
        raise ModelError(f"axes {sorted(gone)} of {shape} have more than one element")
    return o.reshaped(x, [d for k, d in enumerate(shape) if k not in gone])


@operation("Transpose")
def transpose(o: Operation) -> str:
    """The axes in another order; backwards unless given."""
    x, axes = o.tensor(), o.given.integers("axes")
    rank = o.scope.rank(x)
    return _permuted(o, x, [o.counted(a, rank) for a in axes or reversed(range(rank))])


def _permuted(o: Operation, x: str, axes: list[int]) -> str:
    if sorted(axes) != list(range(o.scope.rank(x))):
        raise ModelError(f"axes {axes} are not an order of those of {o.shape(x)}")
    return o.node(Transpose(tuple(axes)), [x])


@operation("Swapaxes", "Moveaxis")
def exchanged(o: Operation) -> str:
    """Two axes in each other's place, or axes in new places."""
    x = o.tensor()
    rank = o.scope.rank(x)
    keys = ("axis1", "axis2") if o.class_name == "Swapaxes" else ("source", "destination")
    a, b = ([o.counted(n, rank) for n in o.given.integers(key) or ()] for key in keys)
    if len(a) != len(b):
        raise ModelError(f"{keys[0]} and {keys[1]} differ in number")
    if o.class_name == "Swapaxes":
        order = list(range(rank))
        order[a[0]], order[b[0]] = b[0], a[0]
        return _permuted(o, x, order)
    order = [k for k in range(rank) if k not in a]
    for to, source in sorted(zip(b, a, strict=True)):
        order.insert(to, source)
    return _permuted(o, x, order)


@operation("Concatenate", "Hstack", "Vstack", call="xs")
def concatenate(o: Operation) -> str:
    """Joined along an axis."""
    xs = o.tensors("xs")
    rank = o.scope.rank(xs[0])
    if o.class_name == "Concatenate":
        axis = o.axis(xs[0], default=0)
    elif rank < 2:
        raise UnsupportedError("it joins values with one axis")
    else:
        axis = 1 if o.class_name == "Hstack" else 0
    return o.node(Concat(axis), xs) if len(xs) > 1 else xs[0]


@operation("Stack")
def stack(o: Operation) -> str:
    """Joined along a new axis."""
    xs = o.tensors("x")
    rank = o.scope.rank(xs[0]) + 1
    axis = o.counted(o.given.integer("axis", 0), rank)
    wide = [
        o.reshaped(x, (*o.shape(x)[:axis], 1, *o.shape(x)[axis:]), f"part{k}")
        for k, x in enumerate(xs)
    ]
    return o.node(Concat(axis), wide) if len(wide) > 1 else wide[0]


@operation("Unstack")
def unstack(o: Operation) -> list[str]:
    """One value for each element of an axis."""
    x = o.tensor()
    axis = o.axis(x, default=0)
    o.given.ignore("num")
    rest = [d for k, d in enumerate(o.shape(x)) if k != axis]
    parts = [o.sliced(x, {axis: (k, k + 1, 1)}, f"part{k}") for k in range(o.shape(x)[axis])]
    return [o.reshaped(part, rest, f"element{k}") for k, part in enumerate(parts)]


@operation("Split", "ArraySplit")
def split(o: Operation) -> list[str]:
    """Parts of an axis: so many equal ones, or cut at places."""
    x = o.tensor()
    return cut_parts(o, x, o.axis(x, default=0))


def cut_parts(o: Operation, x: str, axis: int) -> list[str]:
    """Parts of an axis, as the argument indices_or_sections says."""
    given = o.given.raw("indices_or_sections")
    size = o.shape(x)[axis]
    if isinstance(given, int):
        if given < 1 or (size % given and o.class_name == "Split"):
            raise ModelError(f"{size} elements do not make {given} equal parts")
        small, more = divmod(size, given)
        cuts = [k * small + min(k, more) for k in range(1, given)]
    else:
        found = o.given.integers("indices_or_sections")
        cuts = [min(max(c + size if c < 0 else c, 0), size) for c in found or ()]
    ends = [*cuts, size]
    starts = [0, *cuts]
    return [
        o.sliced(x, {axis: (a, max(a, b), 1)}, f"part{k}")
        for k, (a, b) in enumerate(zip(starts, ends, strict=True))
    ]


@operation("Flip")
def flip(o: Operation) -> str:
    """Axes backwards."""
    x = o.tensor()
    shape = o.shape(x)
    return o.sliced(x, {a: (shape[a] - 1, -1, -1) for a in o.axes(x)})


@operation("Roll")
def roll(o: Operation) -> str:
    """An axis whose last elements come first."""
    x, shifts = o.tensor(), o.given.integers("shift") or ()
    if o.given.raw("axis") is None or len(shifts) != 1:
        raise UnsupportedError("it shifts several axes at once")
    axis = o.axis(x)
    size = o.shape(x)[axis]
    cut = -shifts[0] % size
    parts = [o.sliced(x, {axis: bounds}, f"part{k}")
             for k, bounds in enumerate(((cut, size, 1), (0, cut, 1)))]  # fmt: skip
    return o.node(Concat(axis), parts) if cut else x


@operation("Repeat")
def repeat(o: Operation) -> str:
    """Each element of an axis several times."""
    x, counts = o.tensor(), o.given.integers("repeats") or ()
    if len(counts) != 1 or o.given.raw("axis") is None:
        raise UnsupportedError("it repeats elements different numbers of times")
    axis = o.axis(x)
    before, size, after = o.shape(x)[:axis], o.shape(x)[axis], o.shape(x)[axis + 1 :]
    wide = o.reshaped(x, (*before, size, 1, *after), "single")
    copies = o.node(Expand((*before, size, counts[0], *after)), [wide], "copies")
    return o.reshaped(copies, (*before, size * counts[0], *after))


@operation("Tile")
def tile(o: Operation) -> str:
    """The whole several times along each axis."""
    x, counts = o.tensor(), o.given.integers("repeats") or ()
    rank = max(o.scope.rank(x), len(counts))
    x = o.reshaped(x, (*(1,) * (rank - o.scope.rank(x)), *o.shape(x)), "lifted")
    counts = (*(1,) * (rank - len(counts)), *counts)
    for axis, count in enumerate(counts):
        if count > 1:
            x = o.node(Concat(axis), [x] * count, f"axis{axis}")
    return x


@operation("BroadcastTo")
def broadcast_to(o: Operation) -> str:
    """Repeated to a shape."""
    return o.node(Expand(o.given.integers("shape") or ()), [o.tensor()])


@operation("Pad", call="x constant_values")
def pad(o: Operation) -> str:
    """More elements around."""
    x, mode = o.tensor(), o.given.word("mode", "constant")
    rank, given = o.scope.rank(x), o.given.array("pad_width", 2, whole=True)
    if given.shape not in ((), (1,), (2,), (1, 2), (rank, 2)):
        raise ModelError(f"pad_width of shape {given.shape} for {rank} axes")
    widths = np.broadcast_to(given, (rank, 2))
    pads = tuple((int(a), int(b)) for a, b in widths)
    return o.node(Pad(pads, o.given.number("constant_values", 0.0), mode), [x])


@operation("Tril", "Triu")
def triangle(o: Operation) -> str:
    """Zeros beyond a diagonal."""
    x = o.tensor()
    return o.node(Trilu(o.class_name == "Triu", o.given.integer("k", 0)), [x])


@operation("Take", "TakeAlongAxis", call="x indices")
def take(o: Operation) -> str:
    """Slices at indices, or one element for each."""
    if o.given.raw("axis") is None:
        raise UnsupportedError("it needs an axis", cure="name one")
    x = o.table()
    axis = o.axis(x, default=0)
    given = o.given.raw("indices")
    if isinstance(given, Operand):
        indices = given.name
        wide = o.dtype(indices) in (DType.INT32, DType.INT64)
        indices = indices if wide else o.cast(indices, DType.INT32)
    else:
        indices = o.literal("indices", o.given.array("indices", 8, whole=True), DType.INT32)
    op = Gather(axis) if o.class_name == "Take" else GatherElements(axis)
    return o.node(op, [x, indices])


@operation("GetItem", call="x key")
def get_item(o: Operation) -> str:
    """An index as in numpy: numbers, slices, new axes, `...`."""
    x, key = o.tensor(), o.given.raw("key")
    parts = list(key) if isinstance(key, tuple) else [key]
    for part in parts:
        known = part is None or part is ... or isinstance(part, Span | int)
        if not known or isinstance(part, bool):
            raise UnsupportedError(f"the index {shown(part)} is not supported")
    rank = o.scope.rank(x)
    rest = rank - sum(isinstance(part, Span | int) for part in parts)
    if rest < 0:
        raise ModelError(f"its index has more axes than its input {o.shape(x)}")
    at = next((k for k, part in enumerate(parts) if part is ...), len(parts))
    parts[at : at + 1] = [Span(None, None, None)] * rest
    return _indexed(o, x, parts)


def _indexed(o: Operation, x: str, parts: list[object]) -> str:
    """Cuts out the elements, then drops and makes axes."""
    bounds: dict[int, tuple[int, int, int]] = {}
    shape: list[int] = []
    axis = 0
    for part in parts:
        if part is None:
            shape.append(1)
            continue
        size = o.shape(x)[axis]
        if isinstance(part, int):
            place = o.counted(part, size)
            bounds[axis] = (place, place + 1, 1)
        elif isinstance(part, Span):
            chosen = range(*slice(part.start, part.stop, part.step).indices(size))
            shape.append(len(chosen))
            if len(chosen) != size or chosen.step < 0:
                end = chosen[-1] + (1 if chosen.step > 0 else -1) if chosen else chosen.start
                bounds[axis] = (chosen.start, end, chosen.step)
        axis += 1
    if not bounds:
        return o.reshaped(x, shape)
    part_ = o.sliced(x, bounds, "" if len(shape) == o.scope.rank(x) else "part")
    return part_ if o.shape(part_) == tuple(shape) else o.reshaped(part_, shape)


@operation("OneHot", "MultiHot", call="x")
def one_hot(o: Operation) -> str:
    """A 1 at each index, else 0; for several indices in one vector. Negative ones set nothing."""
    x, depth = o.tensor(), o.given.integer("num_classes")
    o.given.ignore("dtype")
    rank = o.scope.rank(x) + 1
    axis = o.counted(o.given.integer("axis", -1), rank)
    values = o.literal("values", [0.0, 1.0])
    if o.class_name == "OneHot":
        return o.node(OneHot(depth, axis, wraps=False), [x, values])
    codes = o.node(OneHot(depth, rank - 1, wraps=False), [x, values], "codes")
    return o.node(ReduceMax((rank - 2,)), [codes])


def _products(o: Operation) -> list[str]:
    return [o.scope.to_float(x) for x in o.both("x1", "x2")]


@operation("Matmul", call="x1 x2")
def matmul(o: Operation) -> str:
    """As in numpy; a vector is a row or a column."""
    a, b = _products(o)
    if min(o.scope.rank(a), o.scope.rank(b)) >= 2:
        return o.node(MatMul(), [a, b])
    left = o.reshaped(a, (1, *o.shape(a)), "row") if o.scope.rank(a) == 1 else a
    right = o.reshaped(b, (*o.shape(b), 1), "column") if o.scope.rank(b) == 1 else b
    y = o.node(MatMul(), [left, right], "product")
    shape = list(o.shape(y))
    if o.scope.rank(b) == 1:
        del shape[-1]
    if o.scope.rank(a) == 1:
        del shape[-1 if o.scope.rank(b) == 1 else -2]
    return o.reshaped(y, shape)


@operation("Dot", "Tensordot", "Outer", call="x1 x2")
def contraction(o: Operation) -> str:
    """Sums of products over axes of both operands."""
    a, b = _products(o)
    ranks = o.scope.rank(a), o.scope.rank(b)
    if o.class_name == "Outer":
        pairs: list[tuple[int, int]] = []
        a, b = (o.reshaped(v, (prod(o.shape(v)),), f"flat{k}") for k, v in enumerate((a, b)))
        ranks = (1, 1)
    elif o.class_name == "Dot":
        if 0 in ranks:
            return o.node(binary.Mul(), [a, b])
        pairs = [(ranks[0] - 1, max(ranks[1] - 2, 0))]
    else:
        pairs = _tensordot_axes(o, ranks)
    letters = [chr(97 + k) for k in range(sum(ranks))]
    left, right = letters[: ranks[0]], letters[ranks[0] :]
    for i, j in pairs:
        right[j] = left[i]
    summed = {left[i] for i, _ in pairs}
    kept = [c for c in (*left, *right) if c not in summed]
    return einsum(o.scope, f"{''.join(left)},{''.join(right)}->{''.join(kept)}", [a, b])


def _tensordot_axes(o: Operation, ranks: tuple[int, int]) -> list[tuple[int, int]]:
    given = o.given.raw("axes", 2)
    if isinstance(given, int):
        if not 0 <= given <= min(ranks):
            raise ModelError(f"axes {given} for operands with {ranks[0]} and {ranks[1]} axes")
        return [(ranks[0] - given + k, k) for k in range(given)]
    if not isinstance(given, tuple | list) or len(given) != 2:
        raise ModelError(f"axes {shown(given)} are malformed")
    sides = [list(side) if isinstance(side, tuple | list) else [side] for side in given]
    if len(sides[0]) != len(sides[1]) or not all(type(n) is int for s in sides for n in s):
        raise ModelError(f"axes {shown(given)} are malformed")
    a, b = ([o.counted(n, r) for n in s] for s, r in zip(sides, ranks, strict=True))
    return list(zip(a, b, strict=True))


@operation("Einsum", call="a b c d e f")
def einstein_sum(o: Operation) -> str:
    """An Einstein sum of up to six operands."""
    given = [o.given.raw(key) for key in "abcdef"]
    names = o.alike([v.name for v in given if isinstance(v, Operand)])
    equation = o.given.word("subscripts", "")
    names = [o.scope.to_float(name) for name in names]
    return einsum(o.scope, equation, names)


@operation("Diff", call="a")
def diff(o: Operation) -> str:
    """Differences of neighbours."""
    x = o.tensor("a")
    if o.given.integer("n", 1) != 1:
        raise UnsupportedError("differences of differences are not supported")
    axis = o.axis(x)
    size = o.shape(x)[axis]
    later = o.sliced(x, {axis: (1, size, 1)}, "later")
    return o.node(binary.Sub(), [later, o.sliced(x, {axis: (0, size - 1, 1)}, "earlier")])


@operation("Digitize", call="x bins")
def digitize(o: Operation) -> str:
    """How many bins begin at or below each element."""
    edges = np.atleast_1d(o.given.array("bins", 1)).astype(np.float64)
    return bins_below(o.scope, o.float(), edges)


@operation("Average", call="x weights")
def average(o: Operation) -> str:
    """A mean, or a sum of weighted elements over the sum of the weights."""
    x = o.float()
    if o.given.raw("weights") is None:
        return o.node(ReduceMean(o.axes(x)), [x])
    pair = [o.scope.to_float(v) for v in o.both("x", "weights")]
    if o.shape(pair[0]) != o.shape(pair[1]):
        raise UnsupportedError("its weights have another shape")
    total = o.node(ReduceSum(o.axes(x)), [o.node(binary.Mul(), pair, "weighted")], "total")
    return o.node(binary.Div(), [total, o.node(ReduceSum(o.axes(x)), [pair[1]], "weight")])
