"""Files of Neural Amp Modeler: what the trainer computed (`nam/make.py`), and what is refused."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import cannery
from cannery.cli import invoke
from cannery.errors import ModelError, OptionError, UnsupportedError
from cannery.frontends import load_graph
from cannery.frontends.options import ImportOptions
from cannery.frontends.streaming import to_streaming
from cannery.ir.evaluate import evaluate
from cannery.ir.graph import Graph
from frontends.causal_nets import call_by_call
from needs import need_program, need_toolchain

FOLDER = Path(__file__).with_name("nam")
NAMES = sorted(path.stem for path in FOLDER.glob("*.nam"))
EXPECTED = np.load(FOLDER / "expected.npz")

#: Steps of silence before the input: more than any of the networks looks back.
SILENCE = 64

#: Steps that are compared call by call.
STEPS = 32


def load(path: Path, **options: Any) -> Graph:
    return load_graph(path, ImportOptions(**options))


def run_whole(graph: Graph, x: NDArray[Any]) -> NDArray[Any]:
    """The output for x[T]."""
    (y,) = evaluate(graph, {graph.inputs[0]: x.reshape(1, -1, 1)}).values()
    return np.asarray(y).reshape(-1)


@pytest.mark.parametrize("name", NAMES)
def test_outputs_are_those_of_the_trainer(name: str) -> None:
    expected = EXPECTED[name]
    x = EXPECTED["input"] if name == "lstm" else np.pad(EXPECTED["input"], (SILENCE, 0))
    graph = load(FOLDER / f"{name}.nam", dims={"input.1": x.size})
    np.testing.assert_allclose(run_whole(graph, x)[-expected.size :], expected, atol=2e-6)


@pytest.mark.parametrize("name", sorted(set(NAMES) - {"lstm", "wavenet_activations"}))
def test_what_an_output_depends_on(name: str) -> None:
    """The input that far back is read, and none before it; not where activations are flat."""
    graph = load(FOLDER / f"{name}.nam", dims={"input.1": SILENCE})
    (told,) = re.findall(r"last (\d+) samples", " ".join(graph.notes))

    def last(back: int, loudness: float) -> float:
        x = np.zeros(SILENCE, np.float32)
        x[SILENCE - 1 - back] = loudness
        return float(run_whole(graph, x)[-1])

    assert last(int(told), 1.0) == last(0, 0.0) != last(int(told) - 1, 1.0)


@pytest.mark.parametrize("block", [1, 16])
@pytest.mark.parametrize("name", NAMES)
def test_step_by_step(name: str, block: int) -> None:
    expected = EXPECTED[name][:STEPS]
    silence = 0 if name == "lstm" else SILENCE
    x = np.pad(EXPECTED["input"][:STEPS], (silence, 0)).reshape(1, -1, 1)
    graph = load(FOLDER / f"{name}.nam", streaming=True, rename={"input": "x"})
    (results,) = call_by_call(to_streaming(graph, block), x, block)[:1]
    made = np.concatenate(results, 1).reshape(-1)[silence:]
    np.testing.assert_allclose(made, expected, atol=2e-6)


def verify(folder: Path, *words: str) -> int:
    """The exit code of the command, over what the trainer computed, in calls of one step and of
    sixteen.
    """
    need_program("gcc")
    for file, array in (("input", EXPECTED["input"]), ("output", EXPECTED["wavenet"])):
        np.savez(folder / f"{file}.npz", **{file: array.reshape(1, -1, 1)})
    files = ["--inputs", str(folder / "input.npz"), "--against", str(folder / "output.npz")]
    fixed = ["--streaming", "--block", "1", "--block", "16", "--isa", "generic"]
    return invoke(["verify", str(FOLDER / "wavenet.nam"), *fixed, *files, *words])


def test_verify_after_silence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The trainer's output begins after it; who forgets that is told."""
    assert verify(tmp_path, "--prewarm") == 0
    told = capsys.readouterr()
    assert "output.npz, 96 samples after silence" in told.out
    assert "output.npz, 6 calls after silence" in told.out
    assert verify(tmp_path) == 1
    assert "after silence, add --prewarm" in capsys.readouterr().err


