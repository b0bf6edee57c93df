"""The interface of a schedule: one way to compute a Step, with its tunables.

A schedule is discovered by its class (a module in `cannery.ops.<op>`), stateless, and asked in
this order: `why_not` (legality), `candidates` (its tunable space for a step), `reads`/`writes`
(layouts), `cost` (estimated), and, when it is chosen or tried, `kernel`.
"""

from __future__ import annotations

import importlib
import pkgutil
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from cannery.ir.graph import Graph
from cannery.ir.half import halves_at
from cannery.ir.tensor import TensorType
from cannery.layouts import Halo, Layout, Want
from cannery.target.isa import Isa

if TYPE_CHECKING:
    from cannery.schedule.program import Step

#: Tunables of a candidate, e.g. {"mr": 2, "nr": 3, "unroll": "ic"}.
Params = Mapping[str, int | str | bool]

#: Networks whose weights take up to this share of the first-level cache may stay there from run to
#: run, and so may their code.
FEW_WEIGHTS = 0.75

#: What the name of a kernel's second function ends with, see `Kernel.turns`.
TURNED = "_turned"

#: The parameter that names an approximate form of the step's activations, see `Elementwise`.
MATH = "math"


@dataclass(frozen=True)
class ConstArray:
    """A constant that a kernel reads: weights in packed order, masks, tables.

    `is_table`: it is a table of an activation, for the words of vec_table.h; `is_fixed`: it is for
    those of vec_fixed.h. `is_weights`: it holds weights as they are in the graph, and zeros, which
    may be stored as float16 (`ctext/halves.py`).
    """

    name: str
    values: NDArray[np.generic]
    comment: str = ""
    is_table: bool = False
    is_fixed: bool = False
    is_weights: bool = False


@dataclass(frozen=True)
class Kernel:
    """Generated code of one step.

    `code` defines the static function named by the job's symbol, helpers first. Its parameters are
    the inputs, the outputs, `float *scratch` if `scratch_bytes`, and `int y0, int y1` if `band`: a
    band function computes output rows y0 <= y < y1 of one image, y0 a multiple of `band`. It
    computes one image, or, if `whole`, all images of the batch in one call. `needs_math`,
    `scalar_math`, `needs_half`, `needs_bfloat`, `needs_table` and `needs_fixed` say that it
    includes vec_math.h, scalar_math.h, vec_half.h, vec_bfloat.h, vec_table.h and vec_fixed.h. The
    last two follow from its constants, and stay if these move elsewhere; then `moved_bytes` are the
    bytes of the moved constants.

    `units`, only if the job asks for a cut: the last parameters are `int first_unit, int end_unit`,
    and the kernel computes those of its `units` parts (blocks of channels, directions).

    `stops`, only if the job asks for it: the last parameter is `int length`, the number of sequence
    steps to compute; later ones may be computed too.

    `turns`: there is also a function `<symbol>_turned` with a last parameter `int turn`, which
    reads weights in one order if it is 0, and in the opposite one if it is 1. If each call changes
    it, weights with which one ends are still near when the next one begins.
    """

    code: str
    constants: tuple[ConstArray, ...] = ()
    scratch_bytes: int = 0
    band: int = 0
    needs_math: bool = False
    whole: bool = False
    units: int = 0
    scalar_math: bool = False
    stops: bool = False
    needs_table: bool = False
    needs_fixed: bool = False
    needs_half: bool = False
    needs_bfloat: bool = False
    moved_bytes: int = 0
    turns: bool = False

    @property
    def constant_bytes(self) -> int:
        """Bytes of all constants, wherever they are."""
        return self.moved_bytes + sum(int(c.values.nbytes) for c in self.constants)

    def __post_init__(self) -> None:
        if any(constant.is_table for constant in self.constants):
            object.__setattr__(self, "needs_table", True)
        if any(constant.is_fixed for constant in self.constants):
            object.__setattr__(self, "needs_fixed", True)


@dataclass(frozen=True)
class Job:
    """All that a schedule needs to generate a kernel.

    `inputs` and `outputs` are layouts in the order of the step's. `in_place` lists the inputs that
    share memory with the first output. `cut` asks for a kernel that can be cut into units, for
    several cores; `stops` for one that gets the length of sequences. Schedules without such kernels
    ignore both, except for recurrent layers. With `weights_apart`, the packed weights, the constant
    `<symbol>_w`, become a parameter of that name after the outputs, so that several weights can
    share the code. `ahead`: bytes after the step's own weights that later steps read, for schedules
    that prefetch.
    """

    graph: Graph
    step: Step
    isa: Isa
    params: Params
    symbol: str
    inputs: tuple[Layout, ...]
    outputs: tuple[Layout, ...]
    in_place: frozenset[int] = frozenset()
    cut: bool = False
    stops: bool = False
    ahead: int = 0
    weights_apart: bool = False

    @property
    def output(self) -> Layout:
        """The layout of the first output."""
        return self.outputs[0]

    @property
    def rows_stop(self) -> bool:
        """Whether it may stop early, and the rows it computes are the steps of one sequence."""
        known, value = self.graph.length, self.step.anchor.output
        if not self.stops or known is None or value not in known.times:
            return False
        return self.type(value).elements == known.steps * self.type(value).shape[-1]

    @property
    def stores_halves(self) -> bool:
        """Whether the step's weights are stored as float16."""
        return reads_halves(self.graph, self.step)

    def type(self, value: str) -> TensorType:
        """The type of a value of the graph."""
        return self.graph.types[value]

    def constant(self, name: str) -> NDArray[np.float32]:
        """A float constant of the graph."""
        return np.asarray(self.graph.constants[name], dtype=np.float32)

    def stored(self, value: str, symbol: str) -> ConstArray:
        """A constant of the graph as it is, under a C name; bools are bytes in C."""
        array = self.graph.constants[value].reshape(-1)
        return ConstArray(symbol, array.astype(np.uint8) if array.dtype.kind == "b" else array)


