"""Constants keep every bit on their way through the compiler, as text and as a blob."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from cannery.ctext import arrays
from cannery.ctext.arrays import format_array, split_constants
from cannery.ctext.literals import c_float, c_floats
from cannery.schedule.schedule import ConstArray, Kernel
from emit.c_programs import Files, build, net_files, network, run

F32 = np.finfo(np.float32)
EXTREMES = [
    0.0, -0.0, 1.0, -1.0, 0.1, 1 / 3, 16777217.0, 1e16, 1e-5, F32.max, F32.min, F32.tiny,
    F32.smallest_subnormal, -F32.smallest_subnormal, F32.eps, np.inf, -np.inf,
]  # fmt: skip


def floats() -> NDArray[np.float32]:
    """Extremes, and floats of every exponent."""
    bits = np.random.default_rng(0).integers(0, 2**32, 4000, dtype=np.uint32)
    drawn = bits.view(np.float32)
    return np.concatenate([np.array(EXTREMES, np.float32), drawn[~np.isnan(drawn)]])


def integers(dtype: str) -> NDArray[np.generic]:
    """Both ends of a type and what lies around zero."""
    info = np.iinfo(dtype)
    values = {info.min, info.min + 1, 0, 1, info.max - 1, info.max, max(-1, info.min)}
    return np.array(sorted(values), dtype)


def dump_program(constants: list[ConstArray]) -> str:
    """A program that writes the bytes of its arrays."""
    writes = "\n".join(f"    fwrite({c.name}, 1, {c.values.nbytes}, stdout);" for c in constants)
    return "\n".join(
        [
            '#include "cannery/vec_scalar.h"', "#include <stdio.h>",
            *map(format_array, constants),
            "int main(void)", "{", writes, "    return 0;", "}", "",
        ]
    )  # fmt: skip


@pytest.mark.parametrize("language", ["c99 gcc", "c99 clang", "c++11 g++"])
def test_text_is_exact(tmp_path: Path, language: str) -> None:
    types = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
    constants = [
        ConstArray("floats", floats(), "floats */ with \\ a tail"),
        *(ConstArray(f"array_{t}", integers(t)) for t in types),
    ]
    runtime = {n: c for n, c in net_files(network(), "net").items() if n.startswith("cannery/")}
    files: Files = {**runtime, "main.c": dump_program(constants)}
    written = run(build(tmp_path, files, language))
    assert written == b"".join(c.values.tobytes() for c in constants)


def test_literals_read_back_in_python() -> None:
    values = floats()
    finite = values[np.isfinite(values)]
    assert all(np.float32(float(c_float(v)[:-1])) == v for v in finite)
    assert np.signbit(np.float32(c_float(-0.0)[:-1]))
    assert c_float(float("nan")) == "(0.0f / 0.0f)"
    assert c_float(1e39) == "(1.0f / 0.0f)"
    with np.errstate(over="ignore"):
        for some in (values, finite, finite.astype(np.float64), np.array([1e39, 0.1])):
            assert c_floats(some) == [c_float(v) for v in some.tolist()]


def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every network counts as large, and every array of more than 16 bytes."""
    monkeypatch.setattr(arrays, "BLOB_FROM_BYTES", 1)
    monkeypatch.setattr(arrays, "BLOB_ARRAY_BYTES", 17)


def test_small_models_have_no_blob() -> None:
    kernel = Kernel("", (ConstArray("w", np.zeros(1000, np.float32)),))
    kept, blob = split_constants("net", [kernel])
    assert kept == [kernel]
    assert blob.data == b""
    assert "net_weights.bin" not in net_files(network(), "net")


def test_blob_holds_equal_arrays_once(monkeypatch: pytest.MonkeyPatch) -> None:
    large(monkeypatch)
    first, other = np.arange(10, dtype=np.float32), np.arange(20, dtype=np.int16)
    small = ConstArray("small", np.zeros(4, np.float32))
    kernels = [
        Kernel("", (ConstArray("a", first), small)),
        Kernel("", (ConstArray("b", other), ConstArray("c", first.copy()))),
    ]
    kept, blob = split_constants("net", kernels)
    assert [k.constants for k in kept] == [(small,), ()]
    assert [k.moved_bytes for k in kept] == [40, 80]
    assert [k.constant_bytes for k in kept] == [56, 80]
    assert blob.offsets == (("a", "float", 0), ("b", "int16_t", 64), ("c", "float", 0))
    assert blob.data == first.tobytes() + bytes(24) + other.tobytes() + bytes(24)


def test_tables_in_the_blob_still_need_their_header(monkeypatch: pytest.MonkeyPatch) -> None:
    large(monkeypatch)
    table = ConstArray("t", np.zeros(64, np.int32), is_table=True)
    weights = replace(table, name="w", is_table=False)
    kernels = [Kernel("", (table, weights)), Kernel("", (weights,))]
    kept, _ = split_constants("net", kernels)
    assert [k.constants for k in kept] == [(), ()]
    assert [k.needs_table for k in kept] == [True, False]


MAIN = """
#include "net.h"
#include <stdio.h>
static unsigned char memory[NET_WORKSPACE_BYTES] CANNERY_ALIGN(64);
int main(void)
{
    float image[NET_IMAGE_LEN], scores[NET_SCORES_LEN];
    for (int i = 0; i < NET_IMAGE_LEN; ++i) {
        image[i] = (float)(i % 17 - 8);
    }
    net_run_in(memory, image, scores);
    fwrite(scores, sizeof(float), NET_SCORES_LEN, stdout);
    return net_selftest(memory);
}
"""


@pytest.mark.parametrize(
    ("language", "flags"),
    [
        ("c99 gcc", ["-O1"]),
        ("c99 gcc", ["-O2", "-fPIC", "-flto"]),
        ("c99 clang", ["-O1", "-fPIC"]),
        ("c++11 g++", ["-O0", "-g"]),
    ],
)
def test_blob_computes_what_text_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, language: str, flags: list[str]
) -> None:
    main = {"main.c": '#include "cannery/vec_scalar.h"\n' + MAIN}
    plain = net_files(network(), "net")
    text = run(build(tmp_path / "text", {**plain, **main}, language, flags))
    large(monkeypatch)
    files = net_files(network(), "net")
    assert len(files["net.c"]) < len(plain["net.c"])
    assert len(files["net_weights.bin"]) % 64 == 0
    place = f'-DNET_WEIGHTS_FILE="{tmp_path / "blob" / "net_weights.bin"}"'
    blob = run(build(tmp_path / "blob", {**files, **main}, language, [*flags, place]))
    assert len(text) == 12
    assert text == blob
