"""The documents say what the code does: tables, paths and names in them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from docs.generate import generated

from cannery.cli import COMMANDS, cli
from cannery.errors import OptionError
from cannery.frontends.audio.nam_activations import activation_names
from cannery.frontends.audio.nam_file import ARCHITECTURES
from cannery.frontends.audio.rtneural_layers import LAYERS
from cannery.frontends.keras.layers.base import layer_names
from cannery.frontends.keras.layers.functions import function_names
from cannery.frontends.onnx.operators.base import operator_names
from cannery.frontends.tflite.scope import operator_names as tflite_names
from cannery.options import SPECS, make_options
from cannery.pipeline import compile_model
from cannery.resources import toolchains_dir
from cannery.target.targets import find_target

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = {str(path.relative_to(DOCS)): path.read_text() for path in DOCS.rglob("*.md")}
DOCUMENTS = {
    **PAGES, **{name: (ROOT / name).read_text() for name in ("README.md", "ARCHITECTURE.md")}
}  # fmt: skip
MODELS = PAGES["reference/models.md"]

#: Other names of layers that the table gives once.
ALIASES = re.compile(
    r"^(Convolution|(Max|Avg|GlobalMax|GlobalAvg)Pool[123]D|SeparableConvolution|Grouped)"
)


def section(marker: str) -> str:
    """The table after the comment of the page about models that begins with `marker`."""
    found = re.search(rf"<!-- {marker}: [^>]*-->\n\n((?:\|.*\n)+)", MODELS)
    assert found, f"reference/models.md has no table after <!-- {marker}"
    return found[1]


@pytest.mark.parametrize(("path", "text"), generated().items(), ids=lambda v: Path(v).name)
def test_generated_parts(path: Path, text: str) -> None:
    """`python docs/generate.py` writes them."""
    assert path.read_text() == text


def test_the_table_of_layers() -> None:
    named = set(re.findall(r"\b[A-Z]\w*", re.sub(r"\(.*?\)", "", section("layers"))))
    assert named == {name for name in layer_names() if not ALIASES.match(name)}


def test_the_table_of_onnx_operators() -> None:
    named = re.findall(r"\b[A-Z]\w*", re.sub(r"\(.*?\)", "", section("onnx")))
    assert sorted(named) == list(operator_names())


def test_the_table_of_tflite_operators() -> None:
    assert sorted(re.findall(r"\b(?:CUSTOM )?[A-Z]\w*", section("tflite"))) == list(tflite_names())


def test_the_list_of_activation_functions() -> None:
    found = re.search(r"^Activation functions: ([^.]*)\.", MODELS, re.MULTILINE)
    assert found
    assert tuple(re.findall(r"\w+", found[1])) == function_names()


def test_the_lists_of_audio() -> None:
    audio = MODELS[MODELS.index("## Audio") : MODELS.index("## TensorFlow Lite")]
    (activations,) = re.findall(r"^Activations: ([^.]*)\.", audio, re.MULTILINE)
    assert {*re.findall(r"\w+", activations), "LeakyHardTanh"} == set(activation_names())
    (layers,) = re.findall(r"from Keras\): ([^;]*);", audio)
    assert set(re.findall(r"[\w-]+", layers)) == set(LAYERS)
    named = ", ".join(re.findall(r"^\| ([A-Z][\w, ]+) \|", audio, re.MULTILINE))
    assert sorted(named.split(", ")) == sorted(ARCHITECTURES)


def _declarations(text: str) -> str:
    """C code without comments and line breaks."""
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    return re.sub(r"\s+", " ", text)


def test_the_c_interface() -> None:
    text = PAGES["reference/c.md"]
    (snippet,) = re.findall(r"<!-- interface -->\n```c\n(.*?)```", text, re.DOTALL)
    options = make_options(ROOT / "examples" / "ball" / "ball.h5", {"isa": ("generic",)})
    header = _declarations(compile_model(options).files["ball.h"].decode())
    told = [line for line in re.sub(r"/\*.*?\*/", "", snippet).splitlines() if line.strip()]
    assert len(told) == 8
    missing = [line for line in told if _declarations(line).strip() not in header]
    assert missing == [], header


def test_every_toolchain_file_is_listed() -> None:
    text = PAGES["how-to/cross-compile.md"]
    files = {path.name for path in toolchains_dir().glob("*.cmake")} - {"cross.cmake"}
    assert set(re.findall(r"^\| `([\w-]+\.cmake)`", text, re.MULTILINE)) == files


@pytest.mark.parametrize("name", DOCUMENTS)
def test_commands_in_documents_exist(name: str) -> None:
    named = set(re.findall(r"(?:\$ |bin/|`|\()cannery ([a-z][a-z-]*)", DOCUMENTS[name]))
    assert named <= set(COMMANDS)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_options_in_documents_exist(name: str) -> None:
    words = {word for spec in SPECS for word in (spec.flag, spec.cmake_keyword)}
    words |= {"AUTOTUNE", "CONTEXT", "FLAGS_FROM", "MODEL", "EXPORT", "INCLUDES"}
    flags = set[str]()
    for line in re.findall(r"\$ cannery (.*)|`cannery ([^`]*)`", DOCUMENTS[name]):
        flags |= set(re.findall(r"(?<=\s)--[a-z-]+", " ".join(line)))
    assert {flag for flag in flags if flag not in words} <= OWN_FLAGS
    for call in re.findall(r"add_nn_model\(([^)]*)\)", DOCUMENTS[name]):
        keywords = re.findall(r"(?<=\s)[A-Z][A-Z_]{2,}(?![A-Za-z=])", call)
        assert set(keywords) <= words


def _own_flags() -> Iterator[str]:
    for parameter in cli.params:
        yield from parameter.opts
    for name in COMMANDS:
        command = cli.get_command(click.Context(cli), name)
        assert command is not None
        for parameter in command.get_params(click.Context(command)):
            yield from parameter.opts


OWN_FLAGS = set(_own_flags())

#: Names of files that users have, not of files that are here.
USERS = {"CMakeLists.txt", "op.py", "direct_c.py"}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_paths_in_documents_exist(name: str) -> None:
    words = re.findall(r"`([\w./-]+)`", DOCUMENTS[name])
    paths = [w for w in words if re.fullmatch(r"[\w-]+(/[\w.-]+)*/?", w) and "/" in w]
    paths += [w for w in words if w.endswith((".md", ".py"))]
    places = (ROOT, ROOT / "generator" / "cannery", ROOT / "runtime" / "include")
    missing = [p for p in paths if not any((place / p).exists() for place in places)]
    assert set(missing) - USERS == set()


@pytest.mark.parametrize("name", DOCUMENTS)
def test_links_lead_somewhere(name: str) -> None:
    """Also those to a heading; `mkdocs build --strict` sees the pages alone."""
    here = (DOCS if name in PAGES else ROOT) / name
    text = re.sub(r"```.*?```", "", DOCUMENTS[name], flags=re.DOTALL)
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if link.startswith("https://"):
            continue
        file, _, heading = link.partition("#")
        target = (here.parent / file).resolve() if file else here
        assert target.is_file(), link
        if heading:
            headings = re.findall(r"^#+ (.*)$", target.read_text(), re.MULTILINE)
            assert heading in {
                re.sub(r"[^\w -]", "", h.lower()).strip().replace(" ", "-") for h in headings
            }


def test_every_page_is_in_the_navigation() -> None:
    listed = re.findall(r"^ +- .*: ([\w/-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(PAGES)


def test_the_readme_is_short() -> None:
    assert len(re.sub(r"```.*?```", "", DOCUMENTS["README.md"], flags=re.DOTALL).split()) < 480


def test_boards_get_the_target_that_the_page_names() -> None:
    rows = re.findall(
        r"^\| ([^|]+) \| `([\w-]+)`",
        PAGES["reference/targets.md"].partition("## Which one")[2],
        re.MULTILINE,
    )
    assert len(rows) >= 10
    for boards, target in rows:
        for board in boards.split(","):
            name = re.sub(r" and older| K1", "", board.strip()).replace(" ", "-")
            with pytest.raises(OptionError) as caught:
                find_target(name.replace("Raspberry-Pi-", "raspberry-pi"))
            assert target in str(caught.value), board


def test_names_in_the_architecture_exist() -> None:
    sources = [*(ROOT / "generator").rglob("*.py"), *(ROOT / "runtime").rglob("*.h")]
    code = "\n".join(path.read_text() for path in sources)
    names = re.findall(r"`(@?\w{3,})`", DOCUMENTS["ARCHITECTURE.md"])
    assert [n for n in names if n.removeprefix("@") not in code] == []


def test_messages_on_the_page_of_errors_exist() -> None:
    told = re.findall(r"^\| `([^`]+)` \|", PAGES["reference/errors.md"], re.MULTILINE)
    assert len(told) >= 10
    code = "\n".join(path.read_text() for path in (ROOT / "generator").rglob("*.py"))
    assert [text for text in told if text not in code] == []
