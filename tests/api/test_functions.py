"""`cannery.compile`, `tune` and `verify`, and what `help(cannery)` shows."""

from __future__ import annotations

import inspect
import pydoc
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import cannery
from cannery.api.options import ModelOptions
from cannery.cli import invoke
from cannery.errors import CanneryError, OptionError
from cannery.measure.measure import Protocol
from cannery.options import SPECS
from needs import need_program
from tiny_models import tiny_image, write_tiny_model

FAST = Protocol(first=2, more=2, sample_us=20.0, limit=0.01)


@pytest.fixture
def own(tmp_path: Path, model: Path) -> Path:
    """A model in its own folder."""
    need_program("ninja")
    return write_tiny_model(tmp_path / "own.h5", seed=7)


def test_compiles_what_the_command_does(own: Path, tmp_path: Path) -> None:
    found = cannery.compile(own, tmp_path / "out", target="generic")
    assert invoke(["compile", str(own), "-o", str(tmp_path / "other"), "--target", "generic"]) == 0
    files = {
        p.relative_to(tmp_path / "other").as_posix() for p in (tmp_path / "other").rglob("*.*")
    }
    assert set(found.files) == set(found.changed) == files
    for name in files:
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "other" / name).read_bytes()
    assert found.folder == tmp_path / "out"
    assert "own.h5 was never tuned for generic" in found.notes[0]
    assert cannery.compile(str(own), str(tmp_path / "out"), target="generic").changed == ()


def test_compiles_bytes(own: Path, tmp_path: Path) -> None:
    found = cannery.compile(own.read_bytes(), tmp_path / "out", target="generic", name="ball")
    assert {"ball.c", "ball.h", "ball.json"} <= set(found.files)
    assert not any("tuned" in note for note in found.notes)


def test_a_folder_that_is_a_file(own: Path) -> None:
    with pytest.raises(OptionError, match=r"own\.h5 is not a folder"):
        cannery.compile(own, own, target="generic")
    with pytest.raises(OptionError, match=r"own\.h5 is not a folder"):
        cannery.compile(own, own / "deeper", target="generic")
    with pytest.raises(OptionError, match=r"cannot write: .*name another one"):
        cannery.compile(own, "/proc/none", target="generic")


def test_verifies(own: Path) -> None:
    found = cannery.verify(own, target="generic", layers=True)
    assert found.passed
    assert 0 < found.errors["scores"] < found.max_error == 1e-4
    assert (found.samples, found.target) == (16, "generic")
    assert [layer.fault for layer in found.layers] == [""]


def test_verifies_against_arrays(own: Path) -> None:
    images = tiny_image(1, 3)
    scores = cannery.load(own)(images)
    right = cannery.verify(own.read_bytes(), inputs={"image": images}, against={"scores": scores})
    assert right.passed
    assert right.samples == 3
    wrong = cannery.verify(own, inputs={"image": images}, against={"scores": scores + 1})
    assert not wrong.passed
    with pytest.raises(OptionError, match=r"against: it has 2 samples, the inputs have 3"):
        cannery.verify(own, inputs={"image": images}, against={"scores": scores[:2]})
    with pytest.raises(OptionError, match="no inputs that belong to these outputs"):
        cannery.verify(own, against={"scores": scores})
    with pytest.raises(OptionError, match=r"samples: .*unknown array 'picture'"):
        cannery.verify(own, inputs={"picture": images})
    with pytest.raises(OptionError, match=r"inputs: ndarray is neither .*inputs=\{name: array\}"):
        cannery.verify(own, inputs=images)  # type: ignore[arg-type]


def test_tunes(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cannery.tuning.search.Protocol", lambda limit: FAST)
    monkeypatch.setattr("cannery.tuning.confirm.ROUNDS", 2)
    monkeypatch.setattr("cannery.tuning.confirm.TURN_SECONDS", 0.005)
    found = cannery.tune(own, isa="generic")
    assert found.passed
    assert found.changed
    assert found.record == own.with_name("own.generic.tuning.json")
    assert found.record.exists()
    assert found.measured > 0
    assert [step.op for step in found.steps] == ["Conv"]
    assert found.steps[0].candidates > 1
    assert found.error is not None
    assert found.error <= found.max_error
    cannery.compile(own, own.parent / "out", isa="generic", locked=True)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"budget": -1}, "budget: -1 is not a number of seconds"),
        ({"budget": "60"}, "budget: '60' is not a number of seconds"),
        ({"budget": float("inf")}, "budget: inf is not"),
        ({"context": "hot"}, "context: 'hot' is neither 'warm' nor 'cold'"),
        ({"tuning": "/nowhere"}, "there is no folder /nowhere"),
        ({"tunning": "x"}, r"tune: no option is called 'tunning' \(did you mean 'tuning'"),
    ],
)
def test_wrong_arguments_of_tune(own: Path, given: dict[str, Any], message: str) -> None:
    with pytest.raises(CanneryError, match=message):
        cannery.tune(own, isa="generic", **given)
    with pytest.raises(OptionError, match="has no place for its record"):
        cannery.tune(own.read_bytes(), isa="generic")


def test_options_are_known_to_type_checkers() -> None:
    flags = {spec.flag.removeprefix("--").replace("-", "_") for spec in SPECS}
    assert set(ModelOptions.__annotations__) == flags


def test_help_shows_everything() -> None:
    text = pydoc.plain(pydoc.render_doc(cannery))
    for name in cannery.__all__:
        assert hasattr(cannery, name)
        assert name in text or name == "__version__"
    for name in ("load", "compile", "tune", "verify", "evaluate", "report"):
        function = getattr(cannery, name)
        assert f"    {name}(model" in text
        assert len(inspect.getdoc(function) or "") > 200
        assert "return" in function.__annotations__


@pytest.mark.parametrize("data", [b"", b"no model", b"\x89HDF\r\n\x1a\n" + bytes(20)])
def test_errors_of_bytes_name_no_file(data: bytes, tmp_path: Path) -> None:
    for call in (
        lambda: cannery.load(data),
        lambda: cannery.compile(data, tmp_path),
        lambda: cannery.verify(data),
    ):
        with pytest.raises(CanneryError) as caught:
            call()
        told = str(caught.value)
        assert told.startswith("the bytes of the model: ") and "/" not in told.partition("(")[0]
        assert caught.value.args == (told,)


def test_importing_cannery_imports_nothing_else() -> None:
    """It imports no numpy, and no other module of Cannery."""
    program = (
        "import sys; before = set(sys.modules); import cannery; "
        "print(*sorted(set(sys.modules) - before))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    roots = {name.partition(".")[0] for name in done.stdout.split()}
    assert roots - sys.stdlib_module_names == {"cannery"}
    assert "cannery." not in done.stdout
    assert "typing" not in roots


def test_a_function_is_not_hidden_by_a_package() -> None:
    """Importing a package would put it in the place of a function of the same name."""
    packages = {p.parent.name for p in Path(cannery.__file__).parent.glob("*/__init__.py")}
    modules = {p.stem for p in Path(cannery.__file__).parent.glob("*.py")}
    assert not (packages | modules) & set(cannery.__all__)
