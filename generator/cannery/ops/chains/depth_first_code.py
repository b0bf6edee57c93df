"""The C of a depth-first chain."""

from __future__ import annotations

from dataclasses import dataclass, replace

from cannery.ctext.environment import offset, render
from cannery.ctext.halves import make_kernel
from cannery.layouts import Layout, nhwc
from cannery.ops.chains.pulling import readers
from cannery.ops.chains.row_rings import Chain, Part
from cannery.ops.shared.function import describe, parameter_names, signature
from cannery.schedule.schedule import Job, Kernel


@dataclass(frozen=True)
class _Call:
    """A stage in C: it runs if `needs` (stage, least number of rows) are there."""

    name: str
    text: str
    needs: tuple[tuple[int, str], ...]


@dataclass(frozen=True)
class ChainCode:
    """Generates one chain: the functions of its parts, and the loop that calls them."""

    job: Job
    chain: Chain

    def kernel(self) -> Kernel:
        """The kernels of the parts, and the loop that calls them."""
        chain, first = self.chain, len(self.chain.copied)
        kernels = [
            make_kernel(part.choice.schedule, self._part_job(part, first + k))
            for k, part in enumerate(chain.parts)
        ]
        calls = [self._copy(value, number) for number, value in enumerate(chain.copied)]
        calls += [
            self._call(part, kernel, first + k)
            for k, (part, kernel) in enumerate(zip(chain.parts, kernels, strict=True))
        ]
        code = render(
            "ops/chains/depth_first.c.j2",
            kernels=kernels, rings=chain.rings, calls=calls, stages=chain.stages,
            readers=readers(chain.stages), describe=describe(self.job),
            signature=signature(self.job, scratch=True),
        )  # fmt: skip
        return Kernel(
            code,
            tuple(constant for kernel in kernels for constant in kernel.constants),
            chain.bytes + max(kernel.scratch_bytes for kernel in kernels),
            needs_math=any(kernel.needs_math for kernel in kernels),
            scalar_math=any(kernel.scalar_math for kernel in kernels),
            needs_fixed=any(kernel.needs_fixed for kernel in kernels),
        )

    def _part_job(self, part: Part, number: int) -> Job:
        """The job of a part on its rows."""
        small, job = part.sliced, self.job
        inputs = tuple(
            self._rows_layout(value, window.rows(small.rows), dense=want.dense)
            for value, window, want in zip(
                small.step.inputs, small.windows, part.wants, strict=True
            )
        )
        output = self._rows_layout(part.output, small.rows, dense=part.writes.dense)
        symbol = f"{job.symbol}_p{number}"
        return Job(small.graph, small.step, job.isa, part.choice.params, symbol, inputs, (output,))

    def _layout(self, value: str) -> Layout:
        """Where a value lies: in its ring, or outside."""
        number = self.chain.numbers.get(value, len(self.chain.rings))
        if number < len(self.chain.rings):
            return self.chain.rings[number].layout
        inputs = self.job.step.inputs
        return self.job.inputs[inputs.index(value)] if value in inputs else self.job.output

    def _rows_layout(self, value: str, rows: int, *, dense: bool) -> Layout:
        """Some rows of a value as a part sees them; `_row` points to the first."""
        layout = self._layout(value)
        shape = (rows, *layout.shape[1:])
        return nhwc.make(shape, dtype=layout.dtype) if dense else replace(layout, shape=shape)

    def _row(self, value: str, row: str, *, dense: bool = False) -> str:
        """The C pointer to a row, or to its first pixel."""
        layout = self._layout(value)
        number = self.chain.numbers.get(value, len(self.chain.rings))
        more = offset(layout.origin) if dense else ""
        if number < len(self.chain.rings):
            return f"b{number} + (({row}) - low{number}) * {layout.row}{more}"
        names, inputs = parameter_names(self.job), self.job.step.inputs
        name = names[inputs.index(value)] if value in inputs else names[-1]
        return f"{name} + ({row}) * {layout.row}{more}"

    def _call(self, part: Part, kernel: Kernel, number: int) -> _Call:
        """The call of a part for its next rows."""
        small, needs, arguments = part.sliced, [], []
        for value, window, want in zip(small.step.inputs, small.windows, part.wants, strict=True):
            first = f"made{number} * {window.stride}{offset(-window.top)}"
            arguments.append(self._row(value, first, dense=want.dense))
            if value in self.chain.numbers:
                end = (
                    f"made{number} * {window.stride}{offset(window.rows(small.rows) - window.top)}"
                )
                needs.append((self.chain.numbers[value], end))
        arguments.append(self._row(part.output, f"made{number}", dense=part.writes.dense))
        if kernel.scratch_bytes:
            arguments.append(f"scratch{offset(self.chain.bytes // 4)}")
        arguments += ["0", str(small.rows)] if kernel.band else []
        text = f"{self.job.symbol}_p{number}({', '.join(arguments)});"
        return _Call(small.step.name, text, tuple(needs))

    def _copy(self, value: str, number: int) -> _Call:
        """A row of a value from outside, into its ring."""
        source = self.job.inputs[self.job.step.inputs.index(value)]
        ring = self.chain.rings[number].layout
        names = parameter_names(self.job)
        name = names[self.job.step.inputs.index(value)]
        _, width, channels = source.shape
        together = source.col == channels == ring.col
        count = channels * (width if together else 1) * source.dtype.bytes
        target = self._row(value, f"made{number}", dense=True)
        start = f"{name} + made{number} * {source.row}{offset(source.origin)}"
        if together:
            return _Call(value, f"memcpy({target}, {start}, {count}u);", ())
        loop = f"for (int i = 0; i < {width}; ++i) "
        text = f"memcpy({target} + i * {ring.col}, {start} + i * {source.col}, {count}u);"
        return _Call(value, loop + text, ())
