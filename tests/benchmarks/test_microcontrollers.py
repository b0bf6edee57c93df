"""What networks take on microcontrollers, and that MLPerf Tiny's are those of its paper."""

from __future__ import annotations

from pathlib import Path

import pytest

from cannery.frontends import load_graph
from microcontrollers import TINY, Taken, measure, weight_count
from needs import need_runner, need_toolchain
from networks import write_network

#: Multiply-accumulates and weights of layers, without biases, after batch normalisation is folded.
SHAPES = {
    "ds_cnn": (2_656_768, 22_016), "resnet_8": (12_501_632, 77_360),
    "mobilenet_025": (7_489_664, 208_112), "autoencoder": (264_192, 264_192),
}  # fmt: skip


@pytest.mark.parametrize("name", TINY)
def test_weights_are_those_of_the_papers(name: str, tmp_path: Path) -> None:
    assert weight_count(load_graph(write_network(name, tmp_path))) == SHAPES[name][1]


def test_a_network_on_a_board(tmp_path: Path) -> None:
    need_runner(need_toolchain("cortex-m4"), strict=True)
    found = measure("autoencoder", "cortex-m4", "int8", tmp_path)
    assert (found.macs, found.weights) == SHAPES["autoencoder"]
    assert found.macs < found.instructions < 2 * found.macs
    assert found.weights < found.flash < 1.2 * found.weights + 12 * 1024
    assert 640 < found.ram < 16 * 1024
    assert 0 < found.stack < 1024


def test_what_flash_is_compared_with() -> None:
    taken = Taken(3_000, 2_000, 12 * 1024 + 1150, 1, 1, 1000)
    assert taken.share == 1.0
    assert taken.row("net", "cortex-m4").split("|")[4].strip() == "1.50"
