"""What every generated function has in common: its parameter list and how it is documented."""

from __future__ import annotations

from collections.abc import Callable

from cannery.ctext.environment import c_comment, input_name, offset
from cannery.ir.tensor import DType
from cannery.ops.shared.lanes import Vec
from cannery.schedule.schedule import TURNED, Job, Kernel


def parameter_names(job: Job) -> list[str]:
    """Names of the inputs then outputs: x, x1, x2 ... y, y1 ..."""
    inputs = [input_name(k) for k in range(len(job.inputs))]
    outputs = ["y" if k == 0 else f"y{k}" for k in range(len(job.outputs))]
    return inputs + outputs


def signature(
    job: Job, *, scratch: bool = False, band: bool = False, units: bool = False,
    stops: bool = False, turned: bool = False, symbol: str = "",
) -> str:  # fmt: skip
    """`static void ball_L03_conv(const float *CANNERY_RESTRICT x, ..., int y0, int y1)`.

    Pointers are restrict unless the memory plan lets them share memory. `scratch`, `band`,
    `units` and `stops` as in `Kernel`; `turned`: the function that its `turns` speaks of.
    """
    names = parameter_names(job)
    parts = []
    for k, (name, layout) in enumerate(zip(names, (*job.inputs, *job.outputs), strict=True)):
        is_input = k < len(job.inputs)
        shared = (k in job.in_place) if is_input else bool(job.in_place and k == len(job.inputs))
        restrict = "" if shared else "CANNERY_RESTRICT "
        const = "const " if is_input else ""
        parts.append(f"{const}{c_type(layout.dtype)} *{restrict}{name}")
    if job.weights_apart:
        parts.append(f"const float *CANNERY_RESTRICT {job.symbol}_w")
    if scratch:
        parts.append("float *CANNERY_RESTRICT scratch")
    if band:
        parts += ["int y0", "int y1"]
    if units:
        parts += ["int first_unit", "int end_unit"]
    if stops:
        parts.append("int length")
    if turned:
        parts.append("int turn")
    name = f"{symbol or job.symbol}{TURNED if turned else ''}"
    return f"static void {name}({', '.join(parts)})"


def kernel_of_nothing(job: Job) -> Kernel:
    """The kernel of a step whose outputs have no elements."""
    unused = "".join(f"    (void){name};\n" for name in parameter_names(job))
    return Kernel(f"{describe(job)}\n{signature(job)}\n{{\n{unused}}}\n", whole=True)


def c_type(dtype: DType) -> str:
    """The C type of one element."""
    return dtype.c_name


def describe(job: Job) -> str:
    """The comment above a function: what it computes, from what to what, and how."""
    step = job.step
    epilogue = "".join(f" + {node.op.kind}" for node in step.epilogue)
    sources = ", ".join(str(layout) for layout in job.inputs)
    target = ", ".join(str(layout) for layout in job.outputs)
    params = ", ".join(f"{k}={v}" for k, v in sorted(job.params.items()))
    name = c_comment(step.name)
    return (
        f'/* {step.kind} "{name}"{epilogue}: {sources} -> {target}\n'
        f" * {step.macs(job.graph)} multiply-accumulates. Tunables: {params or 'none'}. */"
    )


def residual_pointer(job: Job) -> Callable[[int, Vec], Callable[[int], str]]:
    """For templates with channels in the lanes: (pixel, vector) -> input index -> C pointer.

    The template declares `r<k>`, which points into input k at the tile's first pixel and channel.
    """

    def at(pixel: int, vec: Vec) -> Callable[[int], str]:
        return lambda k: f"r{k}{offset(pixel * job.inputs[k].col + vec.start)}"

    return at
