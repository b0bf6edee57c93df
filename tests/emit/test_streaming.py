"""Networks that run step by step: as whole sequences, the caller's states, what is rejected."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from numpy.typing import NDArray

import cannery
from cannery.api.net import Net
from cannery.cli import cli
from cannery.emit.interface import interface
from cannery.emit.states import STATE_ALIGN, make_states
from cannery.errors import CanneryError, OptionError, UnsupportedError
from cannery.frontends.streaming import declare_states
from cannery.ir.evaluate import evaluate
from cannery.ir.graph import GraphBuilder
from cannery.ir.tensor import DType
from cannery.ops.movement.op import Identity
from cannery.options import make_options
from cannery.output_files import write_files
from cannery.pipeline import compile_model, load_model
from emit.c_programs import LANGUAGES, compile_file
from emit.stepping_models import LONG, F, H, T, causal, dense, lstm, stack
from frontends.keras_files import LayerSpec, Model, chain, image, write_h5
from frontends.test_keras_recurrent import weights
from needs import need_program

Array = NDArray[Any]

#: Whole sequences take matrix products over many steps, whose sums may be ordered otherwise.
TOLERANCE = 2e-6


def sequence(seed: int, steps: int = T) -> Array:
    return np.random.default_rng(seed).standard_normal((1, steps, F)).astype(np.float32)


@pytest.fixture(scope="module")
def stepper(tmp_path_factory: pytest.TempPathFactory) -> Net:
    """The stack with an open number of steps, stateful in Keras, step by step."""
    need_program("gcc")
    file = write_h5(tmp_path_factory.mktemp("steps") / "net.h5", stack(None, stateful=True))
    return cannery.load(file, streaming=True, isa="sse2")


def run_steps(net: Net, x: Array, state: Array) -> Array:
    return np.concatenate([net.step(state, x[:, t : t + 1]) for t in range(x.shape[1])], axis=1)


def test_steps_are_the_whole_sequence(tmp_path: Path, stepper: Net) -> None:
    whole = cannery.load(write_h5(tmp_path / "net.h5", stack(T)), isa="sse2")
    x = sequence(1)
    y = whole(x)
    assert np.abs(run_steps(stepper, x, stepper.new_state()) - y).max() <= TOLERANCE
    assert np.ptp(y, axis=1).max() > 1e-3


def test_last_step_is_that_of_a_sequence_which_ends_there(tmp_path: Path) -> None:
    need_program("gcc")
    x = sequence(2)
    net = cannery.load(
        write_h5(tmp_path / "steps.h5", stack(None, sequences=False)), streaming=True, isa="sse2"
    )
    state = net.new_state()
    found = [net.step(state, x[:, t : t + 1]) for t in range(T)]
    whole = cannery.load(write_h5(tmp_path / "net.h5", stack(T, sequences=False)), isa="sse2")
    assert found[-1].shape == (1, 5)
    assert np.abs(found[-1] - whole(x)).max() <= TOLERANCE


def camera(steps: int) -> Model:
    """Each step is an image: convolution and pooling, then an LSTM."""
    rng = np.random.default_rng(8)
    weights_ = {"layer/kernel": rng.standard_normal((3, 3, 1, 2)).astype(np.float32),
                "layer/bias": np.ones(2, np.float32)}  # fmt: skip

    def each(class_name: str, weights: dict[str, Any] | None = None, **config: Any) -> LayerSpec:
        name = class_name.lower()
        inner = {"class_name": class_name, "config": {"name": f"{name}_inner", **config}}
        return LayerSpec("TimeDistributed", name, (), {"layer": inner}, weights or {})

    return chain(
        image("x", steps, 6, 8, 1), each("Conv2D", weights_, filters=2, kernel_size=[3, 3]),
        each("MaxPooling2D", pool_size=[2, 2]), each("Flatten"),
        LayerSpec("LSTM", "one", (), {"units": H, "return_sequences": True},
                  weights("LSTM", features=12)),
    )  # fmt: skip


def test_each_step_is_an_image(tmp_path: Path) -> None:
    need_program("gcc")
    net = cannery.load(write_h5(tmp_path / "net.h5", camera(T)), streaming=True, isa="sse2")
    graph = load_model(make_options(tmp_path / "net.h5", {}))
    x = np.random.default_rng(9).standard_normal((1, T, 6, 8, 1)).astype(np.float32)
    (expected,) = evaluate(graph, {"x": x}).values()
    assert np.abs(run_steps(net, x, net.new_state()) - expected).max() <= TOLERANCE


def test_many_states_side_by_side_and_saved_by_copying(stepper: Net) -> None:
    xs = [sequence(seed) for seed in (3, 4)]
    alone = [run_steps(stepper, x, stepper.new_state()) for x in xs]
    states = [stepper.new_state() for _ in xs]
    for t in range(T):
        if t == T // 2:
            saved = [state.copy() for state in states]
        for x, state, y in zip(xs, states, alone, strict=True):
            assert np.array_equal(stepper.step(state, x[:, t : t + 1]), y[:, t : t + 1])
    for x, state, y in zip(xs, saved, alone, strict=True):
        again = run_steps(stepper, x[:, T // 2 :], state)
        assert np.array_equal(again, y[:, T // 2 :])


def test_a_call_without_the_state_names_step(stepper: Net) -> None:
    """Who keeps the state as tensors has to pass them."""
    assert len(stepper.outputs) == 1
    x = np.ones(stepper.inputs[0].shape, np.float32)
    with pytest.raises(OptionError, match=r"is missing \(step\(state, \.\.\.\) keeps it"):
        stepper(x)
    with pytest.raises(OptionError, match=r"input 'x' is missing$"):
        stepper()


def test_a_step_into_memory_that_is_there(stepper: Net) -> None:
    """Also where inputs are not exactly what the code reads."""
    x = np.ones(stepper.inputs[0].shape, np.float32)
    first, second, third = (stepper.new_state() for _ in range(3))
    expected = stepper.step(first, x)
    out = np.empty_like(expected)
    assert stepper.step(second, x, out=out) is out
    assert np.array_equal(out, expected)
    assert np.array_equal(stepper.step(third, x.astype(np.float64)), expected)
    assert np.array_equal(first, second)
    assert np.array_equal(first, third)
    assert first.any()


def test_state_as_tensors_is_the_same_step(stepper: Net) -> None:
    """The functions without `step` take and return the states."""
    x = sequence(5, 1)
    assert [p.name for p in stepper.inputs] == ["x"]
    assert [p.name for p in stepper.states] == ["one/h", "one/c", "two/h"]
    state = stepper.new_state()
    first, *after = stepper(x, *(np.zeros(p.shape, np.float32) for p in stepper.states))
    assert np.array_equal(stepper.step(state, x), first)
    kept = np.concatenate([a.ravel() for a in after])
    assert np.array_equal(state.view(np.float32)[: kept.size], kept)


def test_reset_begins_with_states_of_the_model(tmp_path: Path) -> None:
    """ONNX: initial states that are constants."""
    need_program("gcc")
    m = pytest.importorskip("frontends.onnx_models")
    r = {"w": m.floats(1, H, F, seed=1), "r": m.floats(1, H, H, seed=2),
         "h": m.floats(1, 1, H, seed=4)}  # fmt: skip
    proto = m.model(
        [m.node("RNN", ["x", "w", "r", "", "", "h"], ["y"], hidden_size=H)], {"x": ["T", 1, F]},
        weights=r,
    )  # fmt: skip
    net = cannery.load(m.write(tmp_path / "net.onnx", proto), streaming=True, isa="sse2")
    x, state = sequence(6)[0][:, None], net.new_state()
    assert np.array_equal(state.view(np.float32), r["h"].ravel())
    y = np.concatenate([net.step(state, x[t : t + 1]) for t in range(T)])
    assert np.abs(y - m.expected(proto, {"x": x})[0]).max() <= TOLERANCE


def policy(m: Any) -> Any:
    """An LSTM whose state is an input and an output, as policies of robots are exported."""
    nodes = [
        m.node("Unsqueeze", ["obs", "zero"], ["steps"]),
        m.node("LSTM", ["steps", "w", "r", "", "", "h_in", "c_in"], ["y", "h_out", "c_out"],
               hidden_size=H),
        m.node("Squeeze", ["h_out", "zero"], ["flat"]),
        m.node("MatMul", ["flat", "out"], ["actions"]),
    ]  # fmt: skip
    given = {
        "w": m.floats(1, 4 * H, F, seed=1), "r": m.floats(1, 4 * H, H, seed=2),
        "out": m.floats(H, 2, seed=3), "zero": np.zeros(1, np.int64),
    }  # fmt: skip
    shapes = {"h_in": [1, 1, H], "obs": [1, F], "c_in": [1, 1, H]}
    return m.model(nodes, shapes, ("h_out", "actions", "c_out"), weights=given)


def test_policy_with_its_state_as_input_and_output(tmp_path: Path) -> None:
    need_program("gcc")
    m = pytest.importorskip("frontends.onnx_models")
    proto = policy(m)
    states = {"h_in": "h_out", "c_in": "c_out"}
    net = cannery.load(m.write(tmp_path / "net.onnx", proto), state=states, isa="sse2")
    memory, h, c = net.new_state(), *(np.zeros((1, 1, H), np.float32) for _ in range(2))
    for t in range(T):
        obs = sequence(7)[0, t : t + 1]
        h, actions, c = m.expected(proto, {"obs": obs, "h_in": h, "c_in": c})
        assert np.abs(net.step(memory, obs) - actions).max() <= TOLERANCE


def test_state_of_the_model_after_silence(tmp_path: Path) -> None:
    """Here it counts the steps."""
    need_program("gcc")
    m = pytest.importorskip("frontends.onnx_models")
    nodes = [m.node("Add", ["n", "one"], ["more"]), m.node("Add", ["more", "x"], ["y"])]
    given = {"one": np.ones((1, 1), np.float32)}
    proto = m.model(nodes, {"x": [1, 1], "n": [1, 1]}, ("y", "more"), weights=given)
    net = cannery.load(m.write(tmp_path / "net.onnx", proto), state={"n": "more"}, isa="generic")
    assert not net.new_state().any()
    assert net.step(net.new_state(prewarm=True), np.zeros((1, 1), np.float32)) == 4097


@pytest.mark.parametrize("states", [{"nothing": "h_out"}, {"h_in": "nothing"}, {"obs": "h_out"}])
def test_states_that_are_none(tmp_path: Path, states: dict[str, str]) -> None:
    m = pytest.importorskip("frontends.onnx_models")
    file = m.write(tmp_path / "net.onnx", policy(m))
    with pytest.raises(OptionError, match="--state"):
        load_model(make_options(file, {"state": tuple(f"{k}={v}" for k, v in states.items())}))


def backward() -> Model:
    return chain(image("x", T, F), lstm(go_backwards=True))


def shuffled() -> Model:
    """Dense along time."""
    weights_ = {"kernel": np.ones((T, 2), np.float32), "bias": np.zeros(2, np.float32)}
    turned = LayerSpec("Permute", "turned", (), {"dims": [2, 1]}, {})
    return chain(
        image("x", T, F), lstm(), turned, LayerSpec("Dense", "mix", (), {"units": 2}, weights_)
    )


def convolved() -> Model:
    kernel = {"kernel": np.ones((3, F, F), np.float32), "bias": np.zeros(F, np.float32)}
    config = {"filters": F, "kernel_size": 3, "padding": "same"}
    return chain(image("x", T, F), LayerSpec("Conv1D", "conv", (), config, kernel), lstm())


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (backward(), "'one'"),
        (shuffled(), "'mix"),
        (
            convolved(),
            "--latency: .* layer 'conv' is the first that looks ahead, by 1, .*--latency 1 ",
        ),
    ],
    ids=["backward", "shuffled", "convolved"],
)
def test_what_needs_the_whole_sequence_is_refused(
    tmp_path: Path, model: Model, message: str
) -> None:
    options = make_options(write_h5(tmp_path / "net.h5", model), {"streaming": True})
    with pytest.raises((UnsupportedError, OptionError), match=message):
        load_model(options)


def test_streaming_needs_time(tmp_path: Path) -> None:
    file = write_h5(tmp_path / "net.h5", chain(image("x", H), dense()))
    with pytest.raises(UnsupportedError, match=r"no axis of its inputs is time.*--state"):
        load_model(make_options(file, {"streaming": True}))


def test_no_state_and_wrong_states(tmp_path: Path, stepper: Net) -> None:
    plain = cannery.load(write_h5(tmp_path / "net.h5", chain(image("x", H), dense())), isa="sse2")
    with pytest.raises(OptionError, match="no state"):
        plain.new_state()
    for wrong in (np.zeros(3, np.uint8), stepper.new_state().view(np.float32), None):
        with pytest.raises(CanneryError, match="not a state"):
            stepper.step(wrong, sequence(1, 1))  # type: ignore[arg-type]


MAIN = """
#include "{header}"
{using}
int main(void)
{{
    {body}
    return 0;
}}
"""

C_BODY = """static double state[(NET_STATE_BYTES + 7) / 8], first[(NET_STATE_BYTES + 7) / 8];
    const float x[NET_X_LEN] = { 1.0f, -2.0f, 0.5f };
    float y[NET_SCORES_LEN], again[NET_SCORES_LEN];
    net_reset(state);
    net_step(state, x, y);
    net_step(state, x, y);
    net_model.reset(first);
    static unsigned char memory[NET_WORKSPACE_BYTES + 64];
    unsigned char *const ws = memory + (64 - (size_t)memory % 64) % 64;
    for (int k = 0; k < 2; ++k) {
        const void *inputs[1] = { x };
        void *outputs[1] = { again };
        net_model.step(ws, first, inputs, outputs);
    }
    if (net_model.state_bytes != NET_STATE_BYTES || net_model.state_count != 3) {
        return 1;
    }
    if (memcmp(y, again, sizeof(y)) != 0 || memcmp(state, first, NET_STATE_BYTES) != 0) {
        return 2;
    }"""

CPP_BODY = """net::Net one, two;
    one.x[0] = two.x[0] = 1.0f;
    one.x[1] = two.x[1] = -2.0f;
    one.x[2] = two.x[2] = 0.5f;
    one.step();
    one.reset();
    one.step();
    two.step();
    if (memcmp(one.scores, two.scores, sizeof(one.scores)) != 0) {
        return 1;
    }
    two.step_in(one.state());
    if (memcmp(one.scores, two.scores, sizeof(one.scores)) == 0) {
        return 2;
    }"""


@pytest.mark.parametrize(
    ("language", "isas"),
    [("c99 gcc", ("sse2",)), ("c++11 clang", ("avx2", "sse2"))],
    ids=["one", "several"],
)
def test_programs(tmp_path: Path, language: str, isas: tuple[str, ...]) -> None:
    """C and C++ callers, without a warning; with a choice of instruction sets, too."""
    import subprocess

    file = write_h5(tmp_path / "net.h5", stack(None))
    compiled = compile_model(make_options(file, {"streaming": True, "isa": isas}))
    cpp = "++" in language
    main = MAIN.format(
        header="net.hpp" if cpp else "net.h",
        using="#include <string.h>",
        body=CPP_BODY if cpp else C_BODY,
    )
    folder = tmp_path / "out"
    files = {**compiled.files, "main.c": main.encode()}
    write_files({folder / name: data for name, data in files.items()})
    objects = []
    for name in sorted(files):
        if name.endswith(".c"):
            flags = ["-O1", "-mavx2", "-mfma"] if "avx2" in name else ["-O1", "-msse2"]
            objects.append(str(compile_file(folder, name, language, flags)))
    program = folder / "program"
    subprocess.run([LANGUAGES["c++11 g++"][0], *objects, "-o", program, "-lm"], check=True)
    assert subprocess.run([program], check=False).returncode == 0


def test_inspect_shows_the_call(tmp_path: Path) -> None:
    file = write_h5(tmp_path / "net.h5", stack(None))
    done = CliRunner().invoke(cli, ["inspect", str(file), "--streaming"])
    assert "add_nn_model(net MODEL net.h5 STREAMING)" in done.output
    assert "net_step(state, x, scores);" in done.output
    done = CliRunner().invoke(cli, ["inspect", str(file), "--variable-length", "--dim", "x.1=9"])
    assert "net_run(x, length, scores);" in done.output
    assert "add_nn_model(net MODEL net.h5 DIM x.1=9 VARIABLE_LENGTH)" in done.output
    assert "net.h5: x float32[1x9x" in done.output.splitlines()[0]


@pytest.mark.parametrize(
    ("shape", "dtype", "fits"),
    [((1, 4), DType.FLOAT32, True), ((1, 5), DType.FLOAT32, False), ((4,), DType.FLOAT32, False),
     ((1, 4), DType.INT32, False)],
)  # fmt: skip
def test_states_have_one_type(shape: tuple[int, ...], dtype: DType, fits: bool) -> None:
    builder = GraphBuilder("net")
    before, after = builder.input("h", (1, 4)), builder.input("x", shape, dtype)
    builder.output(builder.node(Identity(), [after], name="h_next"))
    builder.output(builder.node(Identity(), [before], name="y"))
    graph = builder.build()
    if fits:
        declared = declare_states(graph, {"h": "h_next"})
        assert (declared.inputs, declared.outputs) == (("x", "h"), ("y", "h_next"))
        return
    with pytest.raises(OptionError, match=r"'h' is .*, 'h_next' is"):
        declare_states(graph, {"h": "h_next"})


@pytest.mark.parametrize("sizes", [(3, 2), (1, 1), (5, 4), (2, 7)])
def test_parts_of_a_state_are_aligned_and_apart(sizes: tuple[int, int]) -> None:
    """Whatever their types are, in the caller's memory."""
    builder = GraphBuilder("net")
    dtypes = (DType.FLOAT32, DType.INT32)
    for k, (size, dtype) in enumerate(zip(sizes, dtypes, strict=True)):
        value = builder.input(f"h{k}", (1, size), dtype)
        builder.output(builder.node(Identity(), [value], name=f"h{k}_next"))
    graph = declare_states(builder.build(), {f"h{k}": f"h{k}_next" for k in range(2)})
    states = make_states(graph, *interface(graph, {}, "nhwc"))
    ends = 0
    for slot in states.slots:
        assert slot.offset % STATE_ALIGN == 0
        assert slot.offset >= ends
        ends = slot.offset + slot.input.type.bytes
    first, second = states.slots
    assert second.next >= first.next + first.input.type.bytes
    assert states.workspace_bytes(100) - states.next_at(100) >= second.next + second.bytes
    assert states.bytes >= ends and states.bytes % STATE_ALIGN == 0


