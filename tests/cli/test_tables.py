"""Tables on narrow terminals: lines fit, and no name is cut in two."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from cannery.cli import invoke
from cannery.cli.peak import why_above_peak
from cannery.cli.tables import lay_out
from cannery.target.isa import ISAS
from needs import need_program, need_toolchain

#: As exporters name nodes.
NAMES = (
    "model/encoder/block_1/depthwise_conv/BiasAdd",
    "model/encoder/block_1/expanded_pointwise_projection/Conv2D",
    "model/segmentation_head/upsampling_and_prediction/BiasAdd;logits",
)
SCHEDULE = (
    "conv.winograd_planar{broadcast=load1,c=4,group=8,lanes=16,p=1,tiles=1,to=phase,unroll=0}"
)
HEADER = ("", "step", "schedule", "code", "constants", "stack")
ROWS = [[str(k), name, SCHEDULE, 12345 + k, 100000, ""] for k, name in enumerate(NAMES)]


def lines_of(width: int | None) -> list[str]:
    return [line for lines in lay_out(HEADER, ROWS, width) for line in lines]


@pytest.mark.parametrize("width", [80, 100, 120, 200, None])
def test_lines_fit_and_names_are_whole(width: int | None) -> None:
    lines = lines_of(width)
    assert max(map(len, lines)) <= (width or 1000)
    for k, name in enumerate(NAMES):
        assert sum(name in line for line in lines) == 1
        assert any(f"{12345 + k:,}" in line for line in lines)
    words = [word for line in lines for word in line.split()]
    assert "".join(words).count(SCHEDULE) == len(NAMES), "whatever is cut, nothing is lost"


def test_what_fits_is_one_line_each() -> None:
    assert len(lines_of(None)) == 1 + len(NAMES)
    assert len(lines_of(200)) == 1 + len(NAMES)
    assert len(lines_of(120)) == 2 * (1 + len(NAMES)), "the schedules are below the rows"
    assert lines_of(120)[2].split() == ["0", NAMES[0], "12,345", "100,000"]


def test_short_texts_stay_with_the_numbers_where_names_are_long() -> None:
    rows = [[NAMES[1] * 2, SCHEDULE, 12345, "0.44 to 0.45", "281"]]
    table = lay_out(["step", "schedule", "MACs", "interval", "% of peak"], rows, 80)
    assert table[1][:2] == [NAMES[1] * 2, "    12,345  0.44 to 0.45        281"]
    assert "".join(table[1][2:]).replace(" ", "") == SCHEDULE


def test_numbers_are_to_the_right_also_where_some_are_missing() -> None:
    table = lay_out(["a", "n"], [["x", "1.5"], ["y", ""], ["z", "1,000%"], ["w", "-3e-07"]], None)
    assert [line for (line,) in table] == ["a       n", "x     1.5", "y", "z  1,000%", "w  -3e-07"]


def test_a_last_column_goes_below_only_where_it_has_to() -> None:
    table = lay_out(["what", "found"], [["ninja", "1.11"], ["cc", "word " * 20]], 60)
    assert table[0] == ["what   found"] and table[1] == ["ninja  1.11"]
    assert table[2][0] == "cc" and all(line.startswith("    word") for line in table[2][1:2])
    assert max(map(len, table[2])) <= 60 and len(table[2]) == 3


def write_model(path: Path) -> Path:
    """A chain of convolutions with names of exporters."""
    rng = np.random.default_rng(1)
    weight = numpy_helper.from_array((rng.normal(size=(4, 4, 3, 3)) / 6).astype(np.float32), "w")
    values = ["x", *NAMES]
    nodes = [
        helper.make_node("Conv", [values[k], "w"], [name], name, pads=[1] * 4)
        for k, name in enumerate(NAMES)
    ]
    ends = [
        helper.make_tensor_value_info(value, TensorProto.FLOAT, [1, 4, 8, 8])
        for value in (values[0], values[-1])
    ]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], [weight])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    return path


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("command", ["size", "bench", "inspect", "verify", "asm"])
def test_commands_with_names_of_exporters(
    command: str, width: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    need_toolchain("generic")
    if command in ("bench", "verify"):
        need_program("ninja")
    monkeypatch.setenv("COLUMNS", str(width))
    more = {"bench": ["--seconds", "0.02"], "verify": ["--layers"]}
    words = [str(write_model(tmp_path / "long.onnx")), *more.get(command, [])]
    assert invoke([command, *words, "--target", "generic"]) == 0
    lines = capsys.readouterr().out.splitlines()
    table = lines[: lines.index("", 1)] if command != "inspect" else lines[2 : lines.index("", 2)]
    assert max(map(len, table)) <= width
    for name in NAMES:
        assert any(name in line for line in table)


def test_more_than_the_peak_is_explained() -> None:
    avx2, generic = ISAS["avx2"], ISAS["generic"]
    assert why_above_peak([("conv.winograd_oc{}", 99.0), ("conv.direct{}", None)], avx2) == ""
    for schedule, isa, word in (
        ("conv.winograd_oc{group=2}", avx2, "Winograd"),
        ("quantized.conv_n{}", avx2, "bytes"),
        ("conv.direct_oc{}", generic, "may vectorise plain C"),
        ("conv.direct_oc{}", avx2, "the clock"),
    ):
        told = why_above_peak([(schedule, 130.0), ("conv.winograd_oc{}", 50.0)], isa)
        assert told.startswith("Above 100% of the peak: ") and word in told
        assert ("Winograd" in told) is (word == "Winograd")
