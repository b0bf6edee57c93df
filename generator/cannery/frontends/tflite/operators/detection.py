"""Boxes: non-maximum suppression, and what follows the network in detectors of the SSD kind."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cannery.errors import ModelError, UnsupportedError
from cannery.frontends.tflite.operators.movement import part
from cannery.frontends.tflite.scope import Scope, operator, quantised
from cannery.ir.tensor import DType
from cannery.ops.concat.op import Concat
from cannery.ops.elementwise import Add, Div, Exp, Mul, Sub
from cannery.ops.indexing.gather import Gather
from cannery.ops.indexing.select import NOTHING, NonMaxSuppression
from cannery.ops.logic.compare import Greater, Where
from cannery.ops.movement.op import Cast, Pad
from cannery.ops.ordering.extremes import ArgMax
from cannery.ops.quantize.linear import DequantizeLinear
from cannery.ops.reduce.op import ReduceMax

_POST_PROCESS = "CUSTOM TFLite_Detection_PostProcess"

#: Numbers that options must hold, and limits of those that count something.
_MOST = 2**16


@dataclass(frozen=True)
class _Kept:
    """Boxes that are kept, best first: places[most] (0 where there is none), whether there is
    one, and their number, as int64[1].
    """

    places: str
    there: str
    count: str


def _suppressed(scope: Scope, boxes: str, scores: str, op: NonMaxSuppression) -> _Kept:
    """Of boxes[n,4] with scores[n]."""
    n = scope.shape(boxes)[0]
    inputs = [scope.reshaped(boxes, (1, n, 4), "boxes"), scope.reshaped(scores, (1, 1, n), "one")]
    found = scope.node(op, inputs, "found")
    rows = scope.shape(found)[0] - 1
    column = scope.reshaped(part(scope, found, (1, 2), (rows, 1), "column"), (rows,), "kept")
    if rows < op.most:
        column = scope.node(Pad(((0, op.most - rows),), float(NOTHING)), [column], "filled")
    nothing = scope.constant("nothing", np.asarray(NOTHING, np.int64))
    there = scope.node(Greater(), [column, nothing], "there")
    first = scope.constant("first", np.asarray(0, np.int64))
    places = scope.node(Where(), [there, column, first], "places")
    count = scope.reshaped(part(scope, found, (0, 0), (1, 1), "number"), (1,), "count")
    return _Kept(places, there, count)


def _at(scope: Scope, values: str, kept: _Kept, label: str) -> str:
    """The values of these boxes, zeros where there is none."""
    taken = scope.node(Gather(0), [values, kept.places], f"{label}_of_kept")
    shape = scope.shape(taken)
    there = scope.reshaped(kept.there, (shape[0], *(1 for _ in shape[1:])), f"{label}_there")
    nothing = scope.constant("zero", np.zeros((), scope.dtype(values).numpy))
    return scope.node(Where(), [there, taken, nothing], label)


def _number(scope: Scope, index: int, what: str) -> float:
    found = scope.known(index, what)
    if found.size != 1 or np.isnan(found).any():
        raise ModelError(f"{what} has {found.size} numbers, expected one")
    return float(found.item())


@operator("NON_MAX_SUPPRESSION_V4", "NON_MAX_SUPPRESSION_V5")
def non_max_suppression(scope: Scope) -> list[str]:
    """boxes[n,4], scores[n], most, overlap, score, sigma? -> places, scores?, their number."""
    boxes, scores = scope.input(0), scope.input(1)
    fits = scope.rank(boxes) == 2 and scope.shape(boxes) == (*scope.shape(scores), 4)
    if not fits:
        raise ModelError(f"boxes {scope.shape(boxes)} and scores {scope.shape(scores)}")
    soft = scope.kind == "NON_MAX_SUPPRESSION_V5"
    if soft and _number(scope, 5, "its sigma") != 0.0:
        raise UnsupportedError("scores that sink with the overlap (sigma) are not supported")
    most = int(_number(scope, 2, "its number of boxes"))
    if not 0 < most <= _MOST:
        raise ModelError(f"at most {most} boxes")
    overlap, least = (_number(scope, k, "a limit") for k in (3, 4))
    kept = _suppressed(scope, boxes, scores, NonMaxSuppression(most, overlap, least))
    places = scope.node(Cast(DType.INT32), [kept.places], "selected")
    count = scope.node(Cast(DType.INT32), [kept.count], "valid")
    found = [_at(scope, scores, kept, "selected_scores")] if soft else []
    return [places, *found, scope.reshaped(count, (), "valid_outputs")]


@operator(_POST_PROCESS)
def post_process(scope: Scope) -> list[str]:
    """encodings[1,n,4], scores[1,n,classes], anchors[n,4] -> boxes[1,most,4], classes[1,most],
    scores[1,most], their number[1], all float32; zeros after them.

    The class of a box is the best one that is not the background, which comes first.
    """
    scope.ignore("_output_quantized", "_support_output_type_float_in_quantized_op")
    scope.ignore("detections_per_class")
    if scope.flag("use_regular_nms"):
        raise UnsupportedError("suppression within each class (use_regular_nms) is not supported")
    classes, most = scope.integer("num_classes"), scope.integer("max_detections")
    each = scope.integer("max_classes_per_detection", 1)
    encodings, scores, anchors = (_floats(scope, k) for k in range(3))
    (_, n, columns) = (*scope.shape(scores), 0, 0, 0)[:3]
    shapes = scope.shape(encodings), scope.shape(scores), scope.shape(anchors)
    if shapes != ((1, n, 4), (1, n, columns), (n, 4)) or not 0 <= columns - classes <= 1:
        raise ModelError(f"{classes} classes in inputs of the shapes {shapes}")
    if not (0 < most <= _MOST and classes > 0 and n > 0):
        raise ModelError(f"max_detections {most} of {n} boxes of {classes} classes")
    if min(each, classes) != 1:
        raise UnsupportedError(f"{each} classes of a box are not supported")
    corners = _decoded(scope, scope.reshaped(encodings, (n, 4), "encodings"), anchors)
    scores = scope.reshaped(scores, (n, columns), "scores")
    scores = part(scope, scores, (0, columns - classes), (n, classes), "objects")
    best = scope.node(ReduceMax((1,), False), [scores], "best")
    # A score that is just the limit counts.
    least = np.nextafter(np.float32(scope.number("nms_score_threshold")), np.float32(-np.inf))
    op = NonMaxSuppression(most, scope.number("nms_iou_threshold"), float(least))
    kept = _suppressed(scope, corners, best, op)
    which = scope.node(ArgMax(1, keepdims=False), [scores], "which")
    kinds = scope.node(Cast(DType.FLOAT32), [which], "kinds")
    rows = [
        _at(scope, corners, kept, "corners_kept"), _at(scope, kinds, kept, "classes_kept"),
        _at(scope, best, kept, "scores_kept"),
    ]  # fmt: skip
    names = ("detection_boxes", "detection_classes", "detection_scores")
    made = [
        scope.reshaped(y, (1, *scope.shape(y)), name)
        for y, name in zip(rows, names, strict=True)
    ]  # fmt: skip
    return [*made, scope.node(Cast(DType.FLOAT32), [kept.count], "num_detections")]


quantised(_POST_PROCESS)(post_process)


def _floats(scope: Scope, index: int) -> str:
    """An input, dequantised if it holds integers."""
    tensor, x = scope.tensor(index), scope.input(index)
    if not tensor.is_quantised:
        return x
    assert tensor.scales is not None
    if not tensor.scales.single:
        raise UnsupportedError(f"its input {index} has several scales")
    zero = tensor.scales.zeros.astype(scope.dtype(x).numpy)
    parts = [
        scope.constant(f"scale{index}", tensor.scales.scales.reshape(())),
        scope.constant(f"zero{index}", zero.reshape(())),
    ]
    return scope.node(DequantizeLinear(), [x, *parts], f"floats{index}")


def _decoded(scope: Scope, encodings: str, anchors: str) -> str:
    """Corners (y, x, y, x)[n,4] of boxes: centers in units of anchors, logarithms of sizes."""
    n = scope.shape(encodings)[0]
    scales = [scope.number(f"{axis}_scale") for axis in "yxhw"]
    if not min(scales) > 0.0:
        raise ModelError(f"scales {scales}")
    units = scope.constant("scales", np.asarray(scales, np.float32))
    moved = scope.node(Div(), [encodings, units], "scaled")
    (place, size), (middle, extent) = (
        [part(scope, v, (0, k), (n, 2), f"{label}{k}") for k in (0, 2)]
        for v, label in ((moved, "encoded"), (anchors, "anchor"))
    )
    shifted = scope.node(Mul(), [place, extent], "shifted")
    center = scope.node(Add(), [shifted, middle], "center")
    grown = scope.node(Exp(), [size], "grown")
    halved = scope.node(Mul(), [grown, scope.scalar("half", 0.5)], "halved")
    half = scope.node(Mul(), [halved, extent], "half_size")
    sides = [scope.node(op, [center, half], f"side{k}") for k, op in enumerate((Sub(), Add()))]
    return scope.node(Concat(1), sides, "corners")