@pytest.mark.parametrize(
    ("block", "isa"), [(1, "sse2"), (3, "sse2"), (16, "generic"), (1, "generic")]
)
def test_convolutions_keep_their_past(tmp_path: Path, block: int, isa: str) -> None:
    """States can be copied, and used in turn."""
    need_program("gcc")
    file = write_h5(tmp_path / "net.h5", causal(LONG))
    whole = cannery.load(file, isa="sse2")
    net = cannery.load(file, streaming=True, block=block, isa=isa)
    x, other = sequence(5, LONG), sequence(6, LONG)
    expected, second = whole(x).copy(), whole(other)
    states = [net.new_state(), net.new_state()]
    found: list[list[Array]] = [[], []]
    for t in range(0, LONG, block):
        for k, each in enumerate((x, other)):
            found[k].append(net.step(states[k], each[:, t : t + block]))
        if t == LONG // 2:
            states = [state.copy() for state in states]
    assert np.abs(np.concatenate(found[0], axis=1) - expected).max() <= TOLERANCE
    assert np.abs(np.concatenate(found[1], axis=1) - second).max() <= TOLERANCE


def test_pasts_stay_in_place_for_several_instruction_sets(tmp_path: Path) -> None:
    file = write_h5(tmp_path / "net.h5", causal(LONG))
    for isa, names in ((("sse2",), ["net.c"]), (("sse2", "avx2"), ["net_sse2.c", "net_avx2.c"])):
        files = compile_model(make_options(file, {"streaming": True, "isa": isa})).files
        assert all(files[name].count(b"in a ring") == 2 for name in names)


