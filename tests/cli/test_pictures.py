"""Small images as text."""

from __future__ import annotations

from pathlib import Path

import pytest

from cannery.cli.pictures import Picture, read_pgm, side_by_side
from cannery.errors import CanneryError


def test_ascii_joins_pairs_of_rows() -> None:
    picture = Picture((bytes([0, 255]), bytes([0, 255]), bytes([150, 0])))
    assert picture.as_ascii() == [" @", "+ "]


def test_contrast_is_stretched() -> None:
    assert Picture((bytes([100, 110, 105]),)).stretched().rows == (bytes([0, 255, 127]),)
    assert Picture((bytes([7, 7]),)).stretched().rows == (bytes([0, 0]),)


def test_markup_has_one_half_block_per_pair() -> None:
    (line,) = Picture((bytes([1, 2]), bytes([3, 4]))).as_markup()
    assert line == "[rgb(1,1,1) on rgb(3,3,3)]▀[/][rgb(2,2,2) on rgb(4,4,4)]▀[/]"


def test_pgm_is_read_row_by_row(tmp_path: Path) -> None:
    path = tmp_path / "a.pgm"
    path.write_bytes(b"P5\n3 2\n255\n" + bytes(range(6)))
    assert read_pgm(path).rows == (bytes([0, 1, 2]), bytes([3, 4, 5]))


@pytest.mark.parametrize("data", [b"", b"P2\n1 1\n255\n0", b"P5\n2 2\n255\n123", b"P5\n0 0\n255\n"])
def test_what_is_no_pgm(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a.pgm").write_bytes(data)
    with pytest.raises(CanneryError, match=r"a\.pgm: not a binary PGM image"):
        read_pgm(tmp_path / "a.pgm")


def test_blocks_of_different_height() -> None:
    assert side_by_side([(["ab", "cd"], 2), (["x"], 1)]) == ["ab   x", "cd"]
