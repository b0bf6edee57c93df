"""Networks that draw random numbers: where these come from, and what is drawn."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import cannery
from cannery.errors import ModelError, OptionError, UnsupportedError
from cannery.frontends import ImportOptions, load_graph
from cannery.ir.evaluate import evaluate
from cannery.ir.graph import Graph
from cannery.ir.tensor import DType
from cannery.ops.random.op import DrawNormal, DrawUniform
from cannery.options import make_options
from cannery.pipeline import compile_model, import_graph, load_model
from frontends.keras_files import chain, image, layer, write_h5
from frontends.onnx_models import floats, load, model, node, write

MODES = ("seed", "input", "mean")


def policy() -> Any:
    """As ML-Agents exports them: actions around a mean, masked choices, and both without chance."""
    nodes = [
        node("Gemm", ["obs_0", "w1", "b1"], ["pre"]),
        node("Tanh", ["pre"], ["h"]),
        node("Gemm", ["h", "w2", "b2"], ["mean"]),
        node("RandomNormalLike", ["mean"], ["chance"]),
        node("Exp", ["log_std"], ["std"]),
        node("Mul", ["chance", "std"], ["spread"]),
        node("Add", ["mean", "spread"], ["action"]),
        node("Clip", ["action", "low", "high"], ["clipped"]),
        node("Div", ["clipped", "high"], ["continuous_actions"]),
        node("Clip", ["mean", "low", "high"], ["clipped_mean"]),
        node("Div", ["clipped_mean", "high"], ["deterministic_continuous_actions"]),
        node("Gemm", ["h", "w3", "b3"], ["logits"]),
        node("Sub", ["one", "action_masks"], ["closed"]),
        node("Mul", ["closed", "far"], ["pushed"]),
        node("Sub", ["logits", "pushed"], ["masked"]),
        node("LogSoftmax", ["masked"], ["log_probs"], axis=1),
        node("Multinomial", ["log_probs"], ["discrete_actions"], dtype=7, sample_size=1),
        node("ArgMax", ["masked"], ["deterministic_discrete_actions"], axis=1, keepdims=1),
        node("Identity", ["version"], ["version_number"]),
    ]
    weights = {
        "w1": floats(8, 16) / 4, "b1": floats(16), "w2": floats(16, 2) / 4, "b2": floats(2),
        "w3": floats(16, 4) / 4, "b3": floats(4), "log_std": np.array([[-1.0, 0.2]], np.float32),
        "low": np.float32(-3), "high": np.float32(3), "one": np.float32(1),
        "far": np.float32(1e8), "version": np.array([3], np.float32),
    }  # fmt: skip
    outputs = [
        "version_number", "continuous_actions", "deterministic_continuous_actions",
        "discrete_actions", "deterministic_discrete_actions",
    ]  # fmt: skip
    inputs = {"obs_0": ["batch", 8], "action_masks": ["batch", 4]}
    return model(nodes, inputs, outputs, weights, opset=11)


def noisy(folder: Path, proto: Any, noise: str, **options: Any) -> Graph:
    return load(folder, proto, ImportOptions(noise=noise, **options))


def run(graph: Graph, inputs: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
    return {k: np.asarray(v) for k, v in evaluate(graph, dict(inputs)).items()}


def one(kind: str, inputs: list[str], dims: list[int], **attributes: Any) -> Any:
    """A network of one node, whose input x has these dimensions."""
    return model([node(kind, inputs, ["y"], **attributes)], {"x": dims}, opset=15)


def test_without_the_option_the_error_names_it_and_outputs_without_chance(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError) as caught:
        load(tmp_path, policy())
    text = str(caught.value)
    assert "layer 'chance' (RandomNormalLike): draws random numbers" in text
    assert "layer 'discrete_actions' (Multinomial): draws random numbers" in text
    calm = "deterministic_continuous_actions deterministic_discrete_actions"
    assert text.endswith(f"or take outputs that need none: --outputs {calm})")
    for mode in MODES:
        assert f"--noise {mode}" in text


def test_outputs_without_chance_need_no_option(tmp_path: Path) -> None:
    outputs = ("deterministic_continuous_actions", "deterministic_discrete_actions")
    options = ImportOptions(outputs=outputs)
    graph = load(tmp_path, policy(), options)
    assert graph.inputs == ("obs_0", "action_masks") and not graph.states
    with pytest.raises(OptionError, match="--noise: nothing draws random numbers"):
        noisy(tmp_path, policy(), "seed", outputs=outputs)


def test_where_all_outputs_need_noise_none_is_offered(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError) as caught:
        load(tmp_path, one("Bernoulli", ["x"], [3]))
    assert "--noise seed" in str(caught.value) and "--outputs" not in str(caught.value)


def test_networks_of_other_formats_draw_nothing(tmp_path: Path) -> None:
    path = write_h5(tmp_path / "net.h5", chain(image("x", 4, 4, 1), layer("ReLU", "relu")))
    with pytest.raises(OptionError, match="nothing draws random numbers"):
        load_graph(path, ImportOptions(noise="seed"))


def test_a_seed_is_a_state_of_the_network(tmp_path: Path) -> None:
    graph = noisy(tmp_path, policy(), "seed")
    assert graph.inputs == ("obs_0", "action_masks", "noise")
    assert graph.outputs[-1] == "noise_next"
    assert [(s.input, s.output) for s in graph.states] == [("noise", "noise_next")]
    kinds = [type(n.op) for n in graph.nodes]
    assert kinds.count(DrawNormal) == 1 and kinds.count(DrawUniform) == 1
    streams = {n.op.stream for n in graph.nodes if isinstance(n.op, DrawNormal | DrawUniform)}
    assert len(streams) == 2


def test_inputs_for_noise_are_named_and_explained(tmp_path: Path) -> None:
    graph = noisy(tmp_path, policy(), "input")
    assert graph.inputs == ("obs_0", "action_masks", "noise", "noise.1") and not graph.states
    assert graph.types["noise"].shape == (1, 2) and graph.types["noise.1"].shape == (1, 1)
    options = make_options(tmp_path / "model.onnx", {"noise": "input"})
    header = compile_model(options).files["model.h"].decode()
    assert "'noise' takes random numbers for 'chance', standard normal." in header
    assert "'noise.1' takes random numbers for 'discrete_actions', uniform from 0 to" in header


def test_a_policy_acts_around_its_mean(tmp_path: Path) -> None:
    x = {"obs_0": floats(1, 8), "action_masks": np.ones((1, 4), np.float32)}
    with_input, without = (noisy(tmp_path, policy(), mode) for mode in ("input", "mean"))
    mean = run(without, x)["deterministic_continuous_actions"]
    assert np.array_equal(run(without, x)["continuous_actions"], mean)
    z = np.array([[0.5, -2.0]], np.float32)
    more = {"noise": z, "noise.1": np.zeros((1, 1), np.float32)}
    found = run(with_input, {**x, **more})["continuous_actions"]
    expected = np.clip(mean * 3 + z * np.exp([[-1.0, 0.2]]), -3, 3) / 3
    assert np.allclose(found, expected, atol=1e-6)


def test_masked_actions_are_never_drawn(tmp_path: Path) -> None:
    graph = noisy(tmp_path, policy(), "input")
    x = {"obs_0": floats(1, 8), "noise": np.zeros((1, 2), np.float32)}
    x["action_masks"] = np.array([[0, 1, 1, 0]], np.float32)
    for u in (0.0, 0.3, 0.7, 1 - 2**-24):
        drawn = run(graph, {**x, "noise.1": np.array([[u]], np.float32)})["discrete_actions"]
        assert drawn.item() in (1, 2)


def test_normal_and_uniform_numbers_have_their_parameters(tmp_path: Path) -> None:
    shape = [200, 300]
    state = {"noise": np.array([1, 0, 0, 0], np.uint32)}
    nodes = [
        node("RandomNormal", [], ["n"], mean=2.0, scale=0.5, shape=shape, seed=3.0),
        node("RandomUniform", [], ["u"], low=-1.0, high=3.0, shape=shape, dtype=1),
        node("RandomUniformLike", ["n"], ["v"]),
        node("Add", ["x", "n"], ["y"]),
    ]
    proto = model(nodes, {"x": [1]}, ["n", "u", "v", "y"])
    x = {"x": np.ones(1, np.float32)}
    found = run(noisy(tmp_path, proto, "seed"), {**x, **state})
    assert np.allclose([found["n"].mean(), found["n"].std()], [2, 0.5], atol=0.01)
    assert np.allclose(
        [found["u"].min(), found["u"].max(), found["u"].mean()], [-1, 3, 1], atol=0.02
    )
    assert found["v"].min() >= 0 and found["v"].max() < 1
    assert abs(np.corrcoef(found["u"].ravel(), found["v"].ravel())[0, 1]) < 0.02
    assert np.array_equal(found["y"], found["n"] + 1)
    mean = run(noisy(tmp_path, proto, "mean"), x)
    for name, value in (("n", 2.0), ("u", 1.0), ("v", 0.5), ("y", 3.0)):
        assert mean[name].shape == (200, 300) and np.all(mean[name] == value)


@pytest.mark.parametrize(("dtype", "kind"), [(None, "float64"), (9, "bool"), (6, "int32")])
def test_bernoulli(tmp_path: Path, dtype: int | None, kind: str) -> None:
    attributes = {} if dtype is None else {"dtype": dtype}
    proto = one("Bernoulli", ["x"], [4, 2], **attributes)
    p = np.array([[0, 1], [0.3, 0.3], [0.5, 0.49], [0.9, 0.9]], np.float32)
    u = np.array([[0, 1 - 2**-24], [0.2, 0.4], [0.5, 0], [0.89, 0.91]], np.float32)
    found = run(noisy(tmp_path, proto, "input"), {"x": p, "noise": u})["y"]
    assert found.dtype.name == kind and found.tolist() == [[0, 1], [1, 0], [0, 1], [1, 0]]
    mean = run(noisy(tmp_path, proto, "mean"), {"x": p})["y"]
    assert mean.tolist() == [[0, 1], [0, 0], [1, 0], [1, 1]]


def test_multinomial_draws_with_the_probabilities(tmp_path: Path) -> None:
    p = np.array([[0.1, 0.2, 0.0, 0.7], [0.0, 0.0, 1.0, 0.0]])
    with np.errstate(divide="ignore"):
        x = {"x": (np.log(p) + 3).astype(np.float32)}
    proto = one("Multinomial", ["x"], [2, 4], sample_size=20_000)
    state = {"noise": np.array([5, 0, 0, 0], np.uint32)}
    drawn = run(noisy(tmp_path, proto, "seed"), {**x, **state})["y"]
    assert drawn.dtype == np.int32 and drawn.shape == (2, 20_000)
    shares = [np.bincount(row, minlength=4) / 20_000 for row in drawn]
    assert np.allclose(shares, p, atol=0.02) and not shares[0][2] and shares[1][2] == 1
    mean = run(noisy(tmp_path, proto, "mean"), x)["y"]
    assert mean.shape == (2, 20_000) and np.all(mean == [[3], [2]])
    u = np.full((2, 20_000), 1 - 2**-24, np.float32)
    last = run(noisy(tmp_path, proto, "input"), {**x, "noise": u})["y"]
    assert np.all(last == [[3], [2]])


def dropout(**given: Any) -> Any:
    values = {"ratio": np.float32(0.25), "training": np.array(True), **given}
    nodes = [node("Dropout", ["x", "ratio", "training"], ["y", "mask"])]
    return model(nodes, {"x": [40, 50]}, ["y", "mask"], values)


def test_dropout_in_training(tmp_path: Path) -> None:
    x = floats(40, 50)
    state = {"noise": np.array([5, 0, 0, 0], np.uint32)}
    found = run(noisy(tmp_path, dropout(), "seed"), {"x": x, **state})
    assert abs(found["mask"].mean() - 0.75) < 0.03
    assert np.allclose(found["y"], np.where(found["mask"], x / 0.75, 0), atol=1e-6)
    mean = run(noisy(tmp_path, dropout(), "mean"), {"x": x})
    assert np.array_equal(mean["y"], x) and mean["mask"].all()
    with pytest.raises(
        UnsupportedError,
        match=r"is in training mode, so it draws random numbers .export .* --noise seed",
    ):
        load(tmp_path, dropout())
    with pytest.raises(ModelError, match="its ratio 1 is not from 0 to below 1"):
        noisy(tmp_path, dropout(ratio=np.float32(1)), "seed")
    calm = load(tmp_path, dropout(training=np.array(False)))
    assert np.array_equal(run(calm, {"x": x})["y"], x)


@pytest.mark.parametrize(
    ("proto", "message"),
    [
        (one("Multinomial", ["x"], [2, 3, 4]), "which is not .batch, classes."),
        (one("Multinomial", ["x"], [2, 3], sample_size=0), "draws 0 of a tensor"),
        (one("Multinomial", ["x"], [2, 3], dtype=1), "dtype float32 is not int32 or int64"),
        (one("RandomNormalLike", ["x"], [2], dtype=6), "elements of int32 are not supported"),
        (one("RandomNormal", [], [2], shape=[2**20, 2**20]), "malformed or too large"),
        (one("RandomUniform", [], [2]), "attribute 'shape' is missing"),
    ],
)
@pytest.mark.parametrize("mode", MODES)
def test_what_is_malformed(tmp_path: Path, proto: Any, message: str, mode: str) -> None:
    with pytest.raises(ModelError, match=message):
        noisy(tmp_path, proto, mode)


def test_an_input_of_the_same_name_stays(tmp_path: Path) -> None:
    nodes = [
        node("RandomNormalLike", ["noise"], ["z"]),
        node("Add", ["z", "noise"], ["noise_next"]),
    ]
    proto = model(nodes, {"noise": [3]}, ["noise_next"])
    graph = noisy(tmp_path, proto, "seed")
    assert graph.inputs == ("noise", "noise.1")
    assert graph.outputs[0] == "noise_next" and graph.states[0].output == graph.outputs[1]


def test_a_state_of_the_model_and_the_seed(tmp_path: Path) -> None:
    nodes = [
        node("RandomNormalLike", ["h"], ["z"]),
        node("Add", ["h", "z"], ["h_next"]),
        node("Add", ["h_next", "x"], ["y"]),
    ]
    path = write(tmp_path / "m.onnx", model(nodes, {"h": [3], "x": [3]}, ["h_next", "y"]))
    graph = load_model(make_options(path, {"noise": "seed", "state": "h=h_next"}))
    assert graph.inputs == ("x", "h", "noise")
    assert [s.input for s in graph.states] == ["h", "noise"]
    net = cannery.load(path, noise="seed", state="h=h_next")
    state, x = net.new_state(), np.zeros(3, np.float32)
    walk = [net.step(state, x).copy() for _ in range(3)]
    (steps,) = (np.diff([np.zeros(3), *walk], axis=0),)
    for turn, step in enumerate(steps):
        seeded = np.array([0, 0, turn, 0], np.uint32)
        assert np.allclose(step, DrawNormal((3,)).reference(seeded)[0], atol=1e-6)


def test_seeds_resets_and_copies(tmp_path: Path) -> None:
    net = cannery.load(write(tmp_path / "m.onnx", policy()), noise="seed")
    x, mask = floats(1, 8), np.ones((1, 4), np.float32)

    def actions(state: NDArray[np.uint8]) -> list[float]:
        return [float(net.step(state, x, mask)[1][0, 0]) for _ in range(4)]

    first = net.new_state()
    a = actions(first)
    assert len(set(a)) == 4
    saved = first.copy()
    assert actions(net.new_state()) == a == actions(net.new_state(seed=0))
    assert actions(first) == actions(saved)
    assert actions(net.new_state(seed=1)) != a
    assert actions(net.new_state(seed=2**64 - 1)) != actions(net.new_state(seed=2**32 - 1))
    for seed in (-1, 2**64):
        with pytest.raises(OptionError, match=r"is not from 0 to 2\^64 - 1"):
            net.new_state(seed=seed)


def test_a_network_without_chance_takes_no_seed(tmp_path: Path) -> None:
    path = write(tmp_path / "m.onnx", model([node("Add", ["x", "h"], ["y"])], {"x": [2], "h": [2]}))
    net = cannery.load(path, state="h=y")
    with pytest.raises(OptionError, match="draws no random numbers"):
        net.new_state(seed=1)


def test_several_instruction_sets_share_a_seed(tmp_path: Path) -> None:
    path = write(tmp_path / "m.onnx", policy())
    options = make_options(path, {"noise": "seed", "isa": ["generic", "sse2"], "name": "m"})
    files = compile_model(options).files
    assert "m_generic_seed(state, seed);" in files["m.c"].decode()
    assert "void seed(uint64_t seed)" in files["m.hpp"].decode()
    calm = compile_model(make_options(path, {"noise": "mean", "name": "m"})).files
    assert not any(re.search(r"_seed\b", text.decode()) for text in calm.values())


def test_every_processor_draws_the_same_bits(tmp_path: Path) -> None:
    shape = [7, 9]
    nodes = [
        node("RandomNormal", [], ["n"], mean=2.0, scale=0.5, shape=shape),
        node("RandomUniform", [], ["u"], low=-1.0, high=3.0, shape=shape),
        node("Mul", ["n", "u"], ["product"]),
        node("Add", ["product", "x"], ["y"]),
    ]
    path = write(tmp_path / "m.onnx", model(nodes, {"x": shape}))
    graph = import_graph(make_options(path, {"noise": "seed", "same_everywhere": True}))
    assert graph.types["noise"].dtype is DType.UINT32


def test_each_step_of_a_stream_takes_its_own_noise(tmp_path: Path) -> None:
    nodes = [
        node("Conv", ["x", "w"], ["c"], pads=[2, 0]),
        node("RandomNormalLike", ["c"], ["z"]),
        node("Add", ["c", "z"], ["y"]),
    ]
    path = write(
        tmp_path / "m.onnx", model(nodes, {"x": [1, 2, 6]}, weights={"w": floats(2, 2, 3)})
    )
    graph = load_model(make_options(path, {"noise": "input", "streaming": True}))
    assert graph.types["noise"].shape == (1, 2, 1)
    with pytest.raises(UnsupportedError, match="it has a constant for each step"):
        load_model(make_options(path, {"noise": "seed", "streaming": True}))
