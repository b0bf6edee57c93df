"""Activations by lookup tables in float networks: generated code is as far off as they say."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cannery.emit.files import output_files
from cannery.execution.program import network_program
from cannery.execution.samples import errors_by_output, reference_outputs
from cannery.measure.trial import random_inputs
from cannery.ops.elementwise import Sigmoid, Tanh
from cannery.ops.shared.lookup import table_of
from cannery.options import make_options
from cannery.pipeline import choose, generate, import_graph
from cannery.schedule.schedule import MATH
from cannery.target.toolchain import find_toolchain
from frontends.keras_files import chain, image, write_h5
from needs import need_runner
from quantization.networks import F, H, T, dense, lstm


@pytest.mark.parametrize("isa", ["generic", "avx2", "neon32"])
def test_networks_with_tables(tmp_path: Path, isa: str) -> None:
    file = write_h5(
        tmp_path / "net.h5", chain(image("x", T, F), lstm("one", F), dense("y", H, 9, "tanh"))
    )
    options = make_options(file, {"isa": (isa,)})
    toolchain = find_toolchain(options)
    runner, graph = need_runner(toolchain), import_graph(options)
    samples = [random_inputs(graph, seed) for seed in range(2)]
    chosen = choose(graph, toolchain.target, options)
    errors = {}
    for form in (None, "lut64", "lut1024"):
        choices = [
            replace(choice, params={**choice.params, MATH: form} if form else choice.params)
            for choice in chosen.choices
        ]
        source = generate(graph, toolchain.target.isa, replace(chosen, choices=choices), options)
        files = output_files(source, "test")
        with network_program(source, files, toolchain, samples) as program:
            found = program.run(runner)
        (errors[form],) = errors_by_output(found, reference_outputs(graph, samples)).values()
        if form:
            assert "_by_table(" in files["net.c"].decode()
            tables = [table_of(op, form) for op in (Tanh(), Sigmoid())]
            worst = max(table.error for table in tables if table)
            assert 1e-6 < errors[form] < 6 * worst
    assert errors[None] < 1e-6
    assert np.all(np.diff([errors["lut64"], errors["lut1024"], errors[None]]) < 0)
