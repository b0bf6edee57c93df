"""One view of all normalisations: axes that are standardised together, then an affine map."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cannery.ir.graph import Graph
from cannery.ir.numeric import F64, f64
from cannery.layouts import Want
from cannery.ops.normalization.op import (
    BatchNormalization,
    GroupNormalization,
    LayerNormalization,
)
from cannery.ops.shared import epilogue as epilogues
from cannery.ops.shared.axes import axis_strides, dense_strides
from cannery.ops.shared.epilogue import Epilogue
from cannery.ops.shared.function import parameter_names
from cannery.schedule.program import Step
from cannery.schedule.schedule import ConstArray, Job, Params, Schedule
from cannery.target.isa import Isa


@dataclass(frozen=True)
class Dim:
    """An axis of x, or a part of one. `reduced`: standardised over.

    Strides are those of x, y, scale and bias, the channel index of epilogues, then the residuals.
    """

    extent: int
    strides: tuple[int, ...]
    reduced: bool


#: Positions in the strides of a Dim.
X, Y, AFFINE, CHANNEL, RESIDUALS = 0, 1, 2, 3, 4


@dataclass(frozen=True)
class Affine:
    """y = standardised * scale + bias: C pointers, empty if there is none; exact loads unless they
    are padded constants.
    """

    scale: str
    bias: str
    scale_padded: bool = True
    bias_padded: bool = True


@dataclass(frozen=True)
class NormalizationSchedule(Schedule):
    """A schedule that normalises an activation."""

    def why_not(self, graph: Graph, step: Step, isa: Isa) -> str:
        op = step.anchor.op
        kinds = (BatchNormalization, GroupNormalization, LayerNormalization)
        if len(step.anchors) != 1 or not isinstance(op, kinds):
            return "not a normalisation"
        inputs = step.anchor.inputs
        if inputs[0] in graph.constants:
            return "reads constants only"
        if isinstance(op, BatchNormalization) and any(i not in graph.constants for i in inputs[1:]):
            return "statistics are computed"
        return epilogues.why_not(step)

    def reads(self, graph: Graph, step: Step, params: Params, isa: Isa) -> tuple[Want, ...]:
        parameters = step.anchor.inputs[1:]  # scale and bias if they are computed
        return tuple(Want(dense=value in parameters) for value in step.inputs)

    def in_place(self, step: Step) -> bool:
        return not step.reads_again


def dims(job: Job, ep: Epilogue) -> list[Dim]:
    """The axes of x in order; a group-normalised channel axis as two, groups and channels."""
    anchor = job.step.anchor
    type_ = job.type(anchor.output)
    layouts = (job.inputs[0], job.output, *(job.inputs[k] for k in ep.tensors))
    x, y, *residuals = [axis_strides(type_, layout) for layout in layouts]
    affine = _affine_strides(job)
    last = type_.rank - 1
    found = []
    for k, extent in enumerate(type_.shape):
        strides = (x[k], y[k], affine[k], int(k == last), *(r[k] for r in residuals))
        found += _split(anchor.op, k, Dim(extent, strides, _reduced(anchor.op, k)))
    return found


def _reduced(op: object, axis: int) -> bool:
    if isinstance(op, LayerNormalization):
        return axis in op.axes
    return isinstance(op, GroupNormalization) and axis not in (0, op.axis)


def _split(op: object, axis: int, dim: Dim) -> list[Dim]:
    if not isinstance(op, GroupNormalization) or axis != op.axis:
        return [dim]
    size = dim.extent // op.groups
    wide = tuple(s * size for s in dim.strides)
    return [Dim(op.groups, wide, reduced=False), Dim(size, dim.strides, reduced=True)]


def _affine_strides(job: Job) -> tuple[int, ...]:
    op, shape = job.step.anchor.op, job.type(job.step.anchor.output).shape
    if isinstance(op, LayerNormalization):
        inner = dense_strides(tuple(shape[a] for a in op.axes))
        at = dict(zip(op.axes, inner, strict=True))
        return tuple(at.get(k, 0) for k in range(len(shape)))
    assert isinstance(op, (BatchNormalization, GroupNormalization))
    return tuple(int(k == op.axis) for k in range(len(shape)))


def affine(job: Job) -> tuple[Affine, tuple[ConstArray, ...]]:
    """Scale and bias with their constants; what BatchNormalization stored is folded into both."""
    op, inputs = job.step.anchor.op, job.step.anchor.inputs
    if isinstance(op, BatchNormalization):
        scale, bias, mean, var = (f64(job.constant(v)) for v in inputs[1:])
        factor = scale / np.sqrt(var + op.epsilon)
        arrays = (
            _array(f"{job.symbol}_scale", factor),
            _array(f"{job.symbol}_bias", bias - mean * factor),
        )
        return Affine(arrays[0].name, arrays[1].name), arrays
    found: list[ConstArray] = []
    pointers, padded = [], []
    for name, value in zip(("scale", "bias"), (*inputs[1:], "", "")[:2], strict=True):
        if value in job.graph.constants:
            array = _array(f"{job.symbol}_{name}", f64(job.constant(value)))
            found.append(array)
            pointers.append(array.name)
        elif value:
            pointers.append(parameter_names(job)[job.step.inputs.index(value)])
        else:
            pointers.append("")
        padded.append(value in job.graph.constants)
    return Affine(pointers[0], pointers[1], padded[0], padded[1]), tuple(found)


def _array(name: str, values: F64) -> ConstArray:
    return ConstArray(name, epilogues.padded_channels(values.reshape(-1).astype(np.float32)))


def epsilon(step: Step) -> float:
    """The number added to a variance."""
    op = step.anchor.op
    assert isinstance(op, (BatchNormalization, GroupNormalization, LayerNormalization))
    return op.epsilon


def contiguous_run(graph: Graph, step: Step) -> int:
    """Neighbours in NHWC that one run of vectors covers."""
    op, shape = step.anchor.op, graph.types[step.anchor.output].shape
    size = shape[-1]
    if isinstance(op, GroupNormalization) and op.axis == len(shape) - 1 and op.groups < size:
        return size // op.groups
    return size
