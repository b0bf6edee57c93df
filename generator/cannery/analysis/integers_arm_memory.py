"""Loads and stores of Arm's instructions: integer registers, and what becomes of addresses."""

from __future__ import annotations

import re

from cannery.analysis import arm
from cannery.analysis.integers import Action, Reader, State, combine, signed
from cannery.analysis.integers_arm_operands import (
    canonical,
    put,
    reader,
    shifted,
    width_of,
)


def access(name: str, operands: tuple[str, ...], bits: int) -> Action:
    """Loads and stores of integer registers, with changes of the address."""
    if name in ("push", "pop"):
        return _several(name == "pop", "sp!", operands[0], upwards=name == "pop")
    if "ldm" in name or "stm" in name:
        return _several("ld" in name, *operands, upwards="db" not in name)
    at = next((k for k, o in enumerate(operands) if o.startswith("[")), len(operands))
    names = operands[:at]
    address, update = _address(operands[at:], bits)
    width = width_of(names[0], bits) if names else bits
    loaded = 32 if name == "ldrsw" else width

    def act(state: State) -> None:
        place = address(state)
        for k, text in enumerate(names):
            here = combine("add", place, k * width // 8)
            if name.startswith("st"):
                state.store(here, reader(text, bits)(state))
            else:
                value = state.load(here, loaded)
                known = value is not None and name == "ldrsw"
                put(state, text, signed(value, 32) if known else value, bits)  # type: ignore[arg-type]
        update(state)

    return act


def _address(operands: tuple[str, ...], bits: int) -> tuple[Reader, Action]:
    """Where an access goes, and what becomes of the address register: `[x0, x1, lsl #2]`,
    `[x0, #16]!`, `[x0], #16`.
    """
    if not operands:
        return (lambda _: None), (lambda _: None)
    inside = [p.strip() for p in operands[0].strip("[]!").split(",")]
    name = canonical(re.split(r"[\s:]", inside[0])[0])
    base = reader(inside[0] if inside[0].startswith("#") else name, bits)
    more = shifted(tuple(inside[1:]), bits) if len(inside) > 1 else (lambda _: 0)
    place: Reader = lambda state: combine("add", base(state), more(state))  # noqa: E731
    if operands[0].endswith("!"):
        return place, lambda state: state.put(name, place(state))
    if len(operands) > 1:
        after = shifted(operands[1:], bits)
        return base, lambda state: state.put(name, combine("add", base(state), after(state)))
    return place, lambda _: None


def _several(loads: bool, base: str, listed: str, *, upwards: bool) -> Action:
    """Loads and stores of several core registers of A32 and T32, in rising order."""
    names = [canonical(name) for name in arm.listed_registers(listed)]
    register = canonical(base.rstrip("!"))
    size = 4 * len(names)

    def act(state: State) -> None:
        first = state.values.get(register)
        start = first if upwards else combine("sub", first, size)
        for k, each in enumerate(names):
            here = combine("add", start, 4 * k)
            if loads:
                state.put(each, state.load(here, 32))
            else:
                state.store(here, state.values.get(each))
        if base.endswith("!"):
            state.put(register, combine("add", start, size) if upwards else start)

    return act


def moving(name: str, operands: tuple[str, ...], bits: int) -> Action:
    """What `vld1.32 {d0-d3}, [r1]!`, `vldmia r1!, {d0}` and `ldr q0, [x1], #16` do to addresses."""
    if name in ("vpush", "vpop"):
        size = _list_bytes(operands[0]) * (-1 if name == "vpush" else 1)
        return lambda state: state.put("sp", combine("add", state.values.get("sp"), size))
    at = next((k for k, o in enumerate(operands) if o.startswith("[")), -1)
    if at < 0:
        base = canonical(operands[0].rstrip("!"))
        size = _list_bytes(operands[1]) * (-1 if "db" in name else 1)
        return lambda state: state.put(base, combine("add", state.values.get(base), size))
    if operands[at].endswith("]!") and operands[0].startswith("{"):
        base = canonical(re.split(r"[\s:\]]", operands[at].lstrip("["))[0])
        size = _list_bytes(operands[0], name)
        return lambda state: state.put(base, combine("add", state.values.get(base), size))
    return _address(operands[at:], bits)[1]


def _list_bytes(listed: str, name: str = "") -> int:
    """Bytes of `{d0-d3}`, `{s16-s31}`; of lanes as the name says: `vld1.32 {d0[0]}`."""
    count = len(arm.listed_registers(listed))
    if "[" in listed:
        found = re.search(r"\.(\d+)$", name)
        return count * (int(found[1]) // 8 if found else 4)
    return count * {"d": 8, "s": 4, "q": 16}.get(listed.strip("{} ")[:1], 8)