def test_what_has_no_silence_before_it(tmp_path: Path) -> None:
    file, options = FOLDER / "wavenet.nam", {"streaming": True, "isa": "generic"}
    with pytest.raises(OptionError, match=r"^--prewarm: .* states of their own .*--inputs"):
        cannery.verify(file, prewarm=True, **options)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match=r"^--prewarm: the network keeps no state .*--streaming"):
        cannery.verify(file, prewarm=True, dim={"input.1": 8}, isa="generic")
    graph = to_streaming(load(file, streaming=True))
    inputs = {v: np.zeros(graph.types[v].shape, np.float32) for v in graph.inputs}
    with pytest.raises(OptionError, match=r"^--prewarm: the inputs include states"):
        cannery.verify(file, inputs=inputs, prewarm=True, **options)  # type: ignore[arg-type]


def test_what_a_file_says_of_itself() -> None:
    graph = load(FOLDER / "container.nam", streaming=True)
    assert graph.metadata["format"] == "Neural Amp Modeler"
    assert graph.metadata["nam.version"] == "0.7.0"
    assert load(FOLDER / "lstm.nam", streaming=True).metadata["nam.name"] == "a lstm"
    assert graph.notes == (
        "trained at 48000 samples per second", "each output depends on the last 19 samples"
    )  # fmt: skip
    assert len(load(FOLDER / "lstm.nam", streaming=True).notes) == 1


def test_the_last_weight_is_the_scale(tmp_path: Path) -> None:
    """It counts where it is another number than that of the configuration."""
    model = json.loads((FOLDER / "wavenet.nam").read_text())
    model["weights"][-1] = 0.75  # not 0.5
    graph = load(write(tmp_path, model), dims={"input.1": SILENCE + EXPECTED["input"].size})
    y = run_whole(graph, np.pad(EXPECTED["input"], (SILENCE, 0)))[SILENCE:]
    np.testing.assert_allclose(y, 1.5 * EXPECTED["wavenet"], atol=2e-6)


def test_fields_that_are_off(tmp_path: Path) -> None:
    model = json.loads((FOLDER / "wavenet.nam").read_text())
    model["config"] |= {"in_channels": 1, "condition_dsp": None}
    for layer in model["config"]["layers"]:
        layer |= {"conv_pre_film": False, "head1x1": None, "slimmable": None}
        del layer["gating_mode"], layer["secondary_activation"], layer["bottleneck"]
    graph = load(write(tmp_path, model), dims={"input.1": SILENCE + EXPECTED["input"].size})
    y = run_whole(graph, np.pad(EXPECTED["input"], (SILENCE, 0)))[SILENCE:]
    np.testing.assert_allclose(y, EXPECTED["wavenet"], atol=2e-6)


@pytest.mark.parametrize("key", ["type", "name"])
def test_the_activation_of_a_head_is_what_the_trainer_was_given(key: str, tmp_path: Path) -> None:
    """Elsewhere, the trainer writes `type`."""
    model = json.loads((FOLDER / "wavenet_everything.nam").read_text())
    x = np.pad(EXPECTED["input"], (SILENCE, 0))
    whole = []
    for activation in ("ReLU", {key: "LeakyReLU", "negative_slope": 0}):
        model["config"]["head"]["activation"] = activation
        whole.append(run_whole(load(write(tmp_path, model), dims={"input.1": x.size}), x))
    np.testing.assert_array_equal(*whole)


def test_metadata_may_be_long(tmp_path: Path) -> None:
    """Longer than what is looked at to recognise a file."""
    model = json.loads((FOLDER / "linear.nam").read_text())
    first = {"version": model["version"], "metadata": {"name": "x" * 10_000}}
    graph = load(write(tmp_path, {**first, **model, **first}), streaming=True)
    assert graph.metadata["nam.name"].startswith("xxx")


def test_outputs_may_be_layers() -> None:
    graph = load(FOLDER / "wavenet.nam", streaming=True, outputs=("array0/layer1",))
    assert graph.outputs == ("array0/layer1",)
    with pytest.raises(OptionError, match=r"no layer is called 'array0/layr1'.*'array0/layer1'"):
        load(FOLDER / "wavenet.nam", streaming=True, outputs=("array0/layr1",))


