"""Sequences of any length up to a maximum: as networks of that length, and what is rejected."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import cannery
from cannery.api.net import Net
from cannery.errors import OptionError, UnsupportedError
from cannery.ir.evaluate import evaluate
from cannery.options import make_options
from cannery.output_files import write_files
from cannery.pipeline import compile_model, load_model
from emit.c_programs import LANGUAGES, compile_file
from frontends.keras_files import LayerSpec, Model, chain, image, layer, write_h5
from frontends.test_keras_recurrent import weights
from needs import need_program

Array = NDArray[Any]

#: A network that is large enough to be cut.
LINES = Path(__file__).parents[2] / "examples" / "ocr" / "ocr.onnx"

MAX, F, H = 11, 3, 4
#: Against float64 references.
TOLERANCE = 2e-6


def rnn(kind: str, name: str, features: int, **config: Any) -> LayerSpec:
    config = {"units": H, "return_sequences": True, "reset_after": False, **config}
    if kind != "GRU":
        del config["reset_after"]
    return LayerSpec(kind, name, (), config, weights(kind, features=features))


def both(**config: Any) -> LayerSpec:
    """A bidirectional LSTM."""
    inner = {"class_name": "LSTM", "config": {"name": "lstm", "units": H, **config}}
    values = {
        **weights("LSTM", "forward_layer/cell", seed=1),
        **weights("LSTM", "backward_layer/cell", seed=2),
    }
    return LayerSpec("Bidirectional", "both", (), {"layer": inner, "merge_mode": "concat"}, values)


def dense() -> LayerSpec:
    kernel = np.random.default_rng(3).standard_normal((2 * H, 5)).astype(np.float32)
    values = {"kernel": kernel, "bias": np.arange(5, dtype=np.float32)}
    return LayerSpec("Dense", "scores", (), {"units": 5, "activation": "softmax"}, values)


def reader(steps: int | None) -> Model:
    """As networks that read lines: columns -> both directions -> symbols."""
    return chain(image("x", steps, F), both(return_sequences=True), dense())


def last(steps: int | None) -> Model:
    """Of a whole sequence one answer."""
    model = chain(image("x", steps, F), rnn("GRU", "gru", F), rnn("SimpleRNN", "rnn", H))
    config = {**model.layers[-1].config, "return_sequences": False}
    return chain(*model.layers[:-1], LayerSpec("SimpleRNN", "rnn", (), config, weights(
        "SimpleRNN", features=H)))  # fmt: skip


def sequence(steps: int, seed: int = 1) -> Array:
    return np.random.default_rng(seed).standard_normal((1, steps, F)).astype(np.float32)


@pytest.fixture(scope="module")
def nets(tmp_path_factory: pytest.TempPathFactory) -> dict[Any, Net]:
    """Both networks for any length."""
    need_program("gcc")
    folder = tmp_path_factory.mktemp("nets")
    options: Any = {"variable_length": True, "dims": {"x.1": MAX}, "isa": "sse2"}
    return {
        make: cannery.load(write_h5(folder / f"{make.__name__}.h5", make(None)), **options)
        for make in (reader, last)
    }


@pytest.mark.parametrize("make", [reader, last])
@pytest.mark.parametrize("steps", [1, 2, 7, MAX])
def test_as_a_network_of_that_length(
    tmp_path: Path, nets: dict[Any, Net], make: Any, steps: int
) -> None:
    net = nets[make]
    net(sequence(MAX, seed=9))  # steps after the end must not matter
    x = sequence(steps)
    graph = load_model(make_options(write_h5(tmp_path / "fixed.h5", make(steps)), {}))
    (expected,) = evaluate(graph, {"x": x}).values()
    y = net(x)
    assert y.shape == expected.shape
    assert np.abs(y - expected).max() <= TOLERANCE
    assert np.array_equal(net(x[0]), y), "a batch of one may be left out"


@pytest.mark.parametrize("make", [reader, last])
@pytest.mark.parametrize("steps", [1, 5, MAX])
def test_several_sequences_of_a_length(nets: dict[Any, Net], make: Any, steps: int) -> None:
    """Along the first axis, or along one more; each as alone."""
    net = nets[make]
    net(sequence(MAX, seed=9))
    alone = [sequence(steps, seed) for seed in (1, 2, 3)]
    expected = np.concatenate([net(x) for x in alone])
    found = net(np.concatenate(alone))
    assert np.array_equal(found, expected)
    assert np.array_equal(net(np.stack(alone)), expected[:, np.newaxis])


@pytest.mark.parametrize("make", [reader, last])
def test_the_end_changes_no_bit(nets: dict[Any, Net], make: Any) -> None:
    """Neither steps after it, nor garbage there, have an effect."""
    net = nets[make]
    wild = np.full((1, MAX, F), np.nan, np.float32)
    for steps in (3, 8):
        x = sequence(steps)
        first = net(x)
        assert not np.isnan(first).any()
        net(wild)
        assert np.array_equal(net(x), first)


def test_no_step_gives_the_initial_state(nets: dict[Any, Net]) -> None:
    assert nets[reader](sequence(0)).shape == (1, 0, 5)
    net = nets[last]
    net(sequence(5))
    assert not net(sequence(0)).any()


def test_longer_sequences_are_refused(nets: dict[Any, Net]) -> None:
    with pytest.raises(OptionError, match="input 'x'"):
        nets[reader](sequence(MAX + 1))


def test_onnx_lines_with_peepholes(tmp_path: Path) -> None:
    """Time first, both directions, their outputs joined by a transpose and a reshape."""
    need_program("gcc")
    m = pytest.importorskip("frontends.onnx_models")
    given = {
        "w": m.floats(2, 4 * H, F, seed=1), "r": m.floats(2, 4 * H, H, seed=2),
        "b": m.floats(2, 8 * H, seed=3), "p": m.floats(2, 3 * H, seed=4),
        "shape": np.array([MAX, 2 * H], np.int64), "k": m.floats(2 * H, 5, seed=5),
    }  # fmt: skip
    nodes = [
        m.node("LSTM", ["x", "w", "r", "b", "", "", "", "p"], ["y"], hidden_size=H,
               direction="bidirectional"),
        m.node("Transpose", ["y"], ["t"], perm=[0, 2, 1, 3]),
        m.node("Reshape", ["t", "shape"], ["f"]),
        m.node("MatMul", ["f", "k"], ["s"]),
        m.node("Softmax", ["s"], ["z"], axis=-1),
    ]  # fmt: skip
    proto = m.model(nodes, {"x": [MAX, 1, F]}, ("z",), weights=given)
    net = cannery.load(m.write(tmp_path / "net.onnx", proto), variable_length=True, isa="sse2")
    given["shape"][0] = 6
    fixed = m.model(nodes, {"x": [6, 1, F]}, ("z",), weights=given)
    graph = m.load(tmp_path, fixed)
    x = sequence(6).reshape(6, 1, F)
    (expected,) = evaluate(graph, {"x": x}).values()
    assert np.abs(net(x) - expected).max() <= TOLERANCE


REFUSED = {
    "averaged": chain(image("x", None, F), rnn("LSTM", "one", F),
                      layer("GlobalAveragePooling1D", "mean")),
    "turned": chain(image("x", None, F), rnn("LSTM", "one", F, go_backwards=True),
                    rnn("LSTM", "two", H)),
}  # fmt: skip


@pytest.mark.parametrize("name", list(REFUSED))
def test_what_needs_to_know_the_end_is_refused(tmp_path: Path, name: str) -> None:
    file = write_h5(tmp_path / "net.h5", REFUSED[name])
    with pytest.raises(UnsupportedError, match="layer '"):
        load_model(make_options(file, {"variable_length": True, "dims": (f"x.1={MAX}",)}))


@pytest.mark.parametrize("other", [{"streaming": True}, {"many": "4"}, {"state": ("a=b",)}])
def test_options_that_do_not_go_together(tmp_path: Path, other: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match=r"--variable-length: .* cannot be combined"):
        make_options(tmp_path / "net.h5", {"variable_length": True, **other})


def test_step_by_step_any_length_works(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"_steps.* take sequences of any length"):
        make_options(tmp_path / "net.h5", {"variable_length": True, "streaming": True})


MAIN = """
#include "net.hpp"
#include <string.h>

