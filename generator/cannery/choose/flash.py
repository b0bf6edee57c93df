"""The fastest plan whose code and constants stay below a bound (`MAX_FLASH`), by estimate.

Constants are those of the kernels, exactly. How much code a compiler makes of a kernel is estimated
from its C text, so that every machine chooses the same. What a plan really takes `cannery size`
says.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property

from cannery.choose.plan import Plan
from cannery.choose.signature import step_kind
from cannery.choose.size import SizeBound
from cannery.choose.views import is_view
from cannery.ctext.halves import make_kernel
from cannery.errors import OptionError
from cannery.measure.trial import Data, make_trial
from cannery.schedule.program import Choice
from cannery.target.isa import Isa

_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)

#: What ends a sum of integers, each with its rounding and limits.
_ENDS = re.compile(r"\bcannery_(?:product_high|scaled)\w*\(|\bf32x1_(?:put_|to_i32)\w*\(")
_FLOATS = re.compile(r"\bf32x1_(?!put_|to_i32|zero|load)\w+\(")
_SIMPLE = re.compile(r"[-+*]=?|\[")

#: Bytes of a function, of an end of a sum, an operation on floats, any other. They were fitted to
#: the code that gcc 12 makes for a Cortex-M0+, an M4 and RV32IMC (by their integer registers) of
#: 249 kernels of int8 networks, and raised until whole networks take less.
_BYTES = {8: (270, 125, 12, 2.1), 13: (220, 100, 5, 1.0), 28: (425, 130, 12, 0.78)}

#: Bytes of what calls a step, and of what a library has besides.
_CALL, _REST = 30, 400


def code_bytes(code: str, isa: Isa) -> float:
    """Estimated bytes of the machine code of a kernel's C code, for a small core."""
    text = _COMMENT.sub("", code)
    nearest = min(_BYTES, key=lambda registers: abs(registers - isa.integer_registers))
    function, end, floats, simple = _BYTES[nearest]
    counts = (len(found.findall(text)) for found in (_ENDS, _FLOATS, _SIMPLE))
    return function + sum(n * b for n, b in zip(counts, (end, floats, simple), strict=True))


@dataclass(frozen=True)
class FlashBound(SizeBound):
    """Code and constants of a plan may take `most` bytes.

    Steps of one kind are expected to share their code. `known` keeps sizes from call to call.
    """

    known: dict[tuple[str, str], tuple[int, float]] = field(default_factory=dict)

    @cached_property
    def _kinds(self) -> list[str]:
        return [step_kind(self.graph, segment.step) for segment in self.segments]

    @cached_property
    def _alike(self) -> Counter[str]:
        return Counter(self._kinds)

    def flash(self, plan: Plan) -> float:
        """Bytes of the flash that a plan takes, estimated."""
        return _REST + self.size(plan)

    def _bytes(self, index: int, choice: Choice) -> float:
        if is_view(choice.schedule):
            return 0.0
        kind = self._kinds[index]
        key = (kind, str(choice))
        if key not in self.known:
            self.known[key] = self._measured(index, choice)
        constants, code = self.known[key]
        return constants + _CALL + code / self._alike[kind]

    def _measured(self, index: int, choice: Choice) -> tuple[int, float]:
        """Bytes of constants and code of a step alone."""
        step = self.segments[index].step
        trial = make_trial(self.graph, step, choice.schedule, choice.params, self.isa, Data((), ()))
        assert trial is not None, "plain placing is always possible"
        kernel = make_kernel(choice.schedule, trial.job("step"))
        return kernel.constant_bytes, code_bytes(kernel.code, self.isa)

    def _kept(self, plan: Plan) -> bool:
        return self.flash(plan) <= self.most

    def _too_small(self, smallest: Plan) -> OptionError:
        least = round(self.flash(smallest) + 0.5)
        return OptionError(
            f"code and constants take at least {least:,} bytes, by estimate",
            where="--max-flash", cure=f"give {least} or more",
        )  # fmt: skip
