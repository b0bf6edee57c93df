"""What `cannery inspect` says that a project writes is what the generated code has."""

from __future__ import annotations

import re
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from cannery.cli import invoke
from cannery.options import make_options
from cannery.options_text import cmake_words


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """An image network whose tensors have names that C does not."""
    node = helper.make_node("Relu", ["Input Layer:0"], ["4_boxes"])
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 3, 4, 5])
        for name in ("Input Layer:0", "4_boxes")
    ]
    graph = helper.make_graph([node], "net", ends[:1], ends[1:])
    path = tmp_path / "net.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    return path


@pytest.mark.parametrize(
    "words",
    [(), ("--rename", "4_boxes=Boxes"),
     ("--input-view", "Input Layer:0", "--io-layout", "nhwc"), ("--name", "other")],
)  # fmt: skip
def test_the_call_is_that_of_the_header(
    model: Path, words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert invoke(["inspect", str(model), *words]) == 0
    name, given = re.findall(r"^ +(\w+)_run\((.*)\);$", capsys.readouterr().out, re.M)[0]
    out = model.parent / "out"
    assert invoke(["compile", str(model), "-o", str(out), "--isa", "generic", *words]) == 0
    declared = re.findall(rf"^void {name}_run\((.*)\);$", (out / f"{name}.h").read_text(), re.M)[0]
    assert given.split(", ") == re.findall(r"(\w+)(?:,|$)", declared)


def test_options_are_arguments_of_cmake(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--input-dtype", "Input Layer:0=uint8", "--scale", "0.5", "--isa", "sse2",
             "--isa", "avx2", "--parallel", "--cc", "cc"]  # fmt: skip
    assert invoke(["inspect", str(model), *words]) == 0
    line = next(s for s in capsys.readouterr().out.splitlines() if s.startswith("CMake:"))
    assert line.partition("add_nn_model(")[2] == (
        'net MODEL net.onnx INPUT_DTYPE "Input Layer:0=uint8" SCALE 0.5 PARALLEL)'
    )


def test_what_cmake_would_expand_is_quoted(model: Path) -> None:
    options = make_options(model, {"rename": ("a$b=c",)})
    assert cmake_words(options, ("model", "name")) == ["RENAME", r'"a\$b=c"']
