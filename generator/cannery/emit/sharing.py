"""Functions that steps have in common: kernels that differ only in constants, once in flash.

Arrays of weights and numbers in the code that differ become parameters of the common function.
Each step keeps a function under its own name, which calls the common one with its own constants, so
that nothing else needs to know.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from cannery.ctext.arrays import WeightBlob, array_type
from cannery.emit.steps import Call
from cannery.target.isa import Isa

_COMMENT = re.compile(r"/\*.*?\*/\s*", re.DOTALL)
_HEAD = re.compile(r"^(static void|CANNERY_APART [\w ]+?) (\w+)\(([^;{}]*)\)$", re.MULTILINE)
_LAST_WORD = re.compile(r"(\w+)$")

#: What begins the names of the parameters.
_PREFIX = "own_"

#: What may not stand in code that is shared: it would mean something else there.
_UNFIT = re.compile(rf"^#|\bsizeof\b|\b{_PREFIX}|\bstatic const\b", re.MULTILINE)

#: Numbers that may become parameters, after what holds none: comments, words, sizes of arrays and
#: of memory, divisors (not every core divides), what is stored, numbers of other types.
_NUMBERS = re.compile(
    r"""/\*.*?\*/|^\ *(?:const\ )?\w+\ \w+\[\d+\]|mem(?:cpy|set)\([^;]*;|[A-Za-z_]\w*
    |[/%]\ *\d+|\ =\ -?\d+;|(?P<float>\d+\.\d+(?:e-?\d+)?f)|\d+\.\d*|\d{10,}|(?P<int>\d+)(?!\w)""",
    re.DOTALL | re.MULTILINE | re.VERBOSE,
)

#: Where rows begin, if nothing is added: elsewhere something is.
_NO_OFFSET = re.compile(r"(?<=\(oh \* )(\d+)(?=\))")

#: The most numbers that become parameters of a function, by the number of integer registers. With
#: 12, a Cortex-M4 would take 4% more instructions for visual wake words. RISC-V has registers for
#: them: the image classifier takes 14% less flash, and no more instructions, than with 4.
_MOST_NUMBERS = {8: 12, 13: 4, 28: 24}

#: With fewer integer registers, pointers to constants leave too few for the sums of dense layers:
#: a Cortex-M0+ would take 8% more instructions for an autoencoder. Convolutions lose nothing.
_REGISTERS_FOR_DENSE = 9

#: With fewer, two numbers as parameters slow a convolution down: its layers of 1x1 would take 12%
#: more instructions on a Cortex-M0+.
_REGISTERS_FOR_OFFSETS = 9


def shared_kernels(
    calls: Sequence[Call], blob: WeightBlob, isa: Isa, most: int | None = None
) -> tuple[Call, ...]:
    """The same steps, of which those with similar code call one function.

    It has at most `most` numbers as parameters (None: as many as are worth it).
    """
    if most is None:
        most = _MOST_NUMBERS.get(isa.integer_registers, _MOST_NUMBERS[13])
    dense = isa.integer_registers >= _REGISTERS_FOR_DENSE
    moved = {name: type_ for name, type_, _ in blob.offsets}
    kernels = [_Code.of(call, moved, isa) for call in calls if call.kernel.band or dense]
    groups: dict[str, list[_Group]] = {}
    for code in kernels:
        if code is not None:
            alike = groups.setdefault(code.key, [])
            for k, group in enumerate(alike):
                larger = _Group((*group.codes, code))
                if len(larger.numbers) <= most:
                    alike[k] = larger
                    break
            else:
                alike.append(_Group((code,)))
    found = {}
    for group in (group for alike in groups.values() for group in alike):
        found.update(group.texts() if len(group.codes) > 1 else {})
    return tuple(
        replace(call, kernel=replace(call.kernel, code=found.get(call.symbol, call.kernel.code)))
        for call in calls
    )


def shared_name(symbol: str) -> str:
    """The function that several steps call, which the code of one defines: that of `symbol`."""
    return f"{symbol}_shared"


def step_with_code(calls: Sequence[Call], k: int) -> int:
    """The step that defines the function which step `k` calls: another one if they share it."""
    code = calls[k].kernel.code
    return next((i for i, c in enumerate(calls) if f"{shared_name(c.symbol)}(" in code), k)


@dataclass(frozen=True)
class _Code:
    """The functions of a step's kernel, and the types of the arrays that they read, by name."""

    call: Call
    text: str
    types: Mapping[str, str]

    @classmethod
    def of(cls, call: Call, moved: Mapping[str, str], isa: Isa) -> _Code | None:
        """That of a step; None if it cannot be shared."""
        text, symbol = call.kernel.code, call.symbol
        if isa.integer_registers >= _REGISTERS_FOR_OFFSETS:
            text = _NO_OFFSET.sub(r"\1 + 0", text)
        types = {**moved, **{c.name: array_type(c.values) for c in call.kernel.constants}}
        functions = {name for _, name, _ in _HEAD.findall(text)}
        own = set(re.findall(rf"\b{re.escape(symbol)}\w*", text))
        if symbol not in functions or call.aliases or call.kernel.turns or _UNFIT.search(text):
            return None
        if not own <= functions | set(types) or any(
            re.search(rf"\b{name}\b(?!\()", text) for name in functions
        ):
            return None
        return cls(call, text, {name: types[name] for name in sorted(own - functions)})

    @cached_property
    def numbers(self) -> tuple[str, ...]:
        """The numbers in the code that may be others."""
        found = _NUMBERS.finditer(self.text)
        return tuple(each[0] for each in found if each.lastgroup)

    @cached_property
    def key(self) -> str:
        """What is the same for all kernels that may share their code."""
        text = self.with_numbers(["1.0f" if "." in number else "1" for number in self.numbers])
        text = _COMMENT.sub("", text) + " ".join(f"{t} {name}" for name, t in self.types.items())
        return re.sub(rf"\b{re.escape(self.call.symbol)}(?!\d)", "step", text)

    def with_numbers(self, numbers: Sequence[str]) -> str:
        """The code with these words in place of its numbers."""
        left = iter(numbers)
        return _NUMBERS.sub(lambda each: next(left) if each.lastgroup else each[0], self.text)


@dataclass(frozen=True)
class _Group:
    """Kernels that share a function, which is made of the first one's code."""

    codes: tuple[_Code, ...]

    @cached_property
    def numbers(self) -> dict[tuple[str, ...], str]:
        """The parameters that are numbers: by the number in each kernel, the name."""
        columns = dict.fromkeys(zip(*(code.numbers for code in self.codes), strict=True))
        differing = (column for column in columns if len(set(column)) > 1)
        return {column: f"{_PREFIX}n{k}" for k, column in enumerate(differing)}

    def texts(self) -> dict[str, str]:
        """The code of each step by its symbol; the first one's has the common function."""
        symbol = self.codes[0].call.symbol
        common = shared_name(symbol)
        found = {}
        for k, code in enumerate(self.codes):
            own = {name: column[k] for column, name in self.numbers.items()}
            found[code.call.symbol] = self._caller(code, common, own)
        found[symbol] = f"{self._common(common)}\n{found[symbol]}"
        return found

    @cached_property
    def _text(self) -> str:
        """The first kernel's code with names in place of numbers that differ."""
        columns = zip(*(code.numbers for code in self.codes), strict=True)
        return self.codes[0].with_numbers([self.numbers.get(c, c[0]) for c in columns])

    @cached_property
    def _types(self) -> dict[str, str]:
        """The C types of what becomes a parameter."""
        types = {
            name: "const float " if "." in column[0] else "const int "
            for column, name in self.numbers.items()
        }
        for name, type_ in self.codes[0].types.items():
            types[name] = f"const {type_} *CANNERY_RESTRICT "
        return types

    @cached_property
    def _reads(self) -> dict[str, list[str]]:
        """What each function reads of that, also by the functions that it calls."""
        heads = list(_HEAD.finditer(self._text))
        ends = [*(head.start() for head in heads[1:]), len(self._text)]
        found: dict[str, list[str]] = {}
        for head, end in zip(heads, ends, strict=True):  # helpers come first
            words = set(re.findall(r"\w+", _COMMENT.sub("", self._text[head.end() : end])))
            called = {name for other in words & set(found) for name in found[other]}
            found[head[2]] = [name for name in self._types if name in words | called]
        return found

    def _parameter(self, name: str) -> str:
        symbol = self.codes[0].call.symbol
        return _PREFIX + name.removeprefix(symbol).removeprefix(_PREFIX).lstrip("_")

    def _common(self, name: str) -> str:
        """The functions with more parameters; that of the step is called `name`."""
        text = self._text
        for function, read in self._reads.items():
            text = _with_arguments(text, function, "".join(f", {each}" for each in read))
        for function, read in self._reads.items():
            more = "".join(f", {self._types[each]}{each}" for each in read)
            head = re.compile(rf"^((?:static|CANNERY_APART) .*\b{function}\([^;{{}}]*)\)$", re.M)
            text = head.sub(lambda found, more=more: f"{found[1]}{more})", text, count=1)  # type: ignore[misc]
        for each in self._types:
            text = re.sub(rf"\b{each}\b", self._parameter(each), text)
        return re.sub(rf"\b{self.codes[0].call.symbol}\(", f"{name}(", text)

    def _caller(self, code: _Code, name: str, numbers: Mapping[str, str]) -> str:
        """The function of a step: it calls the common one with the step's constants."""
        symbol, first = code.call.symbol, self.codes[0].call.symbol
        parameters = next(p for _, f, p in _HEAD.findall(code.text) if f == symbol)
        words = [_LAST_WORD.findall(each.strip())[0] for each in parameters.split(",")]
        for read in self._reads[first]:
            words.append(numbers.get(read) or symbol + read.removeprefix(first))
        comment = f'/* "{code.call.planned.step.name}", whose code others share. */'
        head = f"{comment}\nstatic void {symbol}({parameters})"
        return f"{head}\n{{\n    {name}({', '.join(words)});\n}}\n"


def _with_arguments(text: str, function: str, more: str) -> str:
    """The text whose calls of a function, but not its definition, have more arguments."""
    found, at = [], 0
    for call in re.finditer(rf"\b{function}\(", text):
        if text[text.rfind("\n", 0, call.start()) + 1 :].startswith(" "):
            end = _closing(text, call.end())
            found += [text[at:end], more]
            at = end
    return "".join([*found, text[at:]])


def _closing(text: str, at: int) -> int:
    """The place of the parenthesis that closes the one before `at`."""
    depth = 1
    while depth:
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        at += 1
    return at - 1
