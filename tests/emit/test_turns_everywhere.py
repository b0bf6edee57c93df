"""Random recurrent networks whose weights are read to and fro, in libraries of every form."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from emit.recurrent_libraries import (
    F32,
    FEATURES,
    FORMS,
    Library,
    State,
    expected,
    make_library,
)
from needs import need_toolchain

#: Sums of up to 93 terms, layer after layer, in another order.
TOLERANCE = 1e-5

#: Steps of a sequence; slow tests draw this many networks of each form.
STEPS, MANY = 67, 12

#: One for each form: where they do not share weights among sequences, these have an order.
SEEDS = (100, 101, 102, 103, 104, 105, 107, 108, 109, 110, 111, 112, 113, 114)


def cuts(library: Library, random: Random) -> list[int]:
    """Sizes of calls that make up the sequence, in any order."""
    sizes = [b.graph.steps_of_call for b in (library.source, *library.source.blocks)]
    found: list[int] = []
    while left := STEPS - sum(found):
        found.append(random.choice([size for size in sizes if size <= left]))
    return found


def check_steps(library: Library, x: F32, y: F32, folder: Path, random: Random) -> list[State]:
    """Calls give `y`, and from a copy or a saved state the same bits again; returns some states."""
    state, at, saved, found = library.new_state(), 0, {}, []
    for number, size in enumerate(cuts(library, random)):
        if random.random() < 0.2:
            (folder / f"state{number}").write_bytes(state.tobytes())
            saved[number] = at
        copy = state.copy()
        part = x[:, at : at + size]
        here, there = library.step(state, part), library.step(copy, part)
        assert np.array_equal(here, there) and np.array_equal(state, copy)
        assert np.abs(here - y[:, at : at + size]).max() <= TOLERANCE
        found.append((number, size, here))
        at += size
    states = []
    for number, begin in saved.items():
        other = np.frombuffer((folder / f"state{number}").read_bytes(), np.uint8).copy()
        states.append(other.copy())
        at = begin
        for _, size, wanted in found[number:]:
            assert np.array_equal(library.step(other, x[:, at : at + size]), wanted)
            at += size
        assert np.array_equal(other, state)
    return states


def check_any_number(library: Library, x: F32, y: F32, random: Random) -> None:
    """`net_steps` with numbers of steps that no call has."""
    state, at = library.new_state(), 0
    while at < STEPS:
        size = random.randint(1, STEPS - at)
        found = library.steps(state, np.ascontiguousarray(x[:, at : at + size]))
        assert np.abs(found - y[:, at : at + size]).max() <= TOLERANCE
        at += size


def check_many(library: Library, states: list[State], x: F32) -> None:
    """States as tensors, several at once: a step of each, in whichever order it reads weights."""
    before = [state.copy() for state in states]
    for parallel in {False, bool(library.source.parallel)}:
        found = library.run_many(states, x, parallel=parallel)
        assert all(map(np.array_equal, states, before))
        for k, state in enumerate(states):
            here = library.step(state.copy(), x[k : k + 1])
            assert np.abs(found[k : k + 1] - here).max() <= TOLERANCE


def check(folder: Path, seed: int, form: Mapping[str, Any]) -> Library:
    """All of this for one network in one form."""
    need_toolchain("avx2")
    random, rng = Random(seed), np.random.default_rng(seed)
    isa = random.choice(["sse2", "avx2"])
    library = make_library(folder, seed, {"isa": isa, **form})
    shape = (library.batch, STEPS, FEATURES)
    x = rng.standard_normal(shape).astype(np.float32)
    y = expected(folder, seed, x)
    states = check_steps(library, x, y, folder, random)
    if library.source.advances:
        check_any_number(library, x, y, random)
    if "many" in form or library.source.parallel:
        states = states or [library.new_state()]
        check_many(library, states, rng.standard_normal((len(states), 1, FEATURES), np.float32))
    return library


@pytest.mark.parametrize("number", range(len(FORMS)), ids=lambda k: str(FORMS[k]))
def test_calls_copies_and_saved_states(tmp_path: Path, number: int) -> None:
    form = FORMS[number]
    assert check(tmp_path, SEEDS[number], form).source.turns == ("batch" not in form)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(MANY))
@pytest.mark.parametrize("form", FORMS, ids=str)
def test_many_networks(tmp_path: Path, form: Mapping[str, Any], seed: int) -> None:
    check(tmp_path, 1000 * FORMS.index(form) + seed, form)


@pytest.mark.parametrize("seed", range(3))
def test_a_state_goes_from_one_instruction_set_to_another(tmp_path: Path, seed: int) -> None:
    """In the middle of a sequence, with the order of weights in it."""
    need_toolchain("avx2")
    folders = [tmp_path / isa for isa in ("sse2", "avx2")]
    for folder in folders:
        folder.mkdir()
    one, other = (make_library(f, 500 + seed, {"isa": f.name}) for f in folders)
    x = np.random.default_rng(seed).standard_normal((1, STEPS, FEATURES)).astype(np.float32)
    y, state, random = expected(tmp_path, 500 + seed, x), one.new_state(), Random(seed)
    for t in range(STEPS):
        found = random.choice([one, other]).step(state, x[:, t : t + 1])
        assert np.abs(found - y[:, t : t + 1]).max() <= TOLERANCE
