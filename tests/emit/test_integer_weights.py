"""Weights apart from code of integers: with the same scales of values, the same code."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cannery.errors import OptionError
from cannery.execution.program import network_program
from cannery.execution.samples import seeded_samples
from cannery.ir.evaluate import evaluate
from cannery.options import Options, make_options
from cannery.pipeline import Compiled, compile_model
from cannery.target.toolchain import find_toolchain
from frontends.keras_files import Model
from needs import need_runner, need_toolchain
from quantization import networks

ISAS = ("generic", "sse2", "ssse3", "avx2", "avx512vnni", "neon32", "neon64", "riscv64v256")


def compiled(folder: Path, model: Model, ranges: Any = None, **given: Any) -> Compiled:
    """A network with weights apart; `ranges` as the manifest of another one has them."""
    file, calibration = networks.write(folder, model)
    options = make_options(file, networks.integers(calibration, **given, weights="any"))
    known = None if ranges is None else tuple(map(tuple, ranges))
    return compile_model(replace(options, ranges=known))


def ranges_of(made: Compiled) -> list[Any]:
    found = json.loads(made.files["net.json"])["weights"]["ranges"]
    assert isinstance(found, list) and found
    return found


def different(one: Compiled, other: Compiled) -> set[str]:
    """The files that differ."""
    assert one.files.keys() == other.files.keys()
    return {name for name in one.files if one.files[name] != other.files[name]}


#: What a training changes: the manifest has its losses.
CHANGES = {"net.weights", "net.json"}

MODELS = (
    networks.sequences, networks.resets, networks.layers, networks.camera, networks.separable,
    networks.normalised, networks.residual, networks.unet,
)  # fmt: skip


@pytest.mark.parametrize("dtype", ["int16", "int8"])
@pytest.mark.parametrize("make", MODELS)
def test_two_trainings_have_the_same_code(
    tmp_path: Path, make: Callable[[], Model], dtype: str
) -> None:
    """Where the second one takes over the scales of the first."""
    isa = ISAS[(MODELS.index(make) + 3 * (dtype == "int8")) % len(ISAS)]
    given = {"dtype": dtype, "isa": isa, "many": "4"}
    one = compiled(tmp_path, make(), **given)
    for zeros in (False, True):
        other = compiled(tmp_path, networks.retrained(make(), zeros=zeros), ranges_of(one), **given)
        assert different(one, other) == CHANGES
        assert ranges_of(other) == ranges_of(one)


def test_scales_of_its_own_are_others(tmp_path: Path) -> None:
    """So is the code then."""
    one, other = (
        compiled(tmp_path, model, isa="generic")
        for model in (networks.layers(), networks.retrained(networks.layers()))
    )
    assert ranges_of(one) != ranges_of(other)
    assert "net.c" in different(one, other)


def same_bits(one: Compiled, other: Compiled, options: Options) -> None:
    """The program of one network computes another one with the weights of that."""
    toolchain = find_toolchain(options)
    runner = need_runner(toolchain)
    samples = seeded_samples(other.source.graph, 3)
    files = {**one.files, "net.weights": other.files["net.weights"]}
    with network_program(one.source, files, toolchain, samples) as program:
        found = program.run(runner)
    for sample, outputs in zip(samples, found, strict=True):
        for name, expected in evaluate(other.source.graph, sample).items():
            np.testing.assert_array_equal(outputs[name], expected)


@pytest.mark.parametrize("target", ["generic", "sse2", "avx2", "neon64"])
@pytest.mark.parametrize("dtype", ["int16", "int8"])
def test_code_computes_with_the_weights_that_it_is_given(
    tmp_path: Path, target: str, dtype: str
) -> None:
    """To the last bit, as all layers are integers."""
    need_toolchain(target)
    model = networks.separable()
    given = {"dtype": dtype, "isa": target, "io_type": "raw"}
    one = compiled(tmp_path, model, **given)
    other = compiled(tmp_path, networks.retrained(model), ranges_of(one), **given)
    same_bits(one, other, make_options(tmp_path / "net.h5", {"isa": target}))


def test_a_network_of_other_layers_has_other_scales(tmp_path: Path) -> None:
    ranges = ranges_of(compiled(tmp_path, networks.layers(), isa="generic"))
    for wrong in (ranges[:-1], [*ranges, ranges[0]]):
        with pytest.raises(OptionError, match="those of other layers"):
            compiled(tmp_path, networks.layers(), wrong, isa="generic")


def test_scales_that_lose_too_much_are_refused(tmp_path: Path) -> None:
    """Values that are larger than those of the first training are cut off."""
    ranges = ranges_of(compiled(tmp_path, networks.layers(), isa="generic"))
    narrow = [[bound, unit / 50] for bound, unit in ranges]
    with pytest.raises(OptionError, match="more than --max-loss"):
        compiled(tmp_path, networks.layers(), narrow, isa="generic", max_loss="0.01")


# ---- Stored integers ----


def stored(folder: Path, make: Callable[[], Any], isa: str) -> Compiled:
    m = pytest.importorskip("frontends.onnx_models")
    file = m.write(folder / "net.onnx", make())
    return compile_model(make_options(file, {"isa": isa, "weights": "any", "many": "2"}))


def extreme(make: Callable[[], Any]) -> Any:
    """A network with what few instructions compute right: the least integers among its weights, and
    large scales; biases are zeros.
    """
    proto = make()
    for tensor in proto.graph.initializer:
        name, data = tensor.name, tensor.raw_data
        if name.endswith("/w/q"):
            tensor.raw_data = b"\x80\x80" + data[2:]
        elif name.endswith("/b/q"):
            tensor.raw_data = bytes(len(data))
        elif name.endswith(("/w/s", "/b/s")):
            tensor.raw_data = (np.frombuffer(data, np.float32) * 2.0**20).astype("<f4").tobytes()
    return proto


def stored_networks() -> Sequence[Callable[[], Any]]:
    qdq = pytest.importorskip("quantization.test_qdq")
    return (
        lambda: qdq.camera("int8"), qdq.camera, lambda: qdq.separable("int8"), qdq.plain,
        lambda: qdq.words("int16", 8),
    )  # fmt: skip


@pytest.mark.parametrize("isa", ISAS)
def test_stored_integers_with_the_same_scales_have_the_same_code(tmp_path: Path, isa: str) -> None:
    for make in stored_networks():
        one, *others = (stored(tmp_path, make, isa), stored(tmp_path, make, isa),
                        stored(tmp_path, partial(extreme, make), isa))  # fmt: skip
        assert all(different(one, other) <= CHANGES for other in others)
        assert all("net.weights" in different(one, other) for other in others)


@pytest.mark.parametrize("target", ["sse2", "avx2", "neon64"])
def test_stored_weights_of_another_file_are_multiplied(tmp_path: Path, target: str) -> None:
    need_toolchain(target)
    for make in stored_networks()[:3]:
        one, other = (
            stored(tmp_path, make, target), stored(tmp_path, partial(extreme, make), target)
        )  # fmt: skip
        toolchain = find_toolchain(make_options(tmp_path / "net.onnx", {"isa": target}))
        samples = seeded_samples(other.source.graph, 2)
        files = {**one.files, "net.weights": other.files["net.weights"]}
        with network_program(one.source, files, toolchain, samples) as program:
            found = program.run(need_runner(toolchain))
        for sample, outputs in zip(samples, found, strict=True):
            for name, expected in evaluate(other.source.graph, sample).items():
                np.testing.assert_allclose(outputs[name], expected, rtol=1e-5, atol=1e-6)
