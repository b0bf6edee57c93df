"""Instructions per multiply-accumulate of int8 layers on microcontrollers, which may not grow.

The bytes before them are proven within +-127, or (`full`) may be any.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cannery.emit.files import output_files
from cannery.errors import ToolchainError
from cannery.execution.counts import count_network
from cannery.execution.samples import seeded_samples
from cannery.ir.graph import Graph
from cannery.ir.tensor import DType
from cannery.measure.build import write
from cannery.ops.elementwise import Relu
from cannery.ops.quantized.conv import QuantizedConv
from cannery.ops.quantized.matmul import QuantizedMatMul, QuantizedProduct
from cannery.ops.quantized.scale import Quantize
from cannery.passes import run_passes
from cannery.target.compiler import private_flags
from execution.test_budgets import COMPILER
from needs import missing, need_runner, need_toolchain
from nets.net_bench import make_net_source
from ops.cases import Net

RELU = (Relu(),)
ONE = ((1, 1), (1, 1))

#: The layer, the shapes of its input and of its weights.
LAYERS: dict[str, tuple[QuantizedProduct, tuple[int, ...], tuple[int, ...]]] = {
    "3x3": (QuantizedConv(RELU, bound=127, dtype=DType.INT8, pads=ONE),
            (1, 32, 32, 16), (3, 3, 16, 16)),
    "1x1": (QuantizedConv(RELU, bound=127, dtype=DType.INT8), (1, 25, 5, 64), (1, 1, 64, 64)),
    "dense": (QuantizedMatMul(RELU, bound=127, dtype=DType.INT8), (1, 640), (640, 128)),
    "depthwise": (QuantizedConv(RELU, bound=127, dtype=DType.INT8, pads=ONE, depthwise=True),
                  (1, 25, 5, 64), (3, 3, 1, 64)),
    "first": (QuantizedConv(RELU, bound=127, dtype=DType.INT8, strides=(2, 2)),
              (1, 19, 19, 1), (5, 5, 1, 8)),
}  # fmt: skip

#: Instructions per multiply-accumulate: of bytes within +-127, of any.
BUDGETS = {"3x3": (1.02, 1.11), "1x1": (1.06, 1.18), "dense": (0.95, 1.20), "depthwise": (2.8, 2.8)}

#: The same with Helium.
HELIUM = {"3x3": 0.16, "1x1": 0.19, "dense": 0.155, "depthwise": 0.785}

#: The same of any bytes on cores that multiply number by number.
PLAIN = {
    "cortex-m3": {"3x3": 2.40, "1x1": 2.53, "dense": 2.45, "depthwise": 3.35},
    "cortex-m0plus": {"3x3": 5.6, "1x1": 5.9, "dense": 5.4, "depthwise": 9.1},
    "riscv32imc": {"3x3": 3.41, "1x1": 3.06, "dense": 3.45, "depthwise": 4.5},
}


def layer(name: str, *, full: bool) -> Graph:
    """The layer alone, after the one that makes bytes of floats where they are not `full`."""
    net = Net(3)
    op, shape, kernel = LAYERS[name]
    x = net.input("x", shape, DType.INT8 if full else DType.FLOAT32)
    if not full:
        x = net.node(Quantize(127, DType.INT8), [x, net.constant("factor", np.float32(40.0))])
    w = np.clip(np.rint(net.rng.standard_normal(kernel) * 40.0), -127, 127).astype(np.int8)
    scale = net.rng.uniform(0.5, 2.0, kernel[-1]) * 1e-3
    bias = net.rng.standard_normal(kernel[-1]) * 20.0
    constants = [("w", w), ("scale", scale), ("bias", bias)]
    return net.graph(net.node(op, [x, *(net.constant(*c) for c in constants)]))


@pytest.mark.parametrize("full", [False, True], ids=["within", "full"])
@pytest.mark.parametrize("name", BUDGETS)
@pytest.mark.parametrize("target", ["cortex-m4", "cortex-m7"])
def test_layers_keep_their_budgets(target: str, name: str, full: bool) -> None:
    assert per_mac(target, name, full=full) <= BUDGETS[name][full]


@pytest.mark.parametrize("name", HELIUM)
def test_layers_keep_their_budgets_with_helium(name: str) -> None:
    assert per_mac("cortex-m55", name, full=True) <= HELIUM[name]


@pytest.mark.parametrize("name", BUDGETS)
@pytest.mark.parametrize("target", PLAIN)
def test_layers_of_plain_cores_keep_their_budgets(target: str, name: str) -> None:
    assert per_mac(target, name, full=True) <= PLAIN[target][name]


def per_mac(target: str, name: str, *, full: bool) -> float:
    """Instructions for each multiply-accumulate of a layer."""
    toolchain = need_toolchain(target)
    need_runner(toolchain, strict=True)
    if not toolchain.compiler.version.startswith(COMPILER):
        pytest.skip(f"budgets are those of {COMPILER}x")
    graph = run_passes(layer(name, full=full))
    source = make_net_source(graph, toolchain.target.isa, "net")
    (sample,) = seeded_samples(graph, 1)
    try:
        files = output_files(source, "test")
        found = count_network(source, files, toolchain, toolchain.emulator(), sample)
    except ToolchainError as error:
        if "takes no plugins" in str(error):
            missing(str(error))
        raise
    counted = max(found.steps, key=lambda step: step.macs)
    return counted.mix.instructions / counted.macs


@pytest.mark.parametrize("flags", ["-O1", "-O3", "-Os -g", "-fno-omit-frame-pointer", "-ffixed-r9"])
@pytest.mark.parametrize("target", ["cortex-m4", "cortex-m33"])
def test_tiles_have_registers_whatever_the_flags(target: str, flags: str, tmp_path: Path) -> None:
    toolchain = need_toolchain(target)
    isa = toolchain.target.isa
    source = make_net_source(run_passes(layer("first", full=False)), isa, "net")
    write(tmp_path, output_files(source, "test"))
    private = private_flags(toolchain.compiler.kind, isa)
    toolchain.compiler.compile(
        tmp_path / "net.c", tmp_path / "net.o",
        [*toolchain.target.flags, "-O2", *private, *flags.split()], [tmp_path],
    )  # fmt: skip