static float x[3 * NET_X_LEN], y[3 * NET_SCORES_LEN], z[NET_SCORES_LEN];

int main()
{
    const int32_t lengths[3] = { 2, NET_MAX_LENGTH, 5 };
    static net::Net net;
    for (int i = 0; i < 3 * NET_X_LEN; ++i) {
        x[i] = (float)(i % 7) - 3.0f;
    }
    net.run_many(3, x, lengths, y);
    for (int k = 0; k < 3; ++k) {
        const size_t bytes = (size_t)lengths[k] * (NET_SCORES_LEN / NET_MAX_LENGTH) * sizeof(float);
        net_run(x + k * NET_X_LEN, lengths[k], z);
        if (memcmp(z, y + k * NET_SCORES_LEN, bytes) != 0) {
            return 1;
        }
        memcpy(net.x, x + k * NET_X_LEN, sizeof(net.x));
        net.length = lengths[k];
        net.run();
        if (memcmp(z, net.scores, bytes) != 0) {
            return 2;
        }
    }
    for (int i = 0; i < NET_SCORES_LEN; ++i) {
        z[i] = -1.0f;
    }
    net_run(x, -1, z);
    net_run(x, NET_MAX_LENGTH + 1, z);
    for (int i = 0; i < NET_SCORES_LEN; ++i) {
        if (z[i] != -1.0f) {
            return 3;
        }
    }
    return net_model.max_length == NET_MAX_LENGTH ? 0 : 4;
}
"""


@pytest.mark.parametrize("isas", [("sse2",), ("avx2", "sse2")], ids=["one", "several"])
def test_programs(tmp_path: Path, isas: tuple[str, ...]) -> None:
    """Lengths of each sample, and those that are out of range; without a warning."""
    file = write_h5(tmp_path / "net.h5", reader(None))
    raw = {"variable_length": True, "dims": (f"x.1={MAX}",), "isa": isas}
    files = {**compile_model(make_options(file, raw)).files, "main.cpp": MAIN.encode()}
    folder = tmp_path / "out"
    write_files({folder / name: data for name, data in files.items()})
    objects = []
    for name in sorted(files):
        if name.endswith((".c", ".cpp")):
            flags = ["-O1", "-mavx2", "-mfma"] if "avx2" in name else ["-O1", "-msse2"]
            language = "c++11 g++" if name.endswith(".cpp") else "c99 gcc"
            objects.append(str(compile_file(folder, name, language, flags)))
    program = folder / "program"
    subprocess.run([LANGUAGES["c++11 g++"][0], *objects, "-o", program, "-lm"], check=True)
    assert subprocess.run([program], check=False).returncode == 0


ON_THREADS = """
#include "net.hpp"
#include "cannery/pthread_pool.h"
#include <string.h>

