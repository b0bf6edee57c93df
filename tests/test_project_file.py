"""cannery.toml: where it is found, what counts, what is refused, and what errors say."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

import cannery.cli
from cannery.cli import invoke
from cannery.errors import OptionError
from cannery.ir.tensor import DType
from cannery.options import SPECS, make_options
from cannery.project_file import WRITTEN, merged_options, project_options
from tiny_models import write_tiny_model

WHOLE = """
[defaults]
target = "generic"  # for commands
max-error = 1e-3
calibration = "samples.npz"

[model."ball.h5"]
MAX_LINES = 500
input_dtype = { image = "uint8" }
scale = [0.5]

[model."nets/ball.h5"]
isa = "avx2"
quantize = "int8"
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository with a folder `nets`."""
    (tmp_path / "repo" / ".git").mkdir(parents=True)
    (tmp_path / "repo" / "nets").mkdir()
    return tmp_path / "repo"


def said(project: Path, text: str, model: str = "nets/ball.h5") -> dict[str, object]:
    (project / "cannery.toml").write_text(text)
    found = project_options(project / model)
    assert found and found.path == project / "cannery.toml"
    return dict(found.raw)


def test_what_counts_for_a_model(project: Path) -> None:
    samples = str(project / "samples.npz")
    other = said(project, WHOLE, "nets/other.h5")
    assert other == {"target": "generic", "max_error": 1e-3, "calibration": samples}
    ball = said(project, WHOLE, "ball.h5")
    assert ball == {**other, "max_lines": 500, "input_dtype": {"image": "uint8"}, "scale": [0.5]}
    nested = said(project, WHOLE)
    assert nested == {
        **{k: v for k, v in ball.items() if k != "target"}, "isa": "avx2", "quantize": "int8",
    }  # fmt: skip
    options = make_options(Path("ball.h5"), nested)
    assert (options.isa, options.quantize) == (("avx2",), DType.INT8)
    assert (options.scale, options.calibration) == (0.5, Path(samples))


def test_the_command_line_goes_first(project: Path) -> None:
    (project / "cannery.toml").write_text(WHOLE)
    found = project_options(project / "nets" / "ball.h5")
    assert found is not None
    raw = merged_options(
        found, {"max_error": "1e-2", "target": "cortex-m7", "isa": (), "name": None}
    )
    assert (raw["max_error"], raw["target"]) == ("1e-2", "cortex-m7") and "isa" not in raw
    assert raw["calibration"] == str(project / "samples.npz")


def test_calibration_is_for_networks_that_are_quantised(project: Path) -> None:
    (project / "cannery.toml").write_text('[defaults]\ncalibration = "a.npz"\nmax-loss = 0.5\n')
    found = project_options(project / "nets" / "ball.h5")
    assert found is not None
    assert merged_options(found, {}) == {}
    assert merged_options(found, {"quantize": "int16"}) == {**found.raw, "quantize": "int16"}
    assert merged_options(found, {"calibration": "b.npz"}) == {"calibration": "b.npz"}


def test_the_nearest_file_counts_up_to_the_repository(project: Path) -> None:
    model = project / "nets" / "ball.h5"
    (project.parent / "cannery.toml").write_text("[defaults]\nbatch = 9\n")
    assert project_options(model) is None, "it is outside of the repository"
    assert project_options(project.parent / "ball.h5") is not None
    for number, path in enumerate(
        ("pyproject.toml", "cannery.toml", "nets/pyproject.toml", "nets/cannery.toml"), 2
    ):
        table = "tool.cannery.defaults" if "pyproject" in path else "defaults"
        (project / path).write_text(f"[{table}]\nbatch = {number}\n")
        found = project_options(model)
        assert found and found.path == project / path and found.raw == {"batch": number}


def test_a_pyproject_of_others_is_passed_over(project: Path) -> None:
    (project / "nets" / "pyproject.toml").write_text("[tool.other\n")
    (project / "pyproject.toml").write_text('[tool.cannery.model."ball.h5"]\nbatch = 2\n')
    found = project_options(project / "nets" / "ball.h5")
    assert found and found.raw == {"batch": 2}


@pytest.mark.parametrize(
    ("text", "where", "words"),
    [
        ('[defaults]\nquantise = "int8"\n', ":2: ", ["'quantise'", "did you mean 'quantize'?"]),
        ('[default]\nname = "x"\n', ":1: ", ["'default'", "did you mean 'defaults'?"]),
        ('\n[defaults]\n\nbatch = "many"\n', ":4: ", ["batch: 'many' is not a whole number"]),
        ("[defaults]\nparallel = 1\n", ":2: ", ["true or false"]),
        ("[defaults]\nbatch = 2020-01-01\n", ":2: ", ["neither text nor a number"]),
        ("[defaults]\nbatch = 1\n[defaults\n", ":3: ", ["not TOML"]),
        ("[defaults]\ndim = 5\n", ":2: ", ["not of the form name=value"]),
        ('[defaults]\nname = "x"\n', ":2: ", ['move it to [model."ball.h5"]']),
        ("model = 3\n", ":1: ", ["is not a section"]),
        ('[model]\n"ball.h5" = 3\n', ":2: ", ["is not a section"]),
        ('[defaults]\nbatch = 1\n[model]\n"ball.h5" = 3\n', ":4: ", ["is not a section"]),
        ('[model]\n"ball.h5" = { quantize = "int7" }\n', ":2: ", ["did you mean 'int8'?"]),
        ('[model."a.h5"]\nmax_error = 1\nmax-error = 2\n', ":3: ", ["given twice"]),
        ('[model."a.h5"]\nbatch = 1\n[model."b.h5"]\nbatch = 0\n', ":4: ", ["batch: '0'"]),
        ('[defaults]\nisa = ["sse2", "avx9"]\n', ":2: ", ["isa: unknown instruction set 'avx9'"]),
        ('[defaults]\ntarget = "nao9"\n', ":2: ", ["target: unknown target 'nao9'"]),
        ('[defaults]\ntuning = "../x"\n', ":2: ", ["not within"]),
        ('[model."a.h5"]\nweights = "/tmp/x"\n', ":2: ", ["not within", "give --weights"]),
    ],
)  # fmt: skip
def test_errors_name_file_and_line(project: Path, text: str, where: str, words: list[str]) -> None:
    with pytest.raises(OptionError) as caught:
        said(project, text)
    told = str(caught.value)
    assert told.startswith(f"{project / 'cannery.toml'}{where}") and "\n" not in told
    for word in words:
        assert word in told


@pytest.mark.parametrize("spec", [s for s in SPECS if not s.cmake], ids=lambda spec: spec.name)
def test_nothing_that_starts_programs_is_read(project: Path, spec: object) -> None:
    """A repository may come from anybody."""
    key = getattr(spec, "name", "")
    with pytest.raises(OptionError, match="not read from files"):
        said(project, f'[defaults]\n{key} = "touch /tmp/x"\n')


def test_it_is_known_which_paths_are_written_to() -> None:
    """Whoever adds an option with a path decides: what is written stays in the project."""
    read = {"peepholes", "calibration", "class_names"}
    assert {spec.name for spec in SPECS if spec.is_path} == read | set(WRITTEN)


def test_a_link_does_not_lead_records_outside(project: Path) -> None:
    (project / "records").symlink_to(project.parent)
    with pytest.raises(OptionError, match="not within"):
        said(project, '[defaults]\ntuning = "records"\n')


def test_what_cannot_be_read(project: Path) -> None:
    (project / "cannery.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(OptionError, match="not text"):
        project_options(project / "nets" / "ball.h5")
    if os.geteuid():
        (project / "cannery.toml").chmod(0)
        with pytest.raises(OptionError, match="cannot be read"):
            project_options(project / "nets" / "ball.h5")


def test_commands_read_it_and_say_so(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = write_tiny_model(project / "nets" / "ball.h5")
    path = project / "cannery.toml"
    path.write_text('[model."ball.h5"]\nname = "kick"\nbatch = 3\nisa = "generic"\n')
    out = project / "out"
    depfile = out / "kick.d"
    words = ["compile", str(model), "-o", str(out), "--depfile", str(depfile)]
    assert invoke(words) == 0
    manifest = json.loads((out / "kick.json").read_text())
    assert manifest["isa"] == "generic"
    assert str(path) in depfile.read_text().replace("\\", "")
    assert invoke([*words, "--name", "pass"]) == 0
    assert (out / "pass.h").exists()
    capsys.readouterr()
    assert invoke(["inspect", str(model)]) == 0
    assert f"Options from {path} apply" in capsys.readouterr().out
    assert invoke(["inspect", str(model), "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert found["project"] == str(path) and found["inputs"]["image"].startswith("float32[3x")
    assert invoke(["--no-project", "inspect", str(model), "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert found["project"] is None and found["inputs"]["image"].startswith("float32[1x")


def test_every_command_with_options_reads_it() -> None:
    """The demo has no model of the user's, and `weights` knows the library's options."""
    for path in sorted(Path(cannery.cli.__file__).parent.glob("*.py")):
        if path.name not in ("arguments.py", "demo_project.py", "weights.py"):
            assert "make_options" not in path.read_text(), path.name
