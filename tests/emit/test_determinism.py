"""The same model gives the same bytes, whatever Python's hashes are."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import cannery
from cannery.emit.source import model_hash
from emit.c_programs import network
from frontends.keras_files import write_h5
from networks import robot_detector, segmenter

COMMAND = "import sys; from cannery.cli import main; sys.exit(main())"


def compile_in_a_process(model: Path, folder: Path, isa: str, seed: str) -> dict[str, str]:
    """Digests of all files that a process with this hash seed writes."""
    package = str(Path(cannery.__file__).parents[1])
    path = os.pathsep.join([package, os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": path}
    arguments = ["compile", str(model), "-o", str(folder), "--isa", isa]
    subprocess.run(
        [sys.executable, "-c", COMMAND, *arguments], env=environment, check=True,
        capture_output=True, text=True,
    )  # fmt: skip
    files = sorted(p for p in folder.rglob("*") if p.is_file())
    return {str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}


def test_same_bytes_in_every_process(tmp_path: Path) -> None:
    for model, isa in ((robot_detector(), "avx2"), (segmenter(), "neon64")):
        file = write_h5(tmp_path / f"{model.name}.h5", model)
        first = compile_in_a_process(file, tmp_path / f"{model.name}_1", isa, "1")
        second = compile_in_a_process(file, tmp_path / f"{model.name}_2", isa, "2")
        assert f"{model.name}.c" in first
        assert first == second


def test_the_hash_is_that_of_graph_and_weights() -> None:
    graph = network()
    known = model_hash(graph)
    assert model_hash(network()) == known
    for name, array in graph.constants.items():
        changed = array.copy()
        changed.flat[-1] += 1e-3
        constants = {**graph.constants, name: changed}
        assert model_hash(replace(graph, constants=constants)) != known
    assert (
        model_hash(replace(graph, nodes=graph.nodes[:-1], outputs=graph.nodes[-2].outputs)) != known
    )