def test_verify_takes_a_whole_sequence(tmp_path: Path) -> None:
    """What another framework computed of it is compared with the steps."""
    file = write_h5(tmp_path / "net.h5", camera(T))
    whole = cannery.load(file, isa="sse2")
    x = np.random.default_rng(1).random((1, *whole.inputs[0].shape[1:]), np.float32)
    inputs, y = {whole.inputs[0].name: x}, whole(x)
    name = whole.outputs[0].name
    found = cannery.verify(file, inputs=inputs, against={name: y}, streaming=True, isa="sse2")
    assert found.passed
    assert (found.errors.keys(), found.samples) == ({name}, T)
    wrong = cannery.verify(
        file, inputs=inputs, against={name: y[:, ::-1].copy()}, streaming=True, isa="sse2"
    )
    assert not wrong.passed


def test_run_takes_a_whole_sequence(tmp_path: Path) -> None:
    file = write_h5(tmp_path / "net.h5", stack(T))
    x = sequence(4)
    np.savez(tmp_path / "in.npz", x=x)
    words = ["run", str(file), "--streaming", "--isa", "sse2", "--inputs", str(tmp_path / "in.npz")]
    done = CliRunner().invoke(cli, [*words, "-o", str(tmp_path / "out.npz")])
    assert done.exit_code == 0, done.output
    (whole,) = evaluate(load_model(make_options(file, {})), {"x": x}).values()
    steps = np.load(tmp_path / "out.npz")["scores"]
    assert np.abs(steps.reshape(whole.shape) - whole).max() <= TOLERANCE


