"""Steps of recurrent layers whose weights exceed the first-level cache: read to and fro."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import cannery
from cannery.api.net import Net
from cannery.options import make_options
from cannery.pipeline import compile_model
from emit.c_programs import compile_file, link, run, write_all
from frontends.keras_files import LayerSpec, chain, image, write_h5
from needs import need_toolchain

Array = NDArray[Any]

T, F = 7, 3

#: Cells whose recurrent weights exceed the first-level cache, and cells whose weights stay there.
LARGE = {"LSTM": 56, "GRU": 64}
SMALL = {"LSTM": 36, "GRU": 44}
GATES = {"LSTM": 4, "GRU": 3}

FLAGS = ("-O1", "-mavx2", "-mfma")

#: Steps on the inputs `x`, whose outputs are printed.
MAIN = """
#include "net.h"
#include <stdio.h>
static const float x[] = {{ {x} }};
static double state[(NET_STATE_BYTES + 7) / 8];
int main(void)
{{
    static float y[NET_LAYER_LEN];
    net_reset(state);
    for (size_t k = 0; k < sizeof(x) / sizeof(x[0]); k += NET_X_LEN) {{
        net_step(state, x + k, y);
        for (int i = 0; i < NET_LAYER_LEN; ++i) {{
            printf("%.9g\\n", (double)y[i]);
        }}
    }}
    return 0;
}}
"""

#: Rounding of sums of 64 terms.
TOLERANCE = 2e-6


def network(folder: Path, kind: str, cells: int, steps: int | None = None) -> Path:
    """A layer alone."""
    model = chain(image("x", steps, F), recurrent(kind, cells))
    return write_h5(folder / f"net{steps or ''}.h5", model)


def strided(folder: Path, steps: int, before: LayerSpec) -> Path:
    """A large LSTM after a layer."""
    model = chain(image("x", steps, F), before, recurrent("LSTM", LARGE["LSTM"]))
    return write_h5(folder / "strided.h5", model)


def recurrent(kind: str, cells: int) -> LayerSpec:
    rng, columns = np.random.default_rng(5), GATES[kind] * cells
    values = {
        "cell/kernel": rng.standard_normal((F, columns)),
        "cell/recurrent_kernel": rng.standard_normal((cells, columns)) / np.sqrt(cells),
        "cell/bias": rng.standard_normal(columns),
    }
    config = {"units": cells, "return_sequences": True, "reset_after": False}
    config = {name: config[name] for name in config if kind == "GRU" or name != "reset_after"}
    weights = {name: array.astype(np.float32) for name, array in values.items()}
    return LayerSpec(kind, "layer", (), config, weights)


def loaded(folder: Path, kind: str, isa: str, **given: Any) -> Net:
    need_toolchain(isa)
    return cannery.load(network(folder, kind, LARGE[kind]), streaming=True, isa=isa, **given)


def texts(folder: Path, kind: str, cells: int, isa: str, **given: Any) -> Mapping[str, str]:
    options = make_options(network(folder, kind, cells), {"streaming": True, "isa": isa, **given})
    return {Path(name).name: text.decode() for name, text in compile_model(options).files.items()}


def sequence(steps: int = T) -> Array:
    return np.random.default_rng(1).standard_normal((1, steps, F)).astype(np.float32)


def turn(state: Array) -> int:
    """What the next call will have: the last word of the state."""
    return int(state.view(np.uint32)[-2])


@pytest.mark.parametrize("isa", ["sse2", "avx2"])
@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_steps_are_the_whole_sequence(tmp_path: Path, kind: str, isa: str) -> None:
    net = loaded(tmp_path, kind, isa)
    whole = cannery.load(network(tmp_path, kind, LARGE[kind], T), isa=isa)
    x, state = sequence(), net.new_state()
    turns, found = [], []
    for t in range(T):
        turns.append(turn(state))
        found.append(net.step(state, x[:, t : t + 1]))
    assert turns == [t % 2 for t in range(T)]
    assert np.abs(np.concatenate(found, axis=1) - whole(x)).max() <= TOLERANCE


def test_layers_that_run_in_every_second_call_turn_as_often(tmp_path: Path) -> None:
    """A convolution with a stride comes before them."""
    need_toolchain("avx2")
    rng = np.random.default_rng(2)
    weights = {"halves/kernel": rng.standard_normal((2, F, F)), "halves/bias": np.ones(F)}
    config = {"filters": F, "kernel_size": [2], "strides": [2], "padding": "valid"}
    values = {name: array.astype(np.float32) for name, array in weights.items()}
    halves = LayerSpec("Conv1D", "halves", (), config, values)
    net = cannery.load(strided(tmp_path, 8, halves), streaming=True, isa="avx2")
    whole = cannery.load(strided(tmp_path, 8, halves), isa="avx2")
    x, state, turns, found = sequence(8), net.new_state(), [], []
    for t in range(8):
        turns.append(turn(state))
        y = net.step(state, x[:, t : t + 1])
        assert (y is None) == (t % 2 == 0)
        found += [] if y is None else [y]
    assert turns == [0, 0, 1, 1, 0, 0, 1, 1]
    assert np.abs(np.concatenate(found, axis=1) - whole(x)).max() <= TOLERANCE


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_orders_differ_by_rounding(tmp_path: Path, kind: str) -> None:
    """From the same outputs and cells, in both orders: not the same bits, or nothing turns."""
    net = loaded(tmp_path, kind, "avx2")
    x, state = sequence(), net.new_state()
    for t in range(3):
        net.step(state, x[:, t : t + 1])
    other = state.copy()
    other.view(np.uint32)[-2] = 1 - turn(state)
    here, there = (net.step(each, x[:, 3:4]) for each in (state, other))
    assert 0 < np.abs(here - there).max() <= TOLERANCE
    assert turn(state) != turn(other)


@pytest.mark.parametrize("given", [{"split": 3}, {"trace_steps": True}])
def test_other_forms_of_the_library(tmp_path: Path, given: dict[str, Any]) -> None:
    """The same bits, whatever else changes the code."""
    x, net = sequence(), loaded(tmp_path, "LSTM", "avx2")
    state = net.new_state()
    y = np.concatenate([net.step(state, x[:, t : t + 1]) for t in range(T)], axis=1)
    options = {"streaming": True, "isa": "avx2", **given}
    made = compile_model(make_options(network(tmp_path, "LSTM", LARGE["LSTM"]), options))
    main = MAIN.format(x=", ".join(f"{value:.9e}f" for value in x.ravel().tolist()))
    write_all(tmp_path / "out", {**made.files, "main.c": main})
    sources = [*sorted(name for name in made.files if name.endswith(".c")), "main.c"]
    objects = [compile_file(tmp_path / "out", name, "c99 gcc", FLAGS) for name in sources]
    found = np.array(run(link(tmp_path / "out", objects)).split(), np.float32)
    assert np.array_equal(found, y.ravel())


def test_code_that_reads_a_file_of_weights(tmp_path: Path) -> None:
    need_toolchain("avx2")
    options = {"streaming": True, "isa": "avx2", "weights": "net.weights"}
    made = compile_model(make_options(network(tmp_path, "LSTM", LARGE["LSTM"]), options))
    write_all(tmp_path / "out", made.files)
    compile_file(tmp_path / "out", "net.c", "c99 gcc", FLAGS)
    assert b"_turned(" in made.files["net.c"]


def test_a_copy_of_the_state_goes_on_as_the_state(tmp_path: Path) -> None:
    net, x = loaded(tmp_path, "LSTM", "avx2"), sequence()
    state = net.new_state()
    net.step(state, x[:, :1])
    saved = state.copy()
    ends = [[net.step(each, x[:, t : t + 1]) for t in range(1, T)] for each in (state, saved)]
    assert np.array_equal(*ends)


def test_blocks_share_the_state(tmp_path: Path) -> None:
    net = loaded(tmp_path, "LSTM", "avx2", block=(1, 4))
    whole = cannery.load(network(tmp_path, "LSTM", LARGE["LSTM"], 11), isa="avx2")
    x, state, found, t = sequence(11), net.new_state(), [], 0
    for steps in (1, 4, 1, 1, 4):
        found.append(net.step(state, x[:, t : t + steps]))
        t += steps
    assert np.abs(np.concatenate(found, axis=1) - whole(x)).max() <= TOLERANCE


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_layers_that_stay_in_the_cache_keep_their_order(tmp_path: Path, kind: str) -> None:
    large = texts(tmp_path, kind, LARGE[kind], "avx2")["net.c"]
    small = texts(tmp_path, kind, SMALL[kind], "avx2")["net.c"]
    assert "_turned(" in large
    assert "turn" not in small.partition("net_step_in")[2].partition("\n}\n")[0]


def test_instruction_sets_share_the_state(tmp_path: Path) -> None:
    """The state has room for the order on all of them, whatever they choose."""
    sizes = {
        line
        for isa in ("generic", "sse2", "avx2", "avx512")
        for line in texts(tmp_path, "LSTM", LARGE["LSTM"], isa)["net.h"].splitlines()
        if "define NET_STATE_BYTES" in line
    }
    assert len(sizes) == 1
    assert f"{2 * 4 * LARGE['LSTM'] + 8}u" in sizes.pop()
