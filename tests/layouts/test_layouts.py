"""Layouts: every element has one place, pack and unpack are inverse, halos are zero."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cannery.ir.tensor import DType, TensorType
from cannery.layouts import (
    Halo,
    Layout,
    Want,
    image_dims,
    nhwc,
    pack,
    phase_split,
    planar,
    reinterpret,
    unpack,
)

SHAPES = [(1, 1, 1), (5, 7, 3), (8, 8, 4), (6, 1, 2), (1, 9, 5)]
HALOS = [Halo(), Halo(1, 1, 1, 1), Halo(0, 1, 0, 2), Halo(2, 0, 3, 1)]


def _layouts(shape: tuple[int, int, int]) -> list[Layout]:
    found = [phase_split.make(shape), phase_split.make(shape, slack=5)]
    for halo in HALOS:
        found += [nhwc.make(shape, halo), nhwc.make(shape, halo, slack=3, pitch=shape[2] + 2)]
        found += [planar.make(shape, halo), planar.make(shape, halo, slack=7)]
    return found


@pytest.mark.parametrize("shape", SHAPES)
def test_pack_and_unpack_are_inverse(shape: tuple[int, int, int]) -> None:
    image = 1 + np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    for layout in _layouts(shape):
        flat = pack(image, layout)
        assert flat.shape == (layout.elements,)
        assert np.array_equal(unpack(flat, layout), image), layout
        assert np.count_nonzero(flat) == image.size, layout


@pytest.mark.parametrize("shape", SHAPES)
def test_at_finds_every_element_and_every_halo_cell(shape: tuple[int, int, int]) -> None:
    h, w, c = shape
    image = 1 + np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    for layout in _layouts(shape):
        flat = pack(image, layout)
        halo = layout.halo
        for y in range(-halo.top, h + halo.bottom):
            for x in range(-halo.left, w + halo.right):
                for k in range(c):
                    inside = 0 <= y < h and 0 <= x < w
                    at = layout.at(y, x, k)
                    assert 0 <= at < layout.elements, (layout, y, x, k)
                    assert flat[at] == (image[y, x, k] if inside else 0), (layout, y, x, k)


def test_part_is_the_box_within_the_whole() -> None:
    image = np.arange(4 * 6 * 5, dtype=np.float32).reshape(4, 6, 5)
    for whole in (nhwc.make((4, 6, 5), Halo(1, 1, 1, 1)), planar.make((4, 6, 5))):
        flat = pack(image, whole)
        part = whole.part((1, 2, 3), (2, 3, 2))
        assert np.array_equal(unpack(flat, part), image[1:3, 2:5, 3:5])
    with pytest.raises(ValueError, match="affine"):
        phase_split.make((4, 4, 4)).part((0, 0, 1), (4, 4, 1))


def test_dense_means_no_gap_at_all() -> None:
    assert nhwc.make((3, 4, 5)).dense
    assert not nhwc.make((3, 4, 5), slack=1).dense
    assert not nhwc.make((3, 4, 5), Halo(1, 0, 0, 0)).dense
    assert not planar.make((3, 4, 5)).dense
    assert not nhwc.make((3, 4, 5), pitch=6).dense
    # The halo of a line buffer takes no room of its own.
    assert not replace(nhwc.make((3, 4, 5)), halo=Halo(bottom=1)).dense
    assert not replace(planar.make((3, 4, 5)), halo=Halo(bottom=1)).compact


@pytest.mark.parametrize("dtype", [DType.FLOAT32, DType.INT8])
def test_neighbouring_pixels_apart_are_in_different_cache_sets(dtype: DType) -> None:
    for size in range(256, 9000, 64):
        pitch = nhwc.pitch_apart(size // dtype.bytes, dtype) * dtype.bytes
        assert size <= pitch <= size + 64
        sets = {pixel * pitch // 64 % 64 for pixel in range(16)}  # of 4 KiB, one way
        assert len(sets) == 16, size


def test_want_is_met_by_more_than_was_asked_for() -> None:
    want = Want("nhwc", Halo(1, 0, 0, 0), slack=2)
    assert want.met_by(nhwc.make((3, 3, 3), Halo(1, 1, 1, 1), slack=4))
    assert not want.met_by(nhwc.make((3, 3, 3), Halo(0, 1, 1, 1), slack=4))
    assert not want.met_by(nhwc.make((3, 3, 3), Halo(1, 1, 1, 1), slack=1))
    assert not want.met_by(planar.make((3, 3, 3), Halo(1, 1, 1, 1), slack=4))
    assert not Want(dense=True).met_by(nhwc.make((3, 3, 3), slack=1))


def test_values_of_any_rank_are_images() -> None:
    shapes = {
        (2, 3, 4, 5): (2, 3, 4, 5),
        (2, 3, 4): (2, 1, 3, 4),
        (2, 3): (2, 1, 1, 3),
        (7,): (1, 1, 1, 7),
        (): (1, 1, 1, 1),
        (1, 2, 3, 4, 5): (1, 1, 24, 5),
    }
    for shape, dims in shapes.items():
        assert image_dims(TensorType(shape)) == dims


@pytest.mark.parametrize("shape", [(5, 7, 1), (1, 1, 6)])
def test_one_channel_or_one_pixel_is_the_same_in_both_orders(shape: tuple[int, int, int]) -> None:
    image = 1 + np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    for source, order in ((nhwc.make(shape), "planar"), (planar.make(shape), "nhwc")):
        other = reinterpret(source, order)
        assert other is not None
        assert other.order == order
        assert np.array_equal(unpack(pack(image, source), other), image)
    dense = reinterpret(planar.make(shape), "nhwc")
    assert dense is not None
    assert dense.dense


@pytest.mark.parametrize("order", ["nhwc", "planar"])
@pytest.mark.parametrize("shape", [(5, 7, 1), (1, 1, 6), (1, 4, 1), (3, 1, 1)])
def test_another_order_keeps_what_kernels_rely_on(shape: tuple[int, int, int], order: str) -> None:
    """Elements stay where they are, also those of a part; neighbours of the order are neighbours
    in memory: pixels of a row if it is planar, channels if not.
    """
    h, w, c = shape
    wholes = [*_layouts(shape), *_layouts((h + 2, w + 1, c + 3))]
    parts = [whole.part((0, 0, 0), shape) for whole in wholes if whole.order != "phase_split"]
    made = 0
    for source in (*_layouts(shape), *parts):
        other = reinterpret(source, order)
        if other is not None:
            made += 1
            places = [(y, x, k) for y in range(h) for x in range(w) for k in range(c)]
            assert [other.at(*p) for p in places] == [source.at(*p) for p in places]
            assert other.col == 1 or w == 1 or order == "nhwc"
            assert other.channel == 1 or c == 1
    assert made


@pytest.mark.parametrize("order", ["nhwc", "planar"])
def test_a_pixel_with_room_around_it_stays_as_it_is(order: str) -> None:
    """What reads it in the other order may read that room."""
    make = nhwc.make if order == "nhwc" else planar.make
    other = "planar" if order == "nhwc" else "nhwc"
    assert reinterpret(make((1, 1, 6)), other)
    assert reinterpret(make((1, 1, 6), slack=2), other) is None
    assert reinterpret(make((1, 1, 6), Halo(1, 0, 0, 0)), other) is None
    assert reinterpret(make((3, 1, 6)).part((1, 0, 0), (1, 1, 6)), other) is None


def test_several_channels_and_pixels_are_not() -> None:
    assert reinterpret(nhwc.make((2, 3, 2)), "planar") is None
    assert reinterpret(nhwc.make((2, 3, 1)), "phase_split") is None
