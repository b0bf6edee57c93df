"""The documents say what the code does: tables, paths and names in them.

`python tests/docs/test_documents.py` prints the README's table of options.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cannery.cli import COMMANDS
from cannery.frontends.keras_layers.base import layer_names
from cannery.frontends.keras_layers.functions import function_names
from cannery.frontends.onnx_ops.base import operator_names
from cannery.options import SPECS, make_options
from cannery.pipeline import compile_model
from cannery.resources import toolchains_dir

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
ARCHITECTURE = (ROOT / "ARCHITECTURE.md").read_text()
SEMANTICS = (ROOT / "docs" / "semantics.md").read_text()

#: Other names of layers that the table gives once.
ALIASES = re.compile(r"^(Convolution|(Max|Avg|GlobalMax|GlobalAvg)Pool[12]D|SeparableConvolution)")


def options_table() -> str:
    """The options of the command line and of add_nn_model() as the README shows them."""
    lines = ["| option | CMake | meaning |", "|---|---|---|"]
    for spec in SPECS:
        words = f"{spec.flag} {spec.metavar}".strip()
        keyword = f"`{spec.cmake_keyword}`" if spec.cmake else ""
        lines.append(f"| `{words}` | {keyword} | {spec.help} |")
    return "\n".join(lines) + "\n"


def section(marker: str) -> str:
    """The table behind the README's comment that begins with `marker`."""
    found = re.search(rf"<!-- {marker}: [^>]*-->\n\n((?:\|.*\n)+)", README)
    assert found, f"README.md has no table after <!-- {marker}"
    return found[1]


def test_the_table_of_options() -> None:
    assert section("options") == options_table()


def test_the_table_of_layers() -> None:
    named = set(re.findall(r"\b[A-Z]\w*", re.sub(r"\(.*?\)", "", section("layers"))))
    assert named == {name for name in layer_names() if not ALIASES.match(name)}


def test_the_table_of_onnx_operators() -> None:
    named = re.findall(r"\b[A-Z]\w*", re.sub(r"\(.*?\)", "", section("onnx")))
    assert sorted(named) == list(operator_names())


def test_the_list_of_activation_functions() -> None:
    found = re.search(r"^Activation functions: ([^.]*)\.", README, re.MULTILINE)
    assert found
    assert tuple(re.findall(r"\w+", found[1])) == function_names()


def _declarations(text: str) -> str:
    """C code without comments and line breaks."""
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    return re.sub(r"\s+", " ", text)


def test_the_c_interface() -> None:
    (snippet,) = re.findall(r"```c\n(#define BALL_WORKSPACE.*?)```", README, re.DOTALL)
    options = make_options(ROOT / "examples" / "ball" / "ball.h5", {"isa": ("generic",)})
    header = _declarations(compile_model(options).files["ball.h"].decode())
    told = [line for line in re.sub(r"/\*.*?\*/", "", snippet).splitlines() if line.strip()]
    assert len(told) == 8
    missing = [line for line in told if _declarations(line).strip() not in header]
    assert missing == [], header


def test_every_toolchain_file_is_listed() -> None:
    files = {path.name for path in toolchains_dir().glob("*.cmake")} - {"cross.cmake"}
    assert set(re.findall(r"^\| `([\w-]+\.cmake)`", README, re.MULTILINE)) == files


def test_commands_in_the_readme_exist() -> None:
    named = set(re.findall(r"(?:\$ |bin/|`|\()cannery ([a-z][a-z-]*)", README))
    assert named
    assert named <= set(COMMANDS)


@pytest.mark.parametrize(
    "text", [README, ARCHITECTURE, SEMANTICS], ids=["README", "ARCHITECTURE", "SEMANTICS"]
)
def test_paths_in_documents_exist(text: str) -> None:
    words = re.findall(r"`([\w./-]+)`", text)
    paths = [w for w in words if re.fullmatch(r"[\w-]+(/[\w.-]+)*/?", w) and "/" in w]
    paths += [w for w in words if w.endswith((".md", ".py"))]
    assert paths
    places = (ROOT, ROOT / "generator" / "cannery")
    missing = [p for p in paths if not any((place / p).exists() for place in places)]
    assert [p for p in missing if p not in ("op.py", "direct_c.py")] == []


def test_names_in_the_architecture_exist() -> None:
    sources = [*(ROOT / "generator").rglob("*.py"), *(ROOT / "runtime").rglob("*.h")]
    code = "\n".join(path.read_text() for path in sources)
    names = re.findall(r"`(@?\w{3,})`", ARCHITECTURE)
    assert [n for n in names if n.removeprefix("@") not in code] == []


if __name__ == "__main__":
    print(options_table(), end="")
