"""What model files say of themselves, and names of classes, in libraries and manifests."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from cannery.cli import invoke
from cannery.ctext.environment import c_comment, c_utf8
from cannery.errors import OptionError
from cannery.frontends.metadata import MAX_ENTRIES, MAX_VALUE, make_metadata, sound
from cannery.options import make_options
from cannery.pipeline import compile_model
from cannery.resources import ball_example_dir
from emit.c_programs import LANGUAGES, compile_file, link, run, write_all

BALL = ball_example_dir() / "ball.h5"

#: What a file may say to break out of C, of a line, of a terminal, or of an encoding.
HOSTILE = [
    '*/ int x; /*', 'a\\', 'a"b', "??/", "??)", "\x1b[31m", "a\nb\r\n#error", "\0", "\u202eabc",
    "\ud800", "\u2028x", "日本語", "é1", "\\u0041", "%s%n", "${x}", "\U0010ffff", "-->",
]  # fmt: skip

MAIN = """
#include "net.h"
#include <stdio.h>

int main(void)
{
    static const char *const keys[] = { %s };
    for (int k = 0; k < %d; ++k) {
        const char *const value = net_metadata(keys[k]);
        if (!value) {
            return 1;
        }
        puts(value);
    }
    if (net_metadata("") || net_metadata("onnx") || net_metadata("onnx.opset.")) {
        return 2;
    }
    if (net_class_name(-1) || net_class_name(NET_CLASSES)) {
        return 3;
    }
    for (int k = 0; k < NET_CLASSES; ++k) {
        puts(net_class_name(k));
    }
    return 0;
}
"""


def write_onnx(path: Path) -> Path:
    """A model whose descriptions are hostile; its output has two elements."""
    onnx = pytest.importorskip("onnx")
    info = onnx.helper.make_tensor_value_info
    weights = onnx.numpy_helper.from_array(np.eye(2, dtype=np.float32), "w")
    nodes = [onnx.helper.make_node("MatMul", ["x", "w"], ["y"])]
    graph = onnx.helper.make_graph(
        nodes, "net */", [info("x", 1, [1, 2])], [info("y", 1, [1, 2])], [weights]
    )
    model = onnx.helper.make_model(
        graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8,
        producer_name="tool??/", producer_version='1"', doc_string="".join(HOSTILE[:5]),
    )  # fmt: skip
    sayable = [text for text in HOSTILE if text != "\ud800"]
    pairs = {f"k{k}": text for k, text in enumerate(sayable)}
    onnx.helper.set_model_props(model, {**pairs, "long": "x" * 5000, "name": "other"})
    path.write_bytes(model.SerializeToString())
    return path


@pytest.mark.parametrize("language", LANGUAGES)
def test_texts_arrive_as_they_were_cleaned(tmp_path: Path, language: str) -> None:
    names = tmp_path / "classes.txt"
    names.write_text('dög "a"??/\nC:\\x */\n', encoding="utf-8")
    given = {"isa": "generic", "metadata": True, "class_names": str(names)}
    options = make_options(write_onnx(tmp_path / "net.onnx"), given)
    compiled = compile_model(options)
    found = compiled.source.graph.metadata
    assert names in compiled.dependencies
    assert found["onnx.opset"] == "17" and found["onnx.producer_name"] == "tool??/"
    assert found["name"] == "net */" and len(found["long"]) == MAX_VALUE
    keys = ", ".join(f'"{c_utf8(key)}"' for key in found)
    write_all(tmp_path, {**compiled.files, "main.c": MAIN % (keys, len(found))})
    units = [n for n in compiled.files if n.endswith(".c")]
    objects = [compile_file(tmp_path, unit, language) for unit in (*units, "main.c")]
    told = run(link(tmp_path, objects)).decode()
    assert told.splitlines() == [*found.values(), 'dög "a"??/', "C:\\x */"]
    manifest = json.loads(compiled.files["net.json"])
    assert manifest["metadata"] == dict(found)
    assert manifest["class_names"] == ['dög "a"??/', "C:\\x */"]
    header = compiled.files["net.h"].decode("ascii")
    assert " * onnx.producer_name: tool?|?/" in header


@pytest.mark.parametrize("text", HOSTILE)
def test_no_text_breaks_out(text: str) -> None:
    clean = sound(text, 100)
    assert "\n" not in clean and "\x1b" not in clean and "\0" not in clean
    quoted = c_utf8(clean)
    assert quoted.isascii() and quoted.isprintable() and "??" not in quoted
    assert not re.search(r'(?<!\\)(\\\\)*"', quoted)
    comment = c_comment(clean)
    assert "*/" not in comment and "??" not in comment and not comment.endswith("\\")


def test_there_is_an_end_to_what_is_kept() -> None:
    many = make_metadata((f"k{k}", "v") for k in range(1000))
    assert len(many) == MAX_ENTRIES
    assert make_metadata([("a", "1"), ("a", "2"), ("", "3"), ("b", " "), ("c", "")]) == {"a": "1"}
    assert sound("é" * 2000, MAX_VALUE) == "é" * (MAX_VALUE - 3) + "..."


def test_files_of_keras_say_who_wrote_them() -> None:
    options = make_options(BALL, {"isa": "generic"})
    compiled = compile_model(options)
    manifest = json.loads(compiled.files["ball.json"])
    assert manifest["metadata"]["format"] == "Keras"
    assert manifest["metadata"]["keras.version"][0] in "23"
    assert b"keras.version" not in compiled.files["ball.h"] + compiled.files["ball.c"]


def test_metadata_do_not_change_what_the_network_is() -> None:
    plain, told = (
        compile_model(make_options(BALL, {"isa": "generic", "metadata": given})).source
        for given in (False, True)
    )
    assert plain.hash == told.hash and plain.macs == told.macs


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"one\n", "1 names, but outputs have 2"),
        (b"one\ntwo\nthree", "3 names"),
        (b"", "0 names"),
        (b"one\n\n", "line 2 is empty"),
        (b"one\nt\x1bwo", "line 2 has control characters"),
        (b"one\n" + b"x" * 1000, "line 2 is too long"),
        (b"one\n\xff\xfe", "not UTF-8"),
    ],
)
def test_names_that_are_none(tmp_path: Path, text: bytes, message: str) -> None:
    (tmp_path / "classes.txt").write_bytes(text)
    given = {"isa": "generic", "class_names": str(tmp_path / "classes.txt")}
    with pytest.raises(OptionError, match=f"--class-names .*{message}"):
        compile_model(make_options(BALL, given))


def test_a_file_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["compile", str(BALL), "-o", str(tmp_path), "--class-names", str(tmp_path / "none")]
    assert invoke([*words, "--isa", "generic"]) == 2
    assert "No such file" in capsys.readouterr().err