def test_the_number_of_steps_is_open() -> None:
    with pytest.raises(UnsupportedError, match=r"dimension 1 is open.*input\.1=n.*--streaming"):
        load(FOLDER / "lstm.nam")
    with pytest.raises(OptionError, match=r"no open dimension is called 'T' \(open: input\.1"):
        load(FOLDER / "lstm.nam", dims={"T": 4})


def test_a_batch() -> None:
    graph = load(FOLDER / "lstm.nam", dims={"input.1": 96}, batch=2)
    x = np.stack([EXPECTED["input"], -EXPECTED["input"]])[..., None]
    (y,) = evaluate(graph, {"input": x}).values()
    np.testing.assert_allclose(np.asarray(y)[0, :, 0], EXPECTED["lstm"], atol=2e-6)
    assert not np.allclose(np.asarray(y)[1], np.asarray(y)[0], atol=1e-3)


def test_linear_with_several_channels(tmp_path: Path) -> None:
    """By the definition of the format; the trainer has one channel."""
    rng = np.random.default_rng(3)
    x = rng.standard_normal((1, 12, 2)).astype(np.float32)

    def run(inputs: int, outputs: int, weights: list[float]) -> NDArray[Any]:
        config = {"receptive_field": 2, "bias": True, "in_channels": inputs,
                  "out_channels": outputs}  # fmt: skip
        path = write(tmp_path, {"version": "0.7.0", "architecture": "Linear", "config": config,
                                "weights": weights})  # fmt: skip
        (y,) = evaluate(load(path, dims={"input.1": 12}), {"input": x[..., :inputs]}).values()
        return np.asarray(y)[0]

    before = np.pad(x[0], ((1, 0), (0, 0)))[:-1]
    mono, early = x[0, :, :1], before[:, :1]
    both = np.concatenate([mono + 2 * early + 5, 3 * mono + 4 * early + 6], 1)
    np.testing.assert_allclose(run(1, 2, [1, 2, 3, 4, 5, 6]), both, atol=2e-6)
    summed = x[0, :, :1] + 2 * before[:, :1] + 3 * x[0, :, 1:] + 4 * before[:, 1:] + 5
    np.testing.assert_allclose(run(2, 1, [1, 2, 3, 4, 5]), summed, atol=2e-6)
    np.testing.assert_allclose(run(2, 2, [1, 2, 3]), x[0] + 2 * before + 3, atol=2e-6)
    with pytest.raises(ModelError, match="2 inputs and 3 outputs"):
        run(2, 3, [1, 2, 3])


# Damaged and hostile files


def write(folder: Path, model: object) -> Path:
    path = folder / "m.nam"
    path.write_text(json.dumps(model))
    return path


Change = Callable[[dict[str, Any]], Any]


def error_of(folder: Path, name: str, change: Change) -> str:
    """The message for a file of this folder, changed."""
    model = json.loads((FOLDER / f"{name}.nam").read_text())
    change(model)
    with pytest.raises(ModelError) as caught:
        load(write(folder, model), streaming=True)
    return str(caught.value)


def set_weight(value: object) -> Change:
    return lambda m: m["weights"].__setitem__(7, value)


def array(**changes: object) -> Change:
    return lambda m: m["config"]["layers"][1].update(changes)


def nested(depth: int) -> Change:
    """The model within as many chains."""

    def change(model: dict[str, Any]) -> None:
        whole = copy.deepcopy(model)
        for _ in range(depth):
            whole = {"version": "0.7.0", "architecture": "Sequential", "weights": [],
                     "config": {"models": [whole]}}  # fmt: skip
        model.clear()
        model.update(whole)

    return change


