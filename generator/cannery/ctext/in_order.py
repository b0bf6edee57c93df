"""Straight-line vector code in an order for processors that issue two instructions at once, in
order.

Where a Cortex-A53 would wait for the result of an instruction, another one goes first, within the
registers that there are. Vectors are loaded by halves: the first into the vector register, the
second into a general register, which takes no time beside arithmetic; an instruction that shares
its cycle with the first half of another vector joins them. `beside`: a Cortex-A55 does each of
this beside arithmetic. See `cannery.analysis.inorder` for what these processors do and for the
sources, `cannery.ops.shared.dual` for products whose order is made without such a search.

Compilers keep the order: each operation is a word of `runtime/include/cannery/vec_neon.h` that ends
in `_ordered`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import frexp

from cannery.ctext.byte_products import split_products
from cannery.ctext.statements import BYTES, FLOATS, LOAD, STORE, Operation, Run, split_runs

#: Numbers in the vectors.
LANES = 4

#: Numbers in half a vector that is loaded, and the C type of what pointers to them point to.
_LOADED = {FLOATS: (2, "const float *"), BYTES: (8, "const int8_t *")}

#: Runs of fewer operations stay as they are.
_LEAST = 12

#: Cycles until the result of arithmetic is there, and of a multiply-add where not all is done
#: `beside`; how much later such a multiply-add reads its sum, and adds; how much later stores read.
_ARITHMETIC, _PRODUCT, _SUM, _STORED = 4, 8, 4, 2
#: The same of integers `beside`: a product reads what it adds to so much later.
_INTEGER, _INTEGER_SUM = 2, 3
#: From the second half of a vector to its joining, and from there to its use.
_HALF, _JOINED = 1, 2

#: Registers that loads leave to arithmetic, how many halves may wait, and how many operations that
#: could begin are enough for the loads to wait.
_SPARE, _WAITING, _ENOUGH = 2, 3, 4

#: How far ahead operations are looked for, and after how many idle cycles registers are overdrawn.
_AHEAD, _PATIENCE = 80, 4

#: Halves of vectors that an instruction reaches from its base; distances are whole numbers of what
#: it moves.
_REACH = 4096
_POINTER = re.compile(r"\W*(\w+)")
_ADDRESS = re.compile(r"\(?(\w+)(?: \+ (\d+))?(?: \+ (\d+))?\)?")

#: How many runs are remembered: those of one tile recur for each candidate.
_REMEMBERED = 256


def in_order(code: str, registers: int, *, beside: bool, dots: bool = False) -> str:
    """The code of a kernel with its straight-line runs in order; all else stays as it is. `dots`:
    four bytes are multiplied and added at once (SDOT).
    """
    pieces = []
    for text, run in split_runs(code):
        words = [operation.word for operation in run.operations] if run else []
        if run is None or len(words) < _LEAST or LOAD not in words or _reads_back(run):
            pieces.append(text)
            continue
        pieces += [f"{line}\n" for line in ("{", *_lines(run, registers, beside, dots), "}")]
    return "".join(pieces)


def _reads_back(run: Run) -> bool:
    """Whether a run loads through a pointer through which it has stored: loads may go before
    stores.

    Memory of different pointers is different, or each element is stored after what is made of it.
    """
    stored: set[str] = set()
    for operation in run.operations:
        pointer = _POINTER.match(operation.address)
        if operation.word == STORE and pointer:
            stored.add(pointer[1])
        elif operation.word == LOAD and pointer and pointer[1] in stored:
            return True
    return False


@lru_cache(_REMEMBERED)
def _lines(run: Run, registers: int, beside: bool, dots: bool) -> tuple[str, ...]:
    """The statements of a run, in order."""
    if not dots:
        run = replace(run, operations=tuple(split_products(run.operations)))
    order = _Order(run, registers, beside)
    order.run()
    constants = [f"const f32x4 {name} = {text};" for text, name in run.constants]
    results = [f"{variable} = {value};" for variable, value in run.results]
    return (*constants, *order.bases.lines, *order.lines, *results)


@dataclass
class _Bases:
    """Pointers beside those of the code, so that instructions reach all addresses."""

    lines: list[str] = field(default_factory=list)
    known: set[str] = field(default_factory=set)

    def address(self, text: str, half: int, kind: str, *, whole: bool = False) -> str:
        """The same address from a pointer of `kind` to numbers of which `half` are half a vector:
        a multiple of that from it, or of `whole` vectors.
        """
        found = _ADDRESS.fullmatch(text)
        if not found:
            return text
        pointer, distance = found[1], int(found[2] or 0) + int(found[3] or 0)
        reach = _REACH * half
        base = distance % (half * (1 + whole)) + distance // reach * reach
        if base:
            name = f"{pointer}_{'to' if whole else 'at'}{base}"
            if name not in self.known:
                self.known.add(name)
                self.lines += [
                    f"{kind}{name} = {pointer} + {base};",
                    f"CANNERY_OPAQUE_PTR({name});",
                ]
            pointer = name
        return f"{pointer} + {distance - base}" if distance > base else pointer


@dataclass
class _Order:
    """The state while the order of a run is made, cycle by cycle."""

    of: Run
    registers: int
    beside: bool
    cycle: int = 0
    lines: list[str] = field(default_factory=list)
    bases: _Bases = field(default_factory=_Bases)
    ready: dict[str, int] = field(default_factory=dict)
    left: Counter[str] = field(default_factory=Counter)
    adds: set[int] = field(default_factory=set)
    awaits: dict[str, str] = field(default_factory=dict)
    lows: list[Operation] = field(default_factory=list)
    halves: list[tuple[Operation, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        operations = _shared_products(self.of)
        self.left.update(use for operation in operations for use in operation.uses)
        self.left.update(value for _, value in self.of.results)
        first = {use: n for n, o in reversed([*enumerate(operations)]) for use in o.uses}
        loads = [operation for operation in operations if operation.word == LOAD]
        self.loads = sorted(loads, key=lambda o: first.get(o.name, len(operations)))
        self.todo = [operation for operation in operations if operation.word != LOAD]
        self.awaits.update(_awaited(self.todo, {load.name for load in loads}))
        made = {operation.name for operation in operations}
        given = self.left.keys() - made
        self.ready.update(dict.fromkeys(given, 0))
        changed = {variable for variable, _ in self.of.results}
        self.left.update(given - changed)  # these stay until the end
        self.live = len(given)

    def run(self) -> None:
        """Fill one cycle after the other."""
        idle = 0
        while self.todo or self.lows or self.halves:
            done = self._pair() if self.beside else self._alternate()
            idle = 0 if done else idle + 1
            if idle > _PATIENCE:
                self._overdraw()
            self.cycle += 1

    def _alternate(self) -> bool:
        """A cycle for loads or for arithmetic; whether anything was done."""
        arithmetic, stores = self._able()
        waiting = bool(self.halves) and self.halves[0][1] <= self.cycle
        together = waiting and self._loadable() and len(arithmetic) < 2 * _ENOUGH
        if together or (not arithmetic and (self._loadable() or (waiting and not stores))):
            low, joined = self._low(), self._join()
            return low or joined
        if arithmetic and not (stores and self.live > self.registers - _SPARE):
            self._do(arithmetic[0])
            self._high()
            return True
        if stores:
            self._do(stores[0])
            return True
        return self._high() or self._join()

    def _pair(self) -> bool:
        """Arithmetic and anything beside it, or two parts of loads; whether anything was done."""
        arithmetic, stores = self._able()
        if stores and (not arithmetic or self.live > self.registers - _SPARE):
            self._do(stores[0])
            return True
        if arithmetic:
            self._do(arithmetic[0])
            return self._join() or self._high() or self._low() or True
        joined = self._join()
        return self._high() or self._low() or joined

    def _able(self) -> tuple[list[Operation], list[Operation]]:
        """Arithmetic and stores that can begin, the best first."""
        able = [operation for operation in self.todo[:_AHEAD] if self._can_begin(operation)]
        stores = [operation for operation in able if operation.word == STORE]
        arithmetic = [operation for operation in able if operation.word != STORE]
        return sorted(arithmetic, key=self._copies), stores

    def _can_begin(self, operation: Operation, *, overdraw: bool = False) -> bool:
        if self.cycle in self.adds and operation.word in ("add", "sub"):
            return False
        if not overdraw and self.awaits.get(operation.name, "") not in ("", *self.ready):
            return False
        for use in operation.uses:
            late = _STORED if operation.word == STORE else 0
            if use == operation.adds_to and not self._copies(operation):
                late = self._sum(operation)
            if self.ready.get(use, self.cycle + late + 1) > self.cycle + late:
                return False
        return overdraw or self.live + self._change(operation) <= self.registers

    def _copies(self, operation: Operation) -> bool:
        """Whether a sum has to be copied, because it is read again."""
        return self.left[operation.adds_to] > 1 if operation.adds_to else False

    def _sum(self, operation: Operation) -> int:
        """How much later than at its issue a multiply-add reads its sum."""
        if operation.type == FLOATS:
            return 0 if self.beside else _SUM
        return _INTEGER_SUM if self.beside else 0

    def _latency(self, operation: Operation) -> int:
        """Cycles until the result of arithmetic is there."""
        if operation.type == FLOATS:
            return _PRODUCT if operation.adds_to and not self.beside else _ARITHMETIC
        simple = self.beside and operation.type == BYTES
        return _INTEGER if simple else _ARITHMETIC

    def _change(self, operation: Operation) -> int:
        """Registers that an operation takes, less those that it leaves."""
        uses = Counter(operation.uses)
        return bool(operation.name) - sum(self.left[use] == uses[use] for use in uses)

    def _do(self, operation: Operation) -> None:
        self.todo.remove(operation)
        self.cycle += self._copies(operation)
        self.live += self._change(operation)
        self.left.subtract(operation.uses)
        if operation.word == STORE:
            at = self.bases.address(operation.address, LANES // 2, "float *", whole=True)
            self.lines.append(f"f32x4_store_ordered({at}, {operation.uses[0]});")
            return
        given, t = ", ".join(operation.uses), operation.type
        self.lines.append(f"const {t} {operation.name} = {t}_{operation.word}_ordered({given});")
        if operation.adds_to and t == FLOATS and not self.beside:
            self.adds.add(self.cycle + _SUM)
        self.ready[operation.name] = self.cycle + self._latency(operation)

    def _loadable(self) -> bool:
        """Whether the first half of another vector can be loaded."""
        room = self.live < self.registers - _SPARE and len(self.lows) < _WAITING
        return bool(self.loads) and room and self.cycle not in self.adds

    def _low(self, *, overdraw: bool = False) -> bool:
        """Load the first half of the next vector."""
        if not (overdraw or self._loadable()):
            return False
        load = self.loads.pop(0)
        self.live += 1
        at, t = self.bases.address(load.address, *_LOADED[load.type]), load.type
        self.lines.append(f"{t} {load.name} = {t}_load_low_ordered({at});")
        self.lows.append(load)
        return True

    def _high(self) -> bool:
        """Load the second half of a vector."""
        if not self.lows:
            return False
        load = self.lows.pop(0)
        at, t = self.bases.address(load.address, *_LOADED[load.type]), load.type
        self.lines.append(f"const uint64_t {load.name}_high = {t}_load_high_ordered({at});")
        self.halves.append((load, self.cycle + _HALF))
        return True

    def _join(self) -> bool:
        """Join the halves of the next vector of which both are there."""
        if not self.halves or self.halves[0][1] > self.cycle:
            return False
        load, _ = self.halves.pop(0)
        joined = f"{load.type}_join_ordered({load.name}, {load.name}_high)"
        self.lines.append(f"{load.name} = {joined};")
        self.ready[load.name] = self.cycle + _JOINED
        return True

    def _overdraw(self) -> None:
        """Go on with what comes next, though there is no register for it."""
        able = (o for o in self.todo[:_AHEAD] if self._can_begin(o, overdraw=True))
        if operation := next(able, None):
            self._do(operation)
        elif self.loads and not (self.lows or self.halves):
            missing = (use for o in self.todo for use in o.uses if use not in self.ready)
            wanted = next(missing, "")
            self.loads.sort(key=lambda load: load.name != wanted)
            self._low(overdraw=True)


def _awaited(operations: Sequence[Operation], loaded: set[str]) -> Iterator[tuple[str, str]]:
    """The vectors of repeated bytes, each with the weights that it meets first: before these are
    there, it would only take a register.
    """
    repeated = {operation.name for operation in operations if operation.type == BYTES}
    for operation in operations:
        if operation.uses and operation.uses[0] in repeated and operation.uses[1] in loaded:
            repeated.remove(operation.uses[0])
            yield operation.uses[0], operation.uses[1]


def _shared_products(run: Run) -> list[Operation]:
    """The operations, where c + 2e and c - 2e share 2e: the sum c needs no copy, nor the bits other
    rounding, for a power of two.
    """
    exact = {name for text, name in run.constants if _is_power_of_two(text)}
    pairs = Counter(o.uses for o in run.operations if o.word in ("fma", "fnma"))
    shared: dict[tuple[str, ...], str] = {}
    found = []
    for operation in run.operations:
        uses = operation.uses
        if operation.word not in ("fma", "fnma") or pairs[uses] < 2 or uses[1] not in exact:
            found.append(operation)
            continue
        if uses not in shared:
            shared[uses] = f"{operation.name}_product"
            found.append(Operation("mul", uses[:2], shared[uses]))
        word = "add" if operation.word == "fma" else "sub"
        found.append(replace(operation, word=word, uses=(uses[2], shared[uses])))
    return found


def _is_power_of_two(text: str) -> bool:
    """Whether an expression such as `f32x4_set1(4.0f)` is one."""
    number = re.search(r"set1\((.*)f\)", text)
    return number is not None and abs(frexp(float(number[1]))[0]) == 0.5
