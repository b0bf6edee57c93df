"""Small networks as C, and C programs around them, for the tests of emission."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from cannery.emit.files import output_files
from cannery.ir.graph import Graph, GraphBuilder
from cannery.ir.tensor import DType
from cannery.ops.conv.op import Conv
from cannery.ops.elementwise.activations import Relu, Tanh
from cannery.ops.matmul.op import MatMul
from cannery.ops.max_pool.op import MaxPool
from cannery.ops.movement.op import Cast, Reshape
from cannery.passes import run_passes
from cannery.target.isa import isa
from needs import need_program
from nets.net_bench import make_net_source

WARNINGS = ("-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror")

#: Content by path.
Files = dict[str, bytes | str]

#: Compiler and the flags that make it read a file in a language.
LANGUAGES = {
    "c99 gcc": ("gcc", "-x", "c", "-std=c99"),
    "c99 clang": ("clang", "-x", "c", "-std=c99"),
    "c11 gcc": ("gcc", "-x", "c", "-std=c11"),
    "c++11 g++": ("g++", "-x", "c++", "-std=c++11"),
    "c++17 g++": ("g++", "-x", "c++", "-std=c++17"),
    "c++11 clang": ("clang", "-x", "c++", "-std=c++11"),
}


def network(seed: int = 1, dtype: DType = DType.FLOAT32) -> Graph:
    """A 7x6x3 `image` -> convolution, pooling, dense layer -> 3 `scores`."""
    rng = np.random.default_rng(seed)
    b = GraphBuilder("net")

    def weight(*shape: int) -> str:
        return b.constant("w", rng.standard_normal(shape).astype(np.float32))

    x = b.input("image", (1, 7, 6, 3), dtype)
    if dtype != DType.FLOAT32:
        x = b.node(Cast(DType.FLOAT32), [x], name="cast")
    conv = Conv((1, 1), ((1, 1), (1, 1)), (1, 1))
    x = b.node(conv, [x, weight(3, 3, 3, 5), weight(5)], name="conv")
    x = b.node(Relu(), [x], name="relu")
    x = b.node(MaxPool((2, 2), (2, 2), ((0, 0), (0, 0)), (1, 1)), [x], name="pool")
    x = b.node(Reshape((1, 45)), [x], name="flat")
    x = b.node(MatMul(), [x, weight(45, 3), weight(3)], name="dense")
    b.output(b.node(Tanh(), [x], name="scores"))
    return b.build()


def net_files(graph: Graph, name: str, isa_name: str = "generic") -> dict[str, bytes]:
    """The output folder of a network under a name."""
    source = make_net_source(run_passes(graph), isa(isa_name), name)
    return output_files(source, "test")


def write_all(folder: Path, files: Mapping[str, bytes | str]) -> None:
    """Write files, by their path below the folder."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)


def compile_file(folder: Path, source: str, language: str, flags: Sequence[str] = ()) -> Path:
    """The object of a file of the folder; any warning is a failure."""
    compiler, *standard = LANGUAGES[language]
    need_program(compiler)
    output = folder / f"{source}.o"
    command = [compiler, *standard, *WARNINGS, *flags, "-I.", "-c", source, "-o", str(output)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stderr}"
    return output


def link(folder: Path, objects: Sequence[Path], name: str = "program") -> Path:
    """An executable of objects and archives."""
    output = folder / name
    command = [need_program("g++"), *map(str, objects), "-o", str(output), "-lm"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return output


def run(program: Path) -> bytes:
    """What a program writes; it must succeed."""
    return subprocess.run([str(program)], capture_output=True, check=True).stdout


def build(
    folder: Path, files: Mapping[str, bytes | str], language: str = "c99 gcc",
    flags: Sequence[str] = ("-O1",),
) -> Path:  # fmt: skip
    """The executable of all C files among `files`."""
    write_all(folder, files)
    sources = [name for name in files if name.endswith(".c")]
    return link(folder, [compile_file(folder, source, language, flags) for source in sources])
