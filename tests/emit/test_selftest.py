"""The self-test: Python and C generate the same input, and a wrong network does not pass."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from cannery.emit import selftest
from cannery.emit.selftest import noise
from cannery.ir.tensor import DType
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


def test_a_large_network_is_run_on_zeros(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selftest, "MAX_MACS", 0)
    written = run(build(tmp_path, files_and_main(DType.FLOAT32)))
    assert written == b"0" + bytes(7 * 6 * 3 * 4)