def test_outputs_that_are_late(tmp_path: Path) -> None:
    """They cannot be compared step by step with what a whole sequence gives."""
    file = write_h5(tmp_path / "net.h5", convolved())
    net = cannery.load(file, streaming=True, latency="auto", isa="sse2")
    assert (net.latency, cannery.load(file, isa="sse2").latency) == (1, 0)
    x = {"x": sequence(3)}
    late = {"streaming": True, "latency": "auto", "isa": "sse2"}
    assert cannery.verify(file, inputs=x, **late).passed  # type: ignore[arg-type]
    with pytest.raises(OptionError, match=r"^against: outputs are late by 1 step "):
        cannery.verify(file, inputs=x, against=x, **late)  # type: ignore[arg-type]


def conv_lstm(steps: int, *, states: bool) -> Model:
    """Over images of 5x6 with 2 channels; `states` are inputs and outputs."""
    rng = np.random.default_rng(11)
    shapes = {"kernel": (3, 3, 2, 12), "recurrent_kernel": (3, 3, 3, 12), "bias": (12,)}
    values = {f"cell/{n}": rng.normal(0, 0.3, s).astype(np.float32) for n, s in shapes.items()}
    config = {"filters": 3, "kernel_size": [3, 3], "padding": "same", "return_state": states}
    inputs = [image("x", steps, 5, 6, 2), *(image(n, 5, 6, 3) for n in "hc" if states)]
    names = [each.name for each in inputs]
    call: Any = {"inputs": names[:1], "initial_state": names[1:]} if states else names
    cells = LayerSpec("ConvLSTM2D", "cells", [call], config, values)
    results = [("cells", 0, k) for k in range(3 if states else 1)]
    return Model("net", [*inputs, cells], names, results)


def test_convolutional_lstm_with_its_states_as_inputs(tmp_path: Path) -> None:
    """Frames go through a model of one step; the layer over several of them says so."""
    need_program("gcc")
    whole = write_h5(tmp_path / "whole.h5", conv_lstm(4, states=False))
    with pytest.raises(UnsupportedError, match=r"cells.*written out one by one.*initial_state"):
        load_model(make_options(whole, {"streaming": True}))
    one = write_h5(tmp_path / "net.h5", conv_lstm(1, states=True))
    last, h, c = load_model(make_options(one, {})).outputs
    net = cannery.load(one, state={"h": h, "c": c}, isa="sse2")
    x = np.random.default_rng(12).standard_normal((1, 4, 5, 6, 2)).astype(np.float32)
    state = net.new_state()
    for k in range(4):
        y = net.step(state, x[:, k : k + 1])
    (expected,) = evaluate(load_model(make_options(whole, {})), {"x": x}).values()
    assert last == net.outputs[0].name
    assert np.abs(np.asarray(y) - expected).max() <= TOLERANCE
