"""The self-test: Python and C generate the same input, and a wrong network does not pass."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cannery.emit import selftest
from cannery.emit.selftest import _rounded, noise
from cannery.ir.graph import GraphBuilder
from cannery.ir.tensor import DType
from cannery.ops.movement.op import Transpose
from emit.c_programs import Files, build, net_files, network, run

#: Runs the self-test, tells its result, and writes the input that it generated.
MAIN = """
#include "net_selftest.h"
#include <stdio.h>
static unsigned char memory[NET_WORKSPACE_BYTES] CANNERY_ALIGN(64);
int main(void)
{
    putchar('0' + net_selftest(memory));
    fwrite(input_0, sizeof input_0, 1, stdout);
    return 0;
}
"""


def files_and_main(dtype: DType) -> Files:
    """A network whose self-test is part of main.c."""
    files: Files = {**net_files(network(dtype=dtype), "net"), "main.c": MAIN}
    files["net_selftest.h"] = files.pop("net_selftest.c")
    return files


@pytest.mark.parametrize("dtype", [DType.FLOAT32, DType.UINT8])
@pytest.mark.parametrize("language", ["c99 gcc", "c++11 g++"])
def test_input_is_the_same_in_c(tmp_path: Path, dtype: DType, language: str) -> None:
    written = run(build(tmp_path, files_and_main(dtype), language))
    assert written[:1] == b"0"
    assert written[1:] == noise((1, 7, 6, 3), dtype, 1).tobytes()


def test_noise_is_the_generator_step_by_step() -> None:
    for count, seed in ((0, 1), (1, 1), (2, 3), (1000, 2)):
        state, expected = seed, []
        for _ in range(count):
            state = (state * selftest.MULTIPLIER + selftest.INCREMENT) % 2**32
            expected.append(((state >> 8) - 2**23) / 2**23)
        assert noise((count,), DType.FLOAT32, seed).tolist() == expected


def test_noise_is_uniform() -> None:
    values = noise((100, 1000), DType.FLOAT32, 1).astype(np.float64)
    assert -1 <= values.min() < -0.999 < 0.999 < values.max() < 1
    assert abs(values.mean()) < 0.01


def test_a_wrong_weight_is_found(tmp_path: Path) -> None:
    files = files_and_main(DType.FLOAT32)
    code = net_files(network(), "net")["net.c"].decode()
    at = code.index("conv_")
    changed, count = re.subn(r"(-?\d+\.\d+f), ", "9.0f, ", code[at:], count=1)
    assert count == 1
    files["net.c"] = code[:at] + changed
    assert run(build(tmp_path, files))[:1] == b"1"


def image(dtype: DType) -> bytes:
    """The input of the self-test."""
    return noise((1, 7, 6, 3), dtype, 1).tobytes()


def test_large_networks_need_a_finite_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selftest, "MAX_MACS", 0)
    files = files_and_main(DType.FLOAT32)
    assert run(build(tmp_path / "right", files)) == b"0" + image(DType.FLOAT32)
    broken = without_tanh(1e38)
    assert run(build(tmp_path / "wrong", {**files, "net.c": broken["net.c"]}))[:1] == b"1"


def without_tanh(scale: float) -> dict[str, bytes]:
    """The same network with other weights, which end in infinities."""
    graph = network()
    constants = {
        k: v * np.float32(scale) if v.ndim == 4 else v * np.float32(100)
        for k, v in graph.constants.items()
    }
    nodes = tuple(n for n in graph.nodes if n.op.kind != "Tanh")
    last = replace(nodes[-1], outputs=graph.outputs)
    return net_files(replace(graph, nodes=(*nodes[:-1], last), constants=constants), "net")


def test_of_a_large_output_a_part_is_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selftest, "MAX_STORED", 2)
    files = files_and_main(DType.FLOAT32)
    assert b"expected_0[1]" in net_files(network(), "net")["net_selftest.c"]
    assert run(build(tmp_path, files))[:1] == b"0"


def test_integer_outputs_are_compared(tmp_path: Path) -> None:
    b = GraphBuilder("net")
    x = b.input("image", (1, 7, 6, 3), DType.UINT8)
    b.output(b.node(Transpose((0, 3, 1, 2)), [x], name="scores"))
    files: Files = {**net_files(b.build(), "net"), "main.c": MAIN}
    files["net_selftest.h"] = files.pop("net_selftest.c")
    assert run(build(tmp_path, files)) == b"0" + image(DType.UINT8)


def test_stored_results_have_few_digits() -> None:
    values = np.array([1234.56789, -0.0123456789, 0.0])
    assert _rounded(values).tolist() == [1234.57, -0.01, 0.0]
    assert _rounded(np.array([9.9999996e-4])).tolist() == [0.001]
    assert _rounded(np.array([np.inf, 1.5])).tolist() == [np.inf, 1.5]
    assert _rounded(np.array([200], np.uint8)).tolist() == [200]
