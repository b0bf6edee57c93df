"""Products by lane in orders for processors that issue up to two instructions at once, in order.

`dual`: a Cortex-A53 takes two cycles to load a vector of 16 bytes, beside which nothing issues, and
loads none while a multiply-add adds, in the fifth cycle after its issue. So a vector is loaded by
halves, as XNNPACK's loops for this processor do: the first half into the vector register; the
second one into a general register, which takes no time beside a multiply-add; an instruction that
shares its cycle with the first half of the next vector joins them. After three multiply-adds, one
cycle in four is free for such a pair. See `cannery.analysis.inorder` for sources.

`beside`: a Cortex-A55 does each of this beside a multiply-add, and loads a whole vector in two
cycles as well.

`order` makes the order cycle by cycle, and compilers keep it (`f32x4_load_ordered` and the others).
It is for four inputs of each row, or several times four: what comes first waits for its loads, so
the more the better. `in<row>` has the first four, `in<row>_<n>` the n-th after them,
`w<k>_<vector>` the weights of input k.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cache
from itertools import chain

from cannery.target.isa import Isa

#: How broadcasts are called that use these orders.
DUAL, BESIDE = "dual", "beside"
ORDERS = (DUAL, BESIDE)

#: Inputs of a row in a vector, and the most such vectors of a row in one order: after four, another
#: one would save less than one cycle in fifty.
LANES, MOST = 4, 4

#: After how many cycles a multiply-add adds, half a vector or all of it is loaded, or is joined.
_ADDS, _HALF, _WHOLE, _JOINED = 4, 3, 4, 2

#: Of that many cycles, one is for loads; the next, too, while fewer products than `_FEW` can begin.
_TURN, _FEW = 4, 8


def input_name(row: int, four: int) -> str:
    """The vector of the inputs of a row from 4 * `four` on."""
    return f"in{row}_{four}" if four else f"in{row}"


class Kind(Enum):
    """What an instruction does."""

    WHOLE = "load"
    LOW = "load_low"
    HIGH = "load_high"
    JOIN = "join"
    PRODUCT = "fma_lane"


@dataclass(frozen=True)
class Product:
    """Input `k` of a row times a vector of its weights."""

    k: int
    row: int
    vector: int

    @property
    def input(self) -> str:
        """The vector of inputs."""
        return input_name(self.row, self.k // LANES)

    @property
    def lane(self) -> int:
        """Where the input is in its vector."""
        return self.k % LANES

    @property
    def weights(self) -> str:
        """The vector of weights."""
        return f"w{self.k}_{self.vector}"


@dataclass(frozen=True)
class Action:
    """One instruction, on the vector `name`, or a product."""

    kind: Kind
    name: str = ""
    product: Product = Product(0, 0, 0)


@dataclass
class _Order:
    """The state while the order is made. `room` registers are left for inputs and weights."""

    products: list[Product]
    loads: list[str]
    room: int
    beside: bool
    cycle: int = 0
    uses: Counter[str] = field(default_factory=Counter)
    ready: dict[str, int] = field(default_factory=dict)
    lows: list[str] = field(default_factory=list)
    halves: list[tuple[str, int]] = field(default_factory=list)
    adds: set[int] = field(default_factory=set)
    actions: list[Action] = field(default_factory=list)

    def run(self) -> bool:
        """Fill one cycle after the other; False if the registers do not suffice."""
        while self.products:
            product = next(filter(self._can_begin, self.products), None)
            go_on = self._pair(product) if self.beside else self._alternate(product)
            if not go_on and self.cycle > self._latest():
                return False
            self.cycle += 1
        return True

    def _alternate(self, product: Product | None) -> bool:
        """A cycle for loads or for a product; whether anything was done."""
        if self._loads_now(product):
            return self._load(whole=product is None)
        if product:
            self._multiply(product)
            self._high()
        return product is not None or self._join() or self._high()

    def _pair(self, product: Product | None) -> bool:
        """A product with anything beside it, or a load with a join; whether anything was done."""
        if product:
            self._multiply(product)
            return self._join() or self._high() or self._low() or True
        if not self.lows and not self.halves and self._room():
            return self._whole()
        loaded = self._high() or self._low()
        return self._join() or loaded

    def _latest(self) -> int:
        """The last cycle in which anything arrives."""
        return max([*self.ready.values(), *(when for _, when in self.halves), *self.adds])

    def _can_begin(self, product: Product) -> bool:
        operands = (product.input, product.weights)
        return all(self.ready.get(name, self.cycle + 1) <= self.cycle for name in operands)

    def _live(self) -> int:
        held = sum(self.uses[name] > 0 for name in self.ready)
        return held + len(self.lows) + len(self.halves)

    def _room(self) -> bool:
        """Whether another vector can be loaded."""
        return bool(self.loads) and self._live() < self.room

    def _loads_now(self, product: Product | None) -> bool:
        """Whether this cycle is for loads."""
        waiting = self.halves and self.halves[0][1] <= self.cycle
        if self.cycle in self.adds or not (waiting or self._room()):
            return False
        if product is None or self.cycle % _TURN == 0:
            return True
        few = sum(map(self._can_begin, self.products)) < _FEW
        return few and self.cycle % _TURN == 1

    def _load(self, *, whole: bool) -> bool:
        """The first half of a vector beside the join of another; all of one, if `whole`, where
        there is nothing to join.
        """
        if whole and self._room() and not self.halves and self.cycle + 1 not in self.adds:
            return self._whole()
        loaded = self._low()
        return self._join() or loaded or self._high()

    def _whole(self) -> bool:
        name = self.loads.pop(0)
        self.actions.append(Action(Kind.WHOLE, name))
        self.ready[name] = self.cycle + _WHOLE
        self.cycle += 1
        return True

    def _low(self) -> bool:
        """Load the first half of the next vector, if there is room."""
        if not self._room():
            return False
        self.lows.append(self.loads.pop(0))
        self.actions.append(Action(Kind.LOW, self.lows[-1]))
        return True

    def _high(self) -> bool:
        """Load the second half of a vector."""
        if not self.lows:
            return False
        name = self.lows.pop(0)
        self.actions.append(Action(Kind.HIGH, name))
        # Inserting takes its operand two cycles after it issued.
        self.halves.append((name, self.cycle + _HALF - _JOINED))
        return True

    def _join(self) -> bool:
        """Join the halves of the next vector of which both are there."""
        if not self.halves or self.halves[0][1] > self.cycle:
            return False
        name, _ = self.halves.pop(0)
        self.actions.append(Action(Kind.JOIN, name))
        self.ready[name] = self.cycle + _JOINED
        return True

    def _multiply(self, product: Product) -> None:
        self.products.remove(product)
        self.actions.append(Action(Kind.PRODUCT, product=product))
        self.adds.add(self.cycle + _ADDS)
        for name in (product.input, product.weights):
            self.uses[name] -= 1


@cache
def order(
    rows: int, vectors: int, registers: int, way: str = DUAL, fours: int = 1
) -> tuple[Action, ...]:
    """The instructions of a tile of `rows` x `vectors` sums for `fours` times four inputs; none if
    they do not fit so many registers.
    """
    steps = range(LANES * fours)
    products = [Product(k, m, n) for k in steps for m in range(rows) for n in range(vectors)]
    loads = list(chain(*(_loads(rows, vectors, four) for four in range(fours))))
    state = _Order(products, loads, registers - rows * vectors, way == BESIDE)
    state.uses.update(name for p in products for name in (p.input, p.weights))
    return tuple(state.actions) if state.run() else ()


def _loads(rows: int, vectors: int, four: int) -> list[str]:
    """The vectors of four inputs, those that are needed first before the others."""
    first, *others = (
        [f"w{k}_{n}" for n in range(vectors)] for k in range(LANES * four, LANES * (four + 1))
    )
    one, *inputs = (input_name(m, four) for m in range(rows))
    return [one, *first, *inputs, *chain(*others)]


def ways(isa: Isa, tile: tuple[int, int] | None) -> list[str]:
    """The orders in which a tile (rows, vectors) can be computed; None: in none."""
    if tile is None or not isa.has("ordered"):
        return []
    return [way for way in ORDERS if order(*tile, isa.registers, way)]


def fours_at_once(way: str, rows: int, vectors: int, registers: int, left: int) -> int:
    """How many of `left` times four inputs the next order takes; 1 if `way` is no order."""
    fits = way in ORDERS and order(rows, vectors, registers, way, MOST)
    return min(MOST if fits else 1, left)


def statements(
    way: str, rows: int, vectors: int, registers: int, at: Callable[[str], str],
    sums: Callable[[Product], str], fours: int = 1,
) -> list[str]:  # fmt: skip
    """An order as C; empty if it does not fit, or `way` is no order. `at` gives the address of a
    vector, `sums` what a product is added to; for `fours` see `fours_at_once`.
    """
    lines = []
    for action in order(rows, vectors, registers, way, fours) if way in ORDERS else ():
        name, product = action.name, action.product
        word = f"f32x4_{action.kind.value}"
        match action.kind:
            case Kind.WHOLE:
                lines.append(f"const f32x4 {name} = {word}_ordered({at(name)});")
            case Kind.LOW:
                lines.append(f"f32x4 {name} = {word}_ordered({at(name)});")
            case Kind.HIGH:
                lines.append(f"const uint64_t {name}_high = {word}_ordered({at(name)});")
            case Kind.JOIN:
                lines.append(f"{name} = {word}_ordered({name}, {name}_high);")
            case Kind.PRODUCT:
                factors, acc = f"{product.weights}, {product.input}", sums(product)
                lines.append(f"{acc} = {word}{product.lane}_ordered({factors}, {acc});")
    return lines


def addresses(
    inputs: Sequence[Sequence[str]], weights: Sequence[Sequence[str]]
) -> Callable[[str], str]:
    """What `statements` asks for: those of inputs by row and four, and of weights by input and
    vector.
    """
    by_name = {
        input_name(m, four): at for m, row in enumerate(inputs) for four, at in enumerate(row)
    }
    by_name |= {f"w{k}_{n}": at for k, row in enumerate(weights) for n, at in enumerate(row)}
    return by_name.__getitem__
