"""Unrolls branches and loops: If, Loop and Scan.

Where their course is known only at run time, both branches are computed, and as many iterations as
there may be: `choices.py` chooses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from cannery.errors import ModelError, UnsupportedError
from cannery.frontends.onnx.choices import FIXED, Choices
from cannery.frontends.onnx.functions import MAX_INLINED, branch, local_name
from cannery.frontends.onnx.host import Host, NodePlace
from cannery.frontends.onnx.model import OWN, OnnxNode, Subgraph
from cannery.frontends.onnx.operators.values import Computed, Constant, Value

#: Operators that run graphs.
CONTROL = ("If", "Loop", "Scan")

#: Most iterations of a loop that is given up at run time, without the option MAX_TRIPS.
_MOST_TRIPS = 64

#: Versions of operators whose axes are attributes.
_AXES_ARE_ATTRIBUTES = 9


def follow(host: Host, node: OnnxNode, inputs: Sequence[Value | None], place: NodePlace) -> None:
    """Compute the outputs of an If, Loop or Scan.

    Raises UnsupportedError if more than values depends on its course, and that is known only at run
    time; ModelError for a malformed one.
    """
    if node.kind == "If":
        _if(host, node, inputs[0] if inputs else None, place)
    elif node.kind == "Loop":
        _loop(host, node, inputs, place)
    else:
        _scan(host, node, inputs, place)


def _if(host: Host, node: OnnxNode, condition: Value | None, place: NodePlace) -> None:
    """The branch that is taken, or both, and a choice for each output."""
    if condition is None:
        raise ModelError("has no condition")
    if isinstance(condition, Constant):
        name = "then_branch" if _flag(condition) else "else_branch"
        nodes = _placed(host, node, name, {}, host.prefix(f"{node.label}/{name}"))
        host.inline(node, nodes, place)
        return
    needed = [k for k, name in enumerate(node.outputs) if name and host.is_read(name)]
    choices = Choices(host, node, place, host.prefix(f"{node.label}/choice"))
    flag = choices.flag(node.inputs[0])
    results = []
    for name, taken in (("then_branch", True), ("else_branch", False)):
        prefix = host.prefix(f"{node.label}/{name}")
        outputs = [f"{prefix}/#{k}" if k in needed else "" for k in range(len(node.outputs))]
        inner = replace(node, outputs=tuple(outputs))
        wanted = [output for output in outputs if output]
        with host.unfinished.within(flag, taken):
            host.inline(inner, _placed(host, inner, name, {}, prefix), place, wanted)
        if host.give_up(node, wanted):
            return
        results.append(outputs)
    for k in needed:
        choices.one_of(flag, results[0][k], results[1][k], node.outputs[k])


def _flag(value: Constant) -> bool:
    """A known condition."""
    return bool(value.array.reshape(-1)[:1].any())


def _body(node: OnnxNode, attribute: str) -> Subgraph:
    body = node.attributes.get(attribute)
    if not isinstance(body, Subgraph):
        raise ModelError(f"has no {attribute}")
    return body


def _placed(
    host: Host, node: OnnxNode, attribute: str, given: Mapping[str, str], prefix: str
) -> list[OnnxNode]:
    """The nodes of a branch or of one iteration."""
    body = _body(node, attribute)
    host.add_weights({local_name(prefix, k): weight for k, weight in body.weights.items()})
    return branch(node, body, given, prefix)


@dataclass
class _Course:
    """How a loop goes on: `going` is a known condition. `guard` is the name of one that is
    computed, whose outcome decides whether an iteration counts; `count` that of their number.
    `limited` is set if there are at most `most` iterations only because the option says so.
    """

    most: int
    going: bool
    guard: str = ""
    count: str = ""
    limited: bool = False


def _course(
    choices: Choices, node: OnnxNode, inputs: Sequence[Value | None], limit: int | None
) -> _Course:
    """How a loop begins. Raises UnsupportedError if nothing limits it."""
    count, condition = (*inputs, None, None)[:2]
    most, named = MAX_INLINED, ""
    if isinstance(count, Computed):
        named = node.inputs[0]
    elif count is not None:
        most = min(int(count.array.reshape(-1)[0]), MAX_INLINED)
    course = _Course(most, condition is None or isinstance(condition, Computed) or _flag(condition))
    course.count = named
    if isinstance(condition, Computed):
        course.guard = choices.flag(node.inputs[1])
    if named:
        course.guard = choices.also(course.guard, choices.is_before(0, named))
    _limit(course, limit)
    return course


def _limit(course: _Course, limit: int | None) -> None:
    """Bound a loop whose end is computed. Raises UnsupportedError if nothing does."""
    if not course.guard:
        return
    if limit is None and course.most > _MOST_TRIPS:
        raise UnsupportedError(
            "how often it repeats is known only at run time",
            cure=f"say how often at most: --max-trips N; {FIXED}",
        )
    most = limit or _MOST_TRIPS
    course.limited |= most < course.most
    course.most = min(course.most, most)


def _loop(host: Host, node: OnnxNode, inputs: Sequence[Value | None], place: NodePlace) -> None:
    """Iteration by iteration; collected values are joined."""
    body = _body(node, "body")
    choices = Choices(host, node, place, host.prefix(f"{node.label}/choice"))
    course = _course(choices, node, inputs, host.max_trips)
    if course.most <= 0:
        course.guard = ""
    carried = list(node.inputs[2:])
    if len(body.inputs) != 2 + len(carried) or len(body.outputs) < 1 + len(carried):
        raise ModelError("has no body that fits its inputs")
    collected: list[list[str]] = [[] for _ in body.outputs[1 + len(carried) :]]
    turn, taken = 0, list[str]()
    while course.going and turn < course.most:
        taken.append(course.guard)
        with host.unfinished.within(course.guard):
            names = _iteration(host, node, turn, carried, place)
        if host.give_up(node, names):
            return
        carried = _carried(choices, course, carried, names[1 : 1 + len(carried)])
        for found, name in zip(collected, names[1 + len(carried) :], strict=True):
            found.append(name)
        turn += 1
        _go_on(choices, course, names[0], turn, host.max_trips)
    count = ""
    if any(taken) and any(map(host.is_read, filter(None, node.outputs[len(carried) :]))):
        count = choices.how_many(taken)
    if course.limited and course.going:
        _record(host, choices, course, turn)
    if not turn and not _collect_nothing(host, node, carried, place):
        return
    joins = [_Join(parts, 0, count) for parts in collected]
    _finish(host, node, carried, joins, place)


def _iteration(
    host: Host, node: OnnxNode, turn: int, carried: Sequence[str], place: NodePlace
) -> list[str]:
    """Iteration `turn` of a Loop; returns the names of the outputs of its body."""
    prefix = host.prefix(f"{node.label}/{turn}")
    index, condition = f"{prefix}/#turn", f"{prefix}/#condition"
    host.define(index, Constant(np.asarray(turn, np.int64), index))
    host.define(condition, Constant(np.asarray(True), condition))
    return run_body(host, node, (index, condition, *carried), prefix, place)


def _collect_nothing(host: Host, node: OnnxNode, carried: Sequence[str], place: NodePlace) -> bool:
    """What a Loop without an iteration collects: no rows of the shape that one would have had.

    False if the body is not supported.
    """
    wanted = [k for k, name in enumerate(node.outputs) if name and host.is_read(name)]
    if not any(k >= len(carried) for k in wanted):
        return True
    names = _iteration(host, node, 0, carried, place)
    if host.give_up(node, names):
        return False
    for k in wanted:
        row = host.value(names[1 + k], place.where) if k >= len(carried) else None
        if row is not None:
            dtype = row.dtype.numpy if isinstance(row, Computed) else row.array.dtype
            host.define(node.outputs[k], Constant(np.zeros((0, *row.shape), dtype), node.label))
    return True


def _record(host: Host, choices: Choices, course: _Course, turn: int) -> None:
    """A loop may be cut short: where iteration `turn` would have taken place."""
    more = course.guard
    if course.count:
        more = choices.also(more, choices.is_before(turn, course.count))
    for condition, holds in host.unfinished.taken:
        more = choices.also(more, condition if holds else choices.negated(condition))
    host.unfinished.loops.append(more)


def _carried(
    choices: Choices, course: _Course, before: Sequence[str], after: Sequence[str]
) -> list[str]:
    """The values after an iteration, which may not have taken place."""
    if not course.guard:
        return list(after)
    return [choices.one_of(course.guard, new, old) for old, new in zip(before, after, strict=True)]


def _go_on(choices: Choices, course: _Course, name: str, turn: int, limit: int | None) -> None:
    """Whether iteration `turn` takes place, given the condition that the one before returned."""
    condition = choices.value(name)
    if isinstance(condition, Constant):
        course.going = _flag(condition)
    else:
        course.guard = choices.also(course.guard, choices.flag(name))
        _limit(course, limit)
    if course.count and course.going and turn < course.most:
        course.guard = choices.also(course.guard, choices.is_before(turn, course.count))


def run_body(
    host: Host, node: OnnxNode, given: Sequence[str], prefix: str, place: NodePlace
) -> list[str]:
    """One iteration of a loop; returns the names of the outputs of its body."""
    body = _body(node, "body")
    if len(body.inputs) != len(given):
        raise ModelError(f"its body has {len(body.inputs)} inputs, expected {len(given)}")
    names = [f"{prefix}/#{k}" for k in range(len(body.outputs))]
    inner = replace(node, outputs=tuple(names))
    named = dict(zip(body.inputs, given, strict=True))
    host.inline(inner, _placed(host, inner, "body", named, prefix), place, names)
    return names


@dataclass(frozen=True)
class _Join:
    """What the iterations of a loop collect, in the order in which it is joined along a new
    axis; `count` names how many of them count, unless all do.
    """

    parts: Sequence[str]
    axis: int
    count: str = ""


def _finish(
    host: Host, node: OnnxNode, carried: Sequence[str], joins: Sequence[_Join], place: NodePlace
) -> None:
    """The outputs of a loop: carried values, then collected ones."""
    nodes = []
    for name, output in zip(carried, node.outputs, strict=False):
        nodes.append(OnnxNode("Identity", "", "", (name,), (output,), {}, node.version))
    for join, output in zip(joins, node.outputs[len(carried) :], strict=False):
        if not host.is_read(output) or host.is_known(output):
            continue
        if not join.parts:
            raise UnsupportedError("a loop that collects nothing is not supported")
        rows = tuple(f"{part}/row" for part in join.parts)
        for part, row in zip(join.parts, rows, strict=True):
            nodes.append(unary("Unsqueeze", part, row, axes=(join.axis,)))
        concat, target = {"axis": join.axis}, f"{output}/room" if join.count else output
        nodes.append(OnnxNode("Concat", "", "", rows, (target,), concat, _AXES_ARE_ATTRIBUTES))
        if join.count:
            nodes.append(OnnxNode("FirstRows", OWN, "", (target, join.count), (output,), {}))
    host.inline(node, [n for n in nodes if n.outputs[0]], place)


def unary(kind: str, source: str, target: str, **attributes: object) -> OnnxNode:
    """A node with one input and output, whose axes are attributes."""
    return OnnxNode(kind, "", "", (source,), (target,), attributes, _AXES_ARE_ATTRIBUTES)


def _scan(host: Host, node: OnnxNode, inputs: Sequence[Value | None], place: NodePlace) -> None:
    """Element by element of the scanned inputs, along an axis of each."""
    body = _body(node, "body")
    count = node.attributes.get("num_scan_inputs")
    if not isinstance(count, int) or not 1 <= count <= len(inputs):
        raise ModelError("has no num_scan_inputs that fits its inputs")
    if len(body.inputs) != len(inputs) or any(i is None for i in inputs):
        raise UnsupportedError("a body with other inputs (as of version 8) is not supported")
    kept = len(inputs) - count
    scanned = [i for i in inputs[kept:] if i is not None]
    axes = _axes(node, "scan_input_axes", [len(i.shape) for i in scanned])
    lengths = {i.shape[a] for i, a in zip(scanned, axes, strict=True)}
    if len(lengths) != 1:
        raise ModelError(f"its scanned inputs have {sorted(lengths)} elements")
    (length,) = lengths
    backwards = _flags(node, "scan_input_directions", count)
    carried = list(node.inputs[:kept])
    collected: list[list[str]] = [[] for _ in body.outputs[kept:]]
    for turn in range(length):
        prefix = host.prefix(f"{node.label}/{turn}")
        elements = []
        for k, (name, axis) in enumerate(zip(node.inputs[kept:], axes, strict=True)):
            at = length - 1 - turn if backwards[k] else turn
            elements.append(_element(host, node, name, axis, at, f"{prefix}/#in{k}", place))
        names = run_body(host, node, (*carried, *elements), prefix, place)
        if host.give_up(node, names):
            return
        carried = names[:kept]
        for found, name in zip(collected, names[kept:], strict=True):
            found.append(name)
    ranks = [_rank(host, parts, place) + 1 for parts in collected]
    joined = _axes(node, "scan_output_axes", ranks)
    reversed_ = _flags(node, "scan_output_directions", len(collected))
    joins = [
        _Join(parts[::-1] if back else parts, axis)
        for parts, axis, back in zip(collected, joined, reversed_, strict=True)
    ]
    _finish(host, node, carried, joins, place)


def _element(
    host: Host, node: OnnxNode, name: str, axis: int, at: int, target: str, place: NodePlace
) -> str:
    """Element `at` of a tensor along an axis, without that axis."""
    part = unary("Slice", name, f"{target}/part", starts=(at,), ends=(at + 1,), axes=(axis,))
    inner = replace(node, outputs=(target,))
    squeezed = unary("Squeeze", f"{target}/part", target, axes=(axis,))
    host.inline(inner, [part, squeezed], place, [target])
    return target


def _rank(host: Host, parts: Sequence[str], place: NodePlace) -> int:
    value = host.value(parts[0], place.where) if parts else None
    return 0 if value is None else len(value.shape)


def _axes(node: OnnxNode, attribute: str, ranks: Sequence[int]) -> list[int]:
    """One axis per tensor, counted from the front; by default the first."""
    given = node.attributes.get(attribute, (0,) * len(ranks))
    fits = isinstance(given, tuple) and len(given) == len(ranks)
    if not isinstance(given, tuple) or not fits:
        raise ModelError(f"{attribute} does not fit")
    if any(not -r <= a < r for a, r in zip(given, ranks, strict=True)):
        raise ModelError(f"{attribute} {given} is outside of its tensors")
    return [a % r for a, r in zip(given, ranks, strict=True)]


def _flags(node: OnnxNode, attribute: str, count: int) -> list[bool]:
    given = node.attributes.get(attribute, (0,) * count)
    if not isinstance(given, tuple) or len(given) != count:
        raise ModelError(f"{attribute} does not fit")
    return [bool(v) for v in given]
