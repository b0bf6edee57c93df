"""Products of integers, by instructions that multiply and add groups of two or four.

int16: pairs (pmaddwd, vpdpwssd, vmlal); bytes: fours (pmaddubsw, vpdpbusd, sdot), see `ways.py`.
That many neighbouring k make one step, and a vector of L columns holds L groups of weights. They
are stored as [block][k / group][vector][group by group], for pairs on Arm and RISC-V as
[..][vector][first, second numbers], for fours on Arm without SDOT as [..][vector][first, second
twos]. A last group that is not full is padded with weights of 0.

Inputs are broadcast to all lanes, group by group; Arm loads four groups of a row at once, and
multiplies by one lane of that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from cannery.ctext.environment import offset
from cannery.ir.tensor import DType
from cannery.ops.quantized.arithmetic import BYTES, by_integers
from cannery.ops.quantized.codes import Codes
from cannery.ops.shared.gemm import VectorBlock
from cannery.schedule.cost import load_way
from cannery.target.isa import Isa

#: Tiles (MR rows, NR vectors) by the number of vector registers: a step needs two registers besides
#: the accumulators.
TILES = {
    8: ((1, 4), (2, 2), (1, 2), (1, 6), (3, 1)),
    16: ((1, 4), (1, 8), (2, 4), (3, 4), (4, 3), (6, 2), (2, 6), (4, 2)),
    32: ((1, 4), (1, 8), (2, 8), (4, 6), (6, 4), (8, 3), (12, 2), (4, 4), (3, 8)),
}  # fmt: skip

#: The same where products take lanes of inputs, which stay in a register for each row.
LANE_TILES = {
    16: ((1, 4), (1, 8), (2, 3), (3, 2), (4, 2), (8, 1)),
    32: ((1, 4), (1, 8), (2, 8), (3, 5), (4, 4), (5, 3), (6, 2), (7, 2), (8, 2), (14, 1)),
}

#: Those of pairs of rows.
MATRIX_TILES = ((1, 4), (2, 6), (4, 3), (4, 4), (6, 2), (6, 3), (8, 2), (14, 1))

#: How many of the instructions two rows at once may take to be worth while. It allows for what the
#: estimate leaves out: 0.8 to 0.95 choose the same for the ball, pedestrian and robot detectors, 1
#: makes the last take 1.3 % more instructions.
LEAST_GAIN = 0.9

#: Those of int16, whose lanes are in the first half of the registers.
PAIR_TILES = {
    16: ((1, 4), (1, 2), (2, 2), (4, 1), (4, 2)),
    32: ((1, 4), (1, 8), (2, 4), (4, 2), (4, 3), (6, 2)),
}

#: Cycles by which each load delays a tile whose products take lanes. Chosen by counts for a
#: Cortex-A76: without it MobileNetV2 takes 3.7 % more instructions, with 0.6 robot_detector 0.4 %
#: more; for a Cortex-A53, ball, pedestrian and robot_detector are the same with anything from 0 to
#: 0.6.
BY_LOAD = 0.15


#: On processors in order: how many times longer three dependent instructions take than independent
#: ones; cycles to repeat the bytes of a group and a row; how many times longer loads take in a tile
#: than alone; cycles until the first products of 16 bytes; registers beside sums and inputs. By the
#: model of a Cortex-A53, on layers of MobileNetV2 and a robot's detector.
WAITING, REPEATED, LOADED, BEGIN, HELD = 2.0, 1.5, 1.5, 12.0, 7

#: Those of single numbers by the number of integer registers, the best of those counted on layers
#: of 3x3, 1x1 and dense ones; others that are as good take more code.
SINGLE_TILES = {
    8: ((1, 2), (1, 1), (3, 1)), 13: ((1, 4), (1, 2), (2, 4)), 16: ((1, 4), (1, 2), (2, 4)),
    28: ((1, 4), (1, 2), (2, 4), (3, 4)),
}  # fmt: skip

#: Sums over at least so many numbers are scaled in loops on small cores: less code, for few more
#: instructions.
ROLLED = 32

#: The number that makes signed numbers unsigned when added, and the other way round.
FLIP = 128


@dataclass(frozen=True)
class Way:
    """The word that multiplies and adds, and whether the highest bits of inputs are flipped.

    `reload`: inputs that neighbouring pixels share are loaded for each pixel, not kept in a
    register. Compilers would keep them with moves and spills that cost more, unless a load takes
    several instructions (SSE's broadcast of bytes whose signs move, and AVX-512's handling of
    signs). `lane`: four groups of a row are one load. `matrix`: two rows at once, in groups of
    eight. `single`: numbers are multiplied one by one.
    """

    dot: str
    flip: bool = False
    reload: bool = False
    lane: bool = False
    single: bool = False
    matrix: bool = False

    def starts(self, w: NDArray[Any], dtype: DType) -> NDArray[np.int64]:
        """The initial sums [N] for weights w[K,N] that cancel the effect of flipping."""
        sums: NDArray[np.int64] = w.astype(np.int64).sum(axis=0)
        if not self.flip:
            return np.zeros_like(sums)
        return sums * (FLIP if dtype is DType.UINT8 else -FLIP)


@dataclass(frozen=True)
class Groups:
    """The groups of an input's type: their size, and the words of the vocabulary for them.

    `order`: that of their products, see `ordered.py`.
    """

    #: The words that round floats and store them, and the same with a zero point.
    STORES: ClassVar = {DType.INT8: "store_i8", DType.UINT8: "store_u8", DType.INT16: "store_s16"}
    PUTS: ClassVar = {DType.INT8: "put_i8", DType.UINT8: "put_u8", DType.INT16: "put_s16"}

    dtype: DType
    way: Way | None = None
    order: str = ""
    codes: Codes | None = None

    @property
    def size(self) -> int:
        if self.way and self.way.matrix:
            return 8
        return 2 if self.dtype is DType.INT16 else 4

    @property
    def t(self) -> str:
        """The prefix of the type of vectors."""
        return "p16" if self.dtype is DType.INT16 else "q8"

    @property
    def dot(self) -> str:
        """The word that multiplies and adds."""
        if self.way:
            return self.way.dot
        return "dot" if self.dtype is DType.INT16 else "dot4"

    @property
    def single(self) -> bool:
        """Whether numbers are multiplied one by one."""
        return self.way is not None and self.way.single

    @property
    def c(self) -> str:
        """The C type of an input."""
        return self.dtype.c_name

    @property
    def weight_c(self) -> str:
        """The C type of a weight, or of several codes."""
        if self.codes:
            return "uint8_t"
        return "int8_t" if self.dtype is DType.UINT8 else self.c

    def stored(self, weights: int) -> int:
        """How many elements of their array so many weights of whole groups are."""
        return weights // self.codes.per_byte if self.codes else weights

    def weight(self, index: int) -> str:
        """C expression of weight number `index` from `wp` on."""
        return self.codes.weight("wp", index) if self.codes else f"wp[{index}]"

    @property
    def store(self) -> str:
        """The word that rounds floats and stores them."""
        return self.STORES[self.dtype]

    def broadcast(self, lanes: int, place: int, valid: int) -> str:
        """C expression of the group at `ap` + `place` in all lanes; `valid` of its numbers
        exist.
        """
        t, at = f"{self.t}x{lanes}", f"ap{offset(place)}"
        at = f"(const int8_t *)({at})" if self.dtype is DType.UINT8 else at
        load = f"{t}_load1({at})" if valid == self.size else f"{t}_load1_n({at}, {valid})"
        return f"{t}_flip({load})" if self.way and self.way.flip else load

    def by_lane(self, block: VectorBlock) -> bool:
        """Whether the products of a block take lanes of loaded inputs."""
        return bool(self.way and self.way.lane) and all(v.lanes == 4 for v in block.vecs)

    def load4(self, place: int, valid: int, slack: int) -> str:
        """C expression of 16 bytes at `ap` + `place`; `valid` of their numbers exist, and
        `slack` more may be read.
        """
        t, at = f"{self.t}x4", f"ap{offset(place)}"
        at = f"(const int8_t *)({at})" if self.dtype is DType.UINT8 else at
        whole = valid + slack >= 16 // self.dtype.bytes
        load = f"{t}_load4({at})" if whole else f"{t}_load4_n({at}, {valid})"
        return f"{t}_flip({load})" if self.way and self.way.flip else load

    def together(self, isa: Isa) -> int:
        """How many numbers of a group lie next to each other in packed weights."""
        if self.dtype is DType.INT16:
            return 1 if isa.family in ("arm", "riscv") else 2
        return 2 if isa.has("lane_fma") and not isa.has("dot4_u8s8") else 4

    def two_rows(self, first: int, second: int, valid: int, slack: int) -> str:
        """C expression of a group of two rows at `ap` + `first` and + `second`; `valid` of their
        numbers exist, and `slack` more may be read.
        """
        cast = "(const int8_t *)" if self.dtype is DType.UINT8 else ""
        rows = ", ".join(f"{cast}(ap{offset(at)})" for at in (first, second))
        whole = valid + slack >= self.size
        load = f"q8x4_two_rows({rows})" if whole else f"q8x4_two_rows_n({rows}, {valid})"
        return f"q8x4_flip({load})" if self.way and self.way.flip else load

    def padded(self, k: int) -> int:
        """K in whole groups."""
        return -(-k // self.size) * self.size

    def work(self, isa: Isa) -> float:
        """Arithmetic instructions of one group of a vector."""
        if self.dtype is DType.INT16:
            return 1.0 if isa.family == "x86" and isa.has("dot4_u8s8") else 2.0
        if isa.has("dot4_u8s8"):
            return 1.0
        if isa.family == "x86":
            return {"dot4u": 3.0, "dot4w": 7.0}.get(self.dot, 4.0)
        if isa.has("lane_fma"):
            return {"dot4w": 4.0}.get(self.dot, 3.0)
        return 10.0 if isa.family == "arm" else 6.0

    def tile_cycles(self, isa: Isa, mr: int, nr: int, k: float) -> float:
        """Cycles of a register tile over k."""
        if self.single:
            return k * _single_cycles(isa, mr, nr)
        if not isa.core.window and self.way and self.way.lane and self.dtype in BYTES:
            return self._cycles_in_order(isa, mr, nr, k)
        lane = self.way is not None and self.way.lane
        broadcast = 2.0 if isa.family == "x86" and isa.widest == 4 else 1.0
        if lane and self.dtype is not DType.INT16 and not isa.has("dot4_u8s8"):
            broadcast = 3.0
        work = self.work(isa) * mr * nr + (broadcast - 1.0) * mr
        loads = nr + mr / 4 if lane else float(mr + nr)
        if self.order:  # each load by halves
            work, loads = work + loads, 2.0 * loads
        if self.way is not None and self.way.matrix:
            mr += mr % 2
            loads = float(2 * nr + mr)
        # Weights for a single row do not occupy a register for long.
        kept = (nr if mr > 1 else 1) + (mr - 1 if lane else 0)
        spills = max(mr * nr + kept + 1 - isa.registers, 0)
        core = isa.rates()
        update = max(
            work / (1.25 * core.arithmetic), (loads + 2 * spills) / core.loads,
            (work + loads) / isa.core.issue, 2.0,
        )  # fmt: skip
        # Where inputs are not loaded for each product, loads are what tiles differ in.
        update += BY_LOAD * loads if lane else 0.0
        return k / self.size * update + 4.0

    def _cycles_in_order(self, isa: Isa, mr: int, nr: int, k: float) -> float:
        """The same on processors in order, where products by lane do not wait for each other if
        they are in an order.
        """
        dots, ordered = isa.has("dot4_u8s8"), self.order in isa.core.loading
        way = isa.core.loading.get(self.order, load_way(isa))
        products = self.work(isa) * mr * nr * (1.0 if dots or ordered else WAITING)
        repeated = 0.0 if dots else REPEATED * mr
        loads = LOADED * (nr + mr / 4) * way.cycles
        needed = mr * nr + (1 if dots else 3) * mr + HELD
        spills = max(needed - isa.registers, 0) / 2 if ordered else 0.0
        begin = BEGIN * -(-k // (4 * self.size))
        return k / self.size * (products + repeated + loads + spills) + begin


def is_rolled(isa: Isa, k: int, columns: int) -> bool:
    """Whether the sums over k of a tile are scaled column by column, in a loop.

    With few registers a loop is not worth it: the anomaly detector would take 17% more instructions
    on a Cortex-M0+.
    """
    return isa.is_small and k >= ROLLED and (columns == 1 or isa.integer_registers > 8)


def is_single(isa: Isa) -> bool:
    """Whether numbers are multiplied one by one: small processors without the DSP extension."""
    return by_integers(isa) and not isa.has("dsp")


def tiles_for(isa: Isa, dtype: DType) -> tuple[tuple[int, int], ...]:
    """The tiles for inputs of a type that fit the registers."""
    if is_single(isa):
        return SINGLE_TILES[isa.integer_registers]
    if isa.has("lane_fma"):
        if isa.has("mmla") and dtype is not DType.INT16:
            return MATRIX_TILES
        return (PAIR_TILES if dtype is DType.INT16 else LANE_TILES)[isa.registers]
    return TILES.get(isa.registers, TILES[16])


def _single_cycles(isa: Isa, mr: int, nr: int) -> float:
    """Cycles of one number k of a tile that multiplies number by number; what is spilled are mostly
    addresses.
    """
    spills = max(mr * nr + nr + 4 - isa.integer_registers, 0)
    return mr + nr + 1.5 * mr * nr + 0.5 * spills


def unrolled(isa: Isa, *, runs: int = 1) -> tuple[int, ...]:
    """How many groups a pass of a loop may take, over each of so many runs of k.

    Small processors have small flash: one number of groups, as counted on layers.
    """
    if not is_single(isa):
        return (2, 4)
    if isa.integer_registers <= 8:
        return (1,) if runs > 1 else (4,)
    if runs > 1:
        return (4,) if isa.integer_registers <= 16 else (1,)
    return (2,)


def matrix_pays(k: int, runs: int, nr: int) -> bool:
    """Whether tiles of `nr` vectors over `runs` times k take clearly fewer instructions with two
    rows at once: half the products, but a shuffle for each load of a row and for each sum.
    """
    single = runs * (-(-k // 4) * nr + -(-k // 16))
    loads = 2.0 * (k // 16) + (0.0 if k % 16 == 0 else 1.5 if k % 16 <= 8 else 2.0)
    return runs * (-(-k // 8) * nr + loads) + nr < LEAST_GAIN * single


def in_groups(w: NDArray[Any], size: int = 0) -> NDArray[Any]:
    """w[..., K, N] padded with zeros, K in whole groups of `size` (0: those of its type), all
    leading axes taken together.
    """
    *_, k, n = w.shape
    size = size or Groups(DType(w.dtype.name)).size
    whole = -(-k // size) * size
    padded = np.zeros((w.size // (k * n), whole, n), w.dtype)
    padded[:, :k] = w.reshape(-1, k, n)
    return padded.reshape(-1, n)


def pack_groups(
    w: NDArray[Any],
    blocks: Sequence[VectorBlock],
    isa: Isa,
    columns: Sequence[int] | None = None,
    size: int = 0,
) -> NDArray[Any]:
    """w[K,N] in the order of the module docstring; `columns` permutes the columns first.

    `size`: of groups that are not those of the type.
    """
    ordered = w if columns is None else w[:, list(columns)]
    groups, n = Groups(DType(w.dtype.name)), w.shape[1]
    size = size or groups.size
    cut = in_groups(ordered, size).reshape(-1, size, n)
    together = groups.together(isa) if size == groups.size else size
    panels = []
    for block in blocks:
        for number in range(block.count):
            channel = block.channel + number * block.valid
            vectors = []
            for v in block.vecs:
                part = np.zeros((len(cut), size, v.lanes), w.dtype)
                first = channel + v.start
                part[:, :, : v.valid] = cut[:, :, first : first + v.valid]
                split = part.reshape(-1, size // together, together, v.lanes)
                vectors.append(split.transpose(0, 1, 3, 2))
            panels.append(np.concatenate([v.reshape(len(cut), -1) for v in vectors], axis=1))
    return np.concatenate([panel.ravel() for panel in panels])
