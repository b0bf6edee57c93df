"""An attention becomes one operator, which reads queries, keys and values where they lie.

Exporters write two products with a softmax between them, a scale before or after the first, a mask
or none, and, around them, whatever brings heads to the front: slices, reshapes and transposes of
one projection or of three. None of these moves anything that the operator could not find by
itself: a head is some channels of each row.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import isfinite, prod

from cannery.ir.graph import Graph, Node
from cannery.ir.rewrite import Rewriter
from cannery.ir.tensor import DType, TensorType
from cannery.ops.attention.op import Attention, HeadChannels
from cannery.ops.elementwise import Add, Div, Mul, Tanh
from cannery.ops.matmul.op import MatMul
from cannery.ops.movement.op import Reshape, Slice, Transpose
from cannery.ops.shared.axes import dense_strides
from cannery.ops.softmax.op import Softmax
from cannery.passes.attention_guards import guard_of, may_hide_all

#: Fewer queries are better off with products that read keys and values where they lie.
LEAST_QUERIES = 4


def fuse_attention(graph: Graph) -> Graph:
    """MatMul -> (Mul) -> (Tanh -> Mul) -> (Add) -> Softmax -> (Where) -> MatMul -> (Transpose)
    becomes Attention.

    A graph that has integer layers stays as it is: its bits are those of the operators in it.
    """
    if graph.integer_layers:
        return graph
    rewriter = Rewriter(graph)
    rewriter.sweep(_fuse)
    return rewriter.finish()


@dataclass(frozen=True)
class _Place:
    """Where the elements of an operand lie in a value: strides of its axes and an offset, in the
    elements of a dense array, all of it times `scale`.
    """

    value: str
    strides: tuple[int, ...]
    offset: int = 0
    scale: float = 1.0


@dataclass(frozen=True)
class _Scores:
    """The first product, what it is multiplied by, and the mask that is added (empty: none).

    `guarded`: queries for which the mask leaves no key get zeros. `softcap`: see Attention.
    """

    op: MatMul
    inputs: tuple[str, str]
    scale: float
    mask: str
    softcap: float
    guarded: bool = False


@dataclass(frozen=True)
class _Operand:
    """Rows of a value of rank 3, and the channels of the heads in them."""

    value: str
    rows: int
    width: int
    channels: HeadChannels
    scale: float


def _fuse(rewriter: Rewriter, node: Node) -> bool:
    """Whether `node`, the second product, ends an attention that could be replaced."""
    types = rewriter.types
    if not isinstance(node.op, MatMul) or len(node.inputs) != 2 or node.op.transpose_a:
        return False
    guard = guard_of(rewriter, node.inputs[0])
    softmax = rewriter.producer(guard.shares if guard else node.inputs[0])
    if softmax is None or not _along_last(rewriter, softmax):
        return False
    if guard is None and not _read_once(rewriter, softmax):
        return False
    scores = _scores(rewriter, softmax.inputs[0])
    if scores is None or (guard and guard.mask not in ("", scores.mask)):
        return False
    scores = replace(scores, guarded=guard is not None)
    if any(v in rewriter.constants for v in (*scores.inputs, node.inputs[1])):
        return False
    lead = types[softmax.output].shape[:-2]
    if len(lead) not in (1, 2) or types[node.output].shape[:-2] != lead:
        return False
    samples, heads = prod(lead[:-1]), lead[-1]
    return (
        _become(rewriter, node, scores, (samples, heads))
        or _become(rewriter, node, scores, (samples, heads), one_row=True)
        or _become(rewriter, node, scores, (samples * heads, 1))
    )


def _become(
    rewriter: Rewriter,
    node: Node,
    scores: _Scores,
    lead: tuple[int, int],
    *,
    one_row: bool = False,
) -> bool:
    """Whether `node` was replaced by an attention of so many samples and heads.

    Heads that do not lie in the same rows are samples. With `one_row`, the heads of all samples lie
    in the same rows, as in layers of PyTorch, where the samples of a step follow each other.
    """
    assert isinstance(node.op, MatMul)
    q = _operand(rewriter, scores.inputs[0], lead, turned=scores.op.transpose_a, one_row=one_row)
    k = _operand(
        rewriter, scores.inputs[1], lead, turned=not scores.op.transpose_b, one_row=one_row
    )
    v = _operand(rewriter, node.inputs[1], lead, turned=node.op.transpose_b, one_row=one_row)
    last = _heads_last(rewriter, node, lead, one_row=one_row)
    if q is None or k is None or v is None or v.scale != 1.0 or last is None:
        return False
    shape = (1, prod(lead)) if one_row else lead
    mask = "" if _is_zero(rewriter, scores.mask) else scores.mask
    if mask and not _fits(rewriter.types[mask].shape, (*shape, q.rows, k.rows)):
        return False
    if q.rows < LEAST_QUERIES:
        return False
    scale = scores.scale * q.scale * k.scale
    zeros = scores.guarded and may_hide_all(rewriter, mask)
    op = Attention(shape[1], scale, q.channels, k.channels, v.channels, zeros, scores.softcap)
    _replace(rewriter, node, last, op, (q, k, v), mask)
    return True


def _is_zero(rewriter: Rewriter, mask: str) -> bool:
    """Whether a mask changes nothing."""
    array = rewriter.constants.get(mask)
    return array is not None and not array.any()


def _along_last(rewriter: Rewriter, node: Node) -> bool:
    """Whether a node is a softmax along the last axis."""
    return isinstance(node.op, Softmax) and node.op.axis == rewriter.types[node.output].rank - 1


def _scores(rewriter: Rewriter, value: str) -> _Scores | None:
    """What the softmax is taken of, if nothing else reads any of it."""
    mask = ""
    node = rewriter.producer(value)
    if node is not None and isinstance(node.op, Add) and _read_once(rewriter, node):
        first, second = node.inputs
        value, mask = (second, first) if _is_scores(rewriter, second) else (first, second)
        if rewriter.types[value] != rewriter.types[node.output]:
            return None
        node = rewriter.producer(value)
    scale, node = _scaled(rewriter, node)
    softcap = 0.0
    if node is not None and isinstance(node.op, Tanh) and _read_once(rewriter, node):
        softcap = scale
        inner, node = _scaled(rewriter, rewriter.producer(node.inputs[0]))
        scale *= inner
    if node is None or not isinstance(node.op, MatMul) or len(node.inputs) != 2:
        return None
    if not _read_once(rewriter, node):
        return None
    return _Scores(node.op, (node.inputs[0], node.inputs[1]), scale, mask, softcap)


def _scaled(rewriter: Rewriter, node: Node | None) -> tuple[float, Node | None]:
    """By which number a value is multiplied, all in all, and the node that makes what is."""
    scale = 1.0
    while node is not None and isinstance(node.op, Mul | Div) and _read_once(rewriter, node):
        number = _number(rewriter, node)
        if number is None:
            break
        scale *= number[1]
        node = rewriter.producer(number[0])
    return scale, node


def _is_scores(rewriter: Rewriter, value: str) -> bool:
    """Whether a value is a product, perhaps times numbers, or that with bounds."""
    node = rewriter.producer(value)
    while node is not None and isinstance(node.op, Mul | Div | Tanh):
        number = (node.inputs[0], 1.0) if isinstance(node.op, Tanh) else _number(rewriter, node)
        node = rewriter.producer(number[0]) if number else None
    return node is not None and isinstance(node.op, MatMul)


def _read_once(rewriter: Rewriter, node: Node) -> bool:
    return rewriter.single_reader(node.output) is not None


def _number(rewriter: Rewriter, node: Node) -> tuple[str, float] | None:
    """What is multiplied (or divided), and by which number in effect; None if by no number."""
    divides = isinstance(node.op, Div)
    for value, factor in (node.inputs,) if divides else (node.inputs, node.inputs[::-1]):
        array = rewriter.constants.get(factor)
        if array is None or array.size != 1 or rewriter.types[value] != rewriter.types[node.output]:
            continue
        number = float(array.reshape(-1)[0])
        if isfinite(number) and not (divides and number == 0.0):
            return value, 1.0 / number if divides else number
    return None


def _operand(
    rewriter: Rewriter, value: str, lead: tuple[int, ...], *, turned: bool, one_row: bool
) -> _Operand | None:
    """The rows in which heads lie side by side, as far back as there are such.

    The value has the axes samples, heads, rows and channels; the last two swapped, if `turned`.
    """
    type_ = rewriter.types[value]
    own = (1, *type_.shape[:-2])[-2:]
    whole = lead == (prod(own), 1)
    if (own != lead and not whole) or type_.dtype is not DType.FLOAT32:
        return None
    shape = (*lead, *type_.shape[-2:])
    place: _Place | None = _Place(value, dense_strides(shape))
    if turned:
        shape = (*shape[:2], shape[3], shape[2])
    best: _Operand | None = None
    while place is not None:
        strides = (*place.strides[:2], place.strides[3], place.strides[2])
        at = replace(place, strides=strides) if turned else place
        found = _in_rows(rewriter, at, shape, one_row=one_row)
        best = found or best
        place = _before(rewriter, place, shape if not turned else (*shape[:2], shape[3], shape[2]))
    return best


def _in_rows(
    rewriter: Rewriter, place: _Place, shape: tuple[int, ...], *, one_row: bool
) -> _Operand | None:
    """An operand whose heads are channels of rows, which follow each other."""
    samples, heads, rows, size = shape
    sample, head, row, channel = place.strides
    if one_row:
        if samples > 1 and heads > 1 and sample != heads * head:
            return None
        head = head if heads > 1 else sample
        samples, heads = 1, samples * heads
    width = row if rows > 1 else prod(rewriter.types[place.value].shape) // samples
    if place.value in rewriter.constants or (channel != 1 and size > 1):
        return None
    if (samples > 1 and sample != rows * width) or width < 1:
        return None
    channels = HeadChannels(place.offset, head if heads > 1 else size, size)
    elements = prod(rewriter.types[place.value].shape)
    if channels.end(heads) > width or elements != samples * rows * width:
        return None
    return _Operand(place.value, rows, width, channels, place.scale)


def _before(rewriter: Rewriter, place: _Place, shape: tuple[int, ...]) -> _Place | None:
    """The same place in what a value was made of; None where a node does more than move it."""
    node = rewriter.producer(place.value)
    if node is None:
        return None
    if isinstance(node.op, Reshape):
        return replace(place, value=node.inputs[0])
    if isinstance(node.op, Mul | Div):
        number = _number(rewriter, node)
        return number and replace(place, value=number[0], scale=place.scale * number[1])
    source = rewriter.types[node.inputs[0]].shape
    strides = dense_strides(source)
    if isinstance(node.op, Transpose):
        moved = tuple(strides[axis] for axis in node.op.perm)
        return _through(rewriter, place, shape, node, moved, 0)
    if isinstance(node.op, Slice) and all(step == 1 for step in node.op.steps):
        first = sum(s * stride for s, stride in zip(node.op.starts, strides, strict=True))
        return _through(rewriter, place, shape, node, strides, first)
    return None


def _through(
    rewriter: Rewriter,
    place: _Place,
    shape: tuple[int, ...],
    node: Node,
    moved: tuple[int, ...],
    first: int,
) -> _Place | None:
    """The place in the input of a node, of whose output axis j is `moved[j]` elements apart there.

    Each axis of the operand has to stay on one axis of the output.
    """
    own = rewriter.types[node.output].shape
    dense = dense_strides(own)
    at = [place.offset // stride % d for stride, d in zip(dense, own, strict=True)]
    ends, strides = list(at), []
    for extent, stride in zip(shape, place.strides, strict=True):
        if extent == 1:
            strides.append(0)
            continue
        fits = [j for j, s in enumerate(dense) if own[j] > 1 and stride and stride % s == 0]
        if not fits:
            return None
        axis = max(fits, key=lambda j: dense[j])
        steps = stride // dense[axis]
        ends[axis] += steps * (extent - 1)
        strides.append(steps * moved[axis])
    if any(end >= d for end, d in zip(ends, own, strict=True)):
        return None
    offset = first + sum(a * m for a, m in zip(at, moved, strict=True))
    return replace(place, value=node.inputs[0], strides=tuple(strides), offset=offset)


def _heads_last(
    rewriter: Rewriter, node: Node, lead: tuple[int, ...], *, one_row: bool
) -> Node | None:
    """The node whose output has the heads of each row side by side: a transpose, or `node`."""
    if lead[1] == 1 and not one_row:
        return node
    reader = rewriter.single_reader(node.output)
    if reader is None or not isinstance(reader.op, Transpose):
        return None
    four = (2, 0, 1, 3) if one_row else (0, 2, 1, 3)
    perm = four if len(reader.op.perm) == 4 else (1, 0, 2)
    samples_apart = len(reader.op.perm) == 3 and lead[0] != 1
    shape = rewriter.types[node.output].shape
    order, wanted = ([a for a in p if shape[a] > 1] for p in (reader.op.perm, perm))
    return reader if order == wanted and not samples_apart else None


def _fits(mask: tuple[int, ...], scores: tuple[int, ...]) -> bool:
    """Whether the operator takes such a mask."""
    if len(mask) > 4 or mask[-1:] != scores[-1:]:
        return False
    together = zip(mask[::-1], scores[::-1], strict=False)
    return all(d in (1, s) for d, s in together)


def _replace(
    rewriter: Rewriter,
    node: Node,
    last: Node,
    op: Attention,
    operands: tuple[_Operand, _Operand, _Operand],
    mask: str,
) -> None:
    """One attention in the place of the second product; a reshape gives the shape of `last`."""
    samples = prod(rewriter.types[node.output].shape[:-2]) // op.heads
    nodes: list[Node] = []
    inputs: list[str] = []
    for each in operands:
        shape = (samples, each.rows, each.width)
        if rewriter.types[each.value].shape == shape:
            inputs.append(each.value)
            continue
        value = rewriter.value(f"{each.value}/rows", TensorType(shape))
        nodes.append(Node(Reshape(shape), value, (each.value,), (value,)))
        inputs.append(value)
    inputs += [mask] if mask else []
    shape = (samples, operands[0].rows, op.heads * op.v.size)
    whole = rewriter.types[last.output].shape
    if whole == shape:
        nodes.append(Node(op, node.name, tuple(inputs), last.outputs))
    else:
        mixed = rewriter.value(f"{node.name}/attention", TensorType(shape))
        nodes.append(Node(op, mixed, tuple(inputs), (mixed,)))
        nodes.append(Node(Reshape(whole), last.name, (mixed,), last.outputs))
    if last is not node:
        rewriter.replace_node(node, [])
    rewriter.replace_node(last, nodes)
