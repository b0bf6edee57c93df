"""Reads the run functions of generated C, and runs them on labels: see `memory/interpreter.py`.

These functions are few kinds of lines: pointers, loops, memset, calls of kernels. They become
Python, in which a pointer is an address, memset clears labels, and a call runs its step with the
memory that it is given. So the text is judged, its offsets, strides and order, without a compiler.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from cannery.emit.source import Source, render_model
from cannery.ir.tensor import DType
from cannery.lowering.lifetimes import buffer_bytes
from lowering.interpreter import (
    GAP,
    GARBAGE,
    ZERO,
    FaultError,
    Machine,
    make_contents,
    place_ports,
)

_SIZES = {dtype.c_name: dtype.bytes for dtype in DType} | {"char": 1, "void": 1}
_TYPE = "|".join(sorted(map(re.escape, _SIZES), key=len, reverse=True))
_CAST = re.compile(rf"\((?:const )?({_TYPE}) \*(?:const \*)?\)")
_DECLARED = re.compile(rf"^(?:const )?({_TYPE}) \*const (\w+) = (.+);$")
_NUMBER = re.compile(r"^const (?:int|int32_t) (\w+) = (.+);$")
_LOOP = re.compile(r"^for \(int (\w+) = 0; (.*?)\1 < (\w+); \+\+\1\) \{$")
_CLEAR = re.compile(r"^memset\((.+), 0, (.+)\);$")
_STORED = re.compile(r"^(\w+)\[(.+)\] = 0;$")
_CALL = re.compile(r"^(\w+)\((.*)\);$")


@dataclass(frozen=True)
class Pointer:
    """An address, and the bytes of an element."""

    address: int
    size: int

    def __add__(self, count: int) -> Pointer:
        return Pointer(self.address + count * self.size, self.size)

    def cast(self, type_: str) -> Pointer:
        """The same address as a pointer to something else."""
        return Pointer(self.address, _SIZES[type_])


def body(text: str, head: str) -> list[str]:
    """The lines of a function, by a part of its first line; without comments."""
    lines = text.splitlines()
    start = next(k for k, line in enumerate(lines) if head in line and line.endswith(")"))
    end = next(k for k in range(start, len(lines)) if lines[k] == "}")
    stripped = (re.sub(r"/\*.*?\*/", "", line).strip() for line in lines[start + 2 : end])
    return [line for line in stripped if line]


def _expression(text: str) -> str:
    """A C expression of pointers and integers as Python."""
    text = text.replace("(size_t)", "").replace("->", "_")
    text = re.sub(r"\b(\d+)u\b", r"\1", text)
    text = re.sub(r"\((\w+)\[(\w+)\]\)|(\w+)\[(\w+)\]", r"item(\1\3, \2\4)", text)
    if "?" in text:
        test, rest = text.split(" ? ", 1)
        first, second = rest.split(" : ", 1)
        text = f"({first}) if ({test}) else ({second})"
    casts = _CAST.findall(text)
    plain = _CAST.sub("", text)
    return f"cast(({plain}), {casts[0]!r})" if casts else plain


def as_python(lines: Sequence[str]) -> str:
    """Lines of a run function as Python; raises FaultError for a kind of line that is not known."""
    found, depth = [], 0
    for line in lines:
        if line == "}":
            depth -= 1
            continue
        if line.startswith("(void)"):
            continue
        found.append("    " * depth + _statement(line))
        depth += line.endswith("{")
    return "\n".join(found)


def _statement(line: str) -> str:
    if match := _DECLARED.match(line):
        return f"{match[2]} = cast({_expression(match[3])}, {match[1]!r})"
    if match := _NUMBER.match(line):
        return f"{match[1]} = {_expression(match[2])}"
    if match := _LOOP.match(line):
        test = match[2].removesuffix(" && ")
        unless = f"if {test.replace('&&', 'and')}" if test else ""
        return f"for {match[1]} in [{match[1]} for {match[1]} in range({match[3]}) {unless}]:"
    if match := _CLEAR.match(line):
        return f"clear({_expression(match[1])}, {_expression(match[2])})"
    if match := _STORED.match(line):
        return f"store({match[1]}, {_expression(match[2])})"
    if match := _CALL.match(line):
        arguments = ", ".join(map(_expression, match[2].split(", ")))
        return f"call({match[1]!r}, [{arguments}])"
    raise FaultError(f"a line of another kind: {line}")


@dataclass
class Runner:
    """Runs functions of one network on labels; `samples` are those whose inputs lie side by side.

    `ports` are the addresses of the caller's tensors, by root.
    """

    source: Source
    machine: Machine
    samples: Sequence[int]
    ports: Mapping[str, int]
    names: dict[str, object] = field(default_factory=dict)
    images: dict[str, list[int]] = field(default_factory=dict)

    def run(self, lines: Sequence[str]) -> None:
        """One function, by the lines of its body."""
        self.names |= {
            "cast": lambda value, type_: value.cast(type_), "item": self._item,
            "clear": self._clear, "store": lambda p, k: self._clear(p + k, p.size),
            "call": self._call, "ws": Pointer(0, 1), "n": 0, "item_number": 0,
        }  # fmt: skip
        for root, tensor in self.source.ports.items():
            size = self.source.program.buffers[root].layout.dtype.bytes
            self.names[tensor.name] = Pointer(self.ports[root], size)
            self.names |= dict.fromkeys(tensor.strides, 0)
        exec(as_python([line for line in lines if "*const ws = " not in line]), self.names)
        if self.images:
            raise FaultError(f"not all images of a batch: {self.images}")

    def _item(self, pointer: Pointer, number: int) -> Pointer:
        """One of the pointers that `run_many` is given for a view."""
        root = next(r for r, at in self.ports.items() if at == pointer.address)
        return pointer + number * self.source.program.buffers[root].type.elements

    def _clear(self, pointer: Pointer, count: int) -> None:
        self.machine.cells[pointer.address : pointer.address + count] = ZERO

    def _call(self, symbol: str, arguments: Sequence[object]) -> None:
        """The step of a kernel, with the memory that it is given."""
        stacked = {step.symbol: step.index for step in self.source.many.steps}
        single = {call.symbol: k for k, call in enumerate(self.source.calls)}
        index = {**single, **stacked}[symbol]
        call, buffers = self.source.calls[index], self.source.program.buffers
        names = (*call.planned.reads, *call.planned.writes)
        pointers = [a.address for a in arguments if isinstance(a, Pointer)]
        begun = self.images.setdefault(symbol, [])
        begun.append(pointers[len(names) - 1])
        count = 1 if symbol in stacked else call.images
        if len(begun) < count:
            return
        size = buffers[names[-1]].layout.bytes
        if self.images.pop(symbol) != [begun[0] + k * size for k in range(count)]:
            raise FaultError(f"{symbol} computes images at {begun}")
        places = {
            buffers[name].root: at - (count - 1) * buffers[name].layout.bytes
            for name, at in zip(names, pointers, strict=False)
        }
        scratch = [(at, call.kernel.scratch_bytes) for at in pointers[len(names) :]]
        self.machine.scratch = {index: scratch[0]} if scratch else {}
        if symbol in stacked:
            runs = [(s, self._beside(places, k)) for k, s in enumerate(self.samples)]
        else:
            number = self.names["item_number"]
            assert isinstance(number, int)
            runs = [(self.samples[number], places)]
        self.machine.step(index, runs)

    def _beside(self, places: Mapping[str, int], number: int) -> dict[str, int]:
        """Where the values of one of several samples lie, which a stacked step computes at once."""
        program = self.source.program
        return {r: at + number * buffer_bytes(program, r) for r, at in places.items()}


def _machine(source: Source, samples: int) -> tuple[Machine, dict[str, int]]:
    """A machine with memory for `run_many`, and the tensors of this many samples side by side."""
    program, room = source.program, source.many_bytes
    ports = place_ports(program, room, samples)
    end = max(at + samples * buffer_bytes(program, r) for r, at in ports.items())
    cells = np.full(end + GAP, GARBAGE, np.int64)
    cells[: source.single_bytes] = ZERO
    machine = Machine(program, source.isa, ports, {}, cells, make_contents(program.graph))
    return machine, ports


def check_run_functions(source: Source) -> None:
    """Run `run_in`, then every chunk of `run_many`, then `run_in` in one workspace.

    A chunk's memory for every image, after the single network's, is garbage at the start. Raises
    FaultError for what is wrong.
    """
    text = render_model(source, "test")
    most = max(source.many.largest, 1)
    machine, ports = _machine(source, most)
    heads = [(1, f"{source.name}_run_in(")]
    heads += [(c.images, f"{source.name}_many{c.images}(") for c in source.many.chunks]
    for turn, (count, head) in enumerate((*heads, heads[0])):
        samples = range(turn * most, turn * most + count)
        places = [
            {r: at + k * buffer_bytes(source.program, r) for r, at in ports.items()}
            for k in range(count)
        ]
        for sample, place in zip(samples, places, strict=True):
            machine.places = place
            machine.inputs(sample)
        machine.cells[source.single_bytes : source.many_bytes] = GARBAGE
        Runner(source, machine, samples, ports).run(body(text, head))
        for sample, place in zip(samples, places, strict=True):
            machine.places = place
            machine.outputs(sample)
