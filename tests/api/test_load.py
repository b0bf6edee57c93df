"""`cannery.load`: a network as a Python callable."""

from __future__ import annotations

import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cannery
from cannery.errors import CanneryError, OptionError, ToolchainError
from cannery.ir.evaluate import evaluate
from cannery.options import make_options
from cannery.pipeline import load_model
from needs import need_toolchain
from tiny_models import tiny_image as image


def test_computes_what_the_reference_does(model: Path) -> None:
    net = cannery.load(model)
    graph = load_model(make_options(model, {}))
    expected = evaluate(graph, {"image": image()})
    (value,) = expected.values()
    found = net(image())
    assert found.dtype == np.float32
    assert np.abs(found - value).max() < 1e-5 * np.abs(value).max()


def test_ports(model: Path) -> None:
    net = cannery.load(str(model), isa="generic")
    assert [(p.name, p.shape, p.dtype.name) for p in net.inputs] == [
        ("image", (1, 8, 8, 1), "float32")
    ]
    assert [(p.shape, p.dtype.name) for p in net.outputs] == [((1, 8, 8, 4), "float32")]


def test_ways_to_give_an_input(model: Path) -> None:
    net = cannery.load(model)
    first = net(image())
    for other in (net(image=image()), net(image()[0]), net(image().astype(np.float64))):
        assert np.array_equal(first, other)
    strided = np.repeat(image(), 2, axis=2)[:, :, ::2]
    assert np.array_equal(first, net(strided))


def test_options_are_those_of_the_command_line(model: Path) -> None:
    net = cannery.load(model, batch=2, input_dtype={"image": "uint8"}, scale=1 / 255)
    assert [(p.shape, p.dtype.name) for p in net.inputs] == [((2, 8, 8, 1), "uint8")]
    with pytest.raises(OptionError, match="max-error"):
        cannery.load(model, max_error=-1)


def test_one_name_is_a_list_of_one(model: Path) -> None:
    net = cannery.load(model, input_view="image", cflags="-O1", isa=["generic"])
    assert net(image()).shape == (1, 8, 8, 4)
    with pytest.raises(OptionError, match=r"'dims'.*given twice"):
        cannery.load(model, dim="n=3", dims={"n": 3})
    with pytest.raises(OptionError, match="3 is neither a path"):
        cannery.load(3)  # type: ignore[arg-type]


def test_options_have_the_names_of_the_command_line(model: Path) -> None:
    for name in ("dim", "dims"):
        with pytest.raises(OptionError, match="no open dimension is called 'n'"):
            cannery.load(model, **{name: {"n": 3}})
    with pytest.raises(OptionError, match=r"no option is called 'quantise'.*quantize"):
        cannery.load(model, quantise="int8")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "input 'image' is missing"),
        ({"picture": image()}, "'picture' is not an input .*image"),
        ({"image": image(), "threads": 4}, "'threads' is not an input .*option of load"),
        ({"image": image()[:, :4]}, r"shape \(1, 4, 8, 1\)"),
        ({"image": image().astype(np.int32)}, "element type int32.*astype"),
        ({"image": None}, "NoneType is not an array"),
        ({"image": "photo.png"}, "str is not an array"),
    ],
)
def test_wrong_inputs(model: Path, given: dict[str, object], message: str) -> None:
    net = cannery.load(model)
    with pytest.raises(OptionError, match=message):
        net(**given)  # type: ignore[arg-type]


def test_too_many_inputs(model: Path) -> None:
    with pytest.raises(OptionError, match="2 inputs given"):
        cannery.load(model)(image(), image())


def test_threads_do_not_disturb_each_other(model: Path) -> None:
    net = cannery.load(model)
    expected = [net(image(k)) for k in range(8)]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(5):
            for a, b in zip(pool.map(net, [image(k) for k in range(8)]), expected, strict=True):
                assert np.array_equal(a, b)


def test_second_load_builds_nothing(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cannery.load(model, isa="generic")
    monkeypatch.setattr("cannery.pipeline.compile_model", lambda *_: pytest.fail("made again"))
    cannery.load(model, isa="generic")


def test_what_is_built_otherwise_is_built_anew(
    model: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Other flags or other code need a new library."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    built: list[str] = []

    def write(library: Path, data: bytes) -> None:
        built.append(str(library))
        raise OSError(28, "nothing has to be built for this")

    monkeypatch.setattr("cannery.api.library._build", lambda *_: b"")
    monkeypatch.setattr("cannery.api.store._write", write)
    settings: list[dict[str, Any]] = [
        {}, {"cflags": "-O1"}, {"cflags": "-O1 -g"}, {"batch": 2}, {"isa": "generic"},
        {"name": "other"},
    ]  # fmt: skip
    for setting in settings:
        with pytest.raises(ToolchainError):
            cannery.load(model, **setting)
    cached = [path for path in built if str(tmp_path) in path]
    assert len(set(cached)) == len(settings)


def test_a_target_of_another_machine(model: Path) -> None:
    for target in ("armv7-a9", "atom32"):
        need_toolchain(target)
        with pytest.raises(ToolchainError, match="cannot be loaded"):
            cannery.load(model, target=target)


def test_no_model(tmp_path: Path) -> None:
    with pytest.raises(CanneryError, match=r"nothing\.h5"):
        cannery.load(tmp_path / "nothing.h5")


def test_unknown_attribute() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        cannery.nothing  # noqa: B018


def test_a_cache_that_cannot_be_written(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert cannery.load(model, isa="generic")(image()).dtype == np.float32
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    with pytest.raises(ToolchainError, match=r"nowhere.*No such file.*TMPDIR"):
        cannery.load(model, isa="generic")
