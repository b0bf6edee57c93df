"""Operators that move elements, and those that say where they go."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from cannery.errors import ModelError, UnsupportedError
from cannery.frontends.tflite.scope import Scope, operator, quantised
from cannery.ir.tensor import MAX_RANK, DType
from cannery.ops.concat.op import Concat
from cannery.ops.movement.op import Expand, Identity, Pad, Slice, Transpose


@operator("RESHAPE", moves=True)
def reshape(scope: Scope) -> str:
    """The shape is an input or an option; -1 is what is left."""
    x = scope.input(0)
    wanted = list(scope.integers("NewShape"))
    if scope.has(1):
        wanted = list(scope.known_integers(1, "its shape"))
    if not scope.has(1) and wanted == [0]:
        wanted = []  # as older converters write the shape of a scalar
    if wanted.count(-1) > 1 or min(wanted, default=0) < -1:
        raise ModelError(f"its shape {tuple(wanted)}")
    if -1 in wanted:
        rest = prod(d for d in wanted if d != -1)
        elements = prod(scope.shape(x))
        if not rest or elements % rest:
            raise ModelError(f"{elements} elements as {tuple(wanted)}")
        wanted[wanted.index(-1)] = elements // rest
    return scope.reshaped(x, wanted)


@operator("SQUEEZE", moves=True)
def squeeze(scope: Scope) -> str:
    """Without the axes named, or all of size 1."""
    x = scope.input(0)
    shape = scope.shape(x)
    axes = {scope.axis(a, len(shape)) for a in scope.integers("SqueezeDims")}
    axes = axes or {a for a, d in enumerate(shape) if d == 1}
    if any(shape[a] != 1 for a in axes):
        raise ModelError(f"axes {sorted(axes)} of the shape {shape} are not all 1")
    return scope.reshaped(x, [d for a, d in enumerate(shape) if a not in axes])


@operator("EXPAND_DIMS", moves=True)
def expand_dims(scope: Scope) -> str:
    """With one more axis."""
    x = scope.input(0)
    shape = list(scope.shape(x))
    (axis,) = _few(scope.known_integers(1, "its axis"), 1, "axis")
    shape.insert(scope.axis(axis, len(shape) + 1), 1)
    return scope.reshaped(x, shape)


def _few(values: tuple[int, ...], count: int, what: str) -> tuple[int, ...]:
    """Checks how many numbers there are."""
    if len(values) != count:
        raise ModelError(f"{what} has {len(values)} numbers, expected {count}")
    return values


@operator("TRANSPOSE", moves=True)
def transpose(scope: Scope) -> str:
    """The order of axes is an input."""
    x = scope.input(0)
    perm = tuple(scope.axis(a, scope.rank(x)) for a in scope.known_integers(1, "its order"))
    return scope.node(Transpose(perm), [x])


@operator("CONCATENATION", moves=True)
def concatenation(scope: Scope) -> str:
    """Along an axis."""
    parts = scope.inputs()
    if not parts:
        raise ModelError("it has no inputs")
    op = Concat(scope.axis(scope.integer("Axis"), scope.rank(parts[0])))
    joined = parts[0] if len(parts) == 1 else scope.node(op, parts)
    if scope.output.is_quantised and scope.integer("FusedActivationFunction"):
        raise UnsupportedError("its activation of integers is not supported")
    return scope.fused(joined)


@operator("PACK", moves=True)
def pack(scope: Scope) -> str:
    """Along a new axis."""
    parts = scope.inputs()
    if not parts or scope.integer("ValuesCount") != len(parts):
        raise ModelError(f"ValuesCount with {len(parts)} inputs")
    shape = list(scope.shape(parts[0]))
    axis = scope.axis(scope.integer("Axis"), len(shape) + 1)
    shape.insert(axis, 1)
    raised = [scope.reshaped(p, shape, f"part{k}") for k, p in enumerate(parts)]
    return raised[0] if len(raised) == 1 else scope.node(Concat(axis), raised)


@operator("UNPACK", moves=True)
def unpack(scope: Scope) -> list[str]:
    """Each index of an axis, without it."""
    x = scope.input(0)
    shape = list(scope.shape(x))
    axis = scope.axis(scope.integer("Axis"), len(shape))
    if scope.integer("Num") != shape[axis]:
        raise ModelError(f"Num of an axis of {shape[axis]}")
    parts = cut(scope, x, axis, [1] * shape[axis])
    del shape[axis]
    return [scope.reshaped(p, shape, f"part{k}") for k, p in enumerate(parts)]


def part(scope: Scope, x: str, begin: Sequence[int], size: Sequence[int], label: str = "") -> str:
    """A box of a value; the value itself if that is all of it."""
    if tuple(size) == scope.shape(x):
        return x
    ends = tuple(b + s for b, s in zip(begin, size, strict=True))
    return scope.node(Slice(tuple(begin), ends, (1,) * len(ends)), [x], label)


def cut(scope: Scope, x: str, axis: int, sizes: Sequence[int]) -> list[str]:
    """Parts along an axis, one after the other; ModelError if they are not the whole."""
    shape = scope.shape(x)
    if sum(sizes) != shape[axis] or min(sizes, default=0) < 0:
        raise ModelError(f"sizes {tuple(sizes)} of an axis of {shape[axis]}")
    parts, start = [], 0
    for k, size in enumerate(sizes):
        begin = [start if a == axis else 0 for a in range(len(shape))]
        each = [size if a == axis else d for a, d in enumerate(shape)]
        parts.append(part(scope, x, begin, each, f"part{k}"))
        start += size
    return parts


@operator("SPLIT", moves=True)
def split(scope: Scope) -> list[str]:
    """axis, x -> parts of one size."""
    x = scope.input(1)
    (number,) = _few(scope.known_integers(0, "its axis"), 1, "axis")
    axis, count = scope.axis(number, scope.rank(x)), scope.integer("NumSplits")
    size = scope.shape(x)[axis]
    if count != len(scope.outputs) or count < 1 or size % count:
        raise ModelError(f"{count} parts of an axis of {size}")
    return cut(scope, x, axis, [size // count] * count)


@operator("SPLIT_V", moves=True)
def split_v(scope: Scope) -> list[str]:
    """x, sizes, axis -> parts; a size of -1 is what is left."""
    x = scope.input(0)
    sizes = list(scope.known_integers(1, "its sizes"))
    (number,) = _few(scope.known_integers(2, "its axis"), 1, "axis")
    axis = scope.axis(number, scope.rank(x))
    if scope.integer("NumSplits") != len(sizes):
        raise ModelError(f"NumSplits with {len(sizes)} sizes")
    if sizes.count(-1) == 1:
        sizes[sizes.index(-1)] = scope.shape(x)[axis] - sum(sizes) - 1
    return cut(scope, x, axis, sizes)


@operator("SLICE", moves=True)
def slice_(scope: Scope) -> str:
    """x, begin, size; a size of -1 is all from there on."""
    x = scope.input(0)
    shape = scope.shape(x)
    begin = _few(scope.known_integers(1, "its begin"), len(shape), "begin")
    given = _few(scope.known_integers(2, "its size"), len(shape), "size")
    size = [d - b if s == -1 else s for d, b, s in zip(shape, begin, given, strict=True)]
    return part(scope, x, begin, size)


@operator("STRIDED_SLICE", moves=True)
def strided_slice(scope: Scope) -> str:
    """x, begin, end, strides: as numpy, with masks; see `_cuts`."""
    x = scope.input(0)
    rank = scope.rank(x)
    if scope.integer("EllipsisMask") or scope.integer("NewAxisMask") or scope.flag("Offset"):
        raise UnsupportedError("with an ellipsis, new axes or offsets it is not supported")
    count = len(scope.known_integers(1, "its begin"))
    if count > rank:
        raise ModelError(f"{count} ranges of {rank} axes")
    shrunk = scope.integer("ShrinkAxisMask")
    starts, ends, steps = _cuts(scope, count, shrunk)
    shape = scope.shape(x)
    op = Slice(
        (*starts, *(0 for _ in shape[count:])), (*ends, *shape[count:]),
        (*steps, *(1 for _ in shape[count:])),
    )  # fmt: skip
    if any(op.starts) or op.ends != shape or any(s != 1 for s in op.steps):
        x = scope.node(op, [x])
    kept = [d for a, d in enumerate(scope.shape(x)) if not shrunk >> a & 1]
    return scope.reshaped(x, kept)


def _cuts(scope: Scope, count: int, shrunk: int) -> tuple[list[int], list[int], list[int]]:
    """Bounds as `Slice` has them, clamped as in Python."""
    shape = scope.shape(scope.input(0))
    vectors = [
        _few(scope.known_integers(k, what), count, what)
        for k, what in ((1, "its begin"), (2, "its end"), (3, "its strides"))
    ]
    free_begin, free_end = scope.integer("BeginMask"), scope.integer("EndMask")
    starts, ends, steps = [], [], []
    for axis, (begin, end, step) in enumerate(zip(*vectors, strict=True)):
        d = shape[axis]
        if step == 0:
            raise ModelError("a stride of 0")
        if shrunk >> axis & 1:
            begin = scope.axis(begin, d)
            start, stop, step = begin, begin + 1, 1
        else:
            first = None if free_begin >> axis & 1 else begin
            last = None if free_end >> axis & 1 else end
            start, stop, step = slice(first, last, step).indices(d)
            stop = _reached(start, stop, step)
        starts.append(start)
        ends.append(stop)
        steps.append(step)
    return starts, ends, steps


def _reached(start: int, stop: int, step: int) -> int:
    """An end that is not before the start in the direction of the step."""
    return max(start, stop) if step > 0 else min(start, stop)


def pads_of(scope: Scope, x: str) -> tuple[tuple[int, int], ...]:
    """Pads of each axis, from the second input."""
    return _pairs(scope, 1, scope.rank(x), "pads")


@operator("PAD", "PADV2")
def pad(scope: Scope) -> str:
    """With zeros, or with the number that is the third input."""
    x, value = scope.input(0), 0.0
    if scope.kind == "PADV2":
        given = scope.known(2, "its value")
        if given.size != 1:
            raise ModelError(f"{given.size} values for padding")
        value = float(given.item())
    return scope.node(Pad(pads_of(scope, x), value), [x])


@operator("MIRROR_PAD", moves=True)
def mirror_pad(scope: Scope) -> str:
    """Mirrored, with the edge (1) or without it (0)."""
    x = scope.input(0)
    pads = pads_of(scope, x)
    if scope.integer("Mode") == 0:
        return scope.node(Pad(pads, mode="reflect"), [x])
    for axis, (begin, end) in enumerate(pads):
        size = scope.shape(x)[axis]
        if min(begin, end) < 0 or max(begin, end) > size:
            raise ModelError(f"pads {(begin, end)} of an axis of {size}")
        pieces = [x]
        if begin:
            pieces.insert(0, _flipped(scope, x, axis, 0, begin))
        if end:
            pieces.append(_flipped(scope, x, axis, size - end, size))
        x = x if len(pieces) == 1 else scope.node(Concat(axis), pieces)
    return x


def _flipped(scope: Scope, x: str, axis: int, start: int, end: int) -> str:
    """Some of an axis, backwards."""
    shape = scope.shape(x)
    starts = tuple(end - 1 if a == axis else 0 for a in range(len(shape)))
    ends = tuple(start - 1 if a == axis else d for a, d in enumerate(shape))
    steps = tuple(-1 if a == axis else 1 for a in range(len(shape)))
    return scope.node(Slice(starts, ends, steps), [x], "mirrored")


@operator("REVERSE_V2", moves=True)
def reverse(scope: Scope) -> str:
    """Backwards along axes."""
    x = scope.input(0)
    for axis in scope.known_integers(1, "its axes"):
        at = scope.axis(axis, scope.rank(x))
        if scope.shape(x)[at]:
            x = _flipped(scope, x, at, 0, scope.shape(x)[at])
    return x


@operator("TILE", moves=True)
def tile(scope: Scope) -> str:
    """Each axis repeated."""
    x = scope.input(0)
    counts = _few(scope.known_integers(1, "its counts"), scope.rank(x), "counts")
    if min(counts, default=1) < 1 or max(counts, default=1) > 2**20:
        raise ModelError(f"counts {counts}")
    for axis, count in enumerate(counts):
        if count > 1:
            x = _repeated(scope, x, axis, count)
    return x


def _repeated(scope: Scope, x: str, axis: int, count: int) -> str:
    """An axis `count` times, one after the other."""
    shape = scope.shape(x)
    raised = scope.reshaped(x, (*shape[:axis], 1, *shape[axis:]), "raised")
    wide = scope.node(Expand((*shape[:axis], count, *shape[axis:])), [raised], "wide")
    return scope.reshaped(wide, (*shape[:axis], count * shape[axis], *shape[axis + 1 :]))


@operator("BROADCAST_TO", moves=True)
def broadcast_to(scope: Scope) -> str:
    """To a known shape."""
    shape = scope.known_integers(1, "its shape")
    if len(shape) > MAX_RANK or min(shape, default=1) < 0:
        raise ModelError(f"its shape {shape}")
    return scope.node(Expand(shape), [scope.input(0)])


@operator("FILL", moves=True)
def fill(scope: Scope) -> str:
    """shape, value -> a tensor of that value."""
    shape = scope.known_integers(0, "its shape")
    if len(shape) > MAX_RANK or min(shape, default=1) < 0:
        raise ModelError(f"its shape {shape}")
    value = scope.reshaped(scope.input(1), (), "value")
    return scope.node(Expand(shape), [value])


@operator("ZEROS_LIKE")
def zeros_like(scope: Scope) -> str:
    """Zeros of the shape and type of the input."""
    x = scope.input(0)
    zero = scope.constant("zero", np.zeros((), scope.dtype(x).numpy))
    return scope.node(Expand(scope.shape(x)), [zero])


@operator("DENSIFY")
@quantised("DENSIFY")
def densify(scope: Scope) -> str:
    """The input, which is a constant: sparse ones are whole as soon as they are read."""
    read, written = scope.tensor(0).scales, scope.output.scales
    if read is not None and not read.same(written):
        raise UnsupportedError("its input and its output have different scales")
    scope.known(0, "its input")
    return scope.input(0)


@operator("SHAPE", moves=True)
def shape_(scope: Scope) -> str:
    """The shape of the input, which is known."""
    scope.ignore("OutType")
    wide = scope.output.dtype == "INT64"
    shape = scope.shape(scope.input(0))
    return scope.constant("shape", np.asarray(shape, np.int64 if wide else np.int32))


@operator("RANK", moves=True)
def rank(scope: Scope) -> str:
    """The number of axes."""
    return scope.constant("rank", np.asarray(scope.rank(scope.input(0)), np.int32))


@operator("RANGE")
def range_(scope: Scope) -> str:
    """From start to before limit, in steps of delta; all are known."""
    known = [scope.known(k, what) for k, what in enumerate(("start", "limit", "delta"))]
    if any(a.size != 1 for a in known) or not known[2].item():
        raise ModelError("its bounds are not three numbers, or its step is 0")
    start, limit, delta = (a.item() for a in known)
    if abs((limit - start) / delta) > 2**20:
        raise ModelError("it has too many elements")
    return scope.constant("range", np.arange(start, limit, delta).astype(known[0].dtype))


@operator("SPACE_TO_DEPTH", moves=True)
def space_to_depth(scope: Scope) -> str:
    """Blocks of pixels become channels: rows of a block, columns, then channels."""
    x, b = scope.input(0), scope.integer("BlockSize")
    n, h, w, c = _divided(scope, x, b)
    raised = scope.reshaped(x, (n, h // b, b, w // b, b, c), "blocks")
    moved = scope.node(Transpose((0, 1, 3, 2, 4, 5)), [raised], "moved")
    return scope.reshaped(moved, (n, h // b, w // b, b * b * c))


def _divided(scope: Scope, x: str, block: int) -> tuple[int, int, int, int]:
    """The shape of an image that blocks divide."""
    shape = scope.shape(x)
    if len(shape) != 4 or block < 1 or shape[1] % block or shape[2] % block:
        raise ModelError(f"blocks of {block} in the shape {shape}")
    return shape[0], shape[1], shape[2], shape[3]


@operator("DEPTH_TO_SPACE", moves=True)
def depth_to_space(scope: Scope) -> str:
    """The inverse of SPACE_TO_DEPTH."""
    x, b = scope.input(0), scope.integer("BlockSize")
    shape = scope.shape(x)
    if len(shape) != 4 or b < 1 or shape[3] % (b * b):
        raise ModelError(f"blocks of {b} in the shape {shape}")
    n, h, w, c = shape
    raised = scope.reshaped(x, (n, h, w, b, b, c // (b * b)), "blocks")
    moved = scope.node(Transpose((0, 1, 3, 2, 4, 5)), [raised], "moved")
    return scope.reshaped(moved, (n, h * b, w * b, c // (b * b)))


@operator("SPACE_TO_BATCH_ND", moves=True)
def space_to_batch(scope: Scope) -> str:
    """x[N,*S,..], block, pads -> the phases of the padded image as samples."""
    x = scope.input(0)
    block = scope.known_integers(1, "its block")
    pairs = _pairs(scope, 2, len(block), "pads")
    k = len(block)
    if scope.rank(x) < k + 1 or min(block, default=1) < 1:
        raise ModelError(f"blocks of {block} in the shape {scope.shape(x)}")
    n, *rest = scope.shape(x)
    if any(map(any, pairs)):
        none = ((0, 0),) * (len(rest) - k)
        known = scope.tensor(0).scales
        zero = float(known.zeros[0]) if known is not None and known.single else 0.0
        x = scope.node(Pad(((0, 0), *pairs, *none), zero), [x], "padded")
    sizes = scope.shape(x)[1 : k + 1]
    if any(d % b for d, b in zip(sizes, block, strict=True)):
        raise ModelError(f"blocks of {block} in an image of {sizes}")
    split_up = [v for d, b in zip(sizes, block, strict=True) for v in (d // b, b)]
    raised = scope.reshaped(x, (n, *split_up, *rest[k:]), "blocks")
    inner = range(2 * k + 1, 2 * k + 1 + len(rest) - k)
    perm = (*range(2, 2 * k + 1, 2), 0, *range(1, 2 * k + 1, 2), *inner)
    moved = scope.node(Transpose(perm), [raised], "moved")
    return scope.reshaped(moved, (n * prod(block), *split_up[::2], *rest[k:]))


def _pairs(scope: Scope, index: int, count: int, what: str) -> tuple[tuple[int, int], ...]:
    """A table of two numbers for each of `count` axes, none negative."""
    table = scope.known(index, what)
    if table.shape != (count, 2) or table.dtype.kind not in "iu":
        raise ModelError(f"{what} of the shape {table.shape} for {count} axes")
    pairs = tuple((int(b), int(e)) for b, e in table)
    if any(min(pair) < 0 for pair in pairs):
        raise ModelError(f"{what} below 0")
    return pairs


@operator("BATCH_TO_SPACE_ND", moves=True)
def batch_to_space(scope: Scope) -> str:
    """The inverse of SPACE_TO_BATCH_ND, with crops instead of pads."""
    x = scope.input(0)
    block = scope.known_integers(1, "its block")
    crops = _pairs(scope, 2, len(block), "crops")
    k = len(block)
    if scope.rank(x) < k + 1 or min(block, default=1) < 1 or scope.shape(x)[0] % prod(block):
        raise ModelError(f"blocks of {block} in the shape {scope.shape(x)}")
    n, *rest = scope.shape(x)
    raised = scope.reshaped(x, (*block, n // prod(block), *rest), "blocks")
    inner = range(2 * k + 1, k + 1 + len(rest))
    pairs = [v for a in range(k) for v in (k + 1 + a, a)]
    moved = scope.node(Transpose((k, *pairs, *inner)), [raised], "moved")
    sizes = [d * b for d, b in zip(rest, block, strict=False)]
    joined = scope.reshaped(moved, (n // prod(block), *sizes, *rest[k:]), "image")
    begin = [0, *(b for b, _ in crops), *(0 for _ in rest[k:])]
    kept = [d - b - e for d, (b, e) in zip(sizes, crops, strict=True)]
    if min(kept, default=1) < 1:
        raise ModelError(f"crops {crops} of an image of {sizes}")
    return part(scope, joined, begin, (n // prod(block), *kept, *rest[k:]))


@operator("DEQUANTIZE")
def dequantize(scope: Scope) -> str:
    """Of float16, which became float32 when it was read."""
    x = scope.input(0)
    if scope.dtype(x) is not DType.FLOAT32:
        raise UnsupportedError(f"of {scope.dtype(x).value} without scales it is not supported")
    return scope.node(Identity(), [x])
