"""Whether a quantised network has the bits of the references."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from cannery.execution.program import network_program
from cannery.execution.samples import read_samples
from cannery.ir.evaluate import evaluate
from cannery.options import make_options
from cannery.pipeline import compile_model
from cannery.target.toolchain import find_toolchain
from needs import need_runner
from quantization.networks import integers


def assert_every_bit(file: Path, calibration: Path, dtype: str, isa: str) -> None:
    """Compiles for an instruction set and runs all samples, with an emulator where need be."""
    options = make_options(file, integers(calibration, dtype, isa=(isa,)))
    compiled = compile_model(options)
    toolchain = find_toolchain(options)
    runner = need_runner(toolchain)
    graph = compiled.source.graph
    samples = read_samples(calibration, {name: graph.types[name] for name in graph.inputs})
    with network_program(compiled.source, compiled.files, toolchain, samples) as program:
        found = program.run(runner)
    assert len(found) == len(samples) > 0
    for sample, outputs in zip(samples, found, strict=True):
        for name, expected in evaluate(graph, sample).items():
            assert outputs[name].tobytes() == expected.astype(np.float32).tobytes()
