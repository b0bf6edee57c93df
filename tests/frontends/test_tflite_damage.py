"""TensorFlow Lite files with bytes changed: one error of Cannery's, or a network."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from cannery.errors import CanneryError, ModelError, UnsupportedError
from cannery.frontends import load_graph
from frontends import tflite_quantised
from frontends.tflite_cases import CASES
from frontends.tflite_files import Graph, tflite_file

#: Numbers that are likely to mean another thing, or nothing.
_ODD = (0, 1, -1, 2**31 - 1, -(2**31), 127, 255, 65535)


def _changed(data: bytes, random: Random) -> bytes:
    """The file with bits, numbers or offsets changed, bytes repeated, or its end cut off."""
    found = bytearray(data)
    for _ in range(random.choice([1, 1, 1, 2, 3, 8])):
        at, way = random.randrange(len(found) - 8), random.randrange(5)
        if way == 0:
            found[at] ^= 1 << random.randrange(8)
        elif way == 1:
            found[at] = random.randrange(256)
        elif way == 2:
            struct.pack_into(
                "<i", found, at // 4 * 4, random.choice([*_ODD, random.randrange(300)])
            )
        elif way == 3:
            (offset,) = struct.unpack_from("<I", found, at // 4 * 4)
            moved = offset + random.choice([-8, -4, -1, 1, 4, 8])
            struct.pack_into("<I", found, at // 4 * 4, moved % 2**32)
        else:
            start, size = random.randrange(len(found) - 8), random.randrange(1, 9)
            found[at : at + size] = found[start : start + size]
    return bytes(found[: random.randrange(len(found))] if random.random() < 0.03 else found)


def test_damage_of_operators_is_one_error(tmp_path: Path) -> None:
    """Of every operator in turn."""
    plain: Mapping[str, Any] = CASES
    makers = [case.data for case in (*plain.values(), *tflite_quantised.CASES.values())]
    file, refused = tmp_path / "net.tflite", 0
    for seed in range(200):
        random = Random(seed)
        file.write_bytes(_changed(makers[seed % len(makers)](), random))
        try:
            load_graph(file)
        except CanneryError as error:
            refused += 1
            assert str(error).strip(), seed
            assert len(str(error)) < 2000, seed
    assert 80 < refused < 190


def _refused(folder: Path, data: bytes) -> CanneryError:
    file = folder / "net.tflite"
    file.write_bytes(data)
    with pytest.raises((ModelError, UnsupportedError)) as caught:
        load_graph(file)
    return caught.value


def test_a_huge_axis_beside_an_empty_one(tmp_path: Path) -> None:
    shape = (0, 2**31 - 1, 2**31 - 1)
    data = tflite_file(lambda g: [g.add("RELU", [g.input(shape)], g.tensor(shape))])
    assert "is too large" in str(_refused(tmp_path, data))


def test_a_billion_segments(tmp_path: Path) -> None:
    def fill(g: Graph) -> list[int]:
        places = g.constant(np.array([0, 2**30], np.int32))
        return [g.add("SEGMENT_SUM", [g.input((2, 3)), places], g.tensor((2, 3)))]

    message = "a result of the shape (1073741825, 3)"
    assert message in str(_refused(tmp_path, tflite_file(fill)))


def test_a_sum_of_nothing(tmp_path: Path) -> None:
    data = tflite_file(lambda g: [g.add("ADD_N", [], g.tensor((2,)), options="AddNOptions")])
    assert "its input 0 is absent" in str(_refused(tmp_path, data))


@pytest.mark.parametrize("kind", ["SPACE_TO_BATCH_ND", "BATCH_TO_SPACE_ND"])
def test_blocks_of_one_number(kind: str, tmp_path: Path) -> None:
    def fill(g: Graph) -> list[int]:
        none = np.empty((0, 2), np.int32)
        given = [g.input(()), g.constant(np.empty(0, np.int32), shape=(0,)), g.constant(none)]
        return [g.add(kind, given, g.tensor(()))]

    assert "blocks of () in the shape ()" in str(_refused(tmp_path, tflite_file(fill)))


@pytest.mark.parametrize("scale", [1e-40, 1e38])
def test_a_scale_whose_reciprocal_is_not_a_float(scale: float, tmp_path: Path) -> None:
    def fill(g: Graph) -> list[int]:
        x = g.input((2, 3), "INT16", scales=[scale], zeros=[0])
        y = g.tensor((2, 3), "INT16", scales=[0.1], zeros=[0])
        return [g.add("EXP", [x], y, options="ExpOptions")]

    assert "a scale of" in str(_refused(tmp_path, tflite_file(fill)))


def test_a_mean_of_floats_that_is_quantised(tmp_path: Path) -> None:
    def fill(g: Graph) -> list[int]:
        axes = g.constant(np.array([1], np.int32))
        y = g.tensor((2,), "INT8", scales=[0.1], zeros=[0])
        return [g.add("MEAN", [g.input((2, 3)), axes], y, options="ReducerOptions")]

    message = "its result is quantised, but its input is not"
    assert message in str(_refused(tmp_path, tflite_file(fill)))
