"""From float32 to integers that are multiples of a step."""

from __future__ import annotations

from dataclasses import dataclass
from math import frexp, ldexp

from cannery.ctext.literals import c_float
from cannery.ir.graph import Graph
from cannery.ir.registry import RefArray, register
from cannery.ir.tensor import DType, TensorType
from cannery.ops.checks import operands, require, require_float, require_shape, require_type
from cannery.ops.quantize.stream import put, streamed
from cannery.ops.quantized.arithmetic import NARROW, QuantizedOp, f32, quantised
from cannery.ops.quantized.groups import Groups
from cannery.ops.shared.lanes import Vec
from cannery.schedule.cost import stream_cycles
from cannery.schedule.program import Step
from cannery.schedule.schedule import Estimate, FixedSchedule, Job, Kernel, Params, schedule
from cannery.target.isa import Isa


@register
@dataclass(frozen=True)
class Quantize(QuantizedOp):
    """x float32, factor float32 scalar -> round(x * factor) of `dtype`, clamped to +-bound."""

    bound: int
    dtype: DType = DType.INT16

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        """The shape of x."""
        (x, factor), _ = operands(self, inputs, 2)
        require_float(self, x, factor)
        require_shape(self, "factor", factor, ())
        require_type(self.dtype in NARROW, self, f"to {self.dtype.value}")
        require(0 < self.bound < 2 ** (8 * self.dtype.bytes - 1), self, f"bound {self.bound}")
        return (TensorType(x.shape, self.dtype),)

    def reference(self, *inputs: RefArray | None) -> tuple[RefArray, ...]:
        """In float32."""
        (x, factor), _ = operands(self, inputs, 2)
        return (quantised(f32(f32(x) * f32(factor)), self.bound, self.dtype),)


def bounded(t: str, name: str, bound: int, *, low: bool = True, high: bool = True) -> str:
    """A C expression of the vector `name` clamped to +-bound, or to only one of them."""
    least, most = (f"{t}_set1({c_float(s * bound)})" for s in (-1.0, 1.0))
    held = f"{t}_max({name}, {least})" if low else name
    return f"{t}_min({held}, {most})" if high else held


def store_bounded(
    v: Vec, name: str, pointer: str, bound: int, dtype: DType, isa: Isa, *,
    finite: bool = False, low: int | None = None,
) -> str:  # fmt: skip
    """A C statement that stores the vector `name`, rounded and clamped to +-bound.

    Shorter if it is `finite` (never NaN). `low` takes the place of -bound where lanes are clamped.
    """
    if clamps_lanes(v, isa):
        held = (-bound if low is None else low, bound)
        return store_lanes(v, f"{v.t}_to_i32_round({name})", held, pointer, dtype)
    if finite:
        (stored,) = put(v, bounded(v.t, name, bound), pointer, 0, dtype)
        return stored
    store = f"{v.t}_{Groups(dtype).store}" + ("" if v.full else "_n")
    valid = "" if v.full else f", {v.valid}"
    return f"{store}({pointer}, {bounded(v.t, name, bound)}{valid});"


def clamps_lanes(v: Vec, isa: Isa) -> bool:
    """Whether vectors are clamped as integers: converting saturates, and the vocabulary stores the
    lowest bits of lanes.
    """
    return isa.has("mve") and v.lanes == 4


def store_lanes(v: Vec, whole: str, held: tuple[int, int], pointer: str, dtype: DType) -> str:
    """A C statement that stores the integers `whole`, clamped to the two numbers `held`."""
    t, (low, high) = f"i32x{v.lanes}", held
    clamped = f"{t}_min({t}_max({whole}, {t}_set1({low})), {t}_set1({high}))"
    word, rest = Groups.PUTS[dtype].replace("put", "low"), "" if v.full else f", {v.valid}"
    return f"{t}_{word}{'' if v.full else '_n'}({pointer}, {clamped}{rest});"


def _words(number: float, factor: str, bound: int) -> str:
    """The arguments of `cannery_scaled` after the first; `factor` is the number in C."""
    fraction, exponent = frexp(number)
    return f"{factor}, {int(ldexp(fraction, 30))}, {125 - (exponent - 30)}, {bound}"


@schedule
@dataclass(frozen=True)
class QuantizeStream(FixedSchedule):
    """One pass, vector by vector where elements are contiguous."""

    id = "quantized.quantize"
    version = 2

    def why_not(self, graph: Graph, step: Step, isa: Isa) -> str:
        if not step.alone or not isinstance(step.anchor.op, Quantize):
            return "not a quantisation"
        x, factor = step.anchor.inputs
        fits = factor in graph.constants and x not in graph.constants
        return "" if fits else "only its factor must be constant"

    def cost(self, graph: Graph, step: Step, params: Params, isa: Isa) -> Estimate:
        return Estimate(stream_cycles(isa, graph.types[step.output].elements, 1.0, 1.0, 8.0))

    def kernel(self, job: Job) -> Kernel:
        op, anchor = job.step.anchor.op, job.step.anchor
        assert isinstance(op, Quantize)
        factor = c_float(float(job.constant(anchor.inputs[1])))

        number = job.constant(anchor.inputs[1])
        if job.isa.has("soft_float") and 2.0**-60 < number < 2.0**60:
            words, c = _words(float(number), factor, op.bound), op.dtype.c_name

            def without_floats(_: Vec, at: str) -> list[str]:
                return [f"*(yr{at}) = ({c})cannery_scaled(*(xr{at}), {words});"]

            return Kernel(streamed(job, without_floats), whole=True)

        def statements(v: Vec, at: str) -> list[str]:
            scaled = f"{v.t}_mul({v.load(f'xr{at}')}, {v.t}_set1({factor}))"
            return [
                f"const {v.t} v = {scaled};",
                store_bounded(v, "v", f"yr{at}", op.bound, op.dtype, job.isa),
            ]

        return Kernel(streamed(job, statements), whole=True)