enum { THREADS = 3, COUNT = 12 };

static float x[COUNT * NET_COLUMNS_LEN], y[COUNT * NET_SYMBOLS_LEN], z[NET_SYMBOLS_LEN];
static float y2[COUNT * NET_SYMBOLS_LEN];
#define ALIGNED __attribute__((aligned(64)))
static unsigned char memory[NET_PARALLEL_WORKSPACE_BYTES(THREADS)] ALIGNED;
static unsigned char shares[NET_MANY_PARALLEL_WORKSPACE_BYTES(THREADS)] ALIGNED;
static cannery_pthread_pool threads;

int main()
{
    int32_t lengths[COUNT];
    cannery_pool pool;
    if (cannery_pthread_pool_start(&threads, THREADS, &pool)) {
        return 9;
    }
    for (int i = 0; i < COUNT * NET_COLUMNS_LEN; ++i) {
        x[i] = (float)(i % 7) - 3.0f;
    }
    for (int k = 0; k < COUNT; ++k) {
        lengths[k] = k == 0 ? NET_MAX_LENGTH : 7 * k - 6;
    }
    net_run_many_parallel(shares, &pool, COUNT, x, lengths, y);
    for (int k = 0; k < COUNT; ++k) {
        const size_t bytes = (size_t)lengths[k] * NET_SYMBOLS_LEN / NET_MAX_LENGTH * sizeof(float);
        net_run(x + k * NET_COLUMNS_LEN, lengths[k], z);
        if (memcmp(z, y + k * NET_SYMBOLS_LEN, bytes) != 0) {
            return 1;
        }
        memset(z, 0, sizeof z);
        net_run_parallel(memory, &pool, x + k * NET_COLUMNS_LEN, lengths[k], z);
        if (memcmp(z, y + k * NET_SYMBOLS_LEN, bytes) != 0) {
            return 2;
        }
    }
    for (int i = 0; i < NET_SYMBOLS_LEN; ++i) {
        z[i] = -1.0f;
    }
    net_run_parallel(memory, &pool, x, -1, z);
    net_run_parallel(memory, &pool, x, NET_MAX_LENGTH + 1, z);
    const int32_t wrong[COUNT] = { -1, NET_MAX_LENGTH + 1, -5, -6, -7, -8, -9, -1, -1, -1, -1, -1 };
    net_run_many_parallel(shares, &pool, COUNT, x, wrong, y2);
    for (int i = 0; i < COUNT * NET_SYMBOLS_LEN; ++i) {
        if ((i < NET_SYMBOLS_LEN && z[i] != -1.0f) || y2[i] != 0.0f) {
            return 3;
        }
    }
    cannery_pthread_pool_stop(&threads);
    return 0;
}
"""


def test_programs_with_several_threads(tmp_path: Path) -> None:
    """One sequence and many, to the bits of one thread; wrong lengths compute nothing."""
    raw = {"variable_length": True, "dims": ("length=90",), "parallel": True, "isa": ("sse2",)}
    compiled = compile_model(make_options(LINES, {**raw, "name": "net"}))
    assert compiled.source.parallel
    assert any(compiled.source.calls[c.index].kernel.stops for c in compiled.source.parallel.steps)
    text = compiled.files["net.c"].decode()
    for entry in ("run_in", "run_parallel"):  # before anything is touched
        body = text.split(f" net_{entry}(void *workspace")[-1]
        assert body.split("{", 1)[1].strip().startswith("if (length < 0 || length > 90) {"), entry
    folder = tmp_path / "out"
    write_files({folder / name: data for name, data in compiled.files.items()})
    (folder / "main.cpp").write_text(ON_THREADS)
    names = [name for name in compiled.files if name.endswith(".c")]
    objects = [compile_file(folder, name, "c99 gcc", ("-O1", "-msse2")) for name in names]
    objects.append(compile_file(folder, "main.cpp", "c++11 g++", ("-O1", "-msse2")))
    program = folder / "program"
    link = [LANGUAGES["c++11 g++"][0], *map(str, objects), "-o", str(program), "-lm", "-pthread"]
    subprocess.run(link, check=True)
    assert subprocess.run([program], check=False).returncode == 0
