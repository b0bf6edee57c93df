"""Options: parsing, limits, and that CMake knows the same ones."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import numpy as np
import pytest

from cannery.errors import OptionError
from cannery.ir.tensor import DType
from cannery.names import check_model_name, make_identifier
from cannery.options import SPECS, Kind, Options, Spec, make_options
from cannery.options_cmake import render

ROOT = Path(__file__).parents[1]


def test_lists_that_are_none() -> None:
    for isa in ("", "sse2,,avx2"):
        with pytest.raises(OptionError, match="--isa: the name is empty"):
            make_options(Path("ball.h5"), {"isa": (isa,)})
    with pytest.raises(OptionError, match=r"--runner: '-cpu' is not a command .*whole command"):
        make_options(Path("ball.h5"), {"runner": ("qemu-x86_64", "-cpu", "max")})
    commands = ("./robot-1 -q", "./robot-2")
    assert make_options(Path("ball.h5"), {"runner": commands}).runner == commands


def test_texts_become_values() -> None:
    raw = {
        "name": "ball", "target": "atom32", "isa": (), "tuning": None, "locked": True,
        "max_error": "1e-3", "batch": "4", "dims": ("n=3",), "scale": "0.5", "offset": "-1",
        "input_dtype": ("a=b=uint8",), "rename": ("x/y=z",), "outputs": ("o",),
        "cflags": ("-O1 -DX='a b'", "-g"), "runner": ("ssh robot",),
    }  # fmt: skip
    options = make_options(Path("m.h5"), raw)
    assert options == Options(
        model=Path("m.h5"), name="ball", target="atom32", locked=True, max_error=1e-3, batch=4,
        dims={"n": 3}, scale=0.5, offset=-1.0, input_dtype={"a=b": DType.UINT8},
        rename={"x/y": "z"}, outputs=("o",), cflags=("-O1", "-DX=a b", "-g"),
        runner=("ssh robot",),
    )  # fmt: skip


def test_one_text_is_a_list_of_one() -> None:
    lists = {s.name: s for s in SPECS if s.kind is Kind.MANY}
    for name, spec in lists.items():
        text = {
            "isa": "avx2",
            "dims": "n=3",
            "fixed": "x=1,2",
            "section": "code=.itcm",
            "block": "4",
            "input_dtype": "x=uint8",
            "device": "ssh:nao",
            "time_axis": "x=1",
        }.get(name, "a=b" if "=" in spec.metavar else "image")
        needed = {"streaming": True} if name in ("block", "time_axis") else {}
        single = make_options(Path("m.h5"), {**needed, name: text})
        assert single == make_options(Path("m.h5"), {**needed, name: (text,)}), name
        for value in ([text], (t for t in [text]), {text}, text.encode(), Path(text)):
            assert make_options(Path("m.h5"), {**needed, name: value}) == single, (name, value)


def test_values_of_python_are_texts() -> None:
    raw = {
        "dims": {"n": np.int64(3)}, "input_dtype": {"x": np.uint8}, "max_error": np.float32(0.5),
        "scale": [1, np.float32(0.5), 2.0], "offset": np.array([1.0, 2.0, 3.0]), "batch": 2,
        "quantize": DType.INT8, "calibration": b"c.npz", "tuning": Path("t.json"),
        "state": {"h": "y"}, "parallel": np.True_, "outputs": np.array(["a", "b"]), "rename": {},
    }  # fmt: skip
    assert make_options(Path("m.h5"), raw) == Options(
        model=Path("m.h5"), name="m", dims={"n": 3}, input_dtype={"x": DType.UINT8}, batch=2,
        max_error=0.5, scale=(1.0, 0.5, 2.0), offset=(1.0, 2.0, 3.0), quantize=DType.INT8,
        calibration=Path("c.npz"), tuning=Path("t.json"), state={"h": "y"}, parallel=True,
        outputs=("a", "b"),
    )  # fmt: skip


@pytest.mark.parametrize("spec", SPECS, ids=lambda s: s.name)
def test_what_is_no_text_is_one_error(spec: Spec) -> None:
    wrong: list[object] = [object(), [object()], 1j, {"a": object()}, [["a"]], [None]]
    if spec.kind is not Kind.FLAG:
        wrong.append(True)
    else:
        wrong += ["yes", 1, "no"]
    if "=" not in spec.metavar:
        wrong.append({"a": "b"})
    for value in wrong:
        with pytest.raises(OptionError, match=re.escape(spec.flag)):
            make_options(Path("m.h5"), {spec.name: value})


def test_a_large_value_is_named_by_its_type() -> None:
    for given, shown in (({"x": np.zeros(99)}, "this dict"), (np.zeros((2, 2)), "this ndarray")):
        with pytest.raises(OptionError, match=f"^--calibration: {shown} is neither .*path"):
            make_options(Path("m.h5"), {"quantize": "int8", "calibration": given})


def test_nothing_given_means_the_defaults() -> None:
    raw = dict.fromkeys((spec.name for spec in SPECS), None)
    assert make_options(Path("my net.h5"), raw) == Options(model=Path("my net.h5"), name="my_net")


def test_every_option_has_a_field_and_every_field_an_option() -> None:
    fields = {field.name for field in dataclasses.fields(Options)} - {"model", "project", "ranges"}
    assert {spec.name for spec in SPECS} == fields


@pytest.mark.parametrize(
    ("name", "text", "what"),
    [
        ("time_axis", ("x",), "not of the form name=value"),
        ("time_axis", ("x=-1",), "'-1' is not an axis"),
        ("time_axis", ("x=first",), "axes count from 0, or none"),
        ("time_axis", ("x=1", "x=2"), "given twice"),
        ("time_axis", ("x=1",), "add --streaming"),
        ("name", "2nd", "identifier"),
        ("name", "a b", "identifier"),
        ("name", "x; int main(void) {}", "identifier"),
        ("name", "", "identifier"),
        ("name", "a" * 65, "identifier"),
        ("name", "a__b", "identifier"),
        ("name", "größe", "identifier"),
        ("name", "class", "word of C"),
        ("name", "math", "math.h"),
        ("name", "Cannery", "exists already"),
        ("max_error", "0", "greater than 0"),
        ("max_error", "nan", "finite"),
        ("max_error", "small", "finite"),
        ("batch", "0", "whole number"),
        ("batch", "-1", "whole number"),
        ("batch", "2147483648", "whole number"),
        ("batch", "1.5", "whole number"),
        ("split", "0", "from 1 to 64$"),
        ("split", "65", "from 1 to 64$"),
        ("batch", "٣", "whole number"),
        ("dims", ("n",), "name=value"),
        ("dims", ("n=0",), "whole number"),
        ("dims", ("n=1", "n=2"), "twice"),
        ("input_dtype", ("image=int4",), "element type"),
        ("rename", ("a=b c",), "identifier"),
        ("rename", ("a=x", "b=x"), "same name"),
        ("rename", ("a=for",), "word of C"),
        ("rename", ("a=linux",), "a macro of C, or of gcc"),
        ("name", "unix", "a macro of C, or of gcc"),
        ("name", "NULL", "a macro of C, or of gcc"),
        ("scale", "inf", "finite"),
        ("cflags", ("-D'",), "quotation"),
        ("cc", "@/no/such/file", "No such file"),
    ],
)
def test_bad_values_are_refused_by_name(name: str, text: object, what: str) -> None:
    with pytest.raises(OptionError, match=what) as caught:
        make_options(Path("m.h5"), {name: text})
    flag = next(spec.flag for spec in SPECS if spec.name == name)
    assert str(caught.value).startswith(f"{flag}: ")


@pytest.mark.parametrize(
    ("given", "form"),
    [
        ({}, ""), ({"io_type": "raw"}, "raw"), ({"quantize": "int8"}, "int8"),
        ({"quantize": "int16", "io_type": "raw"}, "int16-raw"),
    ],
)  # fmt: skip
def test_forms_of_a_network_have_records_of_their_own(given: dict[str, object], form: str) -> None:
    more = {"calibration": "c.npz"} if "quantize" in given else {}
    assert make_options(Path("m.h5"), {**given, **more}).form == form


@pytest.mark.parametrize(
    "text",
    ["ball", "my-net", "2nd", "", "...", "for", "For", "math", "linux", "i386", "a" * 300, "é"],
)
def test_any_file_name_becomes_a_legal_model_name(text: str) -> None:
    assert check_model_name(make_identifier(text))


def test_cmake_has_the_same_options_and_flags() -> None:
    """Update with: python -m cannery.options_cmake > cmake/CanneryOptions.cmake."""
    assert (ROOT / "cmake" / "CanneryOptions.cmake").read_text() == render()


def test_cmake_documents_every_option() -> None:
    text = (ROOT / "cmake" / "AddNnModel.cmake").read_text()
    usage = text.partition("include(")[0]
    absent = [s.cmake_keyword for s in SPECS if s.cmake and f"[{s.cmake_keyword}" not in usage]
    assert [k for k in absent if f"| {k}" not in usage] == []