#: A file, what is changed, and what the message has to say.
REFUSED: list[tuple[str, Change, str]] = [
    ("wavenet", lambda m: m["weights"].pop(), "weights: has .* but its configuration needs"),
    ("lstm", lambda m: m["weights"].append(0.5), "has 387 weights, but .* needs 386"),
    ("conv_net", lambda m: m["weights"].clear(), "has 0 weights"),
    ("linear", lambda m: m.pop("weights"), "weights is missing, expected a list"),
    ("wavenet", set_weight(float("nan")), "number 7 is nan"),
    ("wavenet", set_weight(1e39), "number 7 is inf in float32"),
    ("wavenet", set_weight(10**400), "not a regular array"),
    ("wavenet", set_weight("0.5"), "'0.5' is not a number"),
    ("wavenet", set_weight(True), "True is not a number"),
    ("linear", lambda m: m.update(weights=[m["weights"]]), "not a flat list of numbers"),
    ("conv_net", lambda m: m["config"].update(groups=2), "config: field groups=2 is unknown"),
    ("wavenet", set_weight([0.5]), "not a regular array"),
    ("wavenet", lambda m: m.update(version="0.8.0"), "version '0.8.0' .*0.5, 0.6, 0.7"),
    ("wavenet", lambda m: m.update(version=7), "version is 7, expected a name"),
    ("wavenet", lambda m: m.update(architecture="WaveNt"), "did you mean 'WaveNet'"),
    ("wavenet", lambda m: m.update(more=1), "field more=1 is unknown"),
    ("wavenet", lambda m: m["config"].update(more=1), "config: field more=1 is unknown"),
    ("wavenet", lambda m: m.update(config=[]), "config is \\[\\], expected an object"),
    ("wavenet", lambda m: m["config"].update(layers=[]), "it has no layers"),
    ("wavenet_old", lambda m: m["config"]["layers"][0].update(dilations=[]), "0: it has no layers"),
    ("wavenet", lambda m: m["config"].update(layers=[3]), "layer array 0 is 3|its layers is 3"),
    ("wavenet", array(more={"a": 1}), "config, layer array 1: field more=.* is unknown"),
    ("wavenet", array(channels=3), "weights"),
    ("wavenet", array(channels=2**31 - 1), "weights"),
    ("wavenet", array(channels=-1), "layer array 1: channels is -1, expected a whole number"),
    ("wavenet", array(channels=2.5), "channels is 2.5"),
    ("wavenet", array(condition_size=2), "array1/layer0/mixin.* reads 2 channels"),
    ("wavenet", array(groups_input=3), "3 groups do not divide 2 and 2 channels"),
    ("wavenet", array(kernel_size=3), "either kernel_size or kernel_sizes"),
    ("wavenet", array(kernel_sizes=[3]), "a whole number for each of 2 layers"),
    ("wavenet", array(dilations=[1] * 3), "kernel_sizes is"),
    ("wavenet", array(activation=["Tanh"]), "activation has 1 entries for 2 layers"),
    ("wavenet", array(activation="Tan"), "activation: 'Tan' .*did you mean 'Tanh'"),
    ("wavenet", array(activation=7), "activation is 7, expected an object"),
    ("wavenet", array(activation={"type": "Tanh", "a": 1}), "activation: field a=1 is unknown"),
    ("wavenet", array(activation={"type": "PReLU", "negative_slopes": [1]}), "1 slopes for 2"),
    ("wavenet", array(activation={"type": "Hardtanh", "min_val": 2}), "min_val 2 is above"),
    ("wavenet", array(activation="PReLU"), "activation: negative_slope is missing"),
    ("wavenet", array(more=False), "layer array 1: field more=False is unknown"),
    ("wavenet", array(layer1x1={"active": True, "out_channels": 3}), "layer1x1 has 3 outputs"),
    ("wavenet", array(gated=True), r"gated is true, but gating_mode is \['none', 'none'\]"),
    ("wavenet", lambda m: m.update(sample_rate=0), "its sample rate is 0"),
    ("lstm", lambda m: m["config"].update(bias=False), "field bias=False is unknown"),
    ("wavenet", array(gating_mode="mixed"), "gating_mode 'mixed' .*none, gated, blended"),
    ("wavenet", array(layer1x1={"active": False}, bottleneck=1), "without layer1x1"),
    ("wavenet", array(head1x1_post_film={"active": True}), "head1x1_post_film is active, but"),
    ("wavenet", array(conv_pre_film=3), "conv_pre_film is 3, expected an object"),
    ("wavenet", array(slimmable={"method": "other"}), "method 'other' is not supported"),
    ("wavenet", array(head=7), "head is 7, expected an object"),
    ("wavenet_old", array(head_bias=None), "head_bias is None, expected true or false"),
    ("wavenet", array(bottleneck=3), "2 channels to the head|give 3 channels to the head"),
    ("wavenet_everything", lambda m: m["config"]["head"].update(kernel_sizes=[]), "is empty"),
    ("wavenet_everything", lambda m: m["config"]["head"].update(in_channels=9), "in_channels is 9"),
    ("wavenet_everything", lambda m: m["config"]["condition_dsp"]["weights"].pop(),
     "condition_dsp, weights: has"),
    ("wavenet_everything", lambda m: m["config"]["condition_dsp"].update(sample_rate=1),
     "sample rates 1.0, 48000.0"),
    ("lstm", lambda m: m["config"].update(input_size=2), "weights"),
    ("lstm", lambda m: m["config"].update(hidden_size=2**31 - 1), "weights"),
    ("lstm", lambda m: m["config"].update(num_layers=2**31 - 1), "needs at least"),
    ("linear", lambda m: m["config"].update(bias=None), "bias is None, expected true or false"),
    ("conv_net", lambda m: m["config"].update(dilations="1"), "dilations is '1'"),
    ("sequential", lambda m: m["config"].update(models=[]), "has no models"),
    ("sequential", lambda m: m["weights"].append(1), "has weights of its own"),
    ("sequential", lambda m: m["config"]["models"][1].update(architecture="x"), "model 1: arch"),
    ("container", lambda m: m["config"].update(submodels=[]), "has no submodels"),
    ("container", lambda m: m["config"]["submodels"][1].update(max_value="x"), "max_value is 'x'"),
    ("container", lambda m: m["config"]["submodels"][1].update(model=None), "submodel 1 is None"),
    ("linear", nested(20), "more than 8 deep"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "change", "message"), REFUSED)