@dataclass(frozen=True)
class Estimate:
    """What the cost model says: cycles of one image, and bytes of hot code."""

    cycles: float
    code_bytes: float = 0.0

    def total(self, isa: Isa) -> float:
        """The cycles, including fetching the code; more if it outgrows the cache."""
        return self._with_code(isa, isa.core.code.fetched)

    def total_in(self, graph: Graph, isa: Isa) -> float:
        """The total of a step of this network, all of whose code may stay in the cache.

        Plain C never counts as free, because it is unknown how compilers vectorise long code.
        """
        core = isa.core
        few = isa.widest > 1 and graph.constant_bytes <= FEW_WEIGHTS * core.caches.l1_bytes
        code = core.code
        return self._with_code(isa, code.decoded if few else code.fetched)

    def _with_code(self, isa: Isa, rate: float) -> float:
        excess = max(self.code_bytes / isa.core.code.hot_bytes - 1.0, 0.0)
        return self.cycles * (1.0 + min(excess, 4.0)) + self.code_bytes / rate


def own_bytes(graph: Graph, step: Step) -> int:
    """Bytes of the graph's constants that a step reads, as they are stored."""
    names = {name for node in step.nodes for name in node.inputs if name in graph.constants}
    return sum(graph.constants[name].nbytes // (2 if name in graph.halves else 1) for name in names)


def reads_halves(graph: Graph, step: Step) -> bool:
    """Whether a step has weights that are stored as float16."""
    return any(name in graph.halves for node in step.nodes for name in node.inputs)


@dataclass(frozen=True)
class Schedule(ABC):
    """One way to compute a step. It is stateless; all knowledge about a node comes as arguments."""

    #: `<op>.<name>`, after its module or class; stable, because tuning records contain it.
    id: ClassVar[str]
    #: Incremented whenever the meaning of its parameters, or its code, changes.
    version: ClassVar[int] = 1
    #: Whether results differ from the direct form by more than rounding (needs MAX_ERROR).
    inexact: ClassVar[bool] = False
    #: Whether a band depends only on its pointers: rows y0+r to y1+r equal rows y0 to y1 with the
    #: pointers moved by r output rows, a multiple of `Kernel.band`. So it can work on line buffers,
    #: in chains.
    movable: ClassVar[bool] = False
    #: What it requires of the layout of each input and output: channels last unless overridden.
    want: ClassVar[Want] = Want()
    #: Whether its kernels prefetch what `Job.ahead` says.
    fetches: ClassVar[bool] = False
    #: Whether it computes chains that are to be computed depth first, see `Step`, and no others.
    depth_first: ClassVar[bool] = False
    #: Whether `ctext/halves.py` can store the weights of its kernels as float16: their array is
    #: marked, and read only by loads.
    halves: ClassVar[bool] = False
    #: Whether it reads or writes values in half precision (`ops/half/`), and no others.
    computes_half: ClassVar[bool] = False
    #: Whether it moves values as they are, also those in half precision.
    moves_half: ClassVar[bool] = False
    #: Whether it multiplies bfloat16 (`ops/bfloat/`), and nothing else.
    computes_bfloat: ClassVar[bool] = False

    @abstractmethod
    def why_not(self, graph: Graph, step: Step, isa: Isa) -> str:
        """Why the step cannot be computed this way; empty if it can."""

    @abstractmethod
    def candidates(self, graph: Graph, step: Step, isa: Isa) -> Sequence[Params]:
        """Parameters worth trying for a legal step, in a fixed order; never empty."""

    def reads(self, graph: Graph, step: Step, params: Params, isa: Isa) -> tuple[Want, ...]:
        """What it requires of the layout of each input: `want`, for the first one with the
        `halo`.
        """
        apart = self.apart(graph, step, isa)
        first = replace(self.want, halo=self.halo(graph, step), apart=apart)
        return tuple(self.want if k else first for k in range(len(step.inputs)))

    def halo(self, graph: Graph, step: Step) -> Halo:
        """The cells around the first input that it reads."""
        return Halo()

    def apart(self, graph: Graph, step: Step, isa: Isa) -> bool:
        """Whether pixels of the first input should not share cache sets."""
        return False

    def writes(self, graph: Graph, step: Step, params: Params, isa: Isa) -> tuple[Want, ...]:
        """The order in which it writes each output, and the slack that it overwrites: `want`."""
        return (self.want,) * len(step.outputs)

    @abstractmethod
    def cost(self, graph: Graph, step: Step, params: Params, isa: Isa) -> Estimate:
        """What the cost model expects."""

    def constant_bytes(self, graph: Graph, step: Step, params: Params, isa: Isa) -> float:
        """Approximate bytes of the kernel's constants: those of the step, as they are."""
        return float(own_bytes(graph, step))

    def scratch_bytes(self, graph: Graph, step: Step, params: Params, isa: Isa) -> int:
        """At least how much scratch memory the kernel takes: what is known before it is made."""
        return 0

    @abstractmethod
    def kernel(self, job: Job) -> Kernel:
        """The code."""

    def in_place(self, step: Step) -> bool:
        """Whether the output may lie in the memory of the first input.

        Then no element of that input may be read after the same element of the output is written.
        """
        return False

    def weights(self, job: Job) -> ConstArray:
        """Only the packed weights, the constant `<symbol>_w` of the kernel."""
        return next(c for c in self.kernel(job).constants if c.name == f"{job.symbol}_w")

    def stacked(
        self, graph: Graph, step: Step, params: Params, isa: Isa
    ) -> Sequence[tuple[Schedule, Params]]:
        """The parameters worth trying for a stacked step, see `cannery.lowering.stack`.

        `step` and `graph` are the stacked ones, `params` those of a single image. The results of
        each image must be the same, bit for bit. Empty: stacking is useless.
        """
        return ()

    def is_inexact(self, params: Params) -> bool:
        """Whether a candidate needs MAX_ERROR's permission, because of its schedule or approximate
        math.
        """
        return self.inexact or bool(params.get(MATH))

    def label(self, params: Params) -> str:
        """`conv.direct_oc{mr=2,nr=3}`: used in records, comments and tables."""
        text = ",".join(f"{k}={_text(v)}" for k, v in sorted(params.items()))
        return f"{self.id}{{{text}}}"


def _text(value: int | str | bool) -> str:
    return str(int(value)) if isinstance(value, bool) else str(value)


@dataclass(frozen=True)
class FixedSchedule(Schedule):
    """A schedule without tunables."""

    def candidates(self, graph: Graph, step: Step, isa: Isa) -> Sequence[Params]:
        return [{}]


@dataclass(frozen=True)
class _Registry:
    by_id: dict[str, Schedule] = field(default_factory=dict)


_REGISTRY = _Registry()


def schedule(cls: type[Schedule]) -> type[Schedule]:
    """Class decorator that makes a schedule known by its id."""
    if cls.id in _REGISTRY.by_id:
        raise TypeError(f"schedule {cls.id} is registered twice")
    _REGISTRY.by_id[cls.id] = cls()
    return cls


@cache
def _discover() -> None:
    package = importlib.import_module("cannery.ops")
    for found in sorted(pkgutil.walk_packages(package.__path__, "cannery.ops."), key=str):
        importlib.import_module(found.name)


@cache
def all_schedules() -> Mapping[str, Schedule]:
    """Every schedule by id, sorted."""
    _discover()
    return dict(sorted(_REGISTRY.by_id.items()))


def legal(graph: Graph, step: Step, isa: Isa) -> Sequence[Schedule]:
    """The schedules that can compute a step, in the order of their ids."""
    return graph.once("legal", (step, isa), lambda: _legal(graph, step, isa))


def _legal(graph: Graph, step: Step, isa: Isa) -> tuple[Schedule, ...]:
    halves, half = reads_halves(graph, step), halves_at(graph, step.nodes)
    fitting = (s for s in all_schedules().values() if s.depth_first == step.depth_first)
    bfloat = any(node.op.of_bfloat for node in step.nodes)
    fitting = (s for s in fitting if s.computes_bfloat == bfloat)
    able = (s for s in fitting if (s.halves or not halves) and _reads_type(s, half=half))
    return tuple(s for s in able if not s.why_not(graph, step, isa))


def _reads_type(schedule: Schedule, *, half: bool) -> bool:
    """Whether a schedule is for steps in half precision, or for others."""
    return schedule.computes_half == half or (half and schedule.moves_half)


def estimates(
    graph: Graph, step: Step, isa: Isa, schedule: Schedule
) -> Sequence[tuple[Params, Estimate]]:
    """The candidates of a legal schedule, and the cost model's estimate for each."""

    def find() -> list[tuple[Params, Estimate]]:
        found = schedule.candidates(graph, step, isa)
        return [(params, schedule.cost(graph, step, params, isa)) for params in found]

    return graph.once(("estimates", schedule.id), (step, isa), find)