def test_what_is_refused(name: str, change: Change, message: str, tmp_path: Path) -> None:
    found = error_of(tmp_path, name, change)
    assert re.search(message, found), found


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"version": "0.7.0", ' + '"config": {' * 100_000, "nested too deeply"),
        ('{"architecture": "WaveNet", "config": ', "damaged"),
        ('{"architecture": "WaveNet"} {}', "damaged"),
        ('{"architecture": "WaveNet", "weights": ' + "9" * 5000 + "}", "damaged"),
    ],
    ids=["deep", "cut", "two", "digits"],
)  # fmt: skip
def test_texts_that_are_not_json(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "m.nam"
    path.write_text(text)
    with pytest.raises(ModelError, match=message):
        load(path, streaming=True)


def test_cut_anywhere(tmp_path: Path) -> None:
    whole = (FOLDER / "wavenet.nam").read_bytes()
    path = tmp_path / "m.nam"
    for k in range(1, 24):
        path.write_bytes(whole[: len(whole) * k // 24])
        with pytest.raises(ModelError):
            load(path, streaming=True)


@pytest.mark.parametrize("isa", ["generic", "sse2"])
@pytest.mark.parametrize("name", ["wavenet_gated", "wavenet_everything", "lstm", "conv_net"])
def test_code_in_blocks_of_any_size(name: str, isa: str) -> None:
    """As the page about amplifiers says: silence first, then what a host gives."""
    need_program("gcc")
    need_toolchain(isa)
    net = cannery.load(FOLDER / f"{name}.nam", streaming=True, block=(1, 16), isa=isa)
    state, x = net.new_state(), EXPECTED["input"].reshape(1, -1, 1)
    if name != "lstm":
        net.step(state, np.zeros((1, SILENCE, 1), np.float32))
    cuts = [0, 1, 20, 21, 53, x.shape[1]]
    parts = [np.ascontiguousarray(x[:, a:b]) for a, b in pairwise(cuts)]
    made = np.concatenate([np.array(net.step(state, part)) for part in parts], 1).reshape(-1)
    np.testing.assert_allclose(made, EXPECTED[name], atol=2e-6)
